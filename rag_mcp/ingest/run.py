"""One ingest run, stage by stage: list, plan, read, work out the next generation, publish it, report."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from rag_mcp.access.policy import Policy, classes_told_of
from rag_mcp.config import Config
from rag_mcp.errors import StoreDamaged
from rag_mcp.ingest.baseline import Baseline, open_baseline
from rag_mcp.ingest.begin import begin_run
from rag_mcp.ingest.claim import check_same_files
from rag_mcp.ingest.collect import collect, remember
from rag_mcp.ingest.content import read_content
from rag_mcp.ingest.context import Context
from rag_mcp.ingest.next import Next, next_state
from rag_mcp.ingest.options import IngestOptions, Progress, Step
from rag_mcp.ingest.plan import make_plan
from rag_mcp.ingest.report import summarise
from rag_mcp.ingest.walk import CorpusListing, read_file, walk_corpus
from rag_mcp.models import IngestSummary
from rag_mcp.stores.workplace import LastRun

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
    with begin_run(config, options, progress, on_step) as run:
        started = time.monotonic()
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
    run.store.note_run(_note(run.policy, finished, summary))


def _note(policy: Policy, finished: str, summary: IngestSummary) -> LastRun:
    """Of what the policy denies nothing is noted: a later reader with another policy would be told."""
    sources = {item.source for item in summary.skipped} | {item.source for item in summary.notices}
    told = {source: classes_told_of(policy, source) for source in sources}
    classes = {source: found for source, found in sorted(told.items()) if found is not None}
    return LastRun(
        finished,
        tuple(item for item in summary.skipped if item.source in classes),
        tuple(item for item in summary.notices if item.source in classes),
        classes,
    )
