"""Measures what a set loses when one server answers for two: python3 scripts/corpora_study.py --all DIR --pair A,B.

Each set's questions are asked of its own corpus, and of a server over both, but for those that only the other corpus
answers. Sets and stores are those of evaluate.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from rag_mcp.config import Config  # noqa: E402 - after the path, so that a checkout works uninstalled
from rag_mcp.evaluation.questions import Question, read_questions  # noqa: E402
from rag_mcp.evaluation.runner import ModeReport, Search, evaluate  # noqa: E402
from rag_mcp.evaluation.tables import number  # noqa: E402
from rag_mcp.federation import Federation  # noqa: E402
from rag_mcp.knowledge import KnowledgeBase  # noqa: E402
from rag_mcp.models import Mode  # noqa: E402

BEGIN, END = "<!-- corpora:begin -->", "<!-- corpora:end -->"
_HEAD = "| set | beside | questions | nDCG@10 alone | in one of two | answered alone | in one of two | withheld alone | in one of two |"


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    lines = [_HEAD, "| --- | --- |" + " ---: |" * 7]
    for pair in options.pair:
        lines += _rows(options.all, options.cache, pair)
    table = "\n".join(lines)
    print(table)
    if options.out:
        before, _, rest = options.out.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        options.out.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")
    return 0


def _rows(sets: Path, cache: Path, pair: Sequence[str]) -> list[str]:
    roots = ";".join(f"{name}={sets / name / 'corpus'}" for name in pair)
    # The widest profile: a page named config must not be missing from a measurement of ranking.
    config = Config.load({}, corpus_root=roots, db_path=cache, profile="auditor")
    for each in config.corpora.values():
        KnowledgeBase.open(each).ingest()
    both = Federation.open(config)
    both.warm_up()
    rows = []
    for name, other in (pair, pair[::-1]):
        print(f"{name} beside {other} …", file=sys.stderr, flush=True)
        questions = _asked(sets, name, other)
        own = KnowledgeBase.open(config.corpora[name])
        own.warm_up()
        alone = _measured(questions, own.search)
        beside = _measured([_of(name, question) for question in questions], both.search)
        own.close()
        figures = (figure for pair in zip(_figures(alone), _figures(beside), strict=True) for figure in pair)
        rows.append(f"| {name} | {other} | {len(questions)} | {' | '.join(figures)} |")
    both.close()
    return rows


def _asked(sets: Path, name: str, other: str) -> list[Question]:
    mine, theirs = (read_questions(sets / each / "queries.jsonl") for each in (name, other))
    elsewhere = {question.text for question in theirs if question.answerable}
    return [question for question in mine if question.answerable or question.text not in elsewhere]


def _of(name: str, question: Question) -> Question:
    """The question as it is asked of several corpora."""
    return replace(question, relevant=tuple(replace(at, source=f"{name}/{at.source}") for at in question.relevant))


def _measured(questions: Sequence[Question], search: Search) -> ModeReport:
    return evaluate(questions, search, modes=[Mode.HYBRID], spans=lambda _: (0, 0)).modes[Mode.HYBRID]


def _figures(report: ModeReport) -> list[str]:
    values = (report.metrics["ndcg@10"], report.gate.answered, report.gate.withheld_all)
    return [number(value.mean if value else None) for value in values]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--all", type=Path, required=True, metavar="DIR", help="folder of sets")
    parser.add_argument(
        "--pair", type=lambda text: text.split(","), action="append", required=True, help="two sets; repeatable"
    )
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache" / "evaluate", help="folder of the stores")
    parser.add_argument("--out", type=Path, help="markdown file whose marked part is replaced")
    return parser


if __name__ == "__main__":
    sys.exit(main())
