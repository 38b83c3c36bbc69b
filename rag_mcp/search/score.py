"""From retrieved passages to candidates with a probability and a level. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rag_mcp.models import Level
from rag_mcp.search.relevance import ABROAD, RelevanceModel, feature_values
from rag_mcp.search.retrieve import Retrieved
from rag_mcp.search.shape import RARE_EXACT, Candidate
from rag_mcp.text.scripts import in_another_language

__all__ = ["lift_exact", "all_low", "score"]


def score(retrieved: Retrieved, model: RelevanceModel) -> list[Candidate]:
    """Every match as a candidate, in the same order."""
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
        probability = model.probability(mode, features)
        level = thresholds.level(probability)
        candidates.append(Candidate(match.chunk, match.evidence, features, match.rrf, probability, level))
    if retrieved.absent:
        return all_low(candidates, thresholds.medium)
    return lift_exact(candidates, thresholds.medium)


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
