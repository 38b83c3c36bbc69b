"""What kept generations must not show any more, recorded before the next one is live and let go of when it is back."""

from __future__ import annotations

import os
from pathlib import Path

from rag_mcp.errors import StoreDamaged
from rag_mcp.ingest.baseline import Baseline
from rag_mcp.ingest.context import Context
from rag_mcp.stores.embedded.withdrawn import settled, withdraw
from rag_mcp.stores.manifest import Manifest
from rag_mcp.stores.workplace import Workplace

__all__ = ["record_withdrawals", "settle_withdrawals"]


def record_withdrawals(run: Context, manifest: Manifest, number: int, base: Baseline | None = None) -> None:
    """Record what kept generations must not show once ``number``, which holds ``manifest``, is live."""
    numbers = run.store.numbers()
    known = run.store.withdrawals()
    if known is not None and base is not None and base.manifest and base.live and numbers[-1:] == [base.live.number]:
        before = [base.manifest]  # what older ones hold besides was recorded when this one was published
    else:
        before = [found for each in numbers if (found := _manifest(run.store, each)) is not None]
    record = withdraw(
        known or {},
        before,
        manifest,
        number,
        oldest=min(numbers, default=number),
        on_disk=lambda path: _is_there(run.root / path),
    )
    run.store.note_withdrawals(record)


def _is_there(path: Path) -> bool:
    """True also where it can't be told: what is not seen to be gone was not deleted."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass
    return True


def settle_withdrawals(run: Context, manifest: Manifest) -> None:
    """Let go of what the corpus holds again: a run that was killed may have recorded it without publishing."""
    known = run.store.withdrawals()
    if known is None:
        record_withdrawals(run, manifest, run.store.next_number())
    elif (left := settled(known, manifest)) != known:
        run.store.note_withdrawals(left)


def _manifest(store: Workplace, number: int) -> Manifest | None:
    """None for a generation whose manifest is damaged: it can't be served either."""
    try:
        return store.manifest_of(number)
    except StoreDamaged:
        return None
