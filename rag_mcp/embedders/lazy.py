"""The embedder of this process: loaded when it is first needed, and again a while after that failed."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING

from rag_mcp.config import Config
from rag_mcp.errors import EmbedderError, IndexMismatch

if TYPE_CHECKING:
    from rag_mcp.embedders.base import Embedder

__all__ = ["LazyEmbedder", "SharedEmbedder"]

_RETRY_S = 5.0


class LazyEmbedder:
    """Loads once however many threads ask; a failure is repeated to whoever asks within the next seconds."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._embedder: Embedder | None = None
        self._failure: tuple[EmbedderError, float] | None = None

    def get(self) -> Embedder:
        """Raises EmbedderError."""
        with self._lock:
            if self._embedder is None:
                if self._failure is not None and time.monotonic() - self._failure[1] < _RETRY_S:
                    raise self._failure[0]
                try:
                    self._embedder = self._load()
                except EmbedderError as error:
                    self._failure = (error, time.monotonic())
                    raise
            return self._embedder

    def _load(self) -> Embedder:
        from rag_mcp.embedders import open_embedder

        return open_embedder(self._config)

    def matching(self, identity: Mapping[str, object]) -> Embedder:
        """The embedder, if it is the one an index of this identity was built with. Raises IndexMismatch too."""
        embedder = self.get()
        if identity.get("embedder") != embedder.fingerprint:
            raise IndexMismatch(
                f"The store was built with embedder {identity.get('embedder_name')!r} and other model files or settings "
                f"than this process uses ({embedder.name!r}). Set RAG_MCP_EMBEDDER to match, or ingest again."
            )
        return embedder

    def close(self) -> None:
        with self._lock:
            embedder, self._embedder = self._embedder, None
        if embedder is not None:
            embedder.close()


class SharedEmbedder(LazyEmbedder):
    """For several corpora that are asked one after the other: a question is embedded for the first and remembered.

    What is remembered is of one profile alone, or the time of an answer would tell what was asked under another.
    """

    _QUESTIONS = 16  # more than are asked at once

    def __init__(self, config: Config, model: LazyEmbedder | None = None) -> None:
        super().__init__(config)
        self._model = model or LazyEmbedder(config)

    def _load(self) -> Embedder:
        embedder = copy(self._model.get())
        embedder.embed_query = lru_cache(self._QUESTIONS)(embedder.embed_query)  # type: ignore[method-assign]
        return embedder

    def close(self) -> None:
        super().close()
        self._model.close()
