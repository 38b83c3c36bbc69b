"""Which documents a filter leaves, among those the caller may see."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from rag_mcp.errors import InvalidArgument
from rag_mcp.stores.manifest import FileEntry
from rag_mcp.text.properties import DocumentFilter
from rag_mcp.text.sanitize import printable

__all__ = ["passing"]

_NEAR = 5


def passing(wanted: DocumentFilter, visible: Iterable[tuple[str, FileEntry]]) -> frozenset[str]:
    """Paths of the ``visible`` documents that pass. Raises InvalidArgument for a property that none of them has."""
    files = list(visible)
    known = {key for _, entry in files for key in entry.properties}
    for key in wanted.unknown_keys(known):
        near = difflib.get_close_matches(key.lower(), sorted(known), n=_NEAR, cutoff=0.5)
        hint = f" Near: {', '.join(map(printable, near))}." if near else ""
        due = "" if known else " None has any: rag-mcp ingest reads them if an older version made this index."
        raise InvalidArgument("where", f'no document you may see has a property "{printable(key)}".{hint}{due}')
    passes = wanted.test()
    return frozenset(path for path, entry in files if passes(path, entry.properties))
