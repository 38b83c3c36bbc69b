"""What older generations hold and must not show any more: documents withdrawn, masked or moved since.

    <store>/withdrawn.json      {path: [[since, cause, digest of the text, class, path now], ...]}

A generation with a number below ``since`` may still hold the document, and can be served again: after damage of a newer
one, by a rollback, from a pointer that was restored. The record is written before the pointer moves, so no moment shows
what a published ingest has withdrawn, and nothing is let go of before it has moved: a run that is killed in between
opens nothing. A run that ends lets go of what its corpus holds again. An entry is dropped when no generation is left
that it speaks of.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

from rag_mcp.access.withdrawal import MASKED, Cause, Withdrawal, Withdrawals
from rag_mcp.errors import StoreDamaged
from rag_mcp.models import SourceClass
from rag_mcp.stores.embedded.files import read_json, write_json
from rag_mcp.stores.embedded.generations import GenerationStore
from rag_mcp.stores.manifest import Manifest

__all__ = [
    "WithdrawalWatch",
    "read_withdrawals",
    "restored",
    "settled",
    "withdraw",
    "write_withdrawals",
]

_NAME = "withdrawn.json"


def withdraw(
    known: Withdrawals,
    before: Iterable[Manifest],
    after: Manifest,
    number: int,
    *,
    oldest: int,
    on_disk: Callable[[str], bool],
) -> Withdrawals:
    """Return the record that goes with generation ``number``, which holds ``after``. Pure but for ``on_disk``.

    ``known`` is the record so far, ``before`` what kept generations hold, ``oldest`` the lowest number among them. A
    file that is gone but whose text is still there under another name of the same class was renamed, not withdrawn.
    """
    states = after.states
    names = {(each.sha256, each.source_class): path for path, each in states.items()}

    def lost(path: str, sha256: str, source_class: SourceClass | None) -> Withdrawal:
        if on_disk(path):
            return Withdrawal(number, Cause.WITHHELD, sha256)
        name = names.get((sha256, source_class)) if source_class is not None else None
        return Withdrawal(number, Cause.RENAMED if name else Cause.GONE, sha256, renamed=name)

    found: list[tuple[str, Withdrawal]] = []
    for path, each in _entries(known):
        if each.since <= oldest:
            continue
        target = states.get(each.renamed or path)
        if each.renamed is None:
            found.append((path, each))
        elif target is not None and target.sha256 == each.sha256:
            found.append((path, replace(each, source_class=target.source_class)))
        else:
            found.append((path, replace(lost(each.renamed, each.sha256, None), since=each.since)))
    for manifest in before:
        held = manifest.states
        for path in sorted(after.differs_at(manifest) & held.keys()):
            entry, now = held[path], states.get(path)
            missing = lost(path, entry.sha256, entry.source_class) if now is None else None
            name = path if missing is None else missing.renamed
            # First of all: whoever may see where it is now may see it masked, and no profile sees it in clear.
            if name is not None and _newly_masked(path, manifest, name, after):
                found.append((path, Withdrawal(number, Cause.MASKED, entry.sha256)))
            elif missing is not None:
                found.append((path, missing))
            elif now is not None and now.source_class is not entry.source_class:
                found.append((path, Withdrawal(number, Cause.MOVED, entry.sha256, now.source_class)))
    return restored(_by_path(found), ())


def _newly_masked(path: str, before: Manifest, name: str, after: Manifest) -> bool:
    """Whether ``before`` shows what ``after`` masks under ``name``: other lines of an edited file do not tell, so it is
    not asked."""
    then, now = _masked(before, path), _masked(after, name)
    same_text = before.states[path].sha256 == after.states[name].sha256
    return bool(now) and (not then or (same_text and then != now))


def _masked(manifest: Manifest, path: str) -> list[str]:
    return [text for text in manifest.notices.get(path, ()) if MASKED in text]


def settled(known: Withdrawals, live: Manifest) -> Withdrawals:
    """``known`` without the texts that ``live`` holds again, under their path and not closed in another way since."""
    states = live.states
    left = _by_path(
        (path, each)
        for path, each in _entries(known)
        if (entry := states.get(path)) is None
        or entry.sha256 != each.sha256
        or (each.cause is Cause.MOVED and entry.source_class is each.source_class)
        or (each.cause is Cause.MASKED and _masked(live, path))
    )
    return restored(left, ())


def restored(known: Withdrawals, paths: Container[str]) -> Withdrawals:
    """``known`` with what is gone shown again under these ``paths``, and hidden again under all others."""
    gone = (Cause.GONE, Cause.RESTORED)
    return _by_path(
        (path, replace(each, cause=gone[path in paths]) if each.cause in gone else each)
        for path, each in _entries(known)
    )


def _entries(known: Withdrawals) -> Iterator[tuple[str, Withdrawal]]:
    return ((path, each) for path, several in known.items() for each in several)


def _by_path(entries: Iterable[tuple[str, Withdrawal]]) -> Withdrawals:
    """Entries that differ in ``since`` alone are one, which holds wherever either does."""
    latest: dict[tuple[str, Withdrawal], int] = {}
    for path, each in entries:
        key = path, replace(each, since=0)
        latest[key] = max(each.since, latest.get(key, 0))
    found: dict[str, tuple[Withdrawal, ...]] = {}
    for (path, each), since in latest.items():
        found[path] = (*found.get(path, ()), replace(each, since=since))
    return found


def read_withdrawals(root: Path) -> Withdrawals | None:
    """None when there is no record: nothing was published by a version that keeps one. Raises StoreDamaged."""
    try:
        raw = read_json(root / _NAME)
        if not isinstance(raw, dict):
            raise TypeError("not an object")
        # An older version kept one entry a path, without a list around it.
        return {
            path: tuple(map(_entry, rows if not rows or isinstance(rows[0], list) else [rows]))
            for path, rows in raw.items()
        }
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise StoreDamaged("The record of withdrawn documents is damaged. Ingest again to write it anew.") from error


def write_withdrawals(root: Path, record: Withdrawals) -> None:
    """Replace the record atomically and durably. Raises OSError."""
    write_json(root / _NAME, {path: [astuple(each) for each in several] for path, several in sorted(record.items())})


def _entry(row: Sequence[Any]) -> Withdrawal:
    since, cause, sha, now, renamed = row
    return Withdrawal(int(since), Cause(cause), str(sha), SourceClass(now) if now is not None else None, renamed)


class WithdrawalWatch:
    """The record as it is now, at the price of one stat an answer: also a reader that holds an old generation open
    follows it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: tuple[Path, tuple[int, ...], Withdrawals] | None = None
        self._since: dict[int, Withdrawals] = {}

    def since(self, store: GenerationStore, number: int) -> Withdrawals:
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
                newer = ((path, each) for path, each in _entries(record or {}) if each.since > number)
                self._since[number] = _by_path(newer)
            return self._since[number]

    def _record(self, root: Path) -> Withdrawals | None:
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
