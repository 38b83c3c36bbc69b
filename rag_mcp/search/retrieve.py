"""Everything that can be found for a question: both branches, filters and evidence; nothing is judged here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rag_mcp.access.profiles import Rights
from rag_mcp.errors import EmbedderError, IndexMismatch, StoreError
from rag_mcp.models import Chunk, Evidence, Mode, SourceClass
from rag_mcp.requests import SearchRequest
from rag_mcp.search.facets import Facets
from rag_mcp.search.fusion import reciprocal_rank_fusion
from rag_mcp.stores.base import (
    EVERYTHING,
    KeywordEvidence,
    KeywordHit,
    KeywordReader,
    PassageFilter,
    Subject,
    VectorHit,
    VectorReader,
)
from rag_mcp.stores.manifest import Manifest
from rag_mcp.text.series import state_on

if TYPE_CHECKING:
    from rag_mcp.embedders.base import Embedder, Vectors

__all__ = ["DEPTH", "GenerationView", "Match", "Retrieved", "Scope", "retrieve", "scope_of"]

# Candidates of each branch; fixed, so that k changes nothing but where the list is cut.
DEPTH = 60
# By how much more is asked for while what the caller may not see takes the places.
_WIDER = 4
# Filters that leave no more rows than this are answered exactly instead of by approximate search.
_EXACT_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class GenerationView:
    """What one question reads of an open generation. ``series_days`` gives {series: {day: path}}, ``shown`` the paths of
    what may be listed. ``embedder`` raises
    EmbedderError when the model can't be had, and IndexMismatch when the store was built with another one; ``vectors``
    is None, with the problem, when the vector index can't be trusted or is not loaded yet. ``fallback`` says why this is
    not the generation it should be, if it is not."""

    number: int
    indexed_at: str
    manifest: Callable[[], Manifest]
    series_days: Callable[[], Mapping[str, Mapping[str, str]]]
    facets: Callable[[], Facets]
    shown: Callable[[Rights, SourceClass | None], frozenset[str]]
    keywords: KeywordReader
    vectors: VectorReader | None
    vectors_problem: str | None
    embedder: Callable[[], Embedder]
    fallback: str | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a question is looked up: in these classes of one generation, among what is visible and passes the filters."""

    request: SearchRequest
    view: GenerationView
    classes: tuple[SourceClass, ...]
    visible: Callable[[SourceClass, str], bool]
    filters: PassageFilter = EVERYTHING

    def shows(self, chunk: Chunk) -> bool:
        return self.sees(chunk.source_class, chunk.source)

    def sees(self, source_class: SourceClass, source: str) -> bool:
        return source_class in self.classes and self.visible(source_class, source)

    def days_of(self, series: str) -> dict[str, str]:
        """{day: path} of the snapshots the caller may see. A passage may hold on more days than these."""
        source_class = SourceClass(series.partition(":")[0])
        if source_class not in self.classes:
            return {}
        days = self.view.series_days().get(series, {})
        return {day: path for day, path in days.items() if self.visible(source_class, path)}


