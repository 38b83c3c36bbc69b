"""Timings of whole commands and of single answers, as medians and as ratios within one run.

    python3 scripts/bench.py ingest --corpus DIR [--many DIR]   what a run costs, from nothing changed to everything new
    python3 scripts/bench.py search --corpus DIR                latency of one question, in process and over MCP
    python3 scripts/bench.py start  --corpus DIR                process start to first reply, against a bare MCP server
    python3 scripts/bench.py serve  --corpus DIR                the warm server over HTTP and behind connect, against stdio; Linux
    python3 scripts/bench.py churn                              size of a store after many rounds of edits
    python3 scripts/bench.py filters [--generated 5000]         what each filter costs beside the same question without it

Run it with the environment's Python (.venv). Prints markdown tables; asserts nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

CLI = [sys.executable, "-c", "from rag_mcp.cli import main; main()"]
BARE_SERVER = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("bare")
@server.tool()
def echo(text: str) -> str:
    return text
server.run()
"""
QUESTIONS = (
    "how do I make a pod run on a specific node",
    "what happens to pods when a node runs out of memory",
    "difference between a liveness and a readiness probe",
    "limit the cpu a container may use",
    "give a service a stable dns name",
    "roll back a deployment",
    "mount a secret as a file",
    "keep a job from running forever",
    "which ports does the kubelet open",
    "share a volume between two containers",
)


def environment(embedder: str | None) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAG_MCP_")}
    clean["PYTHONPATH"] = str(ROOT)
    return {**clean, **({"RAG_MCP_EMBEDDER": embedder} if embedder else {})}


def command(*arguments: object, embedder: str | None = None) -> tuple[float, dict[str, object]]:
    """Run ``rag-mcp`` as a whole process; (seconds, its JSON)."""
    started = time.perf_counter()
    done = subprocess.run(
        [*CLI, *map(str, arguments), "--json"],
        capture_output=True,
        text=True,
        env=environment(embedder),
        check=False,
    )
    elapsed = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(f"rag-mcp {' '.join(map(str, arguments))} failed: {done.stderr}")
    return elapsed, json.loads(done.stdout)


def median_s(call: Callable[[], float], runs: int) -> float:
    call()
    return statistics.median(call() for _ in range(runs))


def row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def head(*cells: str) -> None:
    row(*cells)
    row(*("---" for _ in cells))


# --- ingest ----------------------------------------------------------------------------------------------------------


