"""What an assistant pays to read: tokens of the list of tools, and of answers beside their bare passages and citations.

    python3 scripts/answer_cost.py                                       the project's own documents
    python3 scripts/answer_cost.py --corpus ~/notes --ask "..." --ask "..."

A token is taken as four characters. An answer is sent twice, as structure and as text, and a host hands on one of them
or both; each is compared with what a person would copy: every passage under its place and headings.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from rag_mcp.config import Config  # noqa: E402
from rag_mcp.ingest.options import IngestOptions  # noqa: E402
from rag_mcp.ingest.run import run_ingest  # noqa: E402
from rag_mcp.server import tools as contract  # noqa: E402
from rag_mcp.server.mcp import Answer, ToolRunner, listed, open_knowledge  # noqa: E402
from rag_mcp.telemetry import Telemetry  # noqa: E402

CHARS_A_TOKEN = 4
PASSAGES = 5
QUESTIONS = (
    "How do I run the ingest on a schedule?",
    "What happens when the ingest is killed?",
    "Who may see a document of class memory?",
    "How is the confidence of an answer decided?",
    "What does the server do with a damaged store?",
    "Which environment variables are there?",
    "How are dated snapshots of one file treated?",
    "Why is there one keyword index for each class?",
)


class Cost(NamedTuple):
    """Sizes of one answer in tokens."""

    question: str
    passages: int
    plain: float
    structure: float
    text: float


def tokens(text: str) -> float:
    return len(text) / CHARS_A_TOKEN


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def tools_list_tokens() -> float:
    tools = [listed(spec).model_dump(mode="json", by_alias=True, exclude_none=True) for spec in contract.TOOLS]
    return tokens(compact({"tools": tools}))


def cost_of(question: str, answer: Answer) -> Cost:
    results = answer.payload["results"]
    plain = "\n\n".join("\n".join(_plain(result)) for result in results)
    return Cost(question, len(results), tokens(plain), tokens(compact(answer.payload)), tokens(answer.text))


def _plain(result: Mapping[str, Any]) -> Iterator[str]:
    citation = result["citation"]
    yield f"{citation['source']}:{citation['line_start']}-{citation['line_end']}, passage {citation['chunk_index']}"
    yield " > ".join(citation.get("heading_path", ()))
    yield result["text"] or ""


def costs(corpus: Path, store: Path, questions: Sequence[str]) -> list[Cost]:
    config = Config.load({"RAG_MCP_CORPUS_ROOT": str(corpus), "RAG_MCP_DB_PATH": str(store)})
    run_ingest(config, IngestOptions())
    knowledge = open_knowledge(config)
    try:
        knowledge.warm_up()
        runner = ToolRunner(knowledge, Telemetry())
        asked = ({"query": question, "k": PASSAGES, "confidence": "normal"} for question in questions)
        return [cost_of(each["query"], runner.run("search_knowledge", each)) for each in asked]
    finally:
        knowledge.close()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, default=ROOT / "docs", metavar="DIR", help="folder of markdown files")
    parser.add_argument("--ask", action="append", metavar="TEXT", help="a question; several times for several")
    options = parser.parse_args(arguments)
    print(f"tools/list: {tools_list_tokens():,.0f} tokens")
    with tempfile.TemporaryDirectory() as folder:
        measured = costs(options.corpus.resolve(), Path(folder) / "store", options.ask or QUESTIONS)
    print("passages  plain  structure    text  question")
    for cost in measured:
        ratios = (
            (f"{cost.structure / cost.plain:.2f}", f"{cost.text / cost.plain:.2f}") if cost.passages else ("-", "-")
        )
        print(f"{cost.passages:8} {cost.plain:6,.0f} {ratios[0]:>10} {ratios[1]:>7}  {cost.question}")
    answered = [cost for cost in measured if cost.passages]
    if answered:
        structure = statistics.mean(cost.structure / cost.plain for cost in answered)
        text = statistics.mean(cost.text / cost.plain for cost in answered)
        print(
            f"mean of {len(answered)}: structure {structure:.2f}, text {text:.2f} times the bare passages and citations"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
