"""Asking the inverted file: candidates by their lists, then exactly, by the words of the few that can be among the best."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

import numpy as np

from rag_mcp.models import Chunk, SourceClass
from rag_mcp.stores.base import EVERYTHING, KeywordEvidence, KeywordHit, PassageFilter
from rag_mcp.stores.embedded.keywords.stemmer import Stemmer
from rag_mcp.stores.planned import PlannedReader
from rag_mcp.stores.postgres.inverted import ClassLists, Lists
from rag_mcp.stores.postgres.lists import Array
from rag_mcp.stores.postgres.rows import PassageRows
from rag_mcp.stores.postgres.scoring import evidence_of, meeting, rounded, scores_of
from rag_mcp.stores.postgres.state import State
from rag_mcp.stores.postgres.words import Words
from rag_mcp.text.question import MATCHED, Plan, Planner, Unit

__all__ = ["PostgresKeywords"]

# The best are looked for among so many first, then among twice as many, up to this many beyond those asked for.
_SLACK = 36
_MAX_LOOKED_AT = 4_096


class PostgresKeywords(PlannedReader):
    """One generation's lists and passages; any number of threads may share it."""

    def __init__(self, rows: PassageRows, lists: Lists, states: Mapping[SourceClass, State]) -> None:
        super().__init__()
        self._rows = rows
        self._lists = lists
        self._states = states
        self._stem = Stemmer()

    def search(
        self, text: str, classes: Collection[SourceClass], limit: int, *, filters: PassageFilter = EVERYTHING
    ) -> list[KeywordHit]:
        if limit < 1:
            return []
        plan = self._plan(text, classes)
        hits = [hit for lists in self._asked(classes) for hit in self._best(plan, lists, limit, filters)]
        return [KeywordHit(key, -score) for score, key in sorted(hits)[:limit]]

    def evidence(
        self,
        text: str,
        classes: Collection[SourceClass],
        ids: Collection[str],
        *,
        known: Mapping[str, float] = MappingProxyType({}),
    ) -> dict[str, KeywordEvidence]:
        """``known`` is not asked: what a passage meets is read from its words, and its score falls out of them."""
        plan = self._plan(text, classes)
        found: dict[str, KeywordEvidence] = {}
        for lists in self._asked(classes):
            words = self._rows.words(lists.state.source_class, ids)
            found.update(evidence_of(plan, list(words), _words_of(lists.state, words)))
        return found

    def holding(
        self,
        text: str,
        label: str,
        classes: Collection[SourceClass],
        limit: int,
        *,
        filters: PassageFilter = EVERYTHING,
    ) -> set[str]:
        (unit,) = (unit for unit in self._plan(text, classes).units if unit.label == label)
        return set().union(*(self._holding(unit, lists, limit, filters) for lists in self._asked(classes)))

    def matching_ids(self, classes: Collection[SourceClass], filters: PassageFilter, limit: int) -> set[str] | None:
        ids: set[str] = set()
        for lists in self._asked(classes):
            numbers = lists.passing(filters)
            if len(ids) + numbers.size > limit:
                return None
            ids.update(self._rows.ids(lists.state.source_class, numbers).values())
        return ids

    def size(self, classes: Collection[SourceClass]) -> int:
        return sum(lists.documents for lists in self._asked(classes))

    def fetch(self, classes: Collection[SourceClass], ids: Collection[str]) -> dict[str, Chunk]:
        return self._rows.chunks([lists.state.source_class for lists in self._asked(classes)], ids)

    # --- the best ---

    def _best(self, plan: Plan, lists: ClassLists, limit: int, filters: PassageFilter) -> Iterator[tuple[float, str]]:
        """(score below zero, id) of all that may be among the best ``limit``: looks on as long as the bound of the next
        reaches the score of the last."""
        bounds = scores_of(plan, lists)
        if not filters.empty:
            passing = np.zeros(bounds.size, dtype=bool)
            passing[lists.passing(filters)] = True
            bounds[~passing] = 0.0
        candidates = _descending(bounds, limit + _MAX_LOOKED_AT)
        found: list[tuple[float, str]] = []
        looked_at, step = 0, limit + _SLACK
        while looked_at < candidates.size:
            if len(found) >= limit and rounded(bounds[candidates[looked_at]]) < -sorted(found)[limit - 1][0]:
                break
            part = candidates[looked_at : looked_at + step]
            looked_at, step = looked_at + step, 2 * step
            known = self._rows.words_at(lists.state.source_class, part)
            scores = rounded(scores_of(plan, _words_of(lists.state, known)))
            found += [(-score, key) for key, score in zip(known, scores.tolist(), strict=True) if score > 0]
        yield from found

    def _holding(self, unit: Unit, lists: ClassLists, limit: int, filters: PassageFilter) -> set[str]:
        """Where the unit stands as a term the lists know it; of its phrases they know where they may be."""
        numbers = meeting(unit, lists)
        if not filters.empty:
            numbers = np.intersect1d(numbers, lists.passing(filters))
        found: set[str] = set()
        for start in range(0, numbers.size, limit):
            known = self._rows.words_at(lists.state.source_class, numbers[start : start + limit])
            keys = list(known)
            found.update(keys[no] for no in meeting(unit, _words_of(lists.state, known), MATCHED).tolist())
            if len(found) >= limit:
                break
        return set(sorted(found)[:limit])

    # --- parts ---

    def _make_plan(self, text: str, classes: Collection[SourceClass]) -> Plan:
        return Planner(self._asked(classes), self._stem).plan(text)

    def _asked(self, classes: Collection[SourceClass]) -> list[ClassLists]:
        """In a fixed order; a class without passages has no lists."""
        states = [self._states[each] for each in sorted(set(classes)) if each in self._states]
        return [ClassLists(self._lists, state, states) for state in states]


def _words_of(state: State, known: Mapping[str, bytes]) -> Words:
    return Words(list(known.values()), body_average=state.body_average, lead_average=state.lead_average)


def _descending(bounds: Array, most: int) -> Array:
    """Numbers of those above zero, the greatest bounds first."""
    above = np.flatnonzero(bounds > 0)
    if above.size > most:
        above = above[np.argpartition(-bounds[above], most)[:most]]
    return above[np.argsort(-bounds[above], kind="stable")]
