"""The server as a process on stdin and stdout: what is read that the SDK would drop, and how it ends.

The thread that reads stdin is parked in a read that nothing can interrupt, so the process is ended, never unwound.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import signal
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING

import anyio
from mcp import types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from rag_mcp import logs
from rag_mcp.config import Config, silence_libraries
from rag_mcp.errors import ConfigError
from rag_mcp.server.leaving import leave
from rag_mcp.server.mcp import Knowledge, Notes, Unavailable, build_server, open_knowledge
from rag_mcp.server.refresh import Refresh
from rag_mcp.text.sanitize import scrub

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream, WriteStream

__all__ = ["main", "serve"]

logger = logging.getLogger(__name__)

_LAST_ANSWERS_S = 2.0  # with the second that closing may take below the five seconds after which hosts kill
_NATIVE_MODULES = ("numpy", "onnxruntime", "tokenizers", "tantivy", "chromadb_rust_bindings")


# --- the pipe --------------------------------------------------------------------------------------------------------


class _ForgivingReader:
    """The SDK's read stream, minus its silence: a line it refuses is repaired where the meaning is clear (an escaped
    lone surrogate, a byte order mark), and a request that stays unusable is answered with an error when it has an id.
    """

    def __init__(self, inner: ReadStream[SessionMessage | Exception], replies: WriteStream[SessionMessage]) -> None:
        self._inner = inner
        self._replies = replies

    @property
    def last_context(self) -> object:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        while True:
            item = await self._inner.receive()
            if not isinstance(item, ValidationError):
                return item
            data = _parsed(item)
            with contextlib.suppress(ValidationError):
                return SessionMessage(types.jsonrpc_message_adapter.validate_python(data, by_name=False))
            logger.info("Dropped a line that is no JSON-RPC message")
            for refusal in _refusals(data):
                await self._replies.send(SessionMessage(refusal))

    def __aiter__(self) -> _ForgivingReader:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> _ForgivingReader:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _parsed(error: ValidationError) -> object:
    """The refused line as data, from the parser's own report of it; None when it is no JSON."""
    for problem in error.errors(include_url=False, include_context=False):
        if problem["type"] == "json_invalid":
            try:
                return _scrubbed(json.loads(str(problem["input"]).lstrip("\ufeff")))
            except (ValueError, RecursionError):
                return None
        if problem["type"] in ("missing", "model_type") and len(problem["loc"]) <= 2:
            return problem["input"]
    return None


def _scrubbed(data: object) -> object:
    if isinstance(data, str):
        return scrub(data)
    if isinstance(data, list):
        return [_scrubbed(item) for item in data]
    if isinstance(data, dict):
        return {scrub(key): _scrubbed(value) for key, value in data.items()}
    return data


def _refusals(data: object) -> list[types.JSONRPCError]:
    """One error for each unusable request that can be answered (of a batch too: the protocol has no batches)."""
    items = data if isinstance(data, list) else [data]
    ids = [item.get("id") for item in items if isinstance(item, dict) and "method" in item]
    refusal = types.ErrorData(code=types.INVALID_REQUEST, message="Not a JSON-RPC request of this protocol")
    return [
        types.JSONRPCError(jsonrpc="2.0", id=known, error=refusal)
        for known in ids
        if isinstance(known, int | str) and not isinstance(known, bool)
    ]


# --- the process -----------------------------------------------------------------------------------------------------


async def serve(knowledge: Knowledge, *, transport: str = "stdio", notes: Notes = tuple) -> None:
    """Serve until the client leaves. Raises ConfigError for a transport that is not there."""
    if transport != "stdio":
        raise ConfigError(f"No transport {transport!r}; use stdio.")
    server = build_server(knowledge, transport=transport, notes=notes)
    async with anyio.create_task_group() as tasks:
        if sys.platform != "win32":
            tasks.start_soon(_stop_on_signal, knowledge)
        async with stdio_server() as (incoming, outgoing):
            reader = _ForgivingReader(incoming, outgoing)
            try:
                await server.run(reader, outgoing, server.create_initialization_options())
            except BaseException as error:
                leave(knowledge.close, _ended_by(error))
            # The client has closed its end: what is still being written goes out, if anybody reads it.
            _leave_after(_LAST_ANSWERS_S, knowledge)
        tasks.cancel_scope.cancel()


