"""How well the relevance gate tells answerable questions from others, and whether its scores are probabilities."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rag_mcp.evaluation.metrics import RESAMPLES, SEED, Interval, interval

__all__ = [
    "Bin",
    "GateStatistics",
    "Outcome",
    "SweepPoint",
    "auroc",
    "auroc_interval",
    "brier",
    "calibration_error",
    "gate_statistics",
    "operating_point",
    "reliability",
    "sweep",
]

BINS = 10
THRESHOLDS = tuple(step / 100 for step in range(101))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one question met at the gate; scores are 0..1.

    ``best_score`` is the highest of all results (0 without results): the strict gate withholds exactly when it is low.
    ``top_score`` is the first result's, read as the probability that ``top_relevant`` holds. ``answered`` is what the
    strict gate decided. ``negkind`` is None exactly for answerable questions.
    """

    best_score: float
    top_score: float
    top_relevant: bool
    answered: bool
    negkind: str | None = None

    @property
    def answerable(self) -> bool:
        return self.negkind is None


@dataclass(frozen=True, slots=True)
class Bin:
    """One equal-width bin of the reliability curve; means are None when it is empty."""

    low: float
    high: float
    count: int
    mean_score: float | None
    share_relevant: float | None


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """Shares if the gate stood at ``threshold`` (a score equal to it is answered); None without such questions."""

    threshold: float
    answered: float | None
    withheld: Mapping[str, float]
    withheld_all: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateStatistics:
    answered: Interval | None
    withheld: Mapping[str, Interval]
    withheld_all: Interval | None
    auroc: Interval | None
    auroc_by_kind: Mapping[str, Interval]
    ece: float
    brier: float
    reliability: tuple[Bin, ...]
    sweep: tuple[SweepPoint, ...]
    at_95: SweepPoint | None


def gate_statistics(outcomes: Sequence[Outcome]) -> GateStatistics:
    """All gate numbers of one run. Raises ValueError for no outcomes."""
    if not outcomes:
        raise ValueError("no questions, no gate statistics")
    answerable = [outcome for outcome in outcomes if outcome.answerable]
    kinds = _by_kind(outcomes)
    wanted = [outcome.best_score for outcome in answerable]
    others = [outcome.best_score for outcome in outcomes if not outcome.answerable]
    pairs = [(outcome.top_score, outcome.top_relevant) for outcome in outcomes]
    areas = {kind: auroc_interval(wanted, [one.best_score for one in group]) for kind, group in kinds.items()}
    return GateStatistics(
        answered=interval([float(outcome.answered) for outcome in answerable]),
        withheld={kind: _withheld(group) for kind, group in kinds.items()},
        withheld_all=interval([float(not outcome.answered) for outcome in outcomes if not outcome.answerable]),
        auroc=auroc_interval(wanted, others),
        auroc_by_kind={kind: area for kind, area in areas.items() if area is not None},
        ece=calibration_error(pairs),
        brier=brier(pairs),
        reliability=reliability(pairs),
        sweep=sweep(outcomes),
        at_95=operating_point(outcomes, answered=0.95),
    )


def auroc(positives: Sequence[float], negatives: Sequence[float]) -> float | None:
    """Chance that a random positive scores above a random negative, ties half (Mann-Whitney); None if one is empty."""
    if not positives or not negatives:
        return None
    ordered = sorted(negatives)
    wins = sum(bisect_left(ordered, score) + bisect_right(ordered, score) for score in positives)
    return wins / (2 * len(positives) * len(negatives))


def auroc_interval(
    positives: Sequence[float], negatives: Sequence[float], *, resamples: int = RESAMPLES, seed: int = SEED
) -> Interval | None:
    """AUROC with a percentile bootstrap that draws both groups anew; None if one is empty."""
    area = auroc(positives, negatives)
    if area is None:
        return None
    import numpy as np

    rng = np.random.default_rng(seed)
    ours, theirs = np.asarray(positives, dtype=np.float64), np.asarray(negatives, dtype=np.float64)
    areas = np.empty(resamples)
    for index in range(resamples):
        ordered = np.sort(rng.choice(theirs, len(theirs)))
        drawn = rng.choice(ours, len(ours))
        wins = np.searchsorted(ordered, drawn, "left").sum() + np.searchsorted(ordered, drawn, "right").sum()
        areas[index] = wins / (2 * len(ours) * len(theirs))
    low, high = np.quantile(areas, (0.025, 0.975))
    return Interval(area, float(low), float(high), len(positives) + len(negatives))


