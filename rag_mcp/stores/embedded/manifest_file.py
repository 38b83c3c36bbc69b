"""How a manifest is kept: in SQLite, read and written by part.

    manifest.sqlite           every file, as of the generation that wrote it; shared with those after it
    manifest-recent.sqlite    the files that were put or went since; not there while there are none

A run that changes one file writes the recent ones anew and nothing else. Once they are many, all is written anew.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import weakref
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from contextlib import closing, contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, overload

from rag_mcp.errors import StoreDamaged, StoreError
from rag_mcp.models import DocClass, SourceClass
from rag_mcp.stores.embedded.files import link_or_copy
from rag_mcp.stores.embedded.manifest_json import JSON_MANIFEST, read_json_manifest
from rag_mcp.stores.manifest import ChangedFiles, FileEntry, FileState, KnownFiles, Manifest, Row, state_of

__all__ = ["MANIFEST", "RECENT_FILES", "StoredFiles", "read_manifest", "write_manifest"]

MANIFEST = "manifest"
"""What the names of its files begin with, in every format."""

# A run with one change writes half of these on the average, and one run in as many writes all there are.
RECENT_FILES = 256
_ALL, _RECENT = "manifest.sqlite", "manifest-recent.sqlite"
_KEPT_ROWS = 256
_STATE = "sha256, source_class, project, series, day, stored, repeated, opening, converted_from"
_CLASSES = {each.value: each for each in SourceClass}
_DAMAGED = "The manifest of this generation is damaged. Run: rag-mcp doctor --fix"


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the generation in ``folder``, of an earlier format too. Entries are read when they are asked for.

    Raises StoreDamaged when it is missing, torn or foreign, as does what is asked of it later.
    """
    if not (folder / _ALL).exists():
        return read_json_manifest(folder / JSON_MANIFEST)
    files = StoredFiles(folder)
    with _damage_named():
        about = files.about()
        rejected = {source: (row[0], row[1]) for source, row in about["rejected"].items()}
        return Manifest(about["identity"], about["derivation"], files, rejected, files.notices)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write what changed where that is little and the rest is there, else all. Raises OSError or StoreError."""
    files = manifest.files
    changed = files if isinstance(files, ChangedFiles) else ChangedFiles({}, files, ())
    before = changed.before if isinstance(changed.before, StoredFiles) else None
    few = before is not None and len(before.recent.union(changed.put, changed.gone)) <= RECENT_FILES
    try:
        if before is not None and few:
            link_or_copy(before.folder / _ALL, folder / _ALL)
        with closing(_connected((folder / (_RECENT if few else _ALL)).absolute().as_uri())) as database, database:
            database.execute("PRAGMA synchronous = OFF")  # what is sealed is synced as a whole
            database.executescript(_schema("main"))
            if before is not None:
                _attach(database, before.folder)
                _take_over(database, "recent.files" if few else "every_file")
            _put(database, manifest, manifest.files if before is None else manifest.written, keep_gone=few)
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
            raise StoreError("The disk is full, and the store is what it was. Free some space.") from error
        raise StoreDamaged(f"The manifest can't be written: {error}.") from error


class StoredFiles(KnownFiles):
    """The entries in a generation's folder. ``recent`` are the paths that are kept apart, gone ones included. Safe to use
    from several threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notices: dict[str, tuple[str, ...]] = {}
        self._states: dict[str, FileState] = {}
        self._entries: dict[str, FileEntry] | None = None
        with _damage_named():
            self._asked = _Asked(folder)
            self._rows = lru_cache(_KEPT_ROWS)(partial(_rows_of, self._asked))
            self.recent = frozenset(path for (path,) in self._asked("SELECT path FROM recent.files"))
            query = f"SELECT path, notices, {_STATE} FROM every_file WHERE NOT gone ORDER BY path"
            for path, notices, sha256, source_class, *rest in self._asked(query):
                self._states[path] = FileState(sha256, _CLASSES[source_class], *rest)
                if notices:
                    self.notices[path] = tuple(json.loads(notices))

    @property
    def states(self) -> Mapping[str, FileState]:
        return self._states

    def about(self) -> dict[str, Any]:
        query = "SELECT key, value FROM base.about UNION ALL SELECT key, value FROM recent.about"
        return {key: json.loads(value) for key, value in self._asked(query)}

    def __iter__(self) -> Iterator[str]:
        return iter(self._states)

    def __getitem__(self, path: str) -> FileEntry:
        state = self._states[path]
        if self._entries is not None:
            return self._entries[path]
        with _damage_named():
            [(details,)] = self._asked("SELECT details FROM every_file WHERE path = ?", path)
            return self._entry(path, state, details)

    def items(self) -> ItemsView[str, FileEntry]:
        return self._all().items()

    def values(self) -> ValuesView[FileEntry]:
        return self._all().values()

    def _all(self) -> dict[str, FileEntry]:
        """One by one they would cost twenty times as much; whoever goes through all keeps them."""
        if self._entries is None:
            with _damage_named():
                found: dict[str, str] = dict(self._asked("SELECT path, details FROM every_file WHERE NOT gone"))
                self._entries = {path: self._entry(path, each, found[path]) for path, each in self._states.items()}
        return self._entries

    def _entry(self, path: str, state: FileState, details: str) -> FileEntry:
        doc_class, title, aliases, links, properties, pages, file_day, chars = json.loads(details)
        return FileEntry(
            sha256=state.sha256,
            source_class=state.source_class,
            project=state.project,
            doc_class=DocClass(doc_class),
            title=title,
            series=state.series,
            day=state.day,
            rows=_StoredRows(self._rows, path, state.stored + state.repeated),
            aliases=tuple(aliases),
            links=tuple(links),
            properties=properties,
            opening=state.opening,
            converted_from=state.converted_from,
            pages=tuple(pages),
            file_day=file_day,
            chars=chars,
        )


