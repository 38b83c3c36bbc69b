"""Decide what a run has to do: which files to read, which to keep, which are gone. Pure; every doubt means more work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rag_mcp.errors import CorpusError, CorpusShrunk
from rag_mcp.models import Skipped, SourceClass
from rag_mcp.stores.embedded.manifest import FileEntry, Manifest

__all__ = ["Delta", "FilePlan", "Placed", "check_shrink", "diff_chunks", "plan_files"]

# As little as this left is no decision but an unmounted disk or a sync client in trouble. A single file that stays of a
# few is one; of two or three it may be what its owner kept.
SHRINK_RATIO = 0.1
LONE_FILE_OF = 5


@dataclass(frozen=True, slots=True)
class Placed:
    """A listed file with its class and project, and its text digest where its status proves it unchanged."""

    path: str
    source_class: SourceClass
    project: str | None
    known_sha: str | None


@dataclass(frozen=True, slots=True)
class FilePlan:
    """``unchanged`` and ``kept`` (unreadable now) entries are taken over as they are; ``read`` must be looked into."""

    unchanged: Mapping[str, FileEntry]
    still_rejected: tuple[str, ...]
    kept: Mapping[str, FileEntry]
    read: tuple[str, ...]


def plan_files(files: Iterable[Placed], unreadable: Iterable[str], old: Manifest | None, *, trust: bool) -> FilePlan:
    """Split the listing against ``old``. ``trust`` False (another derivation, --full) means read everything.

    Files known to ``old`` below an ``unreadable`` path are kept: only a path that is really absent counts as gone.
    """
    known = old.files if old is not None else {}
    rejected = old.rejected if old is not None else {}
    unchanged: dict[str, FileEntry] = {}
    still_rejected: list[str] = []
    read: list[str] = []
    seen: set[str] = set()
    for file in files:
        seen.add(file.path)
        entry = known.get(file.path)
        if trust and entry is not None and same_place(entry, file) and file.known_sha == entry.sha256:
            unchanged[file.path] = entry
        elif trust and file.known_sha is not None and rejected.get(file.path, ("",))[0] == file.known_sha:
            still_rejected.append(file.path)
        else:
            read.append(file.path)
    closed = tuple(unreadable)
    missing = [path for path in known if path not in seen]
    kept = {path: known[path] for path in missing if is_below(path, closed)}
    return FilePlan(unchanged, tuple(still_rejected), kept, tuple(read))


def same_place(entry: FileEntry, file: Placed) -> bool:
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
