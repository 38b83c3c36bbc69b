"""Into which parts may a stretch of a section fall, and what does a cut at each of them cost? Pure.

Lists fall into their items, tables into rows, code at blank lines and then at lines, prose at sentence and line ends;
what has none of these, at the white space nearest its middle.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rag_mcp.text.blocks import CONTAINERS, Node, plain
from rag_mcp.text.headings import shorten_name
from rag_mcp.text.limits import Budget
from rag_mcp.text.lines import Lines
from rag_mcp.text.sections import Section

__all__ = ["Span", "Splitter", "middle_cut"]

# What a cut costs, on the scale where a passage of half or one and a half the preferred size costs 0.25.
_ITEM, _ROW, _CODE_GAP, _SENTENCE, _CODE_LINE, _LINE, _WORD = 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 1.0
_AFTER_LEAD_IN, _AFTER_HEADING = 0.6, 3.0

_MANY = 500
_MAX_PARENTS = 6
_MAX_PARENT_CHARS = 80
_ITEM_MARKS = re.compile(r"\A[ \t>]*+(?:(?:[-+*]|\d{1,9}[.)])[ \t]++)*+(?:\[[ xX/-]\][ \t]++)?+(?:\#{1,6}[ \t]++)?+")
_EOL = re.compile(r"\n")
_GAP = re.compile(r"\n(?:[ \t]*+\n)++")
_SENTENCE_END = re.compile(
    r"""(?<![.!?])[.!?]++["'”’)\]*_]*+\s++(?![a-z])|[。！？]++[」』”’）]*+\s*+""",
)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of text that may fall into parts: ``kind`` says where, ``cost`` is that of a cut at its left edge.

    ``header`` is repeated, and the items ``parents`` are named, when a passage begins here.
    """

    start: int
    end: int
    kind: str
    cost: float
    node: Node | None = None
    header: str = ""
    parts: tuple[Span, ...] = ()
    depth: int = 0
    parents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Splitter:
    """Splits a section and its spans."""

    lines: Lines
    budget: Budget

    def blocks(self, section: Section) -> Sequence[Span]:
        """The section's blocks; lines no block claims (link definitions) go with the block before."""
        blocks: Sequence[Node] = section.blocks or [Node("paragraph", 0, 0)]
        starts = [section.start, *(block.start for block in blocks[1:]), section.end]
        cost = 0.0
        spans: list[Span] = []
        for node, (start, end) in zip(blocks, pairwise(map(self.lines.offset, starts)), strict=True):
            spans.append(Span(start, end, node.kind, cost, node))
            cost = self._cost_after(spans[-1])
        return self._grouped(spans)

    def _cost_after(self, span: Span) -> float:
        if span.kind == "heading":
            return _AFTER_HEADING
        tail = self.lines.text[max(span.start, span.end - 80) : span.end].rstrip()
        return _AFTER_LEAD_IN if span.kind == "paragraph" and tail.endswith((":", "：")) else 0.0

    def parts(self, span: Span) -> Sequence[Span]:
        """Parts that tile the span; a single one has another kind and may be split again."""
        first, *others = span.parts or self._grouped(self._split(span))
        return [replace(first, cost=span.cost, header=span.header), *others]

    def _grouped(self, parts: Sequence[Span]) -> Sequence[Span]:
        """Neighbours of a very long row of small parts together; a group that proves too large falls apart again."""
        if len(parts) <= _MANY:
            return parts
        groups: list[list[Span]] = []
        for part in parts:
            if groups and part.end - groups[-1][0].start <= self.budget.few_chars:
                groups[-1].append(part)
            else:
                groups.append([part])
        return [
            replace(first, end=others[-1].end, kind="group", node=None, parts=(first, *others)) if others else first
            for first, *others in groups
        ]

    def _split(self, span: Span) -> Sequence[Span]:
        text = self.lines.text
        match span.kind:
            case kind if kind in CONTAINERS and span.node and span.node.children:
                return self._children(span, span.node)
            case "table" if span.node and len(rows := self._rows(span, span.node)) > 1:
                return rows
            case "fence" | "code_block" | "html_block":
                return _split_at(span, "code", [(at, _CODE_GAP) for at in self._ends(_GAP, span)])
            case "code":
                return _split_at(span, "run", [(at, _CODE_LINE) for at in self._ends(_EOL, span)])
            case "light":
                return _split_at(span, "run", [(at, 0.0) for at in self._spaced_gaps(span)])
            case "run" | "words":
                return _split_at(span, "words", [(middle_cut(text, span.start, span.end), _WORD)])
        # A line that ends with its sentence is as good as any sentence end.
        sentences = set(self._ends(_SENTENCE_END, span))
        ends = sorted(sentences.union(self._ends(_EOL, span)))
        return _split_at(span, "run", [(at, _SENTENCE if at in sentences else _LINE) for at in ends])

    def _ends(self, pattern: re.Pattern[str], span: Span) -> list[int]:
        return [match.end() for match in pattern.finditer(self.lines.text, span.start, span.end)]

    def _spaced_gaps(self, span: Span) -> list[int]:
        """Blank lines, not too near to each other."""
        gaps = [span.start]
        for at in self._ends(_GAP, span):
            if at - gaps[-1] >= self.budget.few_chars:
                gaps.append(at)
        return gaps[1:]

    def _children(self, span: Span, node: Node) -> list[Span]:
        depth = span.depth + 1
        starts = [span.start, *(self.lines.offset(child.start) for child in node.children[1:]), span.end]
        within = (*span.parents, *self._item_name(node))[-_MAX_PARENTS:]
        ancestry = [span.parents, *(within for _ in node.children[1:])]
        return [
            Span(start, end, child.kind, min(_ITEM * depth, _LINE), child, depth=depth, parents=parents)
            for child, parents, (start, end) in zip(node.children, ancestry, pairwise(starts), strict=True)
            if start < end
        ]

    def _item_name(self, node: Node) -> tuple[str, ...]:
        """What an item says before that which hangs on it."""
        if node.kind != "list_item" or node.children[0].kind not in {"paragraph", "heading"}:
            return ()
        start = self.lines.offset(node.start)
        line = self.lines.text[start : min(self.lines.offset(node.start + 1), start + 2 * _MAX_PARENT_CHARS)]
        name = plain(_ITEM_MARKS.sub("", line), {})
        return (shorten_name(name, _MAX_PARENT_CHARS, _MAX_PARENT_CHARS),) if name else ()

    def _rows(self, span: Span, table: Node) -> list[Span]:
        """Rows, the first together with header and delimiter; the others repeat the header where it leaves room."""
        header = self.lines.text[self.lines.offset(table.start) : self.lines.offset(table.start + 2)]
        if len(header) > self.budget.chars // 2 or self.budget.recount(header) > self.budget.tokens // 2:
            header = ""
        cuts = [(self.lines.offset(line), _ROW) for line in range(table.start + 3, table.end)]
        first, *others = _split_at(span, "run", cuts)
        return [first, *(replace(row, header=header) for row in others)]


