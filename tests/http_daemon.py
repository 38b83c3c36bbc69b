"""A server over HTTP as a process of its own, on a free port of loopback, spoken to byte by byte."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cli_process import forked_cli, warm_command
from raw_server import MODERN, MODERN_META, server_env

WAIT_S = 30.0
OPENING = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}}

CORPUS = {
    "docs/gate.md": "# Gates\n\nThe teal gate opens at dawn, says the porter.\n",
    "docs/lamp.md": "# Lamps\n\nThe heron lamp burns on the pier, where the teal gate stands.\n",
    "src/gate.py": 'def open_gate():\n    """Turns the teal gate by ninety degrees."""\n',
    "decisions/gate.md": "# Decision\n\nWe painted the gate teal because the harbour asked for it.\n",
    "memory/private.md": "# Private\n\nThe teal gate key hangs behind the heron lamp.\n",
}


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def payload(self) -> dict[str, Any]:
        """The structured content of a tool's answer."""
        return self.json["result"]["structuredContent"]


@dataclass
class Place:
    """A store, a file of tokens and a folder of state, for servers one after the other."""

    folder: Path
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, str]:
        return {
            "RAG_MCP_EMBEDDER": "hash",
            "RAG_MCP_CORPUS_ROOT": str(self.folder / "corpus"),
            "RAG_MCP_DB_PATH": str(self.folder / "db"),
            "RAG_MCP_POLICY": str(self.folder / "policy.yaml"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "LOCALAPPDATA": str(self.folder / "state"),
        }

    @property
    def token_file(self) -> Path:
        return self.folder / "tokens.json"

    def fill(self, files: Mapping[str, str] = CORPUS) -> Place:
        for name, text in files.items():
            path = self.folder / "corpus" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.settle()
        done = forked_cli("ingest", self.folder / "corpus", "--quiet", env=self.settings)
        assert done.returncode == 0, done.stderr
        return self

    def settle(self) -> None:
        (self.folder / "policy.yaml").write_text('include: ["*.py"]\n')

    def token(self, profile: str, name: str = "") -> str:
        """The secret of a token for ``profile``, made when it is first wanted."""
        name = name or profile
        if name not in self.tokens:
            made = self.run("token", "add", "--profile", profile, "--name", name, "--tokens", self.token_file)
            self.tokens[name] = made.stdout.strip()
        return self.tokens[name]

    def run(self, *arguments: object, **env: str) -> subprocess.CompletedProcess:
        return forked_cli(*arguments, env={**self.settings, **env})


class Daemon:
    """``rag-mcp serve`` at ``place``, reachable when this returns; ended with the block."""

    def __init__(self, place: Place, *arguments: object, command: list[str] | None = None, port: int = 0) -> None:
        self.place = place
        self.log = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [*(command or warm_command()), "serve", "--port", str(port), "--tokens", str(place.token_file)]
            + [str(each) for each in arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=server_env(place.settings),
        )
        assert self.process.stdout
        said = self.process.stdout.readline().decode()
        if not said.startswith("Serving at "):
            self.process.wait(WAIT_S)
            raise AssertionError(f"no server: {said} {self.stderr}")
        self.url = said.removeprefix("Serving at ").strip()
        self.port = int(urlsplit(self.url).port or 0)

    @property
    def stderr(self) -> str:
        self.log.seek(0)
        return self.log.read().decode()

    @property
    def pid(self) -> int:
        """Of the server itself, which may be the child of what was started."""
        (note,) = (self.place.folder / "state").rglob("serve.json")
        return json.loads(note.read_text())["pid"]

    def send(
        self, body: object = b"", *, method: str = "POST", path: str = "/mcp", token: str = "", **headers: str
    ) -> Reply:
        """One request on a connection of its own; ``headers`` by name with _ for -."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        lines |= {"Authorization": f"Bearer {token}"} if token else {}
        lines |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        with contextlib.closing(connection):
            connection.request(method, path, raw, lines)
            answer = connection.getresponse()
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())

    def call(self, tool: str, arguments: object, *, token: str, modern: bool = False) -> Reply:
        """A tool's answer, without a handshake."""
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        headers = {"MCP_Protocol_Version": "2025-11-25"}
        if modern:
            params["_meta"] = MODERN_META
            headers = {"MCP_Protocol_Version": MODERN, "Mcp_Method": "tools/call", "Mcp_Name": tool}
        return self.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, token=token, **headers)

    def search(self, query: str = "teal gate", *, token: str, modern: bool = False, **arguments: object) -> Reply:
        asked = {"query": query, "confidence": "normal", **arguments}
        return self.call("search_knowledge", asked, token=token, modern=modern)

    def end(self) -> int:
        """Tell it to end as a service manager does; its exit code."""
        self.process.terminate()
        return self.process.wait(WAIT_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(WAIT_S)

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()
        assert self.process.stdout
        self.process.stdout.close()
        self.log.close()


def together(*work: Any) -> None:
    """Run functions in threads of their own, all at once; the first that failed is raised."""
    failed: list[BaseException] = []

    def attempt(one: Any) -> None:
        try:
            one()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=attempt, args=(one,), daemon=True) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(4 * WAIT_S)
        assert not thread.is_alive()
    if failed:
        raise failed[0]


def memory_mb(pid: int) -> int:
    """Resident memory of a process; Linux alone."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20
