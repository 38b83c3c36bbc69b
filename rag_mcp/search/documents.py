"""Documents from the index, never from disk: one file or a neighbourhood, a page of the list, the inventory."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rag_mcp.errors import InvalidArgument
from rag_mcp.models import (
    Chunk,
    Document,
    DocumentEntry,
    DocumentPage,
    DocumentRequest,
    ListRequest,
    SourceClass,
    SourceInventory,
)
from rag_mcp.policy import Policy
from rag_mcp.sanitize import neutralise
from rag_mcp.search.access import ResolvedProfile, may_open, may_see, no_such_document, safe_source
from rag_mcp.search.shape import cut_text
from rag_mcp.stores.manifest import ChunkRef, FileEntry

if TYPE_CHECKING:
    from rag_mcp.search.opened import OpenGeneration

__all__ = ["inventory", "page_documents", "read_document", "visible_counts"]


def read_document(
    request: DocumentRequest, opened: OpenGeneration, policy: Policy, profile: ResolvedProfile
) -> Document:
    """Raises NotFound, in the same words for a missing, forbidden or malformed path, and InvalidArgument for a
    passage number the document does not have."""
    source = safe_source(request.source)
    entry = opened.manifest.files.get(source)
    if entry is None or not may_open(profile, policy, entry.source_class, source):
        raise no_such_document(request.source)
    refs = list(entry.refs())
    first, last = _window(request, len(refs))
    chunks = opened.keywords.fetch([entry.source_class], {ref.id for ref in refs[first:last]})
    text, warnings = neutralise(_assemble(refs[first:last], chunks))
    shown = cut_text(text, request.max_chars)
    return Document(
        source=source,
        title=neutralise(entry.title)[0],
        source_class=entry.source_class,
        project=entry.project,
        doc_class=entry.doc_class,
        text=shown,
        line_start=refs[first].line_start if refs else 0,
        line_end=refs[last - 1].line_end if refs else 0,
        chunk_start=first,
        chunk_end=max(first, last - 1),
        chunk_count=len(refs),
        truncated=len(shown) < len(text),
        generation=opened.number,
        indexed_at=opened.indexed_at,
        warnings=warnings,
    )


def _window(request: DocumentRequest, count: int) -> tuple[int, int]:
    if request.chunk_index is None:
        return 0, count
    if not 0 <= request.chunk_index < count:
        raise InvalidArgument("chunk_index", f"the document has passages 0 to {count - 1}.")
    return max(0, request.chunk_index - request.context), min(count, request.chunk_index + request.context + 1)


def _assemble(refs: Sequence[ChunkRef], chunks: dict[str, Chunk]) -> str:
    """The passages one after another, with the blank lines between them, each table header only where it stands."""
    parts: list[str] = []
    line = refs[0].line_start if refs else 0
    for ref in refs:
        chunk = chunks.get(ref.id)
        if chunk is None:
            continue
        own = chunk.text[-(chunk.end - chunk.start) :] if chunk.end > chunk.start else chunk.text
        if parts and not parts[-1].endswith("\n"):
            parts.append("\n" if ref.line_start > line else "")
        parts.append("\n" * max(0, ref.line_start - line - 1))
        parts.append(own)
        line = ref.line_end
    return "".join(parts)


def page_documents(
    request: ListRequest, opened: OpenGeneration, policy: Policy, profile: ResolvedProfile
) -> DocumentPage:
    """Documents in path order; ``next_cursor`` is None on the last page. Raises InvalidArgument for a foreign cursor."""
    after = _parse_cursor(request.cursor)
    found: list[DocumentEntry] = []
    for path, entry in _visible(opened, policy, profile, request.source_class):
        if (after is not None and path <= after) or not _wanted(request, path, entry):
            continue
        if len(found) == request.limit:
            return DocumentPage(tuple(found), _cursor(found[-1].source), opened.number)
        title = neutralise(entry.title)[0]
        found.append(DocumentEntry(path, title, entry.source_class, entry.project, entry.doc_class, len(entry.rows)))
    return DocumentPage(tuple(found), None, opened.number)


def _visible(
    opened: OpenGeneration, policy: Policy, profile: ResolvedProfile, requested: SourceClass | None
) -> Iterator[tuple[str, FileEntry]]:
    for path, entry in sorted(opened.manifest.files.items()):
        if may_see(profile, policy, entry.source_class, path, requested=requested):
            yield path, entry


def _wanted(request: ListRequest, path: str, entry: FileEntry) -> bool:
    if request.project is not None and entry.project != request.project:
        return False
    prefix = (request.prefix or "").strip("/")
    return not prefix or path == prefix or path.startswith(f"{prefix}/")


def _cursor(source: str) -> str:
    return base64.urlsafe_b64encode(source.encode("utf-8", "surrogatepass")).decode("ascii")


def _parse_cursor(cursor: str | None) -> str | None:
    if cursor is None:
        return None
    try:
        return base64.urlsafe_b64decode(cursor.encode("ascii")).decode("utf-8", "surrogatepass")
    except (ValueError, binascii.Error) as error:
        raise InvalidArgument("cursor", "is not one that list_documents gave.") from error


def visible_counts(
    opened: OpenGeneration, policy: Policy, profile: ResolvedProfile
) -> dict[SourceClass, dict[str, int]]:
    """{class: {files, chunks}} of every class of the profile; a class that holds nothing counts 0."""
    counts = {source_class: {"files": 0, "chunks": 0} for source_class in sorted(profile.classes)}
    for source_class in profile.classes:
        for _, entry in _visible(opened, policy, profile, source_class):
            counts[source_class]["files"] += 1
            counts[source_class]["chunks"] += len(entry.rows)
    return counts


def inventory(opened: OpenGeneration, policy: Policy, profile: ResolvedProfile) -> SourceInventory:
    """Counts per class."""
    projects: set[str] = set()
    for source_class in profile.classes:
        for _, entry in _visible(opened, policy, profile, source_class):
            if entry.project is not None:
                projects.add(entry.project)
    return SourceInventory(
        profile=profile.name,
        classes=visible_counts(opened, policy, profile),
        explicit_only=tuple(sorted(profile.explicit_only)),
        projects=tuple(sorted(projects)),
        generation=opened.number,
        indexed_at=opened.indexed_at,
    )
