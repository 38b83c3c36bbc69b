"""A note of the last ingest run beside the generations: when it looked, and what it left out. Advisory only."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from rag_mcp.models import Notice, Skipped, SourceClass
from rag_mcp.stores.embedded.files import note_text, read_json
from rag_mcp.stores.workplace import LastRun

__all__ = ["LastRun", "read_last_run", "write_last_run"]

_NAME = "last-run.json"


def write_last_run(root: Path, last: LastRun) -> None:
    """Replace the note; a failure is ignored, since nothing depends on it."""
    import json

    value = {
        "finished_at": last.finished_at,
        "skipped": [[item.source, item.reason] for item in last.skipped],
        "notices": [[item.source, item.text] for item in last.notices],
        "classes": {source: sorted(classes) for source, classes in last.classes.items()},
    }
    with suppress(OSError):
        note_text(root / _NAME, json.dumps(value, ensure_ascii=False))


def read_last_run(root: Path) -> LastRun | None:
    """None when there is no note, or it is torn."""
    try:
        raw = read_json(root / _NAME)
        if not isinstance(raw, dict):
            return None
        return LastRun(
            str(raw["finished_at"]),
            tuple(Skipped(str(source), str(reason)) for source, reason in raw["skipped"]),
            tuple(Notice(str(source), str(text)) for source, text in raw.get("notices", ())),
            {source: frozenset(map(SourceClass, names)) for source, names in raw.get("classes", {}).items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
