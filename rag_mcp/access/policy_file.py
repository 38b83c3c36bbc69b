"""The policy file: YAML in, a ``Policy`` out, every fault with its line and key; the only importer of yaml and pydantic.

Keys and values of a policy are names of folders and projects, so what callers may read of a fault is its line and kind
alone; the rest is the operator's.

A policy needs no anchors, tags or deep nesting, so these are refused before anything is built from them; what is left
can't grow beyond the file's own size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from rag_mcp.access.policy import BUILT_IN_RULES, Policy, ProfileRule, Rule, SecretAllowance
from rag_mcp.errors import PolicyError
from rag_mcp.models import SourceClass
from rag_mcp.text.globs import composed, glob_problem
from rag_mcp.text.sanitize import printable

__all__ = ["parse_policy"]

MAX_DEPTH = 10
MAX_EVENTS = 20_000
MAX_FAULTS_SHOWN = 5

_Location = tuple[str | int, ...]


def parse_policy(raw: bytes, *, name: str) -> Policy:
    """Build the policy a file's bytes describe; ``name`` is how messages call the file. Raises PolicyError."""
    data, lines = _read_yaml(raw, name=name)
    try:
        file = _File.model_validate(data)
    except ValidationError as error:
        faults = [_fault(detail, lines) for detail in error.errors(include_url=False, include_input=False)]
        raise _faulty(name, *faults) from error
    return file.policy()


@dataclass(frozen=True, slots=True)
class _Fault:
    """``kind`` quotes nothing of the file; ``detail`` may."""

    line: int
    kind: str
    detail: str


def _faulty(name: str, *faults: _Fault) -> PolicyError:
    shown = faults[:MAX_FAULTS_SHOWN]
    more = [f"(and {len(faults) - len(shown)} more)"] if len(faults) > len(shown) else []
    kinds = "; ".join([*dict.fromkeys(f"line {fault.line}: {fault.kind}" for fault in shown), *more])
    return PolicyError(
        f"The policy file can't be used ({kinds}). The server's log and rag-mcp doctor tell its operator what to write.",
        detail="\n".join([*(f"{name}, line {fault.line}: {fault.detail}" for fault in shown), *more]),
    )


# --- the shape -------------------------------------------------------------------------------------------------------


def _usable_glob(glob: str) -> str:
    if problem := glob_problem(glob):
        raise ValueError(f"the pattern {problem}")
    return glob


def _usable_text(text: str) -> str:
    if not text.isprintable() or text != text.strip():
        raise ValueError("has invisible characters or blanks around it")
    return composed(text)


_Glob = Annotated[str, AfterValidator(_usable_glob)]
_Globs = Annotated[list[_Glob], Field(max_length=1000)]
_Text = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_usable_text)]
_ProfileName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Rule(_Section):
    path: _Glob
    source_class: SourceClass | None = Field(default=None, alias="class")
    project: _Text | None = None

    @model_validator(mode="after")
    def _says_something(self) -> _Rule:
        if self.source_class is None and self.project is None:
            raise ValueError("a rule needs a class, a project, or both")
        return self


class _Profile(_Section):
    classes: frozenset[SourceClass]
    explicit_only: frozenset[SourceClass] = frozenset()

    @model_validator(mode="after")
    def _explicit_is_given(self) -> _Profile:
        if extra := self.explicit_only - self.classes:
            raise ValueError(f"explicit_only names what classes does not give: {', '.join(sorted(extra))}")
        return self


class _Allowance(_Section):
    path: _Glob
    kinds: frozenset[_Text] = frozenset()


class _File(_Section):
    version: Literal[1] = 1
    rules: Annotated[list[_Rule], Field(max_length=1000)] = Field(default_factory=list)
    profiles: dict[_ProfileName, _Profile] = Field(default_factory=dict)
    include: _Globs = Field(default_factory=list)
    deny: _Globs = Field(default_factory=list)
    allow_secrets: Annotated[list[_Allowance], Field(max_length=1000)] = Field(default_factory=list)
    description: Annotated[str, Field(max_length=1000)] = ""

    def policy(self) -> Policy:
        return Policy(
            rules=(*(Rule(rule.path, rule.source_class, rule.project) for rule in self.rules), *BUILT_IN_RULES),
            profiles={name: ProfileRule(each.classes, each.explicit_only) for name, each in self.profiles.items()},
            include=tuple(self.include),
            deny=tuple(self.deny),
            allow_secrets=tuple(SecretAllowance(each.path, each.kinds) for each in self.allow_secrets),
            description=self.description,
        )


