"""Vectors in embedded Chroma: ids and unit vectors, one collection a source class, no text; the only user of chromadb.

A reader process never sees another process's writes to the same Chroma folder, so a folder is written once, closed, and
only then read: every generation has its own.
"""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_mcp.errors import StoreDamaged, StoreError
from rag_mcp.models import SourceClass
from rag_mcp.stores.base import VectorHit
from rag_mcp.stores.embedded.chroma_rows import ChromaRows
from rag_mcp.stores.embedded.files import disk_is_full, is_passing, is_writable, link_or_copy
from rag_mcp.stores.embedded.private_copy import PrivateCopy, private_copy
from rag_mcp.stores.embedded.recent import RECENT_ROWS, Recent, class_of_recent, read_recent, rounded

if TYPE_CHECKING:
    from rag_mcp.embedders.base import Vectors

__all__ = [
    "REWRITTEN_ON_OPEN",
    "ChromaReader",
    "ChromaWriter",
    "check_database",
    "class_folders",
    "copy_index",
    "is_settled",
    "link_index",
    "rows_held",
]

# The one file Chroma changes when a folder is merely opened; all others keep their bytes.
REWRITTEN_ON_OPEN = frozenset({"chroma.sqlite3", "chroma.sqlite3-journal", "chroma.sqlite3-wal", "chroma.sqlite3-shm"})

# Defaults (16 neighbours, ef 100) left recall@50 at 0.96 with some queries at 0; these reach 0.98 and more. Among some
# hundred passages that are nearly the same, 32 neighbours left the very best one unreachable in one build of three, 64
# in none of 60. The index is saved from two rows on (the default waits for 1,000): a reader would otherwise build it from the log at each start
# and write to the folder.
_HNSW = {
    "space": "cosine",
    "max_neighbors": 64,
    "ef_construction": 200,
    "ef_search": 200,
    "batch_size": 2,
    "sync_threshold": 2,
}
_PREFIX = "chunks-"
_BUSY_TIMEOUT_S = 30.0
_OPENING = threading.Lock()
# Looked-up vectors that a reader keeps: what comes up in one answer tends to come up in the next.
_KEPT_VECTORS = 4_096
_LOOKUP_ROWS = 5_000  # below SQLite's limit of bound variables


def _collection(source_class: SourceClass) -> str:
    return f"{_PREFIX}{source_class.value}"


def is_settled(path: Path) -> bool:
    """False for a file of a collection too small to have been saved (one row): each opener writes it anew."""
    return path.suffix != ".bin" or (path.parent / "index_metadata.pickle").exists()


def check_database(folder: Path) -> None:
    """Look over chroma.sqlite3 with SQLite itself, before native code trusts it. Raises StoreDamaged."""
    try:
        with _looked_at(folder) as database:
            database.text_factory = bytes  # a verdict may quote what it found, which need not be text
            verdict = database.execute("PRAGMA quick_check(1)").fetchone()[0]
            database.execute("SELECT count(*) FROM collections").fetchone()
    except (sqlite3.Error, TypeError, OSError) as error:
        raise StoreDamaged("The vector index is damaged: chroma.sqlite3 can't be read.") from error
    if verdict != b"ok":
        raise StoreDamaged("The vector index is damaged: chroma.sqlite3 fails its own check.")


def _looked_at(folder: Path) -> closing[sqlite3.Connection]:
    path = folder / "chroma.sqlite3"
    return closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True))


def class_folders(folder: Path) -> dict[str, SourceClass]:
    """{name of an index folder or of a file with recent vectors: the class they are of}. Raises StoreDamaged."""
    recent = {path.name: found for path in folder.glob("*") if (found := class_of_recent(path.name)) is not None}
    query = "SELECT s.id, c.name FROM segments s JOIN collections c ON s.collection = c.id WHERE s.scope = 'VECTOR'"
    try:
        with _looked_at(folder) as database:
            rows = database.execute(query).fetchall()
            return recent | {str(row[0]): SourceClass(row[1].removeprefix(_PREFIX)) for row in rows}
    except (sqlite3.Error, ValueError, AttributeError) as error:
        raise StoreDamaged("The vector index is damaged: chroma.sqlite3 can't be read.") from error


