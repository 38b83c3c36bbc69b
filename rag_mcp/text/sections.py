"""Which sections does a file have? One a heading, but for headings without a body and very many tiny sections. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from rag_mcp.text.blocks import Node
from rag_mcp.text.lines import Lines

__all__ = ["Section", "join_sections", "join_tiny", "split_sections"]

_MAX_CARRIED_CHARS = 200
_MANY = 1_000
_TINY_CHARS = 200


@dataclass(frozen=True, slots=True)
class Section:
    """Lines ``start <= line < end`` of the body, with the blocks on them."""

    path: tuple[str, ...]
    start: int
    end: int
    blocks: Sequence[Node]


def split_sections(blocks: Sequence[Node], last_line: int) -> Iterator[Section]:
    """Sections in order. A heading without a body joins the subsection that follows: its words are in that path."""
    stack: list[tuple[int, str]] = []
    start, first = 0, 0
    for index, node in enumerate(blocks):
        if node.heading is None:
            continue
        if not _leads_to(node.heading[0], blocks[first:index]):
            if index > first or node.start > start:
                yield Section(_path(stack), start, node.start, blocks[first:index])
            start, first = node.start, index
        while stack and stack[-1][0] >= node.heading[0]:
            stack.pop()
        stack.append(node.heading)
    yield Section(_path(stack), start, last_line, blocks[first:])


def _leads_to(level: int, blocks: Sequence[Node]) -> bool:
    """Whether the open section is nothing but headings, each one short and a parent of the next."""
    levels = [node.heading[0] for node in blocks if node.heading and 0 < len(node.heading[1]) <= _MAX_CARRIED_CHARS]
    return 0 < len(levels) == len(blocks) and all(upper < lower for upper, lower in pairwise([*levels, level]))


def _path(stack: Sequence[tuple[int, str]]) -> tuple[str, ...]:
    return tuple(name for _, name in stack if name)


def join_tiny(sections: Sequence[Section], lines: Lines, max_chars: int) -> Sequence[Section]:
    """Of very many tiny sections, neighbours joined up to ``max_chars``: passages go with the size of a file."""
    if len(sections) <= _MANY or len(lines.text) - lines.body_start > _TINY_CHARS * len(sections):
        return sections
    groups: list[list[Section]] = []
    for section in sections:
        if groups and lines.offset(section.end) - lines.offset(groups[-1][0].start) <= max_chars:
            groups[-1].append(section)
        else:
            groups.append([section])
    return [join_sections(group, _shared([section.path for section in group])) for group in groups]


def join_sections(group: Sequence[Section], path: tuple[str, ...]) -> Section:
    """Neighbours as one section."""
    return Section(path, group[0].start, group[-1].end, [block for section in group for block in section.blocks])


def _shared(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """What all paths begin with: the first and the last in order differ earliest."""
    equal = takewhile(lambda pair: pair[0] == pair[1], zip(min(paths), max(paths), strict=False))
    return tuple(name for name, _ in equal)
