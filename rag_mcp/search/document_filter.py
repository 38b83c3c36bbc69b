"""Which documents a filter leaves, among those the caller may see."""

from __future__ import annotations

import difflib

from rag_mcp.errors import InvalidArgument
from rag_mcp.search.facets import Facets
from rag_mcp.stores.base import PassageFilter
from rag_mcp.text.properties import DocumentFilter
from rag_mcp.text.sanitize import printable

__all__ = ["passing", "without_others"]

_NEAR = 5


def passing(wanted: DocumentFilter, facets: Facets, shown: frozenset[str]) -> frozenset[str]:
    """Paths of the documents ``shown`` that pass. Raises InvalidArgument for a property that none of them has."""
    for key in wanted.keys:
        if not facets.has_key(key, shown):
            raise _unknown(key, facets.keys_of(shown))
    return facets.select(wanted) & shown


def without_others(passed: frozenset[str], shown: frozenset[str]) -> PassageFilter:
    """The filter that leaves, of what is ``shown``, what ``passed``. An index pays for each document that a filter names,
    so it names those that pass or the others, whichever are fewer."""
    if 2 * len(passed) <= len(shown):
        return PassageFilter(sources=passed)
    return PassageFilter(left_out=shown - passed)


def _unknown(key: str, known: list[str]) -> InvalidArgument:
    near = difflib.get_close_matches(key, known, n=_NEAR, cutoff=0.5)
    hint = f" Near: {', '.join(map(printable, near))}." if near else ""
    due = "" if known else " None has any: rag-mcp ingest reads them if an older version made this index."
    return InvalidArgument("where", f'no document you may see has a property "{printable(key)}".{hint}{due}')
