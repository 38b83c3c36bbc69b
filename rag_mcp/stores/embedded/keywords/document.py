"""A passage as Tantivy's document: its terms in fields, the values it is filtered by, and its whole record."""

from __future__ import annotations

from typing import Any

from rag_mcp.models import Chunk
from rag_mcp.stores.embedded.keywords.stemmer import Stemmer
from rag_mcp.stores.passage import dump, terms_of, values_of

__all__ = ["document", "schema"]


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


def document(chunk: Chunk, stem: Stemmer) -> Any:
    import tantivy

    made = tantivy.Document()
    terms = terms_of(chunk, stem)
    for name, placed in (("body", terms.text + terms.lead), ("lead", terms.lead), ("head", terms.head)):
        tokens = [tantivy.Token(term, position, 0, 0) for term, position in placed]
        made.add_pre_tokenized_text(name, tantivy.PreTokenizedString("", tokens))
    for name, value in (("id", chunk.id), ("language", terms.language), *values_of(chunk)):
        made.add_text(name, value)
    made.add_bytes("payload", dump(chunk))
    return made
