"""What the head of a file says: YAML, TOML or JSON becomes metadata, also of a head that is torn."""

from __future__ import annotations

import contextlib
import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

import yaml

from rag_mcp.text.heads import (
    MAX_HEAD_CHARS,
    Block,
    Syntax,
    fold,
    framed_access,
    head_at,
    names_access,
    skip_comments,
    stray_access,
)
from rag_mcp.text.links import find_links
from rag_mcp.text.properties import Properties, Value, joined

__all__ = ["FrontMatter", "parse_front_matter"]

_MAX_HEADS = 4
_MAX_ENTRIES = 200
_MAX_DEPTH = 50
_MAX_EVENTS = 20_000
_MAX_NODES = 20_000
_MAX_LABELS = 200
_MAX_LABEL_CHARS = 200
_MAX_TITLE_CHARS = 500
_MAX_DIGITS = 15

# The C parser is ten times as fast, and not in every build of PyYAML.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_DAY = re.compile(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?!\d)")
_ACCESS = "access"
_TAG = "tag:yaml.org,2002:"
_DATE_KEYS = ("date", "updated", "last_updated", "lastmod", "modified", "created")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What the head of a file says about it.

    ``body_start`` is the character offset of the first line after it, 0 when there is none. ``date`` is an ISO day.
    ``type`` is in lower case. Titles, aliases and tags are as written (``1.10`` stays ``1.10``). ``access`` is the word
    the head gives, in lower case; "" when the key is there in any spelling and its value is not one plain word; None when
    there is no such key. ``unread`` says why, and at which line, a head could not be read; its fields are then those of
    the lines that can be. ``properties`` are all keys of the head but ``access``, in lower case; ``links`` are the targets
    their values name.
    """

    body_start: int = 0
    title: str | None = None
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    date: str | None = None
    type: str | None = None
    access: str | None = None
    unread: str | None = None
    properties: Properties = field(default_factory=dict)
    links: tuple[str, ...] = ()


def parse_front_matter(text: str) -> FrontMatter:
    """Read the heads at the beginning of a file; `heads` states what one is. Never raises.

    Of a key that comes twice the first value counts, but for ``access``, which then has no plain word.
    """
    root = yaml.MappingNode(f"{_TAG}map", [])
    body_start, access, unread = 0, None, None
    for number in range(_MAX_HEADS + 1):
        start, comments = skip_comments(text, body_start)
        blocks = head_at(text, start)
        found = _read_first(text, blocks, readable=number < _MAX_HEADS)
        if (
            stray_access(text, start if number == 0 or start == body_start else len(text), comments)
            or (found is None and (_torn_access(text, blocks) or framed_access(text, start, behind_head=number > 0)))
            or (number == _MAX_HEADS and found and names_access(text[start : start + MAX_HEAD_CHARS], one_word=True))
        ):
            access = ""
        if found is None:
            break
        block, head, fault = found
        root.value.extend(head.value)
        access = _joined_access(access, _access(head, text[block.start : block.end], readable=fault is None))
        unread = unread or fault
        body_start = block.after
    fields = _fields(root)
    tags = tuple(dict.fromkeys(tag for raw in _labels(fields, "tags", "tag") if (tag := raw.lstrip("#").strip())))
    named = _named(fields)
    return FrontMatter(
        body_start=body_start,
        title=_title(fields),
        aliases=_labels(fields, "aliases", "alias"),
        tags=tags,
        date=_day(fields),
        type=_word(fields, "type"),
        access=access,
        unread=unread,
        properties=_properties(named, tags),
        links=_links(named),
    )


def _read_first(
    text: str, blocks: Sequence[Block], *, readable: bool
) -> tuple[Block, yaml.MappingNode, str | None] | None:
    """The block that is a head, what it says, and what is wrong with it: the first that reads, else the first meant."""
    faults: dict[Block, str] = {}
    for block in blocks:
        root, fault = (
            _read(text, block)
            if readable
            else (None, f"more than {_MAX_HEADS} heads, line {_line(text, block.start - 1)}")
        )
        if root is not None and block.fault is None:
            return block, root, None
        faults[block] = fault if block.fault is None else f"{block.fault}, line {_line(text, block.start - 1)}"
    meant = next((block for block in blocks if block.meant), None)
    return (meant, _salvaged(text[meant.start : meant.end]), faults[meant]) if meant else None


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _read(text: str, block: Block) -> tuple[yaml.MappingNode | None, str]:
    """The mapping a block holds, or None and why there is none."""
    source = text[block.start : block.end]
    first = _line(text, block.start)
    if len(source) > MAX_HEAD_CHARS:
        return None, f"longer than {MAX_HEAD_CHARS:,} characters, line {first}"
    if block.syntax is Syntax.YAML:
        root, fault, line = _compose(source)
        return root, f"{fault}, line {first + line}"
    try:
        value = tomllib.loads(source) if block.syntax is Syntax.TOML else _json(source)
    except (ValueError, RecursionError):
        return None, f"not valid {block.syntax}, line {first}"
    if not isinstance(value, dict) or not value:
        return None, f"not a table of keys and values, line {first}"
    return yaml.MappingNode(f"{_TAG}map", _node(value).value), ""


def _json(source: str) -> object:
    stripped = source.strip()
    return json.loads(stripped if stripped.startswith("{") else f"{{{stripped}}}", object_pairs_hook=_Pairs)


class _Pairs(dict[str, object]):
    """A JSON object that keeps keys that come twice."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def _node(value: object, depth: int = 0) -> yaml.Node:
    """Values of TOML and JSON as YAML has them, so that one set of rules reads all heads."""
    if isinstance(value, dict) and depth <= _MAX_DEPTH:
        pairs = value.pairs if isinstance(value, _Pairs) else value.items()
        return yaml.MappingNode(f"{_TAG}map", [(_node(str(key)), _node(item, depth + 1)) for key, item in pairs])
    if isinstance(value, list) and depth <= _MAX_DEPTH:
        return yaml.SequenceNode(f"{_TAG}seq", [_node(item, depth + 1) for item in value])
    if isinstance(value, (str, date, datetime)):
        return yaml.ScalarNode(f"{_TAG}{'str' if isinstance(value, str) else 'timestamp'}", str(value))
    kind = {bool: "bool", int: "int", float: "float"}.get(type(value), "null")
    return yaml.ScalarNode(f"{_TAG}{kind}", "" if kind == "null" else str(value))


