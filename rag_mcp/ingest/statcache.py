"""Which files can't have changed since they were last hashed, told by their status alone (as git's index does).

Kept beside the generations, not in them: it describes the corpus folder, is only ever a shortcut, and may be deleted at
any time. A file counts as unchanged when size, mtime, ctime and inode are what they were and its mtime and ctime are
older than the moment the cache was written by a margin (a later edit within the clock's granularity would leave the
same times: git calls such entries racy).
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path

from rag_mcp.ingest.walk import CorpusFile
from rag_mcp.stores.embedded.files import read_json, write_json

__all__ = ["RACY_MARGIN_NS", "FileStat", "StatCache", "read_stat_cache", "status_of", "write_stat_cache"]

# Coarsest time stamps in use: FAT keeps modification times in steps of two seconds.
RACY_MARGIN_NS = 2_000_000_000

FileStat = tuple[int, int, int, int]
"""size in bytes, mtime in ns, ctime in ns, inode."""


def status_of(file: CorpusFile) -> FileStat:
    return file.size, file.mtime_ns, file.ctime_ns, file.inode


@dataclass(frozen=True, slots=True)
class StatCache:
    """``entries``: path -> (status, SHA-256 of the decoded text). ``models``: digests of model files, same idea."""

    root: str = ""
    written_ns: int = 0
    entries: Mapping[str, tuple[FileStat, str]] = field(default_factory=dict)
    models: MutableMapping[str, str] = field(default_factory=dict)

    def known(self, path: str, status: FileStat) -> str | None:
        """The file's digest if it can't have changed, else None."""
        entry = self.entries.get(path)
        if entry is None or entry[0] != status:
            return None
        _, mtime_ns, ctime_ns, _ = status
        return entry[1] if max(mtime_ns, ctime_ns) + RACY_MARGIN_NS < self.written_ns else None


def read_stat_cache(path: Path, root: str) -> StatCache:
    """An empty cache when the file is missing, torn or about another corpus folder: that only costs time."""
    try:
        raw = read_json(path)
        if not isinstance(raw, dict) or raw["version"] != 1:
            return StatCache(root=root)
        models = dict(raw["models"])
        if raw["root"] != root:
            return StatCache(root=root, models=models)
        entries = {name: ((row[0], row[1], row[2], row[3]), row[4]) for name, row in raw["entries"].items()}
        return StatCache(root, int(raw["written_ns"]), entries, models)
    except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError):
        return StatCache(root=root)


def write_stat_cache(path: Path, cache: StatCache) -> None:
    entries = {name: [*status, sha] for name, (status, sha) in cache.entries.items()}
    write_json(
        path,
        {
            "version": 1,
            "root": cache.root,
            "written_ns": cache.written_ns,
            "models": dict(cache.models),
            "entries": entries,
        },
    )