class _StoredRows(Sequence[Row]):
    """The passages of a file, read when they are looked at: memory does not hold those of all.

    It knows how to read and not who has it, so that no ring of references keeps the files open.
    """

    __slots__ = ("_count", "_path", "_read")

    def __init__(self, read: Callable[[str], tuple[Row, ...]], path: str, count: int) -> None:
        self._read, self._path, self._count = read, path, count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> Row: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Row]: ...

    def __getitem__(self, place: int | slice) -> Row | Sequence[Row]:
        return self._read(self._path)[place]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._read(self._path))


def _rows_of(ask: _Asked, path: str) -> tuple[Row, ...]:
    with _damage_named():
        [(rows,)] = ask("SELECT rows FROM every_passage WHERE path = ?", path)
        return tuple(tuple(row) for row in json.loads(rows))


# --- the database ----------------------------------------------------------------------------------------------------


def _schema(name: str) -> str:
    return f"""
    CREATE TABLE {name}.about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE {name}.files (
        path TEXT PRIMARY KEY, gone INTEGER NOT NULL, sha256 TEXT, source_class TEXT, project TEXT, series TEXT,
        day TEXT, stored INTEGER, repeated INTEGER, opening TEXT, converted_from TEXT, notices TEXT, details TEXT
    );
    CREATE TABLE {name}.passages (path TEXT PRIMARY KEY, rows TEXT NOT NULL);
    """


def _connected(name: str) -> sqlite3.Connection:
    return sqlite3.connect(name, uri=True, check_same_thread=False)


class _Asked:
    """All rows of a query to the files in a folder, for several threads. Closed with the last who can ask: a connection of
    sqlite3 refers to itself, and would stay open until the collector comes round."""

    def __init__(self, folder: Path) -> None:
        self._lock = threading.Lock()
        self._database = _connected(":memory:")
        weakref.finalize(self, self._database.close)
        _attach(self._database, folder)

    def __call__(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._database.execute(query, values).fetchall()


def _attach(database: sqlite3.Connection, folder: Path) -> None:
    """Make a generation's files visible as ``base`` and ``recent``, and both together as ``every_...``."""
    for name, file in (("base", _ALL), ("recent", _RECENT)):
        path = (folder / file).absolute()
        there = name == "base" or path.exists()
        database.execute(f"ATTACH ? AS {name}", (f"{path.as_uri()}?mode=ro&immutable=1" if there else ":memory:",))
        if not there:
            database.executescript(_schema(name))
    for view, table in (("every_file", "files"), ("every_passage", "passages")):
        database.execute(
            f"CREATE TEMP VIEW {view} AS SELECT * FROM recent.{table} UNION ALL "
            f"SELECT * FROM base.{table} WHERE path NOT IN (SELECT path FROM recent.{table})"
        )


def _take_over(database: sqlite3.Connection, files: str) -> None:
    database.execute(f"INSERT INTO main.files SELECT * FROM {files}")
    passages = "recent.passages" if files == "recent.files" else "every_passage"
    database.execute(f"INSERT INTO main.passages SELECT * FROM {passages}")


def _put(
    database: sqlite3.Connection, manifest: Manifest, written: Mapping[str, FileEntry], *, keep_gone: bool
) -> None:
    about = {"identity": manifest.identity, "derivation": manifest.derivation, "rejected": dict(manifest.rejected)}
    database.executemany("INSERT INTO main.about VALUES (?, ?)", ((key, _text(each)) for key, each in about.items()))
    notices = manifest.notices
    database.executemany(
        f"INSERT OR REPLACE INTO main.files VALUES ({', '.join('?' * 13)})",
        ((path, 0, *state_of(entry), _text_of(notices.get(path)), _details(entry)) for path, entry in written.items()),
    )
    database.executemany(
        "INSERT OR REPLACE INTO main.passages VALUES (?, ?)",
        ((path, _text(list(entry.rows))) for path, entry in written.items()),
    )
    gone = manifest.files.gone if isinstance(manifest.files, ChangedFiles) else ()
    database.executemany("INSERT OR REPLACE INTO main.files (path, gone) VALUES (?, 1)", ((path,) for path in gone))
    if not keep_gone:
        database.execute("DELETE FROM main.files WHERE gone")
    database.execute("DELETE FROM main.passages WHERE path NOT IN (SELECT path FROM main.files WHERE NOT gone)")


def _details(entry: FileEntry) -> str:
    named = entry.doc_class.value, entry.title, entry.aliases, entry.links, dict(entry.properties)
    return _text([*named, entry.pages, entry.file_day, entry.chars])


def _text_of(texts: Iterable[str] | None) -> str:
    return _text(list(texts)) if texts else ""


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


@contextmanager
def _damage_named() -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError, ValueError, TypeError, KeyError) as error:
        raise StoreDamaged(_DAMAGED) from error
