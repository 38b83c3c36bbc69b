"""Where a folder is: whether two paths are one folder, and one lies in another, however they are spelt."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["is_inside", "same_folder"]


def same_folder(one: Path, other: Path) -> bool:
    """True for two paths to one folder: through links, by letter case where the file system ignores it, or mounted
    twice. A folder that is not there is the same only by its path."""
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def is_inside(inner: Path, outer: Path) -> bool:
    """True when ``inner``, which need not exist yet, is ``outer`` or would lie in it."""
    inner = Path(os.path.realpath(inner))
    return any(same_folder(folder, outer) for folder in (inner, *inner.parents))
