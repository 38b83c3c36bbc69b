"""Asks every question in every mode and turns the answers into one report."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rag_mcp.answers import Result, SearchResponse
from rag_mcp.errors import InvalidQuery
from rag_mcp.evaluation.calibration import ScoredQuestion
from rag_mcp.evaluation.gate import GateStatistics, Outcome, gate_statistics
from rag_mcp.evaluation.metrics import (
    METRICS,
    Interval,
    Span,
    chunk_metrics,
    distinct,
    file_metrics,
    interval,
    percentile,
)
from rag_mcp.evaluation.questions import Question
from rag_mcp.models import Gate, Level, Mode
from rag_mcp.requests import SearchRequest

__all__ = ["FORMAT", "Answer", "EvalReport", "ModeReport", "Provenance", "Shown", "evaluate", "scored_questions"]

FORMAT = 1
_SHOWN_RESULTS = 5
_SHOWN_CHARS = 200

Search = Callable[[SearchRequest], SearchResponse]
Spans = Callable[[Result], tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What was measured, so that a number can be made again; ``date`` is ISO and given by the caller."""

    corpus: str
    corpus_digest: str
    embedder: str
    date: str
    questions_digest: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One result as the report shows it; ``overlaps`` is None when the question has no range."""

    source: str
    heading: str
    line_start: int
    line_end: int
    score: float
    confidence: str
    relevant: bool
    overlaps: bool | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How one question fared in one mode; ``metrics`` is empty for unanswerable questions."""

    question: Question
    outcome: Outcome
    metrics: Mapping[str, float]
    level: str | None
    latency_ms: float
    results: tuple[Shown, ...]
    degraded: bool
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeReport:
    metrics: Mapping[str, Interval | None]
    by_difficulty: Mapping[str, Mapping[str, float | int | None]]
    gate: GateStatistics
    latency_ms: Mapping[str, float]
    answers: tuple[Answer, ...]

    @property
    def degraded(self) -> int:
        return sum(answer.degraded for answer in self.answers)

    @property
    def errors(self) -> int:
        return sum(answer.error is not None for answer in self.answers)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalReport:
    """One run; the first mode is the one whose gate and latency stand at the top level of the JSON. ``notes`` say what
    to keep in mind; ``unplaced`` are the ids of answerable questions none of whose files is in the index."""

    questions: tuple[Question, ...]
    modes: Mapping[Mode, ModeReport]
    chunks: int | None
    k: int
    provenance: Provenance | None
    notes: tuple[str, ...] = ()
    unplaced: frozenset[str] = frozenset()

    def as_json(self) -> dict[str, Any]:
        """The report as JSON-ready values; a number that could not be computed is null."""
        first = next(iter(self.modes))
        return {
            "format": FORMAT,
            "modes": {mode.value: _mode_json(report) for mode, report in self.modes.items()},
            "gate": _gate_json(self.modes[first].gate) | {"mode": first.value},
            "latency_ms": dict(self.modes[first].latency_ms),
            "chunks": self.chunks,
            "questions": len(self.questions),
            "answerable": sum(question.answerable for question in self.questions),
            "k": self.k,
            "notes": list(self.notes),
            "provenance": asdict(self.provenance) if self.provenance else None,
            "rows": [self._row(index, question) for index, question in enumerate(self.questions)],
        }

    def _row(self, index: int, question: Question) -> dict[str, Any]:
        return {
            "id": question.id,
            "question": question.text,
            "answerable": question.answerable,
            "negkind": question.negkind,
            "near": question.near,
            "lang": question.lang,
            "difficulty": question.difficulty,
            "expected": [asdict(replace(place, quote=_short(place.quote))) for place in question.relevant],
            "modes": {mode.value: _answer_json(report.answers[index]) for mode, report in self.modes.items()},
        }


