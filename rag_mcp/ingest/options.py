"""What one ingest run is asked to do, and the steps it goes through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["CONVERTER_VERSION", "GUARD_VERSION", "MAX_FILE_BYTES", "IngestOptions", "Progress", "Step"]

# Raise with every change of what the guard finds: all files are then judged again. It stands here, not in the guard,
# because a run with nothing to do must not pay for loading the guard's patterns.
GUARD_VERSION = 2

# Raise when ``converter.py`` makes another text of the same document: all files are then read again.
CONVERTER_VERSION = 1

MAX_FILE_BYTES = 10 * 1024 * 1024

Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total); stages are ``read``, ``embed`` and ``write``."""


class Step(StrEnum):
    """Moments of a run, in order; a process killed at any of them loses nothing."""

    LOCKED = "locked"
    WALKED = "walked"
    PLANNED = "planned"
    EMBEDDING = "embedding"
    EMBEDDED = "embedded"
    STAGED = "staged"
    VECTORS_WRITTEN = "vectors_written"
    KEYWORDS_WRITTEN = "keywords_written"
    MANIFEST_WRITTEN = "manifest_written"
    VERIFIED = "verified"
    SEALED = "sealed"
    PUBLISHED = "published"
    COLLECTED = "collected"


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """``full`` ignores the manifest and keeps the embedding cache; ``clean`` also drops all older generations;
    ``re_embed`` ignores the cache; ``rehash`` reads every file instead of trusting its times; ``adopt`` takes a store over
    that was made from another folder."""

    exclude: tuple[str, ...] = ()
    full: bool = False
    clean: bool = False
    re_embed: bool = False
    rehash: bool = False
    strict: bool = False
    snapshot_dedupe: bool = True
    allow_shrink: bool = False
    adopt: bool = False
    dry_run: bool = False
    handoff_dirs: tuple[str, ...] = ("context",)
    handoff_basenames: tuple[str, ...] = ("handoff.md", "active.md", "resume.md")
    max_file_bytes: int = MAX_FILE_BYTES
