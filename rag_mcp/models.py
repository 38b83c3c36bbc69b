"""Values that cross module borders: frozen, slotted, no behaviour beyond small derivations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

__all__ = [
    "About",
    "Chunk",
    "DocClass",
    "Evidence",
    "Gate",
    "IngestSummary",
    "Level",
    "Mode",
    "Notice",
    "Passage",
    "Reason",
    "Skipped",
    "SourceClass",
]


@dataclass(frozen=True, slots=True)
class About:
    """A corpus as a server presents it: its name where it serves several, and what it holds in a line, if that is known."""

    name: str
    description: str


class SourceClass(StrEnum):
    """What kind of source a file is; the unit of access control."""

    CODE = "code"
    DOCS = "docs"
    DECISIONS = "decisions"
    CONFIG = "config"
    MEMORY = "memory"


class DocClass(StrEnum):
    NOTE = "note"
    HANDOFF = "handoff"


class Mode(StrEnum):
    HYBRID = "hybrid"
    FTS = "fts"
    VECTOR = "vector"


class Gate(StrEnum):
    """STRICT withholds low-confidence results; NORMAL shows them, marked."""

    STRICT = "strict"
    NORMAL = "normal"


class Level(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Reason(StrEnum):
    """Why an answer is NO_RELEVANT_CONTEXT."""

    STRICT_BLOCKED_LOW = "strict_blocked_low"
    ACL_DENIED = "acl_denied"
    PLANE_FAILED = "plane_failed"
    NO_RESULTS = "no_results"


# --- ingest ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Passage:
    """One piece of a file as the chunker cut it.

    ``text[start:end]`` of the decoded file is this passage's own text; all passages of a file tile it (blank pieces
    are left out). ``table_header`` is the header row and delimiter row repeated for a table continued from the
    passage before, else empty; it is not part of the tiling. Lines are 1-based, inclusive, in the decoded file.
    """

    text: str
    heading_path: tuple[str, ...]
    start: int
    end: int
    line_start: int
    line_end: int
    table_header: str = ""

    @property
    def shown(self) -> str:
        """The passage as readers and indexes get it: a continued table with its column names."""
        return f"{self.table_header}{self.text}" if self.table_header else self.text


@dataclass(frozen=True, slots=True)
class Chunk:
    """One indexed passage with everything a citation, a filter or a rebuild needs.

    ``id`` is unique in a store. ``text_key`` names the embedded text (not the place): equal keys share one vector.
    ``start``/``end`` are character offsets in the prepared text (decoded, data URIs shortened).
    ``valid_on`` lists the snapshot dates (ISO) this text held on, first date first; empty outside a series.
    ``head`` is what the head of the document says, a line a property, on its first stored passage and no other: it is
    searched and never shown. ``text`` is empty for what stands for a document without a passage of its own.
    """

    id: str
    text_key: str
    source: str
    source_class: SourceClass
    project: str | None
    doc_class: DocClass
    title: str
    heading_path: tuple[str, ...]
    index: int
    line_start: int
    line_end: int
    start: int
    end: int
    text: str
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    date: str | None = None
    language: str = "en"
    series: str | None = None
    valid_on: tuple[str, ...] = ()
    head: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file (or folder) left out, or kept as it was last indexed, and why. Never holds file content."""

    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Something its owner should know of a file or folder that is indexed, or of the run itself (``source`` is then
    what was asked for, such as a pattern). Never holds file content."""

    source: str
    text: str


@dataclass(frozen=True, slots=True)
class IngestSummary:
    """``unmet`` are the texts to exclude by that met nothing; ``files_unreadable`` counts files and folders that could
    not be read just now, so that another run is worth while."""

    files_seen: int
    files_ingested: int
    files_unchanged: int
    files_skipped: int
    files_deleted: int
    chunks_added: int
    chunks_deleted: int
    chunks_updated: int
    chunks_deduped: int
    chunks_embedded: int
    chunks_truncated: int
    incremental: bool
    rebuilt_because: str | None
    store_count: int
    generation: int | None
    published: bool
    skipped: tuple[Skipped, ...]
    notices: tuple[Notice, ...]
    excluded: Mapping[str, int]
    unmet: tuple[str, ...]
    files_unreadable: int
    elapsed_s: float


# --- search ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Evidence:
    """Raw, query-dependent evidence for one chunk, before any score is made of it.

    ``cosine`` in [-1, 1]; ``bm25`` raw; ``bm25_bound`` its upper bound for this query; ``term_share`` the IDF-weighted
    share (0..1) of the query's terms found in text, headings, title, aliases or tags. None means that branch did not
    run. Ranks are 1-based within the branch's own list; None when the chunk was not in it.
    """

    cosine: float | None = None
    bm25: float | None = None
    bm25_bound: float | None = None
    term_share: float | None = None
    vector_rank: int | None = None
    bm25_rank: int | None = None
