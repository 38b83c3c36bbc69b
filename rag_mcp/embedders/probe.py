"""A sentence whose float vector is known, to tell whether a processor computes the int8 model well enough."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rag_mcp.embedders.base import Vectors

__all__ = ["LEAST_PROBE_COSINE", "Probe", "int8_probe"]

# On a processor with 8-bit dot products passages keep a cosine of 0.990 and more to their float vectors.
LEAST_PROBE_COSINE = 0.975


@dataclass(frozen=True, slots=True)
class Probe:
    """``values`` is the unit vector of ``text`` by the same weights in float."""

    text: str
    values: tuple[float, ...]

    def vector(self) -> Vectors:
        import numpy as np

        return np.asarray(self.values, dtype=np.float32)


def int8_probe() -> Probe:
    """The probe shipped for MiniLM."""
    raw = json.loads((files("rag_mcp.data") / "minilm" / "probe.json").read_text(encoding="utf-8"))
    return Probe(str(raw["text"]), tuple(raw["vector"]))
