"""One class index as it was when opened: its statistics, its queries, its passages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from rag_mcp.models import Chunk
from rag_mcp.stores.base import PassageFilter
from rag_mcp.stores.embedded.keywords.folder import segment_sizes
from rag_mcp.stores.passage import conditions, load, raw
from rag_mcp.text.question import MATCHED, Phrase, idf

__all__ = ["ClassIndex", "rounded"]

_MAX_TIES = 4_096
_KEPT_CHUNKS = 2_048
# Passages that Tantivy goes through in one go when any of several queries may match.
_WINDOW = 4_096


class ClassIndex:
    """An immutable snapshot of one class index. All caches only ever gain facts that can't change."""

    def __init__(self, folder: Path) -> None:
        import tantivy

        self.folder = folder
        self.tantivy = tantivy
        index = tantivy.Index.open(str(folder))
        self.schema = index.schema
        self.searcher = index.searcher()
        self.documents = sum(segment_sizes(folder))
        self.live = self.searcher.num_docs
        self.languages: dict[str, int] = dict(self.searcher.terms_with_prefix("language", ""))
        self._chunks: dict[str, Chunk] = {}
        self._ids: dict[tuple[int, int], str] = {}
        self._frequencies: dict[tuple[str, str], int] = {}

    def expect(self, terms: Collection[str]) -> None:
        """Each costs as little by itself."""

    def frequency(self, field: str, term: str) -> int:
        key = (field, term)
        frequency = self._frequencies.get(key)
        if frequency is None:
            if len(self._frequencies) > 100_000:
                self._frequencies = {}
            frequency = self._frequencies[key] = int(self.searcher.doc_freq(field, term))
        return frequency

    def prefixed(self, prefix: str, limit: int) -> list[tuple[str, int]]:
        """Most frequent first, ties by term; looks at a bounded number of terms of each field."""
        counts: dict[str, int] = {}
        for field in MATCHED:
            for term, count in self.searcher.terms_with_prefix(field, prefix, limit=limit):
                counts[term] = max(count, counts.get(term, 0))
        return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))

    def term(self, field: str, term: str) -> Any:
        return self.tantivy.Query.term_query(self.schema, field, term, "freq")

    def weighed(self, field: str, term: str, weight: float) -> Any:
        """A term query whose IDF counts as ``weight`` instead of what this index alone would give."""
        local = idf(self.documents, self.frequency(field, term))
        return self.tantivy.Query.boost_query(self.term(field, term), weight / local)

    def phrase(self, field: str, terms: Phrase) -> Any:
        return self.tantivy.Query.phrase_query(self.schema, field, list(terms))

    def known_phrases(self, field: str, phrases: Iterable[Phrase]) -> list[Phrase]:
        return [phrase for phrase in phrases if all(self.frequency(field, term) for _, term in phrase)]

    def weighed_phrase(self, terms: Phrase, weight: float) -> Any:
        local = sum(idf(self.documents, self.frequency("body", term)) for _, term in terms)
        return self.tantivy.Query.boost_query(self.phrase("body", terms), weight / local)

    def best_of(self, queries: Sequence[Any]) -> Any:
        return queries[0] if len(queries) == 1 else self.tantivy.Query.disjunction_max_query(list(queries), 0.0)

    def any_of(self, queries: Sequence[Any]) -> Any:
        should = self.tantivy.Occur.Should
        return self.tantivy.Query.boolean_query([(should, query) for query in queries])

    def constant(self, query: Any, score: float) -> Any:
        return self.tantivy.Query.const_score_query(query, score)

    def restricted(self, query: Any, filters: PassageFilter) -> Any:
        """The same scores, only where the filters hold."""
        occur = self.tantivy.Occur
        allowed = (self.one_of(field, values) for field, values in conditions(filters))
        clauses = [(occur.Must, self.constant(condition, 0.0)) for condition in allowed]
        if filters.left_out:
            clauses.append((occur.MustNot, self.one_of("source", set(map(raw, filters.left_out)))))
        return self.tantivy.Query.boolean_query([(occur.Must, query), *clauses]) if clauses else query

    def among(self, scored: Sequence[Any], ids: Collection[str]) -> dict[str, float]:
        """Sum of the scores for each of the ids, 0.0 for those that match nothing."""
        must, should = self.tantivy.Occur.Must, self.tantivy.Occur.Should
        query = self.constant(self.with_ids(ids), 0.0)
        # Side by side, Tantivy runs through all that the queries match, window by window; one inside the other, each is
        # asked at these passages alone.
        steps = [[each] for each in scored] if self.documents > _WINDOW else [scored]
        for step in steps:
            query = self.tantivy.Query.boolean_query([(must, query), *((should, each) for each in step)])
        hits = self.searcher.search(query, max(1, len(ids)), False).hits
        return {self.id_at(address): score for score, address in hits}

    def with_ids(self, ids: Collection[str]) -> Any:
        """A query for each id: a set of terms, which is matched as an automaton, takes four times as long."""
        return self.any_of([self.tantivy.Query.term_query(self.schema, "id", key, "basic") for key in ids])

    def one_of(self, field: str, terms: Collection[str]) -> Any:
        return self.tantivy.Query.term_set_query(self.schema, field, sorted(terms))

    def everything(self) -> Any:
        return self.tantivy.Query.all_query()

    def top(self, query: Any, limit: int) -> list[tuple[str, float]]:
        """The best ``limit`` by score, equal scores by id: looks on until the score at the cut is passed."""
        most = max(1, min(self.documents, limit + _MAX_TIES))
        wanted = min(limit + 16, most)
        while True:
            hits = self.searcher.search(query, wanted, False).hits
            if len(hits) < wanted or wanted == most or rounded(hits[-1][0]) < rounded(hits[limit - 1][0]):
                break
            wanted = min(4 * wanted, most)
        ranked = sorted((-rounded(score), self.id_at(address)) for score, address in hits)
        return [(key, -score) for score, key in ranked[:limit]]

    def id_at(self, address: Any) -> str:
        key = (address.segment_ord, address.doc)
        id_ = self._ids.get(key)
        if id_ is None:
            id_ = self._ids[key] = str(self.searcher.doc(address)["id"][0])
        return id_

    def matching(self, filters: PassageFilter, limit: int) -> set[str] | None:
        """Of all passages that match; None when they are more than ``limit``."""
        hits = self.searcher.search(self.restricted(self.everything(), filters), limit + 1, False).hits
        return None if len(hits) > limit else {self.id_at(address) for _, address in hits}

    def some_ids(self, query: Any, limit: int) -> set[str]:
        """Of at most ``limit`` passages that match, in no order."""
        return {self.id_at(address) for _, address in self.searcher.search(query, limit, False).hits}

    def ids(self) -> set[str]:
        return {term for term, _ in self.searcher.terms_with_prefix("id", "", self.everything())}

    def chunks(self, ids: Collection[str]) -> dict[str, Chunk]:
        """The chunks with these ids; what comes up in one answer tends to come up in the next, so some are kept."""
        known = self._chunks  # another thread may put a new one in its place
        missing = [key for key in ids if key not in known]
        chunks = {key: known[key] for key in ids if key in known}
        query = self.constant(self.with_ids(missing), 1.0)
        for _, address in self.searcher.search(query, len(missing), False).hits if missing else ():
            chunk = load(self.searcher.doc(address)["payload"][0])
            chunks[chunk.id] = chunk
        if len(self._chunks) + len(chunks) > _KEPT_CHUNKS:
            self._chunks = {}
        self._chunks.update(chunks)
        return chunks


def rounded(score: float) -> float:
    """Scores are 32-bit sums whose order of addition may vary; differences below this are noise."""
    return round(score, 4)
