"""Environment and flags -> one frozen Config; the only reader of ``os.environ``.

Precedence for every value: flag, then environment, then default. ``Config`` is the one table of settings: environment,
command line, what a host passes on and the documents are derived from its fields.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum, auto
from pathlib import Path
from typing import Any

from rag_mcp.errors import ConfigError
from rag_mcp.intervals import Interval
from rag_mcp.places import check_apart, expanded, named_paths

__all__ = ["SETTINGS", "Config", "Kind", "Setting", "environment", "silence_libraries"]


class Kind(Enum):
    """How the text of a variable is read."""

    PATH = auto()
    TEXT = auto()
    VERBATIM = auto()
    COUNT = auto()
    CHOICE = auto()
    INTERVAL = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting. ``help`` is what the command line says of ``option``, ``detail`` continues it in the documents;
    ``unset`` says in words what holds without a value where ``default`` does not. A path that may be several by name has
    these in the field ``named``."""

    field: str
    variable: str
    kind: Kind
    default: Any
    help: str
    detail: str = ""
    unset: str = ""
    option: str = ""
    choices: tuple[str, ...] = ()
    named: str = ""
    for_server: bool = True
    for_ingest: bool = True

    @property
    def meaning(self) -> str:
        return self.help + self.detail

    @property
    def without(self) -> str:
        """What holds when it is not set; empty for nothing."""
        return self.unset or self.default or ""

    def read(self, values: Mapping[str, str]) -> object:
        """The value ``values`` gives it, or its default. Raises ConfigError naming the variable."""
        raw = values.get(self.variable, "")
        if self.kind is Kind.VERBATIM:
            return raw
        raw = raw.strip()
        if not raw:
            return self.default
        if self.kind is Kind.PATH:
            return expanded(self.variable, raw, values)
        if self.kind is Kind.COUNT:
            return _count(self.variable, raw)
        if self.kind is Kind.INTERVAL:
            return _interval(self.variable, raw)
        return raw.lower() if self.kind is Kind.CHOICE else raw


def environment() -> Mapping[str, str]:
    """The process environment; the one place that reads it."""
    return os.environ


