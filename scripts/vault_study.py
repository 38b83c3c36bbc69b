"""What an assistant gets of a vault: forty questions over some three hundred notes, asked as a host asks them.

    python3 scripts/vault_study.py                     this version
    python3 scripts/vault_study.py --package DIR       another version of the project, from its clone
    python3 scripts/vault_study.py --questions         each question with what became of it

The vault is made by tests/vault/make.py. A token is taken as four characters; an answer is sent as structure and as text.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VAULT = ROOT / "tests" / "vault"
CLI = "from rag_mcp.cli import main; main()"
FOUND_IN = 3


@dataclass(frozen=True)
class Told:
    """One answer: ``place`` of the expected note among the results (1 is first), ``named`` if a refusal names it."""

    question: str
    answerable: bool
    results: int
    place: int | None
    nearest: int
    named: bool
    structure: float
    text: float


def told(row: Mapping[str, Any], payload: Mapping[str, Any], text: str) -> Told:
    wanted = set(row.get("relevant", ()))
    sources = list(dict.fromkeys(result["citation"]["source"] for result in payload["results"]))
    nearest = [place["source"] for place in payload.get("nearest") or ()]
    return Told(
        question=row["question"],
        answerable=bool(wanted),
        results=len(payload["results"]),
        place=next((place for place, source in enumerate(sources, start=1) if source in wanted), None),
        nearest=len(nearest),
        named=bool(wanted.intersection(nearest)),
        structure=len(json.dumps(payload, ensure_ascii=False, separators=(",", ":"))) / 4,
        text=len(text) / 4,
    )


async def ask(env: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> list[Told]:
    from mcp.client.session import ClientSession
    from mcp.client.stdio import StdioServerParameters, stdio_client

    server = StdioServerParameters(command=sys.executable, args=["-m", "rag_mcp"], env=dict(env), cwd=env["PYTHONPATH"])
    answers = []
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        for _ in range(200):
            warm = await session.call_tool("search_knowledge", {"query": "warm up"})
            if not (warm.structured_content or {}).get("degraded"):
                break
            await asyncio.sleep(0.1)
        for row in rows:
            answer = await session.call_tool("search_knowledge", {"query": row["question"]})
            text = "".join(getattr(part, "text", "") for part in answer.content)
            answers.append(told(row, answer.structured_content or {}, text))
    return answers


def study(package: Path, folder: Path) -> list[Told]:
    """Make the vault below ``folder``, ingest and ask with the rag_mcp of ``package``."""
    subprocess.run([sys.executable, VAULT / "make.py", folder / "vault"], check=True, stdout=subprocess.DEVNULL)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAG_MCP_")}
    places = {"RAG_MCP_CORPUS_ROOT": str(folder / "vault"), "RAG_MCP_DB_PATH": str(folder / "store")}
    env = {**clean, **places, "PYTHONPATH": str(package)}
    ingest = [sys.executable, "-c", CLI, "ingest", folder / "vault", "--db", folder / "store", "--json"]
    subprocess.run(ingest, check=True, env=env, cwd=package, stdout=subprocess.DEVNULL)
    rows = [json.loads(line) for line in (VAULT / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    return asyncio.run(ask(env, rows))


def report(answers: Sequence[Told]) -> dict[str, str]:
    on, off = ([each for each in answers if each.answerable is wanted] for wanted in (True, False))
    answered = [each for each in on if each.place is not None and each.place <= FOUND_IN]
    blocked = [each for each in on if not each.results]
    given = [each for each in answers if each.results] or list(answers)
    return {
        f"answered, the note in the first {FOUND_IN}": f"{len(answered)} of {len(on)}",
        "answerable and withheld": f"{len(blocked)}; the note named in {sum(each.named for each in blocked)}",
        "off-topic withheld": f"{sum(not each.results for each in off)} of {len(off)}",
        "off-topic refusals that name a place": str(sum(bool(each.nearest) for each in off)),
        "tokens an answer, structure": f"{statistics.mean(each.structure for each in given):,.0f}",
        "tokens an answer, text": f"{statistics.mean(each.text for each in given):,.0f}",
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", type=Path, default=ROOT, metavar="DIR", help="clone whose rag_mcp is asked")
    parser.add_argument("--questions", action="store_true", help="print every question")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        answers = study(options.package.resolve(), Path(folder))
    for name, value in report(answers).items():
        print(f"{name}: {value}")
    for each in answers if options.questions else ():
        outcome = f"place {each.place}" if each.results else f"withheld{', named' if each.named else ''}"
        print(f"  {outcome:18} {each.question}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
