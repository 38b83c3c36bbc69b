"""YAML front matter becomes metadata; whatever only looks like it stays text of the file."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, TypeAlias

import yaml

__all__ = ["FrontMatter", "parse_front_matter"]

Json: TypeAlias = "str | int | float | bool | None | list[Json] | dict[str, Json]"

_MAX_CHARS = 65_536
_MAX_DEPTH = 50
_MAX_EVENTS = 20_000
_MAX_NODES = 20_000
_MAX_LABELS = 200
_MAX_LABEL_CHARS = 200
_MAX_TITLE_CHARS = 500

# The C parser is ten times as fast, and not in every build of PyYAML.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_OPENING = re.compile(r"---[ \t]*\n")
_CLOSING = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.MULTILINE)
_DAY = re.compile(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?!\d)")
_COMPLEX_KEY = "?"
_TAG = "tag:yaml.org,2002:"
_DATE_KEYS = ("date", "updated", "last_updated", "lastmod", "modified", "created")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What the head of a file says about it.

    ``body_start`` is the character offset of the first line after it, 0 when there is none. ``date`` is an ISO day.
    ``type`` and ``access`` are in lower case. Titles, aliases and tags are as written (``1.10`` stays ``1.10``).
    ``data`` is the whole mapping, fit for JSON; keys are strings.
    """

    body_start: int = 0
    title: str | None = None
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    date: str | None = None
    type: str | None = None
    access: str | None = None
    data: Mapping[str, Json] = field(default_factory=dict)


def parse_front_matter(text: str) -> FrontMatter:
    """Read a YAML mapping between ``---`` at the very start and a closing ``---`` or ``...`` line.

    A letterhead between rules, another YAML value, broken or oversized YAML, an unclosed block: all are ordinary text,
    answered by an empty FrontMatter. Never raises.
    """
    opening = _OPENING.match(text)
    closing = _CLOSING.search(text, opening.end()) if opening else None
    if opening is None or closing is None or closing.start() - opening.end() > _MAX_CHARS:
        return FrontMatter()
    root = _compose(text[opening.end() : closing.start()])
    if root is None:
        return FrontMatter()
    fields = _fields(root)
    return FrontMatter(
        body_start=closing.end(),
        title=_title(fields),
        aliases=_labels(fields, "aliases", "alias"),
        tags=tuple(dict.fromkeys(tag for raw in _labels(fields, "tags", "tag") if (tag := raw.lstrip("#").strip()))),
        date=_day(fields),
        type=_word(fields, "type"),
        access=_word(fields, "access"),
        data=_Converter().mapping(root, 0),
    )


# --- safe YAML -------------------------------------------------------------------------------------------------------


def _compose(source: str) -> yaml.MappingNode | None:
    """Return the node graph of a non-empty mapping. Nodes are never constructed, so tags and merge keys do nothing."""
    try:
        if not _bounded(yaml.parse(source, Loader=_LOADER)):
            return None
        root = yaml.compose(source, Loader=_LOADER)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return root if isinstance(root, yaml.MappingNode) and root.value else None


def _bounded(events: Iterator[yaml.Event]) -> bool:
    """Walk the events (which needs no recursion) to refuse what would be too deep or too large to compose."""
    depth = 0
    for seen, event in enumerate(events):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH or seen > _MAX_EVENTS:
            return False
    return True


class _Converter:
    """Turns nodes into JSON values, at most ``_MAX_NODES`` of them: aliases of aliases multiply without end."""

    def __init__(self) -> None:
        self._left = _MAX_NODES

    def value(self, node: yaml.Node, depth: int) -> Json:
        self._left -= 1
        if self._left < 0 or depth > _MAX_DEPTH:
            return None
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node.tag, node.value)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, depth + 1) for item in node.value if self._left > 0]
        return self.mapping(node, depth)

    def mapping(self, node: yaml.Node, depth: int) -> dict[str, Json]:
        return {
            key.value if isinstance(key, yaml.ScalarNode) else _COMPLEX_KEY: self.value(value, depth + 1)
            for key, value in node.value
            if self._left > 0
        }


def _scalar(tag: str, raw: str) -> Json:
    """Only plain decimal numbers become numbers: YAML 1.1 would read the time 12:30 as 750."""
    kind = tag.removeprefix(_TAG)
    if kind == "null":
        return None
    if kind == "bool":
        return raw.lower() in {"true", "yes", "on"}
    if kind == "int" and re.fullmatch(r"[-+]?(?:0|[1-9]\d{0,17})", raw):
        return int(raw)
    if kind == "float" and re.fullmatch(r"[-+]?\d{0,40}\.?\d{0,40}(?:e[-+]?\d{1,3})?", raw, re.IGNORECASE):
        try:
            number = float(raw)
        except ValueError:
            return raw
        return number if math.isfinite(number) else raw
    if kind == "timestamp":
        return _iso(raw)
    return raw


def _iso(raw: str) -> str:
    try:
        return datetime.fromisoformat(raw.strip()).isoformat() if len(raw.strip()) > 10 else _iso_day(raw) or raw
    except ValueError:
        return raw


def _iso_day(raw: str) -> str | None:
    match = _DAY.match(raw.strip())
    try:
        return date(*(int(part) for part in match.groups())).isoformat() if match else None
    except ValueError:
        return None


# --- the fields the index knows --------------------------------------------------------------------------------------


def _fields(root: yaml.MappingNode) -> dict[str, yaml.Node]:
    """Top-level values by lower-case key; the first of two spellings wins."""
    fields: dict[str, yaml.Node] = {}
    for key, value in root.value:
        if isinstance(key, yaml.ScalarNode):
            fields.setdefault(key.value.strip().lower(), value)
    return fields


def _text(node: yaml.Node | None) -> str | None:
    """A scalar as written, white space collapsed; None when empty, null or no scalar."""
    if not isinstance(node, yaml.ScalarNode) or node.tag == f"{_TAG}null":
        return None
    return " ".join(node.value.split()) or None


def _title(fields: Mapping[str, yaml.Node]) -> str | None:
    title = _text(fields.get("title"))
    return title[:_MAX_TITLE_CHARS] if title else None


def _word(fields: Mapping[str, yaml.Node], key: str) -> str | None:
    word = _text(fields.get(key))
    return word.lower()[:_MAX_LABEL_CHARS] if word else None


def _day(fields: Mapping[str, yaml.Node]) -> str | None:
    days = (_iso_day(raw) for key in _DATE_KEYS if (raw := _text(fields.get(key))))
    return next((day for day in days if day), None)


def _labels(fields: Mapping[str, yaml.Node], *keys: str) -> tuple[str, ...]:
    """Labels in the order written, each once: a list (nested too), a comma string, or ``#a #b``."""
    found: dict[str, None] = {}
    for leaf in (leaf for key in keys if key in fields for leaf in _leaves(fields[key], [_MAX_NODES])):
        if len(found) >= _MAX_LABELS:
            break
        found[leaf[:_MAX_LABEL_CHARS]] = None
    return tuple(found)


def _leaves(node: yaml.Node, left: list[int], *, depth: int = 0) -> Iterator[str]:
    left[0] -= 1
    if left[0] < 0 or depth > _MAX_DEPTH:
        return
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _leaves(item, left, depth=depth + 1)
    elif (text := _text(node)) is not None:
        words = text.split()
        all_hashed = len(words) > 1 and all(word.startswith("#") for word in words)
        separated = words if all_hashed and "," not in text else text.split(",")
        yield from (label for part in separated if (label := part.strip()))
