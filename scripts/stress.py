"""One process writes, many read, all may be killed: runs for a while, ends by itself, prints a table.

    python3 scripts/stress.py [--seconds 60] [--readers 8] [--kills 10] [--seed 1]

A writer publishes about once a second and is killed -9 at random; reader processes are asked over MCP all the time, and
are killed and started again now and then. Two notes carry the number of the writer's round, so an answer out of two
generations would show. Exit code 1 when any check of the table fails.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAIR = ("docs/tide-alpha.md", "docs/tide-beta.md")
MODES = ("hybrid", "vector", "fts")
QUESTION = "tide gauge round marker"
STATIC_NOTES = 60
ANSWER_S = 30.0
PAUSE_S = 0.1
LOADING = "the vector index is still loading"
GROWTH_BYTES = 48 * 2**20
SETTLED_ANSWERS = 30

# The writer's process: reads the numbers of rounds, writes the notes, ingests.
WRITER = """
import json, sys
from pathlib import Path
import chromadb, tantivy
from rag_mcp.config import Config
from rag_mcp.ingest.options import IngestOptions
from rag_mcp.ingest.run import run_ingest
config = Config.load()
for line in sys.stdin:
    number = int(line)
    for name in json.loads(sys.argv[1]):
        text = f"# Tide gauge {Path(name).stem}\\n\\nThe tide gauge round marker is mark{number:05d}.\\n"
        (config.corpus_root / name).write_text(text, encoding="utf-8")
    summary = run_ingest(config, IngestOptions())
    print(json.dumps([number, summary.generation, summary.published]), flush=True)
