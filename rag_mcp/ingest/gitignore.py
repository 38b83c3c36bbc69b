r"""Patterns as git's ignore files have them, matched in time linear in the length of the path.

git's own matcher and the usual translations backtrack, so that ``*a*a*a*b`` on a long name never ends. Here a star is
matched once, as far left as it can be, which changes no verdict because what stands between two stars has a fixed
length. A line that git would silently match with nothing (a lone ``!``, an open bracket, ``[z-a]``, ``./x``,
``private\notes``) is an error: its author wanted something hidden.

What leaves out fails closed, so it differs from git in three ways: names are also compared as ``globs.folded`` does, like
those that a policy denies; blanks before a pattern do not count; ``x/**/`` means all that is in ``x``. What a ``!`` takes
in is compared as written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from rag_mcp.text.globs import SPAN, composed, folded, folded_glob, path_regex

__all__ = ["MAX_WILDCARD_CHARS", "BadPattern", "IgnoreRules", "Pattern"]

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
_WILD = "*?["
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_BRACKET = re.compile(r"\[(?P<not>[!^]?)(?P<body>\]?(?:\[:[a-z]*:\]|\\.|[^]\\])*)\]", re.DOTALL)
_ITEM = re.compile(r"\[:(?P<class>[a-z]*):\]|(?P<low>\\?.)(?:-(?P<high>\\?.))?", re.DOTALL)


class BadPattern(ValueError):
    """A line that is no pattern; ``line`` counts from 1, the message is the reason and does not quote it."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True, slots=True)
class Pattern:
    """``text`` is the line without its outer blanks, ``line`` counts from 1.

    ``parts`` are components, each the pieces between its stars; ``named`` patterns match at any depth, ``literal`` is
    the path or name of one without wildcards.
    """

    line: int
    text: str
    parts: tuple[Sequence[str], ...]
    exclude: bool
    folder_only: bool
    named: bool
    literal: str | None

    def regex(self) -> str:
        end = "/" if self.folder_only else "/?"
        found = path_regex(self.parts, anchored=True, below=end, inside=f"/.+{end}")
        if not self.exclude:
            return found
        # In any case, and as written: a negated set may match in only one of the two ways.
        return f"(?:{found}|(?i:{found}))" if "[^" in self.text or "[!" in self.text else f"(?i:{found})"

    def beginning(self) -> str:
        """The components before the first wildcard, ``folded``; nothing for a pattern that matches at any depth."""
        parts = () if self.named else self.text.strip("/").split("/")
        plain = takewhile(lambda part: not any(each in part for each in _WILD), parts)
        return folded("/".join(_ESCAPED.sub(r"\1", part) for part in plain))

    def loose(self) -> Pattern | None:
        """The pattern for ``folded`` paths, if there can be one."""
        if self.literal is not None:
            return replace(self, literal=folded(self.literal))
        text = folded_glob(self.text)
        if any(text.count(sign) != self.text.count(sign) for sign in "*?[]\\!/"):
            return None
        try:
            return _parsed(text, self.line)
        except ValueError:  # a range that runs backwards in small letters; as written it holds in any case
            return None


class IgnoreRules:
    """The patterns of one file, the last one that matches deciding. Raises BadPattern."""

    __slots__ = ("_lowered", "_loose", "_written", "patterns")

    def __init__(self, lines: Iterable[str]) -> None:
        self.patterns = tuple(_patterns(lines))
        loose = {index: each.loose() for index, each in enumerate(self.patterns) if each.exclude}
        self._written = _Table({i: p for i, p in enumerate(self.patterns) if p.literal is None or not p.exclude})
        self._loose = _Table({index: each for index, each in loose.items() if each is not None})
        self._lowered = all(
            each is None or each.literal is not None or each.text == self.patterns[index].text.lower()
            for index, each in loose.items()
        )

    def verdict(self, path: str, met: set[int] | None = None) -> bool | None:
        """True: left out; False: taken in by a ``!``; None: nothing is said. A folder's path ends in a slash.

        Only the entry itself is judged, as git does: what lies in a folder that is left out is never asked about.
        ``met`` takes up the places in ``patterns`` of those that match; not all, for the last wildcards stand before others.
        """
        loose = folded(path)
        # Where folding does no more than make letters small, the patterns as written, in any case, say the same.
        same = self._lowered and loose == path.lower()
        hits = self._written.hits(composed(path))
        hits += self._loose.hits(loose, wildcards=not same)
        if not hits:
            return None
        if met is not None:
            met.update(hits)
        return self.patterns[max(hits)].exclude

    def unmet(self, met: set[int], paths: Sequence[str]) -> list[Pattern]:
        """The patterns that matched nothing; ``paths`` are those that had a verdict, ``met`` what came of them."""
        return [
            pattern
            for index, pattern in enumerate(self.patterns)
            if index not in met
            and not (self._rivals(pattern) & met if pattern.literal is not None else _meets(pattern, paths))
        ]

    def _rivals(self, pattern: Pattern) -> set[int]:
        """Places of the patterns that stand before one without wildcards, for the same name or path."""
        table = self._loose if pattern.exclude else self._written
        literal = pattern.literal or ""
        key = folded(literal) if pattern.exclude else literal
        known = table.names if pattern.named else table.paths
        return {known[each] for each in (f"{key}/", key) if each in known}


