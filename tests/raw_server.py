"""A server process spoken to in raw frames, for tests that must see every byte."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any

from cli_process import warm_command

ROOT = Path(__file__).resolve().parents[1]
WAIT_S = 30.0

MODERN = "2026-07-28"
MODERN_META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_NOTHING: Mapping[str, str] = MappingProxyType({})


def server_env(settings: Mapping[str, str] = _NOTHING) -> dict[str, str]:
    """This process's environment without its own RAG_MCP settings, with the checkout importable."""
    base = {name: value for name, value in os.environ.items() if not name.startswith("RAG_MCP_")}
    return {**base, "PYTHONPATH": str(ROOT), **settings}


class RawServer:
    """One server process, forked where no command is given; ``lines`` holds everything it ever wrote to stdout."""

    def __init__(self, *command: str, env: Mapping[str, str] = _NOTHING) -> None:
        self.process = subprocess.Popen(
            command or warm_command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=server_env(env),
            cwd=ROOT,
        )
        self.lines: list[bytes] = []
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._replies: dict[int, dict[str, Any]] = {}
        self._errors: list[bytes] = []
        self._readers = [threading.Thread(target=target, daemon=True) for target in (self._read, self._drain)]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for raw in self.process.stdout:
            self.lines.append(raw)
            with contextlib.suppress(ValueError):  # the line stays in ``lines``, where a test finds it
                self._messages.put(json.loads(raw.decode("utf-8")))
        self._messages.put(None)

    def _drain(self) -> None:
        assert self.process.stderr
        self._errors.extend(self.process.stderr)

    @property
    def stderr(self) -> str:
        return b"".join(self._errors).decode("utf-8", "replace")

    def send_bytes(self, line: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def send(self, method: str, params: Mapping[str, Any] | None = None, *, id: int | None = None) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if id is not None:
            message["id"] = id
        if params is not None:
            message["params"] = params
        self.send_bytes(json.dumps(message).encode())

    def wait_for(self, id: int) -> dict[str, Any]:
        """The reply to one request; replies to others are kept for those who wait for them."""
        deadline = time.monotonic() + WAIT_S
        while id not in self._replies:
            message = self._messages.get(timeout=max(0.01, deadline - time.monotonic()))
            assert message is not None, f"the server ended: {self.stderr}"
            if "id" in message:
                self._replies[message["id"]] = message
        return self._replies.pop(id)

    def ask(self, method: str, params: Mapping[str, Any] | None = None, *, id: int) -> dict[str, Any]:
        self.send(method, params, id=id)
        return self.wait_for(id)

    def call(self, tool: str, arguments: Mapping[str, Any], *, id: int, **params: Any) -> dict[str, Any]:
        """The structured content of a tool's answer."""
        reply = self.ask("tools/call", {"name": tool, "arguments": arguments, **params}, id=id)
        return reply["result"]["structuredContent"]

    def initialize(self, version: str = "2025-11-25", *, id: int = 1) -> dict[str, Any]:
        client = {"name": "raw", "version": "0"}
        reply = self.ask("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": client}, id=id)
        self.send("notifications/initialized")
        return reply

    def end(self) -> int:
        """Close stdin as a leaving client does; return the exit code."""
        assert self.process.stdin
        self.process.stdin.close()
        return self.wait()

    def wait(self) -> int:
        """The exit code, with all output read."""
        code = self.process.wait(WAIT_S)
        for reader in self._readers:
            reader.join(WAIT_S)
        return code

    def __enter__(self) -> RawServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream
            with contextlib.suppress(OSError):
                stream.close()
