"""Which files are documents, by their names? Pure."""

from __future__ import annotations

from rag_mcp.text.globs import GlobSet

__all__ = ["included", "is_markdown"]

_MARKDOWN = (".md", ".markdown")


def is_markdown(path: str) -> bool:
    """Tell whether a path names a markdown file, by its ending in any case."""
    return path.lower().endswith(_MARKDOWN)


def included(path: str, patterns: GlobSet) -> bool:
    """Tell whether a file is read at all: markdown is, and what an ``include`` pattern of the policy brings in."""
    return is_markdown(path) or patterns.matches(path)
