"""Passages of the next generation: their rows, their lists in segments of their own, and the counts of each class."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_mcp.models import Chunk, SourceClass
from rag_mcp.stores.embedded.keywords.stemmer import Stemmer
from rag_mcp.stores.passage import dump, terms_of, values_of
from rag_mcp.stores.postgres.copying import copy_rows
from rag_mcp.stores.postgres.lists import ListBuilder, segments_to_merge, unpacked
from rag_mcp.stores.postgres.words import packed

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["PassageWriter"]

# Lists of so many passages are held in memory, about 2 kB for each.
_SEGMENT_DOCS = 40_000
_COLUMNS = ("class", "build", "no", "added", "id", "language", "body_terms", "lead_terms", "payload", "words")


@dataclass(slots=True)
class _Plane:
    docs: int = 0
    numbers: int = 0
    body_terms: int = 0
    lead_terms: int = 0
    languages: Counter[str] = field(default_factory=Counter)

    def count(self, sign: int, language: str, body_terms: int, lead_terms: int) -> None:
        self.docs += sign
        self.body_terms += sign * body_terms
        self.lead_terms += sign * lead_terms
        self.languages[language] += sign


class PassageWriter:
    """Writes generation ``number`` of ``build`` in the caller's transaction, upon ``before`` if there is one."""

    def __init__(self, connection: Connection[Any], number: int, build: int, before: int | None) -> None:
        self._connection = connection
        self._number = number
        self._build = build
        self._stem = Stemmer()
        self._planes = {each: _Plane() for each in SourceClass}
        for name, docs, numbers, body, lead, languages in self._connection.execute(
            "select class, docs, numbers, body_terms, lead_terms, languages from plane where generation = %s", (before,)
        ):
            self._planes[SourceClass(name)] = _Plane(docs, numbers, body, lead, Counter(json.loads(languages)))

    def remove(self, source_class: SourceClass, ids: Collection[str]) -> None:
        removed = self._connection.execute(
            "with found as (update chunk set removed = %(number)s where class = %(class)s and build = %(build)s"
            " and removed is null and id = any(%(ids)s) returning no, language, body_terms, lead_terms),"
            " noted as (insert into gone select %(class)s, %(build)s, no, %(number)s from found)"
            " select language, body_terms, lead_terms from found",
            {"number": self._number, "class": source_class.value, "build": self._build, "ids": sorted(ids)},
        )
        for language, body_terms, lead_terms in removed:
            self._planes[source_class].count(-1, language, body_terms, lead_terms)

    def add(self, source_class: SourceClass, chunks: Iterable[Chunk]) -> None:
        """In segments: the lists of one are held in memory until its passages are written."""
        left = iter(chunks)
        while first := list(islice(left, 1)):
            lists = ListBuilder()
            part = chain(first, islice(left, _SEGMENT_DOCS - 1))
            copy_rows(self._connection, "chunk", _COLUMNS, self._rows(source_class, part, lists))
            self._write_segment(source_class, lists.docs, lists.lists())

    def merge(self) -> None:
        """Make few segments of many, and drop what is gone from those that hold much of it."""
        for source_class in SourceClass:
            docs = dict(
                self._connection.execute(
                    "select seg, docs from segment where class = %s and build = %s and removed is null",
                    (source_class.value, self._build),
                ).fetchall()
            )
            gone = sum(docs.values()) - self._planes[source_class].docs
            if chosen := segments_to_merge(docs, gone):
                self._merge(source_class, chosen)

    def write_planes(self) -> None:
        for source_class, plane in self._planes.items():
            if plane.numbers:
                languages = json.dumps({name: count for name, count in plane.languages.items() if count})
                values = (plane.docs, plane.numbers, plane.body_terms, plane.lead_terms, languages)
                self._connection.execute(
                    "insert into plane (class, generation, docs, numbers, body_terms, lead_terms, languages)"
                    " values (%s, %s, %s, %s, %s, %s, %s)",
                    (source_class.value, self._number, *values),
                )

    def _rows(
        self, source_class: SourceClass, chunks: Iterable[Chunk], lists: ListBuilder
    ) -> Iterator[tuple[int | str | bytes, ...]]:
        plane = self._planes[source_class]
        for chunk in chunks:
            terms = terms_of(chunk, self._stem)
            counts = (len(terms.text) + len(terms.lead), len(terms.lead))
            no, plane.numbers = plane.numbers, plane.numbers + 1
            plane.count(1, terms.language, *counts)
            lists.add(no, terms, values_of(chunk))
            own = (source_class.value, self._build, no, self._number, chunk.id, terms.language)
            yield (*own, *counts, dump(chunk), packed(terms))

    def _write_segment(self, source_class: SourceClass, docs: int, lists: Iterable[tuple[str, bytes]]) -> None:
        seg = self._next_segment(source_class)
        rows = ((source_class.value, seg, term, data) for term, data in lists)
        copy_rows(self._connection, "post", ("class", "seg", "term", "data"), rows)
        self._connection.execute(
            "insert into segment (class, seg, build, added, docs) values (%s, %s, %s, %s, %s)",
            (source_class.value, seg, self._build, self._number, docs),
        )

    def _next_segment(self, source_class: SourceClass) -> int:
        query = "select coalesce(max(seg), 0) + 1 from segment where class = %s"
        row = self._connection.execute(query, (source_class.value,)).fetchone()
        return int(row[0]) if row is not None else 1

    def _merge(self, source_class: SourceClass, chosen: list[int]) -> None:
        name = source_class.value
        gone = np.array(
            self._connection.execute(
                "select no from gone where class = %s and build = %s order by no", (name, self._build)
            ).fetchall(),
            dtype=np.int64,
        ).ravel()
        every: set[int] = set()

        def merged() -> Iterator[tuple[str, bytes]]:
            with self._connection.cursor(name="merged") as cursor:
                cursor.itersize = 5_000
                cursor.execute(
                    "select term, data from post where class = %s and seg = any(%s) order by term, seg", (name, chosen)
                )
                for term, rows in groupby(cursor, key=itemgetter(0)):
                    records = unpacked([data for _, data in rows], gone)
                    every.update(records["no"].tolist())
                    if records.size:
                        yield term, records.tobytes()

        lists = list(merged())  # no row can be read while others are copied in
        self._write_segment(source_class, len(every), lists)
        self._connection.execute(
            "update segment set removed = %s where class = %s and seg = any(%s)", (self._number, name, chosen)
        )
