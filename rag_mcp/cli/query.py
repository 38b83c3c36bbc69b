"""``query``: one question, and how an answer is printed for people."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer

from rag_mcp.cli import params
from rag_mcp.cli.output import console_on, say, say_json
from rag_mcp.cli.several import one_of
from rag_mcp.config import Config, environment
from rag_mcp.errors import RagMcpError
from rag_mcp.text.sanitize import one_line, terminal_safe

if TYPE_CHECKING:
    from rich.console import Console

    from rag_mcp.federation import Federation
    from rag_mcp.knowledge import KnowledgeBase

__all__ = ["opened", "query"]

Payload: TypeAlias = Mapping[str, Any]

_Base = TypeVar("_Base", bound="KnowledgeBase | Federation")
# Other places of a passage that an answer names.
_PLACES = 5


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
    from rag_mcp.requests import SearchRequest

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
        "where": _pairs(where or []),
        "max_chars": max_chars,
        "neighbours": neighbours,
        "explain": explain,
    }
    SearchRequest.parse(arguments)  # what is wrong with the words is said before what is with the settings
    config = Config.load(
        db_path=db, corpus_root=corpus, profile=profile, policy_path=policy, embedder=embedder, collection=collection
    )
    if only is not None:
        one_of(config, only)
        arguments["corpus"] = only
    answer = _warm_answer(arguments, config) or _own_answer(arguments, config)
    (say_json if as_json else _print_answer)(answer)


def _warm_answer(arguments: Mapping[str, object], config: Config) -> Payload | None:
    """What a running server of the same store, profile, settings and version says; None where there is none."""
    from rag_mcp.server.http.client import Server

    given = {name: value for name, value in arguments.items() if value is not None}
    try:
        answer = Server(config, environment()).answer("search_knowledge", given)
    except RagMcpError:
        return None
    if answer is not None:
        _say_doubts(config)
    return answer


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


def _pairs(where: list[str]) -> dict[str, list[str]] | None:
    from rag_mcp.errors import InvalidArgument

    found: dict[str, list[str]] = {}
    for pair in where:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise InvalidArgument("where", f'"{one_line(pair)}" is not KEY=VALUE.')
        found.setdefault(key, []).append(value)
    return found or None


@contextlib.contextmanager
def opened(kind: Callable[[Config], _Base], config: Config) -> Iterator[_Base]:
    """A knowledge base for one command; what is doubtful about its settings is said first."""
    _say_doubts(config)
    with contextlib.closing(kind(config)) as base:
        yield base


def _say_doubts(config: Config) -> None:
    from rag_mcp.search.doubts import doubtful_settings

    for text in doubtful_settings(config):
        say(f"rag-mcp: {text}", err=True)


def _print_refusal(console: Console, answer: Payload) -> None:
    from rich.text import Text

    withheld = answer.get("withheld")
    more = f": {withheld} withheld as too weak; --confidence normal shows them" if withheld else ""
    console.print(Text(f"{answer['status']} ({answer['reason']}){more}", style="bold"))
    for place in answer.get("nearest", ()):
        near = f"   near: {place['source']}  {place['heading']}  [{place['score']:.2f}]"
        console.print(Text(one_line(near), style="dim"))


def _print_answer(answer: Payload) -> None:
    """For people; a field that is left out says nothing."""
    from rich.text import Text

    console = console_on()
    if answer.get("degraded"):
        console.print(Text(f"Degraded: {one_line(answer.get('degraded_reason') or '')}", style="yellow"))
    if unknown := answer.get("not_in_documents"):
        console.print(Text(f"In no document: {one_line(', '.join(unknown))}", style="yellow"))
    if answer["status"] != "OK":
        _print_refusal(console, answer)
        return
    for number, result in enumerate(answer["results"], start=1):
        _print_passage(console, number, result)


def _print_passage(console: Console, number: int, result: Payload) -> None:
    from rich.text import Text

    cited = result["citation"]
    head = f"{number}. {_place(cited)}"
    if pages := cited.get("pages"):
        head += f", page {'-'.join(map(str, pages))}"
    console.print(Text(one_line(head), style="bold cyan"))
    about = _headings(cited) or cited.get("title", "")
    note = f"   {one_line(about)}  [{result['confidence']}, {result['score']:.2f}]"
    if day := cited.get("snapshot_date"):
        note += f"  as of {', '.join((day, *cited.get('also_unchanged_on', ())))}"
    console.print(Text(note, style="dim"))
    for key, values in result.get("properties", {}).items():
        said = f"{key}: {', '.join(map(str, values))}"
        console.print(Text(f"   {one_line(said)}", style="dim"))
    text = "(left out: the answer's budget is spent)" if result["text"] is None else result["text"] or "(no text)"
    # Every line of a passage is prefixed, so that a passage can't look like another result.
    for line in terminal_safe(text).splitlines():
        console.print(Text(f"   | {line}"))
    others = result.get("also_in", ())
    for place in others[:_PLACES]:
        where = f"{_place(place)}  {_headings(place)}".rstrip()
        console.print(Text(f"   same text in {one_line(where)}", style="dim"))
    if (total := result.get("also_in_total", len(others))) > _PLACES:
        console.print(Text(f"   and in {total - _PLACES} more places", style="dim"))
    if result.get("explain"):
        console.print(Text(f"   {json.dumps(result['explain'])}", style="dim"))
    console.print()


def _place(citation: Payload) -> str:
    return f"{citation['source']}:{citation['line_start']}-{citation['line_end']}"


def _headings(citation: Payload) -> str:
    return " > ".join(citation.get("heading_path", ()))
