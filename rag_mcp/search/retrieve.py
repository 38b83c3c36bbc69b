"""Answer one question: access, both branches, fusion, relevance, gate, response."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rag_mcp.access.profiles import AccessPlan
from rag_mcp.errors import EmbedderError, IndexMismatch, StoreError
from rag_mcp.models import (
    Chunk,
    Citation,
    Coverage,
    Evidence,
    Gate,
    Level,
    Mode,
    Reason,
    Result,
    Scores,
    SearchResponse,
    SourceClass,
)
from rag_mcp.requests import SearchRequest
from rag_mcp.search.fusion import reciprocal_rank_fusion
from rag_mcp.search.relevance import RelevanceModel, Thresholds, feature_values
from rag_mcp.search.shape import Candidate, cut_text, lift_exact, lowered, order_candidates, shape
from rag_mcp.stores.base import Filter, KeywordEvidence, KeywordReader, Subject, VectorHit, VectorReader
from rag_mcp.stores.embedded.manifest import Manifest
from rag_mcp.text.sanitize import neutralise, single_line
from rag_mcp.text.series import state_on

if TYPE_CHECKING:
    from rag_mcp.embedders.base import Embedder, Vectors

__all__ = ["DEPTH", "Planes", "answer", "gather"]

# Candidates of each branch; fixed, so that k changes nothing but where the list is cut.
DEPTH = 60
# Filters that leave no more rows than this are answered exactly instead of by approximate search.
_EXACT_ROWS = 1_000
_MIN_TEXT = 500
# Days that a citation names, the newest ones; snapshots_covered counts all.
_DAYS = 100
_DATE = re.compile(r"(?<!\d)(\d{4}-\d{2}-\d{2})(?!\d)")


@dataclass(frozen=True, slots=True)
class Planes:
    """The parts of one open generation. ``series_days`` gives {series: {day: path}}. ``embedder`` raises EmbedderError when the model can't be had, and
    ``vectors`` is None, with the reason, when the vector index can't be trusted."""

    number: int
    indexed_at: str
    manifest: Callable[[], Manifest]
    series_days: Callable[[], Mapping[str, Mapping[str, str]]]
    keywords: KeywordReader
    vectors: VectorReader | None
    vectors_failed: str | None
    embedder: Callable[[], Embedder]


def answer(
    request: SearchRequest,
    access: AccessPlan,
    planes: Planes,
    model: RelevanceModel,
    *,
    visible: Callable[[SourceClass, str], bool],
) -> SearchResponse:
    """Search the classes of ``access`` and nothing else; only sources that are ``visible`` leave. Raises IndexMismatch when vectors were asked for and the
    store was built with another embedder; other failures of a branch degrade the answer and are named in it."""
    if access.skipped_by_acl:
        return _nothing(request, planes, Reason.ACL_DENIED, Coverage(skipped_by_acl=access.skipped_by_acl))
    search = _Search(request, access.classes, planes, model, visible)
    return search.run()


def gather(
    request: SearchRequest, classes: Sequence[SourceClass], planes: Planes, model: RelevanceModel
) -> tuple[list[Candidate], float]:
    """All candidates of a question with their evidence, in no order, and the embedder's familiarity with it: what
    ``answer`` ranks. For fitting and measuring; applies no access rule."""
    search = _Search(request, classes, planes, model, lambda source_class, source: True)
    return search.candidates(), search.familiarity


def _nothing(
    request: SearchRequest, planes: Planes, reason: Reason, coverage: Coverage, degraded: str | None = None
) -> SearchResponse:
    return SearchResponse(
        status="NO_RELEVANT_CONTEXT",
        reason=reason,
        results=(),
        coverage=coverage,
        mode=request.mode,
        confidence=request.confidence,
        degraded=degraded is not None,
        degraded_reason=degraded,
        generation=planes.number,
        indexed_at=planes.indexed_at,
    )