def rows_held(folder: Path, source_class: SourceClass, ids: Collection[str]) -> tuple[int, set[str]]:
    """How many rows a class has, and which of ``ids``: asked of the files themselves, which is quick. Raises StoreDamaged."""
    recent = read_recent(folder, source_class)
    rows = "FROM embeddings e JOIN segments s ON e.segment_id = s.id JOIN collections c ON s.collection = c.id"
    try:
        with _looked_at(folder) as database:
            name = _collection(source_class)
            count = int(database.execute(f"SELECT count(*) {rows} WHERE c.name = ?", (name,)).fetchone()[0])
            query = f"SELECT 1 {rows} WHERE c.name = ? AND e.embedding_id = ?"
            found = {i for i in ids if i not in recent.gone and database.execute(query, (name, i)).fetchone()}
    except sqlite3.Error as error:
        raise StoreDamaged("The vector index is damaged: chroma.sqlite3 can't be read.") from error
    return count - len(recent.gone) + len(recent.ids), found.union(set(ids).intersection(recent.ids))


def copy_index(source: Path, target: Path) -> None:
    """Copy a folder that readers may be opening just now, each with a small transaction of its own.

    Every other file keeps its bytes; of the database a plain copy could catch half a transaction. What is recent stays
    behind. Raises OSError, or StoreError when the database can't be copied.
    """
    _make_like(source, target, lambda file, place: shutil.copyfile(file, place))


def link_index(source: Path, target: Path) -> None:
    """The same for a folder whose HNSW files nobody is going to write: they have two names then."""
    _make_like(source, target, lambda file, place: (link_or_copy if is_settled(file) else shutil.copyfile)(file, place))


def _make_like(source: Path, target: Path, put: Callable[[Path, Path], object]) -> None:
    target.mkdir()
    for entry in source.rglob("*"):
        place = target / entry.relative_to(source)
        if entry.is_dir():
            place.mkdir()
        elif entry.name not in REWRITTEN_ON_OPEN and not is_passing(entry.name) and not class_of_recent(entry.name):
            put(entry, place)
    try:
        with (
            closing(sqlite3.connect(source / "chroma.sqlite3", timeout=_BUSY_TIMEOUT_S)) as old,
            closing(sqlite3.connect(target / "chroma.sqlite3")) as new,
        ):
            old.backup(new)
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
            raise _disk_full() from error
        raise StoreDamaged(f"The vector index can't be copied: {error}.") from error


def _disk_full() -> StoreError:
    return StoreError("The disk is full: the vector index can't be written, and the store is what it was.")


def _settings() -> Any:
    """Chroma's defaults and nothing else.

    Made as usual they would come from the environment and from a ``.env`` in the working folder, which a folder of foreign
    files may bring along; there they could name a server for the rows to be sent to, or a class to load.
    """
    from chromadb.config import Settings

    return Settings.model_construct(anonymized_telemetry=False)


