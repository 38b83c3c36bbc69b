"""Which part of a document fits into a budget: whole passages around the one asked for, or the beginning of that one.

What is asked for always comes; what stands around it gives way. Nothing beyond the part shown is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rag_mcp.errors import InvalidArgument, StoreDamaged
from rag_mcp.models import Chunk
from rag_mcp.requests import DocumentRequest
from rag_mcp.search.shape import cut_at
from rag_mcp.stores.manifest import ChunkRef

__all__ = ["Excerpt", "excerpt"]

# Passages are fetched so many at a time.
_BATCH = 32


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The passages ``first`` to ``last`` and their lines; ``next_chunk`` None when the document ends here.

    ``truncated`` tells that the budget left out part of what was asked for.
    """

    text: str
    first: int
    last: int
    line_start: int
    line_end: int
    truncated: bool
    next_chunk: int | None
    next_char: int = 0


def excerpt(
    request: DocumentRequest, refs: Sequence[ChunkRef], fetch: Callable[[Sequence[str]], dict[str, Chunk]]
) -> Excerpt:
    """Choose the part of the document with the passages ``refs`` that ``request`` asks for. ``fetch`` gives passages by
    id. Raises InvalidArgument for a place that the document does not have."""
    asked = request.chunk_index if request.chunk_index is not None else request.from_chunk or 0
    if not refs and request.chunk_index is None and not asked:
        return Excerpt("", 0, 0, 0, 0, False, None)
    if asked >= len(refs):
        name = "from_chunk" if request.chunk_index is None else "chunk_index"
        raise InvalidArgument(
            name, f"the document has passages 0 to {len(refs) - 1}." if refs else "it has no passage."
        )
    passages = _Passages(refs, fetch)
    own = passages.text(asked)
    if request.from_char and request.from_char >= len(own):
        raise InvalidArgument("from_char", f"passage {asked} has {len(own):,} characters.")
    line = refs[asked].line_start + own.count("\n", 0, request.from_char)
    own = own[request.from_char :]
    if len(own) > request.max_chars:
        shown = own[: cut_at(own, request.max_chars)]
        last_line = line + shown.count("\n", 0, len(shown) - 1)
        return Excerpt(shown, asked, asked, line, last_line, True, asked, request.from_char + len(shown))
    wanted = _wanted(request, asked, len(refs))
    first, last = _fitting(passages, asked, wanted, request.max_chars - len(own))
    parts = [passages.before(position) for position in range(first, asked)]
    parts += [own, *(passages.after(position) for position in range(asked + 1, last + 1))]
    return Excerpt(
        "".join(parts),
        first,
        last,
        line if first == asked else refs[first].line_start,
        refs[last].line_end,
        (first, last) != wanted,
        last + 1 if last + 1 < len(refs) else None,
    )


def _wanted(request: DocumentRequest, asked: int, count: int) -> tuple[int, int]:
    if request.chunk_index is None:
        return asked, count - 1
    return max(0, asked - request.context), min(count - 1, asked + request.context)


def _fitting(passages: _Passages, asked: int, wanted: tuple[int, int], left: int) -> tuple[int, int]:
    """The passages around ``asked`` that fit into ``left`` more characters: the nearest first, a side ends where one
    does not fit."""
    first = last = asked
    for distance in range(1, max(asked - wanted[0], wanted[1] - asked) + 1):
        moved = False
        if last == asked + distance - 1 < wanted[1] and len(passages.after(last + 1)) <= left:
            last, moved = last + 1, True
            left -= len(passages.after(last))
        if first == asked - distance + 1 > wanted[0] and len(passages.before(first - 1)) <= left:
            first, moved = first - 1, True
            left -= len(passages.before(first))
        if not moved:
            break
    return first, last


class _Passages:
    """The passages of a document by their position, each with what lies between it and its neighbour."""

    def __init__(self, refs: Sequence[ChunkRef], fetch: Callable[[Sequence[str]], dict[str, Chunk]]) -> None:
        self._refs = refs
        self._fetch = fetch
        self._chunks: dict[int, Chunk] = {}

    def text(self, position: int) -> str:
        """The passage's own text: a table's header only where it stands."""
        chunk = self._chunk(position)
        return chunk.text[-(chunk.end - chunk.start) :] if chunk.end > chunk.start else chunk.text

    def after(self, position: int) -> str:
        """The passage with what stands before it."""
        return self._gap(position) + self.text(position)

    def before(self, position: int) -> str:
        """The passage with what stands behind it."""
        return self.text(position) + self._gap(position + 1)

    def _gap(self, position: int) -> str:
        """The blank lines, or the blank, between a passage and the one before it."""
        lines = self._refs[position].line_start - self._refs[position - 1].line_end
        if lines > 0:
            return "\n" * (lines - self.text(position - 1).endswith("\n"))
        previous, own = self._chunk(position - 1), self._chunk(position)
        # A passage that repeats an earlier snapshot is stored with the places it has there.
        return "" if previous.source == own.source and previous.end == own.start else " "

    def _chunk(self, position: int) -> Chunk:
        if position not in self._chunks:
            start = position - position % _BATCH
            batch = self._refs[start : start + _BATCH]
            found = self._fetch([ref.id for ref in batch])
            if any(ref.id not in found for ref in batch):
                raise StoreDamaged("A passage is missing from the keyword index. Run: rag-mcp doctor --fix")
            self._chunks.update((start + offset, found[ref.id]) for offset, ref in enumerate(batch))
        return self._chunks[position]
