"""A server on stdio for hosts that only start processes: every message is asked of the warm server of the store.

Only frames pass through here, and what tells of them in HTTP is put beside them; nothing is loaded that would cost a host
the time and memory of another server.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
import threading
from collections.abc import Mapping
from typing import IO, Any

from rag_mcp.config import Config, environment
from rag_mcp.errors import RagMcpError
from rag_mcp.server.http.client import Reply, Server

__all__ = ["Bridge", "headers_of", "main"]

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_AT_ONCE = 64
_LAST_ANSWERS_S = 2.0  # hosts kill after five seconds
_INVALID_REQUEST, _INTERNAL_ERROR = -32600, -32603

Message = dict[str, Any]


def headers_of(message: Message, negotiated: str) -> dict[str, str]:
    """What HTTP says of a message beside its body: in the era with a handshake the ``negotiated`` version, in the other
    the version, method and name that the message itself holds."""
    params = message.get("params")
    params = params if isinstance(params, dict) else {}
    meta = params.get("_meta")
    version = meta.get(_VERSION_KEY) if isinstance(meta, dict) else None
    if not isinstance(version, str):
        return {"MCP-Protocol-Version": negotiated} if negotiated else {}
    method = str(message.get("method"))
    headers = {"MCP-Protocol-Version": _header(version), "Mcp-Method": _header(method)}
    name = params.get(_NAMED_BY.get(method, ""))
    return {**headers, "Mcp-Name": _header(name)} if isinstance(name, str) else headers


def _header(value: str) -> str:
    """As the protocol puts text into a header that takes only some."""
    if _PLAIN.fullmatch(value) and not value.startswith("=?base64?"):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode('ascii')}?="


class Bridge:
    """Takes lines, and writes replies as they come; calls wait for no other."""

    def __init__(self, server: Server | RagMcpError, out: IO[bytes]) -> None:
        self._server = server
        self._out = out
        self._writing = threading.Lock()
        self._negotiated = ""
        self._waiting: set[object] = set()
        self._room = threading.Semaphore(_AT_ONCE)
        self._asking: list[threading.Thread] = []

    def take(self, line: bytes) -> None:
        """One line from the host. A notification is nothing to a server that keeps no session, but for a call taken back."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return
        for each in message if isinstance(message, list) else [message]:
            if not isinstance(each, dict) or not isinstance(each.get("method"), str):
                continue
            if each["method"] == "notifications/cancelled":
                params = each.get("params")
                self._waiting.discard(params.get("requestId") if isinstance(params, dict) else None)
            if isinstance(each.get("id"), int | str):
                if isinstance(message, list):
                    self._write(_failure(each["id"], _INVALID_REQUEST, "The protocol has no batches."))
                else:
                    self._begin(each)

    def finish(self) -> None:
        """The host has closed its end: what is still being answered goes out, if it comes soon."""
        for thread in self._asking:
            thread.join(_LAST_ANSWERS_S)

    def _begin(self, message: Message) -> None:
        self._waiting.add(message["id"])
        self._room.acquire()
        thread = threading.Thread(target=self._answer, args=(message,), daemon=True)
        self._asking = [*(each for each in self._asking if each.is_alive()), thread]
        thread.start()

    def _answer(self, message: Message) -> None:
        try:
            reply = self._asked(message)
            if message["method"] == "initialize" and isinstance(reply.get("result"), dict):
                self._negotiated = str(reply["result"].get("protocolVersion", ""))
        except RagMcpError as error:
            reply = _failure(message["id"], _INTERNAL_ERROR, _said_of(error))
        except Exception as error:  # whatever it is, the host waits for an answer to this id
            reply = _failure(message["id"], _INTERNAL_ERROR, f"The bridge failed: {type(error).__name__}")
        finally:
            self._room.release()
        if message["id"] in self._waiting:
            self._waiting.discard(message["id"])
            self._write(reply)

    def _asked(self, message: Message) -> Message:
        if isinstance(self._server, RagMcpError):
            raise self._server
        # A lone surrogate can't be sent: it becomes what the server on stdio makes of it.
        text = json.dumps(message, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return _told(self._server.ask(text.encode(), headers_of(message, self._negotiated)), message["id"])

    def _write(self, reply: Mapping[str, Any]) -> None:
        line = json.dumps(reply, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
        try:
            with self._writing:
                self._out.write(line)
                self._out.flush()
        except (OSError, ValueError):
            os._exit(0)  # the host reads no more


def _told(reply: Reply, id: int | str) -> Message:
    """A reply as the host is to read it: also a refusal that belongs to HTTP is an answer to its call."""
    try:
        body = json.loads(reply.body)
    except ValueError:
        body = {}
    if isinstance(body, dict) and "jsonrpc" in body:
        return {**body, "id": id}
    said = body.get("message") if isinstance(body, dict) else ""
    return _failure(id, _INTERNAL_ERROR, said or f"The server refused the call (HTTP status {reply.status}).")


def _said_of(error: RagMcpError) -> str:
    """For the host, without places of this machine; with them for its log."""
    from rag_mcp.answers import without_places

    sys.stderr.write(f"rag-mcp connect: {error.for_operator}\n")
    return without_places(str(error))


def _failure(id: int | str, code: int, message: str) -> Message:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}


def main() -> int:
    """Serve one host on stdio until it closes its end; the settings are those of the environment."""
    server: Server | RagMcpError
    try:
        server = Server(Config.load(), environment())
    except RagMcpError as error:
        server = error
    bridge = Bridge(server, sys.stdout.buffer)
    try:
        for line in sys.stdin.buffer:
            bridge.take(line)
        bridge.finish()
    except KeyboardInterrupt:
        pass
    sys.stderr.flush()
    os._exit(0)  # calls that nobody waits for any more are left alone
