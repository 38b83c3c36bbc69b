"""Parsed files -> manifest entries and the chunks to store, with dated series collapsed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace

from rag_mcp.ingest.parse import ParsedFile, ParsedPassage
from rag_mcp.models import Chunk, SourceClass
from rag_mcp.stores.manifest import FileEntry, chunk_digest, chunk_id
from rag_mcp.text.dates import undated, undated_headings
from rag_mcp.text.series import PassageKey, SeriesDay, SeriesPlan, collapse, series_of

__all__ = ["Records", "Stored", "assemble"]

Stored = Callable[[SourceClass, set[str]], Mapping[str, Chunk]]
"""Looks up stored records by id; raises StoreDamaged unless all are there."""


@dataclass(slots=True)
class Records:
    """``entries`` and ``notices`` by path; ``chunks`` by id, each to be stored; ``embedded`` text by text key."""

    entries: dict[str, FileEntry] = field(default_factory=dict)
    notices: dict[str, tuple[str, ...]] = field(default_factory=dict)
    chunks: MutableMapping[str, Chunk] = field(default_factory=dict)
    embedded: MutableMapping[str, str] = field(default_factory=dict)

    def add(self, other: Records) -> None:
        self.entries.update(other.entries)
        self.notices.update(other.notices)
        self.chunks.update(other.chunks)
        self.embedded.update(other.embedded)


def assemble(
    parsed: Mapping[str, ParsedFile],
    series: Mapping[str, Sequence[str]],
    records: Records,
    *,
    dedupe: bool,
    before: Mapping[str, FileEntry],
    known_members: Mapping[str, Collection[str]],
    stored: Stored,
) -> None:
    """Add to ``records`` those of ``parsed`` and of all members of ``series``, which maps a series key to their paths in date
    order, as ``known_members`` does for ``before``. Members that are not among ``parsed`` are as they were there; records of theirs that change all the
    same are looked up with ``stored``. Other files stand alone."""
    for path in sorted(parsed.keys() - {path for members in series.values() for path in members}):
        records.add(_single(parsed[path]))
    for key, members in sorted(series.items()):
        known = {path: before[path] for path in known_members.get(key, ())}
        records.add(_Collapse(key, members, parsed, known, dedupe, stored).records())


def _single(file: ParsedFile) -> Records:
    records = Records()
    rows = []
    for position, (id_, item) in enumerate(zip(_ids(file), file.passages, strict=True)):
        chunk = _chunk(file, position, id_, None, (), file.head if position == 0 else ())
        records.chunks[id_] = chunk
        records.embedded[item.text_key] = item.embedded
        rows.append((id_, item.text_key, item.passage.line_start, item.passage.line_end, chunk_digest(chunk)))
    records.entries[file.path] = _entry(file, None, None, rows)
    records.notices[file.path] = file.notices
    return records


@dataclass(slots=True)
class _Collapse:
    """One series, of which only the members in ``parsed`` were read."""

    key: str
    members: Sequence[str]
    parsed: Mapping[str, ParsedFile]
    before: Mapping[str, FileEntry]
    dedupe: bool
    stored: Stored
    ids: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def records(self) -> Records:
        """Raises StoreDamaged when the index lacks a record that it should hold."""
        days = [self._day(path) for path in self.members]
        plan = collapse(days, dedupe=self.dedupe)
        for path in self.members:  # id and text key of each passage, were it an owner
            file = self.parsed.get(path)
            if file is not None:
                self.ids[path] = [(i, item.text_key) for i, item in zip(_ids(file), file.passages, strict=True)]
            else:
                self.ids[path] = [(ref.id, ref.text_key) for ref in self.before[path].refs()]
        records = Records()
        for path, day in zip(self.members, days, strict=True):
            if path in self.parsed:
                records.add(self._read(self.parsed[path], day.date, plan))
        records.add(self._carried(plan))
        return records

    def _day(self, path: str) -> SeriesDay:
        file, entry = self.parsed.get(path), self.before.get(path)
        if file is None:
            return SeriesDay(path, _date(path), None, tuple(ref.id for ref in self.before[path].refs()))
        day = _series_day(file)
        same = entry is not None and entry.sha256 == file.sha256 and len(entry.rows) == len(file.passages)
        return replace(day, carried=tuple(ref.id for ref in entry.refs())) if entry is not None and same else day

    def _read(self, file: ParsedFile, day: str, plan: SeriesPlan) -> Records:
        rows: list[tuple[str, str, int, int, str]] = []
        records = Records()
        head = file.head
        for position, item in enumerate(file.passages):
            place = (file.path, position)
            owner = plan.owners[place]
            id_, text_key = self.ids[owner[0]][owner[1]]
            digest = ""
            if owner == place:
                chunk = _chunk(file, position, id_, self.key, plan.valid_on[place], head)
                head = ()
                digest = chunk_digest(chunk)
                records.chunks[id_] = chunk
                records.embedded[text_key] = item.embedded
            rows.append((id_, text_key, item.passage.line_start, item.passage.line_end, digest))
        records.entries[file.path] = _entry(file, self.key, day, rows)
        records.notices[file.path] = file.notices
        return records

    def _carried(self, plan: SeriesPlan) -> Records:
        """Members that were not read: another day may own what they repeat, and what they own may hold on other days."""
        held: dict[str, list[str]] = {}
        for path, entry in sorted(self.before.items(), key=lambda item: _date(item[0])):
            for ref in entry.refs():
                held.setdefault(ref.id, []).append(_date(path))
        unread = [path for path in self.members if path not in self.parsed]
        moved = {
            self.ids[path][position][0]: valid_on
            for (path, position), valid_on in plan.valid_on.items()
            if path not in self.parsed and list(valid_on) != held[self.ids[path][position][0]]
        }
        records = Records()
        if moved:
            source_class = self.before[unread[0]].source_class
            found = self.stored(source_class, set(moved))
            records.chunks = {i: replace(found[i], valid_on=valid_on) for i, valid_on in moved.items()}
        for path in unread:
            rows = []
            for position, ref in enumerate(self.before[path].refs()):
                owner = plan.owners[(path, position)]
                id_, text_key = self.ids[owner[0]][owner[1]]
                digest = "" if owner != (path, position) else ref.digest
                if digest and id_ in moved:
                    digest = chunk_digest(records.chunks[id_])
                rows.append((id_, text_key, ref.line_start, ref.line_end, digest))
            records.entries[path] = replace(self.before[path], rows=tuple(rows))
        return records


def _date(path: str) -> str:
    found = series_of(path)
    if found is None:
        raise ValueError(f"{path} is in no series")
    return found[1]


def _series_day(file: ParsedFile) -> SeriesDay:
    date = _date(file.path)
    return SeriesDay(file.path, date, tuple(_key(file.path, item, item.day or date) for item in file.passages))


def _key(path: str, item: ParsedPassage, day: str) -> PassageKey:
    """A heading such as "Report 2031-03-01" is the same heading as yesterday's: its own date says nothing new. What has
    no text repeats nobody's: its name and its head are all it is found by."""
    if not item.passage.text:
        return PassageKey((path,), "")
    headings = tuple(undated(part, day) for part in item.passage.heading_path)
    return PassageKey(headings, undated_headings(item.passage.shown, day))


def _ids(file: ParsedFile) -> list[str]:
    seen: dict[str, int] = {}
    ids = []
    for item in file.passages:
        occurrence = seen.get(item.text_key, 0)
        seen[item.text_key] = occurrence + 1
        ids.append(chunk_id(file.path, item.text_key, occurrence))
    return ids


def _chunk(
    file: ParsedFile, position: int, id_: str, series: str | None, valid_on: tuple[str, ...], head: tuple[str, ...]
) -> Chunk:
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
        head=head,
    )


def _entry(
    file: ParsedFile, series: str | None, day: str | None, rows: Sequence[tuple[str, str, int, int, str]]
) -> FileEntry:
    return FileEntry(
        sha256=file.sha256,
        source_class=file.source_class,
        project=file.project,
        doc_class=file.doc_class,
        title=file.title,
        series=series,
        day=day,
        rows=tuple(rows),
        aliases=file.aliases,
        links=file.links,
        properties=file.properties,
        opening=file.opening,
        converted_from=file.converted_from,
        pages=file.pages,
        file_day=file.file_day,
        chars=file.passages[-1].passage.end - file.passages[0].passage.start if file.passages else 0,
    )