"""

# A server that tells its process id before it serves.
SERVER = """
import os, sys
from pathlib import Path
Path(sys.argv.pop()).write_text(str(os.getpid()), encoding="ascii")
from rag_mcp.server.stdio import main
sys.exit(main())
"""


@dataclass
class Tally:
    """What was seen; one object for the whole run, touched from one thread."""

    answers: int = 0
    failures: list[str] = field(default_factory=list)
    mixed: list[str] = field(default_factory=list)
    rounds: dict[int, int] = field(default_factory=dict)
    interrupted: int = 0
    while_loading: int = 0
    reader_kills: int = 0
    writer_kills: int = 0
    published: int = 0
    writer_errors: list[str] = field(default_factory=list)
    growth: list[int] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    waits_ms: list[float] = field(default_factory=list)
    found_last: int = 0


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="rag_mcp-stress-") as folder:
        stress = Stress(options, Path(folder))
        started = time.monotonic()
        stress.run()
        checks = stress.checks()
        print(table(options, stress.tally, checks, time.monotonic() - started))
    return 0 if all(ok for _, ok, _ in checks) else 1


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the writer writes")
    parser.add_argument("--readers", type=int, default=8, help="reader processes")
    parser.add_argument("--kills", type=int, default=10, help="times the writer is killed")
    parser.add_argument("--seed", type=int, default=1, help="of the random moments")
    return parser.parse_args(arguments)


class Stress:
    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options = options
        self.folder = folder
        self.corpus = folder / "corpus"
        self.store = folder / "store"
        self.random = random.Random(options.seed)
        self.tally = Tally()
        self.last_round = 0
        self.verified: tuple[int, str] = (1, "not run")
        env = {name: value for name, value in os.environ.items() if not name.startswith("RAG_MCP_")}
        self.env = {
            **env,
            "PYTHONPATH": str(ROOT),
            "RAG_MCP_CORPUS_ROOT": str(self.corpus),
            "RAG_MCP_DB_PATH": str(self.store),
            "RAG_MCP_EMBEDDER": "hash",
        }

    def run(self) -> None:
        import anyio

        for number in range(STATIC_NOTES):
            path = self.corpus / "docs" / f"note-{number:03d}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"# Note {number}\n\nBody {number} tells about buoys.\n", encoding="utf-8")
        with Writer(self.env) as writer:
            self._note(writer.publish(self._next_round()))
        anyio.run(self._together)
        self._settle()

    def _next_round(self) -> int:
        self.last_round += 1
        return self.last_round

    def _note(self, told: tuple[int, int] | None) -> None:
        if told is not None:
            self.tally.published += 1
            self._agree(told[1], told[0], "the writer")

    def _agree(self, generation: int, number: int, who: str) -> None:
        """A generation says the same to everyone, and a later one never an older round."""
        known = self.tally.rounds.setdefault(generation, number)
        if known != number:
            self.tally.mixed.append(f"{who}: generation {generation} holds round {known} and {number}")

    # --- the writer --------------------------------------------------------------------------------------------------

    async def _write(self, stop: object) -> None:
        import anyio

        until = time.monotonic() + self.options.seconds
        moments = sorted(
            time.monotonic() + self.random.random() * self.options.seconds for _ in range(self.options.kills)
        )
        writer, spare = Writer(self.env), Writer(self.env)  # the spare has its libraries loaded when it is needed
        try:
            while moments or time.monotonic() < until:  # on a busy machine, the kills still due come at the end
                begun = time.monotonic()
                killing = bool(moments) and begun >= moments[0]
                if killing:
                    moments.pop(0)
                    delay = self.random.random() * 0.6
                    await anyio.to_thread.run_sync(writer.publish_and_die, self._next_round(), delay)
                    self.tally.writer_kills += 1
                    writer, spare = spare, Writer(self.env)
                    continue
                try:
                    self._note(await anyio.to_thread.run_sync(writer.publish, self._next_round()))
                except WriterFailed as error:
                    self.tally.writer_errors.append(str(error))
                    writer.close()
                    writer, spare = spare, Writer(self.env)
                await anyio.sleep(max(0.0, begun + 1.0 - time.monotonic()))
            self._note(await anyio.to_thread.run_sync(writer.publish, self._next_round()))
        finally:
            writer.close()
            spare.close()
            stop.set()  # type: ignore[attr-defined]

    # --- the readers -------------------------------------------------------------------------------------------------

    async def _together(self) -> None:
        import anyio

        stop = anyio.Event()
        async with anyio.create_task_group() as group:
            for number in range(self.options.readers):
                group.start_soon(self._reader, number, stop)
            group.start_soon(self._write, stop)

    async def _reader(self, number: int, stop: object) -> None:
        chance = random.Random(self.options.seed * 1000 + number)
        while True:
            # Killed at the very end: a new server must find the last note as well.
            over = stop.is_set()  # type: ignore[attr-defined]
            life_s = chance.uniform(0.3, 1.0) * max(8.0, self.options.seconds)
            until = float("inf") if over else time.monotonic() + life_s
            if await self._life(number, stop, chance, until):
                self.tally.found_last += 1
                return
            if over:
                return

    async def _life(self, number: int, stop: object, chance: random.Random, until: float) -> bool:
        """One server process from start to end; True when it found the last note at the end of the run."""
        import anyio
        from mcp import Client
        from mcp.client.stdio import StdioServerParameters, stdio_client

        pid_file = self.folder / f"reader-{number}.pid"
        log = self.folder / f"reader-{number}.log"
        params = StdioServerParameters(
            command=sys.executable, args=["-c", SERVER, str(pid_file)], env=self.env, cwd=str(ROOT)
        )
        found_last = False
        with log.open("a", encoding="utf-8") as errors, suppress(_Killed):
            async with Client(stdio_client(params, errlog=errors)) as client:
                reader = Reader(self, client, f"reader {number}", int(pid_file.read_text(encoding="ascii")))
                while not stop.is_set():  # type: ignore[attr-defined]
                    if time.monotonic() > until:
                        await reader.die(chance.random() * 0.02)
                        return False
                    await reader.ask(chance.choice(MODES))
                    await anyio.sleep(chance.random() * PAUSE_S)
                found_last = await reader.finds(self.last_round)
                self.tally.growth.append(reader.growth())
        return found_last

    # --- the end -----------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """With all readers gone, one run that finds nothing to do collects what they held."""
        command = [sys.executable, "-c", "from rag_mcp.cli import main; main()"]
        run = subprocess.run([*command, "ingest", "--quiet"], env=self.env, capture_output=True, text=True, timeout=120)
        if run.returncode:
            self.tally.writer_errors.append(run.stderr.strip())
        done = subprocess.run([*command, "verify"], env=self.env, capture_output=True, text=True, timeout=120)
        self.verified = (done.returncode, (done.stdout + done.stderr).strip())

    def checks(self) -> list[tuple[str, bool, str]]:
        """(what, whether it holds, what was seen)."""
        tally = self.tally
        in_order = [tally.rounds[generation] for generation in sorted(tally.rounds)]
        left = sorted(entry.name for entry in (self.store / "generations").iterdir())
        logs = "".join(path.read_text(encoding="utf-8") for path in self.folder.glob("reader-*.log"))
        growth = max(tally.growth, default=0)
        return [
            ("every question answered", not tally.failures and tally.answers > 0, first(tally.failures)),
            ("no answer of two generations", not tally.mixed, first(tally.mixed)),
            ("later generations, later rounds", in_order == sorted(in_order), f"{len(in_order)} generations seen"),
            ("no writer failed", not tally.writer_errors, first(tally.writer_errors)),
            ("writer killed as often as asked", tally.writer_kills == self.options.kills, str(tally.writer_kills)),
            (
                "last note found by every reader",
                tally.found_last == self.options.readers,
                f"{tally.found_last} of {self.options.readers}",
            ),
            ("memory of readers flat", growth < GROWTH_BYTES, f"at most {growth / 2**20:+.1f} MiB"),
            ("no traceback in a reader's log", "Traceback" not in logs, first(logs.splitlines()[-1:])),
            ("store collected", len(left) <= 2 and all(name.isdecimal() for name in left), ", ".join(left)),
            ("verify clean", self.verified[0] == 0, self.verified[1]),
        ]


class _Killed(Exception):
    """The reader was killed on purpose."""


class Reader:
    """Questions to one server, and what its answers must hold."""

    def __init__(self, stress: Stress, client: object, name: str, pid: int) -> None:
        self._stress = stress
        self._client = client
        self._name = name
        self._pid = pid
        self._answers = 0
        self._settled = 0
        self._newest = 0

    async def ask(self, mode: str) -> set[int]:
        """The rounds an answer speaks of."""
        import anyio

        tally = self._stress.tally
        arguments = {"query": QUESTION, "mode": mode, "k": 10, "confidence": "normal", "explain": True}
        begun = time.perf_counter()
        try:
            with anyio.fail_after(ANSWER_S):
                result = await self._client.call_tool("search_knowledge", arguments)  # type: ignore[attr-defined]
        except Exception as error:  # whatever it is, the question was not answered
            tally.failures.append(f"{self._name}: {type(error).__name__}: {error}")
            raise _Killed from error
        tally.answers += 1
        tally.waits_ms.append((time.perf_counter() - begun) * 1000)
        self._answers += 1
        if self._answers == SETTLED_ANSWERS:
            self._settled = rss_bytes(self._pid)
        return self._judge(mode, result.structured_content or {})

    def _judge(self, mode: str, answer: dict) -> set[int]:
        tally = self._stress.tally
        loading = answer.get("degraded_reason") == LOADING
        tally.while_loading += loading
        if answer.get("status") != "OK" or (answer.get("degraded") and not loading):
            seen = {key: answer.get(key) for key in ("status", "reason", "degraded_reason", "error", "generation")}
            tally.failures.append(f"{self._name} {mode}: {json.dumps(seen)}")
            return set()
        texts = {hit["citation"]["source"]: hit["text"] or "" for hit in answer["results"]}
        rounds = {marked(texts[name]) for name in PAIR if name in texts}
        generation = answer["explain"]["generation"]
        if len(rounds) != 1 or not all(name in texts for name in PAIR):
            tally.mixed.append(f"{self._name} {mode}: generation {generation} gave rounds {sorted(rounds)}")
        for number in rounds:
            self._stress._agree(generation, number, self._name)
        if generation < self._newest:
            tally.mixed.append(f"{self._name}: went back from generation {self._newest} to {generation}")
        self._newest = max(self._newest, generation)
        tally.seen |= rounds
        return rounds

    async def finds(self, number: int) -> bool:
        return all([await self.ask(mode) == {number} for mode in MODES])

    async def die(self, after_s: float) -> None:
        """Kill the server while it answers."""
        import anyio

        self._stress.tally.growth.append(self.growth())
        self._stress.tally.reader_kills += 1

        async def doomed() -> None:
            with suppress(Exception), anyio.move_on_after(5):
                await self._client.call_tool("search_knowledge", {"query": QUESTION})  # type: ignore[attr-defined]
                return
            self._stress.tally.interrupted += 1

        async with anyio.create_task_group() as group:
            group.start_soon(doomed)
            await anyio.sleep(after_s)
            with suppress(ProcessLookupError):
                os.kill(self._pid, 9)

    def growth(self) -> int:
        """Bytes since the server had settled; 0 when it did not live that long."""
        return rss_bytes(self._pid) - self._settled if self._settled else 0


def marked(text: str) -> int:
    """The round a note carries; 0 when it shows none."""
    found = re.search(r"\bmark(\d{5})\b", text)
    return int(found.group(1)) if found else 0


class WriterFailed(Exception):
    """The writer ended, or failed, without being killed."""


class Writer:
    """A process that writes a round and ingests when told to."""

    def __init__(self, env: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITER, json.dumps(PAIR)],
            env=env,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tell(self, number: int) -> None:
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{number}\n")
            self._process.stdin.flush()

    def publish(self, number: int) -> tuple[int, int] | None:
        """(round, generation) once published; None when there was nothing new."""
        assert self._process.stdout and self._process.stderr
        self._tell(number)
        line = self._process.stdout.readline()
        if not line:
            raise WriterFailed(self._process.stderr.read().strip()[-500:])
        told, generation, published = json.loads(line)
        return (told, generation) if published else None

    def publish_and_die(self, number: int, after_s: float) -> None:
        self._tell(number)
        time.sleep(after_s)
        self._process.kill()
        self.close()

    def close(self) -> None:
        with suppress(BrokenPipeError):
            self._process.communicate(timeout=60)


def rss_bytes(pid: int) -> int:
    """Resident memory of a process; 0 where it can't be had."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def first(found: list[str]) -> str:
    return f"{len(found)}: {found[0]}"[:300] if found else ""


def table(options: argparse.Namespace, tally: Tally, checks: list[tuple[str, bool, str]], elapsed_s: float) -> str:
    waits = sorted(tally.waits_ms) or [0.0]
    numbers = {
        "readers": options.readers,
        "generations published": tally.published,
        "rounds seen by readers": len(tally.seen),
        "answers": tally.answers,
        "  by keywords while loading": tally.while_loading,
        "  cut off with their reader": tally.interrupted,
        "writer killed": tally.writer_kills,
        "readers killed": tally.reader_kills,
    }
    lines = [f"{name:<34} {value:>10}" for name, value in numbers.items()]
    quantiles = " / ".join(f"{waits[int(share * (len(waits) - 1))]:.0f}" for share in (0.5, 0.99, 1.0))
    lines.append(f"{'answer p50 / p99 / max':<34} {quantiles} ms")
    lines.append(f"{'elapsed':<34} {elapsed_s:>10.1f} s")
    lines += [f"{'ok  ' if ok else 'BAD '} {what:<34} {seen}".rstrip() for what, ok, seen in checks]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
