"""What comes out of a command: text that can't steer a terminal, JSON, exit codes."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TextIO

from rag_mcp.config import environment
from rag_mcp.errors import InvalidArgument, RagMcpError, StoreLocked
from rag_mcp.text.sanitize import json_safe, one_line, terminal_safe

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console_on", "corpus_named", "exit_code", "failure", "naming", "print_notes", "report", "say", "say_json"]

FAILED, USAGE, LOCKED, STRICT, INTERRUPTED = 1, 2, 3, 4, 130

# Files that a report names: for people, and as JSON.
LISTED, LISTED_JSON = 20, 1_000


def exit_code(error: RagMcpError) -> int:
    """With what a command ends that raised ``error``."""
    if isinstance(error, StoreLocked):
        return LOCKED
    return USAGE if isinstance(error, InvalidArgument) else FAILED


def say(text: str, *, err: bool = False, **style: Any) -> None:
    """Print words that may quote a file's name or content, or what the caller typed; on a terminal with the ``style`` of
    ``typer.style``."""
    shown, stream = terminal_safe(text), sys.stderr if err else sys.stdout
    if style and stream.isatty() and _wants_styles():
        import typer

        typer.echo(typer.style(shown, **style), err=err)
    else:
        _print(shown, stream)


def _print(line: str, stream: TextIO) -> None:
    stream.write(f"{line}\n")
    stream.flush()


def _wants_styles() -> bool:
    env = environment()
    return not env.get("NO_COLOR") and env.get("TERM") not in ("dumb", "unknown")


_corpus: ContextVar[str] = ContextVar("corpus", default="")


@contextlib.contextmanager
def naming(corpus: str) -> Iterator[None]:
    """What is printed as JSON or as an error meanwhile is of this one of several corpora, and says so."""
    token = _corpus.set(corpus)
    try:
        yield
    finally:
        _corpus.reset(token)


def corpus_named() -> str:
    """The one of several corpora that is worked on; empty where there is one alone."""
    return _corpus.get()


def say_json(value: object) -> None:
    """One line; of several corpora each has its own."""
    if corpus := corpus_named():
        value = {"corpus": corpus, **(value if isinstance(value, Mapping) else {"found": value})}
    _print(json_safe(json.dumps(value, ensure_ascii=False)), sys.stdout)


def failure(kind: str, message: str) -> dict[str, object]:
    return {"ok": False, "error": {"type": kind, "message": message}}


def report(error: RagMcpError, *, as_json: bool) -> int:
    """Say what went wrong; returns the exit code for it."""
    where = f"{corpus}: " if (corpus := corpus_named()) else ""
    say(f"rag-mcp: {where}{one_line(error.for_operator)}", err=True)
    if as_json:
        say_json(failure(error.code, error.for_operator))
    return exit_code(error)


def print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        say(f"Note: {one_line(note)}", err=True)


def console_on(*, err: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=err, highlight=False, emoji=False, markup=False, soft_wrap=True)