class _Search:
    """One question on its way; every method adds one step."""

    def __init__(
        self,
        request: SearchRequest,
        classes: Sequence[SourceClass],
        planes: Planes,
        model: RelevanceModel,
        visible: Callable[[SourceClass, str], bool],
    ) -> None:
        self.request = request
        self.classes = tuple(classes)
        self.planes = planes
        self.model = model
        self.visible = visible
        self.failures: list[str] = []
        self.failed: list[SourceClass] = []
        self.narrow = self._narrow()
        self.vector: Vectors | None = None
        self.familiarity = 1.0
        self.subject = Subject()
        self.absent: tuple[str, ...] = ()
        self.both_failed = False
        self.passages = 0

    def candidates(self) -> list[Candidate]:
        """What the branches found, scored; empty, with ``both_failed`` set, when neither could answer."""
        keyword_ids = self._keyword_branch()
        self.subject = self.planes.keywords.subject(self.request.query, self.classes)
        vector_hits = self._vector_branch()
        # Texts live in the keyword index: without it the vector index alone has nothing to show.
        self.both_failed = (vector_hits is None and keyword_ids is None) or (bool(self.failed) and not self.classes)
        return [] if self.both_failed else self._candidates(keyword_ids, vector_hits)

    def run(self) -> SearchResponse:
        candidates = self.candidates()
        coverage = Coverage(queried=self.classes, failed=tuple(self.failed))
        if self.both_failed:
            return self._empty(Reason.PLANE_FAILED, coverage)
        if not candidates:
            return self._empty(Reason.PLANE_FAILED if self.failed else Reason.NO_RESULTS, coverage)
        ordered = order_candidates(candidates, day=self._day_asked())
        if self.request.confidence is Gate.STRICT:
            ordered = [candidate for candidate in ordered if candidate.level is not Level.LOW]
            if not ordered:
                return self._empty(Reason.STRICT_BLOCKED_LOW, coverage)
        shaped = shape(ordered)
        results, without_text = self._results(shaped[: self.request.k])
        return SearchResponse(
            status="OK",
            reason=None,
            results=tuple(results),
            coverage=coverage,
            mode=self.request.mode,
            confidence=self.request.confidence,
            degraded=bool(self.failures),
            degraded_reason=self._degraded(),
            generation=self.planes.number,
            indexed_at=self.planes.indexed_at,
            without_text=without_text,
            not_in_documents=self.absent,
        )

    def _empty(self, reason: Reason, coverage: Coverage) -> SearchResponse:
        nothing = _nothing(self.request, self.planes, reason, coverage, self._degraded())
        return replace(nothing, not_in_documents=self.absent)

    def _degraded(self) -> str | None:
        return "; ".join(dict.fromkeys(self.failures)) or None

    # --- filters -----------------------------------------------------------------------------------------------------

    def _narrow(self) -> Filter:
        request = self.request
        days = None
        if request.as_of is not None:
            days = {}
            for series in self.planes.series_days():
                day = state_on(self._days_of(series), request.as_of)
                if day is not None:
                    days[series] = day
        return Filter(project=request.project, doc_class=request.doc_class, valid_days=days)

    def _days_of(self, series: str) -> dict[str, str]:
        """{day: path} of the snapshots the caller may see. A passage may hold on more days than these."""
        source_class = SourceClass(series.partition(":")[0])
        if source_class not in self.classes:
            return {}
        days = self.planes.series_days().get(series, {})
        return {day: path for day, path in days.items() if self.visible(source_class, path)}

    def _day_asked(self) -> str | None:
        if self.request.as_of is not None:
            return self.request.as_of.isoformat()
        found = _DATE.search(self.request.query)
        return found.group(1) if found else None

    # --- branches ----------------------------------------------------------------------------------------------------

    def _keyword_branch(self) -> list[str] | None:
        """Ids best first; None when the branch failed in every class, or was not asked for."""
        keywords, narrow = self.planes.keywords, self.narrow
        if self.request.mode is Mode.VECTOR:
            self._leave_broken(lambda source_class: keywords.fetch([source_class], ("",)))
            return None
        try:
            hits = keywords.search(self.request.query, self.classes, DEPTH, narrow=narrow)
        except StoreError:
            self._leave_broken(lambda one: keywords.search(self.request.query, [one], 1, narrow=narrow))
            if not self.classes:
                return None
            hits = keywords.search(self.request.query, self.classes, DEPTH, narrow=narrow)
        return [hit.id for hit in hits]

    def _leave_broken(self, probe: Callable[[SourceClass], object]) -> None:
        """Go on without the classes whose keyword index is broken: texts live there, so vectors can't help either."""
        healthy = []
        for source_class in self.classes:
            try:
                probe(source_class)
                healthy.append(source_class)
            except StoreError as error:
                self.failed.append(source_class)
                self.failures.append(str(error))
        self.classes = tuple(healthy)

    def _vector_branch(self) -> list[VectorHit] | None:
        """Hits best first; None when the branch failed, was not asked for, or can say nothing."""
        if self.request.mode is Mode.FTS:
            return None
        silent: list[VectorHit] | None = [] if self.request.mode is Mode.VECTOR else None
        if not self.subject.content:
            return silent
        if self.planes.vectors is None:
            self.failures.append(self.planes.vectors_failed or "the vector index is not available")
            return None
        try:
            embedder = self.planes.embedder()
            if not embedder.familiarity(" ".join(self.subject.content)):
                return silent
            self.familiarity = embedder.familiarity(self.request.query)
            self.vector = embedder.embed_query(self.request.query)
            hits = [hit for source_class in self.classes for hit in self._nearest(source_class)]
        except IndexMismatch:
            raise
        except (EmbedderError, StoreError) as error:
            self.failures.append(str(error))
            self.vector = None
            return None
        return sorted(hits, key=lambda hit: (-hit.cosine, hit.id))[:DEPTH]

    def _nearest(self, source_class: SourceClass) -> list[VectorHit]:
        vectors, vector = self.planes.vectors, self.vector
        assert vectors is not None and vector is not None
        if self.narrow.empty:
            return vectors.query(source_class, vector, DEPTH)
        allowed = self.planes.keywords.matching_ids([source_class], self.narrow, _EXACT_ROWS)
        if allowed is not None:
            similar = vectors.similarities(source_class, vector, allowed)
            return [VectorHit(i, cosine) for i, cosine in similar.items()]
        return self._widening(source_class)

    def _widening(self, source_class: SourceClass) -> list[VectorHit]:
        """Ask for more neighbours until enough of them pass the filter, or there are no more."""
        vectors, vector = self.planes.vectors, self.vector
        assert vectors is not None and vector is not None
        limit = DEPTH
        while True:
            limit *= 4
            hits = vectors.query(source_class, vector, limit)
            chunks = self.planes.keywords.fetch([source_class], [hit.id for hit in hits])
            passing = [hit for hit in hits if hit.id in chunks and _passes(chunks[hit.id], self.narrow)]
            if len(passing) >= DEPTH or len(hits) < limit:
                return passing[:DEPTH]

    # --- candidates --------------------------------------------------------------------------------------------------

    def _candidates(
        self, keyword_ids: Sequence[str] | None, vector_hits: Sequence[VectorHit] | None
    ) -> list[Candidate]:
        lists = [list(keyword_ids or ()), [hit.id for hit in vector_hits or ()]]
        fused = reciprocal_rank_fusion([ranking for ranking in lists if ranking])
        rrf = dict(fused)
        keywords = self.planes.keywords
        self.passages = keywords.size(self.classes)
        chunks = {i: c for i, c in keywords.fetch(self.classes, rrf).items() if self._may_leave(c)}
        evidence = keywords.evidence(self.request.query, self.classes, chunks) if keyword_ids is not None else {}
        bound = keywords.bm25_bound(self.request.query, self.classes) if keyword_ids is not None else None
        cosines = self._cosines(vector_hits, chunks)
        mode = self._effective_mode(keyword_ids, vector_hits)
        ranks = [{i: rank for rank, i in enumerate(ranking, start=1)} for ranking in lists]
        found = []
        for i, chunk in chunks.items():
            keyword = evidence.get(i)
            raw = Evidence(
                cosine=cosines.get(i),
                bm25=keyword.bm25 if keyword else (0.0 if bound is not None else None),
                bm25_bound=bound,
                term_share=keyword.term_share if keyword else (0.0 if bound is not None else None),
                vector_rank=ranks[1].get(i),
                bm25_rank=ranks[0].get(i),
            )
            found.append(self._scored(chunk, raw, keyword, rrf[i], mode))
        medium = self._thresholds(mode).medium
        self.absent = self._absent(found, evidence)
        return lowered(found, medium) if self.absent else lift_exact(found, medium)

    def _absent(self, found: Sequence[Candidate], evidence: Mapping[str, KeywordEvidence]) -> tuple[str, ...]:
        """The numbers and codes the question turns on that stand in no passage the caller may see, as written.

        A day counts as there when a series has a state of that day, though its text may bear an earlier date.
        """
        if self.failed:
            return ()  # they may stand in the class that can't be read
        met = {label for candidate in evidence.values() for label in candidate.matched}
        met |= {day.replace("-", ".") for candidate in found for day in candidate.chunk.valid_on}
        fixed = self.subject.fixed.items()
        return tuple(written for label, written in fixed if label not in met and not self._holds(label))

    def _holds(self, label: str) -> bool:
        keywords = self.planes.keywords
        ids = keywords.holding(self.request.query, label, self.classes, DEPTH, narrow=self.narrow)
        return any(map(self._may_leave, keywords.fetch(self.classes, ids).values()))

    def _scored(
        self, chunk: Chunk, raw: Evidence, keyword: KeywordEvidence | None, rrf: float, mode: Mode
    ) -> Candidate:
        features = feature_values(raw, keyword, trust=self.model.trust, familiarity=self.familiarity)
        probability = self.model.probability(mode, features)
        return Candidate(chunk, raw, features, rrf, probability, self._thresholds(mode).level(probability))

    def _thresholds(self, mode: Mode) -> Thresholds:
        return self.model.thresholds(mode, passages=self.passages)

    def _effective_mode(self, keyword_ids: object, vector_hits: object) -> Mode:
        if vector_hits is None:
            return Mode.FTS
        return Mode.VECTOR if keyword_ids is None else Mode.HYBRID

    def _may_leave(self, chunk: Chunk) -> bool:
        return chunk.source_class in self.classes and self.visible(chunk.source_class, chunk.source)

    def _cosines(self, vector_hits: Sequence[VectorHit] | None, chunks: Mapping[str, Chunk]) -> dict[str, float]:
        """Cosine of every candidate: what the keyword branch alone found is looked up too."""
        cosines = {hit.id: hit.cosine for hit in vector_hits or ()}
        vectors, vector = self.planes.vectors, self.vector
        if vector_hits is None or vectors is None or vector is None:
            return cosines
        missing: dict[SourceClass, list[str]] = {}
        for i, chunk in chunks.items():
            if i not in cosines:
                missing.setdefault(chunk.source_class, []).append(i)
        for source_class, ids in missing.items():
            cosines.update(vectors.similarities(source_class, vector, ids))
        return cosines

    # --- response ----------------------------------------------------------------------------------------------------

    def _results(self, shaped: Sequence[Candidate]) -> tuple[list[Result], int]:
        left = self.request.max_chars
        results = []
        for place, candidate in enumerate(shaped):
            text = _joined_text(candidate.joined)
            cut = len(text) > left
            if cut and place > 0 and left < _MIN_TEXT:
                results.append(self._result(candidate, None, False, ()))
                continue
            # Cut first: what is removed from a text costs time, and a text only becomes shorter by it.
            shown, warnings = neutralise(cut_text(text, left))
            left -= len(shown)
            results.append(self._result(candidate, shown, cut, warnings))
        return results, sum(result.text is None for result in results)

    def _result(self, candidate: Candidate, text: str | None, cut: bool, warnings: tuple[str, ...]) -> Result:
        chunk, raw = candidate.chunk, candidate.evidence
        return Result(
            text=text,
            citation=self._citation(candidate.joined, chunk),
            source_class=chunk.source_class,
            project=chunk.project,
            doc_class=chunk.doc_class,
            confidence=candidate.level,
            score=candidate.probability,
            scores=Scores(candidate.rrf, raw.cosine, raw.bm25, raw.vector_rank, raw.bm25_rank),
            truncated=cut,
            also_in=tuple(self._citation((twin,), twin) for twin in candidate.also_in),
            warnings=warnings,
            explain=self._explain(candidate) if self.request.explain else None,
        )

    def _citation(self, joined: Sequence[Chunk], chunk: Chunk) -> Citation:
        first, last = joined[0], joined[-1]
        cited = Citation(
            source=chunk.source,
            title=single_line(chunk.title),
            heading=single_line(chunk.heading_path[-1]) if chunk.heading_path else "",
            heading_path=tuple(single_line(part) for part in chunk.heading_path),
            chunk_index=first.index,
            line_start=first.line_start,
            line_end=last.line_end,
        )
        if chunk.series is None or not chunk.valid_on:
            return cited
        paths = self._days_of(chunk.series)
        held = tuple(day for day in chunk.valid_on if day in paths)
        dated = replace(
            cited,
            snapshot_date=chunk.valid_on[0],
            also_unchanged_on=held[1:][-_DAYS:],
            snapshots_covered=len(held),
        )
        day = (self.narrow.valid_days or {}).get(chunk.series)
        return self._cited_on(dated, chunk, last, paths[day]) if day in held[1:] else dated

    def _cited_on(self, citation: Citation, chunk: Chunk, last: Chunk, path: str) -> Citation:
        """Cite the file of the day asked for, which says the same in its own lines."""
        places = {row[0]: (index, row) for index, row in enumerate(self.planes.manifest().files[path].rows)}
        first = places.get(chunk.id)
        end = places.get(last.id, first)
        if first is None or end is None:
            return citation
        return replace(citation, source=path, chunk_index=first[0], line_start=first[1][2], line_end=end[1][3])

    def _explain(self, candidate: Candidate) -> dict[str, object]:
        mode = Mode.HYBRID
        if candidate.evidence.cosine is None:
            mode = Mode.FTS
        elif candidate.evidence.term_share is None:
            mode = Mode.VECTOR
        return {
            "model": self.model.name,
            "familiarity": round(self.familiarity, 4),
            "features": {name: round(value, 4) for name, value in candidate.features.items()},
            "log_odds": self.model.explain(mode, candidate.features),
            "span": [candidate.joined[0].start, candidate.joined[-1].end],
        }


def _passes(chunk: Chunk, narrow: Filter) -> bool:
    if narrow.project is not None and chunk.project != narrow.project:
        return False
    if narrow.doc_class is not None and chunk.doc_class is not narrow.doc_class:
        return False
    if narrow.valid_days is None or chunk.series is None:
        return True
    return narrow.valid_days.get(chunk.series, "") in chunk.valid_on


def _joined_text(joined: Collection[Chunk]) -> str:
    return "\n".join(chunk.text.strip("\n") for chunk in joined)
