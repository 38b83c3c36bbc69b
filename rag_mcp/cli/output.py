"""What comes out of a command: text that can't steer a terminal, JSON, exit codes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from rag_mcp.text.sanitize import json_safe, one_line, terminal_safe

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console_on", "print_notes", "say", "say_json"]

FAILED, USAGE, LOCKED, STRICT, INTERRUPTED = 1, 2, 3, 4, 130

# Files that a report names: for people, and as JSON.
LISTED, LISTED_JSON = 20, 1_000


def say(text: str, *, err: bool = False) -> None:
    """Print words that may quote a file's name or content, or what the caller typed."""
    typer.echo(terminal_safe(text), err=err)


def say_json(value: object) -> None:
    typer.echo(json_safe(json.dumps(value, ensure_ascii=False)))


def print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        say(f"Note: {one_line(note)}", err=True)


def console_on(*, err: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=err, highlight=False, emoji=False, markup=False, soft_wrap=True)
