"""From candidates to the answer: order, gate, shape, budget, citations."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from rag_mcp.access.profiles import AccessPlan
from rag_mcp.answers import Citation, Coverage, Near, Result, SearchResponse
from rag_mcp.models import Chunk, Gate, Level, Mode, Reason
from rag_mcp.requests import SearchRequest
from rag_mcp.search.context import Documents, Excerpt, Run, excerpts
from rag_mcp.search.relevance import RelevanceModel
from rag_mcp.search.retrieve import GenerationView, Retrieved
from rag_mcp.search.shape import Candidate, order_candidates, shape
from rag_mcp.text.properties import Properties, asked_about, few
from rag_mcp.text.sanitize import single_line

__all__ = ["MAX_NEAREST", "access_refusal", "advice", "present"]

# Of the properties shown beside a passage.
_PROPERTIES_CHARS = 600
# Days that a citation names, the newest ones; snapshots_covered counts all.
_DAYS = 100
# Less than this share of what makes level medium is no place to look: a question about something else has neighbours
# too. Of what the strict gate withholds on claude_docs, ray_docs_a, qmd_eval and squad2_a (minilm-int8) it names the right
# file for 22 of 34 answerable questions, and any for 19 of 85 about other products; at 0.6 for 27 of 34 and 42 of 85.
_NEAR = 0.75
MAX_NEAREST = 3
_LOOK = (
    "Ask again with confidence normal to read what was withheld, open a nearest place with get_document, or rephrase "
    "the question."
)
_REPHRASE = "Nothing came near: rephrase the question once, or say that these documents do not seem to cover it."
_DATE = re.compile(r"(?<!\d)(\d{4}-\d{2}-\d{2})(?!\d)")


def present(candidates: Sequence[Candidate], retrieved: Retrieved, model: RelevanceModel) -> SearchResponse:
    """The best ``k`` candidates as results, unless the gate withholds them all."""
    request = retrieved.scope.request
    if not candidates:
        failed = retrieved.mode is None or retrieved.failed
        return _response(retrieved, Reason.PLANE_FAILED if failed else Reason.NO_RESULTS)
    ordered = order_candidates(candidates, day=_day_asked(request))
    if request.confidence is Gate.STRICT:
        passing = [candidate for candidate in ordered if candidate.level is not Level.LOW]
        if not passing:
            return _withheld(shape(ordered)[: request.k], retrieved, model)
        ordered = passing
    documents = Documents(retrieved.scope)
    shown = excerpts(shape(ordered), documents)
    return _response(retrieved, None, [_result(excerpt, documents, retrieved, model) for excerpt in shown])


def _withheld(low: Sequence[Candidate], retrieved: Retrieved, model: RelevanceModel) -> SearchResponse:
    """The refusal of a strict search that found only ``low``: how many there are, and where the best of them stand."""
    assert retrieved.mode is not None, "candidates come from a branch that was searched"
    floor = _NEAR * model.thresholds(retrieved.mode, passages=retrieved.passages).medium
    nearest: dict[tuple[str, str], Near] = {}
    documents = Documents(retrieved.scope)
    for candidate in low:
        if candidate.probability >= floor:
            cited = _citation(documents, documents.run(candidate.joined), candidate.chunk)
            place = Near(cited.source, cited.heading or cited.title, candidate.probability)
            nearest.setdefault((place.source, place.heading), place)
    return replace(
        _response(retrieved, Reason.STRICT_BLOCKED_LOW),
        withheld=len(low),
        nearest=tuple(nearest.values())[:MAX_NEAREST],
        advice=advice(nearest),
    )


def advice(nearest: Collection[object]) -> str:
    """What to do after a refusal that names these places."""
    return _LOOK if nearest else _REPHRASE


def access_refusal(request: SearchRequest, access: AccessPlan, view: GenerationView | None = None) -> SearchResponse:
    """The answer to a request for a class that the profile lacks; ``view`` is None when no generation has been looked
    at."""
    return SearchResponse(
        status="NO_RELEVANT_CONTEXT",
        reason=Reason.ACL_DENIED,
        results=(),
        coverage=Coverage(skipped_by_acl=access.skipped_by_acl),
        mode=request.mode,
        confidence=request.confidence,
        explained=request.explain,
        generation=view.number if view is not None else None,
        indexed_at=view.indexed_at if view is not None else None,
    )


def _response(retrieved: Retrieved, reason: Reason | None, results: Sequence[Result] = ()) -> SearchResponse:
    scope = retrieved.scope
    problems = dict.fromkeys(retrieved.problems)
    return SearchResponse(
        status="OK" if reason is None else "NO_RELEVANT_CONTEXT",
        reason=reason,
        results=tuple(results),
        coverage=Coverage(queried=scope.classes, failed=retrieved.failed),
        mode=scope.request.mode,
        confidence=scope.request.confidence,
        explained=scope.request.explain,
        degraded=bool(problems),
        degraded_reason="; ".join(problems) or None,
        generation=scope.view.number,
        indexed_at=scope.view.indexed_at,
        without_text=sum(result.text is None for result in results),
        not_in_documents=retrieved.absent,
    )


def _day_asked(request: SearchRequest) -> str | None:
    if request.as_of is not None:
        return request.as_of.isoformat()
    date = _DATE.search(request.query)
    return date.group(1) if date else None


# --- one result ------------------------------------------------------------------------------------------------------


def _result(excerpt: Excerpt, documents: Documents, retrieved: Retrieved, model: RelevanceModel) -> Result:
    candidate, chunk, text = excerpt.candidate, excerpt.candidate.chunk, excerpt.text
    return Result(
        text=text.shown,
        citation=_citation(documents, excerpt.run, chunk),
        source_class=chunk.source_class,
        project=chunk.project,
        doc_class=chunk.doc_class,
        confidence=candidate.level,
        score=candidate.probability,
        truncated=text.truncated,
        found_at=excerpt.found_at,
        also_in=tuple(_citation(documents, documents.run([twin]), twin) for twin in candidate.also_in),
        properties=_properties(candidate, documents),
        warnings=text.warnings,
        explain=_explanation(candidate, retrieved, model) if documents.scope.request.explain else None,
    )


def _properties(candidate: Candidate, documents: Documents) -> Properties:
    """What the head of the document says, where the passage was found by it or has nothing else to say."""
    if candidate.chunk.text and not candidate.by_head:
        return {}
    properties = documents.entry(candidate.chunk.source).properties
    told = asked_about(documents.scope.request.query, properties) if candidate.chunk.text else properties
    return few(told, _PROPERTIES_CHARS)


def _explanation(candidate: Candidate, retrieved: Retrieved, model: RelevanceModel) -> dict[str, object]:
    assert retrieved.mode is not None, "candidates come from a branch that was searched"
    levels = model.thresholds(retrieved.mode, passages=retrieved.passages)
    evidence = candidate.evidence
    mode = Mode.HYBRID
    if evidence.cosine is None:
        mode = Mode.FTS
    elif evidence.term_share is None:
        mode = Mode.VECTOR
    return {
        "rrf": candidate.rrf,
        "vector": evidence.cosine,
        "bm25": evidence.bm25,
        "vector_rank": evidence.vector_rank,
        "bm25_rank": evidence.bm25_rank,
        "model": model.name,
        "familiarity": round(retrieved.familiarity, 4),
        "features": {name: round(value, 4) for name, value in candidate.features.items()},
        "log_odds": model.explain(mode, candidate.features),
        "levels": {"medium": round(levels.medium, 3), "high": round(levels.high, 3)},
        "rank_score": round(candidate.rank_score, 4),
        "span": [candidate.joined[0].start, candidate.joined[-1].end],
    }


# --- one citation ----------------------------------------------------------------------------------------------------


def _citation(documents: Documents, run: Run, chunk: Chunk) -> Citation:
    """Of the passages of ``run``, under the heading of ``chunk``."""
    headings = tuple(single_line(part) for part in chunk.heading_path)
    passages = documents.passages(run.path)
    first_line, last_line = passages.lines(run.first, run.last)
    citation = Citation(
        source=run.path,
        title=single_line(chunk.title),
        heading_path=headings,
        chunk_index=run.first,
        line_start=first_line,
        line_end=last_line,
        pages=documents.entry(run.path).pages_of(first_line, last_line),
    )
    if chunk.series is None or not chunk.valid_on:
        return citation
    paths = documents.scope.days_of(chunk.series)
    days = [day for day in passages.valid_on(run.first, run.last) if day in paths]
    return replace(
        citation,
        snapshot_date=days[0] if days else chunk.valid_on[0],
        also_unchanged_on=tuple(days[1:][-_DAYS:]),
        snapshots_covered=len(days),
    )
