"""From candidates to the answer: order, gate, shape, budget, citations."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from rag_mcp.access.profiles import AccessPlan
from rag_mcp.answers import Citation, Coverage, Near, Result, SearchResponse
from rag_mcp.models import Chunk, Gate, Level, Mode, Reason
from rag_mcp.requests import SearchRequest
from rag_mcp.search.relevance import RelevanceModel
from rag_mcp.search.retrieve import GenerationView, Retrieved, Scope
from rag_mcp.search.shape import Candidate, cut_text, order_candidates, shape
from rag_mcp.text.sanitize import neutralise, single_line

__all__ = ["MAX_NEAREST", "access_refusal", "advice", "fit_texts", "present"]

_MIN_TEXT = 500
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
    shown = shape(ordered)[: request.k]
    texts = fit_texts([_joined_text(candidate.joined) for candidate in shown], request.max_chars)
    results = [_result(candidate, text, retrieved, model) for candidate, text in zip(shown, texts, strict=True)]
    return _response(retrieved, None, results)


def _withheld(low: Sequence[Candidate], retrieved: Retrieved, model: RelevanceModel) -> SearchResponse:
    """The refusal of a strict search that found only ``low``: how many there are, and where the best of them stand."""
    assert retrieved.mode is not None, "candidates come from a branch that was searched"
    floor = _NEAR * model.thresholds(retrieved.mode, passages=retrieved.passages).medium
    nearest: dict[tuple[str, str], Near] = {}
    for candidate in low:
        if candidate.probability >= floor:
            cited = _citation(retrieved.scope, candidate.joined, candidate.chunk)
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


@dataclass(frozen=True, slots=True)
class FittedText:
    """What is shown of a passage; None when the budget is spent, and the citation stands alone."""

    shown: str | None
    truncated: bool = False
    warnings: tuple[str, ...] = ()


def fit_texts(texts: Sequence[str], budget: int) -> Iterator[FittedText]:
    """What is shown of each, best first, in at most ``budget`` characters together."""
    for place, text in enumerate(texts):
        truncated = len(text) > budget
        if truncated and place > 0 and budget < _MIN_TEXT:
            yield FittedText(None)
            continue
        # Cut first: what is removed from a text costs time, and a text only becomes shorter by it.
        shown, warnings = neutralise(cut_text(text, budget))
        budget -= len(shown)
        yield FittedText(shown, truncated, warnings)


def _joined_text(joined: Collection[Chunk]) -> str:
    return "\n".join(chunk.text.strip("\n") for chunk in joined)


def _result(candidate: Candidate, text: FittedText, retrieved: Retrieved, model: RelevanceModel) -> Result:
    chunk, scope = candidate.chunk, retrieved.scope
    return Result(
        text=text.shown,
        citation=_citation(scope, candidate.joined, chunk),
        source_class=chunk.source_class,
        project=chunk.project,
        doc_class=chunk.doc_class,
        confidence=candidate.level,
        score=candidate.probability,
        truncated=text.truncated,
        also_in=tuple(_citation(scope, (twin,), twin) for twin in candidate.also_in),
        warnings=text.warnings,
        explain=_explanation(candidate, retrieved.familiarity, model) if scope.request.explain else None,
    )


def _explanation(candidate: Candidate, familiarity: float, model: RelevanceModel) -> dict[str, object]:
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
        "familiarity": round(familiarity, 4),
        "features": {name: round(value, 4) for name, value in candidate.features.items()},
        "log_odds": model.explain(mode, candidate.features),
        "span": [candidate.joined[0].start, candidate.joined[-1].end],
    }


# --- one citation ----------------------------------------------------------------------------------------------------


def _citation(scope: Scope, joined: Sequence[Chunk], chunk: Chunk) -> Citation:
    first, last = joined[0], joined[-1]
    headings = tuple(single_line(part) for part in chunk.heading_path)
    citation = Citation(
        source=chunk.source,
        title=single_line(chunk.title),
        heading_path=headings,
        chunk_index=first.index,
        line_start=first.line_start,
        line_end=last.line_end,
        pages=_pages(scope.view, chunk.source, first.line_start, last.line_end),
    )
    if chunk.series is None or not chunk.valid_on:
        return citation
    paths = scope.days_of(chunk.series)
    days = tuple(day for day in chunk.valid_on if day in paths)
    dated = replace(
        citation,
        snapshot_date=chunk.valid_on[0],
        also_unchanged_on=days[1:][-_DAYS:],
        snapshots_covered=len(days),
    )
    day = (scope.filters.valid_days or {}).get(chunk.series)
    return _cited_on(scope.view, dated, chunk, last, paths[day]) if day in days[1:] else dated


def _pages(view: GenerationView, source: str, line_start: int, line_end: int) -> tuple[int, ...]:
    entry = view.manifest().files.get(source)
    return entry.pages_of(line_start, line_end) if entry is not None else ()


def _cited_on(view: GenerationView, citation: Citation, chunk: Chunk, last: Chunk, path: str) -> Citation:
    """Cite the file of the day asked for, which says the same in its own lines."""
    refs = list(view.manifest().files[path].refs())
    places = {ref.id: (index, ref) for index, ref in enumerate(refs)}
    start = places.get(chunk.id)
    end = places.get(last.id, start)
    if start is None or end is None:
        return citation
    lines = start[1].line_start, end[1].line_end
    return replace(
        citation,
        source=path,
        chunk_index=start[0],
        line_start=lines[0],
        line_end=lines[1],
        pages=_pages(view, path, *lines),
    )
