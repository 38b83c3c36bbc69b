"""Asks a dozen English notes in five languages, strictly: python3 scripts/language_study.py --embedder minilm-int8.

Each of ten questions is answered rightly (the first passage is of the note that answers), wrongly, or withheld; three ask
what no note says. Notes and questions: scripts/language_notes.json. For a model in a folder set RAG_MCP_MODEL_DIR.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from rag_mcp.config import Config, environment  # noqa: E402 - after the path, so that a checkout works uninstalled
from rag_mcp.knowledge import KnowledgeBase  # noqa: E402
from rag_mcp.requests import SearchRequest  # noqa: E402

LANGUAGES = {"en": "English", "es": "Spanish", "de": "German", "ru": "Russian", "zh": "Chinese"}
MATERIAL = Path(__file__).with_name("language_notes.json")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--embedder", action="append", required=True, help="as RAG_MCP_EMBEDDER; repeatable")
    for embedder in parser.parse_args(argv).embedder:
        print(study(embedder))
    return 0


def study(embedder: str) -> str:
    """A markdown table of what came of each question in each language, and the sums."""
    material = json.loads(MATERIAL.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "notes"
        notes.mkdir()
        for name, text in material["notes"].items():
            (notes / name).write_text(text, encoding="utf-8")
        config = Config.load(environment(), corpus_root=notes, db_path=Path(folder) / "store", embedder=embedder)
        with closing(KnowledgeBase.open(config)) as base:
            base.ingest()
            name = base.status().embedder
            outcomes = [
                {language: outcome(base, question, language) for language in LANGUAGES}
                for question in material["questions"]
            ]
    return table(name, [question["en"] for question in material["questions"]], outcomes)


def outcome(base: KnowledgeBase, question: Mapping[str, Any], language: str) -> str:
    results = base.search(SearchRequest(query=question[language])).results
    if not results:
        return "withheld" if question["source"] else "withheld, rightly"
    return "right" if results[0].citation.source == question["source"] else "wrong"


def table(embedder: str, questions: Sequence[str], outcomes: Sequence[Mapping[str, str]]) -> str:
    lines = [f"| {embedder} | {' | '.join(LANGUAGES.values())} |", "| --- " * (len(LANGUAGES) + 1) + "|"]
    lines += [f"| {question} | {' | '.join(row.values())} |" for question, row in zip(questions, outcomes, strict=True)]
    sums = [sum(row[language] in ("right", "withheld, rightly") for row in outcomes) for language in LANGUAGES]
    return "\n".join(
        [*lines, f"| as it should be | {' | '.join(f'{count} of {len(outcomes)}' for count in sums)} |", ""]
    )


if __name__ == "__main__":
    sys.exit(main())
