"""Models in files: pooling, limits, order, threads, and clear errors for what is missing or damaged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_mcp.config import Config
from rag_mcp.embedders import embedder_identity, open_embedder
from rag_mcp.embedders.base import Embedder
from rag_mcp.embedders.onnx import OnnxEmbedder, default_workers
from rag_mcp.embedders.onnx_spec import Pooling, bge_spec
from rag_mcp.errors import EmbedderError, ModelDamaged, ModelMissing

Rows = dict[str, list[float]]


def opened(folder: Path, **options: Any) -> OnnxEmbedder:
    embedder = open_embedder(Config(embedder="onnx", model_dir=folder, **options))
    assert isinstance(embedder, OnnxEmbedder)
    return embedder


def unit(rows: list[list[float]]) -> np.ndarray:
    mean = np.mean(rows, axis=0)
    return mean / np.linalg.norm(mean)


def settings_file(folder: Path, name: str, **values: object) -> None:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(values), encoding="utf-8")


def test_the_vector_is_the_normalised_mean_of_all_tokens(model_folder: Callable[..., Path], token_rows: Rows) -> None:
    vector = opened(model_folder()).embed_query("Anchor basin")
    expected = unit([token_rows[word] for word in ("[CLS]", "anchor", "basin", "[SEP]")])
    assert np.allclose(vector, expected, atol=1e-6)


def test_cls_pooling_is_read_from_the_folder(model_folder: Callable[..., Path], token_rows: Rows) -> None:
    folder = model_folder()
    settings_file(folder, "1_Pooling/config.json", pooling_mode_cls_token=True, pooling_mode_mean_tokens=False)
    assert np.allclose(opened(folder).embed_query("anchor"), unit([token_rows["[CLS]"]]), atol=1e-6)


@pytest.mark.parametrize("inputs", [("input_ids",), ("input_ids", "attention_mask", "token_type_ids")])
@pytest.mark.parametrize("output", ["last_hidden_state", "sentence_embedding", "something_else"])
def test_inputs_and_output_are_found_by_name(
    model_folder: Callable[..., Path], token_rows: Rows, inputs: tuple[str, ...], output: str
) -> None:
    vector = opened(model_folder(inputs=inputs, output=output)).embed_query("cable")
    assert np.allclose(vector, unit([token_rows[word] for word in ("[CLS]", "cable", "[SEP]")]), atol=1e-6)


def test_bge_takes_the_first_token_and_puts_its_prefix_before_questions_only(
    model_folder: Callable[..., Path], token_rows: Rows
) -> None:
    spec = replace(bge_spec(model_folder()), dimension=4)
    embedder = OnnxEmbedder(spec, spec.identity({}))
    assert np.allclose(embedder.embed_documents(["anchor"])[0], unit([token_rows["[CLS]"]]), atol=1e-6)
    asked = OnnxEmbedder(replace(spec, pooling=Pooling.MEAN), spec.identity({}), workers=1)
    assert not np.allclose(asked.embed_query("anchor"), asked.embed_documents(["anchor"])[0])
    assert not asked.embed_query(" ").any()


def test_bge_states_its_own_size_and_refuses_another_model(model_folder: Callable[..., Path]) -> None:
    config = Config(embedder="bge", model_dir=model_folder())
    identity = embedder_identity(config)
    assert (identity.name, identity.dimension, identity.max_tokens) == ("bge", 1024, 512)
    with pytest.raises(ModelDamaged, match="expected \\(1024,\\)"):
        open_embedder(config)


def test_truncation_and_padding_in_the_tokenizer_file_do_not_decide(
    model_folder: Callable[..., Path], token_rows: Rows
) -> None:
    embedder = opened(model_folder())
    words = ["anchor"] * 40 + ["engine"]
    assert embedder.count_tokens(" ".join(words)) == 41
    expected = unit([token_rows[word] for word in ("[CLS]", *words, "[SEP]")])
    assert np.allclose(embedder.embed_query(" ".join(words)), expected, atol=1e-6)
    assert embedder.truncated == 0


def test_an_input_over_the_limit_is_cut_before_the_closing_token_and_counted(
    model_folder: Callable[..., Path], token_rows: Rows
) -> None:
    folder = model_folder()
    settings_file(folder, "sentence_bert_config.json", max_seq_length=5)
    embedder = opened(folder)
    assert embedder.max_tokens == 5
    vectors = embedder.embed_documents(["anchor basin cable", "anchor basin cable derrick"])
    expected = unit([token_rows[word] for word in ("[CLS]", "anchor", "basin", "cable", "[SEP]")])
    assert np.allclose(vectors, [expected, expected], atol=1e-6)
    assert embedder.truncated == 1


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "\u2003"])
def test_a_text_without_a_token_gives_the_zero_vector(model_folder: Callable[..., Path], text: str) -> None:
    embedder = opened(model_folder())
    assert not embedder.embed_query(text).any()
    vectors = embedder.embed_documents([text, "anchor"])
    assert not vectors[0].any()
    assert np.isclose(np.linalg.norm(vectors[1]), 1.0)


def test_no_text_at_all_gives_no_row(model_folder: Callable[..., Path]) -> None:
    assert opened(model_folder()).embed_documents([]).shape == (0, 4)


def test_half_of_a_surrogate_pair_is_embedded_like_any_unknown_sign(minilm: Embedder) -> None:
    assert np.isclose(np.linalg.norm(minilm.embed_query("broken \ud83d emoji")), 1.0, atol=1e-5)
    assert minilm.count_tokens("\ud83d") == 1


def test_batches_come_in_order_whatever_the_number_of_workers(model_folder: Callable[..., Path]) -> None:
    folder = model_folder()
    texts = [" ".join(["anchor", "basin", "cable", "derrick"][: 1 + number % 4]) for number in range(103)]
    one = opened(folder, embed_workers=1).embed_documents(texts)
    got: list[tuple[int, np.ndarray]] = []
    four = opened(folder, embed_workers=4).embed_documents(
        texts, on_batch=lambda start, rows: got.append((start, rows))
    )
    assert [start for start, _ in got] == list(range(0, 103, 16))
    assert np.array_equal(np.concatenate([rows for _, rows in got]), four)
    assert np.array_equal(one, four)


def test_an_interrupted_run_has_delivered_what_was_done_and_starts_nothing_more(
    model_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = opened(model_folder(), embed_workers=2)
    embedded: list[str] = []
    embed = embedder._embed
    monkeypatch.setattr(embedder, "_embed", lambda text: (embedded.append(text), embed(text))[1])
    starts: list[int] = []

    def stop_at_the_second(start: int, rows: np.ndarray) -> None:
        starts.append(start)
        if len(starts) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embedder.embed_documents(["anchor"] * 50_000, on_batch=stop_at_the_second)
    assert starts == [0, 16]
    assert len(embedded) < 50_000
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("embed")]


def test_queries_from_many_threads_get_the_vectors_they_get_alone(minilm: Embedder) -> None:
    texts = [f"question {number} about kettles and pods" for number in range(12)]
    alone = [minilm.embed_query(text) for text in texts]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(minilm.embed_query, texts * 3))
    assert all(np.array_equal(vector, alone[at % 12]) for at, vector in enumerate(together))


def test_a_closed_embedder_says_so(model_folder: Callable[..., Path]) -> None:
    embedder = opened(model_folder())
    embedder.close()
    with pytest.raises(EmbedderError, match="closed"):
        embedder.embed_query("anchor")


def test_workers_are_bounded() -> None:
    assert 1 <= default_workers() <= 4


def test_minilm_obeys_its_limit_and_finds_the_last_words_of_a_long_passage(minilm: Embedder) -> None:
    filler = "The pump house was inspected and the log was signed by the keeper on duty. "
    text = filler * 12 + "The bees had lost their queen."
    assert 190 < minilm.count_tokens(text) <= minilm.max_tokens - 2 == 254
    with_tail, without = minilm.embed_documents([text, filler * 12])
    query = minilm.embed_query("beehive without a queen")
    assert query @ with_tail > query @ without + 0.05


def test_minilm_uses_no_more_threads_than_it_is_told(tmp_path: Path) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("counts threads in /proc")
    script = textwrap.dedent(
        """
        import time
        from pathlib import Path
        import numpy
        from rag_mcp.config import Config
        from rag_mcp.embedders import open_embedder

        def threads():
            lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
            return next(int(line.split()[1]) for line in lines if line.startswith("Threads"))

        before, seen = threads(), []
        embedder = open_embedder(Config(embed_workers=3))
        opened = threads()
        embedder.embed_documents(["a kettle"] * 100, on_batch=lambda start, rows: seen.append(threads()))
        # A joined thread leaves the system's list a moment later.
        deadline = time.monotonic() + 20
        while threads() > opened and time.monotonic() < deadline:
            time.sleep(0.01)
        print(opened - before, max(seen) - before, threads() - before)
        """
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=100)
    opened_more, running_more, left = map(int, done.stdout.split())
    assert opened_more == left
    assert running_more <= opened_more + 3
    assert opened_more <= 1


@pytest.mark.parametrize("name", ["onnx", "bge"])
def test_a_folder_that_is_missing_or_incomplete_is_told_with_what_to_do(name: str, tmp_path: Path) -> None:
    for folder in (None, tmp_path / "nowhere", tmp_path):
        with pytest.raises(ModelMissing, match="RAG_MCP_MODEL_DIR"):
            open_embedder(Config(embedder=name, model_dir=folder))
    (tmp_path / "model.onnx").write_bytes(b"x")
    with pytest.raises(ModelMissing, match=r"no tokenizer\.json"):
        embedder_identity(Config(embedder=name, model_dir=tmp_path))


@pytest.mark.parametrize("damage", ["zeroed", "empty", "cut", "text", "graphless"])
@pytest.mark.parametrize("name", ["onnx", "bge"])
def test_a_damaged_model_file_is_an_error_that_names_it(
    model_folder: Callable[..., Path], damage: str, name: str
) -> None:
    folder = model_folder()
    content = (folder / "model.onnx").read_bytes()
    broken = {
        "zeroed": bytes(len(content)),
        "empty": b"",
        "cut": content[: len(content) // 2],
        "text": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
        "graphless": b"\x08\x08",
    }[damage]
    (folder / "model.onnx").write_bytes(broken)
    settings_file(folder, "config.json", hidden_size=4)
    with pytest.raises(ModelDamaged, match=r"model\.onnx"):
        open_embedder(Config(embedder=name, model_dir=folder))


def test_a_damaged_tokenizer_or_settings_file_is_an_error_that_names_it(model_folder: Callable[..., Path]) -> None:
    folder = model_folder()
    (folder / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(ModelDamaged, match=r"config\.json"):
        opened(folder)
    (folder / "config.json").unlink()
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ModelDamaged, match=r"tokenizer\.json"):
        opened(folder)


def test_a_model_that_gives_numbers_that_are_not_finite_is_refused(model_folder: Callable[..., Path]) -> None:
    with pytest.raises(ModelDamaged, match="not finite"):
        opened(model_folder(table=[[float("nan")] * 4] * 9))


def test_a_tokenizer_of_another_model_is_told_at_the_latest_when_it_matters(model_folder: Callable[..., Path]) -> None:
    embedder = opened(model_folder(table=[[1.0, 2.0, 3.0, 4.0]] * 5))
    with pytest.raises(ModelDamaged, match="may not belong together"):
        embedder.embed_documents(["anchor", "engine"])


def test_a_model_that_takes_no_text_is_refused(model_folder: Callable[..., Path]) -> None:
    with pytest.raises(ModelDamaged, match="pixel_values"):
        opened(model_folder(inputs=("input_ids", "pixel_values")))


def test_pooling_that_is_not_supported_is_refused(model_folder: Callable[..., Path]) -> None:
    folder = model_folder()
    settings_file(folder, "1_Pooling/config.json", pooling_mode_max_tokens=True, word_embedding_dimension=4)
    with pytest.raises(EmbedderError, match="pooling_mode_max_tokens is not supported"):
        embedder_identity(Config(embedder="onnx", model_dir=folder))


def test_the_size_of_a_vector_comes_from_the_graph_or_the_settings(model_folder: Callable[..., Path]) -> None:
    config = Config(embedder="onnx", model_dir=model_folder())
    assert embedder_identity(config).dimension == 4
    folder = model_folder(stated_dimension="width")
    with pytest.raises(EmbedderError, match="hidden_size"):
        embedder_identity(config)
    settings_file(folder, "config.json", hidden_size=4, max_position_embeddings=514)
    identity = embedder_identity(config)
    assert (identity.dimension, identity.max_tokens) == (4, 512)
    assert identity.fingerprint == open_embedder(config).fingerprint
    settings_file(folder, "config.json", hidden_size=5)
    with pytest.raises(ModelDamaged, match="expected \\(5,\\)"):
        open_embedder(config)


def test_settings_that_change_vectors_change_the_fingerprint(model_folder: Callable[..., Path]) -> None:
    folder = model_folder()
    config = Config(embedder="onnx", model_dir=folder)
    seen = {embedder_identity(config).fingerprint}
    settings_file(folder, "1_Pooling/config.json", pooling_mode_cls_token=True)
    seen.add(embedder_identity(config).fingerprint)
    settings_file(folder, "sentence_bert_config.json", max_seq_length=64)
    seen.add(embedder_identity(config).fingerprint)
    settings_file(folder, "config_sentence_transformers.json", prompts={"query": "query: "})
    seen.add(embedder_identity(config).fingerprint)
    settings_file(folder, "config_sentence_transformers.json", prompts={"query": "query: ", "passage": "passage: "})
    seen.add(embedder_identity(config).fingerprint)
    assert len(seen) == 5


@pytest.mark.parametrize("name", ["document", "passage", "corpus"])
def test_the_prefix_of_passages_is_read_from_the_folder(
    model_folder: Callable[..., Path], token_rows: Rows, name: str
) -> None:
    folder = model_folder()
    prompts = {"query": "anchor ", name: "basin "}
    settings_file(folder, "config_sentence_transformers.json", prompts=prompts)
    embedder = opened(folder)
    asked, kept = ([token_rows[word] for word in ("[CLS]", first, "cable", "[SEP]")] for first in ("anchor", "basin"))
    assert np.allclose(embedder.embed_query("cable"), unit(asked), atol=1e-6)
    assert np.allclose(embedder.embed_documents(["cable"])[0], unit(kept), atol=1e-6)
    assert not embedder.embed_documents([" "]).any()


def test_a_passage_of_the_stated_length_is_not_cut_by_its_prefix(model_folder: Callable[..., Path]) -> None:
    folder = model_folder()
    settings_file(folder, "sentence_bert_config.json", max_seq_length=30)
    settings_file(folder, "config_sentence_transformers.json", prompts={"document": "basin basin "})
    embedder = opened(folder)
    embedder.embed_documents(["cable " * (embedder.max_tokens - 2)])
    assert (embedder.max_tokens, embedder.truncated) == (18, 0)


def test_a_folder_with_multilingual_e5_small_is_known_by_its_shape_and_its_prompts(
    model_folder: Callable[..., Path],
) -> None:
    folder = model_folder()
    config = Config(embedder="onnx", model_dir=folder)
    settings_file(folder, "config.json", vocab_size=250037, hidden_size=384, num_hidden_layers=12)
    assert embedder_identity(config).name == "onnx"  # a relative of the same shape, used without prefixes
    settings_file(folder, "config_sentence_transformers.json", prompts={"query": "query: "})
    assert embedder_identity(config).name == "multilingual-e5-small"


def test_the_library_writes_no_id_of_this_machine_into_the_home(tmp_path):
    """In a process of its own: what was imported before has had its chance."""
    code = "from rag_mcp.config import Config; from rag_mcp.embedders import open_embedder; open_embedder(Config()).embed_query('kiln')"
    variables = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    subprocess.run([sys.executable, "-c", code], check=True, env={**variables, "HOME": str(tmp_path)}, timeout=120)
    assert not list(tmp_path.iterdir())
