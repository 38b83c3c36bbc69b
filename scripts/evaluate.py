"""Evaluates every set of a folder and writes one table: python3 scripts/evaluate.py --all DIR.

A set is a folder with ``queries.jsonl`` and ``corpus/``. Each set has a store of its own in the cache folder, so a
second run ingests only what changed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from rag_mcp.config import Config  # noqa: E402 - after the path, so that a checkout works uninstalled
from rag_mcp.errors import RagMcpError  # noqa: E402
from rag_mcp.evaluation import (  # noqa: E402
    EvalReport,
    compare,
    read_report,
    render,
)
from rag_mcp.evaluation.tables import comparison_table, sets_table  # noqa: E402
from rag_mcp.models import Mode  # noqa: E402

BEGIN, END = "<!-- evaluation:begin -->", "<!-- evaluation:end -->"

Measure = Callable[[Path, argparse.Namespace], EvalReport]


def main(argv: Sequence[str] | None = None, *, measure: Measure | None = None) -> int:
    """Run; 0 done, 1 a set failed or none was found."""
    options = _parser().parse_args(argv)
    folders = find_sets(options.all, options.sets)
    if not folders:
        print(f"{options.all} holds no set (a folder with queries.jsonl and corpus/).", file=sys.stderr)
        return 1
    reports: dict[str, dict[str, Any]] = {}
    failed = 0
    for folder in folders:
        print(f"{folder.name} …", file=sys.stderr, flush=True)
        try:
            reports[folder.name] = _one_set(folder, options, measure or measure_set)
        except RagMcpError as error:
            print(f"{folder.name}: {error}", file=sys.stderr)
            failed += 1
    if reports:
        text = fragment(reports)
        print(text)
        if options.out:
            _write(options.out, splice(_existing(options.out), text))
    return 1 if failed else 0


def find_sets(root: Path, names: Sequence[str] | None) -> list[Path]:
    """The set folders under ``root`` by name; only ``names`` when given."""
    found = [path.parent for path in sorted(root.glob("*/queries.jsonl")) if (path.parent / "corpus").is_dir()]
    return [folder for folder in found if not names or folder.name in names]


def measure_set(folder: Path, options: argparse.Namespace) -> EvalReport:
    """Ingest the set's corpus into its store and ask every question."""
    from rag_mcp.evaluation.measure import measure_questions

    config = Config.load(
        corpus_root=folder / "corpus",
        db_path=_cache(options.cache) / folder.name,
        embedder=options.embedder,
        # The widest profile: a page named config must not be missing from a measurement of ranking.
        profile="auditor",
    )
    date = options.date.isoformat()
    return measure_questions(config, folder / "queries.jsonl", modes=options.modes, date=date, name=folder.name)


def fragment(reports: Mapping[str, Mapping[str, Any]]) -> str:
    """The markdown that goes into the docs: one table, and what it was made with."""
    made = {
        (source["date"], source["embedder"], ", ".join(f"{name} {one}" for name, one in source["versions"].items()))
        for source in (report["provenance"] for report in reports.values())
        if source
    }
    lines = [f"Measured {day} with embedder {embedder} ({versions})." for day, embedder, versions in sorted(made)]
    return "\n".join([sets_table(reports), *lines])


def splice(document: str, text: str) -> str:
    """Put ``text`` between the markers of ``document``; at its end, with markers, when it has none."""
    block = f"{BEGIN}\n{text.strip()}\n{END}"
    if BEGIN in document and END in document:
        before, _, rest = document.partition(BEGIN)
        return before + block + rest.partition(END)[2]
    return f"{document.rstrip()}\n\n{block}\n".lstrip()


def _one_set(folder: Path, options: argparse.Namespace, measure: Measure) -> dict[str, Any]:
    report = measure(folder, options).as_json()
    for note in report["notes"]:
        print(f"{folder.name}: {note}", file=sys.stderr)
    earlier = options.compare_dir / f"{folder.name}.json" if options.compare_dir else None
    comparison = compare(read_report(earlier), report) if earlier and earlier.exists() else None
    if comparison:
        print(f"### {folder.name}, against the earlier run\n\n{comparison_table(comparison)}")
    if options.json_dir:
        _write(options.json_dir / f"{folder.name}.json", json.dumps(report, ensure_ascii=False, allow_nan=False) + "\n")
    if options.html_dir:
        page = render(report, title=f"Retrieval evaluation: {folder.name}", comparison=comparison)
        _write(options.html_dir / f"{folder.name}.html", page)
    return report


def _cache(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    return folder


def _existing(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _modes(text: str) -> list[Mode]:
    try:
        return [Mode(name.strip()) for name in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; use {', '.join(Mode)}") from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--all", type=Path, required=True, metavar="DIR", help="folder of sets")
    parser.add_argument("--sets", type=lambda text: text.split(","), help="only these sets, separated by commas")
    parser.add_argument("--modes", type=_modes, default=list(Mode), help="default: hybrid,fts,vector")
    parser.add_argument("--out", type=Path, help="markdown file whose marked part is replaced, e.g. docs/EVALUATION.md")
    parser.add_argument("--json-dir", type=Path, help="write each report as JSON here")
    parser.add_argument("--html-dir", type=Path, help="write each report as a page here")
    parser.add_argument("--compare-dir", type=Path, help="folder of earlier JSON reports to compare with")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache" / "evaluate", help="folder of the stores")
    parser.add_argument("--embedder", help="as RAG_MCP_EMBEDDER")
    parser.add_argument("--date", type=date.fromisoformat, default=date.today(), help="date to write (default: today)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
