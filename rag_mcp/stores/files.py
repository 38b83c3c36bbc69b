"""Durable file operations: what is written here is either wholly there after a crash or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rag_mcp.errors import StoreError, StoreReadOnly

__all__ = [
    "digest_tree",
    "disk_is_full",
    "file_digest",
    "fsync_folder",
    "fsync_tree",
    "is_passing",
    "is_writable",
    "private_copy",
    "read_json",
    "remove_tree",
    "write_json",
    "write_text",
    "writing",
]

_PROBE = ".probe-"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
# Libraries write in blocks: a disk with less than this left has refused one.
_FULL_BYTES = 1024 * 1024


def write_json(path: Path, value: object) -> None:
    """Replace ``path`` atomically and durably."""
    write_text(path, json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def write_text(path: Path, text: str) -> None:
    """Replace ``path`` atomically and durably; a failure leaves the old content and no file beside it."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    fsync_folder(path.parent)


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


def digest_tree(folder: Path, *, leave_out: frozenset[str] = frozenset()) -> dict[str, list[object]]:
    """{relative posix path: [size in bytes, BLAKE2b-128 hex]} of every file whose name is not in ``leave_out``."""
    return {
        path.relative_to(folder).as_posix(): file_digest(path)
        for path in sorted(folder.rglob("*"))
        if path.name not in leave_out and not is_passing(path.name) and path.is_file()
    }


def file_digest(path: Path) -> list[object]:
    """[size in bytes, BLAKE2b-128 hex]. Raises OSError."""
    with open(path, "rb") as stream:
        digest = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16))
        return [stream.tell(), digest.hexdigest()]


def remove_tree(folder: Path) -> bool:
    """Delete ``folder``; False when something in it could not be deleted (on Windows: still open somewhere)."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


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
    probe = folder / f"{_PROBE}{os.getpid()}"
    try:
        probe.touch()
    except OSError as error:
        return error.errno in _FULL
    with contextlib.suppress(OSError):
        probe.unlink()
    return True


def is_passing(name: str) -> bool:
    """True for files that processes make and remove while they look at a folder; no copy or digest includes them."""
    return name.startswith(_PROBE) or name.endswith(("-journal", "-wal", "-shm"))


def private_copy(folder: Path, scratch: Path | None) -> Path:
    """Copy ``folder`` into a new folder below ``scratch`` (default: the system's), writable for this user.

    The caller deletes the copy's parent when done. Raises StoreError naming the setting that helps.
    """
    try:
        if scratch is not None:
            scratch.mkdir(parents=True, exist_ok=True)
        home = Path(tempfile.mkdtemp(prefix=f"rag_mcp-{os.getpid()}-", dir=scratch))
        copy = home / folder.name
        shutil.copytree(folder, copy, copy_function=shutil.copyfile, ignore=_passing)
        os.chmod(copy, 0o700)
        for base, folders, _ in os.walk(copy):
            for name in folders:
                os.chmod(os.path.join(base, name), 0o700)
    except OSError as error:
        raise StoreError(
            f"The store is read-only and no private copy can be made ({error.strerror}). "
            "Set RAG_MCP_SCRATCH_DIR to a folder that can be written."
        ) from error
    return copy


def _passing(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if is_passing(name)}
