"""Cuts a markdown file into passages that tile it: along its headings, and inside a section along its blocks.

Sections (``sections``, ``stubs``) within the limit are passages as they are. A larger one falls into units (``spans``,
``units``), and the best cuts between these (``cuts``) make its passages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rag_mcp.models import Passage
from rag_mcp.text.blocks import parse_blocks
from rag_mcp.text.cuts import best_cuts
from rag_mcp.text.embedded import embedded_text
from rag_mcp.text.limits import LIKELY_CHARS_PER_TOKEN, Budget, ChunkLimits, Count
from rag_mcp.text.lines import Lines
from rag_mcp.text.sections import Section, join_tiny, split_sections
from rag_mcp.text.spans import middle_cut
from rag_mcp.text.stubs import join_stubs
from rag_mcp.text.units import Unit, units_of

__all__ = ["CHUNKER_VERSION", "chunk_text"]

CHUNKER_VERSION = "3"
"""Goes up with every change that can give another passage or another embedded text for the same file."""


def chunk_text(
    text: str,
    *,
    body_start: int = 0,
    title: str | None = None,
    count: Count,
    limits: ChunkLimits | None = None,
) -> list[Passage]:
    """Cut ``text[body_start:]`` into passages, in order; only white space lies between them.

    ``count(embedded_text(title, passage.heading_path, passage.shown, limits=limits))`` is at most
    ``limits.max_tokens`` for every passage, for any ``count`` that gives at most one token a character.
    """
    limits = limits or ChunkLimits()
    lines = Lines(text, body_start)
    sections = join_stubs(list(split_sections(parse_blocks(text[body_start:]), len(lines))), lines)
    cutter = _Cutter(lines, title, count, limits)
    tiny_chars = LIKELY_CHARS_PER_TOKEN * limits.soft_tokens
    return [passage for section in join_tiny(sections, lines, tiny_chars) for passage in cutter.passages(section)]


@dataclass(frozen=True, slots=True)
class _Cutter:
    lines: Lines
    title: str | None
    count: Count
    limits: ChunkLimits

    def passages(self, section: Section) -> list[Passage]:
        start, end = self.lines.offset(section.start), self.lines.offset(section.end)
        whole = self._passage(section.path, [Unit(start, end, 0, 0.0)])
        if whole is None:
            return []
        # What is longer is rarely within the limit: its blocks are counted at once, not after the whole of it.
        if len(whole.text) <= LIKELY_CHARS_PER_TOKEN * self.limits.max_tokens and self._fits(whole):
            return [whole]
        context = embedded_text(self.title, section.path, "", limits=self.limits)
        budget = Budget.beside(context, self.limits, self.count)
        units = units_of(section, self.lines, budget)
        if sum(unit.tokens for unit in units) <= budget.tokens and self._fits(whole):
            return [whole]
        cuts = pairwise(best_cuts(units, budget))
        return [passage for first, last in cuts for passage in self._fitted(section.path, units[first:last])]

    def _passage(self, path: tuple[str, ...], units: Sequence[Unit]) -> Passage | None:
        """The passage these units make, without blank lines before and white space after; None when it is blank."""
        text, start, end = self.lines.text, units[0].start, units[-1].end
        stripped = text[start:end].rstrip()
        if not stripped:
            return None
        end = start + len(stripped)
        blank = len(stripped) - len(stripped.lstrip())
        start = max(start, text.rfind("\n", start, start + blank) + 1)
        return Passage(
            text=text[start:end],
            heading_path=(*path, *units[0].parents),
            start=start,
            end=end,
            line_start=self.lines.number(start),
            line_end=self.lines.number(end - 1),
            table_header=units[0].header,
        )

    def _fits(self, passage: Passage) -> bool:
        if len(passage.text) > self.limits.max_chars:
            return False
        whole = embedded_text(self.title, passage.heading_path, passage.shown, limits=self.limits)
        return self.count(whole) <= self.limits.max_tokens

    def _fitted(self, path: tuple[str, ...], units: Sequence[Unit]) -> Iterator[Passage]:
        """Cut again what proves too large as a whole: token counts add up only nearly."""
        passage = self._passage(path, units)
        if passage is None:
            return
        smaller = [] if self._fits(passage) else self._smaller(units)
        if not smaller:
            yield passage
        for part in smaller:
            yield from self._fitted(path, part)

    def _smaller(self, units: Sequence[Unit]) -> list[Sequence[Unit]]:
        """What to try in place of units that don't fit: halves, or one unit without its header; nothing for a character."""
        if (number := len(units)) > 1:
            middle = min(range(1, number), key=lambda index: units[index].cost + abs(index / number - 0.5))
            return [units[:middle], units[middle:]]
        (unit,) = units
        if unit.header:
            return [[replace(unit, header="")]]
        if unit.end - unit.start <= 1:
            return []
        cut = middle_cut(self.lines.text, unit.start, unit.end)
        return [[replace(unit, end=cut)], [replace(unit, start=cut)]]
