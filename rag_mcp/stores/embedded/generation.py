"""One published state of a store on disk: pinned while it is open, and opened only as far as it is what was published."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rag_mcp.errors import StoreDamaged
from rag_mcp.models import Chunk, SourceClass
from rag_mcp.stores.embedded.files import file_digest, owners_only
from rag_mcp.stores.embedded.manifest_file import MANIFEST, read_manifest
from rag_mcp.stores.manifest import Manifest

if TYPE_CHECKING:
    from rag_mcp.stores.embedded.keywords import TantivyReader
    from rag_mcp.stores.embedded.vectors import ChromaReader

__all__ = [
    "FORMAT_VERSION",
    "Generation",
    "GenerationInfo",
    "changed_files",
    "pin_exclusively",
    "pin_shared",
    "untouched",
]

FORMAT_VERSION = 2


@dataclass(frozen=True, slots=True)
class GenerationInfo:
    """What generation.json says. ``checksums`` covers every file but the one Chroma rewrites when it is opened: size,
    digest and time of the last change."""

    number: int
    parent: int | None
    created_at: str
    identity: Mapping[str, object]
    counts: Mapping[str, int]
    files: int
    ids_digest: str
    checksums: Mapping[str, list[object]]
    vector_slots: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, object] = field(default_factory=dict)
    format: int = FORMAT_VERSION


@dataclass(slots=True)
class Generation:
    """One complete generation on disk, pinned while this object is open."""

    folder: Path
    info: GenerationInfo
    _pin: int | None

    @property
    def number(self) -> int:
        return self.info.number

    @property
    def chroma_path(self) -> Path:
        return self.folder / "chroma"

    @property
    def keywords_path(self) -> Path:
        return self.folder / "keywords"

    def resized(self) -> list[str]:
        """Names of files that are missing or have another size: a check that costs next to nothing."""
        found = [name for name, value in self.info.checksums.items() if _size(self.folder / name) != value[0]]
        return found if _size(self.chroma_path / "chroma.sqlite3") > 0 else [*found, "chroma/chroma.sqlite3"]

    def changed(self, below: str | tuple[str, ...] = "", *, trusted: bool = False) -> list[str]:
        """As ``changed_files``."""
        return changed_files(self.folder, self.info, below=below, trusted=trusted)

    def lease(self) -> contextlib.AbstractContextManager[None]:
        """It is pinned, and never changes."""
        return contextlib.nullcontext()

    def manifest(self) -> Manifest:
        """Raises StoreDamaged."""
        if damaged := self.changed(MANIFEST, trusted=True):
            raise StoreDamaged(f"Generation {self.number} is damaged: {', '.join(damaged)} has changed on disk.")
        return read_manifest(self.folder)

    @property
    def file_count(self) -> int:
        return self.info.files

    def records(self, source_class: SourceClass, ids: Collection[str]) -> dict[str, Chunk]:
        from rag_mcp.stores.embedded.keywords import TantivyReader

        with contextlib.closing(TantivyReader(self.keywords_path)) as reader:
            return reader.fetch([source_class], ids)

    def open_keywords(
        self, *, needed: Collection[SourceClass], partial: bool = False, scratch: Path | None = None
    ) -> TantivyReader:
        """Only bytes that were published are opened: a mapped file that has become shorter would kill the process, one with
        other bytes might answer."""
        from rag_mcp.stores.embedded.keywords import TantivyReader

        damaged = self.changed(("keywords/", MANIFEST))
        broken = {_class_named(name) for name in damaged}
        if None in broken or (broken.intersection(needed) and not partial):
            # The class is not named: whoever asks may not be allowed to know that it exists.
            what = "its manifest or a description" if None in broken else "its keyword index"
            raise StoreDamaged(f"Generation {self.number} is damaged: {what} has changed on disk.")
        return TantivyReader(self.keywords_path, scratch=scratch, broken=_without_none(broken))

    def open_vectors(self, *, needed: Collection[SourceClass], scratch: Path | None = None) -> ChromaReader:
        """Native code aborts on a damaged index, so it only ever sees the bytes that the writer published and tested."""
        from rag_mcp.stores.embedded.vectors import ChromaReader, check_database, class_folders

        damaged = self.changed("chroma/")
        check_database(self.chroma_path)
        classes = class_folders(self.chroma_path) if damaged else {}
        broken = {classes.get(name.split("/")[1]) for name in damaged}
        if None in broken or broken.intersection(needed):
            raise StoreDamaged("The vector index is damaged on disk. Run: rag-mcp doctor --fix")
        reader = ChromaReader(self.chroma_path, scratch=scratch, broken=_without_none(broken))
        held, published = reader.counts(), self.info.counts
        if any(held.get(name, 0) != published.get(name, 0) for name in needed):
            reader.close()
            raise StoreDamaged("The vector index has lost or gained rows. Run: rag-mcp doctor --fix")
        return reader

    def close(self) -> None:
        """Let the collector have it; safe to call twice."""
        if self._pin is not None:
            descriptor, self._pin = self._pin, None
            os.close(descriptor)


def changed_files(
    folder: Path, info: GenerationInfo, *, below: str | tuple[str, ...] = "", trusted: bool = False
) -> list[str]:
    """Names (those that start with ``below``) of files whose bytes are not those published, missing ones included. With
    ``trusted``, a file that nobody has written to since, by its size and time, is not read for that."""
    return sorted(
        name
        for name, value in info.checksums.items()
        if name.startswith(below)
        and not (trusted and untouched(folder / name, value))
        and not _is(folder / name, value)
    )


def untouched(path: Path, wanted: Sequence[object]) -> bool:
    """Whether size and time are those recorded; a record of an older version has no time."""
    try:
        status = path.stat()
    except OSError:
        return False
    return [status.st_size, status.st_mtime_ns] == [wanted[0], *wanted[2:]]


def _is(path: Path, wanted: Sequence[object]) -> bool:
    try:
        return path.stat().st_size == wanted[0] and file_digest(path) == list(wanted[:2])
    except OSError:
        return False


def _class_named(path: str) -> SourceClass | None:
    """The class whose keyword index a file belongs to; None for a file of all."""
    folder, _, rest = path.partition("/")
    with contextlib.suppress(ValueError):
        return SourceClass(rest.split("/")[0]) if folder == "keywords" else None
    return None


def _without_none(classes: Iterable[SourceClass | None]) -> set[SourceClass]:
    return {found for found in classes if found is not None}


def _size(path: Path) -> int:
    """In bytes; -1 when it can't be had."""
    try:
        return path.stat().st_size
    except OSError:
        return -1


def pin_shared(path: Path) -> int | None:
    """Descriptor that holds a shared lock on ``path``; None when the file is being collected right now."""
    descriptor = owners_only(str(path), os.O_RDONLY)
    if sys.platform == "win32":
        return descriptor  # the open handle itself keeps Windows from renaming or deleting the folder
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino == os.stat(path).st_ino:
            return descriptor
    except FileNotFoundError:
        pass
    except BlockingIOError:
        pass
    except OSError:
        # A file system without locks (some network mounts): read without a pin rather than not at all.
        return descriptor
    os.close(descriptor)
    return None


@contextlib.contextmanager
def pin_exclusively(path: Path) -> Iterator[bool]:
    """Yield whether nobody has ``path`` pinned, holding it exclusively meanwhile."""
    if sys.platform == "win32":
        yield True
        return
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield True
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)
