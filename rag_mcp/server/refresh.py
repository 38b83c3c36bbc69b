"""A server's own schedule (RAG_MCP_REFRESH): the ordinary ingest as a child, again and again. The server never writes.

Several servers over one store are safe: each looks at when the last run looked, and the writer's lock stands behind that.
The child ends with the server, however that ends: it watches its stdin, whose other end is held here.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rag_mcp.config import SETTINGS, Config, environment
from rag_mcp.errors import ConfigError, RagMcpError
from rag_mcp.intervals import Interval
from rag_mcp.server.hosts import process_env
from rag_mcp.stores.embedded.lastrun import read_last_run
from rag_mcp.stores.embedded.place import corpora_of, store_folder, store_root
from rag_mcp.text.sanitize import one_line

__all__ = ["Refresh", "ingest_arguments", "seconds_left"]

logger = logging.getLogger(__name__)

_FIRST_S = 3.0  # the handshake goes before
_CLOSE_WAIT_S = 1.0
_LOCKED = 3
_ERROR_BYTES = 2_000
_PACKAGE_ROOT = Path(__file__).resolve().parent.parent.parent


class Refresh:
    """Ingests whenever the last run is older than the interval of ``config``; nothing happens before ``start``."""

    def __init__(self, config: Config, *, first_wait: float = _FIRST_S) -> None:
        self._config = config
        self._first_wait = first_wait
        self._closing = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._failure = ""
        self._thread = threading.Thread(target=self._run, name="rag_mcp refresh", daemon=True)

    def start(self) -> None:
        """Does nothing where the setting is not made."""
        if self._config.refresh is not None:
            self._thread.start()

    def close(self) -> None:
        """End the child, if there is one, and wait a moment for it."""
        self._closing.set()
        child = self._child
        if child is not None and child.stdin is not None:
            child.stdin.close()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_WAIT_S)

    def notes(self) -> tuple[str, ...]:
        """What whoever asks for the status should know; it tells nothing of any document."""
        return (self._failure,) if self._failure else ()

    def _run(self) -> None:
        every = self._config.refresh
        assert every is not None
        wait = self._first_wait
        while not self._closing.wait(wait):
            try:
                wait = seconds_left(self._last_runs(), every, datetime.now(UTC))
                if not wait:
                    self._judge(*self._ingest())
                    wait = every.seconds  # whatever came of it
            except Exception as error:  # this thread has nobody to tell but the log and the status
                self._judge(1, error.for_operator if isinstance(error, RagMcpError) else repr(error))
                wait = every.seconds

    def _last_runs(self) -> list[str | None]:
        runs = [read_last_run(store_root(each)) for each in corpora_of(self._config).values() or [self._config]]
        return [None if run is None else run.finished_at for run in runs]

    def _ingest(self) -> tuple[int, str]:
        """Exit code and last words of a run."""
        # The child has its settings as arguments, with absolute paths; its own folder is where this package is found,
        # also where it is not installed. Where it is, nothing there may come before Python's own modules.
        installed = ["-P"] if _PACKAGE_ROOT.name in ("site-packages", "dist-packages") else []
        arguments = (*ingest_arguments(self._config), "--quiet", "--end-with-stdin")
        words = [sys.executable, *installed, "-m", "rag_mcp", *arguments]
        variables = {name: value for name, value in environment().items() if name not in SETTINGS}
        with tempfile.TemporaryFile() as errors:
            child = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                cwd=_PACKAGE_ROOT,
                env=variables,
            )
            self._child = child
            if self._closing.is_set() and child.stdin is not None:
                child.stdin.close()
            try:
                code = child.wait()
            finally:
                self._child = None
                if child.stdin is not None:
                    child.stdin.close()
            errors.seek(max(0, errors.seek(0, 2) - _ERROR_BYTES))
            return code, errors.read().decode("utf-8", "replace")

    def _judge(self, code: int, words: str) -> None:
        if code in (0, _LOCKED) or self._closing.is_set():
            self._failure = ""
            return
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._failure = (
            f"The ingest every {self._config.refresh} (RAG_MCP_REFRESH) failed at {at} with exit code {code}: answers may be "
            "out of date. The server's log and rag-mcp ingest say why."
        )
        logger.error("The ingest failed with exit code %d: %s", code, one_line(" ".join(words.split())))


def seconds_left(finished: Iterable[str | None], every: Interval, now: datetime) -> float:
    """Until the next run is due, by when the last one of each corpus looked; 0 when it is, or that can't be told."""
    left = float(every.seconds)
    for each in finished:
        try:
            age = (now - datetime.fromisoformat(each or "")).total_seconds()
        except (ValueError, TypeError):
            return 0.0
        if age < 0:  # the clock was set back
            return 0.0
        left = min(left, every.seconds - age)
    return max(0.0, left)


def ingest_arguments(config: Config) -> Sequence[str]:
    """The arguments of ``rag-mcp`` that ingest ``config``, whatever the environment and the folder they are given in.

    Raises ConfigError when no folder of documents is known.
    """
    places = process_env(config, ("RAG_MCP_CORPUS_ROOT", "RAG_MCP_DB_PATH"))
    if "RAG_MCP_CORPUS_ROOT" not in places:
        raise ConfigError("No folder of documents to ingest is known: set RAG_MCP_CORPUS_ROOT.")
    db = places.get("RAG_MCP_DB_PATH") or ("" if config.roots else str(store_folder(config).absolute()))
    words = ["ingest", places["RAG_MCP_CORPUS_ROOT"], *(("--db", db) if db else ())]
    wanted = {name for name, each in SETTINGS.items() if each.for_ingest} - places.keys()
    for name, value in process_env(config, wanted).items():
        words += ["--setting", f"{name}={value}"]
    return words
