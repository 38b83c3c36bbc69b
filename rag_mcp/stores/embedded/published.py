"""The embedded store of a configuration, as its readers see it."""

from __future__ import annotations

from pathlib import Path

from rag_mcp.access.withdrawal import Withdrawals
from rag_mcp.config import Config
from rag_mcp.stores.embedded.absent import absence, live_generation
from rag_mcp.stores.embedded.generation import Generation, GenerationInfo
from rag_mcp.stores.embedded.generations import GenerationStore
from rag_mcp.stores.embedded.lastrun import read_last_run
from rag_mcp.stores.embedded.place import store_root
from rag_mcp.stores.embedded.withdrawn import WithdrawalWatch
from rag_mcp.stores.workplace import LastRun

__all__ = ["EmbeddedPublished"]


class EmbeddedPublished:
    """See ``rag_mcp.stores.published.PublishedStore``."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._withdrawals = WithdrawalWatch()
        self._found: GenerationStore | None = None

    @property
    def _store(self) -> GenerationStore:
        """What lies there decides where the store is, until it is found."""
        return self._found or GenerationStore(store_root(self._config))

    @property
    def root(self) -> Path:
        return self._store.root

    def marker(self) -> tuple[int, ...] | None:
        return self._store.marker()

    def live_number(self) -> int:
        return live_generation(self._store, self._config)

    def pointer_problem(self) -> str | None:
        return self._store.pointer_problem()

    def numbers(self) -> list[int]:
        return self._store.numbers()

    def open(self, number: int) -> Generation:
        store = self._store
        try:
            generation = store.open(number)
        except OSError as error:
            raise absence(self._config, error) from error
        self._found = store
        return generation

    def info(self, number: int) -> GenerationInfo:
        return self._store.info(number)

    def withdrawn_since(self, number: int) -> Withdrawals:
        return self._withdrawals.since(self._store, number)

    def last_run(self) -> LastRun | None:
        return read_last_run(self.root)

    def close(self) -> None:
        """Nothing is held but what is open."""
