"""The properties of a document, and whether it is among those a filter asks for. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TypeAlias

from rag_mcp.text.globs import GlobSet, composed

__all__ = ["DocumentFilter", "Properties", "Value", "body_properties", "joined", "own_day"]

Value: TypeAlias = "str | int | float | bool"
Properties: TypeAlias = "Mapping[str, Sequence[Value]]"

_TAGS = "tags"
_DATE_KEYS = ("date", "created", "updated", "last_updated", "lastmod", "modified")
_MAX_KEYS = 200
_MAX_VALUES = 200
_MAX_CHARS = 200

_FIELD = re.compile(r"[ \t]*(?:[-*+][ \t]+)?([^\W\d][\w.-]{0,50}):: +(\S[^\n]*)")
_TAG = re.compile(r"(?:(?<=\s)|^)#(\w[\w/-]{0,99})", re.MULTILINE)
_FENCE = re.compile(r"[ \t]*(```|~~~)")
_CODE = re.compile(r"`[^`\n]*`")
_NAME_DAY = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")
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


def own_day(path: str, properties: Properties) -> str | None:
    """The ISO day a document gives itself: that of its head, else the one in its name."""
    values = (value for key in _DATE_KEYS for value in properties.get(key, ()) if isinstance(value, str))
    days = (_day(_ISO.match(value)) for value in values)
    named = (_day(match) for match in _NAME_DAY.finditer(path.rpartition("/")[2]))
    return next((day for found in (days, named) for day in found if day), None)


def _day(match: re.Match[str] | None) -> str | None:
    try:
        return date(*map(int, match.groups())).isoformat() if match else None
    except ValueError:
        return None


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

    def test(self) -> Callable[[str, Properties], bool]:
        """The test of a path and its properties, with what costs once done once."""
        inside = _inside(self.path)
        tags = tuple(map(_tag, self.tags))
        where = [(key.lower(), tuple(map(_plain, wanted))) for key, wanted in self.where]

        def passes(path: str, properties: Properties) -> bool:
            return (
                inside(path)
                and _tagged(tags, properties)
                and all(_holds(properties.get(key, ()), wanted) for key, wanted in where)
                and self._in_time(path, properties)
            )

        return passes

    def unknown_keys(self, known: Collection[str]) -> Iterator[str]:
        return (key for key, _ in self.where if key.lower() not in known)

    def _in_time(self, path: str, properties: Properties) -> bool:
        if self.since is None and self.until is None:
            return True
        day = own_day(path, properties)
        if day is None:
            return False
        return (self.since or date.min).isoformat() <= day <= (self.until or date.max).isoformat()


def _inside(path: str | None) -> Callable[[str], bool]:
    if path is None:
        return lambda _: True
    if "*" in path or "?" in path:
        return GlobSet([path]).matches
    folder = composed(path.strip("/"))
    return lambda other: composed(other) == folder or composed(other).startswith(f"{folder}/")


def _tag(raw: Value) -> str:
    return str(raw).strip().lstrip("#").strip("/").casefold()


def _tagged(wanted: Sequence[str], properties: Properties) -> bool:
    if not wanted:
        return True
    given = {_tag(value) for value in properties.get(_TAGS, ())}
    return all(any(tag == each or tag.startswith(f"{each}/") for tag in given) for each in wanted)


def _holds(values: Sequence[Value], wanted: Sequence[Value]) -> bool:
    given = set(map(_plain, values))
    days = {day for value in values if isinstance(value, str) and (day := _day(_ISO.match(value)))}
    return all(each in given or each in days for each in wanted)


def _plain(value: Value) -> str | float:
    """Equal for what is written differently and means the same: 3, 3.0 and "3"; true and "True"; [[Ada]] and Ada."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value).strip().removeprefix("[[").removesuffix("]]")
    try:
        return float(text) if text[:1] in "+-.0123456789" else composed(text).casefold()
    except ValueError:
        return composed(text).casefold()
