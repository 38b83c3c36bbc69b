"""What a generation holds, file by file, and why: the ground every incremental decision stands on."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal, NamedTuple

from rag_mcp.models import Chunk, DocClass, SourceClass
from rag_mcp.text.properties import Properties

__all__ = [
    "METADATA_VERSION",
    "ChunkRef",
    "FileEntry",
    "Manifest",
    "chunk_digest",
    "chunk_id",
]

# Raise when the metadata of a chunk is derived in another way; every file is then read again and nothing is embedded.
METADATA_VERSION = 8


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
    rows: tuple[tuple[str, str, int, int, str], ...]
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

    def ids(self) -> dict[SourceClass, set[str]]:
        """Ids that both indexes must hold, by class."""
        return {source_class: set(ids) for source_class, ids in self._stored(0).items() if ids}

    def records(self) -> dict[SourceClass, dict[str, str]]:
        """{class: {id: digest}} of the stored records."""
        return self._stored(4)

    def keyed(self) -> dict[SourceClass, dict[str, str]]:
        """{class: {id: text key}} of the stored records."""
        return self._stored(1)

    def _stored(self, column: Literal[0, 1, 4]) -> dict[SourceClass, dict[str, str]]:
        found: dict[SourceClass, dict[str, str]] = {}
        for entry in self.files.values():
            found.setdefault(entry.source_class, {}).update((row[0], row[column]) for row in entry.rows if row[4])
        return found

    def sample(self, source_class: SourceClass, size: int) -> dict[str, str]:
        """{id: digest} of a stored record of some files of a class, spread over all."""
        paths = sorted(path for path, entry in self.files.items() if entry.source_class is source_class)
        entries = (self.files[path] for path in paths[:: max(1, len(paths) // size)])
        return {row[0]: row[4] for entry in entries for row in [row for row in entry.rows if row[4]][:1]}

    def text_keys(self) -> set[str]:
        return {row[1] for entry in self.files.values() for row in entry.rows}

    def openings(self) -> dict[str, tuple[str, str]]:
        """{path: (class, opening)} of the front pages: what a reader may be told of the corpus before it opens anything."""
        return {path: (each.source_class.value, each.opening) for path, each in self.files.items() if each.opening}

    def ids_digest(self) -> str:
        """One digest over all ids with their class."""
        lines = sorted(f"{source_class.value} {i}" for source_class, ids in self.ids().items() for i in ids)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def counts(self) -> dict[str, int]:
        return {source_class.value: len(ids) for source_class, ids in sorted(self.ids().items())}


def chunk_id(source: str, text_key: str, occurrence: int) -> str:
    """Id of the ``occurrence``-th passage (from 0) with this embedded text in ``source``.

    It does not depend on the passage's position, so an edit leaves the ids of all other passages alone.
    """
    return hashlib.sha256(f"{source}\0{text_key}\0{occurrence}".encode()).hexdigest()[:24]


def chunk_digest(chunk: Chunk) -> str:
    """Digest of everything stored for ``chunk``: equal digests need no rewriting."""
    record = json.dumps(asdict(chunk), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(record.encode("utf-8", "surrogatepass")).hexdigest()[:16]
