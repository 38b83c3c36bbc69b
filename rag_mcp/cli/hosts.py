"""``client-config``: register this server with a host program."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag_mcp.cli import params
from rag_mcp.cli.output import print_notes, say
from rag_mcp.config import Config, environment
from rag_mcp.errors import InvalidArgument, RagMcpError, StoreAbsent

if TYPE_CHECKING:
    from rag_mcp.server.hostfile import WriteResult
    from rag_mcp.server.hosts import Host

__all__ = ["client_config"]


def client_config(
    host: Annotated[
        str, typer.Option(help="claude-desktop, claude-code, cursor, vscode, zed, codex or generic.")
    ] = "generic",
    db: params.Db = None,
    corpus: params.Corpus = None,
    embedder: params.Embedder = None,
    profile: params.Profile = None,
    policy: params.Policy = None,
    collection: params.Collection = None,
    write: Annotated[bool, typer.Option("--write", help="Merge it into the host's file, after a backup.")] = False,
    file: Annotated[
        Path | None, typer.Option("--file", help="The host's file, if it is not where it usually is.", **params.PATH)
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the entry (default: after the folder).")] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Write over an entry of that --name, whatever store it is for.")
    ] = False,
    http: Annotated[
        bool, typer.Option("--http", help="For the warm server of `serve`, in place of one that the host starts.")
    ] = False,
    url: Annotated[
        str | None, typer.Option("--url", help="Its address, if it is not this store's own on this machine.")
    ] = None,
) -> None:
    """Print the block that registers this server with a host program. Every store gets an entry of its own."""
    from rag_mcp.server.hostfile import planned, render_block, write_config
    from rag_mcp.server.hosts import Host, client_block, parse_host, server_env

    config = Config.load(
        db_path=db, corpus_root=corpus, embedder=embedder, profile=profile, policy_path=policy, collection=collection
    )
    known = parse_host(host)
    arguments = ("-m", "rag_mcp", "connect") if http else ("-m", "rag_mcp")
    server: dict[str, Any] = {"command": sys.executable, "args": arguments, "env": server_env(config)}
    if url is not None and not http:
        raise InvalidArgument("url", "is the address of a warm server: give --http as well.")
    if http and _print_http(known, config, name=name, url=url, write=write):
        return
    block = client_block(known, **server, name=name)
    corpora = config.corpora
    words = "\n".join(f"{name}: {_access_in_words(one)}" for name, one in corpora.items()) or _access_in_words(config)
    if write:
        path = file or _host_file(known)
        _print_written(write_config(path, known, block, name=name, replace=replace))
    else:
        if name is None and (file is not None or known is not Host.GENERIC):
            with contextlib.suppress(RagMcpError):  # a preview needs no file; --write says what is wrong with it
                block = client_block(known, **server, name=planned(file or _host_file(known), known, block)[0].name)
        typer.echo(render_block(known, block), nl=False)
    say(words, err=True)
    for one in corpora.values() or [config]:
        _say_if_absent(one)


def _print_http(host: Host, config: Config, *, name: str | None, url: str | None, write: bool) -> bool:
    """Print the block with the server's address; False for a host that is to start ``connect`` instead."""
    from rag_mcp.server.hostfile import render_block
    from rag_mcp.server.hosts import server_env
    from rag_mcp.server.http.entries import TOKEN_VARIABLE, http_block
    from rag_mcp.server.http.life import DEFAULT_PORT, life_of
    from rag_mcp.server.registration import default_names

    if url is None:
        there = life_of(config, environment()).running()
        address = there.url if there else f"http://127.0.0.1:{DEFAULT_PORT}/mcp"
    else:
        address = url
    block = http_block(host, name or next(default_names(server_env(config))), address)
    if block is None:
        if url is not None:
            raise InvalidArgument("url", f"{host} keeps no token out of its file; it reaches a server of this machine.")
        return False
    if write:
        raise InvalidArgument("write", f"an address is printed for {host}, to be pasted in.")
    typer.echo(render_block(host, block), nl=False)
    where = "it is asked for" if host.value == "vscode" else f"{TOKEN_VARIABLE} in the host's environment"
    say(f"Access: the token's profile. Token: {where}; one is made by: rag-mcp token add --profile NAME", err=True)
    return True


def _say_if_absent(config: Config) -> None:
    """On stderr, that a server of this configuration has nothing to answer from yet; never a failure."""
    from rag_mcp.stores.embedded.absent import live_generation
    from rag_mcp.stores.embedded.generations import GenerationStore
    from rag_mcp.stores.embedded.place import store_root

    try:
        live_generation(GenerationStore(store_root(config)), config)
    except StoreAbsent as error:
        print_notes([error.for_operator])
    except RagMcpError:
        pass  # there is something, and `doctor` says what is wrong with it


def _host_file(host: Host) -> Path:
    """The file to write, and on stderr why it is this one where that is not certain."""
    from rag_mcp.server.hosts import find_place

    place = find_place(host, platform=sys.platform, home=Path.home(), env=environment())
    if place.why:
        say(f"{place.path} is used: {place.why}. Use --file if another one is read.", err=True)
    return place.path


def _access_in_words(config: Config) -> str:
    from rag_mcp.access.load import load_policy
    from rag_mcp.access.profiles import profile_in_words, profile_problem, resolve_profile

    policy = load_policy(config.policy_path)
    problem = profile_problem(config.profile, policy)
    words = f"Access: {profile_in_words(resolve_profile(config.profile, policy))}."
    return f"{words} {problem}" if problem else words


def _print_written(result: WriteResult) -> None:
    made = result.registration
    done = ("added" if made.new else "changed") if result.changed else "already so"
    say(f"{result.path}: {made.name}: {done}")
    if result.backup is not None:
        say(f"backup: {result.backup}")
    for change in made.changed:
        say(f"was set before: {change}")
    if made.kept:
        say(f"kept: {', '.join(made.kept)}")
    for other in made.others:
        say(f"left as it is: {other}")
