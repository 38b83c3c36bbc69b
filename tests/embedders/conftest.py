"""Tiny ONNX models, written byte by byte so that no package is needed to make them."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from rag_mcp.config import Config
from rag_mcp.embedders import open_embedder
from rag_mcp.embedders.base import Embedder
from rag_mcp.embedders.protobuf import encode_bytes, encode_int

FLOAT, INT8, INT64 = 1, 3, 7
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "anchor", "basin", "cable", "derrick", "engine")
# One row a word; [CLS] and [SEP] differ from all others, so that pooling shows.
TABLE = [[float((row * 7 + column * 3) % 11 + row) for column in range(4)] for row in range(len(WORDS))]


def tensor(name: str, kind: int, dims: list[int], raw: bytes) -> bytes:
    shape = b"".join(encode_int(1, size) for size in dims)
    return shape + encode_int(2, kind) + encode_bytes(8, name) + encode_bytes(9, raw)


def node(op: str, inputs: list[str], outputs: list[str], attributes: bytes = b"") -> bytes:
    names = b"".join(encode_bytes(1, name) for name in inputs) + b"".join(encode_bytes(2, name) for name in outputs)
    return names + encode_bytes(3, outputs[0]) + encode_bytes(4, op) + attributes


def int_attribute(name: str, value: int) -> bytes:
    return encode_bytes(5, encode_bytes(1, name) + encode_int(3, value) + encode_int(20, 2))


def ints_attribute(name: str, values: list[int]) -> bytes:
    return encode_bytes(
        5, encode_bytes(1, name) + b"".join(encode_int(8, value) for value in values) + encode_int(20, 7)
    )


def value(name: str, kind: int, axes: list[int | str]) -> bytes:
    dims = b"".join(
        encode_bytes(1, encode_bytes(2, axis) if isinstance(axis, str) else encode_int(1, axis)) for axis in axes
    )
    shape = encode_bytes(2, dims)
    return encode_bytes(1, name) + encode_bytes(2, encode_bytes(1, encode_int(1, kind) + shape))


def model(nodes: list[bytes], tensors: list[bytes], inputs: list[bytes], outputs: list[bytes]) -> bytes:
    graph = b"".join(
        (
            *(encode_bytes(1, item) for item in nodes),
            encode_bytes(2, "tiny"),
            *(encode_bytes(5, item) for item in tensors),
            *(encode_bytes(11, item) for item in inputs),
            *(encode_bytes(12, item) for item in outputs),
        )
    )
    return encode_int(1, 8) + encode_bytes(7, graph) + encode_bytes(8, encode_int(2, 13))


def floats(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}f", *numbers)


def table_model(
    *,
    inputs: tuple[str, ...] = ("input_ids", "attention_mask"),
    output: str = "last_hidden_state",
    table: list[list[float]] | None = None,
    stated_dimension: int | str = 4,
) -> bytes:
    """A model that looks each token up in ``TABLE``; as sentence_embedding it gives the mean itself."""
    rows = table or TABLE
    flat = floats(*(number for row in rows for number in row))
    nodes = [node("Gather", ["table", "input_ids"], ["looked_up"])]
    axes: list[int | str] = ["batch", "tokens", stated_dimension]
    if output == "sentence_embedding":
        attributes = ints_attribute("axes", [1]) + int_attribute("keepdims", 0)
        nodes.append(node("ReduceMean", ["looked_up"], [output], attributes))
        axes = ["batch", stated_dimension]
    else:
        nodes.append(node("Identity", ["looked_up"], [output]))
    return model(
        nodes,
        [tensor("table", FLOAT, [len(rows), 4], flat)],
        [value(name, INT64, ["batch", "tokens"]) for name in inputs],
        [value(output, FLOAT, axes)],
    )


def tokenizer_json() -> str:
    """A word-level tokenizer that says to cut at 3 tokens and to pad to 128, which must not be obeyed."""
    special = [
        {
            "id": number,
            "content": word,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for number, word in enumerate(WORDS[:4])
    ]
    return json.dumps(
        {
            "version": "1.0",
            "truncation": {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0},
            "padding": {
                "strategy": {"Fixed": 128},
                "direction": "Right",
                "pad_to_multiple_of": None,
                "pad_id": 0,
                "pad_type_id": 0,
                "pad_token": "[PAD]",
            },
            "added_tokens": special,
            "normalizer": {"type": "Lowercase"},
            "pre_tokenizer": {"type": "Whitespace"},
            "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
            "decoder": None,
            "model": {
                "type": "WordLevel",
                "vocab": {word: number for number, word in enumerate(WORDS)},
                "unk_token": "[UNK]",
            },
        }
    )


@pytest.fixture(scope="session")
def minilm() -> Embedder:
    return open_embedder(Config(embedder="minilm", embed_workers=2))


@pytest.fixture
def model_folder(tmp_path: Path) -> Callable[..., Path]:
    """Make a folder with a tiny model; keyword arguments are those of ``table_model``."""

    def make(content: bytes | None = None, **options: object) -> Path:
        folder = tmp_path / "model"
        folder.mkdir(exist_ok=True)
        written = table_model(**options) if content is None else content  # type: ignore[arg-type]
        (folder / "model.onnx").write_bytes(written)
        (folder / "tokenizer.json").write_text(tokenizer_json(), encoding="utf-8")
        return folder

    return make


@pytest.fixture
def token_rows() -> dict[str, list[float]]:
    return dict(zip(WORDS, TABLE, strict=True))


@pytest.fixture
def stored_int8_model() -> Callable[..., bytes]:
    """x -> MatMul(x, Mul(Cast(weight), scale)), as the MiniLM file has it; ``shared`` uses the float weight twice."""

    def make(*, shared: bool = False) -> bytes:
        weight = struct.pack("<8b", 127, -3, 50, 7, -128, 64, 1, -90)
        nodes = [
            node("Cast", ["w_q"], ["w_f"], int_attribute("to", FLOAT)),
            node("Mul", ["w_f", "w_scale"], ["w"]),
            node("MatMul", ["x", "w"], ["y"]),
        ]
        outputs = [value("y", FLOAT, ["rows", 2])]
        if shared:
            nodes.append(node("Identity", ["w"], ["also"]))
            outputs.append(value("also", FLOAT, [4, 2]))
        tensors = [tensor("w_q", INT8, [4, 2], weight), tensor("w_scale", FLOAT, [1, 2], floats(0.01, 0.02))]
        return model(nodes, tensors, [value("x", FLOAT, ["rows", 4])], outputs)

    return make
