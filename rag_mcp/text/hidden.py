"""Which text does no reader of the rendered page see? Comments, link definitions used as such, hidden elements. Pure.

What stands in code is text. A comment that is never closed hides the rest of the file where renderers hide it too (it
begins a line), and of prose that only mentions a mark nothing or the rest of its paragraph. Every search for a closing
mark either consumes what it passes or is never made again, so the time is linear.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence

from rag_mcp.text.marks import HIDDEN_MARK

__all__ = ["CodeRanges", "block_comment", "hide"]

CodeRanges = Sequence[tuple[int, int]]
"""Stretches of code (character offsets), in order."""

_TEMPLATES = {
    r"\{\{[<%]-?\s{0,9}comment\s{0,9}-?[>%]\}\}": re.compile(
        r"\{\{[<%]-?\s{0,9}/\s{0,9}comment\s{0,9}-?[>%]\}\}", re.IGNORECASE
    ),
    r"\{%-?\s{0,9}comment\b[^%\n]{0,100}%\}": re.compile(r"\{%-?\s{0,9}endcomment\s{0,9}-?%\}", re.IGNORECASE),
    r"\{\{-?[ ]?/\*": re.compile(r"\*/[ ]?-?\}\}"),
    r"\{\{!--": re.compile(r"--\}\}"),
    r"\{\#(?=\s)": re.compile(r"\#\}"),
    r"\{/\*(?=\s)": re.compile(r"\*/\}"),
    r"^[ \t]*\#\+begin_comment\b": re.compile(r"\#\+end_comment\b", re.IGNORECASE),
}
_HTML_NEXT = re.compile("<!--|-->")
_HTML_END, _PERCENT_END, _INSTRUCTION_END = re.compile("-->"), re.compile("%%"), re.compile(r"\?>")
_CDATA_END = re.compile(r"\]\]>")
_RAW_ENDS = {name: re.compile(rf"</{name}\s*+>", re.IGNORECASE) for name in ("script", "style")}

_OPENING = re.compile(
    rf"""
    \\[!-/:-@\[-`{{-~]
    |(?P<ticks>`++)
    |(?P<html><!--)
    |(?P<percent>%%)
    |(?P<declared><\?(?=[A-Za-z=])|<!\[CDATA\[|<![A-Za-z])
    |(?P<tag><(?P<name>[A-Za-z][A-Za-z0-9-]*+)(?=[\s/>])[^<>]*+>)
    |(?P<definition>^(?:[ ]{{0,3}}>)*+[ ]{{0,3}}\[(?P<label>(?:[^\[\]\\\n]|\\.|\n(?![ \t]*\n)){{0,999}}+)\]:)
    |(?P<template>{"|".join(_TEMPLATES)})
    """,
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)
# A file with none of these has nothing to hide, and most have none.
_CANDIDATE = re.compile(
    rf"<!|<\?|%%|<[a-z]|^[ >]{{0,20}}\[[^\[\]]{{0,999}}\]:|{'|'.join(_TEMPLATES)}", re.MULTILINE | re.IGNORECASE
)

_BREAK = re.compile(r"\n[ \t>]*+(?=\n|\Z|<!--|%%|\#{1,6}[ \t]|(?:[-*+]|\d{1,9}[.)])[ \t])")
_LINE_START = re.compile(r"(?:[ \t>*+-]|\d{1,9}[.)])*+")
_MARGIN_CHARS = 200
_BLOCK_OPENING = re.compile(rf"%%|{'|'.join(_TEMPLATES)}", re.IGNORECASE)

_TARGET = re.compile(r"[ \t]*+(?:\n[ \t>]*+)?(?:\#|<\#?>)(?=\s|\Z)")
_TITLE = re.compile(
    r"""(?:\s++(?:\((?:[^()\\]|\\.)*+\)|"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'))?[ \t]*+(?=\n|\Z)""", re.DOTALL
)
_OPEN_TITLE = re.compile(r"""[ \t]*+(?:\n[ \t>]*+)?(?:[^\s]*+\s++)?["'(]""")

_NEVER_SHOWN = frozenset(
    {"script", "style", "template", "noscript", "noembed", "noframes", "datalist", "head", "title"}
)
_VOID = frozenset({"meta", "link", "base", "input", "param"})
_QUOTED = re.compile(r"""=\s*+(?:"[^"]*+"|'[^']*+')""")
_HIDDEN_ATTRIBUTE = re.compile(r"\shidden(?=[\s=/>])", re.IGNORECASE)
_HIDDEN_STYLE = re.compile(
    r"""\sstyle\s{0,9}=[^>]*?(?:display\s{0,9}:\s{0,9}none|visibility\s{0,9}:\s{0,9}hidden)""", re.IGNORECASE
)
_HIDDEN_INPUT = re.compile(r"""\stype\s{0,9}=\s{0,9}["']?hidden""", re.IGNORECASE)
_ANY_TAG = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z][A-Za-z0-9-]*+)(?=[\s/>])[^<>]*+>")


def hide(text: str, start: int, code_ranges: Callable[[str], CodeRanges]) -> str:
    """Put a mark in the place of what is hidden in ``text[start:]``; line numbers stay."""
    body = text[start:]
    if not _CANDIDATE.search(body):
        return text
    parts, behind = [text[:start]], 0
    for left, right in _Scan(body, code_ranges(body)).spans():
        parts += [body[behind:left], HIDDEN_MARK, "\n" * body.count("\n", left, right)]
        behind = right
    return "".join([*parts, body[behind:]])


def block_comment(line: str) -> re.Pattern[str] | None:
    """What closes the comment that a line opens, where it is one that CommonMark doesn't know."""
    opening = _BLOCK_OPENING.match(line)
    if opening is None:
        return None
    closing = _closing(opening[0])
    return None if closing.search(line, opening.end()) else closing


def _closing(opening: str) -> re.Pattern[str]:
    if opening == "%%":
        return _PERCENT_END
    return next(
        end for start, end in _TEMPLATES.items() if re.match(start.replace("(?=\\s)", ""), opening, re.IGNORECASE)
    )


class _Scan:
    """One pass over a body; ``_gone`` are the closing marks that don't come any more."""

    def __init__(self, body: str, code: CodeRanges) -> None:
        self._body = body
        self._code = code
        self._code_ends = [end for _, end in code]
        self._gone: set[re.Pattern[str]] = set()
        self._breaks = [match.start() for match in _BREAK.finditer(body)]
        self._ticks: dict[int, list[int]] | None = None
        self._elements: dict[int, int] | None = None

    def spans(self) -> Iterator[tuple[int, int]]:
        at = 0
        while found := _OPENING.search(self._body, at):
            if code := self._code_at(found.start()):
                at = code[1]
                continue
            at = found.end()
            if found["ticks"]:
                at = self._after_code_span(found)
            elif (end := self._end(found)) is not None:
                yield found.start(), end
                at = end

    # -- ends

    def _end(self, found: re.Match[str]) -> int | None:
        """Where what begins here ends; None when nothing is hidden."""
        if found["html"]:
            return self._html(found.start())
        if found["percent"]:
            return self._percent(found)
        if found["declared"]:
            return self._declared(found)
        if found["tag"]:
            return self._element(found)
        if found["definition"]:
            return self._definition(found)
        return self._closed(_closing(found[0]), found.end()) if found["template"] else None

    def _html(self, start: int) -> int:
        after = start + 2  # `<!-->` is a whole comment
        if self._opens_line(start):
            return self._closed(_HTML_END, after) or len(self._body)
        limit = self._paragraph_end(start)
        end = self._body.find("-->", after, limit)
        if end >= 0:
            return end + 3
        # Another comment that begins first says that this mark was only mentioned.
        far = _HTML_NEXT.search(self._body, limit)
        return far.end() if far and far[0] == "-->" and not self._code_at(far.start()) else limit

    def _percent(self, found: re.Match[str]) -> int | None:
        start, body = found.start(), self._body
        end = self._closed(_PERCENT_END, found.end())
        opens_line = self._opens_line(start)
        if end is not None:
            before, behind = body[start - 1 : start], body[found.end() : found.end() + 1]
            limit = self._line_end(start) if before.isdigit() else self._paragraph_end(start)
            far = opens_line or behind == "\n" or ((not before or before.isspace()) and not behind.isspace())
            return end if end <= limit or (far and not before.isdigit()) else None
        alone = body[found.end() : found.end() + 1] in {"", " ", "\t", "\n"}
        return len(body) if opens_line and alone else None

    def _declared(self, found: re.Match[str]) -> int | None:
        if closing := {"<?": _INSTRUCTION_END, "<![cdata[": _CDATA_END}.get(found[0].lower()):
            return self._closed(closing, found.end())
        end = self._body.find(">", found.end(), self._paragraph_end(found.start()))
        return end + 1 if end >= 0 else None

    def _element(self, found: re.Match[str]) -> int | None:
        tag, name = found["tag"], found["name"].lower()
        if name in _VOID:
            return found.end() if "=" in tag and (name != "input" or _HIDDEN_INPUT.search(tag)) else None
        if name not in _NEVER_SHOWN and not _is_hidden(tag):
            return None
        if tag.endswith("/>"):
            return found.end()
        if name in _RAW_ENDS:
            end = self._closed(_RAW_ENDS[name], found.end())
            return end or (len(self._body) if self._opens_line(found.start()) else None)
        if self._elements is None:
            self._elements = self._matched_elements()
        end = self._elements.get(found.start())
        return end or (self._paragraph_end(found.start()) if "=" in tag or _is_hidden(tag) else None)

    def _definition(self, found: re.Match[str]) -> int | None:
        limit = self._paragraph_end(found.start())
        comment = found["label"].strip().lower() in {"//", "comment"}
        if target := _TARGET.match(self._body, found.end(), limit):
            if title := _TITLE.match(self._body, target.end(), limit):
                return title.end()
            if not comment:
                return None
        if not comment:
            return None
        if _OPEN_TITLE.match(self._body, found.end(), limit):
            return limit
        return self._line_end(found.end())

    def _closed(self, closing: re.Pattern[str], start: int) -> int | None:
        while closing not in self._gone:
            found = closing.search(self._body, start)
            if found is None:
                self._gone.add(closing)
            elif code := self._code_at(found.start()):
                start = code[1]
            else:
                return found.end()
        return None

    # -- places

    def _code_at(self, offset: int) -> tuple[int, int] | None:
        index = bisect_right(self._code_ends, offset)
        return self._code[index] if index < len(self._code) and self._code[index][0] <= offset else None

    def _line_end(self, offset: int) -> int:
        end = self._body.find("\n", offset)
        return len(self._body) if end < 0 else end

    def _paragraph_end(self, offset: int) -> int:
        index = bisect_left(self._breaks, offset)
        end = self._breaks[index] if index < len(self._breaks) else len(self._body)
        code = bisect_right(self._code_ends, offset)
        return min(end, self._code[code][0]) if code < len(self._code) else end

    def _opens_line(self, offset: int) -> bool:
        line = self._body.rfind("\n", max(0, offset - _MARGIN_CHARS), offset) + 1
        return (line > 0 or offset < _MARGIN_CHARS) and _LINE_START.fullmatch(self._body, line, offset) is not None

    def _after_code_span(self, found: re.Match[str]) -> int:
        """The end of the code span these backticks open, else of the backticks themselves."""
        if self._ticks is None:
            self._ticks = {}
            for run in re.finditer("`++", self._body):
                self._ticks.setdefault(len(run[0]), []).append(run.start())
        same = self._ticks[len(found["ticks"])]
        index = bisect_right(same, found.start())
        if index < len(same) and same[index] < self._paragraph_end(found.start()):
            return same[index] + len(found["ticks"])
        return found.end()

    def _matched_elements(self) -> dict[int, int]:
        """Where the element ends whose tag opens at an offset."""
        open_tags: dict[str, list[int]] = {}
        ends: dict[int, int] = {}
        for tag in _ANY_TAG.finditer(self._body):
            if self._code_at(tag.start()) or tag[0].endswith("/>"):
                continue
            same = open_tags.setdefault(tag["name"].lower(), [])
            if not tag["end"]:
                same.append(tag.start())
            elif same:
                ends[same.pop()] = tag.end()
        return ends


def _is_hidden(tag: str) -> bool:
    return _HIDDEN_ATTRIBUTE.search(_QUOTED.sub("=", tag)) is not None or _HIDDEN_STYLE.search(tag) is not None
