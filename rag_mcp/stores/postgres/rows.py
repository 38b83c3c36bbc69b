"""The passages of one generation by id and number: records, words; what comes up in one answer comes up in the next."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

from rag_mcp.models import Chunk, SourceClass
from rag_mcp.stores.passage import load
from rag_mcp.stores.postgres.connect import Database
from rag_mcp.stores.postgres.lists import Array

__all__ = ["PassageRows"]

_KEPT = 4_096
_Row = TypeVar("_Row")


class PassageRows:
    """All of one generation and build; threads may share it: at worst a row is fetched twice."""

    def __init__(self, database: Database, number: int, build: int) -> None:
        self._database = database
        self._live = f"build = {build} and added <= {number} and (removed is null or removed > {number})"
        self._chunks: dict[str, Chunk] = {}
        self._words: dict[str, tuple[SourceClass, bytes]] = {}

    def chunks(self, classes: Collection[SourceClass], ids: Collection[str]) -> dict[str, Chunk]:
        known = self._chunks
        allowed = set(classes)
        found = {i: known[i] for i in ids if i in known and known[i].source_class in allowed}
        missing = [i for i in ids if i not in found]
        if missing and classes:
            query = f"select payload from chunk where class = any(%s) and id = any(%s) and {self._live}"
            for (payload,) in self._database.rows(query, ([each.value for each in classes], missing)):
                chunk = load(payload)
                found[chunk.id] = chunk
            self._chunks = _kept(known, found)
        return found

    def words(self, source_class: SourceClass, ids: Collection[str]) -> dict[str, bytes]:
        """{id: words} of those that exist in the class."""
        known = self._words
        found = {i: known[i][1] for i in ids if i in known and known[i][0] is source_class}
        missing = [i for i in ids if i not in known]
        if missing:
            query = (
                f"select id, words from chunk where class = '{source_class.value}' and id = any(%s) and {self._live}"
            )
            read = dict(self._database.rows(query, (missing,)))
            self._words = _kept(known, {i: (source_class, words) for i, words in read.items()})
            found.update(read)
        return found

    def words_at(self, source_class: SourceClass, numbers: Array) -> dict[str, bytes]:
        """{id: words} of the passages with these numbers."""
        query = f"select id, words from chunk where class = '{source_class.value}' and no = any(%s) and {self._live}"
        read = dict(self._database.rows(query, (numbers.tolist(),)))
        self._words = _kept(self._words, {i: (source_class, words) for i, words in read.items()})
        return read

    def ids(self, source_class: SourceClass, numbers: Array) -> dict[int, str]:
        query = f"select no, id from chunk where class = '{source_class.value}' and no = any(%s) and {self._live}"
        return dict(self._database.rows(query, (numbers.tolist(),)))


def _kept(known: Mapping[str, _Row], more: Mapping[str, _Row]) -> dict[str, _Row]:
    return {**(known if len(known) + len(more) <= _KEPT else {}), **more}