def evaluate(
    questions: Sequence[Question],
    search: Search,
    *,
    modes: Sequence[Mode],
    spans: Spans,
    k: int = 20,
    chunks: int | None = None,
    provenance: Provenance | None = None,
    clock: Callable[[], float] = time.perf_counter,
    progress: Callable[[], None] | None = None,
) -> EvalReport:
    """Ask every question once a mode, with the gate open, and measure ranking, gate and latency from the same answers.

    The strict gate withholds low results, so it answers exactly when an open answer holds one that is not low.
    ``k`` passages are asked for (20, the most a search gives, so that ten files can appear). One unmeasured search a
    mode comes first: it pays for opening the store and the model. ``progress`` is called after each question.
    A query the search refuses counts as unanswered; every other error is raised.
    """
    if not questions or not modes:
        raise ValueError("an evaluation needs at least one question and one mode")
    measured: dict[Mode, ModeReport] = {}
    for mode in dict.fromkeys(modes):
        _ask(questions[0], search, mode, k=k, clock=clock)
        answers = []
        for question in questions:
            answers.append(_answer(question, *_ask(question, search, mode, k=k, clock=clock), spans=spans))
            if progress is not None:
                progress()
        measured[mode] = _mode_report(tuple(answers))
    return EvalReport(questions=tuple(questions), modes=measured, chunks=chunks, k=k, provenance=provenance)


def scored_questions(report: EvalReport, mode: Mode) -> tuple[ScoredQuestion, ...]:
    """What calibration fits on: the score the gate decided by, and whether the first result's file answers. An
    ``unplaced`` question says nothing of either."""
    return tuple(
        ScoredQuestion(
            score=answer.outcome.best_score,
            relevant=answer.outcome.top_relevant,
            answerable=answer.question.answerable,
        )
        for answer in report.modes[mode].answers
        if answer.error is None and answer.question.id not in report.unplaced
    )


def _ask(
    question: Question, search: Search, mode: Mode, *, k: int, clock: Callable[[], float]
) -> tuple[SearchResponse | InvalidQuery, float]:
    request = SearchRequest(query=question.text, k=k, mode=mode, confidence=Gate.NORMAL, explain=True)
    started = clock()
    try:
        response: SearchResponse | InvalidQuery = search(request)
    except InvalidQuery as refused:
        response = refused
    return response, (clock() - started) * 1_000


def _answer(question: Question, response: SearchResponse | InvalidQuery, latency_ms: float, *, spans: Spans) -> Answer:
    refused = isinstance(response, InvalidQuery)
    results: tuple[Result, ...] = () if isinstance(response, InvalidQuery) else response.results
    # Only the first five passages count at chunk level; the ranges of the rest need not be looked up.
    passages: list[Span] = [(one.citation.source, *spans(one)) for one in results[:5]] if question.ranges else []
    metrics: dict[str, float] = {}
    if question.answerable:
        metrics = file_metrics(_files(results), question.sources) | chunk_metrics(passages, question.ranges)
    top = results[0] if results else None
    return Answer(
        question=question,
        outcome=Outcome(
            best_score=max((result.score for result in results), default=0.0),
            top_score=top.score if top else 0.0,
            top_relevant=top is not None and top.citation.source in question.sources,
            answered=any(result.confidence is not Level.LOW for result in results),
            negkind=question.negkind,
        ),
        metrics=metrics,
        level=top.confidence.value if top else None,
        latency_ms=latency_ms,
        results=tuple(
            _shown(result, question, passages[index] if passages else None)
            for index, result in enumerate(results[:_SHOWN_RESULTS])
        ),
        degraded=not isinstance(response, InvalidQuery) and response.degraded,
        error=str(response) if refused else None,
    )


def _files(results: Sequence[Result]) -> tuple[str, ...]:
    # A file collapsed as a duplicate takes the next rank, as it would in the list it was collapsed from.
    return distinct(place.source for result in results for place in (result.citation, *result.also_in))


