"""Reciprocal Rank Fusion of ranked id lists."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["RRF_K0", "reciprocal_rank_fusion"]

RRF_K0 = 60


def reciprocal_rank_fusion(rankings: Sequence[Sequence[str]], *, k0: int = RRF_K0) -> list[tuple[str, float]]:
    """Fuse ``rankings`` (best first) into (id, score), best first, ties by id.

    Each list adds 1 / (k0 + rank) with ranks from 1; an id listed twice in one ranking counts at its better place.
    Cormack, Clarke, Buettcher: Reciprocal Rank Fusion outperforms Condorcet and individual rank learning methods,
    SIGIR 2009.
    """
    parts: dict[str, list[float]] = {}
    for ranking in rankings:
        for rank, item in enumerate(dict.fromkeys(ranking), start=1):
            parts.setdefault(item, []).append(1.0 / (k0 + rank))
    # fsum is exact, so the order of the lists can't decide a tie by rounding.
    scores = {item: math.fsum(shares) for item, shares in parts.items()}
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
