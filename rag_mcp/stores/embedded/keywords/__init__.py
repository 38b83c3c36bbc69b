"""Terms in Tantivy: one index for each source class, so no statistic of a hidden class can reach a score.

Every class index holds three fields filled with the terms of ``text/terms.py``: ``body`` (title, headings, aliases,
tags, path and text of the chunk), ``lead`` (the same without the text) and ``head`` (what the head of the document says,
on its first chunk). Because ``body`` holds all of a chunk, a term's document frequency there *is* the number of chunks it
occurs in. ``lead`` only adds weight. Scores are Okapi BM25 (Robertson & Zaragoza 2009) as Tantivy computes it. A word of the
head scores the same wherever it stands: how long a head is, and how many documents have one, moves no other score.

The user's text never reaches Tantivy's query parser: queries are built from terms.
"""

from __future__ import annotations

from rag_mcp.stores.embedded.keywords.folder import SCHEMA_VERSION, clone_index
from rag_mcp.stores.embedded.keywords.reader import TantivyReader
from rag_mcp.stores.embedded.keywords.writer import TantivyWriter

__all__ = ["SCHEMA_VERSION", "TantivyReader", "TantivyWriter", "clone_index"]
