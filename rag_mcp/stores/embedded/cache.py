"""Vectors already paid for: text key + embedder fingerprint -> vector, in one SQLite file with one writer.

Only a cache: a file that is damaged or not ours is moved aside and begun anew. A file that is locked, can't be written
or is on a full disk is an error to solve, and nothing is moved. SQLite's rollback journal is used, so a killed process
leaves the whole of a call or nothing of it.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rag_mcp.errors import StoreError, StoreLocked, StoreReadOnly
from rag_mcp.stores.embedded.files import owners_only

if TYPE_CHECKING:
    from rag_mcp.embedders.base import Vectors

__all__ = ["EmbeddingCache", "check_cache"]

_Answer = TypeVar("_Answer")

# "ragE" in SQLite's application_id: tells our file from any other database.
_APPLICATION_ID = 0x72616745
_SCHEMA_VERSION = 1
_HEADER = b"SQLite format 3\0"
_PAGE_BYTES = 8192
_BUSY_TIMEOUT_MS = 2_000
# SQLite before 3.32 takes at most 999 variables a statement.
_KEYS_A_QUERY = 900
# Free pages are given back to the file system once they are this share of the file.
_SLACK_SHARE = 0.25
_SIDE_FILES = ("", "-journal", "-wal", "-shm")
_DAMAGED_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

_SCHEMA = f"""
PRAGMA page_size = {_PAGE_BYTES};
PRAGMA auto_vacuum = INCREMENTAL;
BEGIN IMMEDIATE;
CREATE TABLE spaces (
    id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE, dimension INTEGER NOT NULL, crc INTEGER NOT NULL
);
CREATE TABLE vectors (
    space INTEGER NOT NULL, key TEXT NOT NULL, crc INTEGER NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (space, key)
);
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_SCHEMA_VERSION};
COMMIT;
"""


class _Damaged(Exception):
    """The file is no database, or not one of ours or of this version, or its contents contradict themselves."""


class EmbeddingCache:
    """Vectors of one embedder. Calls are safe from several threads; the file has one writing process at a time.

    Opening and every call raise StoreLocked, StoreReadOnly or StoreError for what is not damage.
    """

    def __init__(self, path: Path, fingerprint: str) -> None:
        self._path = path
        self._fingerprint = fingerprint
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None
        self._guarded(lambda database: None)

    def get(self, keys: Iterable[str]) -> dict[str, Vectors]:
        """Return the vectors that are known; a row that fails its checksum counts as not known."""
        wanted = list(dict.fromkeys(keys))
        return self._guarded(lambda database: self._read(database, wanted))

    def put(self, keys: Sequence[str], vectors: Vectors) -> None:
        """Keep one row a key, all or none. Raises StoreError for another dimension or a number that is not finite."""
        import numpy as np

        rows = np.ascontiguousarray(vectors, dtype="<f4")
        if rows.ndim != 2 or len(rows) != len(keys):
            raise StoreError(f"The embedding cache was given {len(keys)} keys for vectors of shape {rows.shape}.")
        if not np.isfinite(rows).all():
            raise StoreError("The embedder gave a number that is not finite; nothing of this batch was kept.")
        if len(keys):
            blobs = [row.tobytes() for row in rows]
            self._guarded(lambda database: self._write(database, keys, blobs, rows.shape[1]))

    def trim(self, keep: Collection[str], keep_fingerprints: Collection[str] = ()) -> int:
        """Drop this embedder's rows outside ``keep`` and all rows of embedders outside ``keep_fingerprints``.

        Returns the number of rows dropped.
        """
        return self._guarded(lambda database: self._drop(database, keep, {*keep_fingerprints, self._fingerprint}))

    def count(self) -> int:
        """Rows of this embedder."""
        query = "SELECT count(*) FROM vectors WHERE space = (SELECT id FROM spaces WHERE fingerprint = ?)"
        return self._guarded(lambda database: int(database.execute(query, (self._fingerprint,)).fetchone()[0]))

    def close(self) -> None:
        with self._lock:
            self._disconnect()

    def _guarded(self, work: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
        """Run ``work`` in a transaction; on damage begin anew once and run it again."""
        with self._lock:
            try:
                return self._attempt(work)
            except (_Damaged, sqlite3.Error) as error:
                self._disconnect()
                if not _is_damage(error):
                    raise self._translated(error) from error
            self._move_aside()
            try:
                return self._attempt(work)
            except (_Damaged, sqlite3.Error) as error:
                self._disconnect()
                raise self._translated(error) from error

    def _attempt(self, work: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
        if self._database is None:
            self._database = _connected(self._path)
        with self._database:
            return work(self._database)

    def _disconnect(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _move_aside(self) -> None:
        """Rename the file with its journal: a journal left behind would be played into the new file."""
        number = 1
        while os.path.lexists(target := self._path.with_name(f"{self._path.name}.damaged-{number}")):
            number += 1
        try:
            for suffix in _SIDE_FILES:
                side = self._path.with_name(self._path.name + suffix)
                if os.path.lexists(side):
                    side.rename(target.with_name(target.name + suffix))
        except OSError as error:
            raise StoreError(
                f"The embedding cache {self._path} is damaged and can't be moved: {error.strerror}."
            ) from error

    def _translated(self, error: Exception) -> StoreError:
        code = _primary_code(error)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return StoreLocked(f"The embedding cache {self._path} is in use by another process. Try again later.")
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
            return StoreReadOnly(f"The embedding cache {self._path} can't be written ({error}).")
        if code == sqlite3.SQLITE_FULL:
            return StoreError(f"The disk is full: the embedding cache {self._path} can't grow.")
        return StoreError(f"The embedding cache {self._path} can't be used: {error}.")

    def _read(self, database: sqlite3.Connection, keys: Sequence[str]) -> dict[str, Vectors]:
        import numpy as np

        space = self._space(database)
        found: dict[str, Vectors] = {}
        if space is None:
            return found
        number, dimension = space
        for start in range(0, len(keys), _KEYS_A_QUERY):
            some = keys[start : start + _KEYS_A_QUERY]
            marks = ",".join("?" * len(some))
            query = f"SELECT key, crc, vector FROM vectors WHERE space = ? AND key IN ({marks})"
            for key, crc, blob in database.execute(query, (number, *some)):
                # Types are checked too: a flipped byte in a row's header turns a number into text.
                if isinstance(blob, bytes) and len(blob) == 4 * dimension and crc == self._checksum(key, blob):
                    found[key] = np.frombuffer(blob, dtype="<f4").astype(np.float32)
        return found

    def _write(self, database: sqlite3.Connection, keys: Sequence[str], blobs: Sequence[bytes], dimension: int) -> None:
        space = self._space(database)
        if space is None:
            query = "INSERT INTO spaces (fingerprint, dimension, crc) VALUES (?, ?, ?)"
            crc = self._checksum(str(dimension), b"")
            number = database.execute(query, (self._fingerprint, dimension, crc)).lastrowid
        elif space[1] == dimension:
            number = space[0]
        else:
            raise StoreError(f"The embedding cache holds vectors of {space[1]} numbers, not {dimension}.")
        rows = ((number, key, self._checksum(key, blob), blob) for key, blob in zip(keys, blobs, strict=True))
        database.executemany("INSERT OR REPLACE INTO vectors (space, key, crc, vector) VALUES (?, ?, ?, ?)", rows)

    def _drop(self, database: sqlite3.Connection, keep: Collection[str], fingerprints: Collection[str]) -> int:
        space = self._space(database)
        database.execute("CREATE TEMP TABLE IF NOT EXISTS kept (key TEXT PRIMARY KEY) WITHOUT ROWID")
        database.execute("DELETE FROM kept")
        database.executemany("INSERT OR IGNORE INTO kept VALUES (?)", ((key,) for key in keep))
        dropped = 0
        if space is not None:
            query = "DELETE FROM vectors WHERE space = ? AND key NOT IN (SELECT key FROM kept)"
            dropped += database.execute(query, (space[0],)).rowcount
        for number, fingerprint in database.execute("SELECT id, fingerprint FROM spaces").fetchall():
            if fingerprint not in fingerprints:
                dropped += database.execute("DELETE FROM vectors WHERE space = ?", (number,)).rowcount
                database.execute("DELETE FROM spaces WHERE id = ?", (number,))
        database.commit()
        _give_back(database)
        return dropped

    def _space(self, database: sqlite3.Connection) -> tuple[int, int] | None:
        """Number and dimension of this embedder's rows. Raises _Damaged, else a flipped bit would refuse every put."""
        query = "SELECT id, dimension, crc FROM spaces WHERE fingerprint = ?"
        row = database.execute(query, (self._fingerprint,)).fetchone()
        if row is None:
            return None
        number, dimension, crc = row
        if crc != self._checksum(str(dimension), b""):
            raise _Damaged("the row of this embedder fails its checksum")
        return number, dimension

    def _checksum(self, key: str, blob: bytes) -> int:
        """Covers what the row is for as well: a vector under the wrong key is no better than a wrong vector."""
        return zlib.crc32(blob, zlib.crc32(f"{self._fingerprint}\0{key}\0".encode("utf-8", "replace")))


