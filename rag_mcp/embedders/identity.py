"""Who an embedder is, told from files alone: digests that are remembered, and a fingerprint over all that matters."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["EmbedderIdentity", "file_digest", "fingerprint_of", "stat_key"]

# A file written this short a time ago may be written again without its times moving (git's "racily clean" entries).
_SETTLED_NS = 2_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderIdentity:
    """What decides whether two vectors can be compared, without opening the model."""

    name: str
    fingerprint: str
    dimension: int
    max_tokens: int


def fingerprint_of(name: str, parts: Mapping[str, str | int | bool]) -> str:
    """Name everything that could change a vector; equal parts in any order give an equal fingerprint."""
    text = json.dumps({"name": name, **parts}, sort_keys=True, ensure_ascii=True)
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def stat_key(path: Path, status: os.stat_result) -> str:
    """Name one state of one file, as git's index does: a changed file has another key."""
    return f"{path}|{status.st_size}|{status.st_mtime_ns}|{status.st_ctime_ns}|{status.st_ino}"


def file_digest(path: Path, known: MutableMapping[str, str], *, now_ns: int | None = None) -> str:
    """Return the SHA-256 of a file, from ``known`` when its size, times and inode are those of an earlier call.

    Fills ``known`` unless the file changed a moment ago or while it was read. Raises OSError.
    """
    before = path.stat()
    key = stat_key(path, before)
    digest = known.get(key)
    if digest is not None:
        return digest
    digest = _sha256(path)
    settled = (time.time_ns() if now_ns is None else now_ns) - max(before.st_mtime_ns, before.st_ctime_ns)
    if settled > _SETTLED_NS and stat_key(path, path.stat()) == key:
        known[key] = digest
    return digest


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
