"""What a plan asks of one class index, and what the passages have of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from rag_mcp.stores.base import KeywordEvidence, PassageFilter
from rag_mcp.stores.embedded.keywords.index import ClassIndex, rounded
from rag_mcp.text.question import HEAD_WEIGHT, LEAD_BOOST, MATCHED, PHRASE_WEIGHT, Bonus, Plan, Shares, Unit

__all__ = ["best", "evidence_of", "meeting"]

_MASK_BITS = 22


def best(plan: Plan, index: ClassIndex, limit: int, filters: PassageFilter) -> list[tuple[str, float]]:
    """(id, score) of the passages that match best."""
    queries = _score_queries(plan, index)
    return index.top(index.restricted(index.any_of(queries), filters), limit) if queries else []


def meeting(unit: Unit, index: ClassIndex, limit: int, filters: PassageFilter) -> set[str]:
    match = _match_query(unit, index, MATCHED)
    return set() if match is None else index.some_ids(index.restricted(index.constant(match, 1.0), filters), limit)


def _score_queries(plan: Plan, index: ClassIndex) -> list[Any]:
    """One query for each unit and field plus the word-order bonuses; their sum is the BM25 score."""
    queries: list[Any] = []
    for unit in plan.units:
        weight = unit.idf * unit.weight
        ways = _weighed_terms(unit, index, "body", weight)
        for phrase in index.known_phrases("body", unit.phrases):
            ways.append(index.weighed_phrase(phrase, PHRASE_WEIGHT * weight))
        if (head := _match_query(unit, index, ("head",))) is not None:
            ways.append(index.constant(head, HEAD_WEIGHT * weight))
        leads = _weighed_terms(unit, index, "lead", LEAD_BOOST * weight)
        queries += [index.best_of(choices) for choices in (ways, leads) if choices]
    for bonus in plan.bonuses:
        ways = [index.weighed_phrase(phrase, bonus.idf) for phrase in index.known_phrases("body", bonus.phrases)]
        ways += [index.constant(phrase, HEAD_WEIGHT * bonus.idf) for phrase in _phrases(bonus, index, ("head",))]
        if ways:
            queries.append(index.best_of(ways))
    return queries


def _weighed_terms(unit: Unit, index: ClassIndex, field: str, weight: float) -> list[Any]:
    return [index.weighed(field, term, weight) for term in unit.variants if index.frequency(field, term)]


def _match_query(unit: Unit, index: ClassIndex, fields: Sequence[str]) -> Any | None:
    ways = [index.term(field, term) for field in fields for term in unit.variants if index.frequency(field, term)]
    ways += _phrases(unit, index, fields)
    return index.any_of(ways) if ways else None


def _phrases(asked: Unit | Bonus, index: ClassIndex, fields: Sequence[str]) -> list[Any]:
    return [index.phrase(field, phrase) for field in fields for phrase in index.known_phrases(field, asked.phrases)]


def _matches(index: ClassIndex, probes: Sequence[Any], ids: Collection[str]) -> dict[str, int]:
    """Which probes each id meets, a bit for each. Probes are given powers of two as constant scores: a 32-bit float adds
    22 of them without loss, so one query answers for all of them.
    """
    met = dict.fromkeys(ids, 0)
    for at in range(0, len(probes), _MASK_BITS):
        batch = probes[at : at + _MASK_BITS]
        scored = [index.constant(probe, float(1 << bit)) for bit, probe in enumerate(batch)]
        for key, score in index.among(scored, ids).items():
            met[key] |= int(score) << at
    return met


def evidence_of(
    plan: Plan, index: ClassIndex, ids: Collection[str], known: Mapping[str, float]
) -> dict[str, KeywordEvidence]:
    """For those of the ids that this index has; ``known`` are scores of some of them, as ``best`` gives them."""
    ids = {key for key in ids if index.frequency("id", key)}
    if not ids:
        return {}
    unknown = ids - known.keys()
    scores = index.among(_score_queries(plan, index), unknown) if unknown else {}
    scores = {key: rounded(score) for key, score in scores.items()} | dict(known)
    probes = list(_probes(plan, index))
    shares = Shares(plan.units)

    @cache  # many passages meet the same of a question
    def reading(mask: int) -> tuple[float, float, bool, tuple[str, ...], bool]:
        return _read(plan, shares, {told for bit, (told, _) in enumerate(probes) if mask >> bit & 1})

    masks = _matches(index, [probe for _, probe in probes], ids)
    return {key: KeywordEvidence(scores.get(key, 0.0), *reading(mask)) for key, mask in masks.items()}


def _probes(plan: Plan, index: ClassIndex) -> Iterator[tuple[tuple[str, str], Any]]:
    """What can be met of a question, by place and label, and the query for it."""
    for place, fields in (("anywhere", MATCHED), ("lead", ("lead",)), ("head", ("head",))):
        for unit in plan.units:
            if (query := _match_query(unit, index, fields)) is not None:
                yield (place, unit.label), query
    for bonus in plan.bonuses:
        for phrase in _phrases(bonus, index, MATCHED) if bonus.exact else ():
            yield ("exact", ""), phrase


def _read(
    plan: Plan, shares: Shares, met: Collection[tuple[str, str]]
) -> tuple[float, float, bool, tuple[str, ...], bool]:
    """The evidence of a passage that meets all this, but for its score."""
    anywhere, lead = ({label for at, label in met if at == place} for place in ("anywhere", "lead"))
    exact = ("exact", "") in met or any(unit.exact and unit.label in anywhere for unit in plan.units)
    says_something = exact or not plan.common  # that "how" and "to" stand somewhere says nothing
    return (
        shares.of(anywhere) if says_something else 0.0,
        shares.of(lead) if says_something else 0.0,
        exact,
        tuple(unit.label for unit in plan.units if unit.label in anywhere),
        any(place == "head" for place, _ in met),
    )
