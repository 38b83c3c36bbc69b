"""A private, writable copy of a folder for libraries that write to what they merely open."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rag_mcp.errors import StoreError
from rag_mcp.stores.embedded.files import is_passing, make_folder, remove_tree, tree

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = ["PrivateCopy", "private_copy"]

_COPY = "rag_mcp-"
_HELD = "held.lock"
_COPY_NAME = re.compile(rf"{_COPY}(\d+)-.+")
# A copy is younger than this while its lock is being made.
_FRESH_S = 60.0


@dataclass(slots=True)
class PrivateCopy:
    """A copy of a folder, for this process alone, in a folder of its own that ``close`` deletes.

    The lock tells other processes that it is in use, and dies with this one; a process number would tell less, since
    numbers come again and containers that share a folder have the same ones.
    """

    path: Path
    _lock: BaseFileLock | None

    def close(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()
            remove_tree(self.path.parent)


def private_copy(folder: Path, scratch: Path | None) -> PrivateCopy:
    """Copy ``folder`` into a new folder below ``scratch`` (default: the system's), writable for this user.

    Copies of processes that have died are removed on the way. Raises StoreError naming the setting that helps.
    """
    from filelock import FileLock

    try:
        if scratch is not None:
            make_folder(scratch)
        place = scratch or Path(tempfile.gettempdir())
        _sweep_copies(place)
        home = Path(tempfile.mkdtemp(prefix=f"{_COPY}{os.getpid()}-", dir=place))
        lock = FileLock(home / _HELD, mode=0o600)
        lock.acquire(blocking=False)
        made = PrivateCopy(home / folder.name, lock)
        try:
            shutil.copytree(folder, made.path, copy_function=shutil.copyfile, ignore=_passing)
            for path, status in tree(made.path):
                os.chmod(path, 0o700 if stat.S_ISDIR(status.st_mode) else 0o600)
        except BaseException:
            made.close()
            raise
    except OSError as error:
        raise StoreError(
            f"The store is read-only and no private copy can be made ({error.strerror}). "
            "Set RAG_MCP_SCRATCH_DIR to a folder that can be written."
        ) from error
    return made


def _sweep_copies(place: Path) -> None:
    """Remove this user's copies that no living process holds; what can't be judged stays."""
    with os.scandir(place) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if _is_abandoned(entry):
                    remove_tree(Path(entry.path))


def _is_abandoned(entry: os.DirEntry[str]) -> bool:
    from filelock import FileLock, Timeout

    name = _COPY_NAME.fullmatch(entry.name)
    if name is None or not entry.is_dir(follow_symlinks=False):
        return False
    status = entry.stat(follow_symlinks=False)
    foreign = sys.platform != "win32" and status.st_uid != os.getuid()
    if foreign or time.time() - status.st_mtime < _FRESH_S:
        return False
    held = Path(entry.path, _HELD)
    if not held.exists():  # made by a version without locks
        return sys.platform != "win32" and not _is_running(int(name[1]))
    try:
        with FileLock(held, mode=0o600).acquire(blocking=False):
            return True
    except Timeout:
        return False


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _passing(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if is_passing(name)}
