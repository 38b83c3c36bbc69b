"""Logging to stderr as text or JSON lines; stdout belongs to data or to the protocol.

This package logs no question and no passage. Other libraries' debug logs may, so they are never let below WARNING.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import IO

from rag_mcp.config import Config
from rag_mcp.text.sanitize import terminal_safe

__all__ = ["configure"]

_USUAL = Config()


def configure(*, level: str = _USUAL.log_level, style: str = _USUAL.log_format, stream: IO[str] | None = None) -> None:
    """Send all logging of this process to ``stream`` (default: stderr, made UTF-8), replacing earlier handlers."""
    handler = logging.StreamHandler(_utf8(sys.stderr) if stream is None else stream)
    handler.setFormatter(_JsonLines() if style == "json" else _TextLines())
    root = logging.getLogger()
    for earlier in list(root.handlers):
        root.removeHandler(earlier)
    root.addHandler(handler)
    ours = logging.getLogger("rag_mcp")
    ours.setLevel(level.upper())
    root.setLevel(max(ours.level, logging.WARNING))
    logging.captureWarnings(True)


def _utf8(stream: IO[str]) -> IO[str]:
    """The same stream, unable to fail on a character its locale lacks."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8", errors="backslashreplace")
    return stream


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _TextLines(logging.Formatter):
    """One line a record, then the traceback if there is one; a message can't forge a second record."""

    def format(self, record: logging.LogRecord) -> str:
        message = "\\n".join(terminal_safe(record.getMessage()).splitlines())
        line = f"{_time(record)} {record.levelname} {record.name}: {message}"
        return f"{line}\n{terminal_safe(self.formatException(record.exc_info))}" if record.exc_info else line


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry)
