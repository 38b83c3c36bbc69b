"""The ``rag-mcp`` command: parses, calls KnowledgeBase and its neighbours, prints. Nothing else prints.

Without a command it is the MCP server on stdio. Exit codes: 0 done or nothing to do, 1 failed, 2 usage, 3 another run
holds the lock (0 for ``ingest --log``), 4 done but files were left out and --strict was given, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from rag_mcp import __version__
from rag_mcp.cli.connect import connect
from rag_mcp.cli.evaluate import calibrate, evaluate
from rag_mcp.cli.hosts import client_config
from rag_mcp.cli.ingest import ingest, watch
from rag_mcp.cli.models import models
from rag_mcp.cli.output import USAGE, failure, report, say_json
from rag_mcp.cli.query import query
from rag_mcp.cli.serve import page, serve
from rag_mcp.cli.setup import setup
from rag_mcp.cli.store import doctor, gaps, rollback, status, verify
from rag_mcp.cli.tokens import token
from rag_mcp.errors import InvalidArgument, RagMcpError

__all__ = ["app", "main"]

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
# In the order of --help.
for _command in (setup, ingest, query, status, verify, rollback, doctor, watch, gaps):
    app.command()(_command)
app.command("eval")(evaluate)
app.command()(calibrate)
app.command("client-config")(client_config)
app.command()(serve)
app.command()(page)
app.command()(connect)
app.add_typer(token)
app.add_typer(models, name="models")

# What the parser raises for words it can't use: its class is public only as the base of this one.
_UsageError: Any = typer.BadParameter.__base__


def main() -> None:
    """Entry point of the console script."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="replace")
    as_json = _wants_json(sys.argv[1:])
    try:
        code = app(standalone_mode=False)
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


@app.callback(invoke_without_command=True)
def entry(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(f"rag-mcp {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        from rag_mcp.server.stdio import main as run_server

        sys.exit(run_server())