def check_cache(path: Path) -> str | None:
    """What is wrong with the file, in words, without changing it; None when it is whole or just being written to."""
    if not path.exists():
        return f"{path.name}: missing; a rebuild would have to embed every text again"
    try:
        if _header(path) != _HEADER:
            raise _Damaged("no SQLite database")
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            database.text_factory = _lenient_text
            _check_marks(database)
            verdict = database.execute("PRAGMA quick_check(1)").fetchone()[0]
    except (_Damaged, sqlite3.Error) as error:
        return None if _primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) else f"{path.name}: {error}"
    return None if verdict == "ok" else f"{path.name}: damaged ({verdict})"


def _connected(path: Path) -> sqlite3.Connection:
    """Open, make the tables of a new file, and check that an old one is ours. Raises _Damaged or sqlite3.Error."""
    if any(path.with_name(path.name + suffix).is_symlink() for suffix in _SIDE_FILES):
        raise _Damaged("a link to another file")
    if _header(path) not in (b"", _HEADER):
        raise _Damaged("no SQLite database")
    with suppress(OSError):  # what is wrong, SQLite itself will tell; its side files take over the mode
        os.close(owners_only(str(path), os.O_RDWR | os.O_CREAT | os.O_EXCL))
    database = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_MS / 1000, check_same_thread=False)
    try:
        database.text_factory = _lenient_text
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute("PRAGMA temp_store = MEMORY")
        if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            database.executescript(_SCHEMA)
        _check_marks(database)
    except BaseException:
        database.close()
        raise
    return database


