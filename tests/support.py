"""What many tests need: a corpus folder with a store, driven through the public functions."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rag_mcp.answers import SearchResponse
from rag_mcp.config import Config
from rag_mcp.ingest.options import IngestOptions
from rag_mcp.knowledge import KnowledgeBase
from rag_mcp.models import SourceClass
from rag_mcp.requests import SearchRequest
from rag_mcp.stores.embedded.generations import GenerationStore
from rag_mcp.stores.embedded.manifest_file import read_manifest


class Library:
    """A corpus, a store and a knowledge base over both; the hash embedder unless told otherwise."""

    def __init__(self, corpus: Path, store: Path, **config: object) -> None:
        self.corpus = corpus
        self.store_path = store
        self.settings: dict[str, object] = {"embedder": "hash", **config}
        corpus.mkdir(parents=True, exist_ok=True)
        self._bases: list[KnowledgeBase] = []

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *_: object) -> None:
        for base in self._bases:
            base.close()

    def config(self, **changes: object) -> Config:
        settings = {"corpus_root": self.corpus, "db_path": self.store_path, **self.settings, **changes}
        return Config.load({}, **settings)

    def write(self, files: dict[str, str | bytes]) -> None:
        for name, content in files.items():
            path = self.corpus / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))

    def remove(self, *names: str) -> None:
        for name in names:
            (self.corpus / name).unlink()

    def ingest(self, *, config: dict[str, object] | None = None, **options: object):
        return KnowledgeBase.open(self.config(**(config or {}))).ingest(IngestOptions(**options))

    def base(self, **changes: object) -> KnowledgeBase:
        base = KnowledgeBase.open(self.config(**changes))
        self._bases.append(base)
        return base

    def search(self, query: str, *, base: KnowledgeBase | None = None, **arguments: object) -> SearchResponse:
        """Ask with confidence normal unless told otherwise: the hash embedder knows no meaning."""
        arguments = {"confidence": "normal", **arguments}
        own = base or self.base()
        return own.search(SearchRequest.parse({"query": query, **arguments}))

    def sources(self, query: str, **arguments: object) -> list[str]:
        return [result.citation.source for result in self.search(query, **arguments).results]

    @property
    def generations(self) -> GenerationStore:
        return GenerationStore(self.store_path)

    def manifest(self):
        return read_manifest(self.generations.path(self.generations.current()))

    def dump(self) -> dict[str, dict[str, object]]:
        """{chunk id: whole record} of the live generation; fails when the two indexes do not hold the same ids."""
        return dump(self.generations)

    def fresh(self, where: Path, **options: object) -> dict[str, dict[str, object]]:
        """What a first ingest of the present corpus into an empty store gives."""
        with Library(self.corpus, where, **self.settings) as other:
            other.ingest(**options)
            return other.dump()


def dump(store: GenerationStore) -> dict[str, dict[str, object]]:
    from rag_mcp.stores.embedded.keywords import TantivyReader
    from rag_mcp.stores.embedded.vectors import ChromaReader

    generation = store.open()
    vectors = ChromaReader(generation.chroma_path)
    keywords = TantivyReader(generation.keywords_path)
    try:
        found: dict[str, dict[str, object]] = {}
        for source_class in SourceClass:
            ids = keywords.ids(source_class)
            assert vectors.ids(source_class) == ids, source_class
            for i, chunk in keywords.fetch([source_class], ids).items():
                found[i] = asdict(chunk)
        return found
    finally:
        keywords.close()
        vectors.close()
        generation.close()


def growth(make: Callable[[int], Any], work: Callable[[Any], object], size: int) -> float:
    """How much longer ``work`` takes on ``make(8 * size)`` than on ``make(size)``, for each of the eight parts: about 1
    when it is linear, 8 when quadratic. Processor time of this thread, the best of several turns, without the collector,
    which would go through all that other tests have left: a busy machine and a long run change little."""

    def took(material: Any) -> int:
        started = time.thread_time_ns()
        work(material)
        return time.thread_time_ns() - started

    few, many = make(size), make(8 * size)
    work(few)
    gc.disable()
    try:
        turns = [(took(few), took(many)) for _ in range(5)]
    finally:
        gc.enable()
    return min(large for _, large in turns) / max(1, min(small for small, _ in turns)) / 8


def keeps_pace(seconds: Callable[[int], float], size: int, *, at_most: float, floor: float) -> bool:
    """Whether eight times ``size`` takes at most ``at_most`` times as long; anything below ``floor`` counts as that.

    The small size is taken three times for its best, the large one once: what was slow because the machine was busy is
    measured again, up to twice, so that only what is slow is measured more than once. The collector is off meanwhile:
    in a long run it would go through all that other tests have left, and only in the large size.
    """
    gc.disable()
    try:
        return _keeps_pace(seconds, size, at_most, floor)
    finally:
        gc.enable()


def _keeps_pace(seconds: Callable[[int], float], size: int, at_most: float, floor: float) -> bool:
    return any(seconds(8 * size) <= at_most * max(min(seconds(size) for _ in range(3)), floor) for _ in range(3))


def cli_environment(changes: dict[str, str]) -> dict[str, str]:
    """This process's environment with no RAG_MCP_* variable but those given."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAG_MCP_")}
    return {**clean, "RAG_MCP_EMBEDDER": "hash", **changes}
