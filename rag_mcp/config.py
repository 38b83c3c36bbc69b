"""Environment and flags -> one frozen Config; the only reader of ``os.environ``.

Precedence for every value: flag, then environment, then default.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rag_mcp.errors import ConfigError
from rag_mcp.places import expanded

__all__ = ["ENVIRONMENT", "Config", "environment"]

ENVIRONMENT: dict[str, str] = {
    "RAG_MCP_CORPUS_ROOT": "folder of documents; results are confined to it",
    "RAG_MCP_DB_PATH": "folder of the store (default: the corpus root's name plus .rag_mcp.store, beside it)",
    "RAG_MCP_COLLECTION": "name of the collection inside the store (default: corpus)",
    "RAG_MCP_EMBEDDER": "minilm-int8 (default), minilm, bge, onnx, ollama or hash (tests only)",
    "RAG_MCP_MODEL_DIR": "folder with model.onnx and tokenizer.json, for embedder onnx or bge",
    "RAG_MCP_EMBED_WORKERS": "parallel embedding workers during ingest (default: processors, at most 4)",
    "RAG_MCP_OLLAMA_URL": "loopback http or https address of Ollama (default: http://127.0.0.1:11434)",
    "RAG_MCP_OLLAMA_MODEL": "Ollama embedding model (default: nomic-embed-text)",
    "RAG_MCP_CLIENT_PROFILE": "access profile of this process (missing, empty or unknown: restricted)",
    "RAG_MCP_POLICY": "policy file in YAML (default: built in)",
    "RAG_MCP_SCRATCH_DIR": "folder for private copies when the store is read-only (default: the system's)",
    "RAG_MCP_GAP_LOG": "file that collects questions without an answer (default: off)",
    "RAG_MCP_LOG_LEVEL": "debug, info, warning or error (default: warning)",
    "RAG_MCP_LOG_FORMAT": "text or json (default: text)",
}


_PATHS = ("corpus_root", "db_path", "model_dir", "policy_path", "scratch_dir", "gap_log")


def environment() -> Mapping[str, str]:
    """The process environment; the one place that reads it."""
    return os.environ


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything a process is told from outside, checked as far as no file has to be read."""

    corpus_root: Path | None = None
    db_path: Path | None = None
    collection: str = "corpus"
    embedder: str = "minilm-int8"
    model_dir: Path | None = None
    embed_workers: int | None = None
    ollama_url: str = "http://127.0.0.1:11434"
    ollama_model: str = "nomic-embed-text"
    profile: str = ""
    policy_path: Path | None = None
    scratch_dir: Path | None = None
    gap_log: Path | None = None
    log_level: str = "warning"
    log_format: str = "text"
    as_given: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def load(cls, env: Mapping[str, str] | None = None, /, **flags: object) -> Config:
        """Build from ``env`` (default: the process's), overridden by every flag that is not None.

        Raises ConfigError naming the variable when a value can't be used.
        """
        values = environment() if env is None else env

        def text(name: str, default: str) -> str:
            return values.get(f"RAG_MCP_{name}", "").strip() or default

        def path(name: str) -> Path | None:
            raw = text(name, "")
            return expanded(f"RAG_MCP_{name}", raw, values) if raw else None

        settings: dict[str, object] = {
            "corpus_root": path("CORPUS_ROOT"),
            "db_path": path("DB_PATH"),
            "collection": text("COLLECTION", "corpus"),
            "embedder": text("EMBEDDER", "minilm-int8"),
            "model_dir": path("MODEL_DIR"),
            "embed_workers": _positive_int("RAG_MCP_EMBED_WORKERS", text("EMBED_WORKERS", "")),
            "ollama_url": text("OLLAMA_URL", "http://127.0.0.1:11434"),
            "ollama_model": text("OLLAMA_MODEL", "nomic-embed-text"),
            # The profile is taken as it stands: "auditor " is not "auditor", and an unknown name is restricted.
            "profile": values.get("RAG_MCP_CLIENT_PROFILE", ""),
            "policy_path": path("POLICY"),
            "scratch_dir": path("SCRATCH_DIR"),
            "gap_log": path("GAP_LOG"),
            "log_level": text("LOG_LEVEL", "warning").lower(),
            "log_format": text("LOG_FORMAT", "text").lower(),
        }
        as_given = {"corpus_root": text("CORPUS_ROOT", ""), "db_path": text("DB_PATH", "")}
        settings["as_given"] = {key: str(flags.get(key) or raw) for key, raw in as_given.items()}
        given = {key: value for key, value in flags.items() if value is not None}
        given.update({key: expanded(key, str(given[key]), values) for key in _PATHS if key in given})
        settings.update(given)
        config = cls(**settings)  # type: ignore[arg-type]  # keys are this class's own fields, checked by its tests
        config._check()
        return config

    def given(self, name: str) -> str:
        """``corpus_root`` or ``db_path`` in the operator's own words; empty when it is not set."""
        path = getattr(self, name)
        return self.as_given.get(name) or ("" if path is None else str(path))

    def _check(self) -> None:
        for name, value, allowed in (
            ("RAG_MCP_LOG_LEVEL", self.log_level, ("debug", "info", "warning", "error")),
            ("RAG_MCP_LOG_FORMAT", self.log_format, ("text", "json")),
        ):
            if value not in allowed:
                raise ConfigError(f"{name} is {value!r}; use one of {', '.join(allowed)}.")
        if not self.collection.replace("-", "").replace("_", "").isalnum() or len(self.collection) > 64:
            raise ConfigError(f"RAG_MCP_COLLECTION is {self.collection!r}; use up to 64 letters, digits, '-' and '_'.")


def _positive_int(name: str, raw: str) -> int | None:
    if not raw:
        return None
    if not raw.isdecimal() or not 1 <= int(raw) <= 64:
        raise ConfigError(f"{name} is {raw!r}; use a whole number from 1 to 64.")
    return int(raw)
