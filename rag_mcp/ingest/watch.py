"""Ingest whenever the corpus changes, until interrupted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rag_mcp.config import Config
from rag_mcp.errors import CorpusError
from rag_mcp.stores.generations import resolve_store

__all__ = ["watch_corpus"]


def watch_corpus(config: Config, run: Callable[[], None], *, debounce_s: float, stop: object = None) -> None:
    """Call ``run`` once now and again after every burst of changes that was followed by ``debounce_s`` of quiet.

    ``stop`` (a threading.Event) ends it; so does an interrupt. Changes inside the store are not the corpus's.
    """
    from watchfiles import watch

    root = config.corpus_root
    if root is None or not root.is_dir():
        raise CorpusError("watch needs a corpus folder that exists.")
    store = resolve_store(config.store_path, config.collection).resolve()

    def relevant(_: object, path: str) -> bool:
        return not Path(path).is_relative_to(store)

    run()
    for _ in watch(
        root,
        watch_filter=relevant,
        debounce=int(max(debounce_s, 0.05) * 4_000),
        step=int(max(debounce_s, 0.05) * 1_000),
        stop_event=stop,  # type: ignore[arg-type]  # an Event, as watchfiles declares by a protocol
        raise_interrupt=False,
    ):
        run()
