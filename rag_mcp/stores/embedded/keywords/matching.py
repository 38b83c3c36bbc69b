"""What a plan asks of one class index, and what the passages have of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
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


def _matches(index: ClassIndex, probes: Sequence[Any | None], ids: Collection[str]) -> dict[str, set[int]]:
    """Which probes each id meets. Probes are given powers of two as constant scores: a 32-bit float adds 22 of them
    without loss, so one query answers for all of them.
    """
    met: dict[str, set[int]] = {key: set() for key in ids}
    present = [(number, probe) for number, probe in enumerate(probes) if probe is not None]
    for at in range(0, len(present), _MASK_BITS):
        batch = present[at : at + _MASK_BITS]
        scored = [index.constant(probe, float(1 << bit)) for bit, (_, probe) in enumerate(batch)]
        for key, score in index.among(scored, ids).items():
            mask = int(score)
            met[key] |= {number for bit, (number, _) in enumerate(batch) if mask >> bit & 1}
    return met


def evidence_of(plan: Plan, index: ClassIndex, ids: Collection[str]) -> dict[str, KeywordEvidence]:
    """For those of the ids that this index has."""
    ids = {key for key in ids if index.frequency("id", key)}
    if not ids:
        return {}
    scores = index.among(_score_queries(plan, index), ids)
    units = plan.units
    exacts = [_match_query(unit, index, MATCHED) for unit in units if unit.exact]
    exacts += [phrase for bonus in plan.bonuses if bonus.exact for phrase in _phrases(bonus, index, MATCHED)]
    places: tuple[Sequence[str], ...] = (MATCHED, ("lead",), ("head",))
    probes = [_match_query(unit, index, fields) for fields in places for unit in units] + exacts
    met = _matches(index, probes, ids)
    shares = Shares(units)
    evidence = {}
    for key in ids:
        anywhere, lead, head = (
            {unit.label for number, unit in enumerate(units, start=at * len(units)) if number in met[key]}
            for at in range(len(places))
        )
        exact = any(number >= len(places) * len(units) for number in met[key])
        says_something = exact or not plan.common  # that "how" and "to" stand somewhere says nothing
        evidence[key] = KeywordEvidence(
            bm25=rounded(scores.get(key, 0.0)),
            term_share=shares.of(anywhere) if says_something else 0.0,
            title_share=shares.of(lead) if says_something else 0.0,
            exact=exact,
            matched=tuple(unit.label for unit in units if unit.label in anywhere),
            by_head=bool(head),
        )
    return evidence
