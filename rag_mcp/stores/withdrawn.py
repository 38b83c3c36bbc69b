"""What older generations hold and must not show any more: documents withdrawn or moved to another class since.

    <store>/withdrawn.json      {path: [since, why, class]}

A generation with a number below ``since`` may still hold the document, and can be served again: after damage of a newer
one, by a rollback, from a pointer that was restored. The record is written before the pointer moves, so no moment shows
what a published ingest has withdrawn; a run that ends lets go of what its corpus holds again. An entry is dropped when
no generation is left that it speaks of.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from rag_mcp.errors import StoreDamaged
from rag_mcp.models import SourceClass
from rag_mcp.stores.files import read_json, write_json
from rag_mcp.stores.generations import GenerationStore
from rag_mcp.stores.manifest import Manifest

__all__ = ["Cause", "Withdrawal", "WithdrawalWatch", "read_withdrawals", "settled", "withdraw", "write_withdrawals"]

_NAME = "withdrawn.json"


class Cause(StrEnum):
    """``WITHHELD`` is still in the corpus folder and left out (its head, a secret, a rule); ``GONE`` is not there."""

    WITHHELD = "withheld"
    GONE = "gone"
    MOVED = "moved"


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """Holds for generations numbered below ``since``; ``now`` is the class the document has today, if it has any."""

    since: int
    cause: Cause
    now: SourceClass | None = None


Withdrawals = Mapping[str, Withdrawal]


def withdraw(
    known: Withdrawals,
    before: Iterable[Manifest],
    after: Manifest,
    number: int,
    *,
    oldest: int,
    on_disk: Callable[[str], bool],
) -> dict[str, Withdrawal]:
    """Return the record that goes with generation ``number``, which holds ``after``. Pure but for ``on_disk``.

    ``known`` is the record so far, ``before`` what kept generations hold, ``oldest`` the lowest number among them. A
    file that is gone but whose text is still there under another name of the same class was renamed, not withdrawn.
    """
    found = {path: each for path, each in settled(known, after).items() if each.since > oldest}
    texts = {(entry.sha256, entry.source_class) for entry in after.files.values()}
    for manifest in before:
        for path, entry in manifest.files.items():
            now = after.files.get(path)
            if now is not None and now.source_class is not entry.source_class:
                found[path] = Withdrawal(number, Cause.MOVED, now.source_class)
            elif now is None and path not in found:
                present = on_disk(path)
                if present or (entry.sha256, entry.source_class) not in texts:
                    found[path] = Withdrawal(number, Cause.WITHHELD if present else Cause.GONE)
    return found


def settled(known: Withdrawals, live: Manifest) -> dict[str, Withdrawal]:
    """``known`` without what ``live`` holds again, in the class that was recorded if one was."""
    return {
        path: each
        for path, each in known.items()
        if (entry := live.files.get(path)) is None or (each.now is not None and each.now is entry.source_class)
    }


def read_withdrawals(root: Path) -> dict[str, Withdrawal] | None:
    """None when there is no record: nothing was published by a version that keeps one. Raises StoreDamaged."""
    try:
        raw = read_json(root / _NAME)
        if not isinstance(raw, dict):
            raise TypeError("not an object")
        return {
            path: Withdrawal(int(since), Cause(cause), SourceClass(now) if now is not None else None)
            for path, (since, cause, now) in raw.items()
        }
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise StoreDamaged("The record of withdrawn documents is damaged. Ingest again to write it anew.") from error


def write_withdrawals(root: Path, record: Withdrawals) -> None:
    """Replace the record atomically and durably. Raises OSError."""
    write_json(root / _NAME, {path: [each.since, each.cause, each.now] for path, each in sorted(record.items())})


class WithdrawalWatch:
    """The record as it is now, at the price of one stat an answer: also a reader that holds an old generation open
    follows it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: tuple[Path, tuple[int, ...], dict[str, Withdrawal]] | None = None

    def since(self, store: GenerationStore, number: int) -> dict[str, Withdrawal]:
        """What must not be shown from generation ``number``. Raises StoreDamaged when there is a newer one and the
        record can't be read, or is missing although that one came with a record."""
        try:
            record = self._record(store.root)
        except StoreDamaged:
            if not _superseded(store, number):
                return {}
            raise
        if record is None and _superseded(store, number) and _keeps_record(store):
            raise StoreDamaged("The record of withdrawn documents is missing. Ingest again to write it anew.")
        return {path: each for path, each in (record or {}).items() if each.since > number}

    def _record(self, root: Path) -> dict[str, Withdrawal] | None:
        try:
            status = os.stat(root / _NAME)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreDamaged(f"The record of withdrawn documents can't be read ({error.strerror}).") from error
        stamp = (status.st_mtime_ns, status.st_ino, status.st_size)
        with self._lock:
            if self._read is None or self._read[:2] != (root, stamp):
                record = read_withdrawals(root)
                if record is None:
                    return None
                self._read = (root, stamp, record)
            return self._read[2]


def _superseded(store: GenerationStore, number: int) -> bool:
    return number < max([number, *store.numbers(), store.generation_of_pointer() or 0])


def _keeps_record(store: GenerationStore) -> bool:
    """Whether the newest generation is of a version that keeps a record, as far as it can be told."""
    try:
        return "policy" in store.info(max(store.numbers())).notes
    except StoreDamaged:
        return True
