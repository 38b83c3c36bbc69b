"""What of a passage a keyword index holds, whichever store keeps it: terms in fields, values to filter by, its record."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields

from rag_mcp.models import Chunk, DocClass, SourceClass
from rag_mcp.stores.base import PassageFilter
from rag_mcp.text.language import detect_language
from rag_mcp.text.marks import without_marks
from rag_mcp.text.terms import LANGUAGES, NO_LANGUAGE, Stem, index_terms

__all__ = ["OUTSIDE_SERIES", "Terms", "conditions", "dump", "load", "raw", "terms_of", "values_of"]

OUTSIDE_SERIES = "-"
_SECTION_GAP = 100
_CHUNK_FIELDS = tuple(field.name for field in fields(Chunk))
_TUPLES = ("heading_path", "aliases", "tags", "valid_on", "head")

Placed = list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Terms:
    """(term, position) of the text, of what leads to it (title, headings, aliases, tags, path), which goes on where the
    text ends, and of its document's head. The whole of a passage, its body, is its text and its lead."""

    text: Placed
    lead: Placed
    head: Placed
    language: str


def terms_of(chunk: Chunk, stem: Stem) -> Terms:
    text = without_marks(chunk.text)
    language = detect_language(text, default=chunk.language)
    own = index_terms(text, language, stem)
    lead = _in_sections(_lead_sections(chunk), language, stem, start=own[-1][1] + _SECTION_GAP if own else 0)
    head = _in_sections(chunk.head, language, stem, start=0)
    return Terms(own, lead, head, language if language in LANGUAGES else NO_LANGUAGE)


def _lead_sections(chunk: Chunk) -> list[str]:
    path = chunk.source.rsplit(".", 1)[0].replace("/", " ")
    return list(dict.fromkeys([chunk.title, *chunk.heading_path, *chunk.aliases, *chunk.tags, path]))


def _in_sections(sections: Iterable[str], language: str, stem: Stem, *, start: int) -> Placed:
    """The terms of all sections, so far apart that no phrase spans two of them."""
    found: Placed = []
    for section in sections:
        found += index_terms(section, language, stem, start=found[-1][1] + _SECTION_GAP if found else start)
    return found


# --- filters ---------------------------------------------------------------------------------------------------------


def values_of(chunk: Chunk) -> list[tuple[str, str]]:
    """(field, value) of all a passage can be filtered by."""
    found = [("source", raw(chunk.source)), ("doc_class", chunk.doc_class.value)]
    found += [("project", raw(chunk.project))] if chunk.project is not None else []
    held = [OUTSIDE_SERIES] if chunk.series is None else [_held_on(chunk.series, day) for day in chunk.valid_on]
    return [*found, *(("held", value) for value in held)]


def conditions(filters: PassageFilter) -> list[tuple[str, set[str]]]:
    """(field, values): in each of these fields a passage must have one of the values. What is left out is not among
    them."""
    allowed: list[tuple[str, set[str]]] = []
    if filters.project is not None:
        allowed.append(("project", {raw(filters.project)}))
    if filters.doc_class is not None:
        allowed.append(("doc_class", {filters.doc_class.value}))
    if filters.valid_days is not None:
        days = (_held_on(series, day) for series, day in filters.valid_days.items())
        allowed.append(("held", {OUTSIDE_SERIES, *days}))
    if filters.sources is not None:
        allowed.append(("source", set(map(raw, filters.sources))))
    return allowed


def raw(text: str) -> str:
    """A raw term an index can hold: lone surrogates (undecodable file names) escaped."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _held_on(series: str, day: str) -> str:
    return raw(f"{series}\x1f{day}")


# --- the record ------------------------------------------------------------------------------------------------------


def dump(chunk: Chunk) -> bytes:
    """ASCII JSON, so lone surrogates survive."""
    return json.dumps([getattr(chunk, name) for name in _CHUNK_FIELDS], separators=(",", ":")).encode("ascii")


def load(payload: bytes | str) -> Chunk:
    values = dict(zip(_CHUNK_FIELDS, json.loads(payload), strict=True))
    for name in _TUPLES:
        values[name] = tuple(values[name])
    values["source_class"] = SourceClass(values["source_class"])
    values["doc_class"] = DocClass(values["doc_class"])
    return Chunk(**values)
