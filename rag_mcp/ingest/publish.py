"""Embed what is new, then build the next generation, check it and publish it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from rag_mcp.errors import StoreDamaged
from rag_mcp.ingest.baseline import Baseline
from rag_mcp.ingest.build import BuildJob, build_generation
from rag_mcp.ingest.context import Context
from rag_mcp.ingest.next import Next
from rag_mcp.ingest.options import Step
from rag_mcp.stores.embedded.cache import EmbeddingCache
from rag_mcp.stores.manifest import stored_keys

if TYPE_CHECKING:
    from rag_mcp.embedders.base import Vectors

__all__ = ["publish"]

_EMBED_SLICE = 256
_LOOKUP_SLICE = 4_096


def publish(run: Context, following: Next, base: Baseline) -> int:
    """Return the number of the generation published. Raises EmbedderError and what ``build_generation`` raises."""
    with closing(EmbeddingCache(run.store.cache_path, run.embedder.identity.fingerprint)) as cache:
        _embed(run, following, cache)
        run.on_step(Step.EMBEDDED)
        return build_generation(BuildJob(run=run, following=following, base=base, known=cache.get))


def _embed(run: Context, following: Next, cache: EmbeddingCache) -> None:
    """Compute the vectors that are not cached yet, keeping each batch as it comes."""
    text_keys = stored_keys(following.manifest.written.values())
    needed = list(dict.fromkeys(text_keys[kind][i] for kind, ids in following.delta.added.items() for i in ids))
    missing = needed if run.options.re_embed else _not_cached(cache, needed)
    for start in range(0, len(missing), _EMBED_SLICE):
        run.on_step(Step.EMBEDDING)
        keys = missing[start : start + _EMBED_SLICE]
        texts = [following.embedded.get(key, "") for key in keys]
        if not all(texts):
            raise StoreDamaged("A file can't be read now, and the vectors of its last state are lost.")

        def keep(offset: int, rows: Vectors, keys: Sequence[str] = keys, start: int = start) -> None:
            cache.put(keys[offset : offset + len(rows)], rows)
            run.progress("embed", start + offset + len(rows), len(missing))

        run.embedder.opened.embed_documents(texts, on_batch=keep)
        run.embedder.embedded += len(keys)


def _not_cached(cache: EmbeddingCache, keys: Sequence[str]) -> list[str]:
    """Keys without a sound vector, looked up in slices: the vectors themselves are not kept in memory."""
    missing: list[str] = []
    for start in range(0, len(keys), _LOOKUP_SLICE):
        part = keys[start : start + _LOOKUP_SLICE]
        known = cache.get(part)
        missing.extend(key for key in part if key not in known)
    return missing
