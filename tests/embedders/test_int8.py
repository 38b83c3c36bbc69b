"""The rewritten graph multiplies in int8 and gives nearly the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest

from rag_mcp.config import Config
from rag_mcp.embedders import open_embedder
from rag_mcp.embedders.base import Embedder
from rag_mcp.embedders.int8 import multiply_in_int8
from rag_mcp.embedders.protobuf import WireError

TEXTS = [
    "A pod that stays in Pending could not be scheduled onto a node.",
    "The kettle has to be descaled every three months, more often where the water is hard.",
    "def restart(self, *, timeout_s: float = 5.0) -> None: ...",
    "Rollback restores the previous generation; run `rollback --to 41` and check the status afterwards.",
]


def session(model: bytes) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def test_a_product_with_stored_weights_stays_within_the_rounding_of_its_input(
    stored_int8_model: Callable[..., bytes],
) -> None:
    model = stored_int8_model()
    x = np.array([[0.5, -1.0, 2.0, 0.25], [1.0, 1.0, -1.0, 3.0]], dtype=np.float32)
    (exact,) = session(model).run(None, {"x": x})
    (rounded,) = session(multiply_in_int8(model)).run(None, {"x": x})
    step = (x.max() - x.min()) / 255
    weight = np.array([[127, -3], [50, 7], [-128, 64], [1, -90]]) * [0.01, 0.02]
    assert np.abs(rounded - exact).max() <= step / 2 * np.abs(weight).sum(axis=0).max() + 1e-5
    assert not np.array_equal(rounded, exact)


def test_the_same_bytes_give_the_same_bytes(stored_int8_model: Callable[..., bytes]) -> None:
    assert multiply_in_int8(stored_int8_model()) == multiply_in_int8(stored_int8_model())


def test_a_weight_that_others_use_too_is_left_alone(stored_int8_model: Callable[..., bytes]) -> None:
    with pytest.raises(WireError, match="no product"):
        multiply_in_int8(stored_int8_model(shared=True))


@pytest.mark.parametrize("content", [b"", b"hello", bytes(1000)])
def test_bytes_that_are_no_model_are_refused(content: bytes) -> None:
    with pytest.raises(WireError):
        multiply_in_int8(content)


@pytest.fixture(scope="module")
def rounded() -> Embedder:
    return open_embedder(Config(embedder="minilm-int8", embed_workers=3))


def test_minilm_in_int8_is_close_to_minilm_and_not_the_same_embedder(minilm: Embedder, rounded: Embedder) -> None:
    exact = minilm
    cosines = (exact.embed_documents(TEXTS) * rounded.embed_documents(TEXTS)).sum(axis=1)
    assert cosines.min() > 0.98
    assert cosines.max() < 0.99999
    assert exact.fingerprint != rounded.fingerprint
    assert exact.dimension == rounded.dimension


def test_an_int8_vector_does_not_depend_on_its_neighbours_or_the_number_of_workers(rounded: Embedder) -> None:
    together = rounded.embed_documents(TEXTS * 10)
    for at, text in enumerate(TEXTS):
        assert np.array_equal(rounded.embed_query(text), together[at])
        assert np.array_equal(together[at], together[at + 20])


def test_a_processor_that_computes_int8_coarsely_is_refused_with_the_way_out(monkeypatch):
    from rag_mcp.config import Config
    from rag_mcp.embedders import open_embedder
    from rag_mcp.embedders.probe import Probe, int8_probe
    from rag_mcp.errors import EmbedderError

    shipped = int8_probe()
    assert len(shipped.values) == 384
    other = Probe(shipped.text, tuple(-value for value in shipped.values))
    monkeypatch.setattr("rag_mcp.embedders.onnx.int8_probe", lambda: other)
    with pytest.raises(EmbedderError, match="RAG_MCP_EMBEDDER=minilm "):
        open_embedder(Config.load({"RAG_MCP_EMBEDDER": "minilm-int8"}))
