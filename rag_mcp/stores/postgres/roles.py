"""One role a profile: it may read, and of each table only the rows of its classes. The database refuses the rest itself,
whatever program asks.

A policy is a constant (``class in ('docs')``), so the planner leaves the other partitions out before it looks at anything:
they are in no plan and no cost. What the catalogue tells everybody (sizes, estimated rows, counts of inserts) is taken from
the public where whoever makes the store may do that.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from rag_mcp.errors import ConfigError
from rag_mcp.models import SourceClass
from rag_mcp.stores.postgres.connect import translated

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["CLASS_TABLES", "grant_roles", "hide_statistics", "role_of", "roles_of"]

CLASS_TABLES = ("plane", "chunk", "embedding", "segment", "post", "gone", "file")
_OPEN_TABLES = ("generation", "live", "last_run", "schema_version")
_TELLING_COLUMNS = ("reltuples", "relpages", "relallvisible", "relallfrozen")
_TELLING = (
    "proname like 'pg\\_stat\\_get\\_%' and pronargs = 1 and proargtypes[0] = 'oid'::regtype"
    " or proname ~ '^pg_(relation|table|indexes|total_relation|database|tablespace)_size$'"
)


def role_of(schema: str, profile: str) -> str:
    """Name of the role of a profile. Raises ConfigError for a profile whose name makes no role."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,31}", profile):
        raise ConfigError(
            f"The profile {profile!r} can't have a role: use up to 32 small letters, digits, '-' and '_'."
        )
    return f"{schema}_{profile.replace('-', '_')}"


def roles_of(schema: str, profiles: Mapping[str, Collection[SourceClass]]) -> dict[str, frozenset[SourceClass]]:
    """{role: classes}. Raises ConfigError when two profiles would have one role."""
    found: dict[str, frozenset[SourceClass]] = {}
    for profile, classes in profiles.items():
        role = role_of(schema, profile)
        if role in found:
            raise ConfigError(f"Two profiles would have the role {role}; '-' and '_' are the same in one.")
        found[role] = frozenset(classes)
    return found


def grant_roles(connection: Connection[Any], schema: str, profiles: Mapping[str, Collection[SourceClass]]) -> list[str]:
    """Make the role of each profile, without a password, and let it see its classes and nothing else; those of profiles
    that are gone lose what they had. Return the roles. The caller has a transaction, as the owner of the store."""
    from psycopg import sql

    wanted = roles_of(schema, profiles)
    with translated():
        for role, classes in wanted.items():
            if not connection.execute("select 1 from pg_roles where rolname = %s", (role,)).fetchone():
                connection.execute(sql.SQL("create role {} login nosuperuser nobypassrls").format(sql.Identifier(role)))
            _grant(connection, schema, role, classes)
        policies = "select distinct policyname from pg_policies where schemaname = %s"
        for (role,) in connection.execute(policies, (schema,)).fetchall():
            if role not in wanted:
                _revoke(connection, schema, role)
    return list(wanted)


def _grant(connection: Connection[Any], schema: str, role: str, classes: frozenset[SourceClass]) -> None:
    from psycopg import sql

    _revoke(connection, schema, role)
    own = sql.Identifier(role)
    connection.execute(sql.SQL("grant usage on schema {} to {}").format(sql.Identifier(schema), own))
    for table in (*_OPEN_TABLES, *CLASS_TABLES):
        connection.execute(sql.SQL("grant select on {} to {}").format(sql.Identifier(table), own))
    seen = sql.SQL(", ").join(sql.Literal(each.value) for each in sorted(classes))
    condition = sql.SQL("class in ({})").format(seen) if classes else sql.SQL("false")
    for table in CLASS_TABLES:
        connection.execute(
            sql.SQL("create policy {} on {} for select to {} using ({})").format(
                own, sql.Identifier(table), own, condition
            )
        )
    # A convenience: a session can undo it, and the grant is the guard.
    connection.execute(sql.SQL("alter role {} set default_transaction_read_only = on").format(own))


def _revoke(connection: Connection[Any], schema: str, role: str) -> None:
    from psycopg import sql

    own = sql.Identifier(role)
    for table in CLASS_TABLES:
        connection.execute(sql.SQL("drop policy if exists {} on {}").format(own, sql.Identifier(table)))
    connection.execute(sql.SQL("revoke all on all tables in schema {} from {}").format(sql.Identifier(schema), own))
    connection.execute(sql.SQL("revoke all on schema {} from {}").format(sql.Identifier(schema), own))


def hide_statistics(connection: Connection[Any]) -> bool:
    """Take from the public what the catalogue of this database tells of every table's size; True when that was allowed,
    which takes a superuser. The caller has a transaction."""
    from psycopg import sql

    if connection.execute("select rolsuper from pg_roles where rolname = current_user").fetchone() != (True,):
        return False
    with translated():
        columns = [
            name
            for (name,) in connection.execute(
                "select attname from pg_attribute where attrelid = 'pg_class'::regclass and not attisdropped"
            ).fetchall()
            if name not in _TELLING_COLUMNS
        ]
        listed = sql.SQL(", ").join(map(sql.Identifier, columns))
        connection.execute("revoke select on pg_catalog.pg_class from public")
        connection.execute(sql.SQL("grant select ({}) on pg_catalog.pg_class to public").format(listed))
        telling = connection.execute(f"select oid::regprocedure::text from pg_proc where {_TELLING}".encode())
        for (function,) in telling.fetchall():
            connection.execute(f"revoke execute on function {function} from public".encode())
    return True
