"""One command over several corpora: one after the other, each named, a failure of one stops no other."""

from __future__ import annotations

from collections.abc import Callable

import typer

from rag_mcp.cli.output import FAILED, LOCKED, STRICT, naming, report
from rag_mcp.config import Config
from rag_mcp.errors import InvalidArgument, RagMcpError
from rag_mcp.stores.embedded.place import corpora_of

__all__ = ["one_of", "over_each"]

_WORST_FIRST = (FAILED, LOCKED, STRICT, 0)


def one_of(config: Config, only: str | None) -> Config:
    """The configuration of the one corpus a command is for. Raises InvalidArgument when it is not said which."""
    corpora = corpora_of(config)
    if only is None and not corpora:
        return config
    if only not in corpora:
        said = "is needed: there are several corpora." if only is None else "names no corpus of RAG_MCP_CORPUS_ROOT."
        raise InvalidArgument("--only", said, allowed=list(corpora))
    return corpora[only]


def over_each(
    config: Config, only: str | None, work: Callable[[Config], int], *, as_json: bool, heading: bool = True
) -> None:
    """Do ``work``, which returns an exit code, for each corpus, or the ``only`` one; exit with the worst code there was."""
    corpora = {only: one_of(config, only)} if only is not None else corpora_of(config)
    if not corpora:
        codes = [work(config)]
    else:
        codes = [
            _named(name, each, work, as_json=as_json, heading=heading and not as_json) for name, each in corpora.items()
        ]
    if any(codes):
        raise typer.Exit(min(codes, key=_WORST_FIRST.index))


def _named(name: str, config: Config, work: Callable[[Config], int], *, as_json: bool, heading: bool) -> int:
    with naming(name):
        if heading:
            typer.echo(f"{name}:")
        try:
            return work(config)
        except RagMcpError as error:
            code = report(error, as_json=as_json)
            return code if code in _WORST_FIRST else FAILED
