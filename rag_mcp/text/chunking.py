"""Cuts a markdown file into passages that tile it: along its headings, and inside a section along its blocks.

Headings and blocks are CommonMark's own (markdown-it-py), so a ``#`` in a fence opens no section. Where a section is
too large, the cuts are the cheapest ones by dynamic programming over its boundaries (the "optimal line breaking" of
Knuth and Plass, 1981): a cut between paragraphs costs nothing, one inside a sentence much, and sizes far from the
preferred one cost too, so an oversized section ends in even passages instead of full ones and a crumb.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rag_mcp.errors import InvalidArgument
from rag_mcp.models import HIDDEN_MARK, Passage
from rag_mcp.text.blocks import CONTAINERS, Node, parse_blocks, plain

__all__ = ["CHUNKER_VERSION", "ChunkLimits", "chunk_text", "embedded_text", "first_heading"]

CHUNKER_VERSION = "2"
"""Goes up with every change that can give another passage or another embedded text for the same file."""

_MAX_CARRIED_CHARS = 200
_SMALLEST_LIMIT = 16
_CHARS_PER_TOKEN = 16
# A longer section is rarely within the limit: its blocks are counted at once, not after the whole of it.
_LIKELY_CHARS_PER_TOKEN = 4
_MANY = 500


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """Sizes in the embedder's own tokens, of all that is embedded: title, heading path and text.

    No passage is ever larger than ``max_tokens``. A section above it is cut into passages of about ``soft_tokens``;
    a passage below ``min_tokens`` is avoided where its neighbours in the section leave room.
    """

    max_tokens: int = 256
    soft_tokens: int = 200
    min_tokens: int = 40

    def __post_init__(self) -> None:
        if self.max_tokens < _SMALLEST_LIMIT:
            raise InvalidArgument("max_tokens", f"{self.max_tokens} is too small; use {_SMALLEST_LIMIT} or more.")
        if self.soft_tokens < 1 or self.min_tokens < 0:
            raise InvalidArgument("soft_tokens, min_tokens", "must be positive.")

    @property
    def max_chars(self) -> int:
        """Characters of a passage: a tokenizer may call a megabyte without spaces one unknown token."""
        return _CHARS_PER_TOKEN * self.max_tokens


# --- the structure of the file ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Section:
    path: tuple[str, ...]
    start: int
    end: int
    blocks: Sequence[Node]


class _Source:
    """The body of a file by lines; line 0 starts at ``body_start``. A line ends at a line feed and nowhere else."""

    def __init__(self, text: str, body_start: int) -> None:
        self.text = text
        self.body_start = body_start
        self._breaks = [match.start() for match in re.finditer("\n", text)]
        self._skipped = bisect_right(self._breaks, body_start - 1)

    def offset(self, line: int) -> int:
        """Character offset of the start of a line of the body; the end of the text for any line after the last."""
        index = self._skipped + line - 1
        if line <= 0:
            return self.body_start
        return self._breaks[index] + 1 if index < len(self._breaks) else len(self.text)

    @property
    def size(self) -> int:
        return len(self.text) - self.body_start

    def line(self, offset: int) -> int:
        """1-based line in the whole file."""
        return bisect_right(self._breaks, offset - 1) + 1


def first_heading(text: str, body_start: int = 0) -> str | None:
    """The plain text of the first level-one heading (ATX or setext), or None."""
    name = _first_name(_head_up_to_candidate(text, body_start))
    # A bracket left over may be a link whose definition stands further down.
    return name if name and "[" not in name else _first_name(text[body_start:])


def _first_name(body: str) -> str | None:
    names = (node.heading[1] for node in parse_blocks(body) if node.heading and node.heading[0] == 1)
    return next((name for name in names if name), None)


_H1_CANDIDATE = re.compile(r"^ {0,3}(?:#[ \t]+\S[^\n]*|=+[ \t]*)$", re.MULTILINE)


def _head_up_to_candidate(text: str, body_start: int) -> str:
    """The part of the body a parser must read to know whether the first likely heading is one (most often it is)."""
    match = _H1_CANDIDATE.search(text, body_start)
    return text[body_start : match.end()] if match else ""


def _sections(nodes: Sequence[Node], last_line: int) -> Iterator[_Section]:
    """Sections in order. A heading without a body joins the subsection that follows: its words are in that path."""
    stack: list[tuple[int, str]] = []
    start, first = 0, 0
    for index, node in enumerate(nodes):
        if node.heading is None:
            continue
        if not _carried(nodes[first:index], node):
            if index > first or node.start > start:
                yield _Section(_path(stack), start, node.start, nodes[first:index])
            start, first = node.start, index
        while stack and stack[-1][0] >= node.heading[0]:
            stack.pop()
        stack.append(node.heading)
    yield _Section(_path(stack), start, last_line, nodes[first:])


# Short sections are passages of their own, unless a file has very many of them.
_MANY_SECTIONS = 1_000
_SMALL_CHARS = 200


def _small_joined(sections: Sequence[_Section], source: _Source, limits: ChunkLimits) -> list[_Section]:
    """Where very many sections are tiny, join neighbours up to the preferred size: passages go with the size of a file."""
    if len(sections) <= _MANY_SECTIONS or source.size > _SMALL_CHARS * len(sections):
        return list(sections)
    room = _LIKELY_CHARS_PER_TOKEN * limits.soft_tokens
    groups: list[list[_Section]] = []
    for section in sections:
        if groups and source.offset(section.end) - source.offset(groups[-1][0].start) <= room:
            groups[-1].append(section)
        else:
            groups.append([section])
    return [_joined_sections(group, _common([section.path for section in group])) for group in groups]


def _joined_sections(group: Sequence[_Section], path: tuple[str, ...]) -> _Section:
    return _Section(path, group[0].start, group[-1].end, [block for section in group for block in section.blocks])


def _common(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    first, last = min(paths), max(paths)
    return tuple(one for one, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))


def _stubs_joined(sections: Sequence[_Section], source: _Source) -> list[_Section]:
    """A section that says nothing beyond its heading goes with the section before, or, at the start and as a parent, with
    the one behind; a file of nothing else is one section."""
    groups: list[list[_Section]] = []
    told: list[_Section | None] = []
    for index, section in enumerate(sections):
        stub = _is_stub(section, source)
        waiting = bool(groups) and told[-1] is None
        if waiting or (stub and groups and not _is_parent(section, sections[index + 1 : index + 2])):
            groups[-1].append(section)
        else:
            groups.append([section])
            told.append(None)
        if told[-1] is None and not stub:
            told[-1] = section
    return [
        _joined_sections(group, (teller or group[0]).path) if len(group) > 1 else group[0]
        for group, teller in zip(groups, told, strict=True)
    ]


def _is_parent(section: _Section, following: Sequence[_Section]) -> bool:
    depth = len(section.path)
    return any(len(after.path) > depth and after.path[:depth] == section.path for after in following)


_STUB_CHARS = 1_000
_UNSAID = re.compile(
    r"!\[[^\[\]]{0,300}\](?:\([^()\n]{0,500}\)|\[[^\[\]\n]{0,300}\])?|!\[\[[^\[\]\n]{0,300}\]\]|<[^<>]{0,500}>|"
    + re.escape(HIDDEN_MARK)
)
_LINK = re.compile(r"\[{1,2}([^\[\]\n]{0,300})\]{1,2}(?:\([^()\n]{0,500}\))?")
_PLACEHOLDERS = frozenset(
    [
        "todo",
        "to do",
        "tbd",
        "tba",
        "tbc",
        "tk",
        "wip",
        "fixme",
        "n a",
        "na",
        "none",
        "nothing",
        "nothing yet",
        "nothing here yet",
        "empty",
        "stub",
        "placeholder",
        "coming soon",
        "soon",
        "to come",
        "to follow",
        "draft",
        "pending",
        "work in progress",
        "under construction",
        "not written yet",
        "to be added",
        "to be written",
        "to be done",
        "to be determined",
        "to be announced",
        "to be completed",
        "to be continued",
        "to be defined",
        "fill in",
        "fill me in",
        "write me",
        "lorem ipsum",
    ]
)


def _is_stub(section: _Section, source: _Source) -> bool:
    headings = [block for block in section.blocks if block.kind == "heading"]
    others = [
        block
        for block in section.blocks
        if block.kind not in {"heading", "hr"} and not (block.kind == "table" and block.end - block.start <= 2)
    ]
    if not headings:
        return False
    last = section.end
    if section.blocks[-1].end < last:  # link definitions are no blocks
        others.append(Node("definitions", section.blocks[-1].end, last))
    pieces = [(source.offset(block.start), source.offset(block.end)) for block in others]
    if sum(end - start for start, end in pieces) > _STUB_CHARS:
        return False
    said = "\n".join(_LINK.sub(r"\1", _UNSAID.sub("", source.text[start:end])) for start, end in pieces)
    words = " ".join("".join(char if char.isalnum() else " " for char in said.casefold()).split())
    names = {_squashed(block.heading[1]) for block in headings if block.heading}
    return not words or words in _PLACEHOLDERS or _squashed(words) in names


def _path(stack: Sequence[tuple[int, str]]) -> tuple[str, ...]:
    return tuple(name for _, name in stack if name)


def _carried(since: Sequence[Node], heading: Node) -> bool:
    """Whether the open section is nothing but headings, each one short and a parent of the next."""
    levels = [node.heading[0] for node in since if node.heading and 0 < len(node.heading[1]) <= _MAX_CARRIED_CHARS]
    if not since or len(levels) < len(since) or heading.heading is None:
        return False
    return all(upper < lower for upper, lower in pairwise([*levels, heading.heading[0]]))


# --- the embedded text -----------------------------------------------------------------------------------------------


def embedded_text(
    title: str | None, heading_path: Sequence[str], shown: str, *, limits: ChunkLimits | None = None
) -> str:
    """The string that is embedded: title, heading path, text, each once. Give the limits the passage was cut with.

    A heading line at the start of the text is left out when the path already says it, and the title when it equals
    the first heading. A title and path that would take more than about a third of ``max_tokens`` are shortened.
    """
    context = _context(title or "", tuple(heading_path), (limits or ChunkLimits()).max_tokens)
    body = _without_headings(shown.replace(HIDDEN_MARK, ""), heading_path).strip()
    return "\n\n".join(part for part in (context, body) if part)


@functools.lru_cache(maxsize=256)
def _context(title: str, heading_path: tuple[str, ...], max_tokens: int) -> str:
    names = [" ".join(name.split()) for name in heading_path]
    title = " ".join(title.split())
    if title and (not names or title.casefold() != names[0].casefold()):
        names.insert(0, title)
    return "\n".join(_shortened([name for name in names if name], max_tokens))


def _shortened(names: list[str], max_tokens: int) -> list[str]:
    """Keep what tells most when not all fits: the heading itself, then the title, then the nearest parents.

    The room is in estimated tokens, because the result may not depend on which tokenizer counts; no more than three
    quarters of ``max_tokens`` characters leave room for text even where every character is a token.
    """
    room = max_tokens // 3
    chars = max_tokens * 3 // 4
    if sum(_weight(name) + 1 for name in names) <= room and sum(len(name) + 1 for name in names) < chars:
        return names
    kept: dict[int, str] = {}
    last = len(names) - 1
    for index in dict.fromkeys((last, 0, *range(last - 1, 0, -1))):
        first = not kept and last > 0
        name = _cut_name(names[index], room * 2 // 3 if first else room - 1, (chars * 2 // 3 if first else chars) - 2)
        if not name:
            break
        kept[index] = name
        room -= _weight(name) + 1
        chars -= len(name) + 1
    return [kept[index] for index in sorted(kept)]


_WEIGHED = re.compile(r"[A-Za-z]{1,3}|[0-9]{1,2}|\s+|.", re.DOTALL)


def _weight(text: str) -> int:
    return sum(_piece_weight(match[0]) for match in _WEIGHED.finditer(text))


def _piece_weight(piece: str) -> int:
    """Tokens a piece takes, on the high side: subword vocabularies hold three letters in one, Hangul in up to three."""
    if piece.isspace():
        return 0
    return 3 if "\uac00" <= piece <= "\ud7a3" or piece > "\uffff" else 1


def _cut_name(name: str, room: int, chars: int) -> str:
    """The start of a name that fits, at a word's end where there is one; an ellipsis marks the cut."""
    if _weight(name) <= room and len(name) <= chars:
        return name
    end = 0
    for match in _WEIGHED.finditer(name[: max(0, chars - 1)]):
        room -= _piece_weight(match[0])
        if room < 1:
            break
        end = match.end()
    space = name.rfind(" ", end // 2, end + 1)
    kept = name[: space if space > 0 else end].rstrip()
    return f"{kept}…" if kept else ""


def _without_headings(shown: str, heading_path: Sequence[str]) -> str:
    names = {_squashed(name) for name in heading_path}
    rest = shown
    while names:
        heading, end = _leading_heading(rest)
        if heading is None or not {_squashed(heading), _squashed(plain(heading, {}))} & names:
            return rest
        rest = rest[end:]
    return rest


def _squashed(name: str) -> str:
    return "".join(char for char in name.casefold() if char.isalnum()) or name


_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*\Z")
_ATX = re.compile(r" {0,3}#{1,6}(?=[ \t]|\Z)")
_MAX_SETEXT_LINES = 6


def _leading_heading(text: str) -> tuple[str | None, int]:
    """Source of a heading that opens the text, and where it ends; (None, 0) when the text opens otherwise."""
    start = len(text) - len(text.lstrip(" \t\n"))
    start = text.rfind("\n", 0, start) + 1
    content: list[str] = []
    while start < len(text) and len(content) <= _MAX_SETEXT_LINES:
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line = text[start:end]
        if not content and (mark := _ATX.match(line)):
            return _ATX_CLOSING.sub("", line[mark.end() :].rstrip()).strip(), end
        if content and _UNDERLINE.match(line):
            return "\n".join(content), end
        if not line.strip():
            break
        content.append(line)
        start = end + 1
    return None, 0


_ATX_CLOSING = re.compile(r"(?:(?<=[ \t])|\A)#+\Z")


# --- cutting ---------------------------------------------------------------------------------------------------------

# What a cut costs, on the scale where a passage of half or one and a half the preferred size costs 0.25.
_ITEM, _ROW, _CODE_GAP, _SENTENCE, _CODE_LINE, _LINE, _WORD = 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 1.0
_AFTER_LEAD_IN, _AFTER_HEADING, _CRUMB = 0.6, 3.0, 2.0


@dataclass(frozen=True, slots=True)
class _Span:
    """A stretch of text that may become several units; ``kind`` says where it may be cut, ``cost`` its left edge."""

    start: int
    end: int
    kind: str
    cost: float
    node: Node | None = None
    header: str = ""
    parts: tuple[_Span, ...] = ()
    depth: int = 0
    parents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Unit:
    """A stretch that is not cut further; ``header`` is repeated when a passage starts here."""

    start: int
    end: int
    tokens: int
    cost: float
    header: str = ""
    header_tokens: int = 0
    parents: tuple[str, ...] = ()


def chunk_text(
    text: str,
    *,
    body_start: int = 0,
    title: str | None = None,
    count: Callable[[str], int],
    limits: ChunkLimits | None = None,
) -> list[Passage]:
    """Cut ``text[body_start:]`` into passages, in order; only white space lies between them.

    ``count(embedded_text(title, passage.heading_path, passage.shown, limits=limits))`` is at most
    ``limits.max_tokens`` for every passage, for any ``count`` that gives at most one token a character.
    """
    source = _Source(text, body_start)
    limits = limits or ChunkLimits()
    passages: list[Passage] = []
    sections = list(_sections(parse_blocks(text[body_start:]), text.count("\n", body_start) + 1))
    sections = _small_joined(_stubs_joined(sections, source), source, limits)
    for section in sections:
        passages.extend(_SectionCutter(source, section, title, count, limits).passages())
    return passages


class _SectionCutter:
    """Cuts one section. Counting is the dear part: what is longer than ``max_chars`` is cut before it is counted."""

    def __init__(
        self,
        source: _Source,
        section: _Section,
        title: str | None,
        count: Callable[[str], int],
        limits: ChunkLimits,
    ) -> None:
        self._source = source
        self._text = source.text
        self._section = section
        self._title = title
        self._count = count
        self._limits = limits
        self._budget = limits.max_tokens
        self._header_tokens: dict[str, int] = {}
        self._known_parents: dict[tuple[str, ...], int] = {}

    def passages(self) -> Iterator[Passage]:
        start, end = self._source.offset(self._section.start), self._source.offset(self._section.end)
        whole = self._passage([_Unit(start, end, 0, 0.0)])
        if whole is None:
            return
        if len(whole.text) <= _LIKELY_CHARS_PER_TOKEN * self._limits.max_tokens and self._fits(whole):
            yield whole
            return
        context = self._count(embedded_text(self._title, self._section.path, "", limits=self._limits))
        self._budget = max(1, self._limits.max_tokens - context)
        units = self._merged([unit for span in self._blocks(start, end) for unit in self._units(span)])
        if sum(unit.tokens for unit in units) <= self._budget and self._fits(whole):
            yield whole
            return
        for first, last in pairwise(self._cuts(units, context)):
            yield from self._fitted(units[first:last])

    # -- passages

    def _passage(self, units: Sequence[_Unit]) -> Passage | None:
        """The passage these units make, without blank lines before and white space after; None when it is blank."""
        start, end = units[0].start, units[-1].end
        stripped = self._text[start:end].rstrip()
        if not stripped:
            return None
        end = start + len(stripped)
        blank = len(stripped) - len(stripped.lstrip())
        start = max(start, self._text.rfind("\n", start, start + blank) + 1)
        return Passage(
            text=self._text[start:end],
            heading_path=(*self._section.path, *units[0].parents),
            start=start,
            end=end,
            line_start=self._source.line(start),
            line_end=self._source.line(end - 1),
            table_header=units[0].header,
        )

    def _fits(self, passage: Passage) -> bool:
        if len(passage.text) > self._limits.max_chars:
            return False
        whole = embedded_text(self._title, passage.heading_path, passage.shown, limits=self._limits)
        return self._count(whole) <= self._limits.max_tokens

    def _fitted(self, units: Sequence[_Unit]) -> Iterator[Passage]:
        """Cut again what proves too large as a whole: token counts add up only nearly."""
        passage = self._passage(units)
        if passage is None:
            return
        first = units[0]
        if self._fits(passage):
            yield passage
        elif len(units) > 1:
            count = len(units)
            middle = min(range(1, count), key=lambda index: units[index].cost + abs(index / count - 0.5))
            yield from self._fitted(units[:middle])
            yield from self._fitted(units[middle:])
        elif first.header:
            yield from self._fitted([replace(first, header="", header_tokens=self._parents_tokens(first.parents))])
        elif first.end - first.start > 1:
            cut = _middle(self._text, first.start, first.end)
            yield from self._fitted([replace(first, end=cut)])
            yield from self._fitted([replace(first, start=cut)])
        else:
            yield passage

    # -- units

    def _blocks(self, start: int, end: int) -> Sequence[_Span]:
        """The section's blocks; lines no block claims (link definitions) go with the block before."""
        blocks: Sequence[Node] = self._section.blocks or [Node("paragraph", 0, 0)]
        edges = [start, *(self._source.offset(block.start) for block in blocks[1:]), end]
        cost = 0.0
        spans: list[_Span] = []
        for node, (left, right) in zip(blocks, pairwise(edges), strict=True):
            spans.append(_Span(left, right, node.kind, cost, node))
            cost = self._cost_after(spans[-1])
        return self._grouped(spans)

    def _cost_after(self, span: _Span) -> float:
        if span.kind == "heading":
            return _AFTER_HEADING
        tail = self._text[max(span.start, span.end - 80) : span.end].rstrip()
        return _AFTER_LEAD_IN if span.kind == "paragraph" and tail.endswith((":", "：")) else 0.0

    def _units(self, span: _Span, known: int | None = None) -> Iterator[_Unit]:
        tokens = self._tokens(span) if known is None else known
        # Pieces of a run of words are smaller than they need to be, so that even passages can be put together.
        limit = max(1, self._budget // 4) if span.kind == "words" else self._budget
        if (tokens is not None and tokens <= limit) or span.end - span.start <= 1:
            yield self._unit(span, tokens or 0)
            return
        first, *others = self._grouped(self._parts(span))
        first = replace(first, cost=span.cost, header=span.header)
        yield from self._units(first, tokens if not others else None)
        for part in others:
            yield from self._units(part)

    def _unit(self, span: _Span, tokens: int) -> _Unit:
        repeated = self._header_tokens.get(span.header, 0) + self._parents_tokens(span.parents)
        return _Unit(span.start, span.end, tokens, span.cost, span.header, repeated, span.parents)

    def _parents_tokens(self, parents: tuple[str, ...]) -> int:
        if not parents:
            return 0
        if parents not in self._known_parents:
            self._known_parents[parents] = min(self._count("\n".join(parents)), self._budget // 2)
        return self._known_parents[parents]

    def _tokens(self, span: _Span) -> int | None:
        """Tokens of the span; None when it is too long to be worth counting."""
        if span.end - span.start > self._limits.max_chars:
            return None
        return self._count(self._text[span.start : span.end])

    def _grouped(self, parts: Sequence[_Span]) -> Sequence[_Span]:
        """Count neighbours of a very long row of small parts together; a group too large falls apart again."""
        if len(parts) <= _MANY:
            return parts
        groups: list[list[_Span]] = []
        for part in parts:
            if groups and part.end - groups[-1][0].start <= self._limits.max_chars // 16:
                groups[-1].append(part)
            else:
                groups.append([part])
        return [
            replace(group[0], end=group[-1].end, kind="group", node=None, parts=tuple(group))
            if len(group) > 1
            else group[0]
            for group in groups
        ]

    def _merged(self, units: list[_Unit]) -> list[_Unit]:
        """Join tiny units when there are very many, so that finding the best cuts stays linear."""
        if len(units) <= 64 + 32 * sum(unit.tokens for unit in units) // self._budget:
            return units
        merged = units[:1]
        for unit in units[1:]:
            last = merged[-1]
            tokens = last.tokens + unit.tokens
            if tokens <= self._budget // 8 and unit.end - last.start <= self._limits.max_chars // 16:
                merged[-1] = replace(last, end=unit.end, tokens=tokens)
            else:
                merged.append(unit)
        return merged

    # -- where a span may be cut

    def _parts(self, span: _Span) -> Sequence[_Span]:
        """Parts that tile the span; a single one has another kind and is asked again."""
        if span.parts:
            return span.parts
        if span.node and span.kind in CONTAINERS and span.node.children:
            return self._children(span, span.node)
        if span.kind == "table" and span.node and len(rows := self._rows(span, span.node)) > 1:
            return rows
        if span.kind in {"fence", "code_block", "html_block"}:
            return self._at(span, "code", ((match.end(), _CODE_GAP) for match in _GAP.finditer(*self._range(span))))
        if span.kind == "code":
            return self._at(span, "run", ((match.end(), _CODE_LINE) for match in _EOL.finditer(*self._range(span))))
        if span.kind == "light":
            return self._at(span, "run", self._gaps(span))
        if span.kind not in {"run", "words"}:
            return self._at(span, "run", self._prose_cuts(span))
        middle = _middle(self._text, span.start, span.end)
        return self._at(span, "words", [(middle, _WORD)])

    def _range(self, span: _Span) -> tuple[str, int, int]:
        return self._text, span.start, span.end

    def _at(self, span: _Span, kind: str, cuts: Iterator[tuple[int, float]] | list[tuple[int, float]]) -> list[_Span]:
        """Parts between cuts; without any cut one part of the next kind."""
        inside = [(at, cost) for at, cost in cuts if span.start < at < span.end]
        edges = [(span.start, span.cost), *inside, (span.end, 0.0)]
        return [_Span(left, right, kind, cost, parents=span.parents) for (left, cost), (right, _) in pairwise(edges)]

    def _children(self, span: _Span, node: Node) -> list[_Span]:
        depth = span.depth + 1
        starts = [span.start, *(self._source.offset(child.start) for child in node.children[1:]), span.end]
        within = (*span.parents, *self._item_name(node))[-_MAX_PARENTS:]
        ancestry = [span.parents, *(within for _ in node.children[1:])]
        return [
            _Span(left, right, child.kind, min(_ITEM * depth, _LINE), child, depth=depth, parents=parents)
            for child, parents, (left, right) in zip(node.children, ancestry, pairwise(starts), strict=True)
            if left < right
        ]

    def _item_name(self, node: Node) -> tuple[str, ...]:
        """What an item says before that which hangs on it."""
        if node.kind != "list_item" or node.children[0].kind not in {"paragraph", "heading"}:
            return ()
        start = self._source.offset(node.start)
        line = self._text[start : min(self._source.offset(node.start + 1), start + 2 * _MAX_PARENT_CHARS)]
        name = plain(_ITEM_MARKS.sub("", line), {})
        return (_cut_name(name, _MAX_PARENT_CHARS, _MAX_PARENT_CHARS),) if name else ()

    def _rows(self, span: _Span, table: Node) -> list[_Span]:
        """Rows, the first together with header and delimiter; the others know the header to repeat."""
        header = self._text[self._source.offset(table.start) : self._source.offset(table.start + 2)]
        tokens = self._budget if len(header) > self._limits.max_chars // 2 else self._count(header)
        if tokens > self._budget // 2:
            header = ""
        self._header_tokens[header] = tokens if header else 0
        cuts = [(self._source.offset(line), _ROW) for line in range(table.start + 3, table.end)]
        return [replace(part, header=header if index else "") for index, part in enumerate(self._at(span, "run", cuts))]

    def _gaps(self, span: _Span) -> Iterator[tuple[int, float]]:
        """Blank lines, not too near to each other."""
        behind = span.start
        for match in _GAP.finditer(*self._range(span)):
            if match.end() - behind >= self._limits.max_chars // 16:
                behind = match.end()
                yield behind, 0.0

    def _prose_cuts(self, span: _Span) -> Iterator[tuple[int, float]]:
        """Line ends and sentence ends; a line that ends with its sentence is as good as any sentence end."""
        sentences = {match.end() for match in _SENTENCE_END.finditer(*self._range(span))}
        lines = {match.end() for match in _EOL.finditer(*self._range(span))}
        for at in sorted(sentences | lines):
            yield at, _SENTENCE if at in sentences else _LINE

    # -- the best cuts

    def _cuts(self, units: Sequence[_Unit], context: int) -> list[int]:
        """Edges (as unit indexes) of the passages with the least total cost."""
        target = self._target(sum(unit.tokens for unit in units), context)
        crumb = min(self._limits.min_tokens, target // 2)
        best = [0.0]
        came_from = [0]
        for last in range(1, len(units) + 1):
            options = (
                (best[first] + _shape(size, target, crumb) + (units[first].cost if first else 0.0), first)
                for first, size in self._starts(units, last)
            )
            cost, first = min(options)
            best.append(cost)
            came_from.append(first)
        edges = [len(units)]
        while edges[-1] > 0:
            edges.append(came_from[edges[-1]])
        return edges[::-1]

    def _target(self, total: int, context: int) -> float:
        """Preferred size. Few passages share a section evenly; of many, an edit at one end may not move the others."""
        soft = max(1, min(self._limits.soft_tokens, self._limits.max_tokens) - context)
        number = -(-total // soft)
        return total / number if 0 < number < 4 else soft

    def _starts(self, units: Sequence[_Unit], last: int) -> Iterator[tuple[int, int]]:
        """Where a passage that ends before ``last`` may start, with its size; a single unit always may."""
        size = 0
        for first in range(last - 1, -1, -1):
            unit = units[first]
            size += unit.tokens
            alone = first == last - 1
            if not alone and (size > self._budget or units[last - 1].end - unit.start > self._limits.max_chars):
                return
            if alone or size + unit.header_tokens <= self._budget:
                yield first, size + unit.header_tokens


def _shape(size: int, target: float, crumb: float) -> float:
    deviation = (size - target) / target
    return deviation * deviation + (_CRUMB if size < crumb else 0.0)


_MAX_PARENTS = 6
_MAX_PARENT_CHARS = 80
_ITEM_MARKS = re.compile(r"\A[ \t>]*+(?:(?:[-+*]|\d{1,9}[.)])[ \t]++)*+(?:\[[ xX/-]\][ \t]++)?+(?:\#{1,6}[ \t]++)?+")
_EOL = re.compile(r"\n")
_GAP = re.compile(r"\n(?:[ \t]*+\n)++")
_SENTENCE_END = re.compile(
    r"""(?<![.!?])[.!?]++["'”’)\]*_]*+\s++(?![a-z])|[。！？]++[」』”’）]*+\s*+""",
)

_JOINERS = frozenset("\u200d\ufe0e\ufe0f")


def _middle(text: str, start: int, end: int) -> int:
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