def silence_libraries() -> None:
    """Keep onnxruntime, when it is imported after this, from writing an id of this machine into the user's home, for
    telemetry. It reads nothing but the environment then."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"


def _setting(kind: Kind, help: str, *, default: Any = None, **rest: Any) -> Any:
    return field(default=default, metadata={"kind": kind, "help": help, **rest})


def _choice(*choices: str, default: str) -> Any:
    listed = f"{', '.join(choices[:-1])} or {choices[-1]}"
    return _setting(Kind.CHOICE, listed, default=default, choices=choices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything a process is told from outside, checked as far as no file has to be read.

    With ``roots`` there are several corpora, each by its name: ``corpora`` has a configuration for each, and what belongs
    to one corpus alone (``corpus_root``) is not set here.
    """

    corpus_root: Path | None = _setting(
        Kind.PATH,
        "Folder of documents",
        detail="; results are confined to it. Several: name=path;name=path",
        option="--corpus",
        named="roots",
    )
    db_path: Path | None = _setting(
        Kind.PATH,
        "Folder of the store",
        option="--db",
        unset="the corpus root's name plus .rag_mcp.store, beside it",
    )
    collection: str = _setting(
        Kind.TEXT, "Name of the collection", detail=" inside the store", default="corpus", option="--collection"
    )
    embedder: str = _setting(
        Kind.TEXT,
        "minilm-int8, minilm, bge, onnx, ollama, or a name of rag-mcp models list",
        default="minilm-int8",
        option="--embedder",
    )
    model_dir: Path | None = _setting(Kind.PATH, "Folder with model.onnx and tokenizer.json, for embedder onnx or bge")
    models_dir: Path | None = _setting(
        Kind.PATH, "Folder of models fetched with rag-mcp models pull", unset="~/.cache/rag_mcp/models"
    )
    embed_workers: int | None = _setting(
        Kind.COUNT, "Parallel embedding workers during ingest", unset="processors, at most 4", for_server=False
    )
    ollama_url: str = _setting(Kind.TEXT, "Loopback http or https address of Ollama", default="http://127.0.0.1:11434")
    ollama_model: str = _setting(Kind.TEXT, "Ollama embedding model", default="nomic-embed-text")
    # Taken as it stands: "auditor " is not "auditor", and an unknown name is restricted.
    profile: str = _setting(
        Kind.VERBATIM,
        "Access profile",
        detail=" of this process",
        default="",
        variable="RAG_MCP_CLIENT_PROFILE",
        option="--profile",
        unset="restricted, also when empty or unknown",
        for_ingest=False,
    )
    policy_path: Path | None = _setting(
        Kind.PATH,
        "Policy file",
        detail=" in YAML; where corpora have names, one for all or name=path;name=path",
        named="policies",
        variable="RAG_MCP_POLICY",
        option="--policy",
        unset="built in",
    )
    description: str = _setting(
        Kind.TEXT,
        "What the documents are about",
        detail=", in a line a model reads before it asks",
        default="",
        unset="the policy's description, else the first paragraph of README.md or index.md",
        for_ingest=False,
    )
    refresh: Interval | None = _setting(
        Kind.INTERVAL,
        "How often a server has the folder ingested",
        detail=", as in 5m or 2h; by these settings alone, so leave files out by .ragignore",
        unset="never",
        for_ingest=False,
    )
    scratch_dir: Path | None = _setting(
        Kind.PATH, "Folder for private copies when the store is read-only", unset="the system's"
    )
    gap_log: Path | None = _setting(
        Kind.PATH, "File that collects questions without an answer", unset="off", for_ingest=False
    )
    log_level: str = _choice("debug", "info", "warning", "error", default="warning")
    log_format: str = _choice("text", "json", default="text")
    # Address of a store in Postgres; db_path is then a folder for what only this machine keeps of it.
    database: str = field(default="", repr=False)
    roots: Mapping[str, Path] = field(default_factory=dict)
    policies: Mapping[str, Path] = field(default_factory=dict)
    as_given: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def load(cls, env: Mapping[str, str] | None = None, /, **flags: object) -> Config:
        """Build from ``env`` (default: the process's), overridden by every flag that is not None.

        Raises ConfigError naming the variable when a value can't be used.
        """
        values = environment() if env is None else env
        given = {name: value for name, value in flags.items() if value is not None}
        paths = [setting for setting in SETTINGS.values() if setting.kind is Kind.PATH]
        as_given = {path.field: str(given.get(path.field) or values.get(path.variable, "").strip()) for path in paths}
        several = {path.named: named_paths(path.variable, as_given[path.field], values) for path in paths if path.named}
        for path in paths:
            if several.get(path.named):
                given[path.field] = None
                values = {**values, path.variable: ""}
            elif path.field in given:
                given[path.field] = expanded(path.field, str(given[path.field]), values)
        read = {setting.field: setting.read(values) for setting in SETTINGS.values()}
        config = cls(**{**read, **several, "as_given": as_given, **given})  # type: ignore[arg-type]  # own fields
        config._check()
        return config

    @property
    def models_folder(self) -> Path:
        return self.models_dir or Path.home() / ".cache" / "rag_mcp" / "models"

    @property
    def corpora(self) -> dict[str, Config]:
        """A configuration for each of several corpora: a store of its own below ``db_path``, or else beside its folder."""
        return {name: self._of(name, root) for name, root in self.roots.items()}

    def _of(self, name: str, root: Path) -> Config:
        db, policy = self.db_path, self.policies.get(name, self.policy_path)
        paths = {"corpus_root": str(root), "policy_path": str(policy or "")}
        paths |= {"db_path": f"{self.given('db_path')}/{name}"} if db is not None else {}
        return replace(
            self,
            corpus_root=root,
            db_path=None if db is None else db / name,
            policy_path=policy,
            description="",
            roots={},
            policies={},
            as_given={**self.as_given, **paths},
        )

    def given(self, name: str) -> str:
        """A path in the operator's own words; empty when it is not set."""
        path = getattr(self, name)
        return self.as_given.get(name) or ("" if path is None else str(path))

    def _check(self) -> None:
        for setting in SETTINGS.values():
            value = getattr(self, setting.field)
            if setting.choices and value not in setting.choices:
                raise ConfigError(f"{setting.variable} is {value!r}; use one of {', '.join(setting.choices)}.")
        if not self.collection.replace("-", "").replace("_", "").isalnum() or len(self.collection) > 64:
            raise ConfigError(f"RAG_MCP_COLLECTION is {self.collection!r}; use up to 64 letters, digits, '-' and '_'.")
        check_apart("RAG_MCP_CORPUS_ROOT", self.roots)
        if unknown := self.policies.keys() - self.roots.keys():
            names = ", ".join(self.roots) or "none"
            raise ConfigError(
                f"RAG_MCP_POLICY names {', '.join(sorted(unknown))}; names in RAG_MCP_CORPUS_ROOT: {names}."
            )


def _table() -> dict[str, Setting]:
    rows = (
        Setting(
            **{"variable": f"RAG_MCP_{each.name.upper()}", **each.metadata, "field": each.name, "default": each.default}
        )
        for each in fields(Config)
        if each.metadata
    )
    return {row.variable: row for row in rows}


# Every setting by its variable, in the order they are documented.
SETTINGS: Mapping[str, Setting] = _table()


def _count(variable: str, raw: str) -> int:
    if not raw.isdecimal() or not 1 <= int(raw) <= 64:
        raise ConfigError(f"{variable} is {raw!r}; use a whole number from 1 to 64.")
    return int(raw)


def _interval(variable: str, raw: str) -> Interval:
    try:
        return Interval.parse(raw)
    except ValueError as error:
        raise ConfigError(f"{variable}: {error}.") from error
