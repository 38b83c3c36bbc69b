"""Durable and private file operations: what is written here is wholly there after a crash or not at all, is its
owner's alone whatever the umask, and never goes through a link. (Windows has no modes; its folders pass rights on.)"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rag_mcp.errors import StoreError, StoreReadOnly

__all__ = [
    "close_to_others",
    "disk_is_full",
    "file_digest",
    "files_below",
    "find_link",
    "fsync_folder",
    "fsync_tree",
    "is_open",
    "is_passing",
    "is_writable",
    "link_or_copy",
    "make_folder",
    "note_text",
    "owners_only",
    "read_json",
    "remove_tree",
    "tree",
    "write_json",
    "write_text",
    "writing",
]

_PROBE = ".probe-"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
# Libraries write in blocks: a disk with less than this left has refused one.
_FULL_BYTES = 1024 * 1024
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
# Windows refuses to replace a file that somebody has open just then; readers have CURRENT open for microseconds.
_REPLACE_TRIES = 50 if sys.platform == "win32" else 1
_REPLACE_PAUSE_S = 0.02


# --- private ---------------------------------------------------------------------------------------------------------


def owners_only(path: str, flags: int) -> int:
    """For ``open(opener=)``: a new file is its owner's alone, and a link is an OSError instead of a way elsewhere."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), stat.S_IRUSR | stat.S_IWUSR)


def make_folder(folder: Path) -> None:
    """Make a folder, and what is missing above it, that only its owner may enter; one that is there stays as it is.

    Raises FileExistsError where something else has the name, a link included.
    """
    if not folder.parent.exists():
        make_folder(folder.parent)
    try:
        os.mkdir(folder, 0o777 if sys.platform == "win32" else stat.S_IRWXU)
    except FileExistsError:
        if folder.is_symlink() or not folder.is_dir():
            raise


def tree(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """``folder`` and everything below it, links included and not followed, each with its own status."""
    with contextlib.suppress(FileNotFoundError):  # readers make and remove files while they open an index
        status = os.lstat(folder)
        yield folder, status
        if stat.S_ISDIR(status.st_mode):
            for name in sorted(os.listdir(folder)):
                yield from tree(folder / name)


def find_link(folder: Path) -> Path | None:
    """A link at or below ``folder``; a store has none of its own, so whatever lies behind it is somebody else's."""
    return next((path for path, status in tree(folder) if stat.S_ISLNK(status.st_mode)), None)


def is_open(status: os.stat_result) -> bool:
    """True when others than the owner have any right by the mode; a link has none of its own."""
    return bool(status.st_mode & _OTHERS) and not stat.S_ISLNK(status.st_mode)


def close_to_others(folder: Path) -> None:
    """Take away what group and others may do with ``folder`` and all in it. What belongs to another user stays."""
    if sys.platform == "win32":
        return
    for path, status in tree(folder):
        if is_open(status):
            with contextlib.suppress(PermissionError):
                os.chmod(path, stat.S_IMODE(status.st_mode) & ~_OTHERS)


# --- whole -----------------------------------------------------------------------------------------------------------


def write_json(path: Path, value: object) -> None:
    """Replace ``path`` atomically and durably."""
    write_text(path, json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def write_text(path: Path, text: str) -> None:
    """Replace ``path`` atomically and durably; a failure leaves the old content and no file beside it."""
    _replace(path, text, durable=True)
    fsync_folder(path.parent)


def note_text(path: Path, text: str) -> None:
    """Replace ``path`` atomically, for what nothing depends on: after a power cut it may be the old one, or empty."""
    _replace(path, text, durable=False)


def _replace(path: Path, text: str, *, durable: bool) -> None:
    errors = "strict" if durable else "replace"
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)  # a killed writer's, or a link that somebody put there
    try:
        with open(temporary, "x", encoding="utf-8", errors=errors, opener=owners_only) as stream:
            stream.write(text)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        _put_in_place(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _put_in_place(temporary: Path, path: Path) -> None:
    for left in reversed(range(_REPLACE_TRIES)):
        try:
            return os.replace(temporary, path)
        except PermissionError:
            if not left:
                raise
            time.sleep(_REPLACE_PAUSE_S)


@contextlib.contextmanager
def writing(root: Path) -> Iterator[None]:
    """Turn an OSError of writes below ``root`` into StoreReadOnly, or into StoreError that says what to do."""
    try:
        yield
    except OSError as error:
        why = error.strerror or type(error).__name__
        if error.errno in _FORBIDDEN:
            raise StoreReadOnly(f"The store folder can't be written ({why}): {root}") from error
        if error.errno in _FULL:
            raise StoreError(f"The disk is full, and the store is what it was. Free some space in {root}.") from error
        raise StoreError(f"The store can't be written ({why}): {root}") from error


def disk_is_full(folder: Path) -> bool:
    """True when hardly anything is left: what a library then reports as damage is a write that was refused."""
    try:
        return shutil.disk_usage(folder).free < _FULL_BYTES
    except OSError:
        return False


def read_json(path: Path) -> object:
    """Parse ``path``. Raises OSError or ValueError (torn or foreign content)."""
    return json.loads(path.read_bytes().decode("utf-8"))


def fsync_folder(folder: Path) -> None:
    """Make renames inside ``folder`` durable. Windows has no such call and orders its metadata itself."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_tree(folder: Path) -> None:
    """Sync every file and folder below ``folder``, children first."""
    for base, _, names in os.walk(folder, topdown=False):
        for name in names:
            # Windows refuses fsync on a descriptor opened for reading only.
            descriptor = os.open(os.path.join(base, name), os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        fsync_folder(Path(base))


def files_below(folder: Path, *, leave_out: frozenset[str] = frozenset()) -> list[Path]:
    """Every file whose name is not in ``leave_out``."""
    found = (path for path in folder.rglob("*") if path.name not in leave_out and not is_passing(path.name))
    return sorted(path for path in found if path.is_file())


def file_digest(path: Path) -> list[object]:
    """[size in bytes, BLAKE2b-128 hex]. Raises OSError."""
    with open(path, "rb") as stream:
        digest = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16))
        return [stream.tell(), digest.hexdigest()]


def link_or_copy(source: Path, target: Path) -> None:
    """Give a file that nobody writes any more a second name, or a copy where the file system has no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def remove_tree(folder: Path) -> bool:
    """Delete ``folder``, or the link that has its name and not what it leads to; False when something could not be
    deleted (on Windows: still open somewhere)."""
    if folder.is_symlink():
        with contextlib.suppress(OSError):
            folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)
    return not os.path.lexists(folder)


def is_writable(folder: Path) -> bool:
    """True when a file can really be made in ``folder`` (permission bits lie to root and on read-only mounts)."""
    nameless = getattr(os, "O_TMPFILE", None)
    if nameless is not None:
        # A name would come and go under the eyes of whoever lists or copies the folder just then.
        try:
            os.close(os.open(folder, nameless | os.O_RDWR | os.O_CLOEXEC, 0o600))
            return True
        except OSError as error:
            if error.errno in (*_FORBIDDEN, *_FULL):
                return error.errno in _FULL
    try:
        descriptor, probe = tempfile.mkstemp(prefix=_PROBE, dir=folder)
    except OSError as error:
        return error.errno in _FULL
    os.close(descriptor)
    with contextlib.suppress(OSError):
        os.unlink(probe)
    return True


def is_passing(name: str) -> bool:
    """True for files that processes make and remove while they look at a folder; no copy or digest includes them."""
    return name.startswith(_PROBE) or name.endswith(("-journal", "-wal", "-shm"))
