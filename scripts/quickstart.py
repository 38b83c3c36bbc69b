"""From a clone to a cited answer: environment, ingest, the real MCP server, one question, the block for your host.

    python3 scripts/quickstart.py                                  the project's own documents
    python3 scripts/quickstart.py --corpus ~/notes --ask "..."     yours

A second run finds everything in place and changes nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

from bootstrap import ROOT, SetupFailed, clean_environment, ensure, say

STORES = ROOT / ".rag_mcp-quickstart"
OWN_DOCUMENTS = ROOT / "docs"
OWN_QUESTION = "How do I run the ingest on a schedule?"
INSIDE = "--inside-environment"
COMMAND_LINE = "from rag_mcp.cli import main; main()"
ANSWER_WITHIN_S = 120


def main(arguments) -> int:
    options = parse(arguments)
    try:
        if options.inside:
            return tour(options)
        python = ensure()
        return subprocess.call(
            [str(python), str(Path(__file__).resolve()), INSIDE, *arguments], env=clean_environment()
        )
    except SetupFailed as problem:
        say(f"FAILED: {problem}")
        return 2
    except KeyboardInterrupt:
        return 130


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=folder, default=OWN_DOCUMENTS, metavar="DIR", help="folder of markdown files")
    parser.add_argument("--db", type=Path, metavar="DIR", help=f"folder of the store (default: in {STORES.name})")
    parser.add_argument("--ask", metavar="TEXT", help="the question (default: one that the documents answer)")
    parser.add_argument(INSIDE, dest="inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.db = Path(os.path.expanduser(options.db or default_store(options.corpus))).absolute()
    return options


def folder(text: str) -> Path:
    path = Path(os.path.expandvars(os.path.expanduser(text))).absolute()
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{path} is no folder")
    return path


def default_store(corpus: Path) -> Path:
    """One store a corpus, in this clone unless the corpus holds the clone: a store has no place in its corpus."""
    if STORES.is_relative_to(corpus):
        return corpus.with_name(f"{corpus.name}.rag_mcp.store")
    return STORES / f"{corpus.name or 'root'}-{hashlib.sha256(str(corpus).encode()).hexdigest()[:8]}"


def tour(options) -> int:
    """What runs inside the environment."""
    ingest(options)
    try:
        question, answer = asyncio.run(asyncio.wait_for(ask(options), ANSWER_WITHIN_S))
    except Exception as error:
        raise SetupFailed(f"the server could not be asked ({type(error).__name__}: {error}).") from error
    show(question, answer)
    show_registration(options)
    return 0


def ingest(options) -> None:
    command = [sys.executable, "-c", COMMAND_LINE, "ingest", str(options.corpus), "--db", str(options.db), "--json"]
    say(f"Indexing {options.corpus}")
    done = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=False)
    if done.returncode:
        raise SetupFailed(f"the ingest ended with exit code {done.returncode}; its message stands above.")
    summary = json.loads(done.stdout)
    say(
        f"{summary['files_seen']} files, {summary['files_ingested']} read anew, {summary['chunks_embedded']} passages "
        f"embedded, {summary['store_count']} in the store, {summary['elapsed_s']:.1f} s"
    )


async def ask(options):
    """Start the server as a host does, through the official client, and put the question to it."""
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    say("Starting the MCP server and asking it")
    server = StdioServerParameters(command=sys.executable, args=["-m", "rag_mcp"], env=server_environment(options))
    async with Client(stdio_client(server)) as client:
        question = options.ask or OWN_QUESTION
        if not options.ask and options.corpus != OWN_DOCUMENTS:
            listed = (await client.call_tool("list_documents", {"limit": 1})).structured_content
            question = listed["documents"][0]["title"] if listed.get("documents") else question
        answer = (await client.call_tool("search_knowledge", {"query": question, "k": 3})).structured_content
    return question, answer


def server_environment(options) -> dict:
    return {"RAG_MCP_CORPUS_ROOT": str(options.corpus), "RAG_MCP_DB_PATH": str(options.db)}


def show(question, answer) -> None:
    from rag_mcp.text.sanitize import one_line, terminal_safe

    print(f"\nQuestion: {one_line(question)}")
    if not answer.get("ok", True):
        raise SetupFailed(f"the server answered: {answer['error']['message']}")
    if answer["status"] != "OK":
        print(f"Answer:   {answer['status']} ({answer['reason']}): these documents hold no good answer.")
    for result in answer["results"]:
        cited = result["citation"]
        where = " > ".join(cited.get("heading_path", ())) or cited.get("title", "")
        print(f"\n  {one_line(cited['source'])}:{cited['line_start']}-{cited['line_end']}", end="")
        print(f"  [{result['confidence']}]\n  {one_line(where)}")
        for line in excerpt(result["text"] or ""):
            print(f"    | {terminal_safe(line)}")


def excerpt(text: str, lines: int = 8) -> list:
    """The first lines that are not blank, wrapped for a terminal."""
    wrapped = [part for line in text.splitlines() if line.strip() for part in textwrap.wrap(line, 128)]
    return wrapped[:lines] + (["…"] if len(wrapped) > lines else [])


def show_registration(options) -> None:
    from rag_mcp.server.hostfile import render_block
    from rag_mcp.server.hosts import Host, client_block

    block = client_block(Host.GENERIC, command=sys.executable, args=["-m", "rag_mcp"], env=server_environment(options))
    print("\nPaste this into the configuration of your MCP host:\n")
    print(render_block(Host.GENERIC, block))
    launcher = Path(sys.executable).with_name("rag-mcp.exe" if sys.platform == "win32" else "rag-mcp")
    print(f"Other forms, or written for you: {launcher} client-config --help")


if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="replace")
    sys.exit(main(sys.argv[1:]))
