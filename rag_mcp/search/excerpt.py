"""Which part of a document fits into a budget: whole passages around the one asked for, or the beginning of that one.

What is asked for always comes; what stands around it gives way. Nothing beyond the part shown is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rag_mcp.errors import InvalidArgument
from rag_mcp.requests import DocumentRequest
from rag_mcp.search.passages import Fetch, Passages
from rag_mcp.search.shape import cut_at
from rag_mcp.stores.manifest import ChunkRef

__all__ = ["Excerpt", "excerpt"]


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


def excerpt(request: DocumentRequest, refs: Sequence[ChunkRef], fetch: Fetch) -> Excerpt:
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
    passages = Passages(refs, fetch)
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
    first, last = passages.fitting((asked, asked), wanted, request.max_chars - len(own))
    return Excerpt(
        passages.around(asked, own, first, last),
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
