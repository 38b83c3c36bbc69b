"""Ingest whenever the corpus changes, until interrupted.

A change is used up only by a run that succeeded: after a failure, or while a file could not be read, the folder is looked
at again after pauses that grow to a minute. Every few minutes it is looked at anyway, since network drives and some
containers send no events; the watch is then made anew too, as it is at once when another folder stands at the path.
"""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from rag_mcp.config import Config
from rag_mcp.errors import CorpusError, RagMcpError
from rag_mcp.models import IngestSummary
from rag_mcp.stores.embedded.place import store_root

__all__ = ["LOOK_EVERY_S", "Schedule", "watch_corpus"]

LOOK_EVERY_S = 300.0
LOOK_WITHOUT_EVENTS_S = 60.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
_TICK_S = 0.5
_NEVER = float("inf")

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Schedule:
    """When to run next: after ``debounce_s`` of quiet, but for four times that at most. Pure: every moment is given."""

    debounce_s: float
    due_at: float = 0.0
    first_change: float | None = None
    failures: int = 0

    def changed(self, now: float) -> None:
        """Take note of a change. It does not cut short a pause after a failure: a busy folder would undo the pauses."""
        if self.failures or self.due_at <= now:
            return
        self.first_change = self.first_change if self.first_change is not None else now
        self.due_at = min(now + self.debounce_s, self.first_change + 4 * self.debounce_s)

    def look(self, now: float, *, afresh: bool) -> None:
        """Run at once, or, unless ``afresh``, when a pause after a failure is over."""
        if afresh:
            self.failures = 0
        if not self.failures:
            self.due_at = now

    def succeeded(self) -> None:
        self.due_at, self.first_change, self.failures = _NEVER, None, 0

    def failed(self, now: float) -> None:
        self.due_at = now + min(FIRST_PAUSE_S * 2**self.failures, LONGEST_PAUSE_S)
        self.failures = min(self.failures + 1, 10)


@dataclass(slots=True)
class _Watcher:
    root: Path
    store: Path
    run: Callable[[], IngestSummary]
    say: Callable[[str], None]
    stop: Event
    schedule: Schedule
    look_every_s: float
    said: set[str] = field(default_factory=set)
    eventless: bool = False

    def watch(self) -> None:
        before = None
        while not self.stop.is_set():
            standing = _identity(self.root)
            if standing is None:
                self._say_once(f"The folder {self.root} is gone. Nothing is removed; looking for it until it is back.")
                before = None
                self.stop.wait(_TICK_S)
                continue
            self.schedule.look(time.monotonic(), afresh=standing != before)
            before = standing
            made_anew_at = time.monotonic() + self.look_every_s
            for changed in self._ticks():
                now = time.monotonic()
                if changed:
                    self.schedule.changed(now)
                if _identity(self.root) != standing:
                    break
                if now >= self.schedule.due_at:
                    self._look()
                if now >= made_anew_at:
                    break

    def _look(self) -> None:
        try:
            summary = self.run()
        except Exception as error:  # whatever it is may pass, and a watcher that died would miss that
            if not isinstance(error, RagMcpError):
                _log.exception("a run of the watcher failed")
            self.schedule.failed(time.monotonic())
            said = error.for_operator if isinstance(error, RagMcpError) else f"{type(error).__name__}: {error}."
            self._say_once(f"{said} Trying again until a run succeeds.")
            return
        if summary.files_unreadable:
            self.schedule.failed(time.monotonic())
            self._say_once(
                f"{summary.files_unreadable} files or folders can't be read now. Trying again until they can."
            )
        else:
            self.schedule.succeeded()
            self.said.clear()

    def _ticks(self) -> Iterator[bool]:
        """Yield at least every half second, each time telling whether the folder has changed."""
        from watchfiles import watch

        try:
            for changes in watch(
                self.root.resolve(),
                watch_filter=lambda _, path: not Path(path).is_relative_to(self.store),
                debounce=1_000,
                step=50,
                rust_timeout=int(_TICK_S * 1_000),
                yield_on_timeout=True,
                stop_event=self.stop,
                ignore_permission_denied=True,
            ):
                yield bool(changes)
        except FileNotFoundError:
            self.stop.wait(_TICK_S)
        except (OSError, RuntimeError) as error:  # no watch to be had: too many of them, or a system without any
            if not self.eventless:
                self.eventless = True
                self.look_every_s = min(self.look_every_s, LOOK_WITHOUT_EVENTS_S)
                self.say(f"No changes are reported here ({error}); looking every {self.look_every_s:.0f} s instead.")
            while not self.stop.wait(_TICK_S):
                yield False

    def _say_once(self, text: str) -> None:
        if text not in self.said:
            self.said.add(text)
            self.say(text)


def watch_corpus(
    config: Config,
    run: Callable[[], IngestSummary],
    *,
    debounce_s: float,
    say: Callable[[str], None],
    stop: Event | None = None,
    look_every_s: float = LOOK_EVERY_S,
) -> None:
    """Call ``run`` once now and again after every burst of changes, until ``stop`` is set or an interrupt comes.

    ``say`` is given each trouble once, until a run has succeeded. Changes inside the store are not the corpus's. Raises
    CorpusError when there is no folder to begin with.
    """
    root = config.corpus_root
    if root is None or _identity(root) is None:
        raise CorpusError("watch needs a corpus folder that exists.")
    store = store_root(config).resolve()
    schedule = Schedule(max(debounce_s, 0.05))
    _Watcher(root, store, run, say, stop or Event(), schedule, look_every_s).watch()


def _identity(root: Path) -> tuple[int, int] | None:
    """Which folder stands at the path now, None when none does."""
    try:
        found = os.stat(root)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None