def bench_ingest(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        corpus, db = Path(scratch, "corpus"), Path(scratch, "store")
        shutil.copytree(options.corpus, corpus)
        head("what", "files", "seconds", "embedded", "notes")
        seconds, summary = command("ingest", corpus, "--db", db)
        count = summary["chunks_embedded"]
        row(
            "full ingest, whole command",
            summary["files_seen"],
            f"{seconds:.1f}",
            count,
            f"{count / seconds:.0f} chunks/s",
        )
        time.sleep(2.5)  # times younger than two seconds are not trusted, as in git; let them age
        command("ingest", corpus, "--db", db)
        unchanged = median_s(lambda: command("ingest", corpus, "--db", db)[0], options.runs)
        row("nothing changed, whole command", summary["files_seen"], f"{unchanged:.3f}", 0, f"median of {options.runs}")
        row("nothing changed, in process", summary["files_seen"], f"{in_process(corpus, db):.4f}", 0, "median of 30")
        row("bare interpreter with typer", "", f"{median_s(bare_typer, options.runs):.3f}", "", "for comparison")
        changes(corpus, db)
    if options.many:
        many(options.many, options.runs)
    generated(options.generated, options.runs)


def bare_typer() -> float:
    started = time.perf_counter()
    code = "import typer; app = typer.Typer(); app.command()(lambda: None); app(standalone_mode=False)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    return time.perf_counter() - started


def in_process(corpus: Path, db: Path) -> float:
    from rag_mcp.config import Config
    from rag_mcp.ingest.options import IngestOptions
    from rag_mcp.ingest.run import run_ingest

    config = Config.load({}, corpus_root=corpus, db_path=db)

    def once() -> float:
        started = time.perf_counter()
        assert not run_ingest(config, IngestOptions()).published
        return time.perf_counter() - started

    return median_s(once, 30)


def changes(corpus: Path, db: Path) -> None:
    files = sorted(path for path in corpus.rglob("*.md") if path.stat().st_size > 5_000)
    target = files[len(files) // 2]
    text = target.read_text(encoding="utf-8")
    target.write_text(text + "\n## A new section\n\nOne new paragraph about nothing in particular.\n", encoding="utf-8")
    seconds, summary = command("ingest", corpus, "--db", db)
    row("one section added to one file", 1, f"{seconds:.2f}", summary["chunks_embedded"], "")
    target.rename(target.with_name("renamed-for-the-benchmark.md"))
    seconds, summary = command("ingest", corpus, "--db", db)
    row("one file renamed", 1, f"{seconds:.2f}", summary["chunks_embedded"], "")
    target.with_name("renamed-for-the-benchmark.md").rename(target)
    target.write_text(text, encoding="utf-8")
    seconds, summary = command("ingest", corpus, "--db", db)
    row("both undone", 1, f"{seconds:.2f}", summary["chunks_embedded"], "")
    seconds, summary = command("ingest", corpus, "--db", db, "--full")
    row("--full", summary["files_seen"], f"{seconds:.2f}", summary["chunks_embedded"], "")


def many(corpus: Path, runs: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        db = Path(scratch, "store")
        _, summary = command("ingest", corpus, "--db", db, embedder="hash")
        command("ingest", corpus, "--db", db, embedder="hash")
        seconds = median_s(lambda: command("ingest", corpus, "--db", db, embedder="hash")[0], runs)
        row("nothing changed, whole command", summary["files_seen"], f"{seconds:.3f}", 0, "hash embedder")


def generated(count: int, runs: int) -> None:
    """A made tree of many small files."""
    with tempfile.TemporaryDirectory() as scratch:
        corpus, db = Path(scratch, "corpus"), Path(scratch, "store")
        for number in range(count):
            path = corpus / f"{number % 100:02d}" / f"note-{number:05d}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"# Note {number}\n\nNumber {number} speaks of topic {number % 997}.\n", encoding="utf-8")
        seconds, _ = command("ingest", corpus, "--db", db, embedder="hash")
        row("first ingest of a made tree", count, f"{seconds:.1f}", count, "hash embedder")
        time.sleep(2.5)
        command("ingest", corpus, "--db", db, embedder="hash")
        seconds = median_s(lambda: command("ingest", corpus, "--db", db, embedder="hash")[0], runs)
        row("nothing changed, made tree", count, f"{seconds:.3f}", 0, f"peak {peak_mb(corpus, db)} MB")


def peak_mb(corpus: Path, db: Path) -> int:
    code = (
        "import resource, sys; sys.argv = ['rag-mcp', 'ingest', *sys.argv[1:], '-q']\n"
        "from rag_mcp.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )
    arguments = [sys.executable, "-c", code, str(corpus), "--db", str(db)]
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment("hash"), check=True)
    return int(done.stderr.split()[-1]) // (1024 if sys.platform != "darwin" else 1024 * 1024)


# --- search ----------------------------------------------------------------------------------------------------------


def bench_search(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        db = options.db or Path(scratch, "store")
        _, summary = command("ingest", options.corpus, "--db", db)
        head("search", "chunks", "p50 ms", "p95 ms")
        for name, times in (
            ("in process", asyncio.run(in_process_times(db, options.runs))),
            ("over MCP (stdio)", asyncio.run(mcp_times(db, options.runs))),
        ):
            ordered = sorted(times)
            p95 = ordered[int(0.95 * (len(ordered) - 1))]
            row(name, summary["store_count"], f"{statistics.median(ordered):.1f}", f"{p95:.1f}")


async def in_process_times(db: Path, runs: int) -> list[float]:
    from rag_mcp.config import Config
    from rag_mcp.knowledge import KnowledgeBase
    from rag_mcp.requests import SearchRequest

    base = KnowledgeBase.open(Config.load({}, db_path=db))
    base.warm_up()
    times = []
    for question in QUESTIONS * (runs + 1):
        started = time.perf_counter()
        base.search(SearchRequest(query=question))
        times.append((time.perf_counter() - started) * 1000)
    base.close()
    return times[len(QUESTIONS) :]


async def mcp_times(db: Path, runs: int) -> list[float]:
    from mcp.client.session import ClientSession
    from mcp.client.stdio import StdioServerParameters, stdio_client

    env = {**environment(None), "RAG_MCP_DB_PATH": str(db)}
    server = StdioServerParameters(command=sys.executable, args=["-m", "rag_mcp"], env=env)
    times = []
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        for _ in range(200):
            answer = await session.call_tool("search_knowledge", {"query": "warm up"})
            if not (answer.structured_content or {}).get("degraded"):
                break
            await asyncio.sleep(0.05)
        for question in QUESTIONS * (runs + 1):
            started = time.perf_counter()
            await session.call_tool("search_knowledge", {"query": question})
            times.append((time.perf_counter() - started) * 1000)
    return times[len(QUESTIONS) :]


# --- start -----------------------------------------------------------------------------------------------------------


def bench_start(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        db = Path(scratch, "store")
        command("ingest", options.corpus, "--db", db)
        env = {**environment(None), "RAG_MCP_DB_PATH": str(db)}
        ours, bare = [], []
        for _ in range(options.runs + 1):
            bare.append(first_reply([sys.executable, "-c", BARE_SERVER], env))
            ours.append(first_reply([sys.executable, "-m", "rag_mcp"], env))
        head("process start to first reply", "median s")
        row("bare MCPServer with one tool", f"{statistics.median(bare[1:]):.3f}")
        row("rag-mcp over a store", f"{statistics.median(ours[1:]):.3f}")
        row("difference", f"{statistics.median(a - b for a, b in zip(ours[1:], bare[1:], strict=True)):.3f}")


def first_reply(arguments: Sequence[str], env: dict[str, str]) -> float:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        },
    }
    started = time.perf_counter()
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(hello) + "\n")
        process.stdin.flush()
        process.stdout.readline()
        elapsed = time.perf_counter() - started
        process.stdin.close()
        process.wait(timeout=30)
    return elapsed


# --- churn -----------------------------------------------------------------------------------------------------------


def bench_churn(options: argparse.Namespace) -> None:
    """Rounds that change a tenth of the files back and forth between known texts, so that nothing new is embedded."""
    chance = random.Random(7)
    with tempfile.TemporaryDirectory() as scratch:
        corpus, db = Path(scratch, "corpus"), Path(scratch, "store")
        texts = {n: [note(n, variant) for variant in range(2)] for n in range(options.files)}
        for variant in (1, 0):
            for number, versions in texts.items():
                write(corpus / f"{number:04d}.md", versions[variant])
            command("ingest", corpus, "--db", db, embedder="hash")
        embedded = 0
        state = dict.fromkeys(texts, 0)
        for _ in range(options.rounds):
            for number in chance.sample(sorted(texts), max(1, options.files // 10)):
                state[number] = 1 - state[number]
                write(corpus / f"{number:04d}.md", texts[number][state[number]])
            embedded += int(str(command("ingest", corpus, "--db", db, embedder="hash")[1]["chunks_embedded"]))
        fresh = Path(scratch, "fresh")
        command("ingest", corpus, "--db", fresh, embedder="hash")
        # A store keeps two generations; so does the fresh one it is compared with.
        write(corpus / "extra.md", note(options.files, 0))
        command("ingest", corpus, "--db", fresh, embedder="hash")
        command("ingest", corpus, "--db", db, embedder="hash")
        head("churn", "value")
        row("files, rounds", f"{options.files}, {options.rounds}")
        row("embedded in all rounds", embedded)
        row("store after the rounds, KiB", size(db) // 1024)
        row("fresh store with two generations, KiB", size(fresh) // 1024)
        row("ratio", f"{size(db) / size(fresh):.2f}")


def note(number: int, variant: int) -> str:
    chance = random.Random(number * 2 + variant)
    sections = [
        f"## Part {part}\n\n" + " ".join(f"word{chance.randrange(4000)}" for _ in range(60)) for part in range(4)
    ]
    return f"# Note {number}\n\n" + "\n\n".join(sections) + "\n"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def size(folder: Path) -> int:
    """Bytes on disk; a file with several names counts once."""
    seen = {}
    for path in folder.rglob("*"):
        if path.is_file():
            status = path.stat()
            seen[status.st_dev, status.st_ino] = status.st_size
    return sum(seen.values())


# --- filters ---------------------------------------------------------------------------------------------------------

# From one document in a thousand to nearly all.
FILTERS: dict[str, dict[str, object]] = {
    "tags, 1 in 10": {"tags": ["area/7"]},
    "tags, all": {"tags": ["area"]},
    "folder, 1 in 100": {"path": "07"},
    "glob, 1 in 10": {"path": "**/*3.md"},
    "since, half": {"since": "2031-07-02"},
    "since and until, a day": {"since": "2031-03-04", "until": "2031-03-04"},
    "where, 1 in 3": {"where": {"status": "open"}},
    "where, all but a few": {"where": {"reviewed": True}},
    "all together": {"tags": ["area"], "path": "0*", "since": "2031-02-01", "where": {"status": "open"}},
}


def bench_filters(options: argparse.Namespace) -> None:
    """Each question is asked plain and with every filter in turn, so that what else the machine does falls on all alike."""
    with tempfile.TemporaryDirectory() as scratch:
        corpus, db = Path(scratch, "corpus"), Path(scratch, "store")
        for number in range(options.generated):
            write(corpus / f"{number % 100:02d}" / f"note-{number:05d}.md", filed_note(number))
        command("ingest", corpus, "--db", db, embedder="hash")
        for tool, times in filter_times(db, options.runs).items():
            head(f"{tool}, {options.generated} documents", "median ms", "beside unfiltered")
            plain = statistics.median(times[""])
            for name, each in times.items():
                row(name or "unfiltered", f"{statistics.median(each):.1f}", f"{statistics.median(each) / plain:.2f}")


def filed_note(number: int) -> str:
    chance = random.Random(number)
    words = " ".join(f"word{chance.randrange(4000)}" for _ in range(60))
    return (
        f"---\ntags: [area/{number % 10}]\nstatus: {('open', 'done', 'waiting')[number % 3]}\n"
        f"reviewed: {'false' if number % 500 == 0 else 'true'}\ndate: 2031-{number % 12 + 1:02d}-{number % 28 + 1:02d}\n---\n"
        f"# Note {number}\n\nThe node of a pod runs {words}.\n"
    )


def filter_times(db: Path, runs: int) -> dict[str, dict[str, list[float]]]:
    from rag_mcp.config import Config
    from rag_mcp.knowledge import KnowledgeBase
    from rag_mcp.requests import ListRequest, SearchRequest

    base = KnowledgeBase.open(Config.load({}, db_path=db, embedder="hash"))
    base.warm_up()
    times: dict[str, dict[str, list[float]]] = {"search_knowledge": {}, "list_documents": {}}
    for turn in range(runs + 1):
        for question, (name, arguments) in itertools.product(QUESTIONS, {"": {}, **FILTERS}.items()):
            search = SearchRequest.parse({"query": question, "confidence": "normal", **arguments})
            listing = ListRequest.parse(arguments)
            begun = time.perf_counter()
            base.search(search)
            between = time.perf_counter()
            base.list_documents(listing)
            ended = time.perf_counter()
            if turn:  # the first one fills what is kept
                times["search_knowledge"].setdefault(name, []).append((between - begun) * 1000)
                times["list_documents"].setdefault(name, []).append((ended - between) * 1000)
    base.close()
    return times


# --- serve -----------------------------------------------------------------------------------------------------------

HOSTS = (1, 3, 8)


class Frames:
    """A server or bridge on stdio, asked frame by frame."""

    def __init__(self, words: Sequence[str], env: dict[str, str]) -> None:
        self.started = time.perf_counter()
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        self.process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=nothing, env=env)
        client = {"name": "bench", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})

    def ask(self, method: str, params: dict[str, object]) -> dict[str, object]:
        assert self.process.stdin is not None and self.process.stdout is not None
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self.process.stdin.write(json.dumps(call).encode() + b"\n")
        self.process.stdin.flush()
        while "result" not in (reply := json.loads(self.process.stdout.readline())):
            assert "error" not in reply, reply
        return reply["result"]

    def search(self, question: str) -> None:
        self.ask("tools/call", {"name": "search_knowledge", "arguments": {"query": question}})

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)


def bench_serve(options: argparse.Namespace) -> None:
    """The warm server over HTTP and behind ``connect``, against a server of its own for each host."""
    with tempfile.TemporaryDirectory() as scratch:
        db = Path(scratch, "store")
        command("ingest", options.corpus, "--db", db)
        env = {**environment(None), "RAG_MCP_DB_PATH": str(db), "XDG_STATE_HOME": scratch}
        stdio, connect = [sys.executable, "-m", "rag_mcp"], [sys.executable, "-m", "rag_mcp", "connect"]
        server = subprocess.Popen([*stdio, "serve", "--on-demand"], stdout=subprocess.PIPE, env=env)
        try:
            assert server.stdout is not None and server.stdout.readline().startswith(b"Serving")
            calls = {"stdio": Frames(stdio, env), "connect": Frames(connect, env)}
            ask = {name: frames.search for name, frames in calls.items()} | {"HTTP": over_http(scratch)}
            latencies(ask, options.runs)
            for frames in calls.values():
                frames.end()
            first_answers({"stdio": stdio, "connect": connect}, env, options.runs)
            head("hosts", "stdio MB", "warm server MB", "each connect MB")
            for hosts in HOSTS:
                alone = together_mb(stdio, hosts, env)
                bridges = together_mb(connect, hosts, env)
                row(hosts, f"{alone:.0f}", f"{memory_mb(server.pid) + bridges:.0f}", f"{bridges / hosts:.1f}")
        finally:
            server.terminate()
            server.wait(30)


def over_http(state: str) -> Callable[[str], None]:
    import http.client

    (note,) = Path(state).rglob("serve.json")
    there = json.loads(note.read_text())
    connection = http.client.HTTPConnection(there["host"], there["port"], timeout=60)
    headers = {
        "Authorization": f"Bearer {there['key']}",
        "Content-Type": "application/json",
        "Accept": "application/json",
    }

    def ask(question: str) -> None:
        params = {"name": "search_knowledge", "arguments": {"query": question}}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        connection.request("POST", "/mcp", json.dumps(call), headers)
        assert "result" in json.loads(connection.getresponse().read())

    return ask


def latencies(ask: dict[str, Callable[[str], None]], runs: int) -> None:
    """Each question is asked every way in turn, so that what else the machine does falls on all alike."""
    times: dict[str, list[float]] = {name: [] for name in ask}
    for turn in range(runs + 1):
        for question in QUESTIONS:
            for name, call in ask.items():
                started = time.perf_counter()
                call(question)
                if turn:
                    times[name].append((time.perf_counter() - started) * 1000)
    head("one question, warm", "p50 ms", "p95 ms", "over stdio, median ms")
    for name, each in times.items():
        over = statistics.median(a - b for a, b in zip(each, times["stdio"], strict=True))
        row(name, f"{statistics.median(each):.1f}", f"{statistics.quantiles(each, n=20)[18]:.1f}", f"{over:.1f}")


def first_answers(words: dict[str, Sequence[str]], env: dict[str, str], runs: int) -> None:
    head("process start to first answer of a search", "median s", "best s")
    for name, each in words.items():
        times = []
        for _ in range(runs):
            frames = Frames(each, env)
            frames.search(QUESTIONS[0])
            times.append(time.perf_counter() - frames.started)
            frames.end()
        row(name, f"{statistics.median(times):.2f}", f"{min(times):.2f}")


def together_mb(words: Sequence[str], count: int, env: dict[str, str]) -> float:
    """What so many processes hold after a question each; pages that they share are counted once."""
    running = [Frames(words, env) for _ in range(count)]
    for frames in running:
        frames.search(QUESTIONS[0])
    held = sum(memory_mb(frames.process.pid) for frames in running)
    for frames in running:
        frames.end()
    return held


def memory_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=tuple(BENCHES))
    parser.add_argument("--corpus", type=Path, help="folder of markdown")
    parser.add_argument("--many", type=Path, help="a large folder, for the cost of an unchanged run")
    parser.add_argument("--db", type=Path, help="store to search (default: made for the run)")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--generated", type=int, default=20_000, help="files of the made tree")
    parser.add_argument("--files", type=int, default=200, help="files of the churn corpus")
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    if options.what in ("ingest", "search", "start", "serve") and options.corpus is None:
        parser.error("--corpus is needed")
    print(
        f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, {os.cpu_count()} processors\n"
    )
    BENCHES[options.what](options)
    return 0


BENCHES = {
    "ingest": bench_ingest,
    "search": bench_search,
    "start": bench_start,
    "churn": bench_churn,
    "filters": bench_filters,
    "serve": bench_serve,
}


if __name__ == "__main__":
    sys.exit(main())
