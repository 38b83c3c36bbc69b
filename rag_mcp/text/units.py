"""Into which units does a section fall: the pieces that passages are put together from? Pure.

Counting is the dear part: what is longer than a passage may be is split before it is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rag_mcp.text.limits import Budget
from rag_mcp.text.lines import Lines
from rag_mcp.text.sections import Section
from rag_mcp.text.spans import Span, Splitter

__all__ = ["Unit", "units_of"]


@dataclass(frozen=True, slots=True)
class Unit:
    """A stretch that is not split further; ``opening_tokens`` is what header and parents take where a passage begins."""

    start: int
    end: int
    tokens: int
    cost: float
    header: str = ""
    opening_tokens: int = 0
    parents: tuple[str, ...] = ()


def units_of(section: Section, lines: Lines, budget: Budget) -> list[Unit]:
    """Units that tile the section."""
    splitter = Splitter(lines, budget)
    return _merged([unit for span in splitter.blocks(section) for unit in _units(span, splitter)], budget)


def _units(span: Span, splitter: Splitter, known: int | None = None) -> Iterator[Unit]:
    """``known`` are the span's tokens, where it was counted before."""
    budget, size = splitter.budget, span.end - span.start
    tokens = known
    if tokens is None and size <= budget.chars:
        tokens = budget.count(splitter.lines.text[span.start : span.end])
    # Pieces of a run of words are smaller than they need to be, so that even passages can be put together.
    limit = max(1, budget.tokens // 4) if span.kind == "words" else budget.tokens
    if (tokens is not None and tokens <= limit) or size <= 1:
        opening = budget.recount(span.header) if span.header else 0
        opening += min(budget.recount("\n".join(span.parents)), budget.tokens // 2) if span.parents else 0
        yield Unit(span.start, span.end, tokens or 0, span.cost, span.header, opening, span.parents)
        return
    parts = splitter.parts(span)
    for part in parts:
        yield from _units(part, splitter, tokens if len(parts) == 1 else None)


def _merged(units: list[Unit], budget: Budget) -> list[Unit]:
    """Join tiny units when there are very many, so that finding the best cuts stays linear."""
    if len(units) <= 64 + 32 * sum(unit.tokens for unit in units) // budget.tokens:
        return units
    merged = units[:1]
    for unit in units[1:]:
        last = merged[-1]
        tokens = last.tokens + unit.tokens
        if tokens <= budget.tokens // 8 and unit.end - last.start <= budget.few_chars:
            merged[-1] = replace(last, end=unit.end, tokens=tokens)
        else:
            merged.append(unit)
    return merged