@dataclass(frozen=True, slots=True)
class Match:
    """A passage of either branch with the evidence of both; ``keyword`` is None when its words were not looked at."""

    chunk: Chunk
    evidence: Evidence
    keyword: KeywordEvidence | None
    rrf: float


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What was found, in no order, and what could not be asked.

    ``scope`` has lost the classes that ``failed``. ``mode`` names the branches that answered; None when none could.
    ``absent`` are the numbers and codes the question turns on that stand in no passage the caller may see, as written.
    """

    scope: Scope
    mode: Mode | None
    matches: tuple[Match, ...] = ()
    failed: tuple[SourceClass, ...] = ()
    problems: tuple[str, ...] = ()
    familiarity: float = 1.0
    passages: int = 0
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """What the vector branch says: ``hits`` best first, None when it failed, was not asked for, or can say nothing."""

    hits: tuple[VectorHit, ...] | None
    vector: Vectors | None = None
    familiarity: float = 1.0
    problem: str | None = None


def scope_of(
    request: SearchRequest,
    classes: Sequence[SourceClass],
    view: GenerationView,
    visible: Callable[[SourceClass, str], bool],
    documents: PassageFilter = EVERYTHING,
) -> Scope:
    """The scope of ``request`` in ``classes``: ``as_of`` becomes, for each series, the day that was valid then; what its
    filters of documents leave is in ``documents``."""
    scope = Scope(request, view, tuple(classes), visible)
    days: dict[str, str] | None = None
    if request.as_of is not None:
        states = {series: state_on(scope.days_of(series), request.as_of) for series in view.series_days()}
        days = {series: day for series, day in states.items() if day is not None}
    filters = replace(documents, project=request.project, doc_class=request.doc_class, valid_days=days)
    return replace(scope, filters=filters)


def retrieve(scope: Scope) -> Retrieved:
    """Ask both branches. A branch or class that fails is named in the result; raises IndexMismatch when vectors were
    asked for and the store was built with another embedder.

    Passages hidden since they were indexed take no place from others: more is asked for until DEPTH visible ones of
    each branch are there, or there are no more.
    """
    depth = DEPTH
    while (retrieved := _retrieve(scope, depth)) is None:
        depth *= _WIDER
    return retrieved


def _retrieve(scope: Scope, depth: int) -> Retrieved | None:
    """What the first ``depth`` candidates of each branch give; None when hidden ones crowd out visible ones."""
    worded, broken = _ask_keywords(scope, depth)
    scope = replace(scope, classes=tuple(each for each in scope.classes if each not in broken))
    subject = scope.view.keywords.subject(scope.request.query, scope.classes)
    near = _ask_vectors(scope, subject, depth)
    retrieved = Retrieved(
        scope=scope,
        mode=_answered_by(worded, near.hits),
        failed=tuple(broken),
        problems=tuple(filter(None, (scope.view.fallback, *broken.values(), near.problem))),
        familiarity=near.familiarity,
    )
    # Texts live in the keyword index: without it the vector index alone has nothing to show.
    if retrieved.mode is None or (broken and not scope.classes):
        return replace(retrieved, mode=None)
    matches = _with_evidence(scope, worded, near, depth)
    if matches is None:
        return None
    return replace(
        retrieved,
        matches=matches,
        passages=scope.view.keywords.size(scope.classes),
        # What is missing may stand in the class that can't be read.
        absent=() if broken else _absent(scope, subject, matches),
    )


def _answered_by(worded: Sequence[KeywordHit] | None, near: Sequence[VectorHit] | None) -> Mode | None:
    if near is None:
        return None if worded is None else Mode.FTS
    return Mode.VECTOR if worded is None else Mode.HYBRID


# --- the branches ----------------------------------------------------------------------------------------------------


def _ask_keywords(scope: Scope, depth: int) -> tuple[list[KeywordHit] | None, dict[SourceClass, str]]:
    """Hits best first, None when the branch failed in every class or was not asked for; and the classes whose keyword
    index is broken, with the reason. Texts live there, so vectors can't help such a class either."""
    keywords, query, filters = scope.view.keywords, scope.request.query, scope.filters
    if scope.request.mode is Mode.VECTOR:
        return None, _broken(scope.classes, lambda each: keywords.fetch([each], ("",)))
    healthy, broken = scope.classes, dict[SourceClass, str]()
    try:
        hits = keywords.search(query, healthy, depth, filters=filters)
    except StoreError:
        broken = _broken(healthy, lambda each: keywords.search(query, [each], 1, filters=filters))
        healthy = tuple(each for each in healthy if each not in broken)
        if not healthy:
            return None, broken
        hits = keywords.search(query, healthy, depth, filters=filters)
    return hits, broken


def _broken(classes: Iterable[SourceClass], probe: Callable[[SourceClass], object]) -> dict[SourceClass, str]:
    broken = {}
    for source_class in classes:
        try:
            probe(source_class)
        except StoreError as error:
            broken[source_class] = str(error)
    return broken


def _ask_vectors(scope: Scope, subject: Subject, depth: int) -> _Neighbours:
    request, view = scope.request, scope.view
    nothing_to_say = _Neighbours(() if request.mode is Mode.VECTOR else None)
    if request.mode is Mode.FTS or not subject.content:
        return nothing_to_say
    if view.vectors is None:
        return _Neighbours(None, problem=view.vectors_problem or "the vector index is not available")
    familiarity = 1.0
    try:
        embedder = view.embedder()
        if not embedder.familiarity(" ".join(subject.content)):
            return nothing_to_say
        familiarity = embedder.familiarity(request.query)
        vector = embedder.embed_query(request.query)
        hits = [hit for each in scope.classes for hit in _nearest(scope, view.vectors, vector, each, depth)]
    except IndexMismatch:
        raise
    except (EmbedderError, StoreError) as error:
        return _Neighbours(None, familiarity=familiarity, problem=str(error))
    best = sorted(hits, key=lambda hit: (-hit.cosine, hit.id))[:depth]
    return _Neighbours(tuple(best), vector, familiarity)


