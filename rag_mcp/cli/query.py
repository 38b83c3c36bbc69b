"""``query``: one question."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer

from rag_mcp.cli import params
from rag_mcp.cli.several import one_of
from rag_mcp.cli.warm import pairs, say_doubts, show, warm_answer
from rag_mcp.config import Config
from rag_mcp.errors import RagMcpError

if TYPE_CHECKING:
    from rag_mcp.federation import Federation
    from rag_mcp.knowledge import KnowledgeBase

__all__ = ["opened", "query"]

Payload: TypeAlias = Mapping[str, Any]

_Base = TypeVar("_Base", bound="KnowledgeBase | Federation")


def query(
    text: Annotated[str, typer.Argument(help="The question.")],
    db: params.Db = None,
    corpus: params.Corpus = None,
    k: Annotated[str | None, typer.Option("-k", help="How many passages, 1 to 20 (default 5).")] = None,
    mode: Annotated[str | None, typer.Option(help="hybrid, fts or vector.")] = None,
    source_class: Annotated[
        str | None, typer.Option("--source-class", help="all, code, docs, decisions, config or memory.")
    ] = None,
    project: Annotated[str | None, typer.Option(help="Only this project.")] = None,
    doc_class: Annotated[str | None, typer.Option("--doc-class", help="note or handoff.")] = None,
    confidence: Annotated[str | None, typer.Option(help="strict or normal.")] = None,
    as_of: Annotated[str | None, typer.Option("--as-of", help="State of dated series on this day, YYYY-MM-DD.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Only documents with this tag; repeatable.")] = None,
    path: Annotated[str | None, typer.Option(help="Only below this folder, or what matches this glob.")] = None,
    since: Annotated[str | None, typer.Option(help="Only documents dated this day or later, YYYY-MM-DD.")] = None,
    until: Annotated[str | None, typer.Option(help="Only documents dated this day or earlier.")] = None,
    where: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Only documents with this property; repeatable.")
    ] = None,
    max_chars: Annotated[str | None, typer.Option("--max-chars", help="Budget for all passages.")] = None,
    neighbours: Annotated[str | None, typer.Option(help="Chunks of text around each passage.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say how each hit came to its place.")] = False,
    profile: params.Profile = None,
    policy: params.Policy = None,
    embedder: params.Embedder = None,
    collection: params.Collection = None,
    only: params.Only = None,
    as_json: params.Json = False,
) -> None:
    """Ask one question."""
    arguments: dict[str, object] = {
        "query": text,
        "k": k,
        "mode": mode,
        "source_class": source_class,
        "project": project,
        "doc_class": doc_class,
        "confidence": confidence,
        "as_of": as_of,
        "tags": tag or None,
        "path": path,
        "since": since,
        "until": until,
        "where": pairs(where or []),
        "max_chars": max_chars,
        "neighbours": neighbours,
        "explain": explain,
    }
    answer = _answered(
        arguments,
        only,
        db_path=db,
        corpus_root=corpus,
        profile=profile,
        policy_path=policy,
        embedder=embedder,
        collection=collection,
    )
    show(answer, as_json=as_json)


def _answered(arguments: dict[str, object], only: str | None, **settings: Any) -> Payload:
    """A question's answer, by ``settings`` of Config.load; of several corpora ``only`` one may be asked."""
    with _words_first(arguments):
        config = Config.load(**settings)
        if only is not None:
            one_of(config, only)
            arguments["corpus"] = only
    return warm_answer(arguments, config) or _own_answer(arguments, config)


@contextlib.contextmanager
def _words_first(arguments: Mapping[str, object]) -> Iterator[None]:
    """What is wrong with the words is said before what is with the settings."""
    try:
        yield
    except RagMcpError:
        from rag_mcp.requests import SearchRequest

        SearchRequest.parse(arguments)
        raise


def _own_answer(arguments: Mapping[str, object], config: Config) -> Payload:
    from rag_mcp.models import Mode
    from rag_mcp.requests import CorporaSearch, SearchRequest
    from rag_mcp.server.tools import answer_payload

    request = (CorporaSearch if config.roots else SearchRequest).parse(arguments)
    with opened(_kind(config), config) as base:
        if request.mode is not Mode.FTS:
            base.warm_up()  # nobody asks again a moment later: wait for the model, however long it takes
        return answer_payload(base.search(request), show_paths=True)


def _kind(config: Config) -> Callable[[Config], KnowledgeBase | Federation]:
    from rag_mcp.federation import Federation
    from rag_mcp.knowledge import KnowledgeBase

    return Federation if config.roots else KnowledgeBase


@contextlib.contextmanager
def opened(kind: Callable[[Config], _Base], config: Config) -> Iterator[_Base]:
    """A knowledge base for one command; what is doubtful about its settings is said first."""
    say_doubts(config)
    with contextlib.closing(kind(config)) as base:
        yield base
