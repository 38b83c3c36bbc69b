"""Ranking metrics of one question, and what a sample of questions says about all questions.

File level: the results are read as the list of distinct files in the order they first appear; a file is relevant or
not (binary), and each relevant file counts once.

    hit@k    1 if one of the first k files is relevant
    MRR@10   1 / rank of the first relevant file, 0 past rank 10
    nDCG@10  DCG / ideal DCG, DCG = sum of rel_i / log2(i + 1) over ranks i = 1..10
             (Jarvelin and Kekalainen 2002, binary gains, log2 discount from rank 1)

Chunk level: hit@k is 1 if one of the first k passages overlaps a range that answers; only for questions with ranges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "CHUNK_METRICS",
    "FILE_METRICS",
    "METRICS",
    "Difference",
    "Interval",
    "Span",
    "chunk_hit",
    "chunk_metrics",
    "distinct",
    "file_metrics",
    "hit",
    "interval",
    "ndcg",
    "ndcg_of_ranks",
    "paired_difference",
    "percentile",
    "reciprocal_rank",
]

FILE_METRICS = ("hit@1", "hit@5", "mrr@10", "ndcg@10")
CHUNK_METRICS = ("chunk_hit@1", "chunk_hit@5")
METRICS = FILE_METRICS + CHUNK_METRICS

RESAMPLES = 1_000
SEED = 20_240_611

Span = tuple[str, int, int]
"""A half-open character range of a file: (source, start, end)."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over ``n`` questions and its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean of new minus old over ``n`` shared questions, its 95 % interval and a two-sided p-value."""

    old: float
    new: float
    mean: float
    low: float
    high: float
    p_value: float
    n: int


def distinct(sources: Iterable[str]) -> tuple[str, ...]:
    """The sources in order of first appearance."""
    return tuple(dict.fromkeys(sources))


def hit(files: Sequence[str], relevant: Set[str], k: int) -> float:
    return float(any(file in relevant for file in files[:k]))


def reciprocal_rank(files: Sequence[str], relevant: Set[str]) -> float:
    return next((1.0 / rank for rank, file in enumerate(files[:10], start=1) if file in relevant), 0.0)


def ndcg(files: Sequence[str], relevant: Set[str], k: int = 10) -> float:
    """Normalised discounted cumulative gain of distinct ``files``; 0 when nothing is relevant."""
    return ndcg_of_ranks([rank for rank, file in enumerate(files, start=1) if file in relevant], len(relevant), k)


def ndcg_of_ranks(ranks: Iterable[int], relevant: int, k: int = 10) -> float:
    """The same, of the ``ranks`` (from 1) at which some of the ``relevant`` files were found."""
    gained = sum(_discount(rank) for rank in ranks if rank <= k)
    ideal = sum(_discount(rank) for rank in range(1, min(relevant, k) + 1))
    return gained / ideal if ideal else 0.0


def _discount(rank: int) -> float:
    return 1.0 / math.log2(rank + 1)


def chunk_hit(passages: Sequence[Span], ranges: Sequence[Span], k: int) -> float:
    return float(any(_overlap(passage, wanted) for passage in passages[:k] for wanted in ranges))


def _overlap(one: Span, other: Span) -> bool:
    return one[0] == other[0] and max(one[1], other[1]) < min(one[2], other[2])


def file_metrics(files: Sequence[str], relevant: Set[str]) -> dict[str, float]:
    """Every file-level metric; ``files`` are distinct, best first."""
    return {
        "hit@1": hit(files, relevant, 1),
        "hit@5": hit(files, relevant, 5),
        "mrr@10": reciprocal_rank(files, relevant),
        "ndcg@10": ndcg(files, relevant),
    }


def chunk_metrics(passages: Sequence[Span], ranges: Sequence[Span]) -> dict[str, float]:
    """Every chunk-level metric; empty when no range is known."""
    if not ranges:
        return {}
    return {"chunk_hit@1": chunk_hit(passages, ranges, 1), "chunk_hit@5": chunk_hit(passages, ranges, 5)}


def percentile(values: Sequence[float], share: float) -> float:
    """The value at ``share`` (0..1) of the sorted values, linearly interpolated; NaN for no values."""
    if not values:
        return math.nan
    import numpy as np

    return float(np.quantile(values, share))


def interval(values: Sequence[float], *, resamples: int = RESAMPLES, seed: int = SEED) -> Interval | None:
    """Mean with a percentile bootstrap over questions (Efron 1979); None for no values. Same input, same interval."""
    if not values:
        return None
    import numpy as np

    sample = np.asarray(values, dtype=np.float64)
    means = _resample(sample, resamples, np.random.default_rng(seed), lambda rows: rows.mean(axis=1))
    low, high = np.quantile(means, (0.025, 0.975))
    return Interval(float(sample.mean()), float(low), float(high), len(values))


def paired_difference(
    old: Sequence[float], new: Sequence[float], *, resamples: int = 10_000, seed: int = SEED
) -> Difference:
    """Compare two runs on the same questions, in the same order.

    The p-value is Fisher's randomisation test as used for retrieval (Smucker, Allan and Carterette 2007): signs of the
    per-question differences flipped at random, (as large or larger + 1) / (resamples + 1). Raises ValueError for no
    questions or unequal lengths.
    """
    if not old or len(old) != len(new):
        raise ValueError(f"paired runs need the same questions, got {len(old)} and {len(new)}")
    import numpy as np

    before, after = np.asarray(old, dtype=np.float64), np.asarray(new, dtype=np.float64)
    deltas = after - before
    rng = np.random.default_rng(seed)
    means = _resample(deltas, resamples, rng, lambda rows: rows.mean(axis=1))
    low, high = np.quantile(means, (0.025, 0.975))
    return Difference(
        old=float(before.mean()),
        new=float(after.mean()),
        mean=float(deltas.mean()),
        low=float(low),
        high=float(high),
        p_value=_randomisation_p(deltas, resamples, rng),
        n=len(deltas),
    )


def _randomisation_p(deltas: NDArray[np.float64], resamples: int, rng: np.random.Generator) -> float:
    import numpy as np

    moved = deltas[deltas != 0]
    if not len(moved):
        return 1.0
    observed = abs(float(moved.sum()))
    flips = rng.integers(0, 2, size=(resamples, len(moved)), dtype=np.int8) * 2 - 1
    # A flip that restores the observed signs adds up in another order and may miss it by rounding.
    extreme = int(np.count_nonzero(np.abs(flips @ moved) >= observed - 1e-9))
    return (extreme + 1) / (resamples + 1)


def _resample(
    sample: NDArray[np.float64],
    resamples: int,
    rng: np.random.Generator,
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> NDArray[np.float64]:
    import numpy as np

    # In slices: 10,000 resamples of 1,000 questions at once would be 160 MB.
    step = 500
    parts = []
    for first in range(0, resamples, step):
        rows = rng.integers(0, len(sample), size=(min(step, resamples - first), len(sample)))
        parts.append(statistic(sample[rows]))
    return np.concatenate(parts)
