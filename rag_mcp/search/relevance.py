"""Relevance from raw branch evidence: its strength ranks the results, its calibrated probability decides what is withheld.

Rank fusion knows ranks only, so it can't tell a strong match from the best of a bad lot. This model looks at the
evidence itself. It is logistic and monotone in every feature; weights and thresholds are data with their provenance
(``rag_mcp/data/relevance.json``, written by scripts/fit_relevance.py), per embedder and per set of branches.
"""

from __future__ import annotations

import bisect
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from rag_mcp.models import Evidence, Level, Mode
from rag_mcp.stores.base import KeywordEvidence

__all__ = [
    "ABROAD",
    "FEATURES",
    "Calibration",
    "RelevanceModel",
    "Scale",
    "Thresholds",
    "Trust",
    "feature_values",
    "load_model",
    "size_bonus",
]

# Set by hand: the open sets differ in more than size. Corpora of FULL_SIZE passages and more gain nothing.
SIZE_WEIGHT = 0.2
FULL_SIZE = 3_000
LEAST_SIZE = 30

FEATURES = ("cosine", "term_share", "bm25_share", "title_share", "exact")
# Among the features, but weighed by no head: 1.0 picks the head for passages in another language than the question.
ABROAD = "other_language"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Least probability of each level; below ``medium`` is low."""

    high: float
    medium: float

    def eased(self, bonus: float) -> Thresholds:
        """The same with ``medium`` lowered by ``bonus`` log odds."""
        medium = (
            1.0 / (1.0 + math.exp(bonus + math.log(1.0 / self.medium - 1.0))) if 0 < self.medium < 1 else self.medium
        )
        return Thresholds(high=self.high, medium=medium)

    def level(self, probability: float) -> Level:
        if probability >= self.high:
            return Level.HIGH
        return Level.MEDIUM if probability >= self.medium else Level.LOW


@dataclass(frozen=True, slots=True)
class Trust:
    """How far cosines are believed for a question of some familiarity (0..1): fully from ``high`` up, ``floor`` from
    ``low`` down, a straight line between. What is not believed is replaced by ``prior``, an everyday cosine, as far as
    the words agree, so that the scores of an unfamiliar language stay comparable with the others'."""

    low: float
    high: float
    floor: float
    prior: float

    def of(self, familiarity: float) -> float:
        share = (familiarity - self.low) / (self.high - self.low)
        return min(1.0, max(self.floor, share))

    def believed(self, cosine: float, familiarity: float, term_share: float) -> float:
        trust = self.of(familiarity)
        return trust * cosine + (1.0 - trust) * self.prior * term_share


@dataclass(frozen=True, slots=True)
class Scale:
    """Cosines between which a model says anything: ``low`` is 0 to the heads and ``high`` 1. Models differ in where their
    cosines lie, so weights hold for one scale."""

    low: float = 0.0
    high: float = 1.0

    def of(self, cosine: float) -> float:
        return (cosine - self.low) / (self.high - self.low)


@dataclass(frozen=True, slots=True)
class Head:
    """Weights for one set of branches: log odds = intercept + sum of weight x feature.

    ``points`` (probability, recalibrated probability), rising, are a corpus owner's own calibration; straight lines
    between them, flat outside.
    """

    intercept: float
    weights: Mapping[str, float]
    thresholds: Thresholds
    points: tuple[tuple[float, float], ...] = ()

    def log_odds(self, features: Mapping[str, float]) -> float:
        return self.intercept + sum(weight * features[name] for name, weight in self.weights.items())


