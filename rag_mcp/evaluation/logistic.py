"""Logistic regression of one variable: the line Platt scaling fits to scores."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["fit_line", "logit", "sigmoid"]

_EDGE = 1e-6
_NEWTON_STEPS = 100

_Row = tuple[float, float, float]
"""(x, target, weight)"""


def fit_line(
    xs: Sequence[float], targets: Sequence[float], weights: Sequence[float] | None = None
) -> tuple[float, float]:
    """Slope and offset of the log odds that make ``targets`` (0..1) likeliest; by default all weigh the same."""
    rows = list(zip(xs, targets, weights or [1.0] * len(xs), strict=True))
    slope, offset = 1.0, 0.0
    loss = _loss(rows, slope, offset)
    for _ in range(_NEWTON_STEPS):
        step_slope, step_offset = _newton_step(rows, slope, offset)
        size = 1.0
        while size > 1e-10:
            tried = slope + size * step_slope, offset + size * step_offset
            tried_loss = _loss(rows, *tried)
            if tried_loss < loss:
                break
            size /= 2
        else:
            break
        (slope, offset), loss = tried, tried_loss
    return slope, offset


def _newton_step(rows: Sequence[_Row], slope: float, offset: float) -> tuple[float, float]:
    ridge = 1e-12
    h11, h22, h21, g1, g2 = ridge, ridge, 0.0, 0.0, 0.0
    for x, target, counts in rows:
        p = sigmoid(slope * x + offset)
        weight, gap = counts * p * (1 - p), counts * (p - target)
        h11 += x * x * weight
        h21 += x * weight
        h22 += weight
        g1 += x * gap
        g2 += gap
    determinant = h11 * h22 - h21 * h21
    if determinant <= 0:
        return 0.0, -g2 / h22
    return -(h22 * g1 - h21 * g2) / determinant, -(h11 * g2 - h21 * g1) / determinant


def _loss(rows: Sequence[_Row], slope: float, offset: float) -> float:
    return math.fsum(
        counts * (_softplus(slope * x + offset) - target * (slope * x + offset)) for x, target, counts in rows
    )


def _softplus(z: float) -> float:
    return max(z, 0.0) + math.log1p(math.exp(-abs(z)))


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))


def logit(p: float) -> float:
    kept = min(max(p, _EDGE), 1 - _EDGE)
    return math.log(kept / (1 - kept))
