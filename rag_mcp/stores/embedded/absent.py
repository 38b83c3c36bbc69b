"""Why the configured place holds no index that could answer, and which command would make one."""

from __future__ import annotations

import os
from pathlib import Path

from rag_mcp.config import Config
from rag_mcp.errors import StoreAbsent, StoreError
from rag_mcp.stores.embedded.generations import GenerationStore
from rag_mcp.stores.embedded.place import is_foreign_chroma, store_folder, store_root

__all__ = ["absence", "corpus_note", "live_generation"]

# What an ingest makes before it publishes.
_BEGUN = frozenset({"generations", "writer.lock", "writer.pid", "embeddings.sqlite", "stat-cache.json", "CURRENT"})


def live_generation(store: GenerationStore, config: Config) -> int:
    """Number of the live generation. Raises StoreAbsent when there is none, or none that can be read."""
    try:
        live = store.current()
    except (OSError, StoreError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError):
            raise
        raise absence(config, cause) from error
    if live is None:
        raise absence(config)
    return live


def absence(config: Config, cause: OSError | None = None) -> StoreAbsent:
    """The error for a store that can't be opened: ``cause`` if it is there and can't be read, else because it is not.

    It names places as the operator wrote them, so that an assistant can tell its user which setting to look at; what
    they resolve to is no part of the text.
    """
    root = store_root(config)
    if isinstance(cause, FileNotFoundError | NotADirectoryError):
        cause = None  # not there after all, or not what its name says
    what, first = _unreadable(cause) if cause is not None else _found(root, config)
    place = config.given("db_path") or f"the default store of {config.given('corpus_root')}"
    text = f"Nothing is indexed at {place}: {what}. {first} rag-mcp {_command(config)}"
    corpus = config.given("corpus_root")
    if config.corpus_root is not None and not os.path.isdir(config.corpus_root):
        text += f" (FOLDER: the configured one, {corpus}, is not there)"
    return StoreAbsent(text, root)


def corpus_note(config: Config) -> str | None:
    """What to know of an index whose folder of documents is not there: it answers, but nothing keeps it up to date."""
    if config.corpus_root is None or os.path.isdir(config.corpus_root):
        return None
    return (
        f"The folder of documents {config.given('corpus_root')} is not there: answers are as of the last ingest. "
        "Set RAG_MCP_CORPUS_ROOT to the folder, and run: rag-mcp ingest FOLDER"
    )


def _found(root: Path, config: Config) -> tuple[str, str]:
    """What lies at ``root`` in place of an index, and what to do before the command."""
    run = "Run:"
    other = "Set RAG_MCP_DB_PATH (--db) to a folder of its own, and run:"
    if is_foreign_chroma(store_folder(config)) and not os.path.exists(root):
        return "it is another program's Chroma database, and no store lies beside it yet", run
    try:
        names = frozenset(os.listdir(root))
    except (FileNotFoundError, NotADirectoryError):
        if not os.path.lexists(root):
            return "there is no such folder", "Look for a mistake in the path, or run:"
        return "it is not a folder", other
    except OSError as error:
        return _unreadable(error)
    if not names:
        return "the folder is empty", run
    if not names & _BEGUN:
        return "the folder holds other files and no store", other
    if _holds_numbers(root):
        return "what was published there is damaged", run
    return "an ingest has begun there and published nothing yet", "Wait for it to end; if none is running, run:"


def _holds_numbers(root: Path) -> bool:
    try:
        return any(name.isdecimal() for name in os.listdir(root / "generations"))
    except OSError:
        return False


def _unreadable(error: OSError) -> tuple[str, str]:
    return f"it can't be read ({error.strerror or error})", "Give this user the right to read it, or run:"


def _command(config: Config) -> str:
    default = Config()
    corpus = (
        config.given("corpus_root")
        if config.corpus_root is not None and os.path.isdir(config.corpus_root)
        else "FOLDER"
    )
    words = ["ingest", corpus]
    if config.db_path is not None:
        words += ["--db", config.given("db_path")]
    for option, value, usual in (
        ("--collection", config.collection, default.collection),
        ("--embedder", config.embedder, default.embedder),
    ):
        words += [option, value] if value != usual else []
    return " ".join(f'"{word}"' if " " in word else word for word in words)