def _check_marks(database: sqlite3.Connection) -> None:
    marks = tuple(database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    if marks != (_APPLICATION_ID, _SCHEMA_VERSION):
        raise _Damaged(f"application_id and user_version are {marks}")
    database.execute("SELECT 1 FROM vectors, spaces LIMIT 1").fetchone()


def _header(path: Path) -> bytes:
    """The first bytes; empty for a new file, and where SQLite itself will tell why it can't be opened."""
    try:
        with path.open("rb") as file:
            return file.read(len(_HEADER))
    except OSError:
        return b""


def _lenient_text(raw: bytes) -> str:
    """A flipped byte in a key must lead to a failed checksum, not to a decoding error."""
    return raw.decode("utf-8", "replace")


def _give_back(database: sqlite3.Connection) -> None:
    free, pages = (database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_count"))
    if free > pages * _SLACK_SHARE:
        database.executescript("PRAGMA incremental_vacuum")  # execute() would free one page only


def _primary_code(error: Exception) -> int:
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF


def _is_damage(error: Exception) -> bool:
    """True for a file that is not ours or not whole; a missing table or column is a torn or foreign schema."""
    if isinstance(error, _Damaged) or _primary_code(error) in _DAMAGED_CODES:
        return True
    return isinstance(error, sqlite3.OperationalError) and str(error).startswith(("no such table", "no such column"))