def _split_at(span: Span, kind: str, cuts: Iterable[tuple[int, float]]) -> list[Span]:
    """Parts between cuts; without any cut one part of the next kind."""
    inside = [(at, cost) for at, cost in cuts if span.start < at < span.end]
    edges = [(span.start, span.cost), *inside, (span.end, 0.0)]
    return [Span(start, end, kind, cost, parents=span.parents) for (start, cost), (end, _) in pairwise(edges)]


_JOINERS = frozenset("\u200d\ufe0e\ufe0f")


def middle_cut(text: str, start: int, end: int) -> int:
    """A cut near the middle: after white space where there is some, else not inside a character people see as one."""
    middle = (start + end) // 2
    reach = min((end - start) // 4, 400)
    spaces = [match.end() for match in re.finditer(r"\s", text[middle - reach : middle + reach])]
    if spaces:
        return min((middle - reach + at for at in spaces), key=lambda at: (abs(at - middle), at))
    for at in range(middle, max(start, middle - min(reach, 64)), -1):
        if not _joined(text[at - 1], text[at]):
            return at
    return middle


def _joined(before: str, after: str) -> bool:
    return (
        before == "\u200d"
        or after in _JOINERS
        or unicodedata.category(after) in {"Mn", "Mc", "Me"}
        or "\U0001f3fb" <= after <= "\U0001f3ff"
        or "\udc00" <= after <= "\udfff"
    )
