"""The inverted file of one generation: the lists of a question's terms, fetched in one statement and kept a while."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping

import numpy as np

from rag_mcp.models import SourceClass
from rag_mcp.stores.base import PassageFilter
from rag_mcp.stores.passage import conditions, raw
from rag_mcp.stores.postgres.connect import Database
from rag_mcp.stores.postgres.lists import ALL, HEAD, RECORD, Array, impact, reserved, unpacked
from rag_mcp.stores.postgres.state import State
from rag_mcp.text.question import Phrase

__all__ = ["ClassLists", "Lists"]

_KEPT_BYTES = 64_000_000
_KEPT_BEGINNINGS = 4_096
_NONE = np.zeros(0, np.int64)
_LAST = "\U0010ffff"


class Lists:
    """Lists by class and term; thread-safe, as each is put in place whole."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[SourceClass, str], Array] = OrderedDict()
        self._bytes = 0
        self._beginnings: dict[tuple[SourceClass, str, int], list[tuple[str, int]]] = {}

    def get(self, state: State, term: str) -> Array:
        """The records of a term, ascending by number."""
        key = (state.source_class, term)
        with self._lock:
            known = self._kept.get(key)
            if known is not None:
                self._kept.move_to_end(key)
                return known
        return self._fetched((state,), (term,))[key]

    def load(self, states: Collection[State], terms: Collection[str]) -> None:
        """Have those that are not kept fetched at once."""
        with self._lock:
            missing = [term for term in terms if any((each.source_class, term) not in self._kept for each in states)]
        if missing:
            self._fetched(states, missing)

    def _fetched(self, states: Collection[State], terms: Collection[str]) -> dict[tuple[SourceClass, str], Array]:
        parts: dict[tuple[SourceClass, str], list[bytes]] = {}
        query = "(select class, term, data from post where {} and term = any(%(terms)s) order by seg)"
        for name, term, data in self._database.rows(_of_each(states, query), {"terms": sorted(terms)}):
            parts.setdefault((SourceClass(name), term), []).append(data)
        found = {
            (state.source_class, term): _ascending(unpacked(parts.get((state.source_class, term), ()), state.gone))
            for state in states
            for term in terms
        }
        self._keep(found)
        return found

    def beginnings(
        self, states: Collection[State], prefix: str, limit: int
    ) -> dict[SourceClass, list[tuple[str, int]]]:
        """(term, frequency) of at most ``limit`` terms with that beginning, by class."""
        keys = {state.source_class: (state.source_class, prefix, limit) for state in states}
        known = self._beginnings
        if all(key in known for key in keys.values()):
            return {each: known[key] for each, key in keys.items()}
        found: dict[SourceClass, list[tuple[str, int]]] = {each: [] for each in keys}
        query = (
            "(select class, term, sum(length(data)) from post where {} and term >= %(first)s and term < %(last)s"
            " group by class, term order by term limit %(limit)s)"
        )
        values = {"first": prefix, "last": prefix + _LAST, "limit": limit}
        for name, term, length in self._database.rows(_of_each(states, query), values):
            found[SourceClass(name)].append((term, int(length) // RECORD.itemsize))
        if len(known) > _KEPT_BEGINNINGS:
            self._beginnings = {}
        self._beginnings.update({keys[each]: rows for each, rows in found.items()})
        return found

    def _keep(self, found: Mapping[tuple[SourceClass, str], Array]) -> None:
        with self._lock:
            for key, records in found.items():
                if key not in self._kept:
                    self._kept[key] = records
                    self._bytes += records.nbytes + 100
            while self._bytes > _KEPT_BYTES and self._kept:
                self._bytes -= self._kept.popitem(last=False)[1].nbytes + 100


def _of_each(states: Collection[State], query: str) -> str:
    """The query for the lists of each class: the class stands in it, so that only its partition is looked at."""
    return " union all ".join(
        query.format(f"class = '{each.source_class.value}' and seg = any('{{{','.join(map(str, each.segments))}}}')")
        for each in states
    )


def _ascending(records: Array) -> Array:
    """A merged segment lies between others."""
    numbers = records["no"]
    return records if (numbers[1:] > numbers[:-1]).all() else records[np.argsort(numbers, kind="stable")]


class ClassLists:
    """One class as a question's planner counts it, and as its passages are scored: by their number within the class.

    Of a phrase the lists only tell which passages have all its terms: its impact is a bound.
    """

    def __init__(self, lists: Lists, state: State, asked: Collection[State]) -> None:
        """``asked`` are all classes of the question: what one of them needs, all do."""
        self.state = state
        self._lists = lists
        self._asked = asked
        self.documents = state.docs
        self.languages = state.languages

    # --- statistics ---

    def expect(self, terms: Collection[str]) -> None:
        self._lists.load(self._asked, terms)

    def frequency(self, field: str, term: str) -> int:
        return int(self.has(field, term).size)

    def prefixed(self, prefix: str, limit: int) -> list[tuple[str, int]]:
        """Most frequent first, ties by term."""
        found = self._lists.beginnings(self._asked, prefix, limit)[self.state.source_class]
        return sorted(found, key=lambda pair: (-pair[1], pair[0]))

    # --- passages ---

    @property
    def size(self) -> int:
        return self.state.numbers

    def body(self, term: str) -> tuple[Array, Array]:
        found = self._lists.get(self.state, term)
        found = found[found["tf"] > 0]
        return found["no"], impact(found["tf"], found["length"], self.state.body_average)

    def lead(self, term: str) -> tuple[Array, Array]:
        found = self._lists.get(self.state, term)
        counts = found["lead"] & (HEAD - 1)
        found, counts = found[counts > 0], counts[counts > 0]
        return found["no"], impact(counts, found["lead_length"], self.state.lead_average)

    def phrase(self, phrase: Phrase) -> tuple[Array, Array]:
        where = self.has_phrase("body", phrase)
        if not where.size:
            return where, np.zeros(0)
        best = np.full(where.size, np.inf)
        for _, term in phrase:
            numbers, impacts = self.body(term)
            best = np.minimum(best, impacts[np.searchsorted(numbers, where)])
        return where, best

    def has(self, field: str, term: str) -> Array:
        found = self._lists.get(self.state, term)
        within = {"body": found["tf"] > 0, "lead": found["lead"] & (HEAD - 1) > 0, "head": found["lead"] & HEAD > 0}
        numbers: Array = found["no"][within[field]]
        return numbers

    def has_phrase(self, field: str, phrase: Phrase) -> Array:
        """A passage with a term 255 times may have the phrase more often than can be told: it counts as that."""
        found: Array | None = None
        for _, term in phrase:
            numbers = self.has(field, term)
            found = numbers if found is None else np.intersect1d(found, numbers, assume_unique=True)
        return _NONE if found is None else found

    # --- filters ---

    def passing(self, filters: PassageFilter) -> Array:
        """Numbers of the passages that pass."""
        found: Array = self._lists.get(self.state, ALL)["no"]
        asked = [[reserved(field, value) for value in values] for field, values in conditions(filters)]
        left_out = [reserved("source", raw(source)) for source in filters.left_out]
        self.expect({term for terms in (*asked, left_out) for term in terms})
        for terms in asked:
            found = np.intersect1d(found, self._any(terms))
        return np.setdiff1d(found, self._any(left_out)) if left_out else found

    def _any(self, terms: Collection[str]) -> Array:
        some = [self._lists.get(self.state, term)["no"] for term in terms]
        return np.unique(np.concatenate(some)) if some else _NONE
