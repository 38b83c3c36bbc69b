"""Read and parse the files that the plan names."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rag_mcp.access.policy import classify, secret_allowed
from rag_mcp.errors import CorpusError
from rag_mcp.ingest.baseline import Baseline
from rag_mcp.ingest.context import Context
from rag_mcp.ingest.plan import FilePlan, PlannedFile, same_place
from rag_mcp.ingest.spool import SpooledMapping
from rag_mcp.ingest.statcache import FileStat, status_of
from rag_mcp.ingest.walk import CorpusFile, FileGone, FileRefused, FileUnreadable, read_file
from rag_mcp.models import Skipped
from rag_mcp.stores.manifest import FileState
from rag_mcp.text.filetypes import converted_kind
from rag_mcp.text.properties import local_day

# A run with nothing to do must not pay for loading the guard's patterns, the chunker and the languages.
if TYPE_CHECKING:
    from rag_mcp.ingest.parse import ParsedFile, Reader

__all__ = ["Content", "parse_again", "read_content"]

_BEING_WRITTEN = "being written; the next run reads it."
_KEPT = "Kept as last indexed, if it was."


@dataclass(frozen=True, slots=True)
class Content:
    """What each file is found to be. ``parsed`` is spooled: go through its keys. ``digests`` holds those of the files
    that were read, for the stat cache."""

    unchanged: frozenset[str]
    kept: frozenset[str]
    parsed: MutableMapping[str, ParsedFile]
    rejected: Mapping[str, tuple[str, str]]
    unreadable: tuple[Skipped, ...]
    digests: Mapping[str, tuple[FileStat, str]]


class _Rejection(NamedTuple):
    """``sha256`` is empty where there was no text to take it of."""

    sha256: str
    reason: str


def read_content(run: Context, plan: FilePlan, base: Baseline) -> Content:
    """Look into every file to read. What can't be read now, or is being written, stays as last indexed, unless it
    is of another class by now: what is indexed of it has the old one."""
    unchanged, rejected, kept = set(plan.unchanged), dict(plan.rejected), set(plan.kept)
    known = base.states if base.derived_as(run.derivation) else {}
    parsed: SpooledMapping[ParsedFile] = SpooledMapping(run.spool)
    waiting: dict[str, str] = {}
    digests: dict[str, tuple[FileStat, str]] = {}
    for done, path in enumerate(plan.read, start=1):
        file = plan.files[path]
        try:
            found = _read_one(run, file, known.get(path))
            if isinstance(found, FileState):
                unchanged.add(path)
            elif isinstance(found, _Rejection):
                rejected[path] = found
            else:
                parsed[path] = found
            if found.sha256:
                digests[path] = status_of(file.file), found.sha256
        except FileUnreadable as error:
            waiting[path] = f"{error} {_KEPT}"
        except FileGone:
            pass  # as good as deleted before the walk
        run.progress("read", done, len(plan.read))
    for path in [path for path in parsed if _has_moved_on(run, plan.files[path].file)]:
        del parsed[path]
        waiting[path] = f"{_BEING_WRITTEN} {_KEPT}"
    kept.update(path for path in waiting if path in base.states)
    for path in [each for each in kept if classify(run.policy, each).source_class != base.states[each].source_class]:
        kept.remove(path)
        waiting[path] = "can't be read now, and a rule gives it another class: left out until it can be read"
    unreadable = tuple(Skipped(path, reason) for path, reason in waiting.items())
    return Content(frozenset(unchanged), frozenset(kept), parsed, rejected, unreadable, digests)


def _read_one(run: Context, file: PlannedFile, entry: FileState | None) -> FileState | ParsedFile | _Rejection:
    """Return ``entry`` itself when the text is as it was indexed. Raises FileGone or FileUnreadable."""
    from rag_mcp.ingest.convert import NotConverted
    from rag_mcp.ingest.parse import Rejected
    from rag_mcp.ingest.source import check_readable, source_digest
    from rag_mcp.text.decode import Undecodable, raw_digest

    sha, path = "", file.file.path
    check_readable(path)
    try:
        raw = read_file(run.root, file.file, max_bytes=run.options.max_file_bytes)
        sha = raw_digest(raw)
        sha = source_digest(path, raw)
        if entry is not None and entry.sha256 == sha and same_place(entry, file):
            return entry
        return _parse(run, file, raw, sha)
    except FileRefused as error:
        return _Rejection("", str(error))
    except (NotConverted, Undecodable) as error:
        if _has_moved_on(run, file.file):
            raise FileUnreadable(_BEING_WRITTEN) from error
        return _Rejection(sha, str(error))
    except Rejected as error:
        return _Rejection(sha, str(error))


def parse_again(run: Context, file: PlannedFile, sha256: str) -> ParsedFile | None:
    """Parse a file that is known to be unchanged; None when it can't be read now or has another text after all."""
    from rag_mcp.ingest.source import source_digest

    try:
        raw = read_file(run.root, file.file, max_bytes=run.options.max_file_bytes)
        return _parse(run, file, raw, sha256) if source_digest(file.file.path, raw) == sha256 else None
    except CorpusError:
        return None


def _parse(run: Context, file: PlannedFile, raw: bytes, sha256: str) -> ParsedFile:
    from rag_mcp.ingest.source import source_text

    path = file.file.path
    source = source_text(run, path, raw)
    parsed = _reader(run).read(path, source.text, sha256, source_class=file.source_class, project=file.project)
    day = local_day(file.file.mtime_ns / 1e9)
    return replace(parsed, converted_from=converted_kind(path) or "", pages=source.pages, file_day=day)


def _reader(run: Context) -> Reader:
    from rag_mcp.ingest.parse import Reader
    from rag_mcp.text.language import detect_language
    from rag_mcp.text.secrets import find_secrets

    return Reader(
        count=run.embedder.opened.count_tokens,
        limits=run.chunk_limits,
        handoff_dirs=run.options.handoff_dirs,
        handoff_basenames=run.options.handoff_basenames,
        find_secrets=lambda path, text: find_secrets(text, accepts=partial(secret_allowed, run.policy, path)),
        detect_language=detect_language,
    )


def _has_moved_on(run: Context, listed: CorpusFile) -> bool:
    """Tell whether a file has changed since it was listed, and so may be half written."""
    try:
        now = os.lstat(run.root / listed.path)
    except OSError:
        return False  # gone, or not to be seen: the next run finds that out
    return (now.st_size, now.st_mtime_ns) != (listed.size, listed.mtime_ns)
