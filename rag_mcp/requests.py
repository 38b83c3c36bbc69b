"""What a caller may ask: one model a tool; its parser and its JSON schema both come from the fields.

Lenient where the meaning is clear (numbers in strings, null and blank for "not given", k out of range), strict where
a guess would change the answer: a name or value that is not understood is an error that says what is allowed. Code that
makes a request itself is trusted; only ``parse`` checks.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import date
from functools import cache
from typing import Annotated, Any, Self, TypeVar, cast

from pydantic import BeforeValidator, Field, GetCoreSchemaHandler, TypeAdapter, ValidationInfo, WithJsonSchema

from rag_mcp.access.names import MAX_PATH_CHARS, from_cursor, plain_path, safe_source
from rag_mcp.errors import InvalidArgument, InvalidQuery
from rag_mcp.models import DocClass, Gate, Mode, SourceClass
from rag_mcp.text.globs import MAX_GLOB_CHARS, glob_problem
from rag_mcp.text.properties import DocumentFilter, Value
from rag_mcp.text.sanitize import neutralise, scrub

__all__ = [
    "ALL_CLASSES",
    "LIMITS",
    "CorporaList",
    "CorporaSearch",
    "CorporaSources",
    "DocumentRequest",
    "ListRequest",
    "NoRequest",
    "Request",
    "SearchRequest",
]

ALL_CLASSES = "all"
LIMITS: dict[str, int] = {
    "k_min": 1,
    "k_max": 20,
    "query_chars_max": 4_000,
    "max_chars_min": 200,
    "max_chars_max": 100_000,
    "context_max": 20,
    "list_limit_max": 500,
    "path_chars_max": MAX_PATH_CHARS,
}

_T = TypeVar("_T")
_WHOLE_NUMBER = re.compile(r"([+-]?)([0-9]+)(?:\.0*)?", re.ASCII)
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_PROJECT = re.compile(r"[\w.-]{1,100}")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Letters, marks or symbols by category that nevertheless show nothing: Hangul fillers, Braille blank, selectors.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | {chr(c) for c in range(0xFE00, 0xFE10)}
_MAX_DIGITS = 18
_MAX_FILTERS = 50
_MAX_POSITION = 10**9


# --- readers: a value as it came, to the value that is meant ---------------------------------------------------------


def _text(value: object, info: ValidationInfo) -> str:
    if not isinstance(value, str):
        raise InvalidArgument(_name(info), f"must be a string, not {_kind(value)}.")
    return value


def _query(value: object, info: ValidationInfo) -> str:
    name = _name(info)
    if value is None:
        raise InvalidQuery(name, "missing; say what to look for.")
    if not isinstance(value, str):
        raise InvalidQuery(name, f"must be a string, not {_kind(value)}.")
    # The length is looked at first, so that a huge text costs nothing; nobody pads a question by this much.
    longest = LIMITS["query_chars_max"]
    clean = value if len(value) > 16 * longest else _CONTROL.sub(" ", scrub(value)).strip()
    if len(clean) > longest:
        raise InvalidQuery(name, f"has {len(clean):,} characters; use at most {longest:,}.")
    if not any(_visible(character) for character in clean):
        raise InvalidQuery(name, "empty; say what to look for.")
    return clean


def _source(value: object, info: ValidationInfo) -> str:
    """Raises NotFound for a path that can't name a document of any corpus (absolute, climbing), exactly as for one that
    does not exist."""
    if value is None or not _text(value, info).strip():
        raise InvalidArgument(_name(info), "missing; give the source of a citation or of list_documents.")
    return safe_source(_text(value, info))


def _prefix(value: object, info: ValidationInfo) -> str:
    prefix = plain_path(_text(value, info).removesuffix("/"))
    if prefix is None:
        raise InvalidArgument(_name(info), "use a path relative to the corpus, with forward slashes.")
    return prefix


def _cursor(value: object, info: ValidationInfo) -> str:
    cursor = _text(value, info)
    if from_cursor(cursor) is None:
        raise InvalidArgument(_name(info), "not a cursor of this server; pass next_cursor unchanged, or leave it out.")
    return cursor


def _project(value: object, info: ValidationInfo) -> str:
    project = _text(value, info)
    if not _PROJECT.fullmatch(project):
        raise InvalidArgument(_name(info), "use 1 to 100 letters, digits, '.', '_' and '-'.")
    return project


def _day(value: object, info: ValidationInfo) -> date:
    text = _text(value, info).strip()
    try:
        if not _ISO_DATE.fullmatch(text):
            raise ValueError
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(_name(info), f"{_shown(value)} is not a date; use YYYY-MM-DD.") from None


def _labels(value: object, info: ValidationInfo) -> tuple[str, ...]:
    """One label, several between commas, or a list."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(each, str) for each in parts):
        raise InvalidArgument(_name(info), f"must be a list of strings, not {_kind(value)}.")
    return tuple(label for each in _few(parts, info) if (label := each.strip()))