_KEYS: dict[str, type[_Section]] = {"rules": _Rule, "profiles": _Profile, "allow_secrets": _Allowance}


_KINDS = {"extra_forbidden": "an unknown key", "missing": "a key is missing"}


def _fault(detail: Any, lines: dict[_Location, int]) -> _Fault:
    location: _Location = tuple(part for part in detail["loc"] if part != "[key]")
    message = str(detail["msg"]).removeprefix("Value error, ")
    if detail["type"] == "extra_forbidden":
        section = _KEYS[str(location[0])] if len(location) > 1 else _File
        allowed = ", ".join(field.alias or name for name, field in section.model_fields.items())
        message = f"unknown key; allowed: {allowed}"
    elif detail["type"] == "string_pattern_mismatch":
        message = "a profile's name is small letters, digits, - and _, at most 64"
    kind = _KINDS.get(detail["type"], "a value that can't be used")
    return _Fault(_line(location, lines), kind, f"{_key(location)}: {message}")


def _line(location: _Location, lines: dict[_Location, int]) -> int:
    while location and location not in lines:
        location = location[:-1]
    return lines.get(location, 1)


def _key(location: _Location) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return printable(path.lstrip(".")) or "(file)"


# --- YAML ------------------------------------------------------------------------------------------------------------


def _read_yaml(raw: bytes, *, name: str) -> tuple[dict[str, object], dict[_Location, int]]:
    """Return the data and the line of every key and item."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _unreadable(name, line, "not UTF-8 text; save it as UTF-8.") from error
    try:
        _refuse_excess(text, name=name)
        node = yaml.compose(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise _faulty(name, _Fault(line, "not YAML", f"not YAML: {error.problem}; put patterns in quotes.")) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _unreadable(name, line, "a character YAML does not allow.") from error
    if not isinstance(node, yaml.MappingNode):
        raise _unreadable(name, 1, "expected keys such as rules: and deny:, found none; see the example policy.")
    lines: dict[_Location, int] = {}
    return _mapping(node, (), lines, name), lines


def _unreadable(name: str, line: int, what: str) -> PolicyError:
    """A fault in words that quote nothing."""
    return _faulty(name, _Fault(line, what.partition(";")[0].rstrip("."), what))


def _refuse_excess(text: str, *, name: str) -> None:
    """Raise PolicyError for anchors, tags and depth while they are still a stream of events, before they cost."""
    depth = 0
    for count, event in enumerate(_events(text)):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _unreadable(name, line, "anchors and aliases are not allowed; write the value out.")
        if getattr(event, "tag", None):
            raise _unreadable(name, line, "tags (!...) are not allowed; write plain text.")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH or count > MAX_EVENTS:
            raise _unreadable(name, line, "more nesting or entries than a policy can have.")


def _events(text: str) -> Iterator[Any]:
    yield from yaml.parse(text, yaml.SafeLoader)


def _mapping(node: Any, at: _Location, lines: dict[_Location, int], name: str) -> dict[str, object]:
    data: dict[str, object] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode) or not key_node.tag.endswith(":str"):
            kind = "a key must be text"
            raise _faulty(name, _Fault(line, kind, f"{_key(at)}: {kind}; put it in quotes."))
        key = key_node.value
        if key in data:
            first = lines[(*at, key)]
            twice = f"stands twice (first in line {first})"
            raise _faulty(name, _Fault(line, f"a key {twice}", f"{_key((*at, key))}: {twice}."))
        lines[(*at, key)] = line
        data[key] = _value(value_node, (*at, key), lines, name)
    return data


def _value(node: Any, at: _Location, lines: dict[_Location, int], name: str) -> object:
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, at, lines, name)
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            lines[(*at, index)] = item.start_mark.line + 1
        return [_value(item, (*at, index), lines, name) for index, item in enumerate(node.value)]
    kind = node.tag.rsplit(":", 1)[-1]
    if kind == "str":
        return node.value
    if kind == "int" and re.fullmatch(r"\d{1,9}", node.value):
        return int(node.value)
    what = "nothing" if kind == "null" else f"a {kind}"
    kind_of_fault = "expected a value or text"
    detail = f"{_key(at)}: {kind_of_fault}, found {what}; put text in quotes, or leave the key out."
    raise _faulty(name, _Fault(node.start_mark.line + 1, kind_of_fault, detail))
