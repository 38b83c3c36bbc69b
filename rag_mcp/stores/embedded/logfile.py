"""A log of lines that is its owner's alone, is never written through a link, and does not grow for ever: a full one is
set aside under its name with ``.1``, those before it move on, and the oldest goes."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from rag_mcp.stores.embedded.files import owners_only

__all__ = ["append_line", "check_log", "older_logs"]


def append_line(path: Path, line: str, *, max_bytes: int, keep: int) -> None:
    """Add ``line``. Raises OSError, for a link and whatever else is no file too."""
    # What UTF-8 can't carry, a lone surrogate, is spelled as JSON spells it.
    raw = f"{line}\n".encode("utf-8", "backslashreplace")
    if _full(path, len(raw), max_bytes):
        names = [path, *older_logs(path, keep)]
        for newer, older in reversed(list(zip(names, names[1:], strict=False))):
            with contextlib.suppress(FileNotFoundError):
                os.replace(newer, older)
    # Unbuffered: one write a line, so that lines of several processes do not mix.
    with open(path, "ab", buffering=0, opener=_log_only) as stream:
        stream.write(raw)


def check_log(path: Path) -> None:
    """Raises OSError where nothing could be added; the file is made if it is missing."""
    open(path, "ab", opener=_log_only).close()


def older_logs(path: Path, keep: int) -> list[Path]:
    """The names of those set aside, newest first."""
    return [path.with_name(f"{path.name}.{number}") for number in range(1, keep + 1)]


def _full(path: Path, more: int, max_bytes: int) -> bool:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size + more > max_bytes


def _log_only(path: str, flags: int) -> int:
    if os.path.islink(path):
        raise OSError(errno.ELOOP, "it is a link, and links are not followed", path)
    # A pipe that nobody reads would otherwise hold up whoever writes.
    descriptor = owners_only(path, flags | getattr(os, "O_NONBLOCK", 0))
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no file", path)
        if os.name == "posix" and stat.S_IMODE(status.st_mode) & 0o077:
            with contextlib.suppress(PermissionError):  # of another owner: as it is
                os.fchmod(descriptor, 0o600)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
