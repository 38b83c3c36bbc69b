"""``query`` where a server runs: asked, and its answer printed, without the libraries of the command line.

Only a question in plain words and options is understood here. Everything else, and what the server does not answer in full,
is left to the command itself (``query.py``), which says what is wrong.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from rag_mcp.cli.output import FAILED, say, say_json
from rag_mcp.config import Config, environment
from rag_mcp.errors import InvalidArgument, RagMcpError
from rag_mcp.places import expanded
from rag_mcp.server.http.client import Server
from rag_mcp.text.sanitize import one_line

__all__ = ["answered", "pairs", "parsed", "say_doubts", "show", "warm_answer"]

Payload: TypeAlias = Mapping[str, Any]

# What each option of the command stands for: a setting, an argument of the question, one of its lists.
_SETTINGS = {"--profile": "profile", "--embedder": "embedder", "--collection": "collection"}
_PATHS = {"--db": "db_path", "--corpus": "corpus_root", "--policy": "policy_path"}
_ARGUMENTS = {
    "-k": "k",
    "--mode": "mode",
    "--source-class": "source_class",
    "--project": "project",
    "--doc-class": "doc_class",
    "--confidence": "confidence",
    "--as-of": "as_of",
    "--path": "path",
    "--since": "since",
    "--until": "until",
    "--max-chars": "max_chars",
    "--neighbours": "neighbours",
}
_LISTS = {"--tag": "tags", "--where": "where"}
_FLAGS = frozenset({"--explain", "--json"})


def parsed(words: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any], bool] | None:
    """The question's arguments, the settings, and whether JSON is wanted. None for words that are not plain."""
    asked: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    flags: set[str] = set()
    texts: list[str] = []
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if word in _FLAGS:
            flags.add(word)
        elif not word.startswith("-"):
            texts.append(word)
        elif name not in _SETTINGS | _PATHS | _ARGUMENTS | _LISTS or (equals and not name.startswith("--")):
            return None
        else:
            value = value if equals else next(rest, "")
            if not value or (not equals and value.startswith("-")):
                return None
            if name in _LISTS:
                asked.setdefault(_LISTS[name], []).append(value)
            elif name in _ARGUMENTS:
                asked[_ARGUMENTS[name]] = value
            else:
                settings[(_SETTINGS | _PATHS)[name]] = value
    if len(texts) != 1:
        return None
    return {"query": texts[0], **asked, "explain": "--explain" in flags}, settings, "--json" in flags


def answered(words: Sequence[str]) -> bool:
    """Whether ``rag-mcp query WORDS`` was answered, and printed."""
    understood = parsed(words)
    if understood is None:
        return False
    asked, settings, as_json = understood
    try:
        asked["where"] = pairs(asked.get("where", []))
        paths = {name: expanded("it", settings[name], environment()) for name in _PATHS.values() if name in settings}
        answer = warm_answer(asked, Config.load(**{**settings, **paths}))
    except RagMcpError:
        return False
    if answer is None:
        return False
    try:
        show(answer, as_json=as_json)
    except BrokenPipeError:  # whoever read has had enough, as with any other command
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    return True


def pairs(where: Sequence[str]) -> dict[str, list[str]] | None:
    """``KEY=VALUE`` words as the question has them. Raises InvalidArgument."""
    found: dict[str, list[str]] = {}
    for pair in where:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise InvalidArgument("where", f'"{one_line(pair)}" is not KEY=VALUE.')
        found.setdefault(key, []).append(value)
    return found or None


def warm_answer(arguments: Mapping[str, object], config: Config) -> Payload | None:
    """What a running server of the same store, profile, settings and version says; None where there is none."""
    given = {name: value for name, value in arguments.items() if value is not None}
    try:
        answer = Server(config, environment()).answer("search_knowledge", given)
    except RagMcpError:
        return None
    if answer is not None:
        say_doubts(config)
    return answer


def say_doubts(config: Config) -> None:
    """Say what is doubtful about the settings."""
    from rag_mcp.search.doubts import doubtful_settings

    for text in doubtful_settings(config):
        say(f"rag-mcp: {text}", err=True)


def show(answer: Payload, *, as_json: bool) -> None:
    """Print an answer."""
    if as_json:
        say_json(answer)
    else:
        from rag_mcp.cli.passages import print_answer

        print_answer(answer)
