"""KnowledgeBase: the one place that wires store, embedder, policy and search together."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rag_mcp.access.load import PolicyWatch
from rag_mcp.access.policy import Policy
from rag_mcp.access.profiles import ResolvedProfile, Rights, plan_access, profile_problem, resolve_profile
from rag_mcp.answers import Document, DocumentPage, SearchResponse, SourceInventory, Status
from rag_mcp.config import Config
from rag_mcp.errors import EmbedderError, IndexMismatch, RagMcpError, StoreAbsent, StoreDamaged, StoreError
from rag_mcp.ingest.options import IngestOptions, Progress
from rag_mcp.models import IngestSummary, Mode, Reason
from rag_mcp.requests import DocumentRequest, ListRequest, SearchRequest
from rag_mcp.stores.embedded.absent import absence, corpus_note, live_generation
from rag_mcp.stores.embedded.generations import GenerationStore
from rag_mcp.stores.embedded.place import store_root
from rag_mcp.stores.embedded.withdrawn import WithdrawalWatch
from rag_mcp.telemetry import Telemetry

if TYPE_CHECKING:
    from rag_mcp.embedders.base import Embedder
    from rag_mcp.search.live import OpenGeneration
    from rag_mcp.search.relevance import RelevanceModel

__all__ = ["KnowledgeBase", "doubtful_settings"]

_log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")

# How long a search waits for a model or vector index that is still loading before it answers by keywords alone.
VECTOR_WAIT_S = 5.0
_WATCH_S = 1.0
_UNKNOWN = (-1,)
_RETRY_S = 5.0
# How long questions wait for the next generation, counted from when its opening began, before they go on on the old one.
OPENING_WAIT_S = 1.0


class KnowledgeBase:
    """A store and a profile, ready to answer; every method is thread-safe.

    Opening costs nothing; the first search (or ``warm_up``) loads indexes and model. The store's pointer is looked at
    before every answer, so a published ingest is seen by the next question; where opening it takes longer than a moment,
    the generation before goes on answering meanwhile. After ``close`` every method raises StoreError.
    """

    def __init__(self, config: Config, *, calibrated: bool = True) -> None:
        self._config = config
        self._calibrated = calibrated
        self._store: GenerationStore | None = None
        self._policy_watch = PolicyWatch(config.policy_path)
        self._withdrawals = WithdrawalWatch()
        self._telemetry = Telemetry()
        self._swap = threading.Lock()
        self._open: OpenGeneration | None = None
        self._opening: tuple[Future[OpenGeneration], float] | None = None
        self._marker: tuple[int, ...] | None = None
        self._tried: tuple[tuple[int, ...] | None, float] = (None, 0.0)
        self._fallback_reason: str | None = None
        self._embedder_lock = threading.Lock()
        self._embedder: Embedder | None = None
        self._embedder_failed: tuple[EmbedderError, float] | None = None
        self._closed = threading.Event()
        self._threads: list[threading.Thread] = []

    @classmethod
    def open(cls, config: Config, *, calibrated: bool = True) -> KnowledgeBase:
        """Nothing is loaded yet, and nothing has to exist yet. ``calibrated`` False leaves the owner's calibration of
        the store aside, as a new calibration must."""
        return cls(config, calibrated=calibrated)

    # --- life --------------------------------------------------------------------------------------------------------

    def warm_up(self) -> None:
        """Load the live generation and the model, and follow publications from now on. Blocks; failures are only
        logged, since every answer names them."""
        self._check_not_closed()
        with contextlib.suppress(RagMcpError):
            with self._lease() as opened:
                opened.load_vectors()
            with contextlib.suppress(RagMcpError):
                self._embedder_for(None)
        if not self._closed.is_set() and not self._threads:
            self._spawn(self._follow, "rag-mcp-follow")

    def close(self) -> None:
        """Stop following and let go of the store; running searches finish."""
        with self._swap:
            self._closed.set()
            opened, self._open = self._open, None
        if opened is not None:
            opened.retire()
        with self._embedder_lock:
            embedder, self._embedder = self._embedder, None
        if embedder is not None:
            embedder.close()

    def _check_not_closed(self) -> None:
        if self._closed.is_set():
            raise StoreError("This knowledge base has been closed; open another one.")

    def _spawn(self, target: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _follow(self) -> None:
        """Open new generations ahead of the questions."""
        while not self._closed.wait(_WATCH_S):
            with contextlib.suppress(RagMcpError):
                self._current()

    @property
    def store_root(self) -> Path:
        """The folder that is looked at, whether a store is there or not."""
        return self._generations.root

    # --- ingest ------------------------------------------------------------------------------------------------------

    def ingest(self, options: IngestOptions | None = None, *, progress: Progress | None = None) -> IngestSummary:
        """Bring the store in step with the corpus; see rag_mcp.ingest.run.run_ingest."""
        from rag_mcp.ingest.run import run_ingest

        self._check_not_closed()
        return run_ingest(self._config, options or IngestOptions(), progress=progress)

    # --- search ------------------------------------------------------------------------------------------------------

    def search(self, request: SearchRequest) -> SearchResponse:
        """Answer within the profile. Raises IndexMismatch, StoreError or PolicyError; what merely degrades is told."""
        self._check_not_closed()
        started = time.perf_counter()
        response = self._search(request)
        winner = response.results[0].source_class if response.results else None
        self._telemetry.record(
            "search_knowledge",
            status=response.status,
            reason=response.reason or "",
            winner_class=winner,
            elapsed_ms=(time.perf_counter() - started) * 1000,
        )
        if response.status != "OK" and response.reason is not Reason.ACL_DENIED:
            self._note_gap(request.query, response.reason)
        return response

    def _search(self, request: SearchRequest) -> SearchResponse:
        from rag_mcp.search.present import denied

        access = plan_access(self._access()[1], request.source_class)
        if access.skipped_by_acl:
            # Decided before the store is looked at: the answer must not depend on what a hidden class holds.
            return denied(request, access)
        return self._read(lambda opened, rights: self._answer(request, opened, rights))

    def _answer(self, request: SearchRequest, opened: OpenGeneration, rights: Rights) -> SearchResponse:
        from rag_mcp.search.answer import answer

        opened.begin_loading()
        wait_s = 0.0 if request.mode is Mode.FTS else VECTOR_WAIT_S
        view = opened.view(lambda: self._embedder_for(opened), wait_s=wait_s)
        response = answer(request, rights, view, self._model(opened))
        if self._fallback_reason is None:
            return response
        reasons = [self._fallback_reason, *([response.degraded_reason] if response.degraded_reason else [])]
        return replace(response, degraded=True, degraded_reason="; ".join(reasons))

    def _note_gap(self, question: str, reason: Reason | None) -> None:
        if self._config.gap_log is None:
            return
        from rag_mcp.search.gaps import Gap, append_gap

        try:
            append_gap(self._config.gap_log, Gap(_now(), question, reason or ""))
        except OSError as error:
            _log.warning("gap log can't be written: %s", error.strerror)

    # --- parts -------------------------------------------------------------------------------------------------------

    def _access(self) -> tuple[Policy, ResolvedProfile]:
        policy = self._policy_watch.current()
        return policy, resolve_profile(self._config.profile, policy)

    def _rights(self, opened: OpenGeneration) -> Rights:
        """What may be shown from ``opened``. Raises PolicyError, and StoreDamaged for a generation that is not the
        newest when it can't be told what has been withdrawn from it."""
        policy, profile = self._access()
        return Rights(profile, policy, self._withdrawals.since(self._generations, opened.number))

    @property
    def _generations(self) -> GenerationStore:
        if self._store is None or self._open is None:  # what lies there decides where the store is, until it is found
            self._store = GenerationStore(store_root(self._config))
        return self._store

    def _read(self, work: Callable[[OpenGeneration, Rights], _Answer]) -> _Answer:
        """Run ``work`` on the live generation; when that proves damaged, once more on the best one there is."""
        with self._lease() as opened:
            try:
                return work(opened, self._rights(opened))
            except StoreDamaged as error:
                _log.error("generation %s failed: %s", opened.number, error)
                self._doubt(opened)
        with self._lease() as opened:
            return work(opened, self._rights(opened))

    def _doubt(self, opened: OpenGeneration) -> None:
        """Have the next look at the store examine ``opened`` again, but not for every question."""
        with self._swap:
            if self._open is opened and time.monotonic() - self._tried[1] > _RETRY_S:
                self._marker = _UNKNOWN

    @contextlib.contextmanager
    def _lease(self) -> Iterator[OpenGeneration]:
        for _ in range(10):
            opened = self._current()
            try:
                lease = opened.lease()
                lease.__enter__()
            except RagMcpError:
                continue  # swapped out between looking and leasing
            try:
                yield opened
            finally:
                lease.__exit__(None, None, None)
            return
        raise StoreDamaged("The store changes too quickly to be read; try again.")

    def _current(self) -> OpenGeneration:
        """The live generation. When the pointer has moved, one thread opens the next one; questions give it a moment, and
        then go on on the one that is open. With none open, or one in doubt, they have to wait."""
        opened = self._open
        if opened is not None and not self._outdated(self._generations.marker()):
            return opened
        with self._swap:
            self._check_not_closed()
            opened = self._open
            if opened is not None and not self._outdated(self._generations.marker()):
                return opened
            must_wait = opened is None or self._marker == _UNKNOWN
            begins = self._opening is None
            opening, began = self._opening = self._opening or (Future(), time.monotonic())
        if begins and must_wait:
            self._open_next(opening)
        elif begins:
            threading.Thread(target=self._open_next, args=(opening,), name="rag-mcp-open", daemon=True).start()
        patience_s = OPENING_WAIT_S
        if opened is not None and (self._fallback_reason is not None or opened.vectors_failed() is not None):
            patience_s = VECTOR_WAIT_S  # what is open answers only in part
        try:
            return opening.result(None if must_wait else max(0.0, began + patience_s - time.monotonic()))
        except TimeoutError:
            if opened is None or opening.done():
                raise
            return opened

    def _outdated(self, marker: tuple[int, ...] | None) -> bool:
        retry_due = self._fallback_reason is not None and time.monotonic() - self._tried[1] > _RETRY_S
        return marker != self._marker or retry_due

    def _open_next(self, opening: Future[OpenGeneration]) -> None:
        """Open what is live now, for all who wait for ``opening``; no lock is held meanwhile."""
        try:
            found = self._refresh(self._generations.marker())
        except BaseException as error:
            with self._swap:
                self._opening = None
            opening.set_exception(error)
        else:
            with self._swap:
                self._opening = None
            opening.set_result(found)

    def _refresh(self, marker: tuple[int, ...] | None) -> OpenGeneration:
        """Only one thread at a time is in here."""
        self._tried = (marker, time.monotonic())
        old = self._open
        if old is not None and marker is None:
            # The pointer is gone (a folder moved away, perhaps for a moment): what is open is still whole.
            opened = old
            reason: str | None = "The store's pointer is missing; answering from the generation last opened."
        else:
            opened, reason = self._open_best()
        with self._swap:
            closed = self._closed.is_set()
            if not closed:
                self._open, self._marker, self._fallback_reason = opened, marker, reason
        if closed:
            opened.retire()
            self._check_not_closed()
        if old is not None and old is not opened:
            old.retire()
        return opened

    def _open_best(self) -> tuple[OpenGeneration, str | None]:
        """The live generation, else the newest one that is whole, else what is left of the live one; with the reason."""
        live = live_generation(self._generations, self._config)
        reason = self._generations.pointer_problem()
        older = [number for number in reversed(self._generations.numbers()) if number != live]
        failed: StoreDamaged | None = None
        for number in [live, *older]:
            if self._open is not None and self._open.number == number and failed is not None:
                return self._open, _fallback(reason or str(failed), number)
            try:
                opened = self._open_generation(number)
            except StoreDamaged as error:
                _log.error("generation %s can't be opened: %s", number, error)
                failed = failed or error
            else:
                reason = reason or (str(failed) if failed is not None else None)
                return opened, reason and _fallback(reason, number)
        assert failed is not None
        try:
            return self._open_generation(live, partial=True), f"{failed} Run: rag-mcp doctor --fix"
        except StoreDamaged:
            raise failed from None

    def _open_generation(self, number: int, *, partial: bool = False) -> OpenGeneration:
        from rag_mcp.search.live import OpenGeneration

        try:
            generation = self._generations.open(number)
        except OSError as error:
            raise absence(self._config, error) from error
        try:
            needed = self._access()[1].classes
            opened = OpenGeneration(generation, scratch=self._config.scratch_dir, partial=partial, needed=needed)
        except BaseException:
            generation.close()
            raise
        if self._open is not None and self._open.vectors_ready():
            opened.load_vectors()  # the libraries are loaded: opening takes a moment, and the answer must not wait later
        return opened

    def _model(self, opened: OpenGeneration) -> RelevanceModel:
        from rag_mcp.search.calibrated import calibrated_model
        from rag_mcp.search.relevance import load_model

        identity = opened.generation.info.identity
        if self._calibrated:
            return calibrated_model(self._generations.root, identity)
        return load_model(str(identity.get("embedder_name", "")))

    def _embedder_for(self, opened: OpenGeneration | None) -> Embedder:
        """The embedder, if it is the one ``opened`` was built with. Raises IndexMismatch or EmbedderError."""
        with self._embedder_lock:
            embedder = self._load_embedder()
        if opened is not None:
            built = opened.generation.info.identity
            if built.get("embedder") != embedder.fingerprint:
                raise IndexMismatch(
                    f"The store was built with embedder {built.get('embedder_name')!r} and other model files or settings "
                    f"than this process uses ({embedder.name!r}). Set RAG_MCP_EMBEDDER to match, or ingest again."
                )
        return embedder

    def _load_embedder(self) -> Embedder:
        if self._embedder is not None:
            return self._embedder
        if self._embedder_failed is not None and time.monotonic() - self._embedder_failed[1] < _RETRY_S:
            raise self._embedder_failed[0]
        from rag_mcp.embedders import open_embedder

        try:
            self._embedder = open_embedder(self._config)
        except EmbedderError as error:
            self._embedder_failed = (error, time.monotonic())
            raise
        return self._embedder

    # --- documents and status ----------------------------------------------------------------------------------------

    def get_document(self, request: DocumentRequest) -> Document:
        """A file or a chunk's neighbourhood, from the index. Raises NotFound for what is missing or hidden alike."""
        from rag_mcp.search.documents import read_document

        with self._timed("get_document"):
            return self._read(lambda opened, rights: read_document(request, opened, rights))

    def list_documents(self, request: ListRequest) -> DocumentPage:
        """One page of visible documents in path order."""
        from rag_mcp.search.documents import page_documents

        with self._timed("list_documents"):
            if request.source_class is not None and request.source_class not in self._access()[1].classes:
                return DocumentPage((), None, None)
            return self._read(lambda opened, rights: page_documents(request, opened, rights))

    def list_sources(self) -> SourceInventory:
        """Counts of what the profile may see."""
        from rag_mcp.search.documents import inventory

        with self._timed("list_knowledge_sources"):
            return self._read(lambda opened, rights: inventory(opened, rights))

    def status(self) -> Status:
        """Freshness, integrity, inventory and telemetry, filtered by profile."""
        from rag_mcp.search.status import build_status, other_policy

        with self._timed("rag_status"):
            policy, profile = self._access()
            telemetry = self._telemetry.snapshot(profile.classes)
            try:
                with self._lease() as opened:
                    status = build_status(
                        opened,
                        self._rights(opened),
                        root=self._generations.root,
                        embedder=self._config.embedder,
                        telemetry=telemetry,
                        fallback=self._fallback_reason,
                    )
                    found = (corpus_note(self._config), other_policy(opened.generation.info, policy))
                return replace(status, notes=(*status.notes, *(note for note in found if note)))
            except StoreAbsent as error:
                status = build_status(
                    None,
                    Rights(profile, policy),
                    root=self._generations.root,
                    embedder=self._config.embedder,
                    telemetry=telemetry,
                    fallback="nothing is indexed at the configured place; the notes say what to run",
                )
                return replace(status, notes=(*status.notes, str(error)))

    @contextlib.contextmanager
    def _timed(self, tool: str) -> Iterator[None]:
        self._check_not_closed()
        started = time.perf_counter()
        status = "ERROR"
        try:
            yield
            status = "OK"
        finally:
            self._telemetry.record(tool, status=status, elapsed_ms=(time.perf_counter() - started) * 1000)


def doubtful_settings(config: Config) -> list[str]:
    """Settings that name what does not exist or is not the ingest's, in words for whoever runs the process: each works as something less than
    was meant, which must not go unsaid. An unusable policy file is no doubt but an error, told by every answer."""
    from rag_mcp.access.load import load_policy
    from rag_mcp.embedders import check_embedder_name
    from rag_mcp.search.status import other_policy

    found: list[str | None] = []
    with contextlib.suppress(RagMcpError):
        policy = load_policy(config.policy_path)
        found.append(profile_problem(config.profile, policy))
        store = GenerationStore(store_root(config))
        found.append(other_policy(store.info(live_generation(store, config)), policy))
    try:
        check_embedder_name(config.embedder)
    except EmbedderError as error:
        found.append(f"RAG_MCP_EMBEDDER: {error} Until then only words are searched, not meanings.")
    return [text for text in found if text]


def _fallback(reason: str, number: int) -> str:
    return f"{reason} Answering from generation {number}."


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
