"""Tidy up after a run: older generations, unused vectors, what the next run may take for granted."""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import replace

from rag_mcp.access.withdrawal import MASKED
from rag_mcp.errors import StoreDamaged, StoreError
from rag_mcp.ingest.content import Content
from rag_mcp.ingest.context import Context
from rag_mcp.ingest.options import Step
from rag_mcp.ingest.plan import FilePlan
from rag_mcp.ingest.statcache import status_of, write_stat_cache
from rag_mcp.ingest.withdrawals import settle_withdrawals
from rag_mcp.stores.embedded.converted import ConvertedTexts
from rag_mcp.stores.embedded.files import writing
from rag_mcp.stores.manifest import Manifest

__all__ = ["collect", "remember"]

_log = logging.getLogger(__name__)

_CACHE_RATIO = 1.5
_CACHE_SLACK = 512


def remember(run: Context, plan: FilePlan, content: Content) -> None:
    """Write the stat cache, unless it would say what it says."""
    entries = {path: e for path, e in {**run.stats.entries, **content.digests}.items() if path in plan.files}
    cache = replace(run.stats, entries=entries)
    proven = all(cache.known(path, status_of(plan.files[path].file)) is not None for path in entries)
    if proven and entries == run.stats.entries and not run.embedder.hashed_files:
        return
    try:
        write_stat_cache(run.store.root / "stat-cache.json", replace(cache, written_ns=run.started_ns))
    except OSError as error:
        _log.warning("the next run has to read all files again: %s", error.strerror)


def collect(run: Context, manifest: Manifest, *, published: bool) -> None:
    """Remove what nobody needs any more. What was published stays so when this fails; the next run does it again."""
    try:
        with writing(run.store.root):
            settle_withdrawals(run, manifest)
            run.store.tidy(published=published, erase=run.options.clean)
            ConvertedTexts(run.store.root).trim(_converted(manifest))
        run.on_step(Step.COLLECTED)
        if published:
            _trim_cache(run)
    except StoreError as error:
        _log.warning("left for the next run: %s", error)


def _converted(manifest: Manifest) -> set[str]:
    """The documents whose converted text may stay: not those that went, were left out, or have something masked."""
    return {
        each.sha256
        for path, each in manifest.states.items()
        if each.converted_from and not any(MASKED in text for text in manifest.notices.get(path, ()))
    }


def _trim_cache(run: Context) -> None:
    """Drop cached vectors that no kept generation uses, once there are many: a reverted edit or another branch
    checked out again is then mostly free, and the cache stays in proportion to the store."""
    from rag_mcp.stores.embedded.cache import EmbeddingCache

    keep: dict[str, set[str]] = {}
    for number in run.store.numbers():
        try:
            manifest = run.store.manifest_of(number)
        except StoreDamaged:
            return  # what it uses is unknown: keep everything
        keep.setdefault(str(manifest.identity["embedder"]), set()).update(manifest.text_keys())
    fingerprint = run.embedder.identity.fingerprint
    used = keep.pop(fingerprint, set())
    with closing(EmbeddingCache(run.store.cache_path, fingerprint)) as cache:
        if run.options.clean or cache.count() > len(used) * _CACHE_RATIO + _CACHE_SLACK:
            cache.trim(used, keep)
