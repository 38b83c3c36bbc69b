"""Which entry of a host's configuration belongs to a store, what a new one is called, and which settings in it are ours.

One store has one entry, whatever its user has renamed it to, and no entry is written over for another store or folder.
Every setting that decides what is seen, what runs and where things go is ours and is set anew each time: one left over
from an older entry could show more than was asked for. Everything else a user added stays. Pure, but for links in paths.
"""

from __future__ import annotations

import itertools
import os
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_mcp.config import Config
from rag_mcp.errors import InvalidArgument
from rag_mcp.places import named_paths

__all__ = ["SERVER_NAME", "Block", "Registration", "default_names", "register", "serves_the_same"]

SERVER_NAME = "rag-mcp"

Block = dict[str, Any]

# What is run, with what, where, or on which other machine; "env" and "env_vars" are ours by name of the variable.
_OWNED = frozenset({"command", "args", "cwd", "envFile", "url", "headers"})
_PREFIX = "RAG_MCP_"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LONGEST = 36  # some hosts take 60 characters for the server's and the tool's name together; the longest tool has 22


@dataclass(frozen=True, slots=True)
class Registration:
    """One entry as it is to be. ``changed`` are our settings that had another value, in words; ``kept`` names the
    user's own; ``others`` are this program's entries for other stores, which stay as they are. ``new``: there was none."""

    name: str
    entry: Block
    changed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    new: bool = False


def register(
    servers: Mapping[str, Any], entry: Block, *, name: str | None = None, replace: bool = False
) -> Registration:
    """Choose the place of ``entry`` among ``servers`` and merge it with what is there.

    ``name`` is what the user asked for. Raises InvalidArgument where it belongs to another store, unless ``replace``.
    """
    chosen = _chosen(servers, entry, name, replace)
    known = _table(servers.get(chosen, {}), chosen)
    merged = _merged(known, entry)
    others = (f"{other}: {_summary(found)}" for other, found in servers.items() if other != chosen and _is_ours(found))
    changes, kept = tuple(_changes(known, merged)), tuple(_kept(merged, entry))
    return Registration(chosen, merged, changes, kept, tuple(others), new=chosen not in servers)


def default_names(env: Mapping[str, str]) -> Iterator[str]:
    """Names for a new entry, best first: after the folder of documents (or the store), then with the folder above it,
    then numbered. Only letters, digits and hyphens: every host takes these.
    """
    corpus = env.get("RAG_MCP_CORPUS_ROOT")
    place = Path(corpus or env.get("RAG_MCP_DB_PATH", ""))
    own = place.name if corpus else place.name.removesuffix(".store")
    if several := named_paths("RAG_MCP_CORPUS_ROOT", corpus or "", env):
        place, own = next(iter(several.values())), "-".join(several)
    collection = env.get("RAG_MCP_COLLECTION", "")
    first = _joined_name(own, collection)
    yield first
    yield _joined_name(place.parent.name, own, collection)
    for number in itertools.count(2):
        tail = f"-{number}"
        yield first[: _LONGEST - len(tail)] + tail


def _joined_name(*parts: str) -> str:
    return "-".join(filter(None, (SERVER_NAME, *map(_slug, parts))))[:_LONGEST].rstrip("-")


def _slug(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")


def _chosen(servers: Mapping[str, Any], entry: Block, name: str | None, replace: bool) -> str:
    for_this_store = [known for known, found in servers.items() if serves_the_same(found, entry)]
    if name is not None:
        if not _NAME.fullmatch(name) and name not in for_this_store:
            raise InvalidArgument(
                "name", f"{name!r} won't do: up to 64 letters, digits, '-' and '_', as hosts want it."
            )
        if name in servers and name not in for_this_store and not replace:
            what = _summary(servers[name]) if _is_ours(servers[name]) else "another program's"
            raise InvalidArgument(
                "name", f"{name!r} is taken ({what}). Choose another --name, or write over it with --replace."
            )
        return name
    settled = [known for known in for_this_store if _merged(servers[known], entry) == servers[known]]
    if settled or len(for_this_store) == 1:
        return (settled or for_this_store)[0]
    if for_this_store:
        raise InvalidArgument(
            "name", "several entries are for this store; say which with --name.", allowed=for_this_store
        )
    taken = {known.casefold() for known in servers}
    return next(free for free in default_names(entry["env"]) if free not in taken)


def serves_the_same(found: object, entry: Block) -> bool:
    """Whether both serve one store, and not for two folders of documents that are both there."""
    store = _store_of(entry)
    if store is None or _store_of(found) != store:
        return False
    old, new = (_env(known).get("RAG_MCP_CORPUS_ROOT") for known in (found, entry))
    if not isinstance(old, str) or not isinstance(new, str) or not os.path.isdir(old):
        return True  # one of them names none, or the folder has moved
    return os.path.realpath(old) == os.path.realpath(new)


def _store_of(entry: object) -> tuple[str, str] | None:
    """The store and collection an entry serves; None when it does not say, or not from which folder."""
    env = _env(entry)
    place = env.get("RAG_MCP_DB_PATH")
    corpora = env.get("RAG_MCP_CORPUS_ROOT")
    if place is None and isinstance(corpora, str) and "=" in corpora:  # each of several has its own store, by default
        return corpora, str(env.get("RAG_MCP_COLLECTION") or Config().collection)
    if not isinstance(place, str) or not os.path.isabs(os.path.expanduser(place)):
        return None
    resolved = os.path.normcase(os.path.realpath(os.path.expanduser(place)))
    return resolved, str(env.get("RAG_MCP_COLLECTION") or Config().collection)


def _env(entry: object) -> Mapping[str, Any]:
    env = entry.get("env") if isinstance(entry, dict) else None
    return env if isinstance(env, dict) else {}


def _is_ours(entry: object) -> bool:
    return any(map(_owns, _env(entry)))


def _owns(variable: str) -> bool:
    return variable.upper().startswith(_PREFIX)  # in any case: Windows does not tell them apart


def _summary(entry: object) -> str:
    env = _env(entry)
    place = env.get("RAG_MCP_DB_PATH") or env.get("RAG_MCP_CORPUS_ROOT") or "no store named"
    return f"{place}, profile {env.get('RAG_MCP_CLIENT_PROFILE') or 'restricted'}"


def _table(value: object, what: str) -> Block:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is no table of names and values")
    return value


def _merged(known: Block, ours: Block) -> Block:
    """Our settings over what the user added; what is ours and not in ``ours`` goes."""
    kept = {key: value for key, value in known.items() if key not in _OWNED}
    if kept.get("type") != "stdio":
        kept.pop("type", None)
    if isinstance(kept.get("env_vars"), list):  # names of variables that the host hands on from its own environment
        kept["env_vars"] = [item for item in kept["env_vars"] if _PREFIX not in str(item).upper()]
    env = {key: value for key, value in _table(known.get("env", {}), "env").items() if not _owns(key)}
    return {**kept, **ours, "env": {**env, **ours["env"]}}


def _changes(known: Block, merged: Block) -> Iterator[str]:
    before, after = _flat(known), _flat(merged)
    for key, value in before.items():
        if value != after.get(key):
            yield f"{key}: {value} -> {after.get(key, 'not set')}"


def _flat(entry: Block) -> dict[str, object]:
    return {key: value for key, value in entry.items() if key != "env"} | dict(_env(entry))


def _kept(merged: Block, ours: Block) -> list[str]:
    return [key for key in _flat(merged) if key not in _flat(ours)]
