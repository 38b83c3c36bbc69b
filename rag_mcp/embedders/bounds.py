"""Where do the cosines of a model lie? Measured on questions and passages that ship with the package, once a store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING

from rag_mcp.embedders.onnx_spec import MULTILINGUAL_E5_SMALL

if TYPE_CHECKING:
    from rag_mcp.embedders.base import Embedder

__all__ = ["BOUNDS", "is_known", "measured_bounds"]

BOUNDS = "cosines"
"""Under this name a generation keeps what was measured."""

# Models that relevance weights are shipped for, and the one for tests, whose cosines mean nothing.
_KNOWN = ("minilm", "minilm-int8", MULTILINGUAL_E5_SMALL, "hash")


def is_known(name: str) -> bool:
    """Whether nothing has to be measured for the embedder of this name."""
    return name.partition(":")[0] in _KNOWN


def measured_bounds(embedder: Embedder) -> Mapping[str, float]:
    """The mean cosine of questions with passages on other matters, and with those that answer them."""
    import numpy as np

    pairs = json.loads(resources.files("rag_mcp").joinpath("data/bounds.json").read_text(encoding="utf-8"))["pairs"]
    questions = np.stack([embedder.embed_query(question) for question, _ in pairs])
    cosines = questions @ embedder.embed_documents([passage for _, passage in pairs]).T
    together = np.eye(len(pairs), dtype=bool)
    return {
        "unrelated": round(float(cosines[~together].mean()), 4),
        "answering": round(float(cosines[together].mean()), 4),
    }
