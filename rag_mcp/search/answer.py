"""Answer one question: retrieve, score, present."""

from __future__ import annotations

from collections.abc import Sequence

from rag_mcp.access.profiles import Rights, plan_access
from rag_mcp.answers import SearchResponse
from rag_mcp.models import SourceClass
from rag_mcp.requests import SearchRequest
from rag_mcp.search.document_filter import passing, without_others
from rag_mcp.search.present import access_refusal, present
from rag_mcp.search.relevance import RelevanceModel
from rag_mcp.search.retrieve import GenerationView, retrieve, scope_of
from rag_mcp.search.score import score
from rag_mcp.search.shape import Candidate
from rag_mcp.stores.base import EVERYTHING

__all__ = ["answer", "gather"]


def answer(request: SearchRequest, rights: Rights, view: GenerationView, model: RelevanceModel) -> SearchResponse:
    """Search the classes that ``rights`` give and nothing else; only sources they show leave. Raises IndexMismatch when
    vectors were asked for and the store was built with another embedder; other failures of a branch degrade the answer
    and are named in it."""

    def visible(source_class: SourceClass, source: str) -> bool:
        return rights.may_see(source_class, source, requested=request.source_class)

    access = plan_access(rights.profile, request.source_class)
    if access.skipped_by_acl:
        return access_refusal(request, access, view)
    documents = EVERYTHING
    if not request.documents.empty:
        shown = view.shown(rights, request.source_class)
        documents = without_others(passing(request.documents, view.facets(), shown), shown)
    retrieved = retrieve(scope_of(request, access.classes, view, visible, documents))
    return present(score(retrieved, model), retrieved, model)


def gather(
    request: SearchRequest, classes: Sequence[SourceClass], view: GenerationView, model: RelevanceModel
) -> tuple[list[Candidate], float]:
    """All candidates of a question with their evidence, in no order, and the embedder's familiarity with it: what
    ``answer`` ranks. For fitting and measuring; applies no access rule."""
    retrieved = retrieve(scope_of(request, classes, view, lambda source_class, source: True))
    return score(retrieved, model), retrieved.familiarity