def _nearest(
    scope: Scope, vectors: VectorReader, vector: Vectors, source_class: SourceClass, depth: int
) -> list[VectorHit]:
    """The nearest passages of a class that pass the filters."""
    if scope.filters.empty:
        return vectors.query(source_class, vector, depth)
    keywords = scope.view.keywords
    few = scope.filters.sources is None or len(scope.filters.sources) <= _EXACT_ROWS
    if few and (allowed := keywords.matching_ids([source_class], scope.filters, _EXACT_ROWS)) is not None:
        similar = vectors.similarities(source_class, vector, allowed)
        return [VectorHit(i, cosine) for i, cosine in similar.items()]
    limit = depth
    while True:  # ask for more neighbours until enough of them pass, or there are no more
        limit *= _WIDER
        hits = vectors.query(source_class, vector, limit)
        chunks = keywords.fetch([source_class], [hit.id for hit in hits])
        passing = [hit for hit in hits if hit.id in chunks and _passes(chunks[hit.id], scope.filters)]
        if len(passing) >= depth or len(hits) < limit:
            return passing[:depth]


def _passes(chunk: Chunk, filters: PassageFilter) -> bool:
    if filters.project is not None and chunk.project != filters.project:
        return False
    if filters.doc_class is not None and chunk.doc_class is not filters.doc_class:
        return False
    if chunk.source in filters.left_out or not (filters.sources is None or chunk.source in filters.sources):
        return False
    if filters.valid_days is None or chunk.series is None:
        return True
    return filters.valid_days.get(chunk.series, "") in chunk.valid_on


# --- the evidence ----------------------------------------------------------------------------------------------------


def _with_evidence(
    scope: Scope, worded: Sequence[KeywordHit] | None, near: _Neighbours, depth: int
) -> tuple[Match, ...] | None:
    """The visible passages of both branches, each with what either branch knows of it, whichever found it; None when a
    branch has too few of them though it may hold more."""
    keywords, query = scope.view.keywords, scope.request.query
    rankings = [[hit.id for hit in worded or ()], [hit.id for hit in near.hits or ()]]
    found = keywords.fetch(scope.classes, set().union(*rankings))
    visible = [[i for i in ranking if i in found and scope.shows(found[i])][:DEPTH] for ranking in rankings]
    if any(len(seen) < DEPTH and len(ranking) >= depth for seen, ranking in zip(visible, rankings, strict=True)):
        return None
    rrf = dict(reciprocal_rank_fusion([ranking for ranking in visible if ranking]))
    chunks = {i: found[i] for i in rrf}
    by_words: Mapping[str, KeywordEvidence] = {}
    bound = unmet = None
    if worded is not None:
        by_words = keywords.evidence(query, scope.classes, chunks, known={hit.id: hit.bm25 for hit in worded})
        bound, unmet = keywords.bm25_bound(query, scope.classes), 0.0
    cosines = _cosines(scope, near, chunks)
    keyword_rank, vector_rank = ({i: rank for rank, i in enumerate(ranking, start=1)} for ranking in visible)
    matches = []
    for i, chunk in chunks.items():
        keyword = by_words.get(i)
        evidence = Evidence(
            cosine=cosines.get(i),
            bm25=keyword.bm25 if keyword else unmet,
            bm25_bound=bound,
            term_share=keyword.term_share if keyword else unmet,
            vector_rank=vector_rank.get(i),
            bm25_rank=keyword_rank.get(i),
        )
        matches.append(Match(chunk, evidence, keyword, rrf[i]))
    return tuple(matches)


def _cosines(scope: Scope, near: _Neighbours, chunks: Mapping[str, Chunk]) -> dict[str, float]:
    """Cosine of every candidate: what the keyword branch alone found is looked up too."""
    cosines = {hit.id: hit.cosine for hit in near.hits or ()}
    if scope.view.vectors is None or near.vector is None:
        return cosines
    missing: dict[SourceClass, list[str]] = {}
    for i, chunk in chunks.items():
        if i not in cosines:
            missing.setdefault(chunk.source_class, []).append(i)
    for source_class, ids in missing.items():
        cosines.update(scope.view.vectors.similarities(source_class, near.vector, ids))
    return cosines


def _absent(scope: Scope, subject: Subject, matches: Collection[Match]) -> tuple[str, ...]:
    """A day counts as there when a series has a state of that day, though its text may bear an earlier date."""
    met = {label for match in matches if match.keyword for label in match.keyword.matched}
    met |= {day.replace("-", ".") for match in matches for day in match.chunk.valid_on}
    return tuple(written for label, written in subject.fixed.items() if label not in met and not _holds(scope, label))


def _holds(scope: Scope, label: str) -> bool:
    keywords, limit = scope.view.keywords, DEPTH
    while True:
        ids = keywords.holding(scope.request.query, label, scope.classes, limit, filters=scope.filters)
        if any(map(scope.shows, keywords.fetch(scope.classes, ids).values())):
            return True
        if len(ids) < limit:
            return False
        limit *= _WIDER
