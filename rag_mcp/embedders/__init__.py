"""Embedders by name. Importing this, or asking for an identity, loads no model, numpy, onnxruntime or tokenizers."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from rag_mcp.embedders.catalogue import CATALOGUE, catalogue_spec
from rag_mcp.embedders.identity import EmbedderIdentity
from rag_mcp.errors import UnknownEmbedder

if TYPE_CHECKING:
    from rag_mcp.config import Config
    from rag_mcp.embedders.base import Embedder
    from rag_mcp.embedders.onnx_spec import OnnxSpec

__all__ = ["EMBEDDER_NAMES", "EmbedderIdentity", "check_embedder_name", "embedder_identity", "open_embedder"]

EMBEDDER_NAMES = ("minilm", "minilm-int8", "bge", "onnx", "ollama", "hash", *CATALOGUE)


def open_embedder(config: Config, *, known: MutableMapping[str, str] | None = None, lazy: bool = False) -> Embedder:
    """Load the embedder that ``config.embedder`` names; "hash:SEED" gives the hash embedder another identity.

    ``known`` as in ``embedder_identity``. ``lazy`` opens a local model only when the first text is embedded: counting
    tokens does not need it. Raises UnknownEmbedder, ModelMissing, ModelDamaged, or EmbedderError.
    """
    kind, seed = _split(config.embedder)
    if kind == "hash":
        from rag_mcp.embedders.hash import HashEmbedder

        return HashEmbedder(seed=seed)
    if kind == "ollama":
        from rag_mcp.embedders.ollama import OllamaEmbedder, OllamaServer

        return OllamaEmbedder(OllamaServer(config.ollama_url), config.ollama_model)
    from rag_mcp.embedders.onnx import OnnxEmbedder

    spec = _onnx_spec(kind, config)
    return OnnxEmbedder(spec, spec.identity({} if known is None else known), workers=config.embed_workers, lazy=lazy)


def embedder_identity(config: Config, *, known: MutableMapping[str, str] | None = None) -> EmbedderIdentity:
    """Tell which embedder ``open_embedder(config)`` would give, without loading it.

    Files are hashed unless ``known`` holds their digest under their path, size, times and inode; it is filled, so that
    a caller who keeps it pays once. Only "ollama" talks to its server. Raises what ``open_embedder`` raises.
    """
    kind, seed = _split(config.embedder)
    if kind == "hash":
        from rag_mcp.embedders.hash import hash_identity

        return hash_identity(seed)
    if kind == "ollama":
        from rag_mcp.embedders.ollama import OllamaServer, ollama_identity

        return ollama_identity(OllamaServer(config.ollama_url), config.ollama_model)
    return _onnx_spec(kind, config).identity({} if known is None else known)


def check_embedder_name(name: str) -> None:
    """Raises UnknownEmbedder naming the ones there are. Looks at no file."""
    _split(name)


def _split(name: str) -> tuple[str, str]:
    kind, colon, seed = name.partition(":")
    if kind not in EMBEDDER_NAMES or (colon and (kind != "hash" or not seed)):
        raise UnknownEmbedder(f"There is no embedder {name!r}. Use one of {', '.join(EMBEDDER_NAMES)}.")
    return kind, seed


def _onnx_spec(kind: str, config: Config) -> OnnxSpec:
    from rag_mcp.embedders.onnx_spec import bge_spec, folder_spec, minilm_spec

    if kind in CATALOGUE:
        return catalogue_spec(kind, config.models_folder)
    if kind == "bge":
        return bge_spec(config.model_dir)
    if kind == "onnx":
        return folder_spec(config.model_dir)
    return minilm_spec(in_int8=kind == "minilm-int8")
