"""Counts and latencies of one process, in memory only: no question, no source, no caller is ever kept."""

from __future__ import annotations

import bisect
import math
import threading
from collections import Counter
from collections.abc import Collection

from rag_mcp.models import SourceClass

__all__ = ["Telemetry"]

# Upper bounds of the latency buckets in milliseconds, each 10 % above the one before: a quantile read from them is
# within 5 % of the truth, in a fixed 1.5 KB however many requests there were.
_BOUNDS_MS = tuple(0.05 * 1.1**step for step in range(176))


class Telemetry:
    """Aggregate counters of a process; safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests = 0
        self._tools: Counter[str] = Counter()
        self._statuses: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._winners: Counter[SourceClass] = Counter()
        self._buckets = [0] * (len(_BOUNDS_MS) + 1)
        self._longest_ms = 0.0

    def record(
        self, tool: str, *, status: str, elapsed_ms: float, reason: str = "", winner_class: SourceClass | None = None
    ) -> None:
        """Count one finished request; ``winner_class`` is the class of the best result, if there was one."""
        elapsed_ms = max(0.0, elapsed_ms) if math.isfinite(elapsed_ms) else 0.0
        with self._lock:
            self._requests += 1
            self._tools[tool] += 1
            self._statuses[status] += 1
            if reason:
                self._reasons[reason] += 1
            if winner_class is not None:
                self._winners[winner_class] += 1
            self._buckets[bisect.bisect_left(_BOUNDS_MS, elapsed_ms)] += 1
            self._longest_ms = max(self._longest_ms, elapsed_ms)

    def snapshot(self, visible_classes: Collection[SourceClass]) -> dict[str, object]:
        """Return the totals so far; of the winners only the classes the caller may see."""
        with self._lock:
            return {
                "requests": self._requests,
                "by_tool": dict(sorted(self._tools.items())),
                "by_status": dict(sorted(self._statuses.items())),
                "by_reason": dict(sorted(self._reasons.items())),
                "by_winner": {
                    name.value: count for name, count in sorted(self._winners.items()) if name in visible_classes
                },
                "latency_ms": {
                    "p50": self._quantile(0.50),
                    "p95": self._quantile(0.95),
                    "max": round(self._longest_ms, 3) if self._requests else None,
                },
            }

    def _quantile(self, share: float) -> float | None:
        """The latency that ``share`` of the requests did not exceed, to the width of a bucket; None without any."""
        wanted = math.ceil(share * self._requests)
        if wanted == 0:
            return None
        seen = 0
        for upper, count in zip((*_BOUNDS_MS, math.inf), self._buckets, strict=True):
            seen += count
            if seen >= wanted:
                return round(min(upper / math.sqrt(1.1), self._longest_ms), 3)
        return round(self._longest_ms, 3)
