"""What older generations hold and must not show any more: documents withdrawn, masked or moved since.

    <store>/withdrawn.json      {path: [since, cause, digest of the text, class, path now]}

A generation with a number below ``since`` may still hold the document, and can be served again: after damage of a newer
one, by a rollback, from a pointer that was restored. The record is written before the pointer moves, so no moment shows
what a published ingest has withdrawn; a run that ends lets go of what its corpus holds again. An entry is dropped when
no generation is left that it speaks of.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, replace
from pathlib import Path

from rag_mcp.access.withdrawal import MASKED, Cause, Withdrawal
from rag_mcp.errors import StoreDamaged
from rag_mcp.models import SourceClass
from rag_mcp.stores.embedded.files import read_json, write_json
from rag_mcp.stores.embedded.generations import GenerationStore
from rag_mcp.stores.embedded.manifest import Manifest

__all__ = [
    "WithdrawalWatch",
    "read_withdrawals",
    "settled",
    "withdraw",
    "write_withdrawals",
]

_NAME = "withdrawn.json"


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
    names = {(entry.sha256, entry.source_class): path for path, entry in after.files.items()}

    def lost(path: str, sha256: str, source_class: SourceClass | None) -> Withdrawal:
        if on_disk(path):
            return Withdrawal(number, Cause.WITHHELD, sha256)
        name = names.get((sha256, source_class)) if source_class is not None else None
        return Withdrawal(number, Cause.RENAMED if name else Cause.GONE, sha256, renamed=name)

    found: dict[str, Withdrawal] = {}
    for path, each in settled(known, after).items():
        if each.since <= oldest:
            continue
        target = after.files.get(each.renamed or path)
        followed = each.renamed is None or (target is not None and target.sha256 == each.sha256)
        found[path] = each if followed else replace(lost(each.renamed or path, each.sha256, None), since=each.since)
    for manifest in before:
        for path, entry in manifest.files.items():
            now = after.files.get(path)
            missing = lost(path, entry.sha256, entry.source_class) if now is None else None
            name = path if missing is None else missing.renamed
            # First of all: whoever may see where it is now may see it masked, and no profile sees it in clear.
            if name is not None and _newly_masked(path, manifest, name, after):
                found[path] = Withdrawal(number, Cause.MASKED, entry.sha256)
            elif missing is not None:
                found[path] = missing
            elif now is not None and now.source_class is not entry.source_class:
                found[path] = Withdrawal(number, Cause.MOVED, entry.sha256, now.source_class)
    return found


def _newly_masked(path: str, before: Manifest, name: str, after: Manifest) -> bool:
    """Whether ``before`` shows what ``after`` masks under ``name``: other lines of an edited file do not tell, so it is
    not asked."""
    then, now = _masked(before, path), _masked(after, name)
    same_text = before.files[path].sha256 == after.files[name].sha256
    return bool(now) and (not then or (same_text and then != now))


def _masked(manifest: Manifest, path: str) -> list[str]:
    return [text for text in manifest.notices.get(path, ()) if MASKED in text]


def settled(known: Withdrawals, live: Manifest) -> dict[str, Withdrawal]:
    """``known`` without the texts that ``live`` holds again, under their path and not closed in another way since."""
    return {
        path: each
        for path, each in known.items()
        if (entry := live.files.get(path)) is None
        or entry.sha256 != each.sha256
        or entry.source_class is each.source_class
        or (each.cause is Cause.MASKED and _masked(live, path))
    }


def read_withdrawals(root: Path) -> dict[str, Withdrawal] | None:
    """None when there is no record: nothing was published by a version that keeps one. Raises StoreDamaged."""
    try:
        raw = read_json(root / _NAME)
        if not isinstance(raw, dict):
            raise TypeError("not an object")
        return {
            path: Withdrawal(int(since), Cause(cause), str(sha), SourceClass(now) if now is not None else None, renamed)
            for path, (since, cause, sha, now, renamed) in raw.items()
        }
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise StoreDamaged("The record of withdrawn documents is damaged. Ingest again to write it anew.") from error


def write_withdrawals(root: Path, record: Withdrawals) -> None:
    """Replace the record atomically and durably. Raises OSError."""
    write_json(root / _NAME, {path: astuple(each) for path, each in sorted(record.items())})


class WithdrawalWatch:
    """The record as it is now, at the price of one stat an answer: also a reader that holds an old generation open
    follows it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: tuple[Path, tuple[int, ...], dict[str, Withdrawal]] | None = None
        self._since: dict[int, dict[str, Withdrawal]] = {}

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
        with self._lock:
            if number not in self._since:
                self._since[number] = {path: each for path, each in (record or {}).items() if each.since > number}
            return self._since[number]

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
                self._read, self._since = (root, stamp, record), {}
            return self._read[2]


def _superseded(store: GenerationStore, number: int) -> bool:
    return number < max([number, *store.numbers(), store.generation_of_pointer() or 0])


def _keeps_record(store: GenerationStore) -> bool:
    """Whether the newest generation is of a version that keeps a record, as far as it can be told."""
    try:
        return "policy" in store.info(max(store.numbers())).notes
    except StoreDamaged:
        return True
