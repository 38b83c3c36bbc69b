"""Decide what a run has to do: which files to read, which to keep, which are gone. Pure; every doubt means more work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rag_mcp.access.policy import classify
from rag_mcp.errors import CorpusError, CorpusShrunk
from rag_mcp.ingest.baseline import Baseline
from rag_mcp.ingest.context import Context
from rag_mcp.ingest.statcache import status_of
from rag_mcp.ingest.walk import CorpusFile, CorpusListing
from rag_mcp.models import Skipped, SourceClass
from rag_mcp.stores.manifest import FileState

__all__ = ["Delta", "FilePlan", "PlannedFile", "check_shrink", "diff_chunks", "make_plan", "same_place"]

# As little as this left is no decision but an unmounted disk or a sync client in trouble. A single file that stays of a
# few is one; of two or three it may be what its owner kept.
SHRINK_RATIO = 0.1
LONE_FILE_OF = 5


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A listed file with its class and project, and its text digest where its status proves it unchanged."""

    file: CorpusFile
    source_class: SourceClass
    project: str | None
    known_sha: str | None


@dataclass(frozen=True, slots=True)
class FilePlan:
    """Every listed file by path. The entries of ``unchanged`` and ``kept`` (unreadable now) files and the reasons of those
    still ``rejected`` are taken over as they are; ``read`` must be looked into."""

    files: Mapping[str, PlannedFile]
    unchanged: frozenset[str]
    rejected: Mapping[str, tuple[str, str]]
    kept: frozenset[str]
    read: tuple[str, ...]


def make_plan(run: Context, listing: CorpusListing, base: Baseline) -> FilePlan:
    """Split the listing against what is indexed. With another derivation or --rehash everything is read.

    Indexed files below an unreadable path are kept, unless a rule leaves them out: only a path that is really absent
    counts as gone. Raises what ``check_shrink`` raises.
    """
    unreadable = [path for path in listing.unreadable if path]
    check_shrink(
        base.known_files,
        len(listing.files) + sum(is_below(path, unreadable) for path in base.states),
        allow=run.options.allow_shrink,
        root=run.root,
        withheld=listing.withheld,
    )
    trust = base.derived_as(run.derivation) and not run.options.rehash
    files = {file.path: _planned(run, file, trust=trust) for file in listing.files}
    known = base.states
    unchanged: set[str] = set()
    rejected: dict[str, tuple[str, str]] = {}
    for path, file in files.items():
        if file.known_sha is None:
            continue
        entry, reason = known.get(path), base.rejected.get(path)
        if entry is not None and same_place(entry, file) and file.known_sha == entry.sha256:
            unchanged.add(path)
        elif reason is not None and reason[0] == file.known_sha:
            rejected[path] = reason
    kept = frozenset(
        path
        for path in known
        if path not in files and is_below(path, listing.unreadable) and not listing.leaves_out(path)
    )
    read = tuple(path for path in files if path not in unchanged and path not in rejected)
    return FilePlan(files, frozenset(unchanged), rejected, kept, read)


def _planned(run: Context, file: CorpusFile, *, trust: bool) -> PlannedFile:
    place = classify(run.policy, file.path)
    known_sha = run.stats.known(file.path, status_of(file)) if trust else None
    return PlannedFile(file, place.source_class, place.project, known_sha)


def same_place(entry: FileState, file: PlannedFile) -> bool:
    """True when class and project are what they were: else the records change although the text does not."""
    return entry.source_class is file.source_class and entry.project == file.project


def is_below(path: str, folders: Iterable[str]) -> bool:
    """True when ``path`` is one of ``folders`` or inside one, by whole components; "" or "." is the root."""
    return any(folder in ("", ".") or path == folder or path.startswith(f"{folder}/") for folder in folders)


def check_shrink(
    known_files: int | None,
    present_files: int,
    *,
    allow: bool,
    root: object = "",
    withheld: Sequence[Skipped] = (),
) -> None:
    """Refuse a corpus that has suddenly lost nearly everything: more likely an unmounted disk than a decision.

    ``known_files`` is None where nothing has been published yet: a first corpus without a file is a wrong path, while
    one that was emptied on purpose stays as it is. ``root`` and ``withheld`` are for the message. Raises CorpusShrunk,
    or CorpusError for the wrong path.
    """
    if known_files is None and present_files == 0:
        raise CorpusError("The corpus folder holds no markdown file. Check the path, or what is excluded.")
    lone = present_files == 1 and (known_files or 0) >= LONE_FILE_OF
    if allow or not known_files or (present_files > known_files * SHRINK_RATIO and not lone):
        return
    causes = "".join(f" {item.source}: {item.reason}." for item in withheld)
    raise CorpusShrunk(
        f"The corpus folder {root} holds {present_files} files, the store knows {known_files}: refused, nothing was "
        f"removed.{causes} If that is meant, run again with --allow-shrink."
    )


@dataclass(frozen=True, slots=True)
class Delta:
    """Ids to write and to drop, by class. ``vectors_added`` are those of ``added`` and nothing else: a vector belongs
    to its text, so a record that merely changed keeps it."""

    added: Mapping[SourceClass, frozenset[str]]
    updated: Mapping[SourceClass, frozenset[str]]
    deleted: Mapping[SourceClass, frozenset[str]]

    @property
    def empty(self) -> bool:
        return not (self.added or self.updated or self.deleted)

    def size(self, part: Callable[[Delta], Mapping[SourceClass, frozenset[str]]]) -> int:
        return sum(len(ids) for ids in part(self).values())


def diff_chunks(old: Mapping[SourceClass, Mapping[str, str]], new: Mapping[SourceClass, Mapping[str, str]]) -> Delta:
    """Compare {class: {id: record digest}} before and after."""
    added: dict[SourceClass, frozenset[str]] = {}
    updated: dict[SourceClass, frozenset[str]] = {}
    deleted: dict[SourceClass, frozenset[str]] = {}
    for source_class in SourceClass:
        before, after = old.get(source_class, {}), new.get(source_class, {})
        parts = (
            (added, after.keys() - before.keys()),
            (deleted, before.keys() - after.keys()),
            (updated, {i for i in after.keys() & before.keys() if after[i] != before[i]}),
        )
        for target, ids in parts:
            if ids:
                target[source_class] = frozenset(ids)
    return Delta(added, updated, deleted)
