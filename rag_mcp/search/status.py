"""What rag_status and ``rag-mcp status`` tell, filtered by profile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rag_mcp.access.policy import WITHHELD_BY, classes_told_of
from rag_mcp.access.profiles import Rights
from rag_mcp.answers import Status
from rag_mcp.config import Config
from rag_mcp.errors import StoreAbsent
from rag_mcp.models import Notice, Skipped
from rag_mcp.search.documents import visible_counts
from rag_mcp.search.doubts import other_policy
from rag_mcp.stores.embedded.absent import corpus_note
from rag_mcp.stores.manifest import FileEntry
from rag_mcp.stores.workplace import LastRun
from rag_mcp.telemetry import Telemetry

if TYPE_CHECKING:
    from rag_mcp.search.live import Live

__all__ = ["build_status", "status_without_store", "visible_report"]


def build_status(live: Live, rights: Rights, config: Config, last: LastRun | None) -> Status:
    """How what answers is, as far as ``rights`` show it. Requests are counted by the server, which puts them in."""
    opened = live.generation
    skipped, notices = visible_report(last, rights, opened.manifest.files)
    failed = opened.vectors_failed()
    reasons = [reason for reason in (live.fallback, failed) if reason]
    notes = (corpus_note(config), other_policy(opened.generation.info, rights.policy))
    return Status(
        ok=not reasons,
        profile=rights.profile.name,
        generation=opened.number,
        indexed_at=opened.indexed_at,
        embedder=str(live.identity.get("embedder_name", config.embedder)),
        vector_ready=opened.vectors_ready() and failed is None,
        degraded_reason="; ".join(reasons) or None,
        inventory={name.value: counts for name, counts in visible_counts(opened, rights).items()},
        integrity={
            "vector_index": "failed" if failed else ("ready" if opened.vectors_ready() else "loading"),
            "keyword_index": "ready",
            "last_checked_at": last.finished_at if last is not None else None,
        },
        telemetry=Telemetry().snapshot(()),
        skipped=skipped,
        notices=notices,
        notes=tuple(note for note in notes if note),
    )


def status_without_store(absent: StoreAbsent, rights: Rights, config: Config, last: LastRun | None) -> Status:
    """What there is to say where nothing is indexed."""
    skipped, notices = visible_report(last, rights, {})
    return Status(
        ok=False,
        profile=rights.profile.name,
        generation=None,
        indexed_at=None,
        embedder=config.embedder,
        vector_ready=False,
        degraded_reason="nothing is indexed at the configured place; the notes say what to run",
        inventory={},
        integrity={},
        telemetry=Telemetry().snapshot(()),
        skipped=skipped,
        notices=notices,
        notes=(str(absent),),
    )


def visible_report(
    last: LastRun | None, rights: Rights, files: Mapping[str, FileEntry]
) -> tuple[tuple[Skipped, ...], tuple[Notice, ...]]:
    """What the last run left out and said, as far as its place belongs, by the policy of that run and by the one in
    force, to classes the profile may see; ``files`` are the indexed ones, whose class counts too.

    A file that withholds itself is hidden from every profile, its existence too. What is said of an ``--exclude`` or of
    an ignore file is for whoever ran the ingest: it may name what has been meant.
    """
    if last is None:
        return (), ()

    def shown(source: str) -> bool:
        if source in files and not rights.may_open(files[source].source_class, source):
            return False
        now = classes_told_of(rights.policy, source)
        return now is not None and rights.profile.classes.issuperset(now | last.classes_of(source))

    skipped = (item for item in last.skipped if not item.reason.startswith(WITHHELD_BY) and shown(item.source))
    notices = (
        item
        for item in last.notices
        if not item.source.startswith("--")
        and not item.source.rpartition("/")[2].startswith(".")
        and shown(item.source)
    )
    return tuple(skipped), tuple(notices)
