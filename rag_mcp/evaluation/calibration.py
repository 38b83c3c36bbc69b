"""Thresholds and probabilities of the relevance gate, refitted from questions whose answers are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rag_mcp.errors import InvalidArgument
from rag_mcp.evaluation.logistic import fit_line, logit, sigmoid

__all__ = [
    "MIN_ANSWERABLE",
    "MIN_UNANSWERABLE",
    "Recalibration",
    "ScoredQuestion",
    "Thresholds",
    "TooFewQuestions",
    "fit_calibration",
    "fit_platt",
    "fit_thresholds",
    "questions_needed",
]

# Below 20 the lowest twentieth of the answerable questions is no question at all (see questions_needed). With n
# unanswerable ones all withheld the true leak may still be 3 / n (rule of three): under 10 that says nothing.
MIN_ANSWERABLE = 20
MIN_UNANSWERABLE = 10

_MIN_ABOVE_HIGH = 10
_NEVER_HIGH = 1.0
_GRID_LOGIT = 10.0
_GRID_STEPS = 80


class TooFewQuestions(InvalidArgument):
    """Not enough questions to fit on; the fields say how many there are and how many it takes."""

    def __init__(self, *, answerable: int, unanswerable: int, needed_answerable: int, needed_unanswerable: int) -> None:
        super().__init__(
            "questions",
            f"{answerable} answerable and {unanswerable} unanswerable questions are too few to calibrate on; "
            f"at least {needed_answerable} answerable and {needed_unanswerable} unanswerable ones are needed.",
        )
        self.answerable = answerable
        self.unanswerable = unanswerable
        self.needed_answerable = needed_answerable
        self.needed_unanswerable = needed_unanswerable


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredQuestion:
    """Best score (0..1) a question got, whether the first result is relevant, and whether the corpus holds an answer."""

    score: float
    relevant: bool
    answerable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Scores from ``high`` up are high, from ``medium`` up medium, the rest low; ``high`` 1.0 means none is high."""

    high: float
    medium: float
    n_answerable: int
    n_unanswerable: int


@dataclass(frozen=True, slots=True)
class Recalibration:
    """A monotone map from score to probability: straight lines between ``points`` (score, probability), flat outside."""

    points: tuple[tuple[float, float], ...]
    n: int

    def apply(self, score: float) -> float:
        """The probability for ``score``; never decreases as the score grows."""
        first, last = self.points[0], self.points[-1]
        if score <= first[0]:
            return first[1]
        for (x0, y0), (x1, y1) in zip(self.points, self.points[1:], strict=False):
            if score <= x1:
                return min(y0 + (y1 - y0) * ((score - x0) / (x1 - x0)), y1)
        return last[1]


def questions_needed(answered_target: float) -> tuple[int, int]:
    """How many (answerable, unanswerable) questions a fit takes.

    A threshold answers a share t of new answerable questions on average only if one of n + 1 equally likely places
    may fall below it: (n + 1) (1 - t) >= 1 (split conformal prediction, Vovk et al. 2005).
    """
    return max(MIN_ANSWERABLE, math.ceil(round(1 / (1 - answered_target), 9)) - 1), MIN_UNANSWERABLE


def fit_thresholds(
    scored: Sequence[ScoredQuestion], *, high_precision: float = 0.9, answered_target: float = 0.95
) -> Thresholds:
    """Fit both thresholds.

    ``medium`` answers at least ``answered_target`` of answerable questions, new ones of the same kind included; within
    that it stands in the middle of the gap below, where moving it lets no further unanswerable question through.
    ``high`` is the lowest score from which up ``high_precision`` of the first results are relevant, in the mix of
    answerable and unanswerable questions given, judged on ten questions or more.
    Raises TooFewQuestions, InvalidArgument for a share outside (0, 1) or a score outside 0..1.
    """
    _check_shares(high_precision=high_precision, answered_target=answered_target)
    _check_scores(scored)
    wanted = sorted(question.score for question in scored if question.answerable)
    others = sorted(question.score for question in scored if not question.answerable)
    _check_counts(len(wanted), len(others), answered_target)
    medium = _medium(wanted, others, answered_target)
    return Thresholds(
        high=max(_high(scored, high_precision), medium),
        medium=medium,
        n_answerable=len(wanted),
        n_unanswerable=len(others),
    )


