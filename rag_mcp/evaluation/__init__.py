"""Measures retrieval and its relevance gate on questions whose answers are known, and refits the gate from them."""

from rag_mcp.evaluation.calibration import Recalibration, ScoredQuestion, Thresholds, fit_thresholds
from rag_mcp.evaluation.compare import Comparison, compare, read_report
from rag_mcp.evaluation.corpus import ResultSpans, corpus_digest, provenance_of
from rag_mcp.evaluation.questions import Question, read_questions
from rag_mcp.evaluation.report import render
from rag_mcp.evaluation.runner import EvalReport, Provenance, evaluate, scored_questions

__all__ = [
    "Comparison",
    "EvalReport",
    "Provenance",
    "Question",
    "Recalibration",
    "ResultSpans",
    "ScoredQuestion",
    "Thresholds",
    "compare",
    "corpus_digest",
    "evaluate",
    "fit_thresholds",
    "provenance_of",
    "read_questions",
    "read_report",
    "render",
    "scored_questions",
]
