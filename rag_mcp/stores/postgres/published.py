"""The store in Postgres of a configuration, as its readers see it: as much as the role that is logged in may."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from rag_mcp.access.withdrawal import Withdrawals
from rag_mcp.config import Config
from rag_mcp.errors import StoreAbsent, StoreEmpty
from rag_mcp.stores.embedded.place import local_folder
from rag_mcp.stores.postgres.place import store_of
from rag_mcp.stores.postgres.snapshot import PostgresSnapshot
from rag_mcp.stores.postgres.state import StateInfo, info_of
from rag_mcp.stores.workplace import LastRun

__all__ = ["PostgresPublished"]


class PostgresPublished:
    """See ``rag_mcp.stores.published.PublishedStore``."""

    def __init__(self, config: Config) -> None:
        self._store = store_of(config)
        self._config = config

    @property
    def root(self) -> Path:
        return local_folder(self._config)

    def marker(self) -> tuple[int, ...] | None:
        with suppress(StoreEmpty):
            return self._store.marker()
        return None

    def live_number(self) -> int:
        number = None
        with suppress(StoreEmpty):
            number = self._store.current()
        if number is None:
            raise StoreAbsent("Nothing has been ingested into this database yet. Run: rag-mcp ingest", self.root)
        return number

    def pointer_problem(self) -> str | None:
        """It is a row that is there or is not."""
        return None

    def numbers(self) -> list[int]:
        """The live one alone: a database that can't give it gives no other."""
        return [self.live_number()]

    def open(self, number: int) -> PostgresSnapshot:
        return self._store.open(number)

    def info(self, number: int) -> StateInfo:
        return info_of(self._store.database, number)

    def withdrawn_since(self, number: int) -> Withdrawals:
        """The live generation holds what may be shown; an older one answers only the questions asked before it went."""
        return {}

    def last_run(self) -> LastRun | None:
        rows: list[tuple[str, ...]] = []
        with suppress(StoreEmpty):
            rows = self._store.database.rows("select finished_at from last_run")
        return LastRun(str(rows[0][0]), ()) if rows else None

    def close(self) -> None:
        self._store.close()
