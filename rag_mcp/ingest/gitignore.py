r"""Patterns as git's ignore files have them, matched in time linear in the length of the path.

git's own matcher and the usual translations backtrack, so that ``*a*a*a*b`` on a long name never ends. Here a star is
matched once, as far left as it can be, which changes no verdict because what stands between two stars has a fixed
length. A line that git would silently match with nothing (a lone ``!``, an open bracket, ``[z-a]``, ``./x``,
``private\notes``) is an error: its author wanted something hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rag_mcp.text.globs import SPAN, composed, path_regex

__all__ = ["MAX_WILDCARD_CHARS", "BadPattern", "IgnoreRules"]

# All patterns with wildcards together: they are tried one after the other on every name, plain names are looked up.
MAX_WILDCARD_CHARS = 16 * 1024

_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "\\x21-\\x7e",
    "lower": "a-z",
    "print": "\\x20-\\x7e",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\s",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_BRACKET = re.compile(r"\[(?P<not>[!^]?)(?P<body>\]?(?:\[:[a-z]*:\]|\\.|[^]\\])*)\]", re.DOTALL)
_ITEM = re.compile(r"\[:(?P<class>[a-z]*):\]|(?P<low>\\?.)(?:-(?P<high>\\?.))?", re.DOTALL)


class BadPattern(ValueError):
    """A line that is no pattern; ``line`` counts from 1, the message is the reason and does not quote it."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True, slots=True)
class _Pattern:
    """``parts`` are components, each the pieces between its stars; ``named`` patterns match at any depth."""

    parts: tuple[Sequence[str], ...]
    exclude: bool
    folder_only: bool
    named: bool
    literal: str | None

    def regex(self) -> str:
        end = "/" if self.folder_only else "/?"
        return path_regex(self.parts, anchored=True, below=end, inside=f"/.+{end}")


class IgnoreRules:
    """The patterns of one file, the last one that matches deciding. Raises BadPattern."""

    __slots__ = ("_anywhere", "_exclude", "_names", "_paths", "_rooted")

    def __init__(self, lines: Iterable[str]) -> None:
        patterns = list(_patterns(lines))
        self._exclude = [pattern.exclude for pattern in patterns]
        self._names = _plain(patterns, named=True)
        self._paths = _plain(patterns, named=False)
        self._anywhere = _compiled(patterns, named=True)
        self._rooted = _compiled(patterns, named=False)

    def verdict(self, path: str) -> bool | None:
        """True: left out; False: taken in by a ``!``; None: nothing is said. A folder's path ends in a slash.

        Only the entry itself is judged, as git does: what lies in a folder that is left out is never asked about.
        """
        path = composed(path)
        name = path[path.rfind("/", 0, -1) + 1 :]
        last = max(
            self._names.get(name, -1), self._paths.get(path, -1), _last(self._anywhere, name), _last(self._rooted, path)
        )
        return None if last < 0 else self._exclude[last]


_Compiled = tuple[re.Pattern[str], tuple[int, ...]] | None


def _plain(patterns: Sequence[_Pattern], *, named: bool) -> dict[str, int]:
    found: dict[str, int] = {}
    for index, pattern in enumerate(patterns):
        if pattern.literal is not None and pattern.named is named:
            found[f"{pattern.literal}/"] = index
            if not pattern.folder_only:
                found[pattern.literal] = index
    return found


def _compiled(patterns: Sequence[_Pattern], *, named: bool) -> _Compiled:
    chosen = [i for i, pattern in enumerate(patterns) if pattern.literal is None and pattern.named is named]
    if not chosen:
        return None
    chosen.reverse()  # the last pattern decides, and a regular expression takes the first alternative
    return re.compile("|".join(f"({patterns[i].regex()})" for i in chosen), re.DOTALL), tuple(chosen)


def _last(compiled: _Compiled, text: str) -> int:
    if compiled is None:
        return -1
    found = compiled[0].fullmatch(text)
    return -1 if found is None or found.lastindex is None else compiled[1][found.lastindex - 1]


# --- reading patterns ------------------------------------------------------------------------------------------------


def _patterns(lines: Iterable[str]) -> Iterator[_Pattern]:
    wildcards = 0
    for number, line in enumerate(lines, start=1):
        text = _trimmed(composed(line))
        if not text or text.startswith("#"):
            continue
        try:
            pattern = _parsed(text)
        except ValueError as error:
            raise BadPattern(number, str(error)) from None
        wildcards += len(text) if pattern.literal is None else 0
        if wildcards > MAX_WILDCARD_CHARS:
            raise BadPattern(number, f"more than {MAX_WILDCARD_CHARS:,} characters of patterns with wildcards")
        yield pattern


def _trimmed(line: str) -> str:
    """Drop closing blanks, but for one that a backslash keeps."""
    text = line.rstrip()
    slashes = len(text) - len(text.rstrip("\\"))
    return f"{text} " if slashes % 2 and len(text) < len(line) else text


def _parsed(text: str) -> _Pattern:
    """Raises ValueError with the reason."""
    exclude = not text.startswith("!")
    body = text if exclude else text[1:]
    folder_only = body.endswith("/")
    rooted = body.startswith("/")
    parts = body[rooted : -1 if folder_only else None].split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise ValueError("no pattern: it is empty, or has an empty, . or .. component")
    translated = tuple(SPAN if part == "**" else _pieces(part) for part in parts)
    plain = not any(character in text for character in "*?[")
    named = not rooted and len(parts) == 1
    literal = _ESCAPED.sub(r"\1", "/".join(parts)) if plain else None
    if named and translated[0] is SPAN:
        translated = (["", ""],)
    return _Pattern(translated, exclude, folder_only, named, literal)


def _pieces(part: str) -> list[str]:
    """Translate one component into regular expressions of fixed length, the stars standing between them."""
    pieces = [""]
    at = 0
    while at < len(part):
        character = part[at]
        width = 1
        if character == "*":
            if len(pieces) == 1 or pieces[-1]:  # several stars in a row are one
                pieces.append("")
        elif character == "?":
            pieces[-1] += "[^/]"
        elif character == "[":
            found = _BRACKET.match(part, at)
            if found is None:
                raise ValueError("no pattern: a bracket is not closed")
            pieces[-1] += _bracket(found)
            width = found.end() - at
        elif character == "\\":
            escaped = part[at + 1 : at + 2]
            if not escaped:
                raise ValueError("no pattern: it ends in a backslash")
            if escaped.isalnum():
                raise ValueError("no pattern: a backslash before a letter or digit; separate folders with /")
            pieces[-1] += re.escape(escaped)
            width = 2
        else:
            pieces[-1] += re.escape(character)
        at += width
    return pieces


def _bracket(found: re.Match[str]) -> str:
    items = "".join(map(_item, _ITEM.finditer(found["body"])))
    return f"(?!/)[{'^' if found['not'] else ''}{items}]"


def _item(item: re.Match[str]) -> str:
    if item["class"] is not None:
        if item["class"] not in _CLASSES:
            raise ValueError("no pattern: an unknown class of characters")
        return _CLASSES[item["class"]]
    low = item["low"].removeprefix("\\") or "\\"
    if item["high"] is None:
        return re.escape(low)
    high = item["high"].removeprefix("\\") or "\\"
    if low > high:
        raise ValueError("no pattern: a range runs backwards")
    return f"{re.escape(low)}-{re.escape(high)}"