# --- a head that can't be read ---------------------------------------------------------------------------------------

_ENTRY = re.compile(r"[\"']?(?P<key>[A-Za-z_]{1,20})[\"']?[ \t]*[:=][ \t]*(?P<value>[^\n]*)")
_QUOTES = re.compile(r"[\[\]\"'`]")


def _salvaged(source: str) -> yaml.MappingNode:
    """The entries of known keys that can be read by themselves; of one line that can't, the words as they stand."""
    found: list[tuple[yaml.Node, yaml.Node]] = []
    lines = source[:MAX_HEAD_CHARS].split("\n")
    starts = [index for index, line in enumerate(lines) if (entry := _ENTRY.match(line)) and _salvageable(entry["key"])]
    for index in starts[:_MAX_ENTRIES]:
        end = index + 1
        while end < len(lines) and (lines[end][:1] in {" ", "\t"} or lines[end].startswith("- ")):
            end += 1
        entry = _ENTRY.match(lines[index])
        assert entry is not None
        root = _compose("\n".join(lines[index:end]))[0] or _compose(lines[index])[0]
        node = root.value[0][1] if root else yaml.ScalarNode(f"{_TAG}str", _words(entry["key"], entry["value"]))
        found.append((yaml.ScalarNode(f"{_TAG}str", entry["key"].lower()), node))
    return yaml.MappingNode(f"{_TAG}map", found)


def _words(key: str, value: str) -> str:
    return value.strip(" \t\"'") if key.lower() == "title" else _QUOTES.sub("", value)


def _salvageable(key: str) -> bool:
    return key.lower() in {"title", "aliases", "alias", "tags", "tag", "type", *_DATE_KEYS}


# --- access ----------------------------------------------------------------------------------------------------------


def _access(root: yaml.MappingNode, source: str, *, readable: bool) -> str | None:
    """What one head says of ``access``: its word, "" for anything else that names it, None without it."""
    values = [
        value for key, value in root.value if isinstance(key, yaml.ScalarNode) and fold(key.value).strip() == _ACCESS
    ]
    if readable and len(values) == 1:
        word = _text(values[0])
        return fold(word)[:_MAX_LABEL_CHARS] if word and len(word.split()) == 1 else ""
    return "" if values or names_access(source, only_none=readable) else None


