"""A store's folder: what in it is the store's own, nothing of that a link, and all of it its owner's alone."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from rag_mcp.errors import StoreError
from rag_mcp.stores.embedded.files import close_to_others, find_link, is_open, make_folder, tree

__all__ = ["close_folder", "open_to_others", "prepare_folder"]

_COLLECTIONS = "collections"
# What a store keeps in its folder. Other names there are somebody else's: neither judged nor closed to others.
_OWN = re.compile(
    r"\.?(?:CURRENT|corpus\.json|writer\.(?:lock|pid)|embeddings\.sqlite.*|(?:stat-cache|last-run|withdrawn|calibration)\.json"
    r"|erase-pending|generations|converted)(?:\.tmp)?"
)


def prepare_folder(root: Path) -> None:
    """Make the store's folder, and refuse one in which a name of ours leads elsewhere, before anything is written.

    The store's own folder may be a link: its operator named it. Inside, this package makes none.
    """
    if root.is_symlink():
        _check_folder_link(root)
    names = [root.parent, root] if root.parent.name == _COLLECTIONS else []
    link = next((name for name in names if name.is_symlink()), None)
    link = link or next((found for path in _own(root) if (found := find_link(path)) is not None), None)
    if link is not None:
        raise StoreError(
            f"Refused: {link} is a link, where the store keeps something of its own. Nothing was written. Remove "
            "the link, or use another folder for the store."
        )
    if not root.is_dir():
        make_folder(root)


def close_folder(root: Path) -> None:
    """Take from others what they may do here, also in a store that an older version left open."""
    for path in _ours(root):
        close_to_others(path)
    if root.parent.name == _COLLECTIONS:
        close_folder(root.parent.parent)


def open_to_others(root: Path) -> list[Path]:
    """What others than the owner may read or write here, by its mode."""
    return [path for start in _ours(root) for path, status in tree(start) if is_open(status)]


def _own(root: Path) -> list[Path]:
    """What is in the store's folder and ours."""
    try:
        return [root / name for name in sorted(os.listdir(root)) if _OWN.fullmatch(name)]
    except FileNotFoundError:
        return []


def _ours(root: Path) -> list[Path]:
    """What only the owner may read: the store's folder, or, where other things lie in it too, what is ours of it."""
    own = _own(root)
    whole = {_COLLECTIONS, *(path.name for path in own)}.issuperset(os.listdir(root))
    return [Path(os.path.realpath(root))] if whole else own


def _check_folder_link(root: Path) -> None:
    """A link that names the store's folder is followed if its owner is this user or root, as the system's own
    protection of shared folders has it."""
    if sys.platform != "win32" and os.lstat(root).st_uid not in (os.geteuid(), 0):
        raise StoreError(f"Refused: the store's folder {root} is a link that another user has made.")
    if not root.is_dir():
        raise StoreError(f"Refused: the store's folder {root} is a link that leads to no folder.")