@dataclass(frozen=True, slots=True)
class RelevanceModel:
    """One head for each search mode; a hybrid search whose vector branch failed uses the keyword head.

    ``abroad`` is for passages in another language than the question, which share at most names with it; only a model
    that knows several languages has one. Its probabilities meet the thresholds of the hybrid head.
    """

    name: str
    trust: Trust
    heads: Mapping[Mode, Head]
    scale: Scale = Scale()
    abroad: Head | None = None

    def judge(self, mode: Mode, features: Mapping[str, float]) -> tuple[float, float]:
        """The strength of a passage with these features, which ranks: log odds above those of no evidence at all, at least
        0; and the probability (0..1) that it answers, which is read off the same sum."""
        head = self._head(mode, features)
        log_odds = head.log_odds(features)
        within = max(-60.0, min(60.0, log_odds))
        probability = recalibrated(1.0 / (1.0 + math.exp(-within)), head.points)
        return max(0.0, log_odds - self.heads[mode].intercept), probability

    def probability(self, mode: Mode, features: Mapping[str, float]) -> float:
        return self.judge(mode, features)[1]

    def thresholds(self, mode: Mode, *, passages: int) -> Thresholds:
        """Thresholds for a search among ``passages``: medium starts lower in a small corpus, unless its owner has
        calibrated it. A cosine alone gets no such help: in a handful of notes some neighbour is always near."""
        head = self.heads[mode]
        if head.points or mode is Mode.VECTOR:
            return head.thresholds
        return head.thresholds.eased(size_bonus(passages))

    def explain(self, mode: Mode, features: Mapping[str, float]) -> dict[str, float]:
        """What each feature adds to the log odds."""
        head = self._head(mode, features)
        parts = {name: round(weight * features[name], 4) for name, weight in head.weights.items()}
        return {"intercept": round(head.intercept, 4), **parts}

    def _head(self, mode: Mode, features: Mapping[str, float]) -> Head:
        if self.abroad is not None and mode is not Mode.FTS and features.get(ABROAD):
            return self.abroad
        return self.heads[mode]

    def calibrated(self, heads: Mapping[Mode, Calibration]) -> RelevanceModel:
        """The same ranking with a corpus owner's probabilities and thresholds."""
        changed = {
            mode: replace(head, thresholds=heads[mode].thresholds, points=heads[mode].points) if mode in heads else head
            for mode, head in self.heads.items()
        }
        return replace(self, heads=changed)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What ``rag-mcp calibrate`` fits for one mode; thresholds are of the recalibrated probability."""

    thresholds: Thresholds
    points: tuple[tuple[float, float], ...]


def recalibrated(probability: float, points: Sequence[tuple[float, float]]) -> float:
    """Read ``probability`` off the broken line through ``points``; without points it stays."""
    if not points:
        return probability
    place = bisect.bisect_left([x for x, _ in points], probability)
    if place == 0:
        return points[0][1]
    if place == len(points):
        return points[-1][1]
    (x0, y0), (x1, y1) = points[place - 1], points[place]
    return y1 if x1 == x0 else y0 + (y1 - y0) * (probability - x0) / (x1 - x0)


def size_bonus(passages: int) -> float:
    """Log odds by which less is asked of a match in a small corpus.

    The best of N unrelated passages matches the better the larger N is (the expected maximum grows with log N), so among
    a few notes a middling match already means something, and among thousands it does not.
    """
    return SIZE_WEIGHT * math.log(FULL_SIZE / max(passages, LEAST_SIZE)) if passages < FULL_SIZE else 0.0


def feature_values(
    evidence: Evidence,
    keyword: KeywordEvidence | None,
    *,
    trust: Trust,
    familiarity: float,
    scale: Scale = Scale(),  # noqa: B008 - frozen
) -> dict[str, float]:
    """Features in [0, 1] (cosine in [-1, 1]); a branch that did not run contributes 0.

    ``familiarity`` (0..1) says how well the embedder knows the question's language: the cosines of a question it does
    not know mean little.
    """
    bound = evidence.bm25_bound or 0.0
    return {
        "cosine": 0.0
        if evidence.cosine is None
        else trust.believed(scale.of(evidence.cosine), familiarity, evidence.term_share or 0.0),
        "term_share": evidence.term_share or 0.0,
        # Without a single word of content in common, BM25 has only counted words that stand everywhere.
        "bm25_share": min(1.0, (evidence.bm25 or 0.0) / bound) if bound > 0 and evidence.term_share else 0.0,
        "title_share": keyword.title_share if keyword is not None else 0.0,
        "exact": 1.0 if keyword is not None and keyword.exact else 0.0,
    }


@cache
def _data() -> dict[str, dict[str, object]]:
    raw = resources.files("rag_mcp").joinpath("data/relevance.json").read_text(encoding="utf-8")
    models: dict[str, dict[str, object]] = json.loads(raw)["models"]
    return models


def load_model(embedder_name: str) -> RelevanceModel:
    """The model fitted for ``embedder_name``, else the one for any embedder."""
    models = _data()
    name = embedder_name if embedder_name in models else "default"
    return parse_model(name, models[name])


def parse_model(name: str, raw: Mapping[str, object]) -> RelevanceModel:
    heads, trust, scale = raw["heads"], raw["trust"], raw.get("scale", {})
    assert isinstance(heads, dict) and isinstance(trust, dict) and isinstance(scale, dict)
    return RelevanceModel(
        name,
        Trust(**trust),
        {Mode(mode): _head(value) for mode, value in heads.items() if mode != ABROAD},
        Scale(**scale),
        _head(heads[ABROAD]) if ABROAD in heads else None,
    )


def _head(raw: Mapping[str, object]) -> Head:
    weights, thresholds = raw["weights"], raw.get("thresholds", {"high": 1.0, "medium": 1.0})
    assert isinstance(weights, dict) and isinstance(thresholds, dict)
    return Head(
        float(str(raw["intercept"])),
        {name: float(weights[name]) for name in FEATURES if name in weights},
        Thresholds(high=float(thresholds["high"]), medium=float(thresholds["medium"])),
    )
