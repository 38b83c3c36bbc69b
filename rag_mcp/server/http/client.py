"""How a process of the same user reaches the server of its store: finds it, starts it when there is none, asks it.

Loads nothing beyond the standard library: the bridge starts with it, and nothing that it asks is changed by being asked
twice.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any

from rag_mcp import __version__
from rag_mcp.config import Config
from rag_mcp.errors import ServerGone
from rag_mcp.server.http.life import LOG, Running, life_of, make_private, settings_digest

__all__ = ["PROFILE_HEADER", "Reply", "Server"]

# With which a process that has the server's key, and so could open the store itself, says its profile.
PROFILE_HEADER = "Rag-Mcp-Profile"

_START_S = 60.0
_STEP_S = 0.02
_ANSWER_S = 600.0  # the server bounds its own work; this is for one that hangs
_SAID_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes


class Server:
    """The server of one configuration; every method is thread-safe."""

    def __init__(self, config: Config, env: Mapping[str, str]) -> None:
        self._life = life_of(config, env)
        self._settings = settings_digest(config)
        self._profile = config.profile
        self._env = env
        self._starting = threading.Lock()

    def running(self, *, same_version: bool = False) -> Running | None:
        """The server, if one runs and answers as this process would. Raises ServerGone for one with other settings."""
        there = self._life.running()
        if there is None or (same_version and there.version != __version__):
            return None
        if there.settings != self._settings:
            raise ServerGone(
                f"The server that runs for this store (process {there.pid}) has other settings than this process, such as "
                "policy or embedder. Make them the same, or end it: rag-mcp serve --stop"
            )
        return there

    def ask(self, body: bytes, headers: Mapping[str, str], *, start: bool = True) -> Reply:
        """The reply to one message. A server that has ended since is started, or found, anew once. Raises ServerGone."""
        for attempt in range(2):
            there = self._started() if start else self.running(same_version=True)
            if there is None:
                break
            try:
                reply = self._post(there, body, headers)
            except (OSError, http.client.HTTPException):
                continue
            if reply.status == 401 and not attempt:  # the key is a new one after a restart
                continue
            return reply
        raise ServerGone("The server of this store can't be reached. Start it again: rag-mcp serve")

    def answer(self, tool: str, arguments: Mapping[str, object]) -> dict[str, Any] | None:
        """A tool's answer from a running server of this version. None where there is none, or an error or a degraded answer:
        whoever asks can answer itself then, and say in full what is wrong."""
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        try:
            reply = self.ask(json.dumps(call).encode(), {}, start=False)
            answer: dict[str, Any] = json.loads(reply.body)["result"]["structuredContent"]
        except (ServerGone, ValueError, KeyError, TypeError):
            return None
        return answer if answer.get("ok") and not answer.get("degraded") else None

    def _post(self, there: Running, body: bytes, headers: Mapping[str, str]) -> Reply:
        connection = http.client.HTTPConnection(there.host, there.port, timeout=_ANSWER_S)
        usual = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        ours = {"Host": "localhost", "Authorization": f"Bearer {there.key}", PROFILE_HEADER: self._profile}
        with contextlib.closing(connection):
            connection.request("POST", "/mcp", body, {**usual, **ours, **headers})
            answer = connection.getresponse()
            return Reply(answer.status, answer.read())

    # --- starting it --------------------------------------------------------------------------------------------------

    def _started(self) -> Running:
        with self._starting:
            return self.running() or self._start()

    def _start(self) -> Running:
        """Start one that outlives this process. Another process may have been quicker; then that one's serves both."""
        with self._said() as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "rag_mcp", "serve", "--on-demand"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env=dict(self._env),
                **_detached(),
            )
            until = time.monotonic() + _START_S
            while time.monotonic() < until:
                ended = process.poll() is not None
                if there := self.running():
                    return there
                if ended and not self._life.is_held():
                    said.seek(0)
                    why = said.read(_SAID_BYTES).decode("utf-8", "replace").strip().splitlines()
                    raise ServerGone(f"No server could be started: {why[-1] if why else 'it said nothing'}")
                time.sleep(_STEP_S)
        raise ServerGone("The server did not begin to serve; its words are in serve.log. Start it: rag-mcp serve")

    def _said(self) -> IO[bytes]:
        try:
            make_private(self._life.folder)
            return open(self._life.folder / LOG, "wb+", opener=_private)
        except OSError as error:
            raise ServerGone(
                f"{self._life.folder} can't be written ({error.strerror}): a server notes there."
            ) from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)


def _detached() -> dict[str, Any]:
    """So that neither the end of this process nor its terminal's ends the other."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}
