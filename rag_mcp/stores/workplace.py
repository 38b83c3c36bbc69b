"""What a run writes to: a store, and a folder of the writer's own for what only it needs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rag_mcp.models import Notice, Skipped, SourceClass
from rag_mcp.stores.base import LiveSnapshot, StoreWrite
from rag_mcp.stores.manifest import Manifest

if TYPE_CHECKING:
    from rag_mcp.access.withdrawal import Withdrawals

__all__ = ["LastRun", "Owner", "Workplace"]


@dataclass(frozen=True, slots=True)
class Owner:
    """The folder a store was made from, and the store's own id, which stays when either is moved. ``named`` is the path its
    operator gave: a link that is set to the next release is still the same place."""

    root: Path
    store_id: str
    named: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class LastRun:
    """``classes`` are those that what is said of a source tells of, by the policy of the ingest."""

    finished_at: str
    skipped: tuple[Skipped, ...]
    notices: tuple[Notice, ...] = ()
    classes: Mapping[str, frozenset[SourceClass]] = field(default_factory=dict)

    def classes_of(self, source: str) -> frozenset[SourceClass]:
        """All there are where the note does not say, as those of older versions do not."""
        return self.classes.get(source, frozenset(SourceClass))


class Workplace(Protocol):
    """The store of a run, whose writer lock is held. ``root`` is the writer's folder on this machine, where its embedding
    cache and stat cache lie, ``folder`` the one for what it has not written yet; ``place`` names the store in messages."""

    @property
    def root(self) -> Path: ...

    @property
    def folder(self) -> Path: ...

    @property
    def cache_path(self) -> Path: ...

    @property
    def place(self) -> str: ...

    @property
    def formats(self) -> Mapping[str, int]:
        """Versions of what is kept and how; part of a generation's identity."""
        ...

    # --- generations ---

    def numbers(self) -> list[int]: ...

    def current(self) -> int | None: ...

    def next_number(self) -> int: ...

    def open(self, number: int | None = None) -> LiveSnapshot:
        """The live one unless another is asked for. Raises StoreEmpty, StoreDamaged."""
        ...

    def manifest_of(self, number: int) -> Manifest:
        """Raises StoreDamaged."""
        ...

    def begin_write(self, *, live: LiveSnapshot | None, parent: int | None) -> AbstractContextManager[StoreWrite]:
        """Build upon ``live``, which ``open`` gave (None: from nothing). What is not published within is gone."""
        ...

    def tidy(self, *, published: bool, erase: bool) -> None:
        """Remove what is left of killed runs, and the generations nobody needs: all but the live one to ``erase``."""
        ...

    # --- what is known beside them ---

    def owner(self) -> Owner | None: ...

    def belong_to(self, owner: Owner) -> None: ...

    def withdrawals(self) -> Withdrawals | None:
        """None when there is no record that can be read: the kept generations then say what it must hold."""
        ...

    def note_withdrawals(self, record: Withdrawals) -> None: ...

    def note_run(self, last: LastRun) -> None: ...
