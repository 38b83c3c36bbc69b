"""The store in Postgres that a configuration names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from rag_mcp.config import Config
from rag_mcp.stores.embedded.place import local_folder
from rag_mcp.stores.postgres.store import PostgresStore, schema_of
from rag_mcp.stores.postgres.workplace import PostgresWorkplace, workplace

__all__ = ["held_workplace", "store_of"]


def store_of(config: Config) -> PostgresStore:
    return PostgresStore(config.database, schema_of(config.collection))


@contextmanager
def held_workplace(config: Config) -> Iterator[PostgresWorkplace]:
    """Hold the writer lock. Raises StoreLocked, StoreError and its kinds."""
    with closing(store_of(config)) as store, workplace(store, local_folder(config)) as place:
        yield place