def _ended_by(error: BaseException) -> int:
    """The exit code for what ended a session. It must end the process too: the thread that reads stdin is parked.

    An answer that could not be written cancels the session, or meets it as a closed stream.
    """
    gone = (BrokenPipeError, ConnectionResetError, anyio.BrokenResourceError, anyio.ClosedResourceError)
    ordinary = (*gone, KeyboardInterrupt, anyio.get_cancelled_exc_class())
    rest = error.split(ordinary)[1] if isinstance(error, BaseExceptionGroup) else error
    if rest is None or isinstance(rest, ordinary):
        logger.info("The client closed its end, or the process was interrupted")
        return 0
    logger.error("The server stopped", exc_info=rest)
    return 1


def _leave_after(seconds: float, knowledge: Knowledge) -> None:
    timer = threading.Timer(seconds, leave, (knowledge.close, 0))
    timer.daemon = True
    timer.start()


def _leave_with_reader(knowledge: Knowledge) -> None:
    """End the process as soon as nobody can read its answers any more, whether it writes one or not.

    To be called before the session moves stdout away. On Windows, where a pipe can't be watched, the first answer that
    can't be written ends the process.
    """
    if sys.platform == "win32":
        return
    import select

    try:
        watched = os.dup(sys.stdout.fileno())
    except (OSError, ValueError):
        return  # there is no stdout

    def watch() -> None:
        poll = select.poll()
        poll.register(watched, 0)  # no event is asked for: what comes unasked is that the other end is closed
        ((_, event),) = poll.poll()
        if event & select.POLLNVAL:
            return  # a kind of file that this system can't watch
        logger.info("The client closed the end it read from")
        leave(knowledge.close, 0)

    threading.Thread(target=watch, name="rag_mcp reader watch", daemon=True).start()


async def _stop_on_signal(knowledge: Knowledge) -> None:
    """End the process on SIGTERM or SIGINT. It can't be done by cancelling: the thread that reads stdin is parked in
    a read that nothing can interrupt.
    """
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for received in signals:
            logger.info("Stopped by %s", signal.Signals(received).name)
            leave(knowledge.close, 0)


def main(config: Config | None = None) -> int:
    """Run the server on stdio until the client leaves, then end the process with 0 (1 after a fault).

    Returns only if the process could not be ended.
    """
    logs.configure()
    knowledge: Knowledge
    refresh: Refresh | None
    try:
        config = Config.load() if config is None else config
        logs.configure(level=config.log_level, style=config.log_format)
        knowledge = open_knowledge(config)
        refresh = Refresh(config)
    except ConfigError as error:
        logger.error("Serving without a knowledge base: %s", error)
        knowledge, refresh = Unavailable(error), None
    if sys.platform == "win32":
        _import_natives()
    _leave_with_reader(knowledge)
    if refresh is not None:
        refresh.start()
    code = 0
    try:
        anyio.run(partial(serve, knowledge, notes=refresh.notes if refresh is not None else tuple))
    except* (BrokenPipeError, ConnectionResetError):
        logger.info("The client closed its end while an answer was written")
    except* KeyboardInterrupt:
        logger.info("Interrupted")
    except* Exception:
        logger.exception("The server stopped")
        code = 1
    leave(knowledge.close, code)
    return code


def _import_natives() -> None:
    """Import the native libraries on the main thread: on Windows a library's start-up looks at stdin, and hangs for
    ever when a read is pending there.
    """
    silence_libraries()
    with contextlib.redirect_stdout(sys.stderr):
        for name in _NATIVE_MODULES:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
