"""Which sections say nothing beyond their heading, and which section do they go with? Which passages do? Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from rag_mcp.text.blocks import Node
from rag_mcp.text.headings import comparable
from rag_mcp.text.lines import Lines
from rag_mcp.text.marks import DATA_MARK, HIDDEN_MARK
from rag_mcp.text.sections import Section, join_sections

__all__ = ["is_hollow", "join_stubs"]

_STUB_CHARS = 1_000
_SILENT = re.compile(
    r"!\[[^\[\]]{0,300}\](?:\([^()\n]{0,500}\)|\[[^\[\]\n]{0,300}\])?|!\[\[[^\[\]\n]{0,300}\]\]|<[^<>]{0,500}>|"
    + "|".join(map(re.escape, (HIDDEN_MARK, DATA_MARK)))
)
_LINK = re.compile(r"\[{1,2}([^\[\]\n]{0,300})\]{1,2}(?:\([^()\n]{0,500}\))?")
_PLACEHOLDERS = frozenset({
    "todo", "to do", "tbd", "tba", "tbc", "tk", "wip", "fixme", "n a", "na", "none", "nothing", "nothing yet",
    "nothing here yet", "empty", "stub", "placeholder", "coming soon", "soon", "to come", "to follow", "draft", "pending",
    "work in progress", "under construction", "not written yet", "to be added", "to be written", "to be done",
    "to be determined", "to be announced", "to be completed", "to be continued", "to be defined", "fill in", "fill me in",
    "write me", "lorem ipsum",
})  # fmt: skip
_POINTERS = frozenset({"", "see", "see also", "link", "links", "moved to", "moved here", "related"})
_HEADING = re.compile(r"^ {0,3}#{1,6}(?:[ \t][^\n]*)?$|^[^\n]+\n {0,3}=+[ \t]*$", re.MULTILINE)
_EMPTY_TABLE = re.compile(r"^[^\n|]*\|[^\n]*\n[ \t|:-]*-[ \t|:-]*$(?:\n[ \t|]*$)*(?!\n[^\n]*\|)", re.MULTILINE)
_ADDRESS = re.compile(r"https?://\S+")


def join_stubs(sections: Sequence[Section], lines: Lines) -> list[Section]:
    """A stub goes with the section before, or, at the start and as a parent, with the one behind.

    A file of nothing else is one section.
    """
    groups: list[list[Section]] = []
    paths: list[tuple[str, ...]] = []
    only_stubs = False
    for section, following in zip(sections, [*sections[1:], None], strict=True):
        stub = _is_stub(section, lines)
        if not (only_stubs or (groups and stub and not _is_parent(section, following))):
            groups.append([])
            paths.append(section.path)
            only_stubs = True
        groups[-1].append(section)
        if only_stubs and not stub:
            paths[-1] = section.path
            only_stubs = False
    return [join_sections(group, path) for group, path in zip(groups, paths, strict=True)]


def is_hollow(text: str, names: Collection[str]) -> bool:
    """Whether a passage under these names says nothing of its own: headings, links, pictures and placeholders point to
    what others say, or will."""
    if len(text) > _STUB_CHARS or "```" in text or "~~~" in text:
        return False
    for pattern in (_HEADING, _EMPTY_TABLE, _SILENT, _LINK, _ADDRESS):
        text = pattern.sub("", text)
    empty = _POINTERS | _PLACEHOLDERS | {_words(name) for name in names}
    return all(_words(line) in empty for line in text.split("\n"))


def _words(text: str) -> str:
    return " ".join("".join(char if char.isalnum() else " " for char in text.casefold()).split())


def _is_parent(section: Section, following: Section | None) -> bool:
    depth = len(section.path)
    return following is not None and len(following.path) > depth and following.path[:depth] == section.path


def _is_stub(section: Section, lines: Lines) -> bool:
    names = {comparable(block.heading[1]) for block in section.blocks if block.heading}
    if not names:
        return False
    pieces = [(lines.offset(block.start), lines.offset(block.end)) for block in section.blocks if _may_speak(block)]
    pieces.append((lines.offset(section.blocks[-1].end), lines.offset(section.end)))  # link definitions are no blocks
    if sum(end - start for start, end in pieces) > _STUB_CHARS:
        return False
    text = "\n".join(_LINK.sub(r"\1", _SILENT.sub("", lines.text[start:end])) for start, end in pieces)
    words = _words(text)
    return not words or words in _PLACEHOLDERS or comparable(words) in names


def _may_speak(block: Node) -> bool:
    """Whether a block may say something: a table of a header alone doesn't."""
    return block.kind not in {"heading", "hr"} and not (block.kind == "table" and block.end - block.start <= 2)
