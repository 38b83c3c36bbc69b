"""Which text has a run of a document's passages, and how far may it be extended? From the index, and no more than is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rag_mcp.errors import StoreDamaged
from rag_mcp.models import Chunk
from rag_mcp.stores.manifest import ChunkRef

__all__ = ["Fetch", "Passages", "Row"]

Fetch = Callable[[Sequence[str]], dict[str, Chunk]]
"""Looks up passages by id."""

Row = tuple[str, str, int, int, str]
"""A ChunkRef, or one that is still a row of a manifest."""

# Passages are fetched so many at a time.
_BATCH = 32


class Passages:
    """The passages of a document by their position, each with what lies between it and its neighbour."""

    def __init__(self, rows: Sequence[Row], fetch: Fetch) -> None:
        self._rows = rows
        self._fetch = fetch
        self._chunks: dict[str, Chunk] = {}

    def know(self, chunks: Iterable[Chunk]) -> None:
        """Take passages that were fetched already."""
        self._chunks.update((chunk.id, chunk) for chunk in chunks)

    def chunk(self, position: int) -> Chunk:
        """Raises StoreDamaged."""
        if self._rows[position][0] not in self._chunks:
            start = position - position % _BATCH
            self._load(range(start, min(start + _BATCH, len(self._rows))))
        return self._chunks[self._rows[position][0]]

    def lines(self, first: int, last: int) -> tuple[int, int]:
        """The first and the last line of the passages ``first`` to ``last``."""
        return ChunkRef(*self._rows[first]).line_start, ChunkRef(*self._rows[last]).line_end

    def text(self, position: int) -> str:
        """The passage's own text: a table's header only where it stands."""
        chunk = self.chunk(position)
        return chunk.text[-(chunk.end - chunk.start) :] if chunk.end > chunk.start else chunk.text

    def after(self, position: int) -> str:
        """The passage with what stands before it."""
        return self._gap(position) + self.text(position)

    def before(self, position: int) -> str:
        """The passage with what stands behind it."""
        return self.text(position) + self._gap(position + 1)

    def around(self, position: int, own: str, first: int, last: int) -> str:
        """The passages ``first`` to ``last``, with ``own`` as the text of the one at ``position``."""
        before = (self.before(each) for each in range(first, position))
        return "".join([*before, own, *(self.after(each) for each in range(position + 1, last + 1))])

    def run(self, first: int, last: int) -> str:
        """The passages ``first`` to ``last`` as they are shown: a table that goes on from before has its header."""
        return self.around(first, self.chunk(first).text, first, last)

    def valid_on(self, first: int, last: int) -> list[str]:
        """The days of a series on which all of the passages ``first`` to ``last`` held, in order."""
        held = (set(self.chunk(position).valid_on) for position in range(first, last + 1))
        return sorted(set.intersection(*held))

    def fitting(self, own: tuple[int, int], wanted: tuple[int, int], left: int) -> tuple[int, int]:
        """The passages around those of ``own`` that fit into ``left`` more characters: the nearest first, a side ends
        where one does not fit."""
        first, last = own
        for distance in range(1, max(own[0] - wanted[0], wanted[1] - own[1]) + 1):
            moved = False
            if last == own[1] + distance - 1 < wanted[1] and len(self.after(last + 1)) <= left:
                last, moved = last + 1, True
                left -= len(self.after(last))
            if first == own[0] - distance + 1 > wanted[0] and len(self.before(first - 1)) <= left:
                first, moved = first - 1, True
                left -= len(self.before(first))
            if not moved:
                break
        return first, last

    def _gap(self, position: int) -> str:
        """The blank lines, or the blank, between a passage and the one before it."""
        end, start = self.lines(position - 1, position - 1)[1], self.lines(position, position)[0]
        lines = start - end
        if lines > 0:
            return "\n" * (lines - self.text(position - 1).endswith("\n"))
        previous, own = self.chunk(position - 1), self.chunk(position)
        # A passage that repeats an earlier snapshot is stored with the places it has there.
        return "" if previous.source == own.source and previous.end == own.start else " "

    def _load(self, positions: Iterable[int]) -> None:
        ids = [i for position in positions if (i := self._rows[position][0]) not in self._chunks]
        found = self._fetch(ids) if ids else {}
        if any(i not in found for i in ids):
            raise StoreDamaged("A passage is missing from the keyword index. Run: rag-mcp doctor --fix")
        self._chunks.update(found)