def _few(values: list[_T], info: ValidationInfo) -> list[_T]:
    if len(values) > _MAX_FILTERS:
        raise InvalidArgument(_name(info), f"has {len(values)} entries; at most {_MAX_FILTERS} are possible.")
    return values


def _place(value: object, info: ValidationInfo) -> str:
    place = _text(value, info).strip().removeprefix("./").removesuffix("/")
    if problem := glob_problem(place):
        raise InvalidArgument(_name(info), f"{problem}.")
    return place


def _where(value: object, info: ValidationInfo) -> tuple[tuple[str, tuple[Value, ...]], ...]:
    if not isinstance(value, dict):
        raise InvalidArgument(_name(info), f'must be an object like {{"status": "open"}}, not {_kind(value)}.')
    found = []
    for key, wanted in _few(list(value.items()), info):
        values = wanted if isinstance(wanted, list) else [wanted]
        if not values or not all(isinstance(each, str | int | float) for each in values):
            raise InvalidArgument(
                _name(info), f"{_shown(str(key))} needs text, a number, true, false, or a list of these."
            )
        found.append((str(key).strip(), tuple(_few(values, info))))
    return tuple(found)


def _flag(value: object, info: ValidationInfo) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise InvalidArgument(_name(info), f"must be true or false, not {_shown(value)}.", allowed=("true", "false"))


def _one_of(*allowed: str) -> Callable[[object, ValidationInfo], str | None]:
    def read(value: object, info: ValidationInfo) -> str | None:
        text = _text(value, info)
        if text not in allowed:
            raise InvalidArgument(_name(info), f"{_shown(text)} is not known.", allowed=allowed)
        return None if text == ALL_CLASSES else text

    return read


def _whole(value: object, info: ValidationInfo) -> int:
    name = _name(info)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InvalidArgument(name, f"must be a whole number, not {_kind(value)}.")
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    written = _WHOLE_NUMBER.fullmatch(value.strip()) if isinstance(value, str) else None
    if written is None:
        raise InvalidArgument(name, f"must be a whole number, not {_shown(value)}.")
    digits = written[2].lstrip("0")
    # int() refuses very long digit strings; any number this long is out of every range here.
    number = int(digits or "0") if len(digits) <= _MAX_DIGITS else 10**_MAX_DIGITS
    return -number if written[1] == "-" else number


@dataclass(frozen=True, slots=True)
class _Clamped:
    """A whole number; one out of range is moved to the nearest allowed one."""

    low: int
    high: int

    def __get_pydantic_core_schema__(self, _: object, handler: GetCoreSchemaHandler) -> Any:
        limited = Annotated[int, Field(ge=self.low, le=self.high), BeforeValidator(self._read)]
        return handler.generate_schema(limited)

    def _read(self, value: object, info: ValidationInfo) -> int:
        return max(self.low, min(self.high, _whole(value, info)))


def _position(otherwise: str) -> Callable[[object, ValidationInfo], int]:
    """A reader of a place in a document, which is never moved to another one; ``otherwise`` says where places come from."""

    def read(value: object, info: ValidationInfo) -> int:
        number = _whole(value, info)
        if not 0 <= number < _MAX_POSITION:
            raise InvalidArgument(_name(info), otherwise)
        return number

    return read


def _name(info: ValidationInfo) -> str:
    return info.field_name or ""


def _visible(character: str) -> bool:
    return unicodedata.category(character)[0] not in "CZ" and character not in _BLANK


def _kind(value: object) -> str:
    names = {bool: "true/false", int: "a number", float: "a number", str: "a string", list: "a list", dict: "an object"}
    return names.get(type(value), "null" if value is None else type(value).__name__)


def _shown(value: object) -> str:
    """A caller's value for an error text: short, and safe to print."""
    if isinstance(value, str):
        return f'"{_short(value)}"'
    if isinstance(value, int) and abs(value) > 10**_MAX_DIGITS:
        return "a number that is too large"
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else _kind(value)