def _joined_access(before: str | None, now: str | None) -> str | None:
    return now if before is None else before if now is None or now == before else ""


def _torn_access(text: str, blocks: Sequence[Block]) -> bool:
    """Whether a block that is text all the same sets ``access`` in its first paragraph."""
    first = (text[block.start : min(block.end, block.start + MAX_HEAD_CHARS)].partition("\n\n")[0] for block in blocks)
    return any(names_access(paragraph, one_word=True) for paragraph in first)


# --- safe YAML -------------------------------------------------------------------------------------------------------


def _compose(source: str) -> tuple[yaml.MappingNode | None, str, int]:
    """The node graph of a non-empty mapping, or None with the reason and the line (from 0) of the fault.

    Nodes are never constructed, so tags and merge keys do nothing.
    """
    try:
        if not _bounded(yaml.parse(source, Loader=_LOADER)):
            return None, "too deep or too many values", 0
        root = yaml.compose(source, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        return None, _problem(error.problem or ""), error.problem_mark.line if error.problem_mark else 0
    except (yaml.YAMLError, ValueError, RecursionError):
        return None, "a character that YAML does not allow", 0
    if isinstance(root, yaml.MappingNode) and root.value:
        return root, "", 0
    return None, "not a list of keys and values", 0


def _problem(said: str) -> str:
    """The parser's words, without what they quote of the file."""
    if said.startswith("mapping values are not allowed"):
        return "a value with a colon needs quotes"
    return re.sub(r"'(?!:')[^\n]*'", "…", said) or "not valid YAML"


def _bounded(events: Iterator[yaml.Event]) -> bool:
    """Walk the events (which needs no recursion) to refuse what would be too deep or too large to compose."""
    depth = 0
    for seen, event in enumerate(events):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH or seen > _MAX_EVENTS:
            return False
    return True


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


def _properties(named: Properties, tags: Sequence[str]) -> Properties:
    return joined({"tags": tags}, {key: values for key, values in named.items() if key not in {"tags", "tag"}})


def _links(named: Properties) -> tuple[str, ...]:
    """A blank line between two values: nothing that one of them opens reaches into the next."""
    return find_links("\n\n".join(value for values in named.values() for value in values if isinstance(value, str)))


def _named(fields: Mapping[str, yaml.Node]) -> dict[str, list[Value]]:
    """The scalars below each key but ``access``: lists flattened, a mapping's keys behind a dot (``contact.phone``).

    An unquoted wikilink, which YAML reads as a list in a list, is the link it is meant as. Aliases may repeat a value as
    often as they like: of all keys together so many nodes are looked at.
    """
    found: dict[str, list[Value]] = {}
    waiting = [(key, node) for key, node in reversed(list(fields.items())) if fold(key).strip() != _ACCESS]
    left = _MAX_NODES
    while waiting and (left := left - 1):
        key, each = waiting.pop()
        values = found.setdefault(key, [])
        if (name := _bare_wikilink(each)) is not None:
            values.append(f"[[{name}]]")
        elif isinstance(each, yaml.SequenceNode):
            waiting += [(key, item) for item in reversed(each.value)]
        elif isinstance(each, yaml.MappingNode):
            waiting += [(_below(key, name), item) for name, item in reversed(each.value)]
        elif (text := _text(each)) is not None:
            values.append(_typed(text, each.tag))
    return found


def _below(key: str, name: yaml.Node) -> str:
    return f"{key}.{(_text(name) or '').lower()}"[:_MAX_LABEL_CHARS]


def _bare_wikilink(node: yaml.Node) -> str | None:
    for _ in "[[":
        if not (isinstance(node, yaml.SequenceNode) and node.flow_style and len(node.value) == 1):
            return None
        node = node.value[0]
    return _text(node) if isinstance(node, yaml.ScalarNode) and node.tag == f"{_TAG}str" and not node.style else None


def _typed(text: str, tag: str) -> Value:
    kind = tag.removeprefix(_TAG)
    if kind == "bool":
        return text.lower() in {"true", "yes", "on", "y"}
    with contextlib.suppress(ValueError):
        if kind == "int" and len(text) <= _MAX_DIGITS:
            return int(text)
        if kind == "float" and math.isfinite(number := float(text)):
            return number
    return text


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
