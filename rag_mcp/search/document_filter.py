"""Which documents a filter leaves, among those the caller may see."""

from __future__ import annotations

import difflib

from rag_mcp.errors import InvalidArgument
from rag_mcp.search.facets import Facets
from rag_mcp.text.properties import DocumentFilter
from rag_mcp.text.sanitize import printable

__all__ = ["passing"]

_NEAR = 5


def passing(wanted: DocumentFilter, facets: Facets, shown: frozenset[str]) -> frozenset[str] | None:
    """Paths of the documents ``shown`` that pass; None when that is all of them. Raises InvalidArgument for a property
    that none of them has."""
    for key in wanted.keys:
        if not facets.has_key(key, shown):
            raise _unknown(key, facets.keys_of(shown))
    found = facets.select(wanted) & shown
    return None if len(found) == len(shown) else found


def _unknown(key: str, known: list[str]) -> InvalidArgument:
    near = difflib.get_close_matches(key, known, n=_NEAR, cutoff=0.5)
    hint = f" Near: {', '.join(map(printable, near))}." if near else ""
    due = "" if known else " None has any: rag-mcp ingest reads them if an older version made this index."
    return InvalidArgument("where", f'no document you may see has a property "{printable(key)}".{hint}{due}')
