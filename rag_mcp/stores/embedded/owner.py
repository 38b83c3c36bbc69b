"""Whose store is this? A store says which folder it was made from, and the default store is named after its folder.

Told without opening an index: readers and the writer have to come to the same answer, also for stores that older
versions made, which all had one name, whatever folder beside them they were made from.
"""

from __future__ import annotations

import json
import os
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

from rag_mcp.config import Config
from rag_mcp.places import same_folder
from rag_mcp.stores.workplace import Owner

__all__ = ["OWNER_FILE", "Owner", "collection_root", "default_store", "made_from", "made_here", "read_owner"]

OWNER_FILE = "corpus.json"
_SUFFIX = "rag_mcp.store"
DEFAULT_COLLECTION = Config().collection
# File systems take 255 bytes for a name.
_MAX_NAME_BYTES = 200
_SAMPLE = 200


def read_owner(store: Path) -> Owner | None:
    """None when nothing says it, or not so that it can be read."""
    try:
        raw = json.loads((store / OWNER_FILE).read_bytes())
        return Owner(Path(raw["root"]), str(raw["store"]), str(raw.get("named", "")))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def collection_root(db: Path, collection: str) -> Path:
    """A collection other than the default one is a store of its own below the folder."""
    return db if collection == DEFAULT_COLLECTION else db / "collections" / collection


def default_store(root: Path, collection: str = DEFAULT_COLLECTION) -> Path:
    """The folder's name plus ``.rag_mcp.store``, beside it; or the one older versions made there, if it is this folder's."""
    real = Path(os.path.realpath(root))
    named = real.parent / (f"{_short(real.name)}.{_SUFFIX}" if real.name else _SUFFIX)
    shared = real.parent / _SUFFIX
    if not os.path.lexists(named) and made_here(collection_root(shared, collection), real):
        return shared
    return named


def _short(name: str) -> str:
    raw = os.fsencode(name)
    if len(raw) <= _MAX_NAME_BYTES:
        return name
    return f"{raw[:_MAX_NAME_BYTES].decode('utf-8', 'ignore')}-{blake2b(raw, digest_size=4).hexdigest()}"


def made_from(store: Path) -> Path | None:
    """The folder a store was made from: what it says of itself, else what the last run of an older version left."""
    owner = read_owner(store)
    if owner is not None:
        return owner.root
    root, _ = _last_run(store)
    return Path(root) if root else None


def made_here(store: Path, root: Path) -> bool:
    """True when a store was made from this folder, or from one that is gone and had the same files: it was moved."""
    other = made_from(store)
    if other is None:
        return False
    return same_folder(other, root) or (not os.path.exists(other) and _are_there(_last_run(store)[1], root))


_Files = tuple[tuple[str, int, int], ...]


def _last_run(store: Path) -> tuple[str, _Files]:
    path = store / "stat-cache.json"
    try:
        status = os.stat(path)
        return _seen(path, status.st_mtime_ns, status.st_size)
    except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError):
        return "", ()


@lru_cache(maxsize=4)
def _seen(path: Path, mtime_ns: int, size: int) -> tuple[str, _Files]:
    """The folder that the stat cache is about, and (path, size, mtime) of some files; once for each state of it."""
    raw = json.loads(path.read_bytes())
    entries = sorted(raw["entries"].items())
    some = entries[:: max(1, len(entries) // _SAMPLE)]
    return str(raw["root"]), tuple((name, int(row[0]), int(row[1])) for name, row in some)


def _are_there(files: _Files, root: Path) -> bool:
    """True when at least half are there as they were."""
    return bool(files) and 2 * sum(_is_there(root / name, size, mtime) for name, size, mtime in files) >= len(files)


def _is_there(path: Path, size: int, mtime_ns: int) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return (status.st_size, status.st_mtime_ns) == (size, mtime_ns)
