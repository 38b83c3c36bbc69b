"""KnowledgeBase: the one place that wires store, embedder, policy and search together."""

from __future__ import annotations

import contextlib
from pathlib import Path

from rag_mcp.access.load import PolicyWatch
from rag_mcp.access.policy import Policy
from rag_mcp.access.profiles import ResolvedProfile, Rights, plan_access, resolve_profile
from rag_mcp.answers import Document, DocumentPage, SearchResponse, SourceInventory, Status
from rag_mcp.config import Config
from rag_mcp.embedders.lazy import LazyEmbedder
from rag_mcp.errors import RagMcpError, StoreAbsent
from rag_mcp.ingest.options import IngestOptions, Progress
from rag_mcp.models import About, IngestSummary
from rag_mcp.requests import DocumentRequest, ListRequest, NoRequest, SearchRequest
from rag_mcp.search.live import Live, LiveGeneration
from rag_mcp.stores.embedded.published import EmbeddedPublished
from rag_mcp.stores.published import PublishedStore

__all__ = ["KnowledgeBase"]


class KnowledgeBase:
    """A store and a profile, ready to answer; every method is thread-safe.

    Opening costs nothing; the first search (or ``warm_up``) loads indexes and model. The store's pointer is looked at
    before every answer, so a published ingest is seen by the next question; where opening it takes longer than a moment,
    the generation before goes on answering meanwhile. After ``close`` every method raises StoreError.
    """

    def __init__(self, config: Config, *, calibrated: bool = True, embedder: LazyEmbedder | None = None) -> None:
        self._config = config
        self._calibrated = calibrated
        self._policy_watch = PolicyWatch(config.policy_path)
        self._last_rights: Rights | None = None
        self._live = LiveGeneration(
            _published(config), scratch=config.scratch_dir, needed=lambda: self._access()[1].classes
        )
        self._embedder = embedder or LazyEmbedder(config)

    @classmethod
    def open(cls, config: Config, *, calibrated: bool = True) -> KnowledgeBase:
        """Nothing has to exist yet. ``calibrated`` False leaves the owner's calibration of the store aside, as a new
        calibration must."""
        return cls(config, calibrated=calibrated)

    # --- life --------------------------------------------------------------------------------------------------------

    def warm_up(self) -> None:
        """Load the live generation and the model, and follow publications from now on. Blocks; answers name what failed."""
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
        self._live.store.close()
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

    # --- answers -----------------------------------------------------------------------------------------------------

    def search(self, request: SearchRequest) -> SearchResponse:
        """Answer within the profile. Raises IndexMismatch, StoreError or PolicyError; what merely degrades is told."""
        from rag_mcp.search.gaps import note_unanswered
        from rag_mcp.search.present import access_refusal

        self._live.check_not_closed()
        access = plan_access(self._access()[1], request.source_class)
        if access.skipped_by_acl:
            # Decided before the store is looked at: the answer must not depend on what a hidden class holds.
            return access_refusal(request, access)
        response = self._live.read(lambda live: self._answer(request, live))
        note_unanswered(self._config.gap_log, request.query, response.reason)
        return response

    def _answer(self, request: SearchRequest, live: Live) -> SearchResponse:
        from rag_mcp.search.answer import answer
        from rag_mcp.search.calibrated import relevance_model

        rights = self._rights(live)
        model = relevance_model(self.store_root if self._calibrated else None, live.identity, live.notes)
        return answer(request, rights, live.view(self._embedder, request.mode), model)

    def get_document(self, request: DocumentRequest) -> Document:
        """A file or a chunk's neighbourhood, from the index. Raises NotFound for what is missing or hidden alike."""
        from rag_mcp.search.documents import read_document

        return self._live.read(lambda live: read_document(request, live.generation, self._rights(live)))

    def list_documents(self, request: ListRequest) -> DocumentPage:
        """One page of visible documents in path order."""
        from rag_mcp.search.documents import page_documents

        self._live.check_not_closed()
        if request.source_class is not None and request.source_class not in self._access()[1].classes:
            return DocumentPage((), None, None)
        return self._live.read(lambda live: page_documents(request, live.generation, self._rights(live)))

    def list_sources(self, _: NoRequest | None = None) -> SourceInventory:
        """Counts of what the profile may see."""
        from rag_mcp.search.documents import inventory

        return self._live.read(lambda live: inventory(live.generation, self._rights(live), self._config.description))

    def about(self) -> tuple[About, ...]:
        """What to tell before anything is asked, from the store's note: no index is opened."""
        from rag_mcp.search.description import presented

        return (About("", presented(self._config, self._live.store, self._access)),)

    def status(self) -> Status:
        """Freshness, integrity and inventory, filtered by profile."""
        from rag_mcp.search.status import build_status, status_without_store

        policy, profile = self._access()
        try:
            with self._live.lease() as live:
                return build_status(live, self._rights(live), self._config, self._live.store.last_run())
        except StoreAbsent as absent:
            return status_without_store(absent, Rights(profile, policy), self._config, self._live.store.last_run())

    # --- parts -------------------------------------------------------------------------------------------------------

    def _access(self) -> tuple[Policy, ResolvedProfile]:
        policy = self._policy_watch.current()
        return policy, resolve_profile(self._config.profile, policy)

    def _rights(self, live: Live) -> Rights:
        """What may be shown from ``live``. Raises PolicyError, and StoreDamaged for a generation that is not the
        newest when it can't be told what has been withdrawn from it."""
        policy, profile = self._access()
        rights = Rights(profile, policy, self._live.store.withdrawn_since(live.generation.number))
        last = self._last_rights
        if last is not None and last == rights:
            return last  # with all that was decided by them
        self._last_rights = rights
        return rights


def _published(config: Config) -> PublishedStore:
    if not config.database:
        return EmbeddedPublished(config)
    from rag_mcp.stores.postgres.published import PostgresPublished

    return PostgresPublished(config)