def _shown(result: Result, question: Question, passage: Span | None) -> Shown:
    citation = result.citation
    return Shown(
        source=citation.source,
        heading=" > ".join(citation.heading_path),
        line_start=citation.line_start,
        line_end=citation.line_end,
        score=result.score,
        confidence=result.confidence.value,
        relevant=citation.source in question.sources,
        overlaps=bool(chunk_metrics([passage], question.ranges)["chunk_hit@1"]) if passage else None,
        text=_short(result.text) or "",
    )


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"


def _mode_report(answers: tuple[Answer, ...]) -> ModeReport:
    latencies = [answer.latency_ms for answer in answers]
    return ModeReport(
        metrics={name: interval(_values(answers, name)) for name in METRICS},
        by_difficulty=_by_difficulty(answers),
        gate=gate_statistics([answer.outcome for answer in answers]),
        latency_ms={"p50": percentile(latencies, 0.5), "p95": percentile(latencies, 0.95)},
        answers=answers,
    )


def _values(answers: Sequence[Answer], metric: str) -> list[float]:
    return [answer.metrics[metric] for answer in answers if metric in answer.metrics]


def _by_difficulty(answers: Sequence[Answer]) -> dict[str, dict[str, float | int | None]]:
    groups: dict[str, list[Answer]] = {}
    for answer in answers:
        if answer.question.answerable and answer.question.difficulty:
            groups.setdefault(answer.question.difficulty, []).append(answer)
    tables: dict[str, dict[str, float | int | None]] = {}
    for difficulty, group in groups.items():
        columns = {name: _values(group, name) for name in METRICS}
        means = {name: sum(values) / len(values) if values else None for name, values in columns.items()}
        tables[difficulty] = {"questions": len(group), **means}
    return tables


def _mode_json(report: ModeReport) -> dict[str, Any]:
    return {
        **{name: value.mean if value else None for name, value in report.metrics.items()},
        "ci": {name: _interval_json(value) for name, value in report.metrics.items()},
        "gate": _gate_json(report.gate),
        "latency_ms": dict(report.latency_ms),
        "by_difficulty": report.by_difficulty,
        "degraded": report.degraded,
        "errors": report.errors,
    }


def _gate_json(gate: GateStatistics) -> dict[str, Any]:
    return {
        "answered": gate.answered.mean if gate.answered else None,
        "withheld": {kind: share.mean for kind, share in gate.withheld.items()},
        "withheld_all": gate.withheld_all.mean if gate.withheld_all else None,
        "auroc": gate.auroc.mean if gate.auroc else None,
        "auroc_by_kind": {kind: area.mean for kind, area in gate.auroc_by_kind.items()},
        "ece": gate.ece,
        "brier": gate.brier,
        "ci": {
            "answered": _interval_json(gate.answered),
            "withheld": {kind: _interval_json(share) for kind, share in gate.withheld.items()},
            "auroc": _interval_json(gate.auroc),
            "auroc_by_kind": {kind: _interval_json(area) for kind, area in gate.auroc_by_kind.items()},
        },
        "at_95": asdict(gate.at_95) if gate.at_95 else None,
        "reliability": [asdict(one) for one in gate.reliability],
        "sweep": [asdict(point) for point in gate.sweep],
    }


def _interval_json(value: Interval | None) -> dict[str, Any] | None:
    return {"low": value.low, "high": value.high, "n": value.n} if value else None


def _answer_json(answer: Answer) -> dict[str, Any]:
    return {
        "metrics": dict(answer.metrics),
        "score": answer.outcome.top_score,
        "best_score": answer.outcome.best_score,
        "level": answer.level,
        "top_relevant": answer.outcome.top_relevant,
        "answered": answer.outcome.answered,
        "latency_ms": round(answer.latency_ms, 3),
        "degraded": answer.degraded,
        "error": answer.error,
        "results": [asdict(result) for result in answer.results],
    }
