"""From retrieved passages to candidates with a rank score, a probability and a level. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rag_mcp.models import Level, Mode
from rag_mcp.search.relevance import ABROAD, RelevanceModel, feature_values
from rag_mcp.search.retrieve import Retrieved
from rag_mcp.search.shape import RARE_EXACT, Candidate
from rag_mcp.text.scripts import in_another_language

__all__ = ["all_low", "by_words", "lift_exact", "score", "supported"]

# Set on the open sets: files rise by a tenth of what up to three further passages have above 0.7 of the best.
_SUPPORT = 0.1
_GOOD = 0.7
_SUPPORTING = 3
# In a long file some passage is nearly as good by chance; those of one matter stand near each other.
_NEAR = 10
# Log odds that the best BM25 of a question is worth as far as its cosines are not believed; set on the open sets.
_WORDS = 0.5


def score(retrieved: Retrieved, model: RelevanceModel) -> list[Candidate]:
    """Every match as a candidate, in no order."""
    mode = retrieved.mode
    if mode is None:
        return []
    thresholds = model.thresholds(mode, passages=retrieved.passages)
    question = retrieved.scope.request.query
    candidates = []
    for match in retrieved.matches:
        features = feature_values(
            match.evidence,
            match.keyword,
            trust=model.trust,
            familiarity=retrieved.familiarity,
            scale=model.scale,
        )
        if model.abroad is not None and in_another_language(question, match.chunk.text, language=match.chunk.language):
            features[ABROAD] = 1.0
        strength, probability = model.judge(mode, features)
        candidates.append(
            Candidate(
                match.chunk,
                match.evidence,
                features,
                match.rrf,
                # Where only words were asked, BM25 ranks better than the features that tell how probable an answer is.
                rank_score=(match.evidence.bm25 or 0.0) if mode is Mode.FTS else strength,
                probability=probability,
                level=thresholds.level(probability),
                by_head=match.keyword is not None and match.keyword.by_head,
            )
        )
    if mode is Mode.HYBRID:
        candidates = supported(by_words(candidates, model.trust.of(retrieved.familiarity)))
    if retrieved.absent:
        return all_low(candidates, thresholds.medium)
    return lift_exact(candidates, thresholds.medium)


def by_words(candidates: Sequence[Candidate], trust: float) -> list[Candidate]:
    """The same ranked by BM25 as far as cosines are not believed: the less is known of a question's language, the nearer
    to the order of words alone."""
    best = max((candidate.evidence.bm25 or 0.0 for candidate in candidates), default=0.0)
    if trust >= 1.0 or not best:
        return list(candidates)
    words = _WORDS * (1.0 - trust) / best
    return [
        replace(each, rank_score=trust * each.rank_score + words * (each.evidence.bm25 or 0.0)) for each in candidates
    ]


def supported(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The same, in no order, the best passage of each file ranked the higher the more passages near it are nearly as good
    as the best of all: a page about the matter is a better place than one that mentions it. Probabilities stay."""
    good_from = _GOOD * max((candidate.rank_score for candidate in candidates), default=0.0)
    files: dict[str, list[Candidate]] = {}
    for candidate in sorted(candidates, key=lambda each: -each.rank_score):
        files.setdefault(candidate.chunk.source, []).append(candidate)
    for listed in files.values():
        best = listed[0]
        near = [each.rank_score for each in listed[1:] if abs(each.chunk.index - best.chunk.index) <= _NEAR]
        support = sum(max(0.0, score - good_from) for score in near[:_SUPPORTING])
        listed[0] = replace(best, rank_score=best.rank_score + _SUPPORT * support)
    return [candidate for listed in files.values() for candidate in listed]


def lift_exact(candidates: Sequence[Candidate], medium: float) -> list[Candidate]:
    """A passage that holds what was asked for literally (a whole identifier, the very phrase) is never of low confidence,
    provided it is one of few that do: what stands in many passages names no place."""
    exact = sum(candidate.features["exact"] > 0 for candidate in candidates)
    if not 0 < exact <= RARE_EXACT:
        return list(candidates)
    return [
        replace(candidate, probability=medium, level=Level.MEDIUM)
        if candidate.features["exact"] and candidate.probability < medium
        else candidate
        for candidate in candidates
    ]


def all_low(candidates: Sequence[Candidate], medium: float) -> list[Candidate]:
    """All of low confidence, in the same order: what the question turns on stands in none of the documents."""
    return [replace(candidate, probability=candidate.probability * medium, level=Level.LOW) for candidate in candidates]
