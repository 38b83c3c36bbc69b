"""Values that cross module borders: frozen, slotted, no behaviour beyond small derivations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = [
    "HIDDEN_MARK",
    "Chunk",
    "Citation",
    "Coverage",
    "DocClass",
    "Document",
    "DocumentEntry",
    "DocumentPage",
    "Evidence",
    "Gate",
    "IngestSummary",
    "Level",
    "Mode",
    "Notice",
    "Passage",
    "Reason",
    "Result",
    "Scores",
    "SearchResponse",
    "Skipped",
    "SourceClass",
    "SourceInventory",
    "Status",
]

HIDDEN_MARK = "[comment not shown]"
"""Stands in a passage for what no reader of the rendered page sees; it is shown, and never searched."""


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


@dataclass(frozen=True, slots=True)
class Citation:
    source: str
    title: str
    heading: str
    heading_path: tuple[str, ...]
    chunk_index: int
    line_start: int
    line_end: int
    snapshot_date: str | None = None
    also_unchanged_on: tuple[str, ...] = ()
    snapshots_covered: int | None = None


@dataclass(frozen=True, slots=True)
class Scores:
    """Branch scores as they came; all finite or None."""

    rrf: float | None
    vector: float | None
    bm25: float | None
    vector_rank: int | None
    bm25_rank: int | None


@dataclass(frozen=True, slots=True)
class Result:
    """One answer passage. ``text`` is None when the budget was spent (the citation stands alone).

    ``score`` is the calibrated probability (0..1) that the passage answers. ``warnings`` names neutralised content
    (for example ``bidi_override``). ``also_in`` lists the other visible places of the same text, or of
    a part of it.
    """

    text: str | None
    citation: Citation
    source_class: SourceClass
    project: str | None
    doc_class: DocClass
    confidence: Level
    score: float
    scores: Scores
    truncated: bool = False
    also_in: tuple[Citation, ...] = ()
    warnings: tuple[str, ...] = ()
    explain: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Coverage:
    queried: tuple[SourceClass, ...] = ()
    skipped_by_acl: tuple[SourceClass, ...] = ()
    failed: tuple[SourceClass, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchResponse:
    """``status`` is OK or NO_RELEVANT_CONTEXT (then ``reason`` says why). ``without_text`` counts results whose text
    did not fit into ``max_chars``. ``not_in_documents`` are numbers and codes the question turns on that stand in none
    of the documents searched; then no result is above low.
    """

    status: str
    reason: Reason | None
    results: tuple[Result, ...]
    coverage: Coverage
    mode: Mode
    confidence: Gate
    degraded: bool = False
    degraded_reason: str | None = None
    generation: int | None = None
    indexed_at: str | None = None
    without_text: int = 0
    not_in_documents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """Lines and chunks are those shown. ``next_chunk`` and ``next_char`` say where the text goes on; None at its end."""

    source: str
    title: str
    source_class: SourceClass
    project: str | None
    doc_class: DocClass
    text: str
    line_start: int
    line_end: int
    chunk_start: int
    chunk_end: int
    chunk_count: int
    truncated: bool
    next_chunk: int | None
    next_char: int
    generation: int
    indexed_at: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DocumentEntry:
    source: str
    title: str
    source_class: SourceClass
    project: str | None
    doc_class: DocClass
    chunks: int


@dataclass(frozen=True, slots=True)
class DocumentPage:
    documents: tuple[DocumentEntry, ...]
    next_cursor: str | None
    generation: int | None


@dataclass(frozen=True, slots=True)
class SourceInventory:
    """Aggregate counts per class the caller may see: {class: {"files": n, "chunks": n}}."""

    profile: str
    classes: Mapping[SourceClass, Mapping[str, int]]
    explicit_only: tuple[SourceClass, ...]
    projects: tuple[str, ...]
    generation: int | None
    indexed_at: str | None


@dataclass(frozen=True, slots=True)
class Status:
    """What rag_status tells: JSON-ready sections, already filtered by profile."""

    ok: bool
    profile: str
    generation: int | None
    indexed_at: str | None
    embedder: str
    vector_ready: bool
    degraded_reason: str | None
    inventory: Mapping[str, Mapping[str, int]]
    integrity: Mapping[str, object]
    telemetry: Mapping[str, object]
    skipped: tuple[Skipped, ...] = ()
    notices: tuple[Notice, ...] = ()
    notes: tuple[str, ...] = field(default=())
