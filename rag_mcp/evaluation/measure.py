"""Ask a knowledge base every question of a set: the one way ``rag-mcp eval``, ``calibrate`` and the scripts measure."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rag_mcp.config import Config
from rag_mcp.errors import ConfigError
from rag_mcp.evaluation.corpus import ResultSpans, provenance_of
from rag_mcp.evaluation.names import place_names, too_few
from rag_mcp.evaluation.questions import read_questions
from rag_mcp.evaluation.runner import EvalReport, evaluate
from rag_mcp.knowledge import KnowledgeBase
from rag_mcp.models import Mode
from rag_mcp.requests import ListRequest

__all__ = ["measure_questions"]


def measure_questions(
    config: Config,
    questions: Path,
    *,
    modes: Sequence[Mode],
    date: str,
    calibrated: bool = True,
    name: str | None = None,
    progress: Callable[[], None] | None = None,
) -> EvalReport:
    """Bring the store in step with the corpus and measure. ``date`` is ISO, for the record; ``calibrated`` False
    measures with the shipped probabilities.

    Raises ConfigError without a corpus, QuestionsInvalid, InvalidArgument when no file that the questions name is in the
    index, and whatever ingest and search raise.
    """
    corpus = config.corpus_root
    if corpus is None:
        raise ConfigError("No corpus: pass --corpus DIR, so that passages can be compared with the quoted ranges.")
    asked = read_questions(questions)
    base = KnowledgeBase.open(config, calibrated=calibrated)
    try:
        chunks = base.ingest().store_count
        # A search that meets a model still loading answers by keywords alone, which is not what is measured here.
        base.warm_up()
        listed = base.list_documents(ListRequest(limit=sys.maxsize)).documents
        placed = place_names(asked, {entry.source for entry in listed})
        made = provenance_of(corpus, questions, embedder=config.embedder, date=date)
        report = evaluate(
            placed.questions,
            base.search,
            modes=modes,
            spans=ResultSpans(corpus),
            chunks=chunks,
            provenance=replace(made, corpus=name or made.corpus),
            progress=progress,
        )
        return replace(report, notes=(*placed.notes, *too_few(asked)), unplaced=placed.unplaced)
    finally:
        base.close()
