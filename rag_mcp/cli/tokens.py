"""``token``: who may ask a server over HTTP, and as which profile."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag_mcp.cli import params
from rag_mcp.cli.output import print_notes, say, say_json
from rag_mcp.config import Config, environment
from rag_mcp.errors import InvalidArgument, RagMcpError

if TYPE_CHECKING:
    from rag_mcp.server.http.tokens import TokenFile

__all__ = ["Tokens", "token", "token_file"]

Tokens = Annotated[
    Path | None,
    typer.Option("--tokens", help="The file of tokens (default: tokens.json in the user's settings).", **params.PATH),
]

token = typer.Typer(
    name="token",
    help="Who may ask a server over HTTP, and as which profile.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def token_file(path: Path | None) -> TokenFile:
    """The file to work with: the one named, or the user's."""
    from rag_mcp.server.http.tokens import TokenFile, default_place

    return TokenFile(path or default_place(sys.platform, Path.home(), environment()))


@token.command("add")
def add(
    profile: Annotated[str, typer.Option("--profile", help="What its holder may see: an access profile.")],
    name: Annotated[str | None, typer.Option("--name", help="What to call it (default: after the profile).")] = None,
    tokens: Tokens = None,
    policy: params.Policy = None,
    as_json: params.Json = False,
) -> None:
    """Make a token and print it, this once; only its digest is kept."""
    _check_profile(profile, policy)
    file = token_file(tokens)
    made, secret = file.add(profile, name)
    if as_json:
        say_json({"ok": True, "name": made.name, "profile": made.profile, "token": secret})
        return
    say(
        f"Token {made.name!r} for profile {made.profile}, kept as a digest in {file.path}. It is shown this once:",
        err=True,
    )
    typer.echo(secret)


@token.command("list")
def list_tokens(tokens: Tokens = None, as_json: params.Json = False) -> None:
    """Names, profiles and days of the tokens there are."""
    known = token_file(tokens).read()
    if as_json:
        say_json({"ok": True, "tokens": [{"name": t.name, "profile": t.profile, "created": t.created} for t in known]})
        return
    for each in known:
        say(f"{each.name}  profile {each.profile}  made {each.created}")
    if not known:
        say("No tokens. Make one with: rag-mcp token add --profile NAME", err=True)


@token.command("remove")
def remove(name: Annotated[str, typer.Argument(help="Name of the token.")], tokens: Tokens = None) -> None:
    """Take a token back: a running server refuses it from its next request on."""
    gone = token_file(tokens).remove(name)
    say(f"Removed {gone.name!r}, which was for profile {gone.profile}.")


def _check_profile(profile: str, policy_path: Path | None) -> None:
    """Say of a profile no policy here defines that it counts as restricted: the server may have another policy."""
    from rag_mcp.access.load import load_policy
    from rag_mcp.access.profiles import profile_problem

    if not profile.strip():
        raise InvalidArgument("profile", "is empty.")
    try:
        config = Config.load(profile=profile, policy_path=policy_path)
        policies = [load_policy(each.policy_path) for each in config.corpora.values() or [config]]
    except RagMcpError as error:
        print_notes([f"the profile was not checked: {error.for_operator}"])
        return
    problems = [profile_problem(profile, policy) for policy in policies]
    if problems[0] and all(problems):
        print_notes([problems[0].replace("RAG_MCP_CLIENT_PROFILE", "--profile")])
