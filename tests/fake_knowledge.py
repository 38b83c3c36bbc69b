"""A small knowledge base without indexes, for tests of the front doors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rag_mcp.answers import (
    Citation,
    Coverage,
    Document,
    DocumentEntry,
    DocumentPage,
    Result,
    SearchResponse,
    SourceInventory,
    Status,
)
from rag_mcp.models import About, DocClass, Level, SourceClass
from rag_mcp.requests import DocumentRequest, ListRequest, NoRequest, SearchRequest

CITATION = Citation(
    source="docs/gate.md",
    title="Gates",
    heading_path=("Gates", "Teal gate"),
    chunk_index=0,
    line_start=1,
    line_end=3,
)
RESULT = Result(
    text="The teal gate opens at dawn.",
    citation=CITATION,
    source_class=SourceClass.DOCS,
    project=None,
    doc_class=DocClass.NOTE,
    confidence=Level.HIGH,
    score=0.91,
)
DOCUMENT = Document(
    source="docs/gate.md",
    title="Gates",
    source_class=SourceClass.DOCS,
    project=None,
    doc_class=DocClass.NOTE,
    text="# Gates\n\nThe teal gate opens at dawn.\n",
    line_start=1,
    line_end=3,
    chunk_start=0,
    chunk_end=0,
    chunk_count=1,
    truncated=False,
    next_chunk=None,
    next_char=0,
    generation=7,
    indexed_at="2026-01-02T03:04:05Z",
)
ENTRY = DocumentEntry("docs/gate.md", "Gates", SourceClass.DOCS, None, DocClass.NOTE, 1)
COUNTS = {SourceClass.DOCS: {"files": 1, "chunks": 1}}


def response(request: SearchRequest, *results: Result) -> SearchResponse:
    return SearchResponse(
        status="OK",
        reason=None,
        results=results or (RESULT,),
        coverage=Coverage(queried=(SourceClass.DOCS, SourceClass.DECISIONS)),
        mode=request.mode,
        confidence=request.confidence,
        explained=request.explain,
        generation=7,
        indexed_at="2026-01-02T03:04:05Z",
    )


class FakeKnowledge:
    """Answers everything at once; ``before_search`` runs in the calling thread and may wait or raise."""

    def __init__(self, before_search: Callable[[SearchRequest], None] | None = None) -> None:
        self._before_search = before_search
        self.requests: list[SearchRequest] = []
        self.closed = False

    def warm_up(self) -> None:
        pass

    def search(self, request: SearchRequest, /) -> SearchResponse:
        self.requests.append(request)
        if self._before_search:
            self._before_search(request)
        return response(request)

    def get_document(self, request: DocumentRequest, /) -> Document:
        return replace(DOCUMENT, source=request.source)

    def list_documents(self, request: ListRequest, /) -> DocumentPage:
        return DocumentPage((ENTRY,), None, 7)

    def list_sources(self, _: NoRequest | None = None, /) -> SourceInventory:
        return SourceInventory("restricted", COUNTS, (), ("alpha",), 7, "2026-01-02T03:04:05Z")

    def status(self) -> Status:
        return Status(
            ok=True,
            profile="restricted",
            generation=7,
            indexed_at="2026-01-02T03:04:05Z",
            embedder="hash",
            vector_ready=True,
            degraded_reason=None,
            inventory=COUNTS,
            integrity={"ids_agree": True},
            telemetry={},
        )

    def about(self) -> tuple[About, ...]:
        return ()

    def close(self) -> None:
        self.closed = True
