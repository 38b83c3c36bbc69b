"""What an embedder is, to the rest of the package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]

__all__ = ["Embedder"]


class Embedder(Protocol):
    """Turns text into unit vectors. Implementations are thread-safe.

    ``fingerprint`` changes whenever equal text could give another vector (name, model bytes, tokenizer, dimension,
    pooling, prefix). Vectors are float32, L2-normalised; a text without any token gives the zero vector.
    """

    @property
    def name(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    @property
    def max_tokens(self) -> int:
        """Longest input in the model's own tokens, special tokens included."""
        ...

    @property
    def fingerprint(self) -> str: ...

    def count_tokens(self, text: str) -> int:
        """Tokens of ``text`` in the model's vocabulary, special tokens not counted."""
        ...

    def embed_documents(
        self, texts: Sequence[str], *, on_batch: Callable[[int, Vectors], None] | None = None
    ) -> Vectors:
        """Return (len(texts), dimension). ``on_batch(start, rows)`` is called in order as rows become ready, so that
        a caller can keep what has been computed when the run is interrupted.
        """
        ...

    def embed_query(self, text: str) -> Vectors:
        """Return (dimension,)."""
        ...

    def familiarity(self, text: str) -> float:
        """How well the model's vocabulary fits ``text``: 1.0 for its own language, towards 0.0 for text that falls
        apart into unknown or single-letter pieces, and 0.0 where not one word is in a script it knows words of: then
        the vector says nothing.
        """
        ...

    def close(self) -> None: ...
