"""Which heading names a file or opens a text, and how are headings compared and shortened? Pure."""

from __future__ import annotations

import re

from rag_mcp.text.blocks import parse_blocks, plain

__all__ = ["comparable", "first_heading", "leading_heading", "shorten_name", "token_estimate"]

_MAX_SETEXT_LINES = 6
_H1_CANDIDATE = re.compile(r"^ {0,3}(?:#[ \t]+\S[^\n]*|=+[ \t]*)$", re.MULTILINE)
_ATX = re.compile(r" {0,3}#{1,6}(?=[ \t]|\Z)")
_ATX_CLOSING = re.compile(r"(?:(?<=[ \t])|\A)#+\Z")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*\Z")
_PIECE = re.compile(r"[A-Za-z]{1,3}|[0-9]{1,2}|\s+|.", re.DOTALL)


def first_heading(text: str, body_start: int = 0) -> str | None:
    """The plain text of the first level-one heading (ATX or setext), or None."""
    candidate = _H1_CANDIDATE.search(text, body_start)
    # Most often the candidate is the heading, and no more than what stands before it has to be parsed.
    name = _first_name(text[body_start : candidate.end()]) if candidate else None
    # A bracket left over may be a link whose definition stands further down.
    return name if name and "[" not in name else _first_name(text[body_start:])


def _first_name(body: str) -> str | None:
    names = (node.heading[1] for node in parse_blocks(body) if node.heading and node.heading[0] == 1)
    return next((name for name in names if name), None)


def leading_heading(text: str) -> tuple[frozenset[str], int]:
    """A heading that opens the text, as it compares with and without its markup, and where it ends; empty without one."""
    source, end = _leading_source(text)
    return (frozenset() if source is None else frozenset({comparable(source), comparable(plain(source, {}))})), end


def _leading_source(text: str) -> tuple[str | None, int]:
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


def comparable(name: str) -> str:
    """Letters and digits without case; the name itself where it has none."""
    return "".join(char for char in name.casefold() if char.isalnum()) or name


def shorten_name(name: str, tokens: int, chars: int) -> str:
    """The start of a name that fits, at a word's end where there is one; an ellipsis marks the cut."""
    if token_estimate(name) <= tokens and len(name) <= chars:
        return name
    end = 0
    for match in _PIECE.finditer(name[: max(0, chars - 1)]):
        tokens -= _piece_tokens(match[0])
        if tokens < 1:
            break
        end = match.end()
    space = name.rfind(" ", end // 2, end + 1)
    kept = name[: space if space > 0 else end].rstrip()
    return f"{kept}…" if kept else ""


def token_estimate(text: str) -> int:
    """Tokens on the high side, by no model's vocabulary."""
    return sum(_piece_tokens(match[0]) for match in _PIECE.finditer(text))


def _piece_tokens(piece: str) -> int:
    """Subword vocabularies hold three letters in one token, Hangul in up to three."""
    if piece.isspace():
        return 0
    return 3 if "\uac00" <= piece <= "\ud7a3" or piece > "\uffff" else 1
