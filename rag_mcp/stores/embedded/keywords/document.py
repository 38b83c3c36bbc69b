"""What of a passage a class index holds: terms in fields, and its whole record."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from rag_mcp.models import Chunk, DocClass, SourceClass
from rag_mcp.stores.embedded.keywords.stemmer import Stemmer
from rag_mcp.text.language import detect_language
from rag_mcp.text.marks import without_marks
from rag_mcp.text.terms import LANGUAGES, NO_LANGUAGE, index_terms

__all__ = ["OUTSIDE_SERIES", "document", "dump", "held_on", "load", "raw", "schema"]

OUTSIDE_SERIES = "-"
_SECTION_GAP = 100
_CHUNK_FIELDS = tuple(field.name for field in fields(Chunk))
_TUPLES = ("heading_path", "aliases", "tags", "valid_on", "head")


def schema() -> Any:
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("id", stored=True, tokenizer_name="raw", index_option="basic")
    for name in ("body", "lead", "head"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="position")
    for name in ("source", "project", "doc_class", "held", "language"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    builder.add_bytes_field("payload", stored=True)
    return builder.build()


def raw(text: str) -> str:
    """A raw term Tantivy can hold: lone surrogates (undecodable file names) escaped."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def held_on(series: str, day: str) -> str:
    return raw(f"{series}\x1f{day}")


def _lead_sections(chunk: Chunk) -> list[str]:
    path = chunk.source.rsplit(".", 1)[0].replace("/", " ")
    return list(dict.fromkeys([chunk.title, *chunk.heading_path, *chunk.aliases, *chunk.tags, path]))


def _terms(sections: Iterable[str], language: str, stem: Stemmer, *, start: int) -> list[tuple[str, int]]:
    """The terms of all sections, so far apart that no phrase spans two of them."""
    found: list[tuple[str, int]] = []
    for section in sections:
        found += index_terms(section, language, stem, start=found[-1][1] + _SECTION_GAP if found else start)
    return found


def document(chunk: Chunk, stem: Stemmer) -> Any:
    import tantivy

    made = tantivy.Document()
    text = without_marks(chunk.text)
    language = detect_language(text, default=chunk.language)
    body = index_terms(text, language, stem)
    lead = _terms(_lead_sections(chunk), language, stem, start=body[-1][1] + _SECTION_GAP if body else 0)
    head = _terms(chunk.head, language, stem, start=0)
    for name, terms in (("body", body + lead), ("lead", lead), ("head", head)):
        tokens = [tantivy.Token(term, position, 0, 0) for term, position in terms]
        made.add_pre_tokenized_text(name, tantivy.PreTokenizedString("", tokens))
    exact = [("id", chunk.id), ("source", raw(chunk.source)), ("doc_class", chunk.doc_class.value)]
    exact += [("project", raw(chunk.project))] if chunk.project is not None else []
    exact += [("language", language if language in LANGUAGES else NO_LANGUAGE)]
    held = [OUTSIDE_SERIES] if chunk.series is None else [held_on(chunk.series, day) for day in chunk.valid_on]
    exact += [("held", term) for term in held]
    for name, term in exact:
        made.add_text(name, term)
    made.add_bytes("payload", dump(chunk))
    return made


def dump(chunk: Chunk) -> bytes:
    """ASCII JSON, so lone surrogates survive."""
    return json.dumps([getattr(chunk, name) for name in _CHUNK_FIELDS], separators=(",", ":")).encode("ascii")


def load(payload: bytes) -> Chunk:
    values = dict(zip(_CHUNK_FIELDS, json.loads(payload), strict=True))
    for name in _TUPLES:
        values[name] = tuple(values[name])
    values["source_class"] = SourceClass(values["source_class"])
    values["doc_class"] = DocClass(values["doc_class"])
    return Chunk(**values)