class ChromaReader:
    """Reads one folder, and what is recent in it. A folder that can't be written is copied to ``scratch`` first: Chroma
    has no read-only mode. Every native error, panics included, leaves here as StoreDamaged.

    Classes known to be ``broken`` are never opened; asking them raises StoreDamaged.
    """

    def __init__(
        self, folder: Path, *, scratch: Path | None = None, broken: Collection[SourceClass] = frozenset()
    ) -> None:
        self._broken = frozenset(broken)
        self._copy: PrivateCopy | None = None
        self._kept: dict[str, tuple[SourceClass, Vectors]] = {}
        self._few: dict[SourceClass, Recent | None] = {}
        if not is_writable(folder):
            self._copy = private_copy(folder, scratch)
            folder = self._copy.path
        self._folder = folder
        # Even counting the rows of a broken one would load it.
        whole = [source_class for source_class in SourceClass if source_class not in self._broken]
        try:
            with _translated(folder):
                self._rows = ChromaRows(folder)
                self._recent = {source_class: read_recent(folder, source_class) for source_class in whole}
        except BaseException:
            self._drop_copy()
            raise
        self._stored = frozenset(each for each in whole if _collection(each) in self._rows.collections)

    def counts(self) -> dict[str, int]:
        """Rows of each class that has any."""
        found = {name.value: len(recent.ids) - len(recent.gone) for name, recent in self._recent.items()}
        with _translated(self._folder):
            for source_class in self._stored:
                found[source_class.value] += self._rows.count(_collection(source_class))
        return {name: count for name, count in found.items() if count}

    def ids(self, source_class: SourceClass) -> set[str]:
        recent = self._recent_of(source_class)
        with _translated(self._folder):
            stored = self._rows.ids(_collection(source_class)) if source_class in self._stored else ()
        return set(stored).difference(recent.gone).union(recent.ids)

    def query(self, source_class: SourceClass, vector: Vectors, limit: int) -> list[VectorHit]:
        """Nearest first; ties by id."""
        recent = self._recent_of(source_class)
        hits = self._nearest(source_class, vector, limit, recent.gone) + recent.nearest(vector, limit)
        return sorted(hits, key=lambda hit: (-hit.cosine, hit.id))[:limit]

    def _nearest(
        self, source_class: SourceClass, vector: Vectors, limit: int, gone: Collection[str]
    ) -> list[VectorHit]:
        if source_class not in self._stored:
            return []
        if (few := self._looked_through(source_class)) is not None:
            return few.nearest(vector, limit)
        hits: list[VectorHit] = []
        for wanted in (limit, limit + len(gone)):
            with _translated(self._folder):
                rows = self._rows.nearest(_collection(source_class), vector, wanted)
            hits = [VectorHit(i, rounded(1.0 - distance)) for i, distance in rows if i not in gone]
            if len(hits) >= limit or len(hits) == len(rows):
                break  # what is gone has taken no place
        return hits

    def _looked_through(self, source_class: SourceClass) -> Recent | None:
        """What the HNSW file of a class holds, if that is little: then nothing is lost by looking through all of it, as HNSW
        may lose one of hundreds that are nearly the same."""
        if source_class not in self._few:
            with _translated(self._folder):
                small = self._rows.count(_collection(source_class)) <= RECENT_ROWS
                ids = self._rows.ids(_collection(source_class)) if small else []
                ids = [each for each in ids if each not in self._recent[source_class].gone]
            found, rows = self._stored_vectors(source_class, ids)
            self._few[source_class] = Recent(tuple(found), rows if found else None) if small else None
        return self._few[source_class]

    def similarities(self, source_class: SourceClass, vector: Vectors, ids: Collection[str]) -> dict[str, float]:
        """Exact cosine for the ids that exist."""
        known = self._kept  # another thread may put a new one in its place
        found = {i: known[i] for i in ids if i in known and known[i][0] is source_class}
        missing = [i for i in ids if i not in found]
        if missing:
            read, rows = self.vectors(source_class, missing)
            found.update((i, (source_class, row)) for i, row in zip(read, rows, strict=True))
            if len(known) + len(read) > _KEPT_VECTORS:
                self._kept = {}
            self._kept.update((i, found[i]) for i in read)
        return {i: rounded(float(row @ vector)) for i, (_, row) in found.items()}

    def vectors(self, source_class: SourceClass, ids: Collection[str]) -> tuple[list[str], Vectors]:
        """Stored vectors of the ids that exist, (n, dimension), in the order of the returned ids."""
        import numpy as np

        recent = self._recent_of(source_class)
        found, rows = recent.vectors(ids)
        wanted = sorted(set(ids).difference(recent.gone, found)) if source_class in self._stored else []
        read, stored = self._stored_vectors(source_class, wanted)
        blocks = [*([np.stack(rows)] if rows else []), *([stored] if read else [])]
        return [*found, *read], np.concatenate(blocks) if blocks else stored

    def _stored_vectors(self, source_class: SourceClass, ids: Sequence[str]) -> tuple[list[str], Vectors]:
        import numpy as np

        found: list[str] = []
        blocks: list[Vectors] = []
        for start in range(0, len(ids), _LOOKUP_ROWS):
            with _translated(self._folder):
                read, vectors = self._rows.vectors(_collection(source_class), ids[start : start + _LOOKUP_ROWS])
            if read:
                found.extend(read)
                blocks.append(np.asarray(vectors, dtype=np.float32))
        return found, np.concatenate(blocks) if blocks else np.zeros((0, 0), dtype=np.float32)

    def _recent_of(self, source_class: SourceClass) -> Recent:
        if source_class in self._broken:
            raise StoreDamaged("The vector index is damaged on disk. Run: rag-mcp doctor --fix")
        return self._recent[source_class]

    def close(self) -> None:
        self._rows.close()
        self._drop_copy()

    def _drop_copy(self) -> None:
        if self._copy is not None:
            self._copy.close()
            self._copy = None


