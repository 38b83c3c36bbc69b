"""A stand-in for a model: words and letter trigrams hashed into a vector, for tests and dry runs.

Feature hashing after Weinberger et al., "Feature Hashing for Large Scale Multitask Learning" (ICML 2009).
"""

from __future__ import annotations

import hashlib
import math
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from rag_mcp.embedders.identity import EmbedderIdentity, fingerprint_of

if TYPE_CHECKING:
    from rag_mcp.embedders.base import Vectors

__all__ = ["HASH_DIMENSION", "HASH_MAX_TOKENS", "HashEmbedder", "hash_identity"]

HASH_DIMENSION = 384
HASH_MAX_TOKENS = 256
_CODE_VERSION = 1
_BATCH_TEXTS = 64
_TRIGRAM_WEIGHT = 0.7
_WORDS_REMEMBERED = 65_536
_TOKEN = re.compile(r"\w+|[^\w\s]")


def hash_identity(seed: str) -> EmbedderIdentity:
    """Two seeds are two embedders of one dimension, as two models may be."""
    return EmbedderIdentity(
        name=f"hash:{seed}" if seed else "hash",
        fingerprint=fingerprint_of("hash", {"code": _CODE_VERSION, "seed": seed}),
        dimension=HASH_DIMENSION,
        max_tokens=HASH_MAX_TOKENS,
    )


class HashEmbedder:
    """Equal text, equal vector, on every machine; texts that share words are close. A token is a word or a sign.

    ``truncated`` counts texts that were cut to ``max_tokens``.
    """

    def __init__(self, *, seed: str = "") -> None:
        self._identity = hash_identity(seed)
        self._key = hashlib.blake2b(seed.encode(), digest_size=32).digest()
        self._counting = threading.Lock()
        self._features = lru_cache(maxsize=_WORDS_REMEMBERED)(self._hash_features)
        self.truncated = 0

    @property
    def name(self) -> str:
        return self._identity.name

    @property
    def dimension(self) -> int:
        return HASH_DIMENSION

    @property
    def max_tokens(self) -> int:
        return HASH_MAX_TOKENS

    @property
    def fingerprint(self) -> str:
        return self._identity.fingerprint

    def count_tokens(self, text: str) -> int:
        return len(_TOKEN.findall(text))

    def embed_documents(
        self, texts: Sequence[str], *, on_batch: Callable[[int, Vectors], None] | None = None
    ) -> Vectors:
        import numpy as np

        vectors = np.zeros((len(texts), HASH_DIMENSION), dtype=np.float32)
        for start in range(0, len(texts), _BATCH_TEXTS):
            for row, text in enumerate(texts[start : start + _BATCH_TEXTS], start):
                vectors[row] = self.embed_query(text)
            if on_batch is not None:
                on_batch(start, vectors[start : start + _BATCH_TEXTS].copy())
        return vectors

    def embed_query(self, text: str) -> Vectors:
        import numpy as np

        tokens = _TOKEN.findall(text)
        if len(tokens) > HASH_MAX_TOKENS:
            with self._counting:
                self.truncated += 1
            del tokens[HASH_MAX_TOKENS:]
        sums = [0.0] * HASH_DIMENSION
        for token, count in Counter(map(str.casefold, tokens)).items():
            for at, weight in self._features(token):
                sums[at] += weight * (1.0 + math.log(count))
        vector = np.array(sums, dtype=np.float32)
        length = float(np.linalg.norm(vector))
        return (vector / length).astype(np.float32) if length else vector

    def familiarity(self, text: str) -> float:
        """Always 1.0: hashing knows every language equally little."""
        return 1.0

    def close(self) -> None:
        self._features.cache_clear()

    def _hash_features(self, token: str) -> tuple[tuple[int, float], ...]:
        """(place, signed weight) of the word and of its letter trigrams."""
        marked = f"<{token}>"
        trigrams = {marked[at : at + 3] for at in range(len(marked) - 2)} if len(token) > 2 else set()
        share = _TRIGRAM_WEIGHT / math.sqrt(len(trigrams) or 1)
        weighed = [(f"w{token}", 1.0), *((f"t{trigram}", share) for trigram in sorted(trigrams))]
        return tuple(self._place(feature, weight) for feature, weight in weighed)

    def _place(self, feature: str, weight: float) -> tuple[int, float]:
        digest = hashlib.blake2b(feature.encode("utf-8", "replace"), digest_size=8, key=self._key).digest()
        number = int.from_bytes(digest, "little")
        return (number >> 1) % HASH_DIMENSION, weight if number & 1 else -weight