def _short(text: str, limit: int = 40) -> str:
    short = neutralise(" ".join(scrub(text[: limit + 1]).split()))[0]
    return f"{short[:limit]}…" if len(short) > limit else short


# --- fields of several requests --------------------------------------------------------------------------------------

_Position = Annotated[int, Field(ge=0)]
_SourceClass = Annotated[
    SourceClass | None,
    BeforeValidator(_one_of(ALL_CLASSES, *SourceClass)),
    WithJsonSchema({"type": "string", "enum": [ALL_CLASSES, *SourceClass]}),
    Field(
        description="all: every class you see without naming it.",
        json_schema_extra={"default": ALL_CLASSES},
    ),
]
_Project = Annotated[
    Annotated[str, Field(max_length=100)] | None,
    BeforeValidator(_project),
    Field(description="Only documents of this project."),
]
_Tags = Annotated[
    tuple[str, ...],
    BeforeValidator(_labels),
    WithJsonSchema({"type": "array", "items": {"type": "string"}}),
    Field(description="All of these tags; a means a/b too."),
]
_Place = Annotated[
    Annotated[str, Field(max_length=MAX_GLOB_CHARS)] | None,
    BeforeValidator(_place),
    Field(description="Folder or glob."),
]
_Date = Annotated[date, WithJsonSchema({"type": "string"})] | None
_Since = Annotated[_Date, BeforeValidator(_day), Field(description="First day of the document's own date, YYYY-MM-DD.")]
_Until = Annotated[_Date, BeforeValidator(_day), Field(description="Last day.")]
_Where = Annotated[
    tuple[tuple[str, tuple[Value, ...]], ...],
    BeforeValidator(_where),
    WithJsonSchema({"type": "object"}),
    Field(description="Properties and the values they must have.", json_schema_extra={"default": {}}),
]
_MaxChars = _Clamped(LIMITS["max_chars_min"], LIMITS["max_chars_max"])


# --- requests --------------------------------------------------------------------------------------------------------


class Request:
    """Base of all requests: frozen dataclasses whose field metadata say how an argument is read and described."""

    __slots__ = ()

    @classmethod
    def parse(cls, arguments: Mapping[str, object] | None) -> Self:
        """Read a call's arguments. Raises InvalidArgument (InvalidQuery for a question) naming the field, and NotFound
        for a source that no corpus can hold."""
        given = {} if arguments is None else arguments
        adapter, required, optional = _reader(cast("Hashable", cls))
        unknown = [name for name in given if name not in required and name not in optional]
        if unknown:
            missing = [name for name in required if given.get(name) is None]
            also = f"; {missing[0]} is missing" if missing else ""
            others = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
            allowed = (*required, *optional) or ("no arguments at all",)
            raise InvalidArgument(_short(str(unknown[0])), f"unknown argument{others}{also}.", allowed=allowed)
        values = {name: given.get(name) for name in required}
        values |= {name: value for name in optional if not _absent(value := given.get(name))}
        request: Self = adapter.validate_python(values)
        request.check()
        return request

    def check(self) -> None:
        """Look at the fields together. Raises InvalidArgument."""


class _Filtered(Request):
    """What has the fields of a filter of documents."""

    __slots__ = ()
    tags: tuple[str, ...]
    path: str | None
    since: date | None
    until: date | None
    where: tuple[tuple[str, tuple[Value, ...]], ...]

    @property
    def documents(self) -> DocumentFilter:
        return DocumentFilter(self.tags, self.path, self.since, self.until, self.where)


@cache
def _reader(request: Any) -> tuple[TypeAdapter[Any], tuple[str, ...], tuple[str, ...]]:
    """A request's validator, and the names of the fields that must be given and of the others."""
    required = tuple(field.name for field in fields(request) if field.default is MISSING)
    optional = tuple(field.name for field in fields(request) if field.name not in required)
    return TypeAdapter(request), required, optional