def _check_shares(**shares: float) -> None:
    for name, share in shares.items():
        if not 0 < share < 1:
            raise InvalidArgument(name, f"is {share}; use a share between 0 and 1.")


def _check_scores(scored: Sequence[ScoredQuestion]) -> None:
    for question in scored:
        if not 0 <= question.score <= 1:
            raise InvalidArgument("score", f"is {question.score}; scores are probabilities from 0 to 1.")


def _check_counts(answerable: int, unanswerable: int, answered_target: float) -> None:
    needed_answerable, needed_unanswerable = questions_needed(answered_target)
    if answerable < needed_answerable or unanswerable < needed_unanswerable:
        raise TooFewQuestions(
            answerable=answerable,
            unanswerable=unanswerable,
            needed_answerable=needed_answerable,
            needed_unanswerable=needed_unanswerable,
        )


def _medium(wanted: Sequence[float], others: Sequence[float], answered_target: float) -> float:
    below = math.floor(round((len(wanted) + 1) * (1 - answered_target), 9))
    ceiling = wanted[below - 1]
    leak = max((score for score in others if score < ceiling), default=0.0)
    nearest = min(score for score in wanted if score > leak) if ceiling > leak else ceiling
    return (leak + nearest) / 2


def _high(scored: Sequence[ScoredQuestion], precision: float) -> float:
    ordered = sorted(scored, key=lambda question: -question.score)
    found = _NEVER_HIGH
    right = 0
    for count, question in enumerate(ordered, start=1):
        right += question.relevant
        tied = count < len(ordered) and ordered[count].score == question.score
        if not tied and count >= _MIN_ABOVE_HIGH and right / count >= precision:
            found = question.score
    return found


def fit_platt(scored: Sequence[ScoredQuestion]) -> Recalibration:
    """Fit p = sigmoid(a logit(score) + b), a >= 0: the choice for tens or hundreds of questions.

    Platt (1999) with his smoothed targets, on the logit so that a = 1, b = 0 changes nothing; Newton steps with
    halving after Lin, Lin and Weng (2007). Scores that rank backwards give the flat base rate.
    Raises InvalidArgument for a score outside 0..1, TooFewQuestions when there are too few questions.
    """
    _check_fit(scored)
    positives = sum(question.relevant for question in scored)
    smoothed = (positives + 1) / (positives + 2), 1 / (len(scored) - positives + 2)
    xs = [logit(question.score) for question in scored]
    targets = [smoothed[0] if question.relevant else smoothed[1] for question in scored]
    slope, offset = fit_line(xs, targets)
    if slope < 0:
        slope, offset = 0.0, logit(sum(targets) / len(targets))
    grid = [_GRID_LOGIT * (2 * step / _GRID_STEPS - 1) for step in range(_GRID_STEPS + 1)]
    return Recalibration(tuple((sigmoid(x), sigmoid(slope * x + offset)) for x in grid), len(scored))


def fit_calibration(
    scored: Sequence[ScoredQuestion], *, answered_target: float = 0.95
) -> tuple[tuple[tuple[float, float], ...], Thresholds]:
    """Fit a corpus owner's probabilities (as points, by Platt scaling) and the thresholds on them.

    Raises what ``fit_platt`` and ``fit_thresholds`` raise.
    """
    line = fit_platt(scored)
    moved = [replace(question, score=min(1.0, max(0.0, line.apply(question.score)))) for question in scored]
    return line.points, fit_thresholds(moved, answered_target=answered_target)


def _check_fit(scored: Sequence[ScoredQuestion]) -> None:
    _check_scores(scored)
    answerable = sum(question.answerable for question in scored)
    _check_counts(answerable, len(scored) - answerable, answered_target=0.95)
