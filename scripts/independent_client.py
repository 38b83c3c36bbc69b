"""Drives the server with a client that shares no code with it, and writes down what was said.

    python3 scripts/independent_client.py [--inspector "npx -y @modelcontextprotocol/inspector@2.12.0"] [--out FILE]

The client is the MCP Inspector's command line from npm (TypeScript; it needs Node 22.19 or newer), the server is the one
of this checkout, over stdio, on the notes of tests/documents. Prints a markdown transcript, or writes it to FILE.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTES = ROOT / "tests" / "documents" / "notes"
INSPECTOR = "npx -y @modelcontextprotocol/inspector@2.12.0"
COMMAND_LINE = "from rag_mcp.cli import main; main()"
SHOWN = "npx -y @modelcontextprotocol/inspector@{version} --cli -e RAG_MCP_DB_PATH=notes.store"
TIMEOUT_S = 120


@dataclass(frozen=True)
class Call:
    """One thing said to the server; ``keep`` names the top-level keys of the answer worth showing (none: all)."""

    title: str
    arguments: tuple[str, ...]
    era: str = "legacy"


CALLS = (
    Call("The tools, over the initialize handshake", ("--method", "tools/list")),
    Call(
        "A question",
        ("--method", "tools/call", "--tool-name", "search_knowledge", "--tool-args-json")
        + (json.dumps({"query": "Why would a pot burst in the kiln?", "k": 1}),),
    ),
    Call(
        "The same without a handshake, as the revision of 2026-07-28 has it",
        ("--method", "tools/call", "--tool-name", "search_knowledge", "--tool-args-json")
        + (json.dumps({"query": "Why would a pot burst in the kiln?", "k": 1}),),
        era="modern",
    ),
    Call(
        "A question that the notes do not answer",
        ("--method", "tools/call", "--tool-name", "search_knowledge", "--tool-args-json")
        + (json.dumps({"query": "Who won the football world cup in 1998?"}),),
    ),
    Call(
        "What the notes said on another day",
        ("--method", "tools/call", "--tool-name", "search_knowledge", "--tool-args-json")
        + (json.dumps({"query": "how many open orders for plates", "as_of": "2026-03-02", "k": 1}),),
    ),
    Call(
        "A class that the profile may not see",
        ("--method", "tools/call", "--tool-name", "search_knowledge", "--tool-args-json")
        + (json.dumps({"query": "how fast does the controller ramp", "source_class": "config"}),),
    ),
    Call(
        "An argument that does not exist",
        ("--method", "tools/call", "--tool-name", "search_knowledge", "--tool-args-json")
        + (json.dumps({"query": "glaze", "limit": 3}),),
    ),
    Call(
        "A document",
        ("--method", "tools/call", "--tool-name", "get_document", "--tool-args-json")
        + (json.dumps({"source": "decisions/0003-glaze-supplier.md"}),),
    ),
    Call("The resource", ("--method", "resources/read", "--uri", "rag-mcp://capabilities"), era="modern"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 done, 1 the client or the server failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inspector", default=INSPECTOR, help="command that starts the Inspector")
    parser.add_argument("--out", type=Path, help="markdown file to write (default: print)")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="rag_mcp-client-") as place:
        try:
            text = transcript(shlex.split(options.inspector), Path(place) / "notes.store")
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            print(f"The client could not be driven: {error}", file=sys.stderr)
            return 1
    if options.out is None:
        print(text)
    else:
        options.out.write_text(text, encoding="utf-8", newline="\n")
    return 0


def transcript(inspector: Sequence[str], store: Path) -> str:
    """Ingest the notes, make every call, and return what was said. Raises RuntimeError when one fails."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ingest = [sys.executable, "-c", COMMAND_LINE, "ingest", str(NOTES), "--db", str(store), "--quiet"]
    subprocess.run(ingest, check=True, env=environment, timeout=TIMEOUT_S, stdout=subprocess.DEVNULL)
    version = said([*inspector, "--cli", "--version"], environment).strip()
    parts = [opening(version)]
    for call in CALLS:
        server = ["-e", f"RAG_MCP_DB_PATH={store}", "-e", f"PYTHONPATH={ROOT}", sys.executable, "-m", "rag_mcp"]
        asked = [*call.arguments, "--protocol-era", call.era, "--format", "json", "--quiet"]
        answer = json.loads(said([*inspector, "--cli", *server, *asked], environment))
        parts.append(section(call, answer, version))
    return "\n".join(parts)


def said(command: Sequence[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        command, capture_output=True, encoding="utf-8", env=environment, timeout=TIMEOUT_S, check=False
    )
    # A tool's own error is an answer, and the Inspector's exit code for it is not 0.
    if not done.stdout.strip():
        raise RuntimeError(f"{shlex.join(command)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def opening(version: str) -> str:
    return f"""# The server, driven by an independent client

<!-- Written by scripts/independent_client.py. -->

The client is the command line of the MCP Inspector, `@modelcontextprotocol/inspector` {version} from npm (Node 22.19 or
newer): written in TypeScript, it shares no code with this server or with the SDK it is built on. Corpus:
`tests/documents/notes`; no profile set, so `restricted`; the default embedder. Structured content is shown; the text
block says the same, for reading. To repeat it:

```sh
python3 scripts/independent_client.py --out docs/transcript-independent-client.md
```
"""


def section(call: Call, answer: dict, version: str) -> str:
    shown = shlex.join([*SHOWN.format(version=version).split(), "rag-mcp", *call.arguments, "--protocol-era", call.era])
    result = answer.get("result", answer)
    payload = shortened(call, result)
    body = json.dumps(payload, indent=2, ensure_ascii=False)
    return f"## {call.title}\n\n```sh\n{shown}\n```\n\n```json\n{body}\n```\n"


def shortened(call: Call, result: dict) -> object:
    """What is worth reading: structured content, without the text that repeats it; tools without their schemas."""
    if "tools" in result:
        kept = ("name", "title", "annotations")
        return [{key: tool[key] for key in kept if key in tool} for tool in result["tools"]]
    if "structuredContent" in result:
        return {"structuredContent": result["structuredContent"], "isError": result.get("isError", False)}
    if "contents" in result:
        return [{**item, "text": json.loads(item["text"])} for item in result["contents"]]
    return result


if __name__ == "__main__":
    sys.exit(main())
