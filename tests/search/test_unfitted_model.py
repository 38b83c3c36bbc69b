"""A model that no weights are shipped for: its cosines are measured at ingest, and the default weights are read on that scale."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support import Library

from rag_mcp.config import Config
from rag_mcp.embedders import open_embedder
from rag_mcp.embedders.base import Embedder
from rag_mcp.embedders.bounds import BOUNDS, is_known, measured_bounds
from rag_mcp.maintenance import examine
from rag_mcp.models import Mode
from rag_mcp.requests import SearchRequest
from rag_mcp.search.calibrated import relevance_in_words, relevance_model
from rag_mcp.search.relevance import FEATURES, Scale, load_model

IDENTITY = {"embedder": "other-1", "embedder_name": "other"}


@pytest.fixture(scope="module")
def minilm() -> Embedder:
    return open_embedder(Config(embedder="minilm-int8"))


def narrow(embedder: Embedder, floor: float = 0.8):
    """The same model with all its cosines between ``floor`` and 1, as many models have them."""

    def moved(rows: np.ndarray) -> np.ndarray:
        return np.hstack([rows * np.sqrt(1 - floor), np.full((len(rows), 1), np.sqrt(floor))]).astype(np.float32)

    class Narrow:
        def embed_query(self, text: str) -> np.ndarray:
            return moved(embedder.embed_query(text)[None])[0]

        def embed_documents(self, texts: list[str]) -> np.ndarray:
            return moved(embedder.embed_documents(texts))

    return Narrow()


def test_every_model_with_weights_of_its_own_is_known_and_no_other():
    shipped = json.loads((Path(__file__).parents[2] / "rag_mcp/data/relevance.json").read_text(encoding="utf-8"))
    assert all(is_known(name) for name in shipped["models"] if name != "default")
    assert not is_known("default") and not is_known("bge-small-en-v1.5") and is_known("hash:seven")


def test_the_scale_of_the_reference_itself_is_nearly_none(minilm):
    scale = relevance_model(None, IDENTITY, {BOUNDS: measured_bounds(minilm)}).scale
    assert scale.of(0.5) == pytest.approx(0.5, abs=0.02) and scale.of(0.0) == pytest.approx(0.0, abs=0.02)


def test_cosines_of_a_narrow_model_read_as_those_of_a_wide_one(minilm):
    scale = relevance_model(None, IDENTITY, {BOUNDS: measured_bounds(narrow(minilm))}).scale
    assert scale != Scale()
    for cosine in (0.05, 0.3, 0.6, 0.9):
        assert scale.of(0.8 + 0.2 * cosine) == pytest.approx(cosine, abs=0.03)


def test_the_gate_of_a_narrow_model_is_open_to_all_without_the_measure_and_sensible_with_it(minilm):
    weak = {**dict.fromkeys(FEATURES, 0.0), "term_share": 0.2}
    for notes, shown in (({}, True), ({BOUNDS: measured_bounds(narrow(minilm))}, False)):
        model = relevance_model(None, IDENTITY, notes)
        probability = model.probability(Mode.HYBRID, {**weak, "cosine": model.scale.of(0.8 + 0.2 * 0.15)})
        assert (probability >= model.thresholds(Mode.HYBRID, passages=5_000).medium) is shown


@pytest.mark.parametrize("bounds", [None, {}, "0.8", {"unrelated": 0.8}, {"unrelated": 0.8, "answering": 0.81}])
def test_without_a_usable_measure_the_default_weights_stay_as_they_are_and_that_is_told(bounds, tmp_path):
    notes = {BOUNDS: bounds} if bounds is not None else {}
    assert relevance_model(None, IDENTITY, notes) == load_model("other")
    well, words = relevance_in_words(tmp_path, IDENTITY, notes)
    assert not well and ("--full" in words) is (not bounds)


def test_models_with_weights_of_their_own_are_never_rescaled():
    notes = {BOUNDS: {"unrelated": 0.8, "answering": 0.9}}
    for name in ("minilm", "minilm-int8", "multilingual-e5-small"):
        assert relevance_model(None, {"embedder_name": name}, notes) == load_model(name)


# --- the whole way ---------------------------------------------------------------------------------------------------

NOTES = {
    "rigging.md": "# Rigging\n\nThe shrouds of the ketch are renewed every eighth winter by the rigger in Vessel Lane.\n",
    "galley.md": "# Galley\n\nThe stove burns paraffin; the tank under the port bunk holds eleven litres.\n",
}


@pytest.fixture
def unknown(tmp_path, monkeypatch):
    """A library whose embedder nobody has fitted: the hash embedder under another name."""
    monkeypatch.setattr("rag_mcp.ingest.build.is_known", lambda name: False)
    monkeypatch.setattr("rag_mcp.search.calibrated.is_known", lambda name: False)
    with Library(tmp_path / "corpus", tmp_path / "store", embedder="hash") as library:
        library.write(NOTES)
        yield library


def note(library: Library) -> object:
    store = library.generations
    return store.info(store.current()).notes.get(BOUNDS)


def test_ingest_measures_once_and_later_generations_keep_it(unknown, monkeypatch):
    unknown.ingest()
    first = note(unknown)
    assert first["answering"] > first["unrelated"]
    monkeypatch.setattr("rag_mcp.ingest.build.measured_bounds", lambda embedder: pytest.fail("measured again"))
    unknown.write({"deck.md": "# Deck\n\nTeak, laid in spring.\n"})
    unknown.ingest()
    unknown.ingest(full=True)
    assert note(unknown) == first
    assert unknown.base().search(SearchRequest(query="Who renews the shrouds of the ketch?")).results


def test_doctor_says_what_levels_rest_on(unknown):
    def told() -> tuple[bool, str]:
        (finding,) = (each for each in examine(unknown.config()) if each.what == "relevance")
        return finding.ok, finding.detail

    unknown.ingest()
    assert told()[0] and "on the scale measured for it" in told()[1]


def test_doctor_says_when_there_is_neither_a_fit_nor_a_measure(tmp_path, monkeypatch):
    with Library(tmp_path / "corpus", tmp_path / "store", embedder="hash") as library:
        library.write(NOTES)
        library.ingest()
        monkeypatch.setattr("rag_mcp.search.calibrated.is_known", lambda name: False)
        (finding,) = (each for each in examine(library.config()) if each.what == "relevance")
    assert not finding.ok and "rag-mcp ingest --full" in finding.detail


def test_a_known_model_is_not_measured(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store", embedder="hash") as library:
        library.write(NOTES)
        library.ingest()
        assert note(library) is None
