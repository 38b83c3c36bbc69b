"""The log of scheduled runs: one line a run, in a file of its owner alone that does not grow for ever."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rag_mcp.cli.output import FAILED, LOCKED, corpus_named, exit_code, say
from rag_mcp.config import Config
from rag_mcp.errors import ConfigError, RagMcpError, StoreLocked
from rag_mcp.models import IngestSummary
from rag_mcp.places import is_inside
from rag_mcp.stores.embedded.files import make_folder
from rag_mcp.stores.embedded.logfile import append_line, check_log
from rag_mcp.stores.embedded.place import store_folder
from rag_mcp.text.sanitize import one_line

__all__ = ["LOG_BYTES", "LOG_KEEP", "RunLog", "end_when_stdin_closes", "ending_after", "logged", "run_line"]

LOG_BYTES, LOG_KEEP = 1_000_000, 3
_ERROR_CHARS = 500
_COUNTS = {
    "seen": "files_seen",
    "ingested": "files_ingested",
    "deleted": "files_deleted",
    "skipped": "files_skipped",
    "chunks_added": "chunks_added",
    "chunks_deleted": "chunks_deleted",
    "embedded": "chunks_embedded",
    "store": "store_count",
    "generation": "generation",
}


@dataclass(frozen=True, slots=True)
class RunLog:
    """The file, which is set aside when it would grow over ``max_bytes``; ``keep`` older ones stay."""

    path: Path
    max_bytes: int = LOG_BYTES
    keep: int = LOG_KEEP

    def check(self, corpora: Iterable[Config]) -> None:
        """Raises ConfigError where the file can't be written, or would become part of what is indexed or of a store."""
        for config in corpora:
            for folder, what in ((config.corpus_root, "corpus"), (store_folder(config), "store")):
                if folder is not None and is_inside(self.path, folder):
                    raise ConfigError(f"--log: {self.path} lies inside the {what} {folder}; name a file beside it.")
        try:
            make_folder(self.path.parent.absolute())
            check_log(self.path)
        except OSError as error:
            raise self._unusable(error) from error

    def write(self, text: str) -> None:
        """Add a line with the time. Raises ConfigError when that fails."""
        line = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {text}"
        try:
            append_line(self.path, line, max_bytes=self.max_bytes, keep=self.keep)
        except OSError as error:
            raise self._unusable(error) from error

    def note(
        self, code: int, started: float, *, summary: IngestSummary | None = None, note: str = "", error: str = ""
    ) -> None:
        """Add the line of a run that ended with ``code``; ``started`` as ``time.monotonic`` had it."""
        seconds = time.monotonic() - started
        self.write(run_line(code, seconds, corpus=corpus_named(), summary=summary, note=note, error=error))

    def _unusable(self, error: OSError) -> ConfigError:
        return ConfigError(f"--log: {self.path} can't be written ({error.strerror or error}); name another file.")


def run_line(
    code: int,
    seconds: float,
    *,
    corpus: str = "",
    summary: IngestSummary | None = None,
    note: str = "",
    error: str = "",
) -> str:
    """One run as name=value pairs; ``corpus`` is the one of several that it was for."""
    parts = [f"corpus={corpus}"] if corpus else []
    parts += [f"exit={code}", f"seconds={seconds:.2f}"]
    if summary is not None:
        values = {name: getattr(summary, counted) for name, counted in _COUNTS.items()}
        parts += [f"{name}={value}" for name, value in values.items() if value is not None]
    parts += [f"note={note}"] if note else []
    parts += [f"error={one_line(' '.join(error.split()))[-_ERROR_CHARS:]}"] if error else []
    return " ".join(parts)


def logged(log: RunLog, run: Callable[[], tuple[int, IngestSummary]]) -> int:
    """Do ``run`` and log how it ends; returns the exit code, which is 0 where another run is at work: a frequent schedule
    meets that now and then."""
    started = time.monotonic()
    try:
        code, summary = run()
    except StoreLocked:
        log.note(LOCKED, started, note="another run is at work")
        return 0
    except BaseException as error:
        with _said_if_unusable():
            code, words = _ended_by(error)
            log.note(code, started, error=words)
        raise
    log.note(code, started, summary=summary)
    return code


def _ended_by(error: BaseException) -> tuple[int, str]:
    """The exit code of what ends a run, and its words."""
    if isinstance(error, RagMcpError):
        return exit_code(error), f"rag-mcp: {error.for_operator}"
    if isinstance(error, SystemExit) and isinstance(error.code, int):
        return error.code, ""
    return FAILED, f"{type(error).__name__}: {error}"


@contextlib.contextmanager
def _said_if_unusable() -> Iterator[None]:
    """A log that can't be written must not hide what was to be logged."""
    try:
        yield
    except ConfigError as error:
        say(f"rag-mcp: {one_line(error.for_operator)}", err=True)


@contextlib.contextmanager
def ending_after(seconds: float | None, log: RunLog | None) -> Iterator[None]:
    """End this process with FAILED if the block takes longer. A run may be killed at any moment, and one that hangs in a
    library can't be ended otherwise."""
    if seconds is None:
        yield
        return

    started = time.monotonic()

    def end() -> None:
        try:
            words = f"stopped after {seconds:g} s (--timeout); the store serves what it had"
            say(f"rag-mcp: {words}", err=True)
            if log is not None:
                log.note(FAILED, started, error=words)
        finally:
            os._exit(FAILED)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def end_when_stdin_closes() -> None:
    """End this process when its starter has gone: a run may be killed at any moment.

    Not on Windows, where libraries look at stdin while they are loaded and hang if a read is pending: there the run goes on
    to its end.
    """
    if sys.platform == "win32":
        return

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os._exit(FAILED)

    threading.Thread(target=watch, name="rag_mcp stdin watch", daemon=True).start()
