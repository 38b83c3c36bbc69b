"""The ``rag-mcp`` command: parses, calls KnowledgeBase and its neighbours, prints. Nothing else prints.

Without a command it is the MCP server on stdio. Exit codes: 0 done or nothing to do, 1 failed, 2 usage, 3 another run
holds the lock (0 for ``ingest --log``), 4 done but files were left out and --strict was given, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pkgutil import resolve_name
from typing import Annotated, Any

import typer

from rag_mcp import __version__
from rag_mcp.cli.output import USAGE, failure, report, say_json
from rag_mcp.errors import InvalidArgument, RagMcpError

__all__ = ["command_line", "main"]

# In the order of --help: where each command stands in this package.
_COMMANDS = {
    "setup": "setup:setup",
    "ingest": "ingest:ingest",
    "query": "query:query",
    "status": "store:status",
    "verify": "store:verify",
    "rollback": "store:rollback",
    "doctor": "store:doctor",
    "watch": "ingest:watch",
    "gaps": "store:gaps",
    "eval": "evaluate:evaluate",
    "calibrate": "evaluate:calibrate",
    "client-config": "hosts:client_config",
    "serve": "serve:serve",
    "page": "serve:page",
    "connect": "connect:connect",
    "token": "tokens:token",
    "models": "models:models",
}

# What the parser raises for words it can't use: its class is public only as the base of this one.
_UsageError: Any = typer.BadParameter.__base__


def main() -> None:
    """Entry point of the console script."""
    as_json = _wants_json(sys.argv[1:])
    try:
        code = command_line(*sys.argv[1:2])(standalone_mode=False)
    except RagMcpError as error:
        sys.exit(report(error, as_json=as_json))
    except _UsageError as error:
        error.show()
        if as_json:
            say_json(failure(InvalidArgument.code, error.format_message()))
        sys.exit(USAGE)
    except Exception as error:
        if as_json:
            say_json(failure("internal_error", f"{type(error).__name__}: {error}"))
        raise
    sys.exit(code if isinstance(code, int) else 0)


def _wants_json(arguments: Sequence[str]) -> bool:
    """Whether the caller reads JSON from stdout, told from the bare words: they may be what is wrong. ``eval --json``
    names a file."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options and options[0] != "eval"


def command_line(first_word: str = "") -> typer.Typer:
    """The commands; where the first word names one, that one alone, so that a short answer waits for no other's imports."""
    app = typer.Typer(
        name="rag-mcp",
        help="Answers questions from a folder of markdown, with cited passages, all on this machine. "
        "Without a command: the MCP server on stdio.",
        no_args_is_help=False,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_entry)
    for name in [first_word] if first_word in _COMMANDS else _COMMANDS:
        found = resolve_name(f"rag_mcp.cli.{_COMMANDS[name]}")
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


def _entry(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(f"rag-mcp {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        from rag_mcp.server.stdio import main as run_server

        sys.exit(run_server())
