"""The store in one schema of a database: which generation is live, who may write, and what nobody needs any more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from rag_mcp.errors import StoreDamaged, StoreEmpty, StoreError, StoreLocked
from rag_mcp.models import SourceClass
from rag_mcp.stores.postgres.connect import Database, connected, translated
from rag_mcp.stores.postgres.migrate import migrate
from rag_mcp.stores.postgres.roles import CLASS_TABLES
from rag_mcp.stores.postgres.snapshot import PostgresSnapshot
from rag_mcp.stores.postgres.write import point_to

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["KEPT_GENERATIONS", "PostgresStore", "make_store", "schema_of"]

KEPT_GENERATIONS = 2


def schema_of(collection: str) -> str:
    """Name of the schema a collection lies in."""
    return "rag_mcp" if collection == "corpus" else f"rag_mcp_{collection.lower().replace('-', '_')}"


def make_store(dsn: str, schema: str) -> int:
    """Make the schema, or bring it up to date; return its version. Needs a role that may create schemas."""
    connection = connected(dsn, schema)
    try:
        return migrate(connection, schema)
    finally:
        connection.close()


class PostgresStore:
    """Reads with ``database``; a writer has a connection of its own, and its lock dies with it."""

    def __init__(self, dsn: str, schema: str) -> None:
        self._dsn = dsn
        self._schema = schema
        self.database = Database(dsn, schema)

    def close(self) -> None:
        self.database.close()

    # --- reading ---

    def marker(self) -> tuple[int, ...] | None:
        """A value that changes with every publication; None when nothing has been published."""
        rows = self.database.rows("select serial, number from live")
        return tuple(rows[0]) if rows else None

    def current(self) -> int | None:
        rows = self.database.rows("select number from live")
        return int(rows[0][0]) if rows else None

    def numbers(self) -> list[int]:
        """Of all generations that are kept, ascending."""
        return [number for (number,) in self.database.rows("select number from generation order by number")]

    def open(self, number: int | None = None, *, whole: bool = False) -> PostgresSnapshot:
        """A generation (default: the live one), ``whole`` for the writer. Raises StoreEmpty when there is none, StoreDamaged when it is gone."""
        with self.database.reading():
            wanted = self.current() if number is None else number
            if wanted is None:
                raise StoreEmpty("Nothing has been ingested into this store yet. Run: rag-mcp ingest CORPUS --db DB")
            return PostgresSnapshot(self.database, wanted, whole=whole)

    # --- writing ---

    @contextmanager
    def writing(self) -> Iterator[Connection[Any]]:
        """The writer's connection, while the block runs. Raises StoreLocked at once when another run has the lock."""
        connection = connected(self._dsn, self._schema)
        try:
            with translated():
                found = connection.execute("select pg_try_advisory_lock(hashtext(%s))", (self._schema,)).fetchone()
                connection.commit()
            if found != (True,):
                raise StoreLocked("Another ingest holds the lock of this store.")
            yield connection
        finally:
            with suppress(StoreError), translated():  # the server may take a moment to see that a connection is gone
                connection.rollback()
                connection.execute("select pg_advisory_unlock_all()")
            connection.close()

    def point_to(self, connection: Connection[Any], number: int) -> None:
        """Make a kept generation the live one."""
        with translated(), connection.transaction():
            if not connection.execute("select 1 from generation where number = %s", (number,)).fetchone():
                raise StoreDamaged(f"Generation {number} is no longer there.")
            point_to(connection, number)

    def collect(self, connection: Connection[Any], *, keep: int = KEPT_GENERATIONS) -> list[int]:
        """Drop all generations but the live one, those it was built from (``keep`` in all) and, unless ``keep`` is 1,
        the newest, with the rows that only they have; return the numbers dropped."""
        with translated(), connection.transaction():
            parents = dict(connection.execute("select number, parent from generation order by number").fetchall())
            found = connection.execute("select number from live").fetchone()
            kept = set(list(parents)[-1:]) if keep > 1 else set()
            number = found[0] if found else None
            while number in parents and keep > 0:
                kept.add(number)
                number, keep = parents[number], keep - 1
            dropped = [number for number in parents if number not in kept]
            if dropped:
                connection.execute("delete from generation where number = any(%s)", (dropped,))
                _sweep(connection)
        return dropped

    def vacuum(self, connection: Connection[Any]) -> None:
        """Have what was deleted leave the files of the database; its backups and its log may hold it still."""
        with translated():
            connection.commit()
            connection.autocommit = True
            try:
                connection.execute(f"vacuum {', '.join(CLASS_TABLES)}".encode())
            finally:
                connection.autocommit = False


def _sweep(connection: Connection[Any]) -> None:
    """Delete the rows of no generation. Of two that are kept, one between them may have had rows that neither has: they
    stay until all are newer."""
    kept = "select number, build from generation"
    for table in ("chunk", "embedding", "segment", "file"):
        connection.execute(
            f"delete from {table} t where not exists"
            f" (select 1 from ({kept}) g where g.build = t.build and t.added <= g.number"
            " and (t.removed is null or t.removed > g.number))".encode()
        )
    for source_class in SourceClass:
        name = source_class.value
        connection.execute(
            f"delete from post p where class = '{name}' and not exists"
            f" (select 1 from segment s where s.class = '{name}' and s.seg = p.seg)".encode()
        )
    # A segment written with or after the passage went does not hold it.
    connection.execute(
        "delete from gone t where not exists"
        " (select 1 from segment s where s.class = t.class and s.build = t.build and s.added < t.since)"
    )
    _drop_indexes(connection)


def _drop_indexes(connection: Connection[Any]) -> None:
    """Of builds that are gone."""
    builds = {build for (build,) in connection.execute("select distinct build from generation")}
    query = "select indexname from pg_indexes where schemaname = current_schema() and indexname ~ '^embedding_[a-z]+_[0-9]+$'"
    for (name,) in connection.execute(query).fetchall():
        if int(name.rpartition("_")[2]) not in builds:
            connection.execute(f"drop index {name}".encode())
