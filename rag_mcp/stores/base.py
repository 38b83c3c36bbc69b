"""What a store is to whoever searches it, where access control picks the classes before any call, and to who fills it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeAlias

from rag_mcp.models import Chunk, DocClass, SourceClass
from rag_mcp.stores.manifest import Manifest

if TYPE_CHECKING:
    from pathlib import Path

    from rag_mcp.embedders.base import Vectors

__all__ = [
    "EVERYTHING",
    "Changes",
    "KeywordEvidence",
    "KeywordHit",
    "KeywordReader",
    "KnownVectors",
    "LiveSnapshot",
    "PassageFilter",
    "Snapshot",
    "SnapshotInfo",
    "StoreWrite",
    "Subject",
    "VectorHit",
    "VectorReader",
]


@dataclass(frozen=True, slots=True)
class PassageFilter:
    """Which passages are looked at, beyond the class. ``valid_days`` maps a series to the one day asked for
    (``as_of``); chunks of a series not in the map are left out when the map is not None, chunks outside any series
    stay. ``sources`` are the only documents asked for, None for all but those ``left_out``.
    """

    project: str | None = None
    doc_class: DocClass | None = None
    valid_days: Mapping[str, str] | None = None
    sources: frozenset[str] | None = None
    left_out: frozenset[str] = frozenset()

    @property
    def empty(self) -> bool:
        return self == PassageFilter()


EVERYTHING = PassageFilter()


@dataclass(frozen=True, slots=True)
class VectorHit:
    id: str
    cosine: float


@dataclass(frozen=True, slots=True)
class KeywordHit:
    id: str
    bm25: float


@dataclass(frozen=True, slots=True)
class KeywordEvidence:
    """``bm25`` raw score over all fields; ``term_share`` IDF-weighted share (0..1) of query terms in any field;
    ``title_share`` the same in title, headings, aliases and tags only; ``exact`` True when a whole identifier of the
    query, or all of its (two or more) content terms as a phrase, stand in the chunk; ``matched`` the query terms found; ``by_head``
    tells that some stand in the head of the document.
    """

    bm25: float = 0.0
    term_share: float = 0.0
    title_share: float = 0.0
    exact: bool = False
    matched: tuple[str, ...] = field(default=())
    by_head: bool = False


@dataclass(frozen=True, slots=True)
class Subject:
    """What a question is about: its words of ``content`` as written, none when there is nothing to look for, and the
    numbers and codes that are ``fixed``, {label: as written}: with another one it would be another question.
    """

    content: tuple[str, ...] = ()
    fixed: Mapping[str, str] = field(default_factory=dict)


class VectorReader(Protocol):
    def query(self, source_class: SourceClass, vector: Vectors, limit: int) -> list[VectorHit]:
        """Nearest first; ties by id. A class without a collection gives []. Raises StoreDamaged."""
        ...

    def similarities(self, source_class: SourceClass, vector: Vectors, ids: Collection[str]) -> dict[str, float]:
        """Exact cosine for the ids that exist."""
        ...

    def close(self) -> None: ...


class KeywordReader(Protocol):
    def search(
        self, text: str, classes: Collection[SourceClass], limit: int, *, filters: PassageFilter = EVERYTHING
    ) -> list[KeywordHit]:
        """Best BM25 first (comparable across the classes asked), ties by id; only statistics of ``classes`` count."""
        ...

    def evidence(
        self,
        text: str,
        classes: Collection[SourceClass],
        ids: Collection[str],
        *,
        known: Mapping[str, float] = MappingProxyType({}),
    ) -> dict[str, KeywordEvidence]:
        """For those of the ids that are there; ``known`` are BM25 scores that ``search`` gave for the same text."""
        ...

    def bm25_bound(self, text: str, classes: Collection[SourceClass]) -> float:
        """Upper bound of the BM25 score any chunk could reach for this query; 0.0 when no term is known."""
        ...

    def subject(self, text: str, classes: Collection[SourceClass]) -> Subject: ...

    def holding(
        self,
        text: str,
        label: str,
        classes: Collection[SourceClass],
        limit: int,
        *,
        filters: PassageFilter = EVERYTHING,
    ) -> set[str]:
        """Ids of at most ``limit`` passages of each class that meet the query term with this label."""
        ...

    def matching_ids(self, classes: Collection[SourceClass], filters: PassageFilter, limit: int) -> set[str] | None:
        """Ids that pass ``filters``; None when there are more than ``limit``."""
        ...

    def size(self, classes: Collection[SourceClass]) -> int:
        """Passages in these classes."""
        ...

    def fetch(self, classes: Collection[SourceClass], ids: Collection[str]) -> dict[str, Chunk]: ...

    def close(self) -> None: ...


class SnapshotInfo(Protocol):
    """What a state says of itself. ``identity`` says whether its vectors and records may be mixed with others; ``counts``
    are passages by class."""

    @property
    def created_at(self) -> str: ...

    @property
    def identity(self) -> Mapping[str, object]: ...

    @property
    def counts(self) -> Mapping[str, int]: ...

    @property
    def notes(self) -> Mapping[str, object]: ...


class Snapshot(Protocol):
    """One published state of a store, which stays what it is as long as it is open.

    Damage of a class that is not ``needed`` costs nothing and is not told: nobody here may know that the class exists.
    """

    @property
    def number(self) -> int: ...

    @property
    def info(self) -> SnapshotInfo: ...

    def lease(self) -> AbstractContextManager[None]:
        """One question is asked within: all of it sees this state. Raises StoreDamaged when it is gone."""
        ...

    def manifest(self) -> Manifest:
        """Raises StoreDamaged."""
        ...

    def open_keywords(self, *, needed: Collection[SourceClass], partial: bool, scratch: Path | None) -> KeywordReader:
        """Raises StoreDamaged unless it is what was published; with ``partial``, damage costs only its classes."""
        ...

    def open_vectors(self, *, needed: Collection[SourceClass], scratch: Path | None) -> VectorReader:
        """Raises StoreDamaged unless it is what was published."""
        ...

    def close(self) -> None: ...


class LiveSnapshot(Snapshot, Protocol):
    """What the next state is built upon."""

    @property
    def file_count(self) -> int: ...

    def resized(self) -> list[str]:
        """What is missing or cut short, by a check that costs next to nothing."""
        ...

    def records(self, source_class: SourceClass, ids: Collection[str]) -> dict[str, Chunk]:
        """The records that are there; nothing else is examined."""
        ...


@dataclass(frozen=True, slots=True)
class Changes:
    """How the next state, which ``manifest`` describes, differs from the one it is built upon: ids by class, and the
    records of all that are ``added`` or ``updated``. A vector belongs to its text: an updated record keeps it."""

    manifest: Manifest
    chunks: Mapping[str, Chunk]
    added: Mapping[SourceClass, Collection[str]]
    updated: Mapping[SourceClass, Collection[str]]
    deleted: Mapping[SourceClass, Collection[str]]


KnownVectors: TypeAlias = "Callable[[Sequence[str]], Mapping[str, Vectors]]"
"""Looks up vectors by text key; those that are not known are left out."""


class StoreWrite(Protocol):
    """The next state of a store, seen by nobody before ``publish``. The steps come in this order; each raises
    StoreDamaged when the state it is built upon or the result fails its check."""

    @property
    def number(self) -> int: ...

    def write_vectors(
        self, changes: Changes, known: KnownVectors, progress: Callable[[str, int, int], None]
    ) -> None: ...

    def write_keywords(self, changes: Changes) -> None: ...

    def write_manifest(self, manifest: Manifest) -> None: ...

    def verify(self, manifest: Manifest) -> None: ...

    def seal(self, manifest: Manifest, *, created_at: str, notes: Mapping[str, object]) -> None:
        """Make it durable; nothing of it changes any more."""
        ...

    def publish(self) -> None: ...
