"""What a run reports to whoever asked for it."""

from __future__ import annotations

from rag_mcp.ingest.baseline import Baseline
from rag_mcp.ingest.context import Context
from rag_mcp.ingest.next import Next, same_entry
from rag_mcp.ingest.walk import CorpusListing
from rag_mcp.models import IngestSummary, Notice, Skipped

__all__ = ["summarise"]


def summarise(
    run: Context, listing: CorpusListing, following: Next, base: Baseline, published: int | None
) -> IngestSummary:
    """``published`` is the number of the generation that was; its ``elapsed_s`` is for the caller to fill in."""
    content, manifest, delta = following.content, following.manifest, following.delta
    states = manifest.states
    skipped = (
        *listing.skipped,
        *(Skipped(path, "unreadable; kept as last indexed, if it was") for path in listing.unreadable),
        *content.unreadable,
        *(Skipped(path, reason) for path, (_, reason) in sorted(content.rejected.items())),
    )
    ingested = sum(
        path not in base.files or not same_entry(base.files[path], manifest.files[path]) for path in content.parsed
    )
    live = base.live.number if base.live is not None else None
    return IngestSummary(
        files_seen=len(listing.files),
        files_ingested=ingested,
        files_unchanged=len(states) - ingested,
        files_skipped=len(skipped),
        files_deleted=len(base.states.keys() - states.keys()),
        chunks_added=delta.size(lambda part: part.added),
        chunks_deleted=delta.size(lambda part: part.deleted),
        chunks_updated=delta.size(lambda part: part.updated),
        chunks_deduped=sum(state.repeated for state in states.values()),
        chunks_embedded=run.embedder.embedded,
        chunks_truncated=run.embedder.truncated,
        incremental=base.manifest is not None,
        rebuilt_because=base.rebuilt_because,
        store_count=sum(manifest.counts().values()),
        generation=published if published is not None else live,
        published=published is not None,
        skipped=skipped,
        notices=(
            *listing.notices,
            *(Notice(path, text) for path, texts in sorted(manifest.notices.items()) for text in texts),
        ),
        excluded=listing.excluded,
        unmet=listing.unmet,
        files_unreadable=len(listing.unreadable) + len(content.unreadable),
        elapsed_s=0.0,
    )
