"""The relevance model of a store: the shipped one for its embedder, or the default one on the scale measured for it, with
what its owner calibrated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rag_mcp.embedders.bounds import BOUNDS, is_known
from rag_mcp.models import Mode
from rag_mcp.search.relevance import Calibration, RelevanceModel, Scale, Thresholds, load_model
from rag_mcp.stores.embedded.files import read_json, write_json

__all__ = ["relevance_in_words", "relevance_model", "write_calibration"]

_NAME = "calibration.json"
# What the embedder of the default weights makes of the pairs that another one is measured with.
_UNRELATED, _ANSWERING = 0.0375, 0.5562
# A model that keeps them no further apart tells nothing, and no scale mends that.
_LEAST_GAP = 0.02


def relevance_model(
    root: Path | None, identity: Mapping[str, object], notes: Mapping[str, object] | None = None
) -> RelevanceModel:
    """The model for an index of this identity and these notes; with ``root`` None as shipped, whatever its owner
    calibrated. A calibration for another embedder, or a torn file, count as none: the shipped ones are always safe."""
    model = load_model(str(identity.get("embedder_name", "")))
    if model.name == "default" and (scale := _scale((notes or {}).get(BOUNDS))) is not None:
        model = replace(model, scale=scale)
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


def _scale(bounds: object) -> Scale | None:
    """The scale on which the cosines of a measured model read as those of the default one; None where none helps."""
    if not isinstance(bounds, Mapping):
        return None
    unrelated, answering = bounds.get("unrelated"), bounds.get("answering")
    if not isinstance(unrelated, float) or not isinstance(answering, float) or answering - unrelated < _LEAST_GAP:
        return None
    unit = (answering - unrelated) / (_ANSWERING - _UNRELATED)
    return Scale(unrelated - _UNRELATED * unit, unrelated + (1.0 - _UNRELATED) * unit)


def relevance_in_words(root: Path, identity: Mapping[str, object], notes: Mapping[str, object]) -> tuple[bool, str]:
    """Whether levels can be relied on with this embedder, and by what; for whoever runs the process."""
    name = str(identity.get("embedder_name", ""))
    model = relevance_model(root, identity, notes)
    if any(head.points for head in model.heads.values()):
        return True, "calibrated on the owner's questions"
    if is_known(name):
        return True, f"weights for {name} are shipped"
    if model.scale != Scale():
        return True, (
            f"no weights are shipped for {name}: the default ones are used, on the scale measured for it. rag-mcp calibrate "
            "fits levels to your own questions"
        )
    remedy = (
        "it hardly tells what belongs together; use another model, or rag-mcp calibrate"
        if notes.get(BOUNDS)
        else "run rag-mcp ingest --full, which measures it"
    )
    return False, f"no weights are shipped for {name}, and no scale was measured, so levels mean little: {remedy}"


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
