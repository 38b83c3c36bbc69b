"""Measures what a set loses when one server answers for two: python3 scripts/corpora_study.py --all DIR --pair A,B.

Each set's questions are asked of its own corpus, and of a server over both, but for those that only the other corpus
answers. Sets and stores are those of evaluate.py.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
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
        lines += _pair(options, pair)
    lines += [_split(options, name) for name in options.split]
    table = "\n".join(lines)
    print(table)
    if options.out:
        before, _, rest = options.out.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        options.out.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")
    return 0


def _pair(options: argparse.Namespace, pair: Sequence[str]) -> list[str]:
    """A row for each of two sets, whose corpora stand side by side."""
    rows = []
    with _served(options, {name: options.all / name / "corpus" for name in pair}) as both:
        for name, other in (pair, pair[::-1]):
            print(f"{name} beside {other} …", file=sys.stderr, flush=True)
            questions = _asked(options.all, name, other)
            with _served(options, {name: options.all / name / "corpus"}) as alone:
                rows.append(
                    _row(name, other, _measured(questions, alone), _measured(questions, both, f"{name}/{{}}".format))
                )
    return rows


def _split(options: argparse.Namespace, name: str) -> str:
    """A row for a set whose corpus is cut in two, every other file in each half."""
    print(f"{name} in two halves …", file=sys.stderr, flush=True)
    questions = read_questions(options.all / name / "queries.jsonl")
    corpus = options.all / name / "corpus"
    halves = {half: options.cache / f"{name}.halves" / half for half in ("one", "two")}
    places = {}
    for path, half in zip(sorted(path for path in corpus.rglob("*") if path.is_file()), cycle(halves), strict=False):
        source = path.relative_to(corpus).as_posix()
        places[source], target = f"{half}/{source}", halves[half] / source
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    with _served(options, {name: corpus}) as whole, _served(options, halves, options.cache / f"{name}.stores") as both:
        return _row(name, "its other half", _measured(questions, whole), _measured(questions, both, places.__getitem__))


@contextlib.contextmanager
def _served(options: argparse.Namespace, roots: Mapping[str, Path], stores: Path | None = None) -> Iterator[Search]:
    """The search over these folders, without names where there is one."""
    # The widest profile: a page named config must not be missing from a measurement of ranking.
    named = ";".join(f"{name}={root}" for name, root in roots.items())
    config = Config.load(
        {}, corpus_root=named, db_path=stores or options.cache, profile="auditor", embedder=options.embedder
    )
    for each in config.corpora.values():
        KnowledgeBase.open(each).ingest()
    lone = next(iter(config.corpora.values()))
    base = KnowledgeBase.open(lone) if len(roots) == 1 else Federation.open(config)
    with contextlib.closing(base):
        base.warm_up()
        yield base.search


def _asked(sets: Path, name: str, other: str) -> list[Question]:
    mine, theirs = (read_questions(sets / each / "queries.jsonl") for each in (name, other))
    elsewhere = {question.text for question in theirs if question.answerable}
    return [question for question in mine if question.answerable or question.text not in elsewhere]


def _measured(questions: Sequence[Question], search: Search, placed: Callable[[str], str] = str) -> ModeReport:
    """``placed`` says where the files that the questions name are found."""
    asked = [
        replace(question, relevant=tuple(replace(at, source=placed(at.source)) for at in question.relevant))
        for question in questions
    ]
    return evaluate(asked, search, modes=[Mode.HYBRID], spans=lambda _: (0, 0)).modes[Mode.HYBRID]


def _row(name: str, other: str, alone: ModeReport, beside: ModeReport) -> str:
    figures = (figure for pair in zip(_figures(alone), _figures(beside), strict=True) for figure in pair)
    return f"| {name} | {other} | {len(alone.answers)} | {' | '.join(figures)} |"


def _figures(report: ModeReport) -> list[str]:
    values = (report.metrics["ndcg@10"], report.gate.answered, report.gate.withheld_all)
    return [number(value.mean if value else None) for value in values]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--all", type=Path, required=True, metavar="DIR", help="folder of sets")
    parser.add_argument(
        "--pair", type=lambda text: text.split(","), action="append", default=[], help="two sets; repeatable"
    )
    parser.add_argument("--split", action="append", default=[], metavar="SET", help="a set to cut in two; repeatable")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache" / "evaluate", help="folder of the stores")
    parser.add_argument("--embedder", help="as RAG_MCP_EMBEDDER")
    parser.add_argument("--out", type=Path, help="markdown file whose marked part is replaced")
    return parser


if __name__ == "__main__":
    sys.exit(main())
