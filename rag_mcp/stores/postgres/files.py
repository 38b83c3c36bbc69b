"""The manifest as rows, one for each file: a reader is given those of the classes it may see, and no other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from hashlib import blake2b
from typing import Any

from rag_mcp.models import DocClass, SourceClass
from rag_mcp.stores.manifest import FileEntry

__all__ = ["dump_entry", "key_of", "load_entry"]

_FIELDS = tuple(field.name for field in fields(FileEntry))
_TUPLES = ("aliases", "links", "pages")


def key_of(path: str) -> str:
    return blake2b(path.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def dump_entry(entry: FileEntry, notices: Sequence[str]) -> str:
    """ASCII JSON, so lone surrogates survive."""
    raw = {name: getattr(entry, name) for name in _FIELDS} | {"rows": list(entry.rows)}
    return json.dumps([raw, list(notices)], separators=(",", ":"))


def load_entry(text: str) -> tuple[FileEntry, tuple[str, ...]]:
    raw, notices = json.loads(text)
    return FileEntry(**_typed(raw)), tuple(notices)


def _typed(raw: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: value for name, value in raw.items() if name in _FIELDS}
    values.update({name: tuple(values.get(name, ())) for name in _TUPLES})
    # Rows stay as parsed: turning hundreds of thousands of them into objects would cost more than reading them.
    return {**values, "source_class": SourceClass(raw["source_class"]), "doc_class": DocClass(raw["doc_class"])}
