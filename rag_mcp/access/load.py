"""The policy in force: read once for a command, or watched for as long as a server runs."""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from pathlib import Path

from rag_mcp.access.policy import Policy
from rag_mcp.errors import PolicyError

__all__ = ["MAX_POLICY_BYTES", "PolicyWatch", "load_policy"]

MAX_POLICY_BYTES = 256 * 1024
_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())  # without a log set up, who catches the error says it
_RACY_NS = 2_000_000_000  # the coarsest file times in use (FAT) tick every two seconds


def load_policy(path: Path | None) -> Policy:
    """Return the policy of a YAML file, or the built-in one for None. Raises PolicyError with line and kind of a fault."""
    if path is None:
        return Policy()
    return _parse(_read(path)[0], path)


class PolicyWatch:
    """The policy as its file says now: looked up at every ``current()`` call, re-read only when the file changed.

    A file that is missing or invalid makes every call raise PolicyError until it is repaired: what was denied in it
    must not be shown because it can't be read. What is wrong is logged in full, once for each change; callers are told
    the public part. Thread-safe.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp: tuple[int, ...] | None = None
        self._raw: bytes | None = None
        self._held: Policy | PolicyError | None = Policy() if path is None else None

    def current(self) -> Policy:
        """Return the policy in force. Raises PolicyError."""
        if self._path is not None:
            with self._lock:
                self._refresh(self._path)
                held = self._held
        else:
            held = self._held
        if isinstance(held, Policy):
            return held
        # A fresh error each time: raising one object again and again would grow its traceback.
        raise PolicyError(str(held), detail=held.for_operator if held is not None else None)

    def _refresh(self, path: Path) -> None:
        try:
            if self._stamp is not None and self._stamp == _stamp(os.stat(path)):
                return
            raw, stamp = _read(path)
        except (OSError, PolicyError) as error:
            self._stamp = self._raw = None
            self._hold_fault(error if isinstance(error, PolicyError) else _unreadable(path, error))
            return
        # A file written a moment ago can change again within one tick of its clock: look at its bytes until it is old.
        self._stamp = None if time.time_ns() - max(stamp[1:3]) < _RACY_NS else stamp
        if raw == self._raw:
            return
        self._raw = raw
        try:
            self._held = _parse(raw, path)
        except PolicyError as error:
            self._hold_fault(error)

    def _hold_fault(self, error: PolicyError) -> None:
        if not isinstance(self._held, PolicyError) or self._held.for_operator != error.for_operator:
            _log.error("nothing is answered until the policy file is repaired: %s", error.for_operator)
        self._held = error


def _parse(raw: bytes, path: Path) -> Policy:
    # Brings pydantic and yaml, which the built-in policy does not need.
    from rag_mcp.access.policy_file import parse_policy

    return parse_policy(raw, name=path.name)


def _read(path: Path) -> tuple[bytes, tuple[int, ...]]:
    """Return the file's bytes and stamp. Raises PolicyError."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # before opening: a pipe would block
            raise PolicyError(
                "The policy file is not a file; its operator must name a YAML file.",
                detail=f"RAG_MCP_POLICY: {path} is not a file; name a YAML file or unset it.",
            )
        with open(path, "rb") as stream:
            stamp = _stamp(os.fstat(stream.fileno()))
            raw = stream.read(MAX_POLICY_BYTES + 1)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if len(raw) > MAX_POLICY_BYTES:
        large = f"is larger than {MAX_POLICY_BYTES // 1024} KiB; shorten it, patterns may use **."
        raise PolicyError(f"The policy file {large}", detail=f"{path.name} {large}")
    return raw, stamp


def _unreadable(path: Path, error: Exception) -> PolicyError:
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return PolicyError(
        "The policy file can't be read; its operator must restore it.",
        detail=f"RAG_MCP_POLICY: {path} can't be read ({why}); restore the file or unset the variable.",
    )


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev)
