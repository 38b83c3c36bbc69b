"""The BM25 of a plan over passages, and what each passage has of it. Sums and weights as the embedded store has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from rag_mcp.stores.base import KeywordEvidence
from rag_mcp.stores.postgres.lists import Array
from rag_mcp.stores.postgres.words import Words
from rag_mcp.text.question import HEAD_WEIGHT, LEAD_BOOST, MATCHED, PHRASE_WEIGHT, Bonus, Phrase, Plan, Shares, Unit

__all__ = ["Passages", "evidence_of", "meeting", "rounded", "scores_of"]


class Passages(Protocol):
    """Some passages, numbered from 0: which have a term or a phrase (each once), and with which impact."""

    @property
    def size(self) -> int: ...

    def body(self, term: str) -> tuple[Array, Array]: ...

    def lead(self, term: str) -> tuple[Array, Array]: ...

    def phrase(self, phrase: Phrase) -> tuple[Array, Array]: ...

    def has(self, field: str, term: str) -> Array: ...

    def has_phrase(self, field: str, phrase: Phrase) -> Array: ...


def scores_of(plan: Plan, passages: Passages) -> Array:
    """The score of each; an upper bound where ``passages`` only know bounds of their phrases."""
    total = np.zeros(passages.size)
    for unit in plan.units:
        weight = unit.idf * unit.weight
        ways = [_times(weight, passages.body(term)) for term in unit.variants]
        ways += [_times(PHRASE_WEIGHT * weight, passages.phrase(phrase)) for phrase in unit.phrases]
        ways += [_constant(HEAD_WEIGHT * weight, where) for where in _met(unit, passages, ("head",))]
        _add(total, ways)
        _add(total, [_times(LEAD_BOOST * weight, passages.lead(term)) for term in unit.variants])
    for bonus in plan.bonuses:
        ways = [_times(bonus.idf, passages.phrase(phrase)) for phrase in bonus.phrases]
        ways += [_constant(HEAD_WEIGHT * bonus.idf, passages.has_phrase("head", phrase)) for phrase in bonus.phrases]
        _add(total, ways)
    return total


def rounded(scores: Array) -> Array:
    """Differences below this are noise: the order of addition may vary."""
    return np.round(scores, 4)


def _times(weight: float, found: tuple[Array, Array]) -> tuple[Array, Array]:
    return found[0], weight * found[1]


def _constant(score: float, where: Array) -> tuple[Array, Array]:
    return where, np.full(where.size, score)


def _add(total: Array, ways: Sequence[tuple[Array, Array]]) -> None:
    """Add to each passage the best of the ways it is met."""
    ways = [way for way in ways if way[0].size]
    if len(ways) == 1:
        total[ways[0][0]] += ways[0][1]
    elif ways:
        best = np.zeros(total.size)
        for where, scores in ways:
            best[where] = np.maximum(best[where], scores)
        total += best


def meeting(unit: Unit, passages: Passages, fields: Sequence[str] = MATCHED) -> Array:
    """Which passages have the unit in one of these fields."""
    return _union(_met(unit, passages, fields))


def _met(asked: Unit | Bonus, passages: Passages, fields: Sequence[str]) -> list[Array]:
    terms = asked.variants if isinstance(asked, Unit) else ()
    found = [passages.has(field, term) for field in fields for term in terms]
    return found + [passages.has_phrase(field, phrase) for field in fields for phrase in asked.phrases]


def _union(found: Iterable[Array]) -> Array:
    some = [each for each in found if each.size]
    return np.unique(np.concatenate(some)) if some else np.zeros(0, np.int64)


def evidence_of(plan: Plan, ids: Sequence[str], words: Words) -> dict[str, KeywordEvidence]:
    """For the passages of ``words``, whose ids are given in their order."""
    scores = rounded(scores_of(plan, words))
    places = [
        [set(meeting(unit, words, fields).tolist()) for unit in plan.units]
        for fields in (MATCHED, ("lead",), ("head",))
    ]
    exact = {no for unit, met in zip(plan.units, places[0], strict=True) if unit.exact for no in met}
    exact |= set(_union(each for b in plan.bonuses if b.exact for each in _met(b, words, MATCHED)).tolist())
    shares = Shares(plan.units)
    labels = [unit.label for unit in plan.units]
    evidence = {}
    for no, key in enumerate(ids):
        anywhere, lead, head = (
            {label for label, met in zip(labels, place, strict=True) if no in met} for place in places
        )
        says_something = no in exact or not plan.common  # that "how" and "to" stand somewhere says nothing
        evidence[key] = KeywordEvidence(
            bm25=float(scores[no]),
            term_share=shares.of(anywhere) if says_something else 0.0,
            title_share=shares.of(lead) if says_something else 0.0,
            exact=no in exact,
            matched=tuple(label for label in labels if label in anywhere),
            by_head=bool(head),
        )
    return evidence
