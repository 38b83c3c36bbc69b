"""``serve``: one warm server over HTTP for every host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rag_mcp import logs
from rag_mcp.cli import params
from rag_mcp.cli.output import FAILED, say, say_json
from rag_mcp.cli.tokens import Tokens, token_file
from rag_mcp.config import Config, environment
from rag_mcp.errors import ConfigError, InvalidArgument

if TYPE_CHECKING:
    from rag_mcp.server.http.life import Life

__all__ = ["page", "serve"]

_STOP_WAIT_S = 15.0


def serve(
    host: Annotated[str, typer.Option("--host", help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="Port (default 8377; 0: any free one).")
    ] = None,
    allowed_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Name it is also called by; repeatable.")
    ] = None,
    tokens: Tokens = None,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Ask for no token; only with --profile restricted, on loopback.")
    ] = False,
    page: Annotated[
        bool, typer.Option("--page", help="Serve a page too, to look at what assistants are told.")
    ] = False,
    on_demand: Annotated[
        bool, typer.Option("--on-demand", help="As connect starts it: for this user, tokens or not.")
    ] = False,
    idle_exit: Annotated[
        float | None, typer.Option(metavar="MINUTES", help="End when nobody has asked for so long (default: never).")
    ] = None,
    status: Annotated[bool, typer.Option("--status", help="Say whether a server of this store runs.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="End the server of this store.")] = False,
    db: params.Db = None,
    corpus: params.Corpus = None,
    profile: params.Profile = None,
    policy: params.Policy = None,
    embedder: params.Embedder = None,
    collection: params.Collection = None,
    as_json: params.Json = False,
) -> None:
    """Serve every host over HTTP at once, each token under its own profile."""
    config = Config.load(
        db_path=db, corpus_root=corpus, profile=profile, policy_path=policy, embedder=embedder, collection=collection
    )
    from rag_mcp.server.http.life import DEFAULT_PORT, life_of

    if status or stop:
        life = life_of(config, environment())
        (_stop if stop else _tell)(life, as_json=as_json)
        return
    if profile is not None and not no_auth:
        raise InvalidArgument("profile", "is each token's own; --profile is for --no-auth.")
    from rag_mcp.server.http import process

    logs.configure(level=config.log_level, style=config.log_format)
    options = process.ServeOptions(
        host=host,
        port=DEFAULT_PORT if port is None else port,
        allowed_hosts=tuple(allowed_host or ()),
        tokens=token_file(tokens).path,
        no_auth=no_auth,
        on_demand=on_demand,
        idle_exit_s=None if idle_exit is None else 60 * idle_exit,
        page=page,
    )
    process.serve(config, options, say=say)


def page(
    no_open: Annotated[bool, typer.Option("--no-open", help="Only print the address.")] = False,
    db: params.Db = None,
    corpus: params.Corpus = None,
    as_json: params.Json = False,
) -> None:
    """Open the page of the server that runs for the store in a browser, and print its address."""
    from rag_mcp.server.http.life import life_of

    there = life_of(Config.load(db_path=db, corpus_root=corpus), environment()).running()
    if there is None or not there.page:
        what = "No server of this store runs" if there is None else "The server of this store has no page"
        raise ConfigError(f"{what}. Start one: rag-mcp serve --page")
    if as_json:
        say_json({"ok": True, "url": there.page_url})
    else:
        say(there.page_url)
    if not no_open and not as_json:
        import webbrowser

        webbrowser.open(there.page_url)


def _tell(life: Life, *, as_json: bool) -> None:
    """Exit code 1 when none runs, for scripts."""
    there = life.running()
    if as_json:
        told = {"url": there.url, "pid": there.pid, "version": there.version} if there else {}
        say_json({"ok": True, "running": there is not None, **told})
    else:
        say(f"Running: {there.url} (process {there.pid}, version {there.version})" if there else "Not running.")
    if there is None:
        raise typer.Exit(FAILED)


def _stop(life: Life, *, as_json: bool) -> None:
    there = life.stop(_STOP_WAIT_S)
    if as_json:
        say_json({"ok": True, "stopped": there is not None})
    else:
        say(f"Stopped (process {there.pid})." if there else "Not running.")
