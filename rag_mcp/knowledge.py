"""KnowledgeBase: the one place that wires store, embedder, policy and search together."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rag_mcp.access.load import PolicyWatch
from rag_mcp.access.policy import Policy
from rag_mcp.access.profiles import ResolvedProfile, Rights, plan_access, resolve_profile
from rag_mcp.answers import Document, DocumentPage, SearchResponse, SourceInventory, Status
from rag_mcp.config import Config
from rag_mcp.embedders.lazy import LazyEmbedder
from rag_mcp.errors import RagMcpError, StoreAbsent
from rag_mcp.ingest.options import IngestOptions, Progress
from rag_mcp.models import IngestSummary, Mode, Reason
from rag_mcp.requests import DocumentRequest, ListRequest, SearchRequest
from rag_mcp.search.live import VECTOR_WAIT_S, Live, LiveGeneration
from rag_mcp.stores.embedded.absent import corpus_note
from rag_mcp.stores.embedded.withdrawn import WithdrawalWatch
from rag_mcp.telemetry import Telemetry

if TYPE_CHECKING:
    from rag_mcp.search.relevance import RelevanceModel

__all__ = ["KnowledgeBase"]

_log = logging.getLogger(__name__)


class KnowledgeBase:
    """A store and a profile, ready to answer; every method is thread-safe.

    Opening costs nothing; the first search (or ``warm_up``) loads indexes and model. The store's pointer is looked at
    before every answer, so a published ingest is seen by the next question; where opening it takes longer than a moment,
    the generation before goes on answering meanwhile. After ``close`` every method raises StoreError.
    """

    def __init__(self, config: Config, *, calibrated: bool = True) -> None:
        self._config = config
        self._calibrated = calibrated
        self._policy_watch = PolicyWatch(config.policy_path)
        self._withdrawals = WithdrawalWatch()
        self._telemetry = Telemetry()
        self._live = LiveGeneration(config, needed=lambda: self._access()[1].classes)
        self._embedder = LazyEmbedder(config)

    @classmethod
    def open(cls, config: Config, *, calibrated: bool = True) -> KnowledgeBase:
        """Nothing is loaded yet, and nothing has to exist yet. ``calibrated`` False leaves the owner's calibration of
        the store aside, as a new calibration must."""
        return cls(config, calibrated=calibrated)

    # --- life --------------------------------------------------------------------------------------------------------

    def warm_up(self) -> None:
        """Load the live generation and the model, and follow publications from now on. Blocks; failures are only
        logged, since every answer names them."""
        self._live.check_not_closed()
        with contextlib.suppress(RagMcpError):
            with self._live.lease() as live:
                live.generation.load_vectors()
            with contextlib.suppress(RagMcpError):
                self._embedder.get()
        self._live.follow()

    def close(self) -> None:
        """Stop following and let go of the store; running searches finish."""
        self._live.close()
        self._embedder.close()

    @property
    def store_root(self) -> Path:
        """The folder that is looked at, whether a store is there or not."""
        return self._live.store.root

    # --- ingest ------------------------------------------------------------------------------------------------------

    def ingest(self, options: IngestOptions | None = None, *, progress: Progress | None = None) -> IngestSummary:
        """Bring the store in step with the corpus; see rag_mcp.ingest.run.run_ingest."""
        from rag_mcp.ingest.run import run_ingest

        self._live.check_not_closed()
        return run_ingest(self._config, options or IngestOptions(), progress=progress)

    # --- search ------------------------------------------------------------------------------------------------------

    def search(self, request: SearchRequest) -> SearchResponse:
        """Answer within the profile. Raises IndexMismatch, StoreError or PolicyError; what merely degrades is told."""
        self._live.check_not_closed()
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
        return self._live.read(lambda live: self._answer(request, live))

    def _answer(self, request: SearchRequest, live: Live) -> SearchResponse:
        from rag_mcp.search.answer import answer

        generation = live.generation
        rights = self._rights(live)
        generation.begin_loading()
        wait_s = 0.0 if request.mode is Mode.FTS else VECTOR_WAIT_S
        identity = generation.generation.info.identity
        view = generation.view(lambda: self._embedder.matching(identity), wait_s=wait_s)
        response = answer(request, rights, view, self._model(identity))
        if live.fallback is None:
            return response
        reasons = [live.fallback, *([response.degraded_reason] if response.degraded_reason else [])]
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

    def _rights(self, live: Live) -> Rights:
        """What may be shown from ``live``. Raises PolicyError, and StoreDamaged for a generation that is not the
        newest when it can't be told what has been withdrawn from it."""
        policy, profile = self._access()
        return Rights(profile, policy, self._withdrawals.since(self._live.store, live.generation.number))

    def _model(self, identity: Mapping[str, object]) -> RelevanceModel:
        from rag_mcp.search.calibrated import calibrated_model
        from rag_mcp.search.relevance import load_model

        if self._calibrated:
            return calibrated_model(self._live.store.root, identity)
        return load_model(str(identity.get("embedder_name", "")))

    # --- documents and status ----------------------------------------------------------------------------------------

    def get_document(self, request: DocumentRequest) -> Document:
        """A file or a chunk's neighbourhood, from the index. Raises NotFound for what is missing or hidden alike."""
        from rag_mcp.search.documents import read_document

        with self._timed("get_document"):
            return self._live.read(lambda live: read_document(request, live.generation, self._rights(live)))

    def list_documents(self, request: ListRequest) -> DocumentPage:
        """One page of visible documents in path order."""
        from rag_mcp.search.documents import page_documents

        with self._timed("list_documents"):
            if request.source_class is not None and request.source_class not in self._access()[1].classes:
                return DocumentPage((), None, None)
            return self._live.read(lambda live: page_documents(request, live.generation, self._rights(live)))

    def list_sources(self) -> SourceInventory:
        """Counts of what the profile may see."""
        from rag_mcp.search.documents import inventory

        with self._timed("list_knowledge_sources"):
            return self._live.read(lambda live: inventory(live.generation, self._rights(live)))

    def status(self) -> Status:
        """Freshness, integrity, inventory and telemetry, filtered by profile."""
        from rag_mcp.search.status import build_status, other_policy

        with self._timed("rag_status"):
            policy, profile = self._access()
            telemetry = self._telemetry.snapshot(profile.classes)
            try:
                with self._live.lease() as live:
                    status = build_status(
                        live.generation,
                        self._rights(live),
                        root=self._live.store.root,
                        embedder=self._config.embedder,
                        telemetry=telemetry,
                        fallback=live.fallback,
                    )
                    info = live.generation.generation.info
                notes = (corpus_note(self._config), other_policy(info, policy))
                return replace(status, notes=(*status.notes, *(note for note in notes if note)))
            except StoreAbsent as error:
                status = build_status(
                    None,
                    Rights(profile, policy),
                    root=self._live.store.root,
                    embedder=self._config.embedder,
                    telemetry=telemetry,
                    fallback="nothing is indexed at the configured place; the notes say what to run",
                )
                return replace(status, notes=(*status.notes, str(error)))

    @contextlib.contextmanager
    def _timed(self, tool: str) -> Iterator[None]:
        self._live.check_not_closed()
        started = time.perf_counter()
        status = "ERROR"
        try:
            yield
            status = "OK"
        finally:
            self._telemetry.record(tool, status=status, elapsed_ms=(time.perf_counter() - started) * 1000)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
