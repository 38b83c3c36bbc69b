"""The properties of a document, its own date, and what a filter may ask of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple, TypeAlias

from rag_mcp.text.globs import composed

__all__ = [
    "UNDATED",
    "DocumentFilter",
    "OwnDate",
    "Properties",
    "Value",
    "as_lines",
    "asked_about",
    "body_properties",
    "comparable",
    "days_in",
    "few",
    "joined",
    "local_day",
    "own_date",
    "tags_of",
    "written_tag",
]

Value: TypeAlias = "str | int | float | bool"
Properties: TypeAlias = "Mapping[str, Sequence[Value]]"

_TAGS = "tags"
# Fields of every passage already: what names a document is searched with more weight than what is said of it.
_NAMES = frozenset({_TAGS, "tag", "title", "aliases", "alias"})
_DATE_KEYS = ("date", "created", "updated", "last_updated", "lastmod", "modified")
_MAX_KEYS = 200
_MAX_VALUES = 200
_MAX_CHARS = 200
_STEM = 5
_WORD = re.compile(r"[^\W_]+")

_FIELD = re.compile(r"[ \t]*(?:[-*+][ \t]+)?([^\W\d][\w.-]{0,50}):: +(\S[^\n]*)")
_TAG = re.compile(r"(?:(?<=\s)|^)#(\w[\w/-]{0,99})", re.MULTILINE)
_FENCE = re.compile(r"[ \t]*(```|~~~)")
_CODE = re.compile(r"`[^`\n]*`")
# As in 2031-02-03, 2031_02_03 (Logseq), 20310203 and, with a time of day, 203102031405 (Zettelkasten).
_NAME_DAY = re.compile(
    r"(?<!\d)(\d{4})([-_.])(\d{2})\2(\d{2})(?!\d)|(?<!\d)((?:19|20)\d{2})(\d{2})(\d{2})(?:\d{4}|\d{6})?(?!\d)"
)
_ISO = re.compile(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?!\d)")


def body_properties(body: str) -> Properties:
    """Tags (``#a/b``) and fields (``key:: value``) that stand in the text, outside of code."""
    found: dict[str, list[Value]] = {}
    prose = []
    inside = None
    for line in body.split("\n"):
        fence = _FENCE.match(line)
        if fence and inside in (None, fence[1]):
            inside = fence[1] if inside is None else None
        elif inside is None:
            prose.append(_CODE.sub("` `", line))
    for line in prose:
        if (field := _FIELD.match(line)) and field[1].lower() != "access":
            found.setdefault(field[1].lower(), []).extend(part for part in map(str.strip, field[2].split(",")) if part)
    tags = [tag for tag in _TAG.findall("\n".join(prose)) if not tag.isdecimal()]
    return joined(found, {_TAGS: [tag.rstrip("/") for tag in tags]})


def joined(*parts: Properties) -> dict[str, tuple[Value, ...]]:
    """All of them, each value once, in the order given and within the limits."""
    found: dict[str, dict[tuple[type, Value], None]] = {}
    for key, values in ((key, values) for part in parts for key, values in part.items() if values):
        if key not in found and len(found) == _MAX_KEYS:
            continue
        kept = found.setdefault(key[:_MAX_CHARS], {})
        for value in values:
            short = value[:_MAX_CHARS] if isinstance(value, str) else value
            if len(kept) < _MAX_VALUES:
                kept[type(short), short] = None
    return {key: tuple(value for _, value in kept) for key, kept in found.items()}


def as_lines(properties: Properties) -> tuple[str, ...]:
    """Key and values of each property as words to search, but for those that name the document."""
    return tuple(
        f"{key} {', '.join(str(each).lower() if isinstance(each, bool) else str(each) for each in values)}"
        for key, values in properties.items()
        if key not in _NAMES
    )


def asked_about(question: str, properties: Properties) -> Properties:
    """The properties that have a word of the question, a few letters at its end apart; all of them where none has."""
    words = {word[:_STEM] for word in _words(question)}
    found = {
        key: values
        for key, values in properties.items()
        if any(word[:_STEM] in words for word in _words(" ".join((key, *map(str, values)))))
    }
    return found or properties


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(composed(text).casefold()) if len(word) > 2]


def few(properties: Properties, max_chars: int) -> dict[str, tuple[Value, ...]]:
    """The first of them that fit, whole values only."""
    found: dict[str, tuple[Value, ...]] = {}
    for key, values in properties.items():
        max_chars -= len(key)
        kept = []
        for value in values:
            max_chars -= len(str(value))
            if max_chars < 0:
                break
            kept.append(value)
        if kept:
            found[key] = tuple(kept)
    return found


class OwnDate(NamedTuple):
    """An ISO day, and what says so: the key of a property, ``file name`` or ``file time``."""

    day: str | None
    source: str | None


UNDATED = OwnDate(None, None)


def own_date(path: str, properties: Properties, file_day: str) -> OwnDate:
    """The day a document gives itself: that of its head, else the one in its name, else that of its file."""
    for key in _DATE_KEYS:
        if day := next(days_in(properties.get(key, ())), None):
            return OwnDate(day, key)
    for found in _NAME_DAY.finditer(path.rpartition("/")[2]):
        year, _, month, day_, *compact = found.groups()
        if day := _iso(*((year, month, day_) if year else compact)):
            return OwnDate(day, "file name")
    return OwnDate(file_day, "file time") if file_day else UNDATED


def local_day(seconds: float) -> str:
    """The ISO day of a file's time where this runs; "" for a time that no calendar has."""
    try:
        return date.fromtimestamp(seconds).isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


def days_in(values: Sequence[Value]) -> Iterator[str]:
    """The ISO days that these values begin with."""
    for value in values:
        if isinstance(value, str) and (found := _ISO.match(value)) and (day := _iso(*found.groups())):
            yield day


def _iso(year: str, month: str, day: str) -> str:
    try:
        return date(int(year), int(month), int(day)).isoformat()
    except ValueError:
        return ""


@dataclass(frozen=True, slots=True)
class DocumentFilter:
    """What is asked of a document beside its text. All tags and properties given must hold; a list given for a
    property means that each of its values must be there."""

    tags: tuple[str, ...] = ()
    path: str | None = None
    since: date | None = None
    until: date | None = None
    where: tuple[tuple[str, tuple[Value, ...]], ...] = ()

    @property
    def empty(self) -> bool:
        return self == DocumentFilter()

    @property
    def keys(self) -> list[str]:
        return [key.lower() for key, _ in self.where]


def tags_of(properties: Properties) -> set[str]:
    return {written_tag(value) for value in properties.get(_TAGS, ())}


def written_tag(raw: Value) -> str:
    """The form under which tags are the same."""
    return str(raw).strip().lstrip("#").strip("/").casefold()


def comparable(value: Value) -> str | float:
    """Equal for what is written differently and means the same: 3, 3.0 and "3"; true and "True"; [[Ada]] and Ada."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value).strip().removeprefix("[[").removesuffix("]]")
    try:
        return float(text) if text[:1] in "+-.0123456789" else composed(text).casefold()
    except ValueError:
        return composed(text).casefold()
