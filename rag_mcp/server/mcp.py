"""The MCP server: the contract's tools over a knowledge base, in both protocol eras, on stdio.

The low-level server is used because the high-level one drops argument names it does not know, and a filter that is
dropped answers another question than the one asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import anyio
from mcp import types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from rag_mcp import __version__, logs
from rag_mcp.config import Config
from rag_mcp.errors import ConfigError, RagMcpError
from rag_mcp.models import (
    Document,
    DocumentPage,
    DocumentRequest,
    ListRequest,
    SearchRequest,
    SearchResponse,
    SourceClass,
    SourceInventory,
    Status,
)
from rag_mcp.server import tools as contract
from rag_mcp.stores.embedded.place import store_folder
from rag_mcp.telemetry import Telemetry
from rag_mcp.text.sanitize import scrub

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.shared._stream_protocols import ReadStream, WriteStream

__all__ = ["Knowledge", "ToolRunner", "build_server", "main", "open_knowledge", "serve"]

logger = logging.getLogger(__name__)

_PARALLEL_SEARCHES = 4
_PARALLEL_READS = 2
_PARALLEL_LOOKUPS = 2
_CLOSE_WAIT_S = 1.0
_LAST_ANSWERS_S = 2.0  # with _CLOSE_WAIT_S below the five seconds after which hosts kill
_NATIVE_MODULES = ("numpy", "onnxruntime", "tokenizers", "tantivy", "chromadb")
_STATIC = CacheHint(ttl_ms=3_600_000, scope="private")


class Knowledge(Protocol):
    """What the server needs of a knowledge base; every method may be called from any thread."""

    def warm_up(self) -> None: ...

    def search(self, request: SearchRequest, /) -> SearchResponse: ...

    def get_document(self, request: DocumentRequest, /) -> Document: ...

    def list_documents(self, request: ListRequest, /) -> DocumentPage: ...

    def list_sources(self) -> SourceInventory: ...

    def status(self) -> Status: ...

    def close(self) -> None: ...


class _Unavailable:
    """Stands for a knowledge base that could not be opened: each call repeats what has to be set right."""

    def __init__(self, error: RagMcpError) -> None:
        self._error = error

    def warm_up(self) -> None:
        """Do nothing: there is nothing to load."""

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def search(self, request: SearchRequest, /) -> SearchResponse:
        raise self._error

    def get_document(self, request: DocumentRequest, /) -> Document:
        raise self._error

    def list_documents(self, request: ListRequest, /) -> DocumentPage:
        raise self._error

    def list_sources(self) -> SourceInventory:
        raise self._error

    def status(self) -> Status:
        raise self._error


# --- one call --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    """A tool's answer, ready to send; ``text`` is the same JSON as ``payload``."""

    payload: dict[str, Any]
    text: str
    is_error: bool


@dataclass(slots=True)
class _Outcome:
    status: str = "OK"
    reason: str = ""
    winner: SourceClass | None = None


class ToolRunner:
    """Runs one tool call to its answer in the calling thread; never raises."""

    def __init__(self, knowledge: Knowledge, telemetry: Telemetry) -> None:
        self._knowledge = knowledge
        self._telemetry = telemetry
        self._tools: dict[str, Callable[[Mapping[str, object] | None, _Outcome], dict[str, Any]]] = {
            "search_knowledge": self._search,
            "get_document": self._document,
            "list_documents": self._documents,
            "list_knowledge_sources": self._sources,
            "rag_status": self._status,
        }

    def run(self, tool: str, arguments: Mapping[str, object] | None) -> Answer:
        """Answer a call; whatever goes wrong becomes the contract's error shape, and is counted."""
        started = time.perf_counter()
        outcome = _Outcome()
        try:
            payload = self._tools[tool](arguments, outcome)
            text = _json(payload)
        # A panic of a Rust library, or an exit a library asks for, derives from BaseException. None of them may end
        # the server. Interrupts are delivered to the main thread, and cancellation to the task, never to this thread.
        except BaseException as error:
            outcome = _Outcome("ERROR", error.code if isinstance(error, RagMcpError) else "internal_error")
            if not isinstance(error, RagMcpError):
                logger.exception("%s failed", tool)
            payload = contract.error_payload(error)
            text = _json(payload)
        elapsed_ms = (time.perf_counter() - started) * 1000
        self._telemetry.record(
            tool, status=outcome.status, reason=outcome.reason, winner_class=outcome.winner, elapsed_ms=elapsed_ms
        )
        logger.info("%s %s %s in %.1f ms", tool, outcome.status, outcome.reason, elapsed_ms)
        return Answer(payload, text, outcome.status == "ERROR")

    def _search(self, arguments: Mapping[str, object] | None, outcome: _Outcome) -> dict[str, Any]:
        response = self._knowledge.search(contract.parse_search(arguments))
        outcome.status = response.status
        outcome.reason = response.reason.value if response.reason else ""
        outcome.winner = response.results[0].source_class if response.results else None
        return contract.search_payload(response)

    def _document(self, arguments: Mapping[str, object] | None, _: _Outcome) -> dict[str, Any]:
        return contract.document_payload(self._knowledge.get_document(contract.parse_document(arguments)))

    def _documents(self, arguments: Mapping[str, object] | None, _: _Outcome) -> dict[str, Any]:
        return contract.documents_payload(self._knowledge.list_documents(contract.parse_list(arguments)))

    def _sources(self, arguments: Mapping[str, object] | None, _: _Outcome) -> dict[str, Any]:
        contract.parse_nothing("list_knowledge_sources", arguments)
        return contract.sources_payload(self._knowledge.list_sources())

    def _status(self, arguments: Mapping[str, object] | None, _: _Outcome) -> dict[str, Any]:
        contract.parse_nothing("rag_status", arguments)
        status = self._knowledge.status()
        visible = [member for member in SourceClass if member in status.inventory]
        return contract.status_payload(status, self._telemetry.snapshot(visible))


