"""How a manifest is written to its file and read back, files of earlier versions too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rag_mcp.errors import StoreDamaged
from rag_mcp.models import DocClass, SourceClass
from rag_mcp.stores.embedded.files import read_json, write_json
from rag_mcp.stores.manifest import FileEntry, Manifest

__all__ = ["read_manifest", "write_manifest"]


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write durably; the layout favours fast reading over readability."""
    files = {
        source: [
            entry.sha256,
            entry.source_class.value,
            entry.project,
            entry.doc_class.value,
            entry.title,
            entry.series,
            entry.day,
            entry.rows,
            entry.aliases,
            entry.links,
            dict(entry.properties),
            entry.opening,
            entry.converted_from,
            entry.pages,
            entry.file_day,
            entry.chars,
        ]
        for source, entry in sorted(manifest.files.items())
    }
    value = {
        "identity": dict(manifest.identity),
        "derivation": dict(manifest.derivation),
        "rejected": {source: list(reason) for source, reason in sorted(manifest.rejected.items())},
        "notices": {source: list(texts) for source, texts in sorted(manifest.notices.items())},
        "files": files,
    }
    write_json(path, value)


def read_manifest(path: Path) -> Manifest:
    """Raises StoreDamaged when it is missing, torn or foreign."""
    try:
        raw = read_json(path)
        if not isinstance(raw, dict):
            raise TypeError("not an object")
        return Manifest(
            identity=raw["identity"],
            derivation=raw["derivation"],
            files={source: _entry(values) for source, values in raw["files"].items()},
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
    # Rows stay as parsed: turning hundreds of thousands of them into objects would cost more than reading them.
    kinds = SourceClass(source_class), project, DocClass(doc_class)
    named_by = tuple(aliases), tuple(links)
    converted = converted_from, tuple(pages)
    return FileEntry(sha256, *kinds, title, series, day, rows, *named_by, properties, opening, *converted, *last)
