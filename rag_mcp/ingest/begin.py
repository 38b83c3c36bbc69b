"""May a run begin, and with what? The folder, the store and the lock are its own before anything is read."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rag_mcp.access.load import load_policy
from rag_mcp.config import Config
from rag_mcp.errors import CorpusError
from rag_mcp.ingest.claim import claimed
from rag_mcp.ingest.context import Context, LazyEmbedder
from rag_mcp.ingest.options import IngestOptions, Progress, Step
from rag_mcp.ingest.spool import Spool
from rag_mcp.ingest.statcache import read_stat_cache
from rag_mcp.places import is_inside
from rag_mcp.stores.embedded.place import local_folder, resolve_store, store_folder, store_root
from rag_mcp.stores.embedded.workplace import EmbeddedWorkplace
from rag_mcp.stores.workplace import Workplace

__all__ = ["begin_run", "corpus_folder"]


@contextmanager
def begin_run(
    config: Config, options: IngestOptions, progress: Progress | None, on_step: Callable[[Step], None] | None
) -> Iterator[Context]:
    """Hold the writer lock. Raises CorpusError, PolicyError, StoreLocked, StoreReadOnly or EmbedderError."""
    root, policy = corpus_folder(config.corpus_root), load_policy(config.policy_path)
    step = on_step or (lambda _: None)
    with _workplace(config, root) as store, Spool(store.folder) as spool:
        step(Step.LOCKED)
        claim = claimed(store, root, os.path.abspath(config.corpus_root or root), adopt=options.adopt)
        stats = read_stat_cache(store.root / "stat-cache.json", str(root))
        yield Context(
            options=options,
            root=root,
            policy=policy,
            store=store,
            claim=claim,
            stats=stats,
            embedder=LazyEmbedder(config, stats.models),
            spool=spool,
            started_ns=time.time_ns(),
            progress=progress or (lambda *_: None),
            on_step=step,
        )


@contextmanager
def _workplace(config: Config, root: Path) -> Iterator[Workplace]:
    """Where the run writes, its writer lock held."""
    if config.database:
        from rag_mcp.stores.postgres.place import held_workplace

        _check_apart(root, local_folder(config))
        with held_workplace(config) as place:
            yield place
        return
    store = EmbeddedWorkplace(store_root(config))
    _check_apart(root, resolve_store(store_folder(config)))
    with store.writer_lock():
        yield store


def corpus_folder(given: Path | None) -> Path:
    """The real path of the folder that was given. Raises CorpusError when there is none."""
    if given is None:
        raise CorpusError("No corpus folder: name it on the command line, or set RAG_MCP_CORPUS_ROOT.")
    if not os.path.lexists(given):
        raise CorpusError(f"The corpus folder does not exist: {given}")
    if not os.path.isdir(given):
        raise CorpusError(f"The corpus is not a folder: {given}")
    return Path(os.path.realpath(given))


def _check_apart(root: Path, store: Path) -> None:
    """Raises CorpusError before anything is made: a store in its corpus would be indexed, synchronised and shared with
    it, and a corpus in its store would be closed to its other readers."""
    for inner, outer, what in (
        (root, store, "corpus {} lies inside the store"),
        (store, root, "store {} lies inside the corpus"),
    ):
        if is_inside(inner, outer):
            raise CorpusError(
                f"The {what.format(inner)} {outer}: refused, nothing was written. Give the store a folder of its own "
                "outside the corpus (--db, RAG_MCP_DB_PATH); one that is there already may be moved as it is."
            )
