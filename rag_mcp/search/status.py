"""What rag_status and ``rag-mcp status`` tell, filtered by profile."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rag_mcp.models import Skipped, Status
from rag_mcp.policy import WITHHELD_BY, Policy, classify, denied
from rag_mcp.search.access import ResolvedProfile
from rag_mcp.search.documents import visible_counts
from rag_mcp.stores.lastrun import LastRun, read_last_run

if TYPE_CHECKING:
    from rag_mcp.search.opened import OpenGeneration

__all__ = ["build_status"]


def build_status(
    opened: OpenGeneration | None,
    policy: Policy,
    profile: ResolvedProfile,
    *,
    root: Path,
    embedder: str,
    telemetry: Mapping[str, object],
    fallback: str | None,
) -> Status:
    """``opened`` None is an empty store."""
    last = read_last_run(root)
    skipped = _visible_skips(last, policy, profile)
    if opened is None:
        return Status(
            ok=False,
            profile=profile.name,
            generation=None,
            indexed_at=None,
            embedder=embedder,
            vector_ready=False,
            degraded_reason=fallback,
            inventory={},
            integrity={},
            telemetry=telemetry,
            skipped=skipped,
        )
    failed = opened.vectors_failed()
    reasons = [reason for reason in (fallback, failed) if reason]
    return Status(
        ok=not reasons,
        profile=profile.name,
        generation=opened.number,
        indexed_at=opened.indexed_at,
        embedder=str(opened.generation.info.identity.get("embedder_name", embedder)),
        vector_ready=opened.vectors_ready() and failed is None,
        degraded_reason="; ".join(reasons) or None,
        inventory={name.value: counts for name, counts in visible_counts(opened, policy, profile).items()},
        integrity={
            "vector_index": "failed" if failed else ("ready" if opened.vectors_ready() else "loading"),
            "keyword_index": "ready",
            "last_checked_at": last.finished_at if last is not None else None,
        },
        telemetry=telemetry,
        skipped=skipped,
    )


def _visible_skips(last: LastRun | None, policy: Policy, profile: ResolvedProfile) -> tuple[Skipped, ...]:
    """Files left out by the last run, as far as their place belongs to a class the profile may see.

    A file that withholds itself is hidden from every profile, its existence too.
    """
    if last is None:
        return ()

    def shown(source: str) -> bool:
        # What was left out may be a folder, or a link to one: then rules about what lies in it speak too.
        places = (source, f"{source}/_.md")
        return all(classify(policy, p).source_class in profile.classes and not denied(policy, p) for p in places)

    return tuple(item for item in last.skipped if not item.reason.startswith(WITHHELD_BY) and shown(item.source))
