"""The folder of the class indexes: its format, its segments, and a copy that a writer may change."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from rag_mcp.errors import StoreTooNew
from rag_mcp.stores.embedded.files import link_or_copy
from rag_mcp.stores.embedded.formats import INDEX_FORMATS
from rag_mcp.stores.embedded.keywords.translate import damaged, translated

__all__ = ["SCHEMA_VERSION", "check_format", "clone_index", "segment_sizes"]

SCHEMA_VERSION = INDEX_FORMATS["keywords"]
"""Of fields and analysis: with another version old terms and new questions would not meet."""

_FORMAT_FILE = "format.json"
_COPIED = ("meta.json", ".managed.json", ".tantivy-meta.lock", ".tantivy-writer.lock", _FORMAT_FILE)


def check_format(folder: Path, *, create: bool = False) -> None:
    """Write or compare the format file; a folder without one that holds indexes is not ours."""
    path = folder / _FORMAT_FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["schema"]
    except FileNotFoundError:
        if create and not any(folder.iterdir()):
            path.write_text(json.dumps({"schema": SCHEMA_VERSION}) + "\n", encoding="utf-8")
            return
        if not create and (not folder.exists() or not any(folder.iterdir())):
            return
        raise damaged(folder, FileNotFoundError(f"{_FORMAT_FILE} is missing")) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(folder, error) from error
    if not isinstance(found, int) or found < SCHEMA_VERSION:
        raise damaged(folder, ValueError(f"format {found}, this program writes {SCHEMA_VERSION}"))
    if found > SCHEMA_VERSION:
        raise StoreTooNew(f"The keyword index has format {found}; this program reads {SCHEMA_VERSION}. Update rag_mcp.")


def clone_index(source: Path, target: Path) -> None:
    """Make ``target`` (new) an index folder a writer may change without touching a byte of ``source``.

    Segment files never change once written, so they are hard links where the file system can. ``meta.json`` and
    ``.managed.json`` are small and replaced on commit: copied. So are lock files, which are empty: a reader makes
    a missing one, and must have nothing to make.
    """
    with translated(source):
        _copy_tree(source, target)


def _copy_tree(source: Path, target: Path) -> None:
    target.mkdir(parents=True)
    for entry in sorted(source.rglob("*")):
        place = target / entry.relative_to(source)
        if entry.is_dir():
            place.mkdir()
        elif entry.name in _COPIED:
            shutil.copyfile(entry, place)
        else:
            link_or_copy(entry, place)


def segment_sizes(folder: Path) -> list[int]:
    """Documents in each segment, deleted ones included, as BM25 counts them."""
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    return [int(segment["max_doc"]) for segment in meta["segments"]]
