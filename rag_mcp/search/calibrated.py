"""The relevance model of a store: the shipped one for its embedder, with what its owner calibrated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rag_mcp.models import Mode
from rag_mcp.search.relevance import Calibration, RelevanceModel, Thresholds, load_model
from rag_mcp.stores.embedded.files import read_json, write_json

__all__ = ["relevance_model", "write_calibration"]

_NAME = "calibration.json"


def relevance_model(root: Path | None, identity: Mapping[str, object]) -> RelevanceModel:
    """The model for an index of this identity; with ``root`` None as shipped, whatever its owner calibrated. A calibration
    for another embedder, or a torn file, count as none: the shipped ones are always safe."""
    model = load_model(str(identity.get("embedder_name", "")))
    if root is None:
        return model
    try:
        raw = read_json(root / _NAME)
    except (OSError, ValueError):
        return model
    if not isinstance(raw, dict) or raw.get("embedder") != identity.get("embedder"):
        return model
    try:
        found = {
            Mode(mode): Calibration(
                Thresholds(high=float(value["high"]), medium=float(value["medium"])),
                tuple((float(x), float(y)) for x, y in value["points"]),
            )
            for mode, value in raw["modes"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        return model
    return model.calibrated(found)


def write_calibration(
    root: Path, embedder: str, modes: Mapping[Mode, Calibration], provenance: Mapping[str, object]
) -> None:
    """Keep a calibration with the store for this embedder (its fingerprint)."""
    value = {
        "embedder": embedder,
        "modes": {
            mode.value: {"high": one.thresholds.high, "medium": one.thresholds.medium, "points": one.points}
            for mode, one in modes.items()
        },
        "provenance": dict(provenance),
    }
    write_json(root / _NAME, value)
