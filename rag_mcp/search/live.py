"""Which generation is live: followed, opened in the background, held for as long as an answer takes."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rag_mcp.errors import RagMcpError, StoreDamaged, StoreError
from rag_mcp.models import Mode, SourceClass
from rag_mcp.stores.published import PublishedStore

if TYPE_CHECKING:
    from rag_mcp.embedders.lazy import LazyEmbedder
    from rag_mcp.search.generation import OpenGeneration
    from rag_mcp.search.retrieve import GenerationView

__all__ = ["OPENING_WAIT_S", "VECTOR_WAIT_S", "Live", "LiveGeneration"]

_log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")

# How long a search waits for a model or vector index that is still loading before it answers by keywords alone.
VECTOR_WAIT_S = 5.0
# How long questions wait for the next generation, counted from when its opening began, before they go on on the old one.
OPENING_WAIT_S = 1.0
_WATCH_S = 1.0
_RETRY_S = 5.0


@dataclass(frozen=True, slots=True)
class Live:
    """The generation to answer from, and why it is not the one it should be (``fallback``). ``marker`` is the pointer it
    was opened for; one that is ``doubted`` is examined again before the next answer."""

    generation: OpenGeneration
    marker: tuple[int, ...] | None
    fallback: str | None = None
    doubted: bool = False

    @property
    def identity(self) -> Mapping[str, object]:
        return self.generation.generation.info.identity

    @property
    def notes(self) -> Mapping[str, object]:
        return self.generation.generation.info.notes

    def view(self, embedder: LazyEmbedder, mode: Mode) -> GenerationView:
        """What one question of this mode reads; it waits a moment for vectors that are still loading, if it needs them."""
        self.generation.begin_loading()
        wait_s = 0.0 if mode is Mode.FTS else VECTOR_WAIT_S
        view = self.generation.view(lambda: embedder.matching(self.identity), wait_s=wait_s)
        return replace(view, fallback=self.fallback)


class LiveGeneration:
    """Opens what the store's pointer names, which is looked at before every lease; thread-safe.

    When the pointer has moved, one thread opens the next generation; leases give it a moment, and then go on on the one
    that is open. With none open, or one in doubt, they have to wait.
    """

    def __init__(
        self, store: PublishedStore, *, scratch: Path | None, needed: Callable[[], Collection[SourceClass]]
    ) -> None:
        """``needed`` tells whose damage counts."""
        self.store = store
        self._scratch = scratch
        self._needed = needed
        self._lock = threading.Lock()
        self._live: Live | None = None
        self._opening: tuple[Future[Live], float] | None = None
        self._tried_at = 0.0
        self._closed = threading.Event()
        self._follower: threading.Thread | None = None

    def read(self, work: Callable[[Live], _Answer]) -> _Answer:
        """Run ``work`` on the live generation; when that proves damaged, once more on the best one there is."""
        with self.lease() as live:
            try:
                return work(live)
            except StoreDamaged as error:
                _log.error("generation %s failed: %s", live.generation.number, error)
                self._doubt(live)
        with self.lease() as live:
            return work(live)

    @contextlib.contextmanager
    def lease(self) -> Iterator[Live]:
        """Keep the live generation open while the block runs."""
        with contextlib.ExitStack() as leases:
            for _ in range(10):
                live = self.current()
                with contextlib.suppress(RagMcpError):  # swapped out between looking and leasing
                    leases.enter_context(live.generation.lease())
                    break
            else:
                raise StoreDamaged("The store changes too quickly to be read; try again.")
            yield live

    def follow(self) -> None:
        """Open new generations ahead of the questions from now on."""
        if not self._closed.is_set() and self._follower is None:
            self._follower = threading.Thread(target=self._follow, name="rag-mcp-follow", daemon=True)
            self._follower.start()

    def _follow(self) -> None:
        while not self._closed.wait(_WATCH_S):
            with contextlib.suppress(RagMcpError):
                self.current()

    def check_not_closed(self) -> None:
        if self._closed.is_set():
            raise StoreError("This knowledge base has been closed; open another one.")

    def close(self) -> None:
        """Stop following and let go of the store; leases run on to their end."""
        with self._lock:
            self._closed.set()
            live, self._live = self._live, None
        if live is not None:
            live.generation.retire()

    # --- what is live ------------------------------------------------------------------------------------------------

    def current(self) -> Live:
        live = self._live
        if live is not None and not self._outdated(live):
            return live
        with self._lock:
            self.check_not_closed()
            live = self._live
            if live is not None and not self._outdated(live):
                return live
            must_wait = live is None or live.doubted
            begins = self._opening is None
            opening, began = self._opening = self._opening or (Future(), time.monotonic())
        if begins and must_wait:
            self._open_next(opening)
        elif begins:
            threading.Thread(target=self._open_next, args=(opening,), name="rag-mcp-open", daemon=True).start()
        patience_s = OPENING_WAIT_S
        if live is not None and (live.fallback is not None or live.generation.vectors_failed() is not None):
            patience_s = VECTOR_WAIT_S  # what is open answers only in part
        try:
            return opening.result(None if must_wait else max(0.0, began + patience_s - time.monotonic()))
        except TimeoutError:
            if live is None or opening.done():
                raise
            return live

    def _outdated(self, live: Live) -> bool:
        retry_due = live.fallback is not None and time.monotonic() - self._tried_at > _RETRY_S
        return live.doubted or retry_due or live.marker != self.store.marker()

    def _doubt(self, live: Live) -> None:
        """Have the next look at the store examine it again, but not for every question."""
        with self._lock:
            now = self._live
            if now is not None and now.generation is live.generation and time.monotonic() - self._tried_at > _RETRY_S:
                self._live = replace(now, doubted=True)

    # --- opening: one thread at a time -------------------------------------------------------------------------------

    def _open_next(self, opening: Future[Live]) -> None:
        """Open what is live now, for all who wait for ``opening``; no lock is held meanwhile."""
        try:
            live = self._refresh()
        except BaseException as error:
            with self._lock:
                self._opening = None
            opening.set_exception(error)
        else:
            with self._lock:
                self._opening = None
            opening.set_result(live)

    def _refresh(self) -> Live:
        marker = self.store.marker()
        self._tried_at = time.monotonic()
        old = self._live
        if old is not None and marker is None:
            # The pointer is gone (a folder moved away, perhaps for a moment): what is open is still whole.
            reason = "The store's pointer is missing; answering from the generation last opened."
            live = Live(old.generation, marker, reason)
        else:
            live = Live(*self._best(marker))
        with self._lock:
            closed = self._closed.is_set()
            if not closed:
                self._live = live
        if closed:
            live.generation.retire()
            self.check_not_closed()
        if old is not None and old.generation is not live.generation:
            old.generation.retire()
        return live

    def _best(self, marker: tuple[int, ...] | None) -> tuple[OpenGeneration, tuple[int, ...] | None, str | None]:
        """The live generation, else the newest one that is whole, else what is left of the live one; with the reason."""
        named = self.store.live_number()
        reason = self.store.pointer_problem()
        failed: StoreDamaged | None = None
        for number in [named, *(number for number in reversed(self.store.numbers()) if number != named)]:
            live = self._live
            if live is not None and live.generation.number == number and failed is not None:
                return live.generation, marker, _fallback(reason or str(failed), number)
            try:
                opened = self._open(number)
            except StoreDamaged as error:
                _log.error("generation %s can't be opened: %s", number, error)
                failed = failed or error
            else:
                reason = reason or (str(failed) if failed is not None else None)
                return opened, marker, reason and _fallback(reason, number)
        assert failed is not None
        try:
            return self._open(named, partial=True), marker, f"{failed} Run: rag-mcp doctor --fix"
        except StoreDamaged:
            raise failed from None

    def _open(self, number: int, *, partial: bool = False) -> OpenGeneration:
        from rag_mcp.search.generation import OpenGeneration

        generation = self.store.open(number)
        try:
            opened = OpenGeneration(generation, scratch=self._scratch, partial=partial, needed=self._needed())
        except BaseException:
            generation.close()
            raise
        if self._live is not None and self._live.generation.vectors_ready():
            opened.load_vectors()  # the libraries are loaded: opening takes a moment, and the answer must not wait later
        return opened


def _fallback(reason: str, number: int) -> str:
    return f"{reason} Answering from generation {number}."
