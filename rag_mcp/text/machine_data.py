"""Which stretches of a text are data and no prose: drawings, base64, minified code, tables of numbers? Pure.

They are told by their shape, whatever the file is called. The words that people wrote into a drawing stay, and so does the
number of lines. Every search goes on behind what it passed, so the time is linear.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from rag_mcp.text.marks import DATA_MARK

__all__ = ["LeftOut", "leave_out_data", "names_nothing"]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What kind of data was taken out, and at which line of the text it began."""

    kind: str
    line: int


@dataclass(frozen=True, slots=True)
class _Data:
    kind: str
    start: int
    end: int
    words: tuple[str, ...] = ()


def leave_out_data(text: str, start: int) -> tuple[str, tuple[LeftOut, ...]]:
    """``text`` with a mark, and what people wrote in it, in the place of data in ``text[start:]``; and what that was."""
    told: list[LeftOut] = []
    for find in (_json_data, _encoded, _minified, _numbers):
        parts, behind, line = [], 0, 1
        for data in find(text, start):
            line += text.count("\n", behind, data.start)
            told.append(LeftOut(data.kind, line))
            line_ends = text.count("\n", data.start, data.end)
            parts += [text[behind : data.start], _in_place(data, line_ends)]
            behind = data.end
            line += line_ends
        text = "".join([*parts, text[behind:]]) if parts else text
    return text, tuple(sorted(told, key=lambda each: each.line))


def _in_place(data: _Data, line_ends: int) -> str:
    """A word of the data a line where there are lines enough."""
    if len(data.words) <= line_ends:
        return "\n".join([DATA_MARK, *data.words]) + "\n" * (line_ends - len(data.words))
    return " ".join([DATA_MARK, "; ".join(data.words)]) + "\n" * line_ends


# --- JSON ------------------------------------------------------------------------------------------------------------

_JSON_START = re.compile(r"""^[ \t]*+(?=\{\s*+["}]|\[\s*+(?:[\]{"0-9tfn-]|\[\s*+[\[\]{"0-9-]))""", re.MULTILINE)
# Each failure counts the lines before it; a text with more of them holds no data that would be found behind.
_FAILURES = 100
_JSON_CHARS = 500
# So many characters to a line, and nobody wrote it by hand.
_MINIFIED_LINE = 500
_MANY_NUMBERS, _MOSTLY = 100, 0.8
_PLACES = frozenset({"x", "y", "width", "height"})
# Keys whose values are words in whatever they are kept, and such that hold what nobody wrote.
_WORDS_OF = frozenset({
    "text", "originaltext", "rawtext", "label", "name", "title", "caption", "description", "comment", "source", "content",
    "subject", "file",
})  # fmt: skip
_NO_WORDS_OF = frozenset({"outputs", "files", "appstate", "points"})
_SENTENCE = re.compile(r"[^\W\d_]{2,}+[,;:]?+\s++[^\W\d_]{2,}")
_ENCODED_LOOK = re.compile(r"[A-Za-z0-9+/=_-]{100}")


def _json_data(text: str, start: int) -> Iterator[_Data]:
    decoder, failures = json.JSONDecoder(), 0
    found = _JSON_START.search(text, start)
    while found and failures < _FAILURES:
        at = found.end()
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            end = max(at, error.pos)
            failures += 1
        except (ValueError, RecursionError):  # a number of thousands of digits, brackets without end
            end = _line_end(text, at)
        else:
            kind = _kind_of(value, (end - at) / (text.count("\n", at, end) + 1)) if end - at >= _JSON_CHARS else None
            if kind:
                yield _Data(kind, at, end, tuple(dict.fromkeys(_words(value))))
        found = _JSON_START.search(text, end + 1)


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _kind_of(value: object, chars_a_line: float) -> str | None:
    scalars = numbers = 0
    for _, each in _parts(value):
        if isinstance(each, dict):
            if {"x", "y"} <= each.keys() and len(_PLACES & each.keys()) > 2:
                return "drawing"
            if {"cells", "nbformat"} <= each.keys():
                return "notebook"
        elif not isinstance(each, list):
            scalars += 1
            numbers += isinstance(each, int | float) and not isinstance(each, bool)
    if scalars >= _MANY_NUMBERS and numbers > _MOSTLY * scalars:
        return "numbers"
    return "minified data" if chars_a_line >= _MINIFIED_LINE else None


def _words(value: object) -> Iterator[str]:
    for key, each in _parts(value, without=_NO_WORDS_OF):
        if isinstance(each, str) and (key in _WORDS_OF or _SENTENCE.search(each)):
            line = " ".join(each.split())
            if line and not _ENCODED_LOOK.search(line):
                yield line