class _Table:
    """Patterns by how they are looked up, each with its place."""

    __slots__ = ("_anywhere", "_rooted", "names", "paths")

    def __init__(self, patterns: Mapping[int, Pattern]) -> None:
        self.names = _plain(patterns, named=True)
        self.paths = _plain(patterns, named=False)
        self._anywhere = _compiled(patterns, named=True)
        self._rooted = _compiled(patterns, named=False)

    def hits(self, path: str, *, wildcards: bool = True) -> list[int]:
        """The last pattern of each kind that matches."""
        found = [self.paths[path]] if path in self.paths else []
        if wildcards and self._rooted is not None:
            found += _last(self._rooted, path)
        if self.names or (wildcards and self._anywhere is not None):
            name = path[path.rfind("/", 0, -1) + 1 :]
            if name in self.names:
                found.append(self.names[name])
            if wildcards and self._anywhere is not None:
                found += _last(self._anywhere, name)
        return found


_Compiled = tuple[re.Pattern[str], tuple[int, ...]]


def _plain(patterns: Mapping[int, Pattern], *, named: bool) -> dict[str, int]:
    found: dict[str, int] = {}
    for index, pattern in patterns.items():
        if pattern.literal is not None and pattern.named is named:
            found[f"{pattern.literal}/"] = index
            if not pattern.folder_only:
                found[pattern.literal] = index
    return found


def _compiled(patterns: Mapping[int, Pattern], *, named: bool) -> _Compiled | None:
    chosen = [i for i, pattern in patterns.items() if pattern.literal is None and pattern.named is named]
    if not chosen:
        return None
    chosen.reverse()  # the last pattern decides, and a regular expression takes the first alternative
    return re.compile("|".join(f"({patterns[i].regex()})" for i in chosen), re.DOTALL), tuple(chosen)


def _last(compiled: _Compiled, text: str) -> tuple[int, ...]:
    found = compiled[0].fullmatch(text)
    return () if found is None or found.lastindex is None else (compiled[1][found.lastindex - 1],)


def _meets(pattern: Pattern, paths: Iterable[str]) -> bool:
    alone = IgnoreRules([pattern.text])
    return any(alone.verdict(path) is not None for path in paths)


# --- reading patterns ------------------------------------------------------------------------------------------------


def _patterns(lines: Iterable[str]) -> Iterator[Pattern]:
    wildcards = 0
    for number, line in enumerate(lines, start=1):
        text = _trimmed(composed(line))
        if not text or text.startswith("#"):
            continue
        try:
            if text.startswith("!") and not line.startswith("!"):
                raise ValueError("no pattern: a blank before the !")
            pattern = _parsed(text, number)
        except ValueError as error:
            raise BadPattern(number, str(error)) from None
        wildcards += len(text) if pattern.literal is None else 0
        if wildcards > MAX_WILDCARD_CHARS:
            raise BadPattern(number, f"more than {MAX_WILDCARD_CHARS:,} characters of patterns with wildcards")
        yield pattern


def _trimmed(line: str) -> str:
    """Drop blanks around a pattern, but for a closing one that a backslash keeps."""
    text = line.strip()
    slashes = len(text) - len(text.rstrip("\\"))
    return f"{text} " if slashes % 2 and line.rstrip() != line else text


def _parsed(text: str, line: int) -> Pattern:
    """Raises ValueError with the reason."""
    exclude = not text.startswith("!")
    body = text if exclude else text[1:]
    folder_only = body.endswith("/")
    rooted = body.startswith("/")
    parts = body[rooted : -1 if folder_only else None].split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise ValueError("no pattern: it is empty, or has an empty, . or .. component")
    translated = tuple(SPAN if part == "**" else _pieces(part) for part in parts)
    plain = not any(character in text for character in _WILD)
    named = not rooted and len(parts) == 1
    literal = _ESCAPED.sub(r"\1", "/".join(parts)) if plain else None
    if named and translated[0] is SPAN:
        translated = (["", ""],)
    if exclude and translated[-1] is SPAN and any(part is not SPAN for part in translated):
        folder_only = False  # to git x/**/ leaves the files right in x in, which nobody means
    return Pattern(line, text, translated, exclude, folder_only, named, literal)


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
