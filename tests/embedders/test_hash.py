"""The stand-in embedder keeps the rules of a real one."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rag_mcp.config import Config
from rag_mcp.embedders import embedder_identity, open_embedder
from rag_mcp.embedders.hash import HashEmbedder


@given(st.text(max_size=120))
def test_equal_text_gives_an_equal_unit_vector_and_no_token_gives_zero(text: str) -> None:
    embedder = HashEmbedder()
    vector = embedder.embed_query(text)
    assert vector.dtype == np.float32
    assert np.array_equal(vector, HashEmbedder().embed_documents([text])[0])
    assert np.isclose(np.linalg.norm(vector), 1.0 if embedder.count_tokens(text) else 0.0, atol=1e-5)


def test_another_process_gives_the_same_vector() -> None:
    script = "from rag_mcp.embedders.hash import HashEmbedder as H; print(H().embed_query('a kettle').tobytes().hex())"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout.strip() == HashEmbedder().embed_query("a kettle").tobytes().hex()


def test_texts_that_share_words_are_closer_than_texts_that_do_not() -> None:
    a, b, c, d = HashEmbedder().embed_documents(
        ["restart the kiln after firing", "Firing: restart of the kiln", "bees swarm in May", "restarting kilns"]
    )
    assert a @ b > 0.5 > a @ d > 0.1 > abs(a @ c)


def test_seeds_are_different_embedders_of_one_dimension() -> None:
    plain, one, two = (open_embedder(Config(embedder=name)) for name in ("hash", "hash:1", "hash:2"))
    assert len({plain.fingerprint, one.fingerprint, two.fingerprint}) == 3
    assert plain.dimension == one.dimension == two.dimension == 384
    assert abs(one.embed_query("a kettle of water") @ two.embed_query("a kettle of water")) < 0.5
    assert one.name == embedder_identity(Config(embedder="hash:1")).name == "hash:1"


def test_an_input_over_the_limit_is_cut_and_counted() -> None:
    embedder = HashEmbedder()
    within = " ".join(f"w{number}" for number in range(embedder.max_tokens))
    assert embedder.count_tokens(within) == embedder.max_tokens
    vector = embedder.embed_query(within)
    assert embedder.truncated == 0
    assert np.array_equal(embedder.embed_query(within + " beyond"), vector)
    assert embedder.truncated == 1


def test_batches_are_handed_over_in_order_and_add_up() -> None:
    texts = [f"text {number}" for number in range(150)]
    got: list[tuple[int, np.ndarray]] = []
    vectors = HashEmbedder().embed_documents(texts, on_batch=lambda start, rows: got.append((start, rows)))
    assert [start for start, _ in got] == [0, 64, 128]
    assert np.array_equal(np.concatenate([rows for _, rows in got]), vectors)