def _absent(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


@dataclass(frozen=True, slots=True)
class SearchRequest(_Filtered):
    """A validated question; ``source_class`` None means every class the profile gives without naming it."""

    query: Annotated[
        str,
        Field(
            description="The question, or names and words to find.", min_length=1, max_length=LIMITS["query_chars_max"]
        ),
        BeforeValidator(_query),
    ]
    k: Annotated[int, _Clamped(LIMITS["k_min"], LIMITS["k_max"]), Field(description="How many passages.")] = 5
    mode: Annotated[
        Mode,
        BeforeValidator(_one_of(*Mode)),
        Field(description="hybrid: words and meaning; fts: words only; vector: meaning only."),
    ] = Mode.HYBRID
    source_class: _SourceClass = None
    project: _Project = None
    doc_class: Annotated[
        DocClass | None, BeforeValidator(_one_of(*DocClass)), Field(description="Only notes or only handoffs.")
    ] = None
    confidence: Annotated[
        Gate,
        BeforeValidator(_one_of(*Gate)),
        Field(description="strict: withhold weak passages; normal: show them, marked low."),
    ] = Gate.STRICT
    as_of: Annotated[
        _Date,
        BeforeValidator(_day),
        Field(description="What dated snapshots said on this day, YYYY-MM-DD."),
    ] = None
    max_chars: Annotated[int, _MaxChars, Field(description="Budget for all texts, in characters.")] = 12_000
    explain: Annotated[bool, BeforeValidator(_flag), Field(description="Add how each passage came to its place.")] = (
        False
    )
    neighbours: Annotated[
        int, _Clamped(0, LIMITS["context_max"]), Field(description="Chunks of text around each passage.")
    ] = 0
    tags: _Tags = ()
    path: _Place = None
    since: _Since = None
    until: _Until = None
    where: _Where = ()


@dataclass(frozen=True, slots=True)
class DocumentRequest(Request):
    """``chunk_index`` asks for the chunk and ``context`` chunks on either side, ``from_chunk`` for all from there on,
    neither for the whole file. ``from_char`` leaves out the beginning of ``from_chunk``."""

    source: Annotated[
        str,
        Field(
            description="Path, title, alias or [[wikilink]] of the document.",
            min_length=1,
            max_length=LIMITS["path_chars_max"],
        ),
        BeforeValidator(_source),
    ]
    chunk_index: Annotated[
        _Position | None,
        BeforeValidator(_position("not a chunk number; use the chunk_index of a citation, 0 or more.")),
        Field(description="Read around this chunk; left out: all of it."),
    ] = None
    context: Annotated[
        int, _Clamped(0, LIMITS["context_max"]), Field(description="Chunks on either side of chunk_index.")
    ] = 1
    from_chunk: Annotated[
        _Position | None,
        BeforeValidator(_position("not a chunk number; use what next of an answer says.")),
        Field(description="Read on from this chunk, as next says; not with chunk_index."),
    ] = None
    from_char: Annotated[
        _Position,
        BeforeValidator(_position("not a place in a chunk; use what next of an answer says.")),
        Field(description="Where in it, as next says."),
    ] = 0
    max_chars: Annotated[
        int, _MaxChars, Field(description="Budget for the text; context gives way, not the chunk asked for.")
    ] = 40_000

    def check(self) -> None:
        if self.chunk_index is None:
            return
        if self.from_chunk is not None:
            raise InvalidArgument("from_chunk", "reads on, chunk_index reads around a chunk; give one of them.")
        if self.from_char:
            raise InvalidArgument("from_char", "belongs to from_chunk, not to chunk_index.")


@dataclass(frozen=True, slots=True)
class ListRequest(_Filtered):
    source_class: _SourceClass = None
    project: _Project = None
    prefix: Annotated[
        str | None,
        BeforeValidator(_prefix),
        Field(description="Only paths that start so, for example docs/."),
    ] = None
    linked_to: Annotated[
        str | None, BeforeValidator(_source), Field(description="Only documents that link to this one.")
    ] = None
    tags: _Tags = ()
    path: _Place = None
    since: _Since = None
    until: _Until = None
    where: _Where = ()
    cursor: Annotated[str | None, BeforeValidator(_cursor), Field(description="next_cursor of the page before.")] = None
    limit: Annotated[int, _Clamped(1, LIMITS["list_limit_max"]), Field(description="Documents a page.")] = 100


@dataclass(frozen=True, slots=True)
class NoRequest(Request):
    """Of a tool that takes no arguments."""


# --- requests to several corpora -------------------------------------------------------------------------------------

_Corpus = Annotated[str | None, BeforeValidator(_text), Field(description="Only this corpus.")]


@dataclass(frozen=True, slots=True)
class CorporaSearch(SearchRequest):
    corpus: _Corpus = None


@dataclass(frozen=True, slots=True)
class CorporaList(ListRequest):
    corpus: _Corpus = None


@dataclass(frozen=True, slots=True)
class CorporaSources(NoRequest):
    corpus: _Corpus = None
