"""The manifest of a generation that a version before format 2 wrote: one JSON file, read as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rag_mcp.errors import StoreDamaged
from rag_mcp.models import DocClass, SourceClass
from rag_mcp.stores.embedded.files import read_json
from rag_mcp.stores.manifest import ChangedFiles, FileEntry, Manifest

__all__ = ["JSON_MANIFEST", "read_json_manifest"]

JSON_MANIFEST = "manifest.json"


def read_json_manifest(path: Path) -> Manifest:
    """Raises StoreDamaged when it is missing, torn or foreign."""
    try:
        raw = read_json(path)
        if not isinstance(raw, dict):
            raise TypeError("not an object")
        return Manifest(
            identity=raw["identity"],
            derivation=raw["derivation"],
            files=ChangedFiles({}, {source: _entry(values) for source, values in raw["files"].items()}, ()),
            rejected={source: (row[0], row[1]) for source, row in raw["rejected"].items()},
            notices={source: tuple(texts) for source, texts in raw.get("notices", {}).items()},
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreDamaged("The manifest of this generation is damaged. Run: rag-mcp doctor --fix") from error


def _entry(values: list[Any]) -> FileEntry:
    sha256, source_class, project, doc_class, title, series, day, rows, *named = values
    # Manifests of metadata version 2 end with the rows, those of version 3 with the links, of 5 with the properties, of 6
    # with the opening, or the pages of a converted document.
    defaults: tuple[Any, ...] = ((), (), {}, "", "", (), "", 0)
    aliases, links, properties, opening, converted_from, pages, *last = (*named, *defaults[len(named) :])
    kinds = SourceClass(source_class), project, DocClass(doc_class)
    named_by = tuple(aliases), tuple(links)
    converted = converted_from, tuple(pages)
    return FileEntry(sha256, *kinds, title, series, day, rows, *named_by, properties, opening, *converted, *last)
