"""Which blocks does a markdown file have, and which of its lines are code?

Headings and blocks are CommonMark's own (markdown-it-py), so a ``#`` in a fence opens no section.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rag_mcp.text.hidden import block_comment
from rag_mcp.text.marks import HIDDEN_MARK

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

__all__ = ["CONTAINERS", "Node", "code_ranges", "parse_blocks", "plain"]

_MAX_NESTING = 32
_MAX_HEADING_CHARS = 1_000
# The inline parser looks at every pair of brackets.
_MAX_BRACKETS = 24
# What a full parse takes in memory and time goes with the number of blocks, of which a line is one at most, or holds as
# many as it has cells. Beyond these limits only headings, fences and blank lines are looked for.
_MAX_LINES = 30_000
_MAX_CELLS = 60_000
_PARSED_MARK = "<!--" + "." * (len(HIDDEN_MARK) - 7) + "-->"


@dataclass(slots=True)
class Node:
    """A block on the lines ``start <= line < end``; only lists, their items and quotes have children."""

    kind: str
    start: int
    end: int
    children: list[Node] = field(default_factory=list)
    heading: tuple[int, str] | None = None


@functools.cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING}).enable("table")


@functools.cache
def _block_parser() -> MarkdownIt:
    """Blocks only: inline markup matters in headings alone, and is the part that can be slow on hostile input."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING}).enable("table")
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


CONTAINERS = frozenset({"bullet_list", "ordered_list", "list_item", "blockquote"})


def parse_blocks(body: str) -> list[Node]:
    """Top-level blocks in order, headings with level and plain text."""
    if _is_heavy(body):
        return _light(body)
    env: dict[str, Any] = {}
    tokens = _block_parser().parse(_source(body), env)
    root = Node("root", 0, 0)
    open_nodes: list[Node] = [root]
    for index, token in enumerate(tokens):
        kind = token.type.removesuffix("_open")
        if token.nesting < 0 and token.type.removesuffix("_close") in CONTAINERS:
            open_nodes.pop()
        elif token.nesting >= 0 and token.map and token.block and token.type != "inline":
            node = Node(kind, token.map[0], token.map[1])
            if kind in CONTAINERS or token.level == len(open_nodes) - 1:
                open_nodes[-1].children.append(node)
            if kind in CONTAINERS:
                open_nodes.append(node)
            elif kind == "heading" and token.level == 0:
                node.heading = (int(token.tag[1]), plain(tokens[index + 1].content, env))
    return root.children


def _source(body: str) -> str:
    """The body as it is parsed, with every character in its place.

    A stray carriage return would be a line break to the parser; it is not one to us, nor to an editor's line count. The
    mark in the place of a comment is a comment again: a rule below it makes no heading of it, and it names none.
    """
    return body.replace("\r", " ").replace(HIDDEN_MARK, _PARSED_MARK)


def _is_heavy(body: str) -> bool:
    return body.count("\n") > _MAX_LINES or body.count("|") > _MAX_CELLS


_MARKED = re.compile(
    r"^[ ]{0,3}(?:(?P<level>#{1,6})(?:[ \t]+(?P<name>[^\n]*))?|(?P<fence>`{3,}+(?=[^`\n]*$)|~{3,}+)[^\n]*)$",
    re.MULTILINE,
)
_CLOSING_MARKS = re.compile(r"(?:(?<=[ \t])|\A)#+[ \t]*\Z")


def _marked_lines(body: str) -> Iterator[tuple[str, tuple[int, int], re.Match[str]]]:
    """ATX headings and whole fences, with the offsets where they begin and end."""
    at = 0
    while found := _MARKED.search(body, at):
        at = found.end()
        if mark := found["fence"]:
            closing = re.compile(rf"^[ ]{{0,3}}{mark[0]}{{{len(mark)},}}[ \t]*$", re.MULTILINE).search(body, at)
            at = closing.end() if closing else len(body)
        yield "fence" if mark else "heading", (found.start(), at), found


def _light(body: str) -> list[Node]:
    """Headings, fences, and all that is between them as one block each."""
    nodes: list[Node] = []
    line, at = 0, 0

    def add(kind: str, end: int, heading: tuple[int, str] | None = None) -> None:
        nonlocal line, at
        after = line + body.count("\n", at, end)
        if kind != "light" or body[at:end].strip():
            nodes.append(Node(kind, line, max(after, line + 1), heading=heading))
        line, at = after, end

    for kind, (start, end), found in _marked_lines(body):
        add("light", start)
        name = _CLOSING_MARKS.sub("", (found["name"] or "").strip()) if kind == "heading" else ""
        add(kind, min(end + 1, len(body)), (len(found["level"]), plain(name, {})) if kind == "heading" else None)
    add("light", len(body))
    return nodes


def code_ranges(body: str) -> list[tuple[int, int]]:
    """Where fences and indented code are, in characters; those inside comments are none."""
    if _is_heavy(body):
        return [fence for kind, fence, _ in _marked_lines(body) if kind == "fence"]
    starts = [0, *(match.end() for match in re.finditer("\n", body)), len(body)]
    last = len(starts) - 1
    return [
        (starts[min(token.map[0], last)], starts[min(token.map[1], last)])
        for token in _comment_parser().parse(body.replace("\r", " "), {})
        if token.type in {"fence", "code_block"} and token.map
    ]


@functools.cache
def _comment_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING})
    parser.core.ruler.enableOnly(["normalize", "block"])
    parser.block.ruler.before(
        "fence", "comment", _comment_rule, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )
    return parser


def _comment_rule(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Comments of other programs over several lines, so that a fence mark in one opens no fence."""
    first = state.src[state.bMarks[start] + state.tShift[start] : state.eMarks[start]]
    closing = block_comment(first)
    if closing is None or closing.pattern in state.env:
        return False
    if silent:
        return True
    for line in range(start + 1, end):
        if not state.isEmpty(line) and state.sCount[line] < state.blkIndent:
            break
        if closing.search(state.src, state.bMarks[line], state.eMarks[line]):
            state.line = line + 1
            return True
    state.env[closing.pattern] = True  # looked for once: there is none, or it is outside of this list or quote
    return False


_ATTRIBUTES = re.compile(r"[ \t]*\{[#.][^{}\n]*\}$")


def plain(heading: str, env: Mapping[str, Any]) -> str:
    """The words of a heading: no markup, entities decoded, no trailing ``{#anchor}``."""
    heading = _ATTRIBUTES.sub("", heading.strip())
    if len(heading) > _MAX_HEADING_CHARS or heading.count("[") > _MAX_BRACKETS:
        cut = "…" if len(heading) > _MAX_HEADING_CHARS else ""
        return " ".join(heading[:_MAX_HEADING_CHARS].split()) + cut
    tokens: list[Token] = []
    parser = _parser()
    parser.inline.parse(heading, parser, dict(env), tokens)
    return " ".join("".join(_inline_words(tokens)).split())


def _inline_words(tokens: Sequence[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type in {"softbreak", "hardbreak"}:
            yield " "
        elif token.type == "image":
            yield from _inline_words(token.children or ())
        elif token.type != "html_inline":
            yield token.content
