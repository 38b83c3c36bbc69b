"""The embedded store as a run writes to it: what it keeps for itself lies in the store's own folder."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from rag_mcp.access.withdrawal import Withdrawals
from rag_mcp.errors import StoreDamaged
from rag_mcp.stores.base import LiveSnapshot, StoreWrite
from rag_mcp.stores.embedded.collector import KEPT_GENERATIONS, collect_for_good
from rag_mcp.stores.embedded.formats import INDEX_FORMATS
from rag_mcp.stores.embedded.generation import Generation
from rag_mcp.stores.embedded.generations import GenerationStore
from rag_mcp.stores.embedded.lastrun import write_last_run
from rag_mcp.stores.embedded.manifest_file import read_manifest
from rag_mcp.stores.embedded.withdrawn import read_withdrawals, write_withdrawals
from rag_mcp.stores.manifest import Manifest
from rag_mcp.stores.workplace import LastRun

__all__ = ["EmbeddedWorkplace"]


class EmbeddedWorkplace(GenerationStore):
    """See ``rag_mcp.stores.workplace.Workplace``."""

    @property
    def formats(self) -> Mapping[str, int]:
        return INDEX_FORMATS

    def manifest_of(self, number: int) -> Manifest:
        return read_manifest(self.path(number))

    def begin_write(self, *, live: LiveSnapshot | None, parent: int | None) -> AbstractContextManager[StoreWrite]:
        from rag_mcp.stores.embedded.write import begin_write  # the indexes' libraries

        assert live is None or isinstance(live, Generation)
        return begin_write(self, live=live, parent=parent)

    def tidy(self, *, published: bool, erase: bool) -> None:
        live = self.current()
        if not published and live is not None and self.pointer_problem() is not None:
            self.point_to(live)
        self.sweep()
        collect_for_good(self, asked=erase, keep=KEPT_GENERATIONS)

    def withdrawals(self) -> Withdrawals | None:
        try:
            return read_withdrawals(self.root)
        except StoreDamaged:
            return None

    def note_withdrawals(self, record: Withdrawals) -> None:
        write_withdrawals(self.root, record)

    def note_run(self, last: LastRun) -> None:
        write_last_run(self.root, last)
