"""Where is a section of given units best cut? Pure.

The cheapest cuts by dynamic programming over the units' edges (the "optimal line breaking" of Knuth and Plass, 1981): a
cut between paragraphs costs nothing, one inside a sentence much, and sizes far from the preferred one cost too, so a
section ends in even passages instead of full ones and a crumb.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rag_mcp.text.limits import Budget
from rag_mcp.text.units import Unit

__all__ = ["best_cuts"]

_CRUMB = 2.0


def best_cuts(units: Sequence[Unit], budget: Budget) -> list[int]:
    """Edges (as unit indexes) of the passages with the least total cost."""
    target = _target(sum(unit.tokens for unit in units), budget.soft_tokens)
    crumb = min(budget.min_tokens, target // 2)
    best = [0.0]
    came_from = [0]
    for last in range(1, len(units) + 1):
        cost, first = min(
            (best[first] + _shape(size, target, crumb) + (units[first].cost if first else 0.0), first)
            for first, size in _starts(units, last, budget)
        )
        best.append(cost)
        came_from.append(first)
    edges = [len(units)]
    while edges[-1] > 0:
        edges.append(came_from[edges[-1]])
    return edges[::-1]


def _target(total: int, soft_tokens: int) -> float:
    """Preferred size. Few passages share a section evenly; of many, an edit at one end may not move the others."""
    number = -(-total // soft_tokens)
    return total / number if 0 < number < 4 else soft_tokens


def _starts(units: Sequence[Unit], last: int, budget: Budget) -> Iterator[tuple[int, int]]:
    """Where a passage that ends before ``last`` may start, with its size; a single unit always may."""
    size = 0
    for first in range(last - 1, -1, -1):
        unit = units[first]
        size += unit.tokens
        alone = first == last - 1
        if not alone and (size > budget.tokens or units[last - 1].end - unit.start > budget.chars):
            return
        if alone or size + unit.opening_tokens <= budget.tokens:
            yield first, size + unit.opening_tokens


def _shape(size: int, target: float, crumb: float) -> float:
    deviation = (size - target) / target
    return deviation * deviation + (_CRUMB if size < crumb else 0.0)
