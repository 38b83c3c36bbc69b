"""What answers are read from: a store as its readers see it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rag_mcp.stores.base import Snapshot, SnapshotInfo
from rag_mcp.stores.workplace import LastRun

if TYPE_CHECKING:
    from rag_mcp.access.withdrawal import Withdrawals

__all__ = ["PublishedStore"]


class PublishedStore(Protocol):
    """``root`` is the folder on this machine where levels fitted for the store lie, whether it is there or not."""

    @property
    def root(self) -> Path: ...

    def marker(self) -> tuple[int, ...] | None:
        """A cheap value that changes with every publication; None when there is no store."""
        ...

    def live_number(self) -> int:
        """Raises StoreAbsent, saying what is there instead and what to run."""
        ...

    def pointer_problem(self) -> str | None:
        """Why the live generation is not known for certain, in words."""
        ...

    def numbers(self) -> list[int]: ...

    def open(self, number: int) -> Snapshot:
        """Raises StoreDamaged, StoreAbsent."""
        ...

    def info(self, number: int) -> SnapshotInfo: ...

    def withdrawn_since(self, number: int) -> Withdrawals:
        """What must not be shown from this generation. Raises StoreDamaged when that can't be told."""
        ...

    def last_run(self) -> LastRun | None: ...

    def close(self) -> None: ...
