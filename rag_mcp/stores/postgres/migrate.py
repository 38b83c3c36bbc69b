"""Which version of the schema has a database, and how does it get the newest? Numbered files of SQL, each applied once."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

from rag_mcp.errors import StoreTooNew
from rag_mcp.stores.postgres.connect import translated

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["migrate", "schema_version"]

_VERSIONS = "create table if not exists schema_version (version int primary key, applied_at timestamptz default now())"


def _steps() -> list[tuple[int, str]]:
    """(version, SQL), ascending."""
    folder = files("rag_mcp.stores.postgres") / "sql"
    found = (entry for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return sorted((int(entry.name.partition("_")[0]), entry.read_text(encoding="utf-8")) for entry in found)


def schema_version(connection: Connection[Any]) -> int:
    """0 where there is no store."""
    with translated():
        if connection.execute("select to_regclass('schema_version')").fetchone() == (None,):
            return 0
        row = connection.execute("select max(version) from schema_version").fetchone()
    return int(row[0] or 0) if row else 0


def migrate(connection: Connection[Any], schema: str) -> int:
    """Bring the schema to the newest version, in one transaction; return it. Raises StoreTooNew, StoreError."""
    from psycopg import sql

    steps = _steps()
    newest = steps[-1][0]
    with translated(), connection.transaction():
        connection.execute("select pg_advisory_xact_lock(hashtext(%s))", (f"{schema}:migrate",))
        connection.execute("create extension if not exists vector schema public")
        connection.execute(sql.SQL("create schema if not exists {}").format(sql.Identifier(schema)))
        connection.execute(_VERSIONS)
        known = schema_version(connection)
        if known > newest:
            raise StoreTooNew(
                f"The store's schema has version {known}; this version reads up to {newest}. Upgrade rag_mcp."
            )
        for version, statements in steps:
            if version > known:
                connection.execute(statements.encode())
                connection.execute("insert into schema_version (version) values (%s)", (version,))
    return newest
