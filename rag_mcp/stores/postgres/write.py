"""The next generation while it is written: one transaction, seen by nobody before it is published."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rag_mcp.errors import StoreDamaged
from rag_mcp.models import SourceClass
from rag_mcp.stores.base import Changes, KnownVectors, StoreWrite
from rag_mcp.stores.manifest import Manifest
from rag_mcp.stores.passage import raw
from rag_mcp.stores.postgres.connect import translated
from rag_mcp.stores.postgres.copying import copy_rows, vector_bytes
from rag_mcp.stores.postgres.files import dump_entry, key_of
from rag_mcp.stores.postgres.passages import PassageWriter
from rag_mcp.stores.postgres.snapshot import PostgresSnapshot
from rag_mcp.stores.postgres.vectors import index_of

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["PostgresWrite", "begin_write"]

_VECTORS = 2_000


@contextmanager
def begin_write(
    connection: Connection[Any], *, live: PostgresSnapshot | None, parent: int | None
) -> Iterator[StoreWrite]:
    """Build upon ``live`` (None: from nothing) while the block runs; what is not published by then is rolled back. The
    caller holds the writer lock."""
    with translated():
        connection.rollback()
        try:
            yield PostgresWrite(connection, live, parent)
        finally:
            connection.rollback()


class PostgresWrite:
    """The steps in their order, all in the transaction of ``connection``."""

    def __init__(self, connection: Connection[Any], live: PostgresSnapshot | None, parent: int | None) -> None:
        self._connection = connection
        self._live = live
        self._parent = parent
        self.number = self._one("select coalesce(max(number), 0) + 1 from generation")
        newest = self._one("select coalesce(max(build), 0) + 1 from generation")
        self.build = live.info.build if live is not None else newest
        self._passages = PassageWriter(connection, self.number, self.build, None if live is None else live.number)

    def write_vectors(self, changes: Changes, known: KnownVectors, progress: Callable[[str, int, int], None]) -> None:
        with translated():
            for source_class, ids in changes.deleted.items():
                self._remove("embedding", source_class, "id", sorted(ids))
            keys = changes.manifest.keyed()
            for source_class, ids in self._new(changes).items():
                rows = self._vectors(source_class, [(i, keys[source_class][i]) for i in sorted(ids)], known, progress)
                copy_rows(self._connection, "embedding", ("class", "build", "added", "id", "v"), rows)
                dimension = int(str(changes.manifest.identity["dimension"]))
                self._connection.execute(index_of(source_class, self.build, dimension).encode())

    def write_keywords(self, changes: Changes) -> None:
        with translated():
            if self._live is not None:
                for part in (changes.deleted, changes.updated):
                    for source_class, ids in part.items():
                        self._passages.remove(source_class, ids)
            added: dict[SourceClass, set[str]] = {each: set(ids) for each, ids in self._new(changes).items()}
            for source_class, ids in changes.updated.items():
                added.setdefault(source_class, set()).update(ids)
            for source_class, wanted in added.items():
                self._passages.add(source_class, (changes.chunks[i] for i in sorted(wanted)))
            self._passages.merge()

    def write_manifest(self, manifest: Manifest) -> None:
        before = self._live.manifest() if self._live is not None else Manifest({}, {}, {})
        known = before.files
        changed = {path for path in known.keys() | manifest.files.keys() if _differs(path, before, manifest)}
        with translated():
            for path in changed & known.keys():
                self._remove("file", known[path].source_class, "key", [key_of(path)])
            rows = (
                (
                    manifest.files[path].source_class.value,
                    key_of(path),
                    self.build,
                    self.number,
                    json.dumps(path),
                    raw(manifest.files[path].opening),
                    dump_entry(manifest.files[path], manifest.notices.get(path, ())),
                )
                for path in sorted(changed & manifest.files.keys())
            )
            copy_rows(self._connection, "file", ("class", "key", "build", "added", "path", "opening", "entry"), rows)

    def verify(self, manifest: Manifest) -> None:
        problems = [
            f"{source_class.value}: {table} lacks {len(ids - found)} and has {len(found - ids)} unknown ids"
            for table in ("chunk", "embedding")
            for source_class, ids, found in self._ids(table, manifest)
            if found != ids
        ]
        if problems:
            raise StoreDamaged("The new generation failed its check and was not published: " + "; ".join(problems))

    def seal(self, manifest: Manifest, *, created_at: str, notes: Mapping[str, object]) -> None:
        """``openings`` name documents of every class: readers have them from the files they may see."""
        told = {name: value for name, value in notes.items() if name != "openings"}
        values = (json.dumps(dict(manifest.identity)), json.dumps(dict(manifest.derivation)), json.dumps(told))
        with translated():
            self._connection.execute(
                "insert into generation (number, parent, build, created_at, identity, derivation, notes)"
                " values (%s, %s, %s, %s, %s, %s, %s)",
                (self.number, self._parent, self.build, created_at, *values),
            )
            self._passages.write_planes()
            rejected = json.dumps({path: list(each) for path, each in manifest.rejected.items()})
            self._connection.execute("insert into rejected values (%s, %s)", (self.number, rejected))

    def publish(self) -> None:
        with translated():
            point_to(self._connection, self.number)
            if self._live is None:  # the planner knows nothing of tables that were just filled
                self._connection.execute("analyze chunk, embedding, post, file")
            self._connection.commit()

    # --- parts ---

    def _new(self, changes: Changes) -> Mapping[SourceClass, Collection[str]]:
        return changes.added

    def _vectors(
        self,
        source_class: SourceClass,
        rows: Sequence[tuple[str, str]],
        known: KnownVectors,
        progress: Callable[[str, int, int], None],
    ) -> Iterator[tuple[str, int, int, str, bytes]]:
        for start in range(0, len(rows), _VECTORS):
            part = rows[start : start + _VECTORS]
            found = known(list(dict.fromkeys(key for _, key in part)))
            if lost := sum(key not in found for _, key in part):
                raise StoreDamaged(f"{lost} vectors are not in the embedding cache.")
            for i, key in part:
                yield source_class.value, self.build, self.number, i, vector_bytes(found[key])
            progress("write", start + len(part), len(rows))

    def _remove(self, table: str, source_class: SourceClass, column: str, keys: Sequence[str]) -> None:
        self._connection.execute(
            f"update {table} set removed = %s where class = '{source_class.value}' and build = %s and removed is null"
            f" and {column} = any(%s)".encode(),
            (self.number, self.build, list(keys)),
        )

    def _ids(self, table: str, manifest: Manifest) -> Iterator[tuple[SourceClass, set[str], set[str]]]:
        wanted = manifest.ids()
        query = f"select class, id from {table} where build = %s and removed is null"
        found: dict[str, set[str]] = {}
        with translated():
            for name, key in self._connection.execute(query.encode(), (self.build,)):
                found.setdefault(name, set()).add(key)
        for source_class in SourceClass:
            yield source_class, wanted.get(source_class, set()), found.get(source_class.value, set())

    def _one(self, query: str) -> int:
        with translated():
            row = self._connection.execute(query.encode()).fetchone()
        return int(row[0]) if row is not None else 0


def point_to(connection: Connection[Any], number: int) -> None:
    """In the caller's transaction."""
    connection.execute(
        "insert into live (number, serial) values (%s, 1)"
        " on conflict (only_row) do update set number = excluded.number, serial = live.serial + 1",
        (number,),
    )


def _differs(path: str, before: Manifest, after: Manifest) -> bool:
    """What nobody touched is the very object that was read; the rest is compared as it is stored."""
    old, new = before.files.get(path), after.files.get(path)
    notices = before.notices.get(path, ()), after.notices.get(path, ())
    if old is None or new is None or (old is new and notices[0] == notices[1]):
        return old is not new or notices[0] != notices[1]
    return dump_entry(old, notices[0]) != dump_entry(new, notices[1])
