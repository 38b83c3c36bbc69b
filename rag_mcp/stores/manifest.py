"""What a generation holds, file by file, and why: the ground every incremental decision stands on."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from rag_mcp.models import Chunk, DocClass, SourceClass
from rag_mcp.text.properties import Properties

__all__ = [
    "METADATA_VERSION",
    "ChangedFiles",
    "ChunkRef",
    "FileEntry",
    "FileState",
    "KnownFiles",
    "Manifest",
    "Row",
    "chunk_digest",
    "chunk_id",
    "ids_digest",
    "state_of",
    "states_of",
    "stored_ids",
    "stored_keys",
    "stored_records",
]

# Raise when the metadata of a chunk is derived in another way; every file is then read again and nothing is embedded.
METADATA_VERSION = 8


_DIGEST_BITS = 128

Row: TypeAlias = "tuple[str, str, int, int, str]"
"""A ``ChunkRef`` as it is kept: hundreds of thousands of objects would cost more than reading them."""


class ChunkRef(NamedTuple):
    """One passage of a file as indexed. ``digest`` names the whole stored record.

    A passage of a dated series that only repeats the snapshot before it is not stored again: its ``id`` is then the
    surviving chunk's and its ``digest`` empty.
    """

    id: str
    text_key: str
    line_start: int
    line_end: int
    digest: str


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One indexed file. ``sha256`` is of the decoded text, so a byte order mark or other line ends change nothing.

    What is converted is known by its bytes instead (``raw:<hex>``); ``converted_from`` names its format, and ``pages`` the
    line of the converted text that each page begins on.

    ``links`` are the targets its text names, as written; which documents they are depends on who asks. ``opening`` is the
    first paragraph of a front page of the corpus, in a line. ``file_day`` is the day of the file's time when it was first
    read with this text, "" where an older version read it: a copy or a checkout that touches a file dates nothing anew.
    ``chars`` is how far its passages reach, from the first to the last.
    """

    sha256: str
    source_class: SourceClass
    project: str | None
    doc_class: DocClass
    title: str
    series: str | None
    day: str | None
    rows: Sequence[Row]
    aliases: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    properties: Properties = field(default_factory=dict)
    opening: str = ""
    converted_from: str = ""
    pages: tuple[int, ...] = ()
    file_day: str = ""
    chars: int = 0

    def refs(self) -> Iterator[ChunkRef]:
        """The file's passages in reading order."""
        return (ChunkRef(*row) for row in self.rows)

    def pages_of(self, line_start: int, line_end: int) -> tuple[int, ...]:
        """The first page (from 1) that these lines are on, and the last if it is another; empty without pages."""
        numbers = (bisect_right(self.pages, line) for line in (line_start, line_end))
        return tuple(dict.fromkeys(numbers)) if self.pages else ()


class FileState(NamedTuple):
    """What a run asks of every file, however many there are: the rest of an entry is looked up for those it changes.

    ``stored`` passages of it stand in the indexes, ``repeated`` are those that only repeat the snapshot before.
    """

    sha256: str
    source_class: SourceClass
    project: str | None
    series: str | None
    day: str | None
    stored: int
    repeated: int
    opening: str
    converted_from: str


def state_of(entry: FileEntry) -> FileState:
    place = entry.source_class, entry.project, entry.series, entry.day
    stored = sum(bool(row[4]) for row in entry.rows)
    return FileState(entry.sha256, *place, stored, len(entry.rows) - stored, entry.opening, entry.converted_from)


class KnownFiles(Mapping[str, FileEntry]):
    """Entries in the order of their paths, whose states can be had without them."""

    @property
    @abstractmethod
    def states(self) -> Mapping[str, FileState]: ...

    def __len__(self) -> int:
        return len(self.states)

    def __contains__(self, path: object) -> bool:
        return path in self.states


class ChangedFiles(KnownFiles):
    """``before``, but for what was ``put`` and what is ``gone``."""

    def __init__(self, before: Mapping[str, FileEntry], put: Mapping[str, FileEntry], gone: Collection[str]) -> None:
        self.before, self.put, self.gone = before, put, frozenset(gone)
        states = {**states_of(before), **states_of(put)}
        self._states = {path: state for path, state in sorted(states.items()) if path not in self.gone}

    @property
    def states(self) -> Mapping[str, FileState]:
        return self._states

    def __getitem__(self, path: str) -> FileEntry:
        if path in self.gone:
            raise KeyError(path)
        return self.put[path] if path in self.put else self.before[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._states)


def states_of(files: Mapping[str, FileEntry]) -> Mapping[str, FileState]:
    if isinstance(files, KnownFiles):
        return files.states
    return {path: state_of(entry) for path, entry in files.items()}