def reliability(pairs: Iterable[tuple[float, bool]]) -> tuple[Bin, ...]:
    """Equal-width bins over 0..1 of (score, relevant); a score on an edge belongs to the upper bin, 1 to the last."""
    groups: list[list[tuple[float, bool]]] = [[] for _ in range(BINS)]
    for score, relevant in pairs:
        groups[_bin_of(score)].append((score, relevant))
    return tuple(_bin(index / BINS, (index + 1) / BINS, group) for index, group in enumerate(groups))


def _bin_of(score: float) -> int:
    return min(max(int(score * BINS), 0), BINS - 1)


def _bin(low: float, high: float, group: Sequence[tuple[float, bool]]) -> Bin:
    if not group:
        return Bin(low, high, 0, None, None)
    count = len(group)
    return Bin(low, high, count, sum(score for score, _ in group) / count, sum(right for _, right in group) / count)


def calibration_error(pairs: Sequence[tuple[float, bool]], weights: Sequence[float] | None = None) -> float:
    """Expected calibration error: the gap of mean score and share relevant in each bin, weighted by what it holds
    (Naeini et al. 2015)."""
    bins: list[list[tuple[float, float, float]]] = [[] for _ in range(BINS)]
    for (score, relevant), weight in zip(pairs, weights or [1.0] * len(pairs), strict=True):
        bins[_bin_of(score)].append((weight, weight * score, weight * relevant))
    sums = [tuple(map(sum, zip(*rows, strict=True))) for rows in bins if rows]
    gaps = (weight * abs(scores / weight - right / weight) for weight, scores, right in sums)
    return sum(gaps) / sum(weight for weight, _, _ in sums)


def brier(pairs: Sequence[tuple[float, bool]]) -> float:
    """Mean squared gap of score and truth (Brier 1950); 0 is best."""
    return sum((score - relevant) ** 2 for score, relevant in pairs) / len(pairs)


def sweep(outcomes: Sequence[Outcome], thresholds: Sequence[float] = THRESHOLDS) -> tuple[SweepPoint, ...]:
    """What each threshold on the best score would answer and withhold."""
    wanted = sorted(outcome.best_score for outcome in outcomes if outcome.answerable)
    others = {kind: sorted(one.best_score for one in group) for kind, group in _by_kind(outcomes).items()}
    return tuple(_sweep_point(threshold, wanted, others) for threshold in thresholds)


def operating_point(outcomes: Sequence[Outcome], *, answered: float) -> SweepPoint | None:
    """The highest threshold that still answers this share of answerable questions; None without any."""
    wanted = sorted((outcome.best_score for outcome in outcomes if outcome.answerable), reverse=True)
    if not wanted:
        return None
    kept = next(count for count in range(1, len(wanted) + 1) if count / len(wanted) >= answered)
    return sweep(outcomes, (wanted[kept - 1],))[0]


def _sweep_point(threshold: float, wanted: Sequence[float], others: Mapping[str, Sequence[float]]) -> SweepPoint:
    below = {kind: bisect_left(scores, threshold) for kind, scores in others.items()}
    total = sum(len(scores) for scores in others.values())
    return SweepPoint(
        threshold=threshold,
        answered=1 - bisect_left(wanted, threshold) / len(wanted) if wanted else None,
        withheld={kind: below[kind] / len(scores) for kind, scores in others.items()},
        withheld_all=sum(below.values()) / total if total else None,
    )


def _by_kind(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.negkind is not None:
            groups.setdefault(outcome.negkind, []).append(outcome)
    return dict(sorted(groups.items()))


def _withheld(group: Sequence[Outcome]) -> Interval:
    shares = interval([float(not outcome.answered) for outcome in group])
    assert shares is not None
    return shares
