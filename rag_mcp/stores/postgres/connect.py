"""Connections to one store's schema in Postgres: pooled, under time limits, one transaction a question. psycopg's only user
beside what copies rows."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rag_mcp.errors import ConfigError, StoreEmpty, StoreError, StoreReadOnly

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg_pool import ConnectionPool

__all__ = ["Database", "connected", "translated"]

_log = logging.getLogger(__name__)

_CONNECT_S = 5
_POOL_WAIT_S = 5.0
_STATEMENT_MS = 15_000
_MAX_CONNECTIONS = 8
# Passages looked at by an HNSW search before it returns: at 100 none of the nearest ten was missed where it was measured.
_EF_SEARCH = 100


@contextmanager
def translated() -> Iterator[None]:
    """Turn psycopg's errors into ours. What the server says may name hosts, users and rows: it is for the operator."""
    import psycopg
    from psycopg import errors
    from psycopg_pool import PoolTimeout

    try:
        yield
    except (errors.UndefinedTable, errors.InvalidSchemaName, errors.UndefinedObject) as error:
        raise StoreEmpty(
            "There is no store in this database yet. Run: rag-mcp store init", detail=_said(error)
        ) from error
    except (errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction) as error:
        raise StoreReadOnly("The database refuses this to the role that is logged in.", detail=_said(error)) from error
    except errors.QueryCanceled as error:
        raise StoreError("The database took too long to answer; try again.", detail=_said(error)) from error
    except errors.DiskFull as error:
        raise StoreError("The database's disk is full, and the store is what it was.", detail=_said(error)) from error
    except (psycopg.OperationalError, PoolTimeout) as error:
        raise StoreError("The database can't be reached; try again.", detail=_said(error)) from error
    except psycopg.Error as error:
        raise StoreError("The database refused a statement of this program.", detail=_said(error)) from error


def _said(error: Exception) -> str:
    return f"Postgres: {str(error).strip() or type(error).__name__}"


def _needs_psycopg() -> None:
    try:
        import psycopg  # noqa: F401
        import psycopg_pool  # noqa: F401
    except ImportError as error:
        raise ConfigError('A store in Postgres needs: pip install "rag-mcp-local[postgres]"') from error


def connected(dsn: str, schema: str) -> Connection[Any]:
    """A connection of its own, for a writer. Raises ConfigError without psycopg, StoreError when none is to be had."""
    _needs_psycopg()
    import psycopg

    with translated():
        return psycopg.connect(dsn, connect_timeout=_CONNECT_S, options=_options(schema))


def _options(schema: str) -> str:
    return f"-c search_path={schema},public"


class Database:
    """What readers share; thread-safe. A thread that is in a ``reading`` block asks everything in one transaction."""

    def __init__(self, dsn: str, schema: str) -> None:
        self._dsn = dsn
        self._schema = schema
        self._lock = threading.Lock()
        self._pool: ConnectionPool[Connection[Any]] | None = None
        self._own = threading.local()
        self._closed = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One REPEATABLE READ READ ONLY transaction: all of the block sees the same state."""
        if getattr(self._own, "connection", None) is not None:
            yield
            return
        with translated(), self._opened().connection() as connection, connection.transaction():
            self._own.connection = connection
            try:
                yield
            finally:
                self._own.connection = None

    def rows(self, query: str, values: Sequence[object] | Mapping[str, object] = ()) -> list[tuple[Any, ...]]:
        """Raises StoreError and its kinds."""
        with self.reading():
            connection: Connection[Any] = self._own.connection
            with translated():
                found: list[tuple[Any, ...]] = connection.execute(query, values).fetchall()
                return found

    def close(self) -> None:
        with self._lock:
            pool, self._pool, self._closed = self._pool, None, True
        if pool is not None:
            pool.close()

    def _opened(self) -> ConnectionPool[Connection[Any]]:
        with self._lock:
            if self._closed:
                raise StoreError("This store has been closed; open another one.")
            if self._pool is None:
                self._pool = self._begun()
            return self._pool

    def _begun(self) -> ConnectionPool[Connection[Any]]:
        _needs_psycopg()
        from psycopg_pool import ConnectionPool

        settings = f"{_options(self._schema)} -c default_transaction_read_only=on -c statement_timeout={_STATEMENT_MS}"
        return ConnectionPool(
            self._dsn,
            min_size=1,
            max_size=_MAX_CONNECTIONS,
            timeout=_POOL_WAIT_S,
            kwargs={"connect_timeout": _CONNECT_S, "options": settings},
            configure=_configure,
            check=ConnectionPool.check_connection,  # one that was lost meanwhile is replaced before it is used
            open=True,
        )


def _configure(connection: Connection[Any]) -> None:
    from psycopg import IsolationLevel

    connection.isolation_level = IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    connection.execute("select set_config('hnsw.ef_search', %s, false)", (str(_EF_SEARCH),))
    connection.execute("select set_config('hnsw.iterative_scan', 'relaxed_order', false)")
    connection.commit()
