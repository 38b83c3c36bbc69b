"""Generations that nobody needs any more are removed: neither live, nor one to go back or forward to, nor pinned."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from rag_mcp.errors import StoreError
from rag_mcp.stores.embedded.files import owners_only, remove_tree
from rag_mcp.stores.embedded.generation import pin_exclusively
from rag_mcp.stores.embedded.generations import GenerationStore

__all__ = ["KEPT_GENERATIONS", "collect", "collect_for_good"]

KEPT_GENERATIONS = 2


def collect(store: GenerationStore, *, keep: int = KEPT_GENERATIONS) -> list[int]:
    """Remove generations nobody has pinned but the live one, those it was built from (``keep`` in all), and,
    unless ``keep`` is 1, the newest one; return the numbers removed.

    By descent and not by number alone: what a killed writer did not get to publish must not take the place of a
    state that was live. The newest is the way forward after a rollback.
    """
    numbers = store.numbers()
    kept = set(numbers[-1:]) if keep > 1 else set()
    number = store.current()
    while number is not None and keep > 0:
        kept.add(number)
        keep -= 1
        number = _before(store, number, numbers)
    return [number for number in numbers if number not in kept and _remove(store, number)]


def _before(store: GenerationStore, number: int, numbers: Sequence[int]) -> int | None:
    """The generation ``number`` was built from, else the next older one."""
    with contextlib.suppress(StoreError):
        parent = store.info(number).parent
        if parent in numbers:
            return parent
    return max((other for other in numbers if other < number), default=None)


def collect_for_good(store: GenerationStore, *, asked: bool, keep: int) -> None:
    """Collect; when ``asked`` to drop everything older, do so, and where a reader still holds an older generation
    leave a mark, so that later runs finish it."""
    mark = store.root / "erase-pending"
    if not asked and not mark.exists():
        collect(store, keep=keep)
        return
    os.close(owners_only(str(mark), os.O_WRONLY | os.O_CREAT))
    collect(store, keep=1)
    if len(store.numbers()) <= 1:
        mark.unlink(missing_ok=True)


def _remove(store: GenerationStore, number: int) -> bool:
    folder = store.path(number)
    trash = store.folder / f".trash-{number:06d}"
    with pin_exclusively(folder / "pin") as free:
        if not free:
            return False
        try:
            os.rename(folder, trash)
        except OSError:  # Windows: a reader has a file of it open; the next run tries again
            return False
    remove_tree(trash)
    return True