@dataclass(frozen=True, slots=True)
class Manifest:
    """``identity`` decides whether vectors and records may be mixed; ``derivation`` how metadata was derived.

    ``rejected`` maps a file left out for its content to (digest of that content, reason), so that it is not read again.
    ``notices`` maps an indexed file to what its owner should know of it, so that every report says it.
    """

    identity: Mapping[str, object]
    derivation: Mapping[str, object]
    files: Mapping[str, FileEntry]
    rejected: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    notices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.files, KnownFiles):  # else the states would be worked out each time they are asked for
            object.__setattr__(self, "files", ChangedFiles({}, self.files, ()))

    @property
    def states(self) -> Mapping[str, FileState]:
        return states_of(self.files)

    def ids(self) -> dict[SourceClass, set[str]]:
        """Ids that both indexes must hold, by class."""
        return stored_ids(self.files.values())

    def records(self) -> dict[SourceClass, dict[str, str]]:
        """{class: {id: digest}} of the stored records."""
        return stored_records(self.files.values())

    def keyed(self) -> dict[SourceClass, dict[str, str]]:
        """{class: {id: text key}} of the stored records."""
        return stored_keys(self.files.values())

    @property
    def written(self) -> Mapping[str, FileEntry]:
        """The entries that are new or changed; all of them where nothing is said of what was before."""
        return self.files.put if isinstance(self.files, ChangedFiles) else self.files

    def differs_at(self, before: Manifest) -> set[str]:
        """Paths whose entries may be other ones than ``before``."""
        if isinstance(self.files, ChangedFiles) and self.files.before is before.files:
            return {*self.files.put, *self.files.gone}
        return {*self.states, *before.states}

    def sample(self, source_class: SourceClass, size: int) -> dict[str, str]:
        """{id: digest} of a stored record of some files of a class, spread over all."""
        paths = [path for path, each in self.states.items() if each.source_class is source_class and each.stored]
        return dict(
            next((row[0], row[4]) for row in self.files[path].rows if row[4])
            for path in paths[:: max(1, len(paths) // size)]
        )

    def text_keys(self) -> set[str]:
        return {row[1] for entry in self.files.values() for row in entry.rows}

    def openings(self) -> dict[str, tuple[str, str]]:
        """{path: (class, opening)} of the front pages: what a reader may be told of the corpus before it opens anything."""
        return {path: (each.source_class.value, each.opening) for path, each in self.states.items() if each.opening}

    def counts(self) -> dict[str, int]:
        """Passages that stand in the indexes, by class."""
        found: dict[str, int] = {}
        for state in self.states.values():
            found[state.source_class.value] = found.get(state.source_class.value, 0) + state.stored
        return {name: count for name, count in sorted(found.items()) if count}


def stored_ids(files: Iterable[FileEntry]) -> dict[SourceClass, set[str]]:
    """Ids that both indexes must hold, by class."""
    return {source_class: set(ids) for source_class, ids in _stored(files, 0).items() if ids}


def stored_records(files: Iterable[FileEntry]) -> dict[SourceClass, dict[str, str]]:
    """{class: {id: digest}} of the stored records."""
    return _stored(files, 4)


def stored_keys(files: Iterable[FileEntry]) -> dict[SourceClass, dict[str, str]]:
    """{class: {id: text key}} of the stored records."""
    return _stored(files, 1)


def _stored(files: Iterable[FileEntry], column: Literal[0, 1, 4]) -> dict[SourceClass, dict[str, str]]:
    found: dict[SourceClass, dict[str, str]] = {}
    for entry in files:
        found.setdefault(entry.source_class, {}).update((row[0], row[column]) for row in entry.rows if row[4])
    return found


def ids_digest(
    added: Mapping[SourceClass, Iterable[str]],
    deleted: Mapping[SourceClass, Iterable[str]] | None = None,
    *,
    before: str = "0",
) -> str:
    """One digest over ids with their class, in any order: a sum, so that it follows from the one ``before``."""
    change = sum(map(_numbers, added.items())) - sum(map(_numbers, (deleted or {}).items()))
    return f"{(int(before, 16) + change) % (1 << _DIGEST_BITS):032x}"


def _numbers(ids: tuple[SourceClass, Iterable[str]]) -> int:
    lines = (f"{ids[0].value} {i}".encode() for i in ids[1])
    return sum(int.from_bytes(hashlib.blake2b(line, digest_size=_DIGEST_BITS // 8).digest(), "big") for line in lines)


def chunk_id(source: str, text_key: str, occurrence: int) -> str:
    """Id of the ``occurrence``-th passage (from 0) with this embedded text in ``source``.

    It does not depend on the passage's position, so an edit leaves the ids of all other passages alone.
    """
    return hashlib.sha256(f"{source}\0{text_key}\0{occurrence}".encode()).hexdigest()[:24]


def chunk_digest(chunk: Chunk) -> str:
    """Digest of everything stored for ``chunk``: equal digests need no rewriting."""
    record = json.dumps(asdict(chunk), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(record.encode("utf-8", "surrogatepass")).hexdigest()[:16]
