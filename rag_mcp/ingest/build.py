"""Build the next generation from the live one and a delta, check it, and publish it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from rag_mcp.embedders.bounds import BOUNDS, is_known, measured_bounds
from rag_mcp.ingest.baseline import Baseline
from rag_mcp.ingest.context import Context
from rag_mcp.ingest.next import Next
from rag_mcp.ingest.options import Step
from rag_mcp.ingest.withdrawals import record_withdrawals
from rag_mcp.stores.base import Changes, KnownVectors, StoreWrite

__all__ = ["BuildJob", "build_generation"]


@dataclass(frozen=True, slots=True)
class BuildJob:
    """``following`` as it is to be, from ``base`` and vectors that are ``known``."""

    run: Context
    following: Next
    base: Baseline
    known: KnownVectors


def build_generation(job: BuildJob) -> int:
    """Return the number of the generation published.

    Raises StoreDamaged when the live generation or the result fails its check, StoreError or StoreReadOnly when it
    can't be written; nothing is published then.
    """
    live = job.base.live
    upon = live if job.base.manifest is not None else None
    with job.run.store.begin_write(live=upon, parent=live.number if live is not None else None) as write:
        _build(job, write)
    job.run.on_step(Step.PUBLISHED)
    return write.number


def _build(job: BuildJob, write: StoreWrite) -> None:
    step, manifest, delta = job.run.on_step, job.following.manifest, job.following.delta
    changes = Changes(manifest, job.following.chunks, delta.added, delta.updated, delta.deleted)
    step(Step.STAGED)
    write.write_vectors(changes, job.known, job.run.progress)
    step(Step.VECTORS_WRITTEN)
    write.write_keywords(changes)
    step(Step.KEYWORDS_WRITTEN)
    write.write_manifest(manifest)
    step(Step.MANIFEST_WRITTEN)
    write.verify(manifest)
    step(Step.VERIFIED)
    notes = {**job.run.notes(), **_bounds(job), "openings": manifest.openings()}
    write.seal(manifest, created_at=datetime.now(UTC).isoformat(timespec="seconds"), notes=notes)
    step(Step.SEALED)
    record_withdrawals(job.run, manifest, write.number, job.base)
    write.publish()


def _bounds(job: BuildJob) -> dict[str, object]:
    """Where the cosines of a model lie that no relevance weights are shipped for: as the generation before has it, else
    measured now."""
    embedder, live = job.run.embedder, job.base.live
    if is_known(embedder.identity.name):
        return {}
    if live is not None and live.info.identity.get("embedder") == embedder.identity.fingerprint:
        known = live.info.notes.get(BOUNDS)
        if known is not None:
            return {BOUNDS: known}
    return {BOUNDS: measured_bounds(embedder.opened)}
