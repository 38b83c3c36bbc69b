"""Which generations does a store keep, and what did each run change? Of documents no more than may be shown from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from rag_mcp.access.load import load_policy
from rag_mcp.access.profiles import Rights, resolve_profile
from rag_mcp.config import Config
from rag_mcp.errors import RagMcpError
from rag_mcp.stores.embedded.generations import GenerationStore
from rag_mcp.stores.embedded.manifest_file import read_manifest
from rag_mcp.stores.embedded.place import store_root
from rag_mcp.stores.embedded.withdrawn import WithdrawalWatch
from rag_mcp.stores.manifest import FileEntry

__all__ = ["Change", "Kept", "changed", "generations"]

_NAMED = 8


@dataclass(frozen=True, slots=True)
class Change:
    """Against the generation kept before. ``named`` are new or changed documents, ``gone`` is a number: what is not there
    any more may have been taken away to be named no longer."""

    added: int
    altered: int
    gone: int
    named: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """``change`` is None where there is nothing to compare with, ``problem`` says why a generation can't be read."""

    number: int
    live: bool
    created_at: str = ""
    documents: int = 0
    passages: int = 0
    change: Change | None = None
    problem: str = ""


def generations(config: Config, profile: str) -> list[Kept]:
    """The newest first. Raises RagMcpError where there is no store, or what may be shown can't be told."""
    store = GenerationStore(store_root(config))
    live, numbers = store.current(), sorted(store.numbers())
    policy, watch = load_policy(config.policy_path), WithdrawalWatch()

    def described(number: int, before: int | None) -> Kept:
        rights = Rights(resolve_profile(profile, policy), policy, watch.since(store, number))

        def shown(path: str, entry: FileEntry) -> bool:
            return rights.may_see(entry.source_class, path, requested=None)

        try:
            info = store.info(number)
            files = _files(store.path(number))
            change = None if before is None else changed(_files(store.path(before)), files, shown)
        except RagMcpError as error:
            return Kept(number, number == live, problem=str(error))
        return Kept(number, number == live, info.created_at, info.files, sum(info.counts.values()), change)

    return [described(*pair) for pair in zip(numbers, [None, *numbers], strict=False)][::-1]


def changed(
    before: Mapping[str, FileEntry], after: Mapping[str, FileEntry], shown: Callable[[str, FileEntry], bool]
) -> Change:
    """Pure; a document is altered when its text or its class is."""
    added = [path for path in after if path not in before]
    altered = [path for path, each in after.items() if path in before and _told(before[path]) != _told(each)]
    named = (path for path in sorted({*added, *altered}) if shown(path, after[path]))
    return Change(
        len(added),
        len(altered),
        sum(path not in after for path in before),
        tuple(path for path, _ in zip(named, range(_NAMED), strict=False)),
    )


def _told(entry: FileEntry) -> tuple[str, str]:
    return entry.sha256, entry.source_class


@lru_cache(maxsize=4)
def _files(generation: Path) -> Mapping[str, FileEntry]:
    """A generation never changes, and a number is given once."""
    return read_manifest(generation).files
