"""Which deleted documents may an older generation show again? None that its owner may only have moved out of sight.

To the index a note that went into a denied folder, into a closed class or under an ignore file is as gone as a deleted
one. So what no rule lets in is looked at too, by name and by text, and a doubt keeps a document hidden.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from rag_mcp.errors import CorpusError
from rag_mcp.ingest.options import MAX_FILE_BYTES
from rag_mcp.ingest.walk import FileUnreadable, is_link, read_beneath
from rag_mcp.models import Skipped, SourceClass
from rag_mcp.text.globs import folded
from rag_mcp.text.sanitize import printable

__all__ = ["Deleted", "OnDisk", "look_everywhere", "split_deleted"]


@dataclass(frozen=True, slots=True)
class Deleted:
    """A document as kept generations hold it: the digests of its texts, and the class whose readers would see it."""

    texts: frozenset[str]
    source_class: SourceClass


@dataclass(frozen=True, slots=True)
class OnDisk:
    """All that lies below a corpus folder: ``paths`` by folded path, the ``links`` among them and all ``files`` (links
    too) as they are, and a path for each digest of a text
    or of bytes. ``unseen`` says why the rest could not be looked at."""

    paths: dict[str, str] = field(default_factory=dict)
    links: set[str] = field(default_factory=set)
    files: list[str] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    unseen: str = ""


def split_deleted(
    gone: Mapping[str, Deleted], on_disk: OnDisk, indexed: Mapping[str, SourceClass]
) -> tuple[tuple[str, ...], tuple[Skipped, ...]]:
    """Return what may be shown again, and the others with what keeps them hidden. ``indexed`` is what the newest
    generation holds: who may see a document of the same class there sees nothing new in an older one of that name."""
    places: dict[str, dict[SourceClass | None, str]] = {}
    for path in on_disk.files:
        places.setdefault(_name(path), {}).setdefault(indexed.get(path), path)
    doubt = on_disk.unseen
    if indexed and not doubt and not any(folded(path) in on_disk.paths for path in indexed):
        doubt = "nothing that is indexed lies in the corpus folder; is its disk mounted?"
    reasons = {path: doubt or _hidden_by(path, each, on_disk, places) for path, each in gone.items()}
    return (
        tuple(path for path, reason in reasons.items() if not reason),
        tuple(Skipped(path, reason) for path, reason in reasons.items() if reason),
    )


def _hidden_by(
    path: str, document: Deleted, on_disk: OnDisk, places: Mapping[str, Mapping[SourceClass | None, str]]
) -> str:
    key = folded(path)
    if key in on_disk.paths:
        return f"{printable(on_disk.paths[key])} is there, and not indexed as this document"
    above = next((each for each in map(str, PurePosixPath(key).parents) if each in on_disk.links), None)
    if above is not None:
        return f"{printable(on_disk.paths[above])} is a link, which is not followed"
    copies = (on_disk.texts[each] for each in sorted(document.texts) if each in on_disk.texts)
    if (copy := next(copies, None)) is not None:
        return f"its text is in {printable(copy)}"
    namesakes = places.get(_name(path), {}).items()
    other = next((there for source_class, there in namesakes if source_class is not document.source_class), None)
    return f"{printable(other)} has its name and may be what became of it" if other is not None else ""


def _name(path: str) -> str:
    return folded(path).rpartition("/")[2]


def look_everywhere(root: Path, store: Path) -> OnDisk:
    """List what lies below ``root`` and read every file that could be a document, whatever its name and whichever rule
    leaves it out. No link is followed; only ``store`` is passed by. Ends at the first thing that can't be looked at."""
    from rag_mcp.text.decode import Undecodable, decode, raw_digest, text_digest

    found = OnDisk()
    try:
        for path, entry, status in _everything(os.path.realpath(root), os.path.realpath(store)):
            found.paths.setdefault(folded(path), path)
            if is_link(entry):
                found.links.add(folded(path))
            elif stat.S_ISDIR(status.st_mode):
                continue
            elif stat.S_ISREG(status.st_mode) and status.st_size <= MAX_FILE_BYTES:
                raw = read_beneath(root, path, MAX_FILE_BYTES)
                found.texts.setdefault(raw_digest(raw), path)
                with contextlib.suppress(Undecodable):
                    found.texts.setdefault(text_digest(decode(raw)), path)
            found.files.append(path)
    except CorpusError as error:
        return OnDisk(unseen=f"it may still be there: {error}".rstrip("."))
    return found


def _everything(root: str, store: str) -> Iterator[tuple[str, os.DirEntry[str], os.stat_result]]:
    """Each entry below ``root`` with its path from there and its own status. Raises FileUnreadable."""
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as found:
                entries = [(entry, entry.stat(follow_symlinks=False)) for entry in found]
        except OSError as error:
            shown = printable(folder.rstrip("/")) or "the corpus folder"
            raise FileUnreadable(f"{shown}: can't be read ({error.strerror}).") from error
        for entry, status in entries:
            if os.path.normpath(entry.path) == store:
                continue
            yield folder + entry.name, entry, status
            if stat.S_ISDIR(status.st_mode) and not is_link(entry):
                pending.append(f"{folder}{entry.name}/")
