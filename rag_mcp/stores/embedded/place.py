"""Where the store of a configuration is."""

from __future__ import annotations

import os
from pathlib import Path

from rag_mcp.config import Config
from rag_mcp.errors import ConfigError
from rag_mcp.stores.embedded.owner import DEFAULT_COLLECTION, collection_root, default_store

__all__ = ["corpora_of", "is_foreign_chroma", "local_folder", "resolve_store", "store_folder", "store_root"]


def corpora_of(config: Config) -> dict[str, Config]:
    """``config.corpora``. Raises ConfigError when the folder that is to hold their stores is a store itself."""
    if config.roots and config.db_path is not None and os.path.lexists(config.db_path / "generations"):
        raise ConfigError("RAG_MCP_DB_PATH is the store of one corpus; name a folder that is to hold one for each.")
    return config.corpora


def store_folder(config: Config) -> Path:
    """The folder as given, else the default one of the corpus. Raises ConfigError when neither is known, or several
    are."""
    if config.roots:
        raise ConfigError(
            f"RAG_MCP_CORPUS_ROOT names several corpora ({', '.join(config.roots)}): say which, with --only."
        )
    if config.db_path is not None:
        return config.db_path
    if config.corpus_root is not None:
        return default_store(config.corpus_root, config.collection)
    raise ConfigError("No store: set RAG_MCP_DB_PATH or pass --db. One is made by: rag-mcp ingest FOLDER --db PATH")


def local_folder(config: Config) -> Path:
    """Where this machine keeps what is its own of a store that lies elsewhere: caches, and levels fitted here. Beside the
    corpus, unless a folder is given. Raises ConfigError when neither is known."""
    folder = config.db_path
    if folder is None:
        folder = store_folder(config)
        folder = folder.with_name(f"{folder.name.removesuffix('.store')}.shared")
    return collection_root(folder, config.collection)


def store_root(config: Config) -> Path:
    """Where this package keeps the store of ``config``: what is published lies there. Raises ConfigError."""
    return resolve_store(store_folder(config), config.collection)


def resolve_store(db_path: Path, collection: str = DEFAULT_COLLECTION) -> Path:
    """Where this package keeps its store for ``db_path``.

    A folder that holds a Chroma database of another program is never touched: the store then lies beside it, under the
    same name plus ``.rag_mcp``. A collection other than the default is a store of its own below the folder.
    """
    root = db_path
    if is_foreign_chroma(db_path):
        root = db_path.with_name(f"{db_path.name}.rag_mcp")
    return collection_root(root, collection)


def is_foreign_chroma(folder: Path) -> bool:
    """True for a folder with a bare Chroma database, such as a Chroma-only retrieval server makes."""
    return os.path.isfile(folder / "chroma.sqlite3") and not os.path.exists(folder / "generations")
