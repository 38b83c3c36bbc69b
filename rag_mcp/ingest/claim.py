"""May this folder be ingested into this store? One made from another folder would be emptied by it."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rag_mcp.errors import CorpusError, StoreDamaged
from rag_mcp.ingest.walk import CorpusFile
from rag_mcp.places import same_folder
from rag_mcp.stores.base import Snapshot
from rag_mcp.stores.embedded.owner import made_from, made_here
from rag_mcp.stores.workplace import Owner

__all__ = ["Claim", "check_same_files", "claimed"]

_SAMPLE = 400


class Claimable(Protocol):
    """As much of a store as tells whose it is."""

    @property
    def root(self) -> Path: ...

    @property
    def place(self) -> str: ...

    def owner(self) -> Owner | None: ...

    def current(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Claim:
    """``owner`` is what the store will say of itself after the run. ``unproven``: made by a version that kept no record,
    and only its files can tell whether it was from this folder."""

    owner: Owner
    unproven: bool = False

    def notes(self) -> dict[str, object]:
        return {"corpus_root": str(self.owner.root), "store_id": self.owner.store_id}


def claimed(store: Claimable, root: Path, named: str, *, adopt: bool) -> Claim:
    """Raises CorpusError for a store that says it was made from another folder, unless it is to be adopted."""
    known = store.owner()
    if known is None:
        unproven = not adopt and store.current() is not None and not made_here(store.root, root)
        return Claim(Owner(root, uuid.uuid4().hex, named), unproven)
    if same_folder(known.root, root):
        return Claim(known if known.named else Owner(known.root, known.store_id, named))
    if adopt or known.named == named:
        return Claim(Owner(root, known.store_id, named))
    raise _refusal(store, root)


def check_same_files(
    store: Claimable,
    live: Snapshot,
    root: Path,
    files: Mapping[str, CorpusFile],
    read: Callable[[CorpusFile], bytes],
) -> None:
    """Raises CorpusError unless at least half of what the store knows (of a sample of it) is there with the same text."""
    from rag_mcp.text.decode import Undecodable, decode, text_digest

    try:
        known = list(live.manifest().states.items())
    except StoreDamaged:
        return  # it is built anew anyway, from whatever is here
    sample = known[:: max(1, len(known) // _SAMPLE)]
    same = 0
    for path, entry in sample:
        with contextlib.suppress(CorpusError, Undecodable):
            same += path in files and text_digest(decode(read(files[path]))) == entry.sha256
    if 2 * same < len(sample):
        raise _refusal(store, root)


def _refusal(store: Claimable, root: Path) -> CorpusError:
    owner = store.owner()
    other = owner.root if owner is not None else made_from(store.root)
    gone = "" if other is None or os.path.exists(other) else ", which is gone"
    return CorpusError(
        f"The store {store.place} was made from {other or 'other files'}{gone}, not from {root}: refused, nothing was changed. "
        "Give each folder a store of its own (--db); if the folder was moved or renamed, ingest it once with --adopt."
    )
