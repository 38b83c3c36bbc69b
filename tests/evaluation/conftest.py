"""Builders for results and a search whose answers a test decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from rag_mcp.answers import Citation, Coverage, Result, SearchResponse
from rag_mcp.models import DocClass, Level, SourceClass
from rag_mcp.requests import SearchRequest

Build = Callable[..., Result]


@pytest.fixture
def result() -> Build:
    """Build one result; ``span`` is what an explaining search would report."""

    def build(
        source: str,
        score: float = 0.9,
        *,
        level: Level = Level.HIGH,
        lines: tuple[int, int] = (1, 1),
        span: tuple[int, int] | None = None,
        also_in: tuple[str, ...] = (),
        text: str = "passage",
    ) -> Result:
        return Result(
            text=text,
            citation=Citation(source, source, ("Top", "Heading"), 0, *lines),
            source_class=SourceClass.DOCS,
            project=None,
            doc_class=DocClass.NOTE,
            confidence=level,
            score=score,
            also_in=tuple(Citation(other, other, ("Top", "Heading"), 0, 1, 1) for other in also_in),
            explain={"span": list(span)} if span else None,
        )

    return build


@pytest.fixture
def scripted() -> Callable[[Mapping[str, Sequence[Result]]], Callable[[SearchRequest], SearchResponse]]:
    """A search that answers each question with the results given for it, and records what it was asked."""

    def build(answers: Mapping[str, Sequence[Result]]) -> Callable[[SearchRequest], SearchResponse]:
        def search(request: SearchRequest) -> SearchResponse:
            asked.append(request)
            found = tuple(answers.get(request.query, ()))[: request.k]
            status = "OK" if found else "NO_RELEVANT_CONTEXT"
            return SearchResponse(
                status=status,
                reason=None,
                results=found,
                coverage=Coverage(),
                mode=request.mode,
                confidence=request.confidence,
            )

        asked: list[SearchRequest] = []
        search.asked = asked  # type: ignore[attr-defined]
        return search

    return build
