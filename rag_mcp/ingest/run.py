"""One ingest run, stage by stage: list, plan, read, work out the next generation, publish it, report."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rag_mcp.access.load import load_policy
from rag_mcp.config import Config
from rag_mcp.errors import CorpusError, StoreDamaged
from rag_mcp.ingest.baseline import Baseline, open_baseline
from rag_mcp.ingest.claim import check_same_files, claimed
from rag_mcp.ingest.collect import collect, remember
from rag_mcp.ingest.content import read_content
from rag_mcp.ingest.context import Context, LazyEmbedder
from rag_mcp.ingest.next import Next, next_state
from rag_mcp.ingest.options import IngestOptions, Progress, Step
from rag_mcp.ingest.plan import make_plan
from rag_mcp.ingest.report import summarise
from rag_mcp.ingest.spool import Spool
from rag_mcp.ingest.statcache import read_stat_cache
from rag_mcp.ingest.walk import CorpusListing, read_file, walk_corpus
from rag_mcp.models import IngestSummary
from rag_mcp.places import is_inside
from rag_mcp.stores.embedded.generations import GenerationStore
from rag_mcp.stores.embedded.lastrun import write_last_run
from rag_mcp.stores.embedded.place import resolve_store, store_folder, store_root

__all__ = ["run_ingest"]

_log = logging.getLogger(__name__)


def run_ingest(
    config: Config,
    options: IngestOptions,
    *,
    progress: Progress | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> IngestSummary:
    """Bring the store in step with the corpus folder and publish a new generation if anything changed.

    A run with nothing to do loads neither a model nor an index. Raises CorpusError, StoreLocked, StoreReadOnly,
    StoreTooNew, EmbedderError or PolicyError; the store is then what it was.
    """
    root, policy, store = _corpus_root(config), load_policy(config.policy_path), GenerationStore(store_root(config))
    _check_apart(root, resolve_store(store_folder(config)))
    with store.writer_lock(), Spool(store.folder) as spool:
        step = on_step or (lambda _: None)
        step(Step.LOCKED)
        started = time.monotonic()
        claim = claimed(store, root, os.path.abspath(config.corpus_root or root), adopt=options.adopt)
        stats = read_stat_cache(store.root / "stat-cache.json", str(root))
        run = Context(
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
        try:
            summary = _attempt(run)
        except StoreDamaged as error:
            # The live generation can't be built upon; corpus and cached vectors can. A second failure is final.
            summary = _attempt(replace(run, options=replace(options, full=True), damage=str(error)))
        if not options.dry_run:
            _leave_notes(run, summary)
        return replace(summary, elapsed_s=round(time.monotonic() - started, 3))


def _attempt(run: Context) -> IngestSummary:
    dry_run = run.options.dry_run
    with open_baseline(run) as base:
        listing = _list(run, base)
        plan = make_plan(run, listing, base)
        content = read_content(run, plan, base)
        following = next_state(run, plan, content, base)
        published = _publish(run, following, base) if following.changed and not dry_run else None
        if not dry_run:
            remember(run, plan, content)
        summary = summarise(run, listing, following, base, published)
    if not dry_run:
        collect(run, following.manifest, published=published is not None)
    return summary


def _list(run: Context, base: Baseline) -> CorpusListing:
    listing = walk_corpus(
        run.root,
        policy=run.policy,
        exclude=run.options.exclude,
        max_bytes=run.options.max_file_bytes,
        store_path=run.store.root,
    )
    if run.claim.unproven and base.live is not None:
        read = partial(read_file, run.root, max_bytes=run.options.max_file_bytes)
        check_same_files(run.store, base.live, run.root, {file.path: file for file in listing.files}, read)
    run.on_step(Step.WALKED)
    return listing


def _publish(run: Context, following: Next, base: Baseline) -> int:
    from rag_mcp.ingest.publish import publish  # the indexes' libraries: a run with nothing to do needs none

    return publish(run, following, base)


def _leave_notes(run: Context, summary: IngestSummary) -> None:
    """Say whose store this is, and what the run left out."""
    try:
        run.store.belong_to(run.claim.owner)
    except OSError as error:  # the generation says it too
        _log.warning("the store's folder of documents can't be noted: %s", error.strerror)
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    write_last_run(run.store.root, finished, summary.skipped, summary.notices)


def _corpus_root(config: Config) -> Path:
    if config.corpus_root is None:
        raise CorpusError("No corpus folder: name it on the command line, or set RAG_MCP_CORPUS_ROOT.")
    if not os.path.lexists(config.corpus_root):
        raise CorpusError(f"The corpus folder does not exist: {config.corpus_root}")
    if not os.path.isdir(config.corpus_root):
        raise CorpusError(f"The corpus is not a folder: {config.corpus_root}")
    return Path(os.path.realpath(config.corpus_root))


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
