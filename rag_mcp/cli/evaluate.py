"""``eval`` and ``calibrate``: measure answers on questions with known ones, and fit levels to them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag_mcp.cli import params
from rag_mcp.cli.output import print_notes, say
from rag_mcp.cli.several import one_of
from rag_mcp.config import Config
from rag_mcp.errors import InvalidArgument

if TYPE_CHECKING:
    from rag_mcp.evaluation import EvalReport

__all__ = ["calibrate", "evaluate"]


def evaluate(
    questions: Annotated[Path, typer.Argument(help="Questions, one JSON object a line.", **params.PATH)],
    corpus: params.Corpus = None,
    db: params.Db = None,
    modes: Annotated[
        str, typer.Option(help="Comma-separated; the first one's gate is reported.")
    ] = "hybrid,fts,vector",
    embedder: params.Embedder = None,
    policy: params.Policy = None,
    profile: params.Profile = None,
    only: params.Only = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the report as JSON here.", **params.PATH)
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="Write the report as one HTML page here.", **params.PATH)
    ] = None,
    compare_with: Annotated[
        Path | None, typer.Option("--compare", help="JSON of an older run to compare with.", **params.PATH)
    ] = None,
) -> None:
    """Measure ranking, gate and latency on questions with known answers."""
    from rag_mcp.evaluation import compare, read_report, render
    from rag_mcp.evaluation.tables import comparison_table, mode_table

    config = Config.load(corpus_root=corpus, db_path=db, embedder=embedder, policy_path=policy, profile=profile)
    config = one_of(config, only)
    old = read_report(compare_with) if compare_with is not None else None
    made = _measured(config, questions, modes).as_json()
    comparison = compare(old, made) if old is not None else None
    if json_file is not None:
        _write_private(json_file, json.dumps(made, ensure_ascii=False, indent=1))
    if report is not None:
        _write_private(report, render(made, comparison=comparison))
    say(mode_table(made))
    print_notes(made["notes"])
    if comparison is not None:
        say(comparison_table(comparison))


def _write_private(path: Path, text: str) -> None:
    """Questions and names of files stand in it, so a new file is its owner's alone; a link is the caller's own."""
    with open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as stream:
        stream.write(text)


def _measured(config: Config, questions: Path, modes: str, *, calibrated: bool = True) -> EvalReport:
    from datetime import UTC, datetime

    from rag_mcp.evaluation.measure import measure_questions
    from rag_mcp.models import Mode

    known = [mode.value for mode in Mode]
    names = [name.strip() for name in modes.split(",") if name.strip()]
    if not names or any(name not in known for name in names):
        raise InvalidArgument("modes", f"is {modes!r}.", allowed=known)
    today = datetime.now(UTC).date().isoformat()
    return measure_questions(config, questions, modes=[Mode(name) for name in names], date=today, calibrated=calibrated)


def calibrate(
    questions: Annotated[
        Path, typer.Argument(help="Questions, one JSON object a line, answerable and not.", **params.PATH)
    ],
    corpus: params.Corpus = None,
    db: params.Db = None,
    embedder: params.Embedder = None,
    policy: params.Policy = None,
    profile: params.Profile = None,
    collection: params.Collection = None,
    only: params.Only = None,
    answered: Annotated[float, typer.Option(help="Share of answerable questions to keep answering.")] = 0.95,
) -> None:
    """Fit the levels of confidence to your own corpus and keep them with the store."""
    from rag_mcp.evaluation.calibration import fit_calibration
    from rag_mcp.evaluation.runner import scored_questions
    from rag_mcp.maintenance import store_calibration
    from rag_mcp.models import Mode
    from rag_mcp.search.relevance import Calibration, Thresholds

    config = Config.load(
        corpus_root=corpus, db_path=db, embedder=embedder, policy_path=policy, profile=profile, collection=collection
    )
    config = one_of(config, only)
    made = _measured(config, questions, "hybrid,fts,vector", calibrated=False)
    print_notes(made.notes)
    fitted = {}
    for mode in Mode:
        points, levels = fit_calibration(scored_questions(made, mode), answered_target=answered)
        fitted[mode] = Calibration(Thresholds(high=levels.high, medium=levels.medium), points)
        typer.echo(f"{mode.value}: medium from {levels.medium:.3f}, high from {levels.high:.3f}")
    store_calibration(config, fitted, {"questions": len(made.questions) - len(made.unplaced), "answered": answered})
