"""Parsed files -> manifest entries and the chunks to store, with dated series collapsed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rag_mcp.ingest.parse import ParsedFile
from rag_mcp.ingest.snapshots import PassageKey, SeriesDay, collapse, series_of
from rag_mcp.models import Chunk
from rag_mcp.stores.manifest import FileEntry, chunk_digest, chunk_id

__all__ = ["Records", "assemble"]


@dataclass(slots=True)
class Records:
    """``entries`` by path; ``chunks`` by id, each to be stored; ``embedded`` text by text key; ``deduped`` passages
    that only repeat the snapshot before."""

    entries: dict[str, FileEntry] = field(default_factory=dict)
    chunks: dict[str, Chunk] = field(default_factory=dict)
    embedded: dict[str, str] = field(default_factory=dict)
    deduped: int = 0

    def add(self, other: Records) -> None:
        self.entries.update(other.entries)
        self.chunks.update(other.chunks)
        self.embedded.update(other.embedded)
        self.deduped += other.deduped


def assemble(parsed: Mapping[str, ParsedFile], series: Mapping[str, Sequence[str]], *, dedupe: bool) -> Records:
    """Build the records of ``parsed``. ``series`` maps a series key to its members' paths in date order, all of them
    among ``parsed``; other files stand alone."""
    records = Records()
    in_series = {path for members in series.values() for path in members}
    for path, file in sorted(parsed.items()):
        if path not in in_series:
            records.add(_single(file))
    for key, members in sorted(series.items()):
        records.add(_collapsed(key, [parsed[path] for path in members], dedupe))
    return records


def _single(file: ParsedFile) -> Records:
    ids = _ids(file)
    chunks = [_chunk(file, position, ids[position], None, ()) for position in range(len(file.passages))]
    return _records(file, None, None, chunks, [True] * len(chunks))


def _collapsed(key: str, files: Sequence[ParsedFile], dedupe: bool) -> Records:
    days = [_series_day(file) for file in files]
    plan = collapse(days, dedupe=dedupe)
    ids = {file.path: _ids(file) for file in files}
    by_path = {file.path: file for file in files}
    records = Records()
    for file, day in zip(files, days, strict=True):
        chunks: list[Chunk] = []
        owned: list[bool] = []
        for position in range(len(file.passages)):
            owner_path, owner_position = plan.owners[(file.path, position)]
            valid_on = plan.valid_on[(owner_path, owner_position)]
            owner = by_path[owner_path]
            chunks.append(_chunk(owner, owner_position, ids[owner_path][owner_position], key, valid_on))
            owned.append((owner_path, owner_position) == (file.path, position))
        records.add(_records(file, key, day.date, chunks, owned))
    return records


def _series_day(file: ParsedFile) -> SeriesDay:
    found = series_of(file.path)
    if found is None:
        raise ValueError(f"{file.path} is in no series")
    date = found[1]
    # A heading such as "Report 2031-03-01" is the same heading as yesterday's: its own date says nothing new.
    passages = tuple(
        PassageKey(tuple(part.replace(date, "") for part in item.passage.heading_path), item.passage.shown)
        for item in file.passages
    )
    return SeriesDay(file.path, date, passages)


def _ids(file: ParsedFile) -> list[str]:
    seen: dict[str, int] = {}
    ids = []
    for item in file.passages:
        occurrence = seen.get(item.text_key, 0)
        seen[item.text_key] = occurrence + 1
        ids.append(chunk_id(file.path, item.text_key, occurrence))
    return ids


def _chunk(file: ParsedFile, position: int, id_: str, series: str | None, valid_on: tuple[str, ...]) -> Chunk:
    item = file.passages[position]
    passage = item.passage
    return Chunk(
        id=id_,
        text_key=item.text_key,
        source=file.path,
        source_class=file.source_class,
        project=file.project,
        doc_class=file.doc_class,
        title=file.title,
        heading_path=passage.heading_path,
        index=position,
        line_start=passage.line_start,
        line_end=passage.line_end,
        start=passage.start,
        end=passage.end,
        text=passage.shown,
        aliases=file.aliases,
        tags=file.tags,
        date=file.date,
        language=file.language,
        series=series,
        valid_on=valid_on,
    )


def _records(
    file: ParsedFile, series: str | None, day: str | None, chunks: Sequence[Chunk], owned: Sequence[bool]
) -> Records:
    records = Records(deduped=owned.count(False))
    rows: list[tuple[str, str, int, int, str]] = []
    for item, chunk, is_owner in zip(file.passages, chunks, owned, strict=True):
        digest = chunk_digest(chunk) if is_owner else ""
        rows.append((chunk.id, chunk.text_key, item.passage.line_start, item.passage.line_end, digest))
        if is_owner:
            records.chunks[chunk.id] = chunk
            records.embedded[chunk.text_key] = item.embedded
    records.entries[file.path] = FileEntry(
        sha256=file.sha256,
        source_class=file.source_class,
        project=file.project,
        doc_class=file.doc_class,
        title=file.title,
        series=series,
        day=day,
        rows=tuple(rows),
    )
    return records
