"""Parameters that several commands take, each declared once; what a setting is called and means is the configuration's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rag_mcp.config import SETTINGS, environment
from rag_mcp.errors import ConfigError
from rag_mcp.places import expanded

__all__ = ["PATH", "Collection", "Corpus", "Db", "Embedder", "Exclude", "Folder", "Json", "Only", "Policy", "Profile"]


def _path(text: str | Path) -> Path:
    """What a path on the command line stands for; quotes and schedulers keep a shell from looking."""
    try:
        return expanded("it", str(text), environment())
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from error


PATH: Any = {"parser": _path}


def _help(variable: str) -> str:
    return f"{SETTINGS[variable].help} ({variable})."


def _option(variable: str, **more: Any) -> Any:
    return typer.Option(SETTINGS[variable].option, help=_help(variable), **more)


Folder = Annotated[Path | None, typer.Argument(help=_help("RAG_MCP_CORPUS_ROOT"), **PATH)]
Corpus = Annotated[Path | None, _option("RAG_MCP_CORPUS_ROOT", **PATH)]
Db = Annotated[Path | None, _option("RAG_MCP_DB_PATH", **PATH)]
Embedder = Annotated[str | None, _option("RAG_MCP_EMBEDDER")]
Collection = Annotated[str | None, _option("RAG_MCP_COLLECTION")]
Profile = Annotated[str | None, _option("RAG_MCP_CLIENT_PROFILE")]
Policy = Annotated[Path | None, _option("RAG_MCP_POLICY", **PATH)]
Exclude = Annotated[
    list[str] | None, typer.Option(metavar="PATTERN", help="Path or gitignore pattern to leave out; repeatable.")
]
Only = Annotated[str | None, typer.Option(metavar="NAME", help="Of several corpora, only this one.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
