"""Which text has a file? The one place that tells file types apart: text is decoded, documents are converted.

A type of document to add: its ending in ``text/filetypes.py``, its reader in ``converter.py``, its libraries in
``convert.py``. Everything behind this module (guard, heads, passages, access) sees markdown and asks for no type.
"""

from __future__ import annotations

from rag_mcp.ingest.context import Context
from rag_mcp.ingest.convert import Converted, check_installed, read_converted
from rag_mcp.stores.embedded.converted import ConvertedTexts
from rag_mcp.text.decode import decode, raw_digest, text_digest
from rag_mcp.text.filetypes import converted_kind

__all__ = ["check_readable", "source_digest", "source_text"]


def check_readable(path: str) -> None:
    """Raises NotInstalled when nothing is there that could read such a file, however it looks inside."""
    if (kind := converted_kind(path)) is not None:
        check_installed(kind)


def source_digest(path: str, raw: bytes) -> str:
    """What a file is known by: equal digests are read as the same text. Raises Undecodable."""
    return text_digest(decode(raw)) if converted_kind(path) is None else raw_digest(raw)


def source_text(run: Context, path: str, raw: bytes) -> Converted:
    """Raises Undecodable or NotConverted, and StoreError or StoreReadOnly when the text can't be kept."""
    if (kind := converted_kind(path)) is None:
        return Converted(decode(raw))
    texts = ConvertedTexts(run.store.root)
    return read_converted(kind, raw, texts, run.store.root, keep=not run.options.dry_run)
