"""A file's last indexed state from the keyword index, for a member of a series that can't be read just now."""

from __future__ import annotations

from collections.abc import Mapping

from rag_mcp.errors import StoreDamaged
from rag_mcp.ingest.parse import ParsedFile, ParsedPassage
from rag_mcp.models import Chunk, Passage, SourceClass
from rag_mcp.stores.base import LiveSnapshot
from rag_mcp.stores.manifest import FileEntry
from rag_mcp.text.series import series_of

__all__ = ["restore_file", "stored_chunks"]


def stored_chunks(live: LiveSnapshot | None, source_class: SourceClass, ids: set[str]) -> Mapping[str, Chunk]:
    """The records with these ids. Raises StoreDamaged when there is no index, or it lacks one."""
    if live is None:
        raise StoreDamaged("No index holds the records that are needed.")
    chunks = live.records(source_class, ids)
    if chunks.keys() != ids:
        raise StoreDamaged(f"The index lacks {len(ids - chunks.keys())} passages that it should hold.")
    return chunks


def restore_file(
    path: str, entry: FileEntry, live: LiveSnapshot | None, *, notices: tuple[str, ...] = ()
) -> ParsedFile:
    """Rebuild what parsing gave. Raises StoreDamaged when there is no index, or it lacks a passage."""
    if live is None:
        raise StoreDamaged(f"{path} can't be read, and no index holds its last state.")
    chunks = stored_chunks(live, entry.source_class, {row[0] for row in entry.rows})
    passages = []
    for ref in entry.refs():
        chunk = chunks[ref.id]
        passage = Passage(chunk.text, chunk.heading_path, chunk.start, chunk.end, ref.line_start, ref.line_end)
        # The text to embed is not needed: the passage's vector is known under its key.
        of_series = series_of(chunk.source)
        passages.append(ParsedPassage(passage, "", ref.text_key, of_series[1] if of_series else None))
    own = next((chunk for chunk in chunks.values() if chunk.source == path), None)
    return ParsedFile(
        path=path,
        sha256=entry.sha256,
        source_class=entry.source_class,
        project=entry.project,
        doc_class=entry.doc_class,
        title=entry.title,
        aliases=own.aliases if own else entry.aliases,
        tags=own.tags if own else (),
        date=own.date if own else None,
        language=own.language if own else "en",
        passages=tuple(passages),
        notices=notices,
        links=entry.links,
        properties=entry.properties,
        head=next((chunk.head for chunk in chunks.values() if chunk.source == path and chunk.head), ()),
        opening=entry.opening,
        converted_from=entry.converted_from,
        pages=entry.pages,
        file_day=entry.file_day,
    )
