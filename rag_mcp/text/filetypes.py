"""Which files are documents, by their names? Pure."""

from __future__ import annotations

from rag_mcp.text.globs import GlobSet

__all__ = ["converted_kind", "included", "is_document", "is_markdown"]

_MARKDOWN = (".md", ".markdown")
# What a converter makes markdown of, by the ending; ``ingest/converter.py`` has a reader for each kind.
_CONVERTED = {".pdf": "pdf", ".docx": "docx", ".html": "html", ".htm": "html"}


def is_markdown(path: str) -> bool:
    """Tell whether a path names a markdown file, by its ending in any case."""
    return path.lower().endswith(_MARKDOWN)


def converted_kind(path: str) -> str | None:
    """The kind of document that has to be converted to be read, by its ending in any case; None for what is text."""
    return next((kind for ending, kind in _CONVERTED.items() if path.lower().endswith(ending)), None)


def is_document(path: str) -> bool:
    """Tell whether a path names prose, as opposed to code: markdown, or what is converted to it."""
    return is_markdown(path) or converted_kind(path) is not None


def included(path: str, patterns: GlobSet) -> bool:
    """Tell whether a file is read at all: markdown is, and what an ``include`` pattern of the policy brings in."""
    return is_markdown(path) or patterns.matches(path)