class ChromaWriter:
    """Adds to and deletes from a folder nobody else has open and nothing is recent in. Every native error, panics
    included, leaves here as StoreDamaged."""

    def __init__(self, folder: Path) -> None:
        import chromadb

        self._folder = folder
        self._collections: dict[SourceClass, Any] = {}
        with _translated(folder), _registry(folder):
            # The class returned has close(); the interface it is declared as has not.
            self._client: Any = chromadb.PersistentClient(path=str(folder), settings=_settings())
        try:
            self._load()
        except BaseException:
            with suppress(StoreError):
                self.close()
            raise

    def _load(self) -> None:
        with _translated(self._folder):
            self._max_batch = int(self._client.get_max_batch_size())
            for collection in self._client.list_collections():
                name = getattr(collection, "name", collection)
                with suppress(ValueError):
                    source_class = SourceClass(str(name).removeprefix(_PREFIX))
                    self._collections[source_class] = self._client.get_collection(str(name), embedding_function=None)

    def close(self) -> None:
        self._collections.clear()
        with _translated(self._folder), _registry(self._folder):
            self._client.close()
        # Every row has passed through the database's log, whose pages stay in the file: ten times what it holds.
        with _translated(self._folder), closing(sqlite3.connect(self._folder / "chroma.sqlite3")) as database:
            database.execute("VACUUM")

    def fold(self, recent: Mapping[SourceClass, Recent]) -> None:
        """Put into the HNSW files what was beside them."""
        for source_class, each in recent.items():
            self.delete(source_class, each.gone)
            if each.rows is not None:
                self.upsert(source_class, each.ids, each.rows)

    def upsert(self, source_class: SourceClass, ids: Sequence[str], vectors: Vectors) -> None:
        """Store one row an id, in slices the database accepts."""
        if source_class not in self._collections:
            with _translated(self._folder):
                self._collections[source_class] = self._client.create_collection(
                    _collection(source_class),
                    embedding_function=None,
                    configuration={"hnsw": _HNSW},
                )
        step = min(self._max_batch, _LOOKUP_ROWS)
        for start in range(0, len(ids), step):
            with _translated(self._folder):
                self._collections[source_class].upsert(
                    ids=list(ids[start : start + step]), embeddings=vectors[start : start + step]
                )

    def delete(self, source_class: SourceClass, ids: Collection[str]) -> None:
        """Remove rows; a class that holds none afterwards loses its collection and with it its file."""
        collection = self._collections.get(source_class)
        if collection is None or not ids:
            return
        wanted = sorted(ids)
        step = min(self._max_batch, _LOOKUP_ROWS)
        for start in range(0, len(wanted), step):
            with _translated(self._folder):
                collection.delete(ids=wanted[start : start + step])
        with _translated(self._folder):
            if collection.count() == 0:
                self._client.delete_collection(collection.name)
                del self._collections[source_class]


@contextmanager
def _registry(folder: Path) -> Iterator[None]:
    """Chroma shares one system between all clients of a path, without a lock, and keeps one that failed to start:
    every later client of that path would fail too."""
    from chromadb.api.shared_system_client import SharedSystemClient

    with _OPENING:
        try:
            yield
        except BaseException:
            if str(folder) not in SharedSystemClient._identifier_to_refcount:
                SharedSystemClient._identifier_to_system.pop(str(folder), None)
            raise


@contextmanager
def _translated(folder: Path) -> Iterator[None]:
    """A disk that is full looks like damage to whoever only sees what Chroma makes of it."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"The vector index can't be used: {error.strerror or type(error).__name__}.") from error
    except BaseException as error:  # Rust panics derive from BaseException
        if "disk is full" in str(error) or disk_is_full(folder):
            raise _disk_full() from error
        raise StoreDamaged(f"The vector index failed ({type(error).__name__}). Run: rag-mcp doctor --fix") from error