def _json(payload: Mapping[str, Any]) -> str:
    return json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class _WarmUp:
    """Loads the heavy parts in a thread of its own, once the first reply is out: the handshake does not wait for it,
    nor share the processor with it. A client that stays silent starts it after a second.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._wanted = threading.Event()
        self._urgent = threading.Event()
        self.done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rag_mcp warm-up", daemon=True)

    def start(self) -> None:
        if not self._thread.ident:
            self._thread.start()

    def want(self, *, now: bool = False) -> None:
        """Begin soon (after the reply being written), or at once because a call needs it."""
        if now:
            self._urgent.set()
        self._wanted.set()

    def _run(self) -> None:
        self._wanted.wait(1.0)
        self._urgent.wait(0.05)
        try:
            self._work()
        except RagMcpError as error:
            logger.warning("Not ready to search: %s", error)
        except BaseException:  # as in ToolRunner.run: this thread has nobody to tell but the log
            logger.exception("Loading the index or the model failed")
        finally:
            self.done.set()


# --- the server ------------------------------------------------------------------------------------------------------


def build_server(knowledge: Knowledge, *, transport: str = "stdio", telemetry: Telemetry | None = None) -> Server[Any]:
    """Return the server for a knowledge base; it neither opens nor closes it.

    Calls run in bounded worker threads, searches, documents and lookups apart, so that status answers while the others
    are busy.
    """
    handlers = _Handlers(knowledge, transport=transport, telemetry=telemetry or Telemetry())
    server: Server[Any] = Server(
        "rag-mcp",
        version=__version__,
        title="Local knowledge base",
        description="Answers questions from a local folder of markdown with cited passages.",
        instructions=contract.INSTRUCTIONS,
        cache_hints={method: _STATIC for method in ("tools/list", "resources/list", "resources/read")},
        lifespan=handlers.lifespan,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_resource_templates,
        on_read_resource=handlers.read_resource,
    )
    server.middleware.append(handlers.begin_after_first_reply)
    return server


@dataclass(frozen=True, slots=True)
class _Pools:
    """Worker threads. Pools and not a limiter over shared threads: a cancelled call leaves its thread busy until it
    ends, and a limiter would give its place away at once.
    """

    searches: ThreadPoolExecutor
    reads: ThreadPoolExecutor
    lookups: ThreadPoolExecutor

    def of(self, tool: str) -> ThreadPoolExecutor:
        return {"search_knowledge": self.searches, "get_document": self.reads}.get(tool, self.lookups)


class _Handlers:
    """The protocol side of the tools: threads, progress, and the SDK's types."""

    def __init__(self, knowledge: Knowledge, *, transport: str, telemetry: Telemetry) -> None:
        self._transport = transport
        self._runner = ToolRunner(knowledge, telemetry)
        self._warm_up = _WarmUp(knowledge.warm_up)

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Server[Any]) -> AsyncIterator[_Pools]:
        pools = _Pools(
            searches=ThreadPoolExecutor(_PARALLEL_SEARCHES, thread_name_prefix="rag_mcp search"),
            reads=ThreadPoolExecutor(_PARALLEL_READS, thread_name_prefix="rag_mcp read"),
            lookups=ThreadPoolExecutor(_PARALLEL_LOOKUPS, thread_name_prefix="rag_mcp lookup"),
        )
        self._warm_up.start()
        try:
            yield pools
        finally:
            for pool in (pools.searches, pools.reads, pools.lookups):
                pool.shutdown(wait=False, cancel_futures=True)

    async def begin_after_first_reply(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        try:
            return await call_next(ctx)
        finally:
            self._warm_up.want()

    async def list_tools(self, ctx: object, params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool(spec) for spec in contract.TOOLS])

    async def call_tool(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        names = [spec.name for spec in contract.TOOLS]
        if params.name not in names:
            raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool. Tools: {', '.join(names)}.")
        if not self._warm_up.done.is_set():
            self._warm_up.want(now=True)
            if params.name == "search_knowledge":
                await ctx.session.report_progress(0.0, message="Loading the index and the model; once only.")
        pools: _Pools = ctx.lifespan_context
        call = partial(self._runner.run, params.name, params.arguments)
        answer = await asyncio.get_running_loop().run_in_executor(pools.of(params.name), call)
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=answer.text)],
            structured_content=answer.payload,
            is_error=answer.is_error,
        )

    async def list_resources(self, ctx: object, params: object) -> types.ListResourcesResult:
        capabilities = types.Resource(
            uri=contract.CAPABILITIES_URI,
            name="capabilities",
            title="What this server can do",
            description="Version, tools, retrieval modes, access rules and limits, as JSON.",
            mime_type="application/json",
        )
        return types.ListResourcesResult(resources=[capabilities])

    async def list_resource_templates(self, ctx: object, params: object) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=[])

    async def read_resource(self, ctx: object, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        if str(params.uri) != contract.CAPABILITIES_URI:
            message = f"Unknown resource. Resources: {contract.CAPABILITIES_URI}."
            raise MCPError(code=types.INVALID_PARAMS, message=message)
        text = _json(contract.capabilities_payload(version=__version__, transport=self._transport))
        contents = types.TextResourceContents(uri=contract.CAPABILITIES_URI, mime_type="application/json", text=text)
        return types.ReadResourceResult(contents=[contents])


def _tool(spec: contract.ToolSpec) -> types.Tool:
    return types.Tool(
        name=spec.name,
        title=spec.title,
        description=spec.description,
        input_schema=spec.input_schema,
        output_schema=spec.output_schema,
        annotations=types.ToolAnnotations(
            title=spec.title,
            read_only_hint=True,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )


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


async def serve(knowledge: Knowledge, *, transport: str = "stdio") -> None:
    """Serve until the client leaves. Raises ConfigError for a transport that is not there."""
    if transport != "stdio":
        raise ConfigError(f"No transport {transport!r}; use stdio.")
    server = build_server(knowledge, transport=transport)
    async with anyio.create_task_group() as tasks:
        if sys.platform != "win32":
            tasks.start_soon(_stop_on_signal, knowledge)
        async with stdio_server() as (incoming, outgoing):
            reader = _ForgivingReader(incoming, outgoing)
            try:
                await server.run(reader, outgoing, server.create_initialization_options())
            except BaseException as error:
                _leave(knowledge, _ended_by(error))
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
    timer = threading.Timer(seconds, _leave, (knowledge, 0))
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
        _leave(knowledge, 0)

    threading.Thread(target=watch, name="rag_mcp reader watch", daemon=True).start()


async def _stop_on_signal(knowledge: Knowledge) -> None:
    """End the process on SIGTERM or SIGINT. It can't be done by cancelling: the thread that reads stdin is parked in
    a read that nothing can interrupt.
    """
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for received in signals:
            logger.info("Stopped by %s", signal.Signals(received).name)
            _leave(knowledge, 0)


def open_knowledge(config: Config) -> Knowledge:
    """Open the configured knowledge base; one that can't be opened is replaced by a stand-in that says why."""
    try:
        _ = store_folder(config)
        from rag_mcp.knowledge import KnowledgeBase, doubtful_settings

        for text in doubtful_settings(config):
            logger.warning("%s", text)
        return KnowledgeBase.open(config)
    except RagMcpError as error:
        logger.error("Serving without a knowledge base: %s", error)
        return _Unavailable(error)
    except Exception:
        logger.exception("Serving without a knowledge base")
        return _Unavailable(RagMcpError("The knowledge base could not be opened; the server's log holds the details."))


def main(config: Config | None = None) -> int:
    """Run the server on stdio until the client leaves, then end the process with 0 (1 after a fault).

    Returns only if the process could not be ended.
    """
    logs.configure()
    knowledge: Knowledge
    try:
        config = Config.load() if config is None else config
        logs.configure(level=config.log_level, style=config.log_format)
        knowledge = open_knowledge(config)
    except ConfigError as error:
        logger.error("Serving without a knowledge base: %s", error)
        knowledge = _Unavailable(error)
    if sys.platform == "win32":
        _import_natives()
    _leave_with_reader(knowledge)
    code = 0
    try:
        anyio.run(partial(serve, knowledge))
    except* (BrokenPipeError, ConnectionResetError):
        logger.info("The client closed its end while an answer was written")
    except* KeyboardInterrupt:
        logger.info("Interrupted")
    except* Exception:
        logger.exception("The server stopped")
        code = 1
    _leave(knowledge, code)
    return code


def _import_natives() -> None:
    """Import the native libraries on the main thread: on Windows a library's start-up looks at stdin, and hangs for
    ever when a read is pending there.
    """
    with contextlib.redirect_stdout(sys.stderr):
        for name in _NATIVE_MODULES:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


def _leave(knowledge: Knowledge, code: int) -> None:
    """End the process now. Worker threads may be busy or parked for good, and a normal exit would wait for them;
    readers write nothing that could be lost.
    """

    def close() -> None:
        try:
            knowledge.close()
        except BaseException:
            logger.exception("Closing failed")

    closer = threading.Thread(target=close, name="rag_mcp close", daemon=True)
    closer.start()
    closer.join(_CLOSE_WAIT_S)
    logging.shutdown()
    sys.stderr.flush()
    os._exit(code)