def _parts(value: object, without: frozenset[str] = frozenset()) -> Iterator[tuple[str, object]]:
    """All values in reading order, each with the key it stands under, in lower case."""
    waiting: list[tuple[str, object]] = [("", value)]
    while waiting:
        key, each = waiting.pop()
        yield key, each
        if isinstance(each, dict):
            named = ((str(name).lower(), item) for name, item in each.items())
            waiting += [(name, item) for name, item in named if name not in without][::-1]
        elif isinstance(each, list):
            waiting += [(key, item) for item in reversed(each)]


# --- base64 and the like ---------------------------------------------------------------------------------------------

_ENCODED_CHARS = 400
_RUN = re.compile(
    r"""(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/_-]{40,}+={0,2}+
    (?:[ \t]*+\n(?:[ \t>]*+\n)?+[ \t>]*+[A-Za-z0-9+/_-]{40,}+={0,2}+(?![^\s"'<>)\]}%`]))*+
    (?:[ \t]*+\n[ \t>]*+[A-Za-z0-9+/_-]{1,100}+={0,2}+[ \t]*+(?=\n[ \t>]*+(?:[`~%-]|\n)|\n?\Z))?+""",
    re.VERBOSE,
)
_SECRET = re.compile(r"private|secret|token|passw|api.?key|BEGIN (?!CERT|PUBLIC)", re.IGNORECASE)
_BEFORE = 120


def _encoded(text: str, start: int) -> Iterator[_Data]:
    """Long runs in the letters of base64 that hold what such data holds and words don't."""
    for run in _RUN.finditer(text, start):
        at, end = run.span()
        # What may be a key has to be seen by the guard, which leaves its file out.
        if end - at >= _ENCODED_CHARS and _is_encoded(run[0]) and not _SECRET.search(text, max(0, at - _BEFORE), at):
            yield _Data("base64", at, end)


def _is_encoded(run: str) -> bool:
    chars = "".join(run.split())
    digits = sum(map(chars.count, "0123456789"))
    upper, lower = sum(map(str.isupper, chars)), sum(map(str.islower, chars))
    if not 0.03 * len(chars) <= digits <= 0.8 * len(chars):
        return False
    return min(upper, lower) >= 0.1 * len(chars) or set(chars.lower()) <= set("0123456789abcdef")


# --- minified lines --------------------------------------------------------------------------------------------------

_LONG_LINE = re.compile(r"^(?!.*\]\()[^\n]{2000,}+", re.MULTILINE)
_STRUCTURE = str.maketrans("", "", "{}[]();:=,\"'<>+-*/&|!?.$#%\\")
_QUOTED = re.compile(r'"((?:[^"\\\n]|\\.)*+)"')


def _minified(text: str, start: int) -> Iterator[_Data]:
    """Lines with almost no blank and many signs, as no language is written; quoted sentences in them stay."""
    for found in _LONG_LINE.finditer(text, start):
        line = found[0]
        signs = len(line) - len(line.translate(_STRUCTURE))
        if line.isascii() and line.count(" ") <= 0.06 * len(line) and signs >= 0.12 * len(line):
            quoted = (match[1] for match in _QUOTED.finditer(line))
            words = tuple(dict.fromkeys(each for each in quoted if _SENTENCE.search(each)))
            yield _Data("minified data", found.start(), found.end(), words)


# --- tables of numbers -----------------------------------------------------------------------------------------------

# Dates and exponents are numbers too.
_ROW = re.compile(r"^[ \t]*+\|?[ \t]*+[-+0-9.][-+0-9.,;:/eETZ%| \t]*+$", re.MULTILINE)
_CELL = re.compile(r"[^|,;\s]++")
_ROWS, _CELLS, _ROWS_KEPT = 200, 3, 10


def _numbers(text: str, start: int) -> Iterator[_Data]:
    """Of a long table in which nothing but numbers stands, what follows the first rows."""
    rows: list[re.Match[str]] = []
    for row in _ROW.finditer(text, start):
        if rows and row.start() != rows[-1].end() + 1:
            yield from _table(rows)
            rows = []
        rows.append(row)
    yield from _table(rows)


def _table(rows: Sequence[re.Match[str]]) -> Iterator[_Data]:
    if len(rows) >= _ROWS and sum(len(_CELL.findall(row[0])) >= _CELLS for row in rows) >= _MOSTLY * len(rows):
        yield _Data("numbers", rows[_ROWS_KEPT].start(), rows[-1].end())


# --- names -----------------------------------------------------------------------------------------------------------

_HEADINGS_OF_TOOLS = frozenset({"text elements", "excalidraw data", "drawing", "embedded files", "element links"})


def names_nothing(heading: str, properties: Collection[str]) -> bool:
    """Tell whether a heading is one that a drawing tool puts into each of its files."""
    return "excalidraw-plugin" in properties and heading.strip().lower() in _HEADINGS_OF_TOOLS
