"""What does a folder say of itself in a line? The first paragraph of its front page, or what its owner wrote. Pure."""

from __future__ import annotations

import re

from rag_mcp.text.blocks import parse_blocks, plain
from rag_mcp.text.headings import shorten_name
from rag_mcp.text.marks import without_marks
from rag_mcp.text.sanitize import scrub, single_line

__all__ = ["FRONT_PAGES", "MAX_DESCRIPTION_CHARS", "first_paragraph", "is_front_page", "one_description"]

# Names of a front page at the root, in small letters, best first.
FRONT_PAGES = ("readme.md", "index.md")
MAX_DESCRIPTION_CHARS = 240
# A front page that has not come to the point by then has none.
_LOOKED_AT = 8_000
# Badges and pictures in a row, before anything is said.
_PICTURE = re.compile(r"\[?!\[")


def is_front_page(path: str) -> bool:
    return path.lower() in FRONT_PAGES


def first_paragraph(text: str, body_start: int = 0) -> str:
    """The words of the first paragraph that is no picture, as ``one_description`` gives them; empty without one."""
    body = text[body_start : body_start + _LOOKED_AT]
    lines = body.split("\n")
    for node in parse_blocks(body):
        raw = without_marks("\n".join(lines[node.start : node.end]), " ").strip()
        if node.kind == "paragraph" and not _PICTURE.match(raw) and (words := one_description(plain(raw, {}))):
            return words
    return ""


def one_description(text: str) -> str:
    """One short line that shows nothing hidden and can't end the quotation it stands in."""
    line = " ".join(single_line(scrub(text)).replace('"', "'").split())
    return shorten_name(line, 3 * MAX_DESCRIPTION_CHARS, MAX_DESCRIPTION_CHARS)
