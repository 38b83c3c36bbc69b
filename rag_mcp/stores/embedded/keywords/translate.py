"""What Tantivy's errors mean: damage, a lock, a full disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rag_mcp.errors import StoreDamaged, StoreError, StoreLocked, StoreReadOnly
from rag_mcp.stores.embedded.files import disk_is_full

__all__ = ["damaged", "translated"]


@contextmanager
def translated(folder: Path) -> Iterator[None]:
    """Turn Tantivy's errors, Rust panics included, into ours. A panic is a BaseException; others pass untouched."""
    try:
        yield
    except StoreError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        raise _own_error(folder, error) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise damaged(folder, error) from error


def _own_error(folder: Path, error: Exception) -> StoreError:
    """Only what is proven broken is damaged; locks, permissions and full disks leave the index as it is."""
    text = str(error)
    if "LockBusy" in text:
        return StoreLocked(f"Another process writes to the keyword index {folder.name!r}; try again later.")
    if isinstance(error, PermissionError) or "PermissionDenied" in text or "ReadOnlyFilesystem" in text:
        return StoreReadOnly(f"The keyword index {folder.name!r} needs a writable folder, for its lock file at least.")
    if "os error 28" in text or disk_is_full(folder):
        return StoreError("The disk is full: the keyword index can't be written, and the store is what it was.")
    if isinstance(error, OSError) or ("IoError" in text and "InvalidData" not in text):
        return StoreError(f"The keyword index {folder.name!r} can't be read or written: {_first_line(error)}")
    return damaged(folder, error)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def damaged(folder: Path, error: BaseException) -> StoreDamaged:
    return StoreDamaged(
        f"The keyword index {folder.name!r} can't be used ({_first_line(error)}). Run a full ingest to rebuild it."
    )
