"""The MCP server: the contract's tools over a knowledge base, in both protocol eras, whatever carries them.

The low-level server is used because the high-level one drops argument names it does not know, and a filter that is
dropped answers another question than the one asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from mcp import types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from rag_mcp import __version__
from rag_mcp.answers import Document, DocumentPage, SearchResponse, SourceInventory, Status
from rag_mcp.config import Config
from rag_mcp.errors import RagMcpError
from rag_mcp.models import About, SourceClass
from rag_mcp.requests import DocumentRequest, ListRequest, NoRequest, SearchRequest
from rag_mcp.server import tools as contract
from rag_mcp.server.rendering import as_text
from rag_mcp.stores.embedded.place import corpora_of, store_folder
from rag_mcp.telemetry import Telemetry

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from rag_mcp.embedders.lazy import LazyEmbedder

__all__ = ["Answer", "Knowledge", "ToolRunner", "Unavailable", "build_server", "listed", "open_knowledge"]

logger = logging.getLogger(__name__)

_PARALLEL_SEARCHES = 4
_PARALLEL_READS = 2
_PARALLEL_LOOKUPS = 2
Notes = Callable[[], Sequence[str]]

_STATIC = CacheHint(ttl_ms=3_600_000, scope="private")


class Knowledge(Protocol):
    """What the server needs of a knowledge base; every method may be called from any thread."""

    def warm_up(self) -> None: ...

    def search(self, request: SearchRequest, /) -> SearchResponse: ...

    def get_document(self, request: DocumentRequest, /) -> Document: ...

    def list_documents(self, request: ListRequest, /) -> DocumentPage: ...

    def list_sources(self, request: NoRequest, /) -> SourceInventory: ...

    def status(self) -> Status: ...

    def about(self) -> Sequence[About]:
        """What each corpus is about; at once, and never an error."""
        ...

    def close(self) -> None: ...


class Unavailable:
    """Stands for a knowledge base that could not be opened: each call repeats what has to be set right."""

    def __init__(self, error: RagMcpError) -> None:
        self._error = error

    def warm_up(self) -> None:
        """Do nothing: there is nothing to load."""

    def about(self) -> tuple[About, ...]:
        return ()

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def _refuse(self, *_: object) -> NoReturn:
        raise self._error

    search = get_document = list_documents = list_sources = status = _refuse


def open_knowledge(config: Config, *, embedder: LazyEmbedder | None = None) -> Knowledge:
    """Open the configured knowledge base; one that can't be opened is replaced by a stand-in that says why.

    ``embedder`` is one that several share.
    """
    try:
        corpora = corpora_of(config)
        for each in corpora.values() or [config]:
            _ = store_folder(each)
        from rag_mcp.search.doubts import doubtful_settings

        for text in doubtful_settings(config):
            logger.warning("%s", text)
        if corpora:
            from rag_mcp.federation import Federation

            return Federation(config, embedder=embedder)
        from rag_mcp.knowledge import KnowledgeBase

        return KnowledgeBase(config, embedder=embedder)
    except RagMcpError as error:
        logger.error("Serving without a knowledge base: %s", error.for_operator)
        return Unavailable(error)
    except Exception:
        logger.exception("Serving without a knowledge base")
        return Unavailable(RagMcpError("The knowledge base could not be opened; the server's log holds the details."))


# --- one call --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    """A tool's answer, ready to send; ``text`` says what ``payload`` says. ``told`` is what both were made of; None for an
    error."""

    payload: dict[str, Any]
    text: str
    is_error: bool
    told: object = None


@dataclass(slots=True)
class _Outcome:
    status: str = "OK"
    reason: str = ""
    winner: SourceClass | None = None


class ToolRunner:
    """Runs one tool call to its answer in the calling thread; never raises."""

    def __init__(
        self,
        knowledge: Knowledge,
        telemetry: Telemetry,
        specs: Sequence[contract.ToolSpec] = contract.TOOLS,
        notes: Notes = tuple,
    ) -> None:
        self._knowledge = knowledge
        self._requests = {spec.name: spec.request for spec in specs}
        self._telemetry = telemetry
        self._notes = notes
        self._tools: dict[str, Callable[[Mapping[str, object] | None, _Outcome], object]] = {
            "search_knowledge": self._search,
            "get_document": self._document,
            "list_documents": self._documents,
            "list_knowledge_sources": self._sources,
            "rag_status": self._status,
        }

    def run(self, tool: str, arguments: Mapping[str, object] | None) -> Answer:
        """Answer a call; whatever goes wrong becomes the contract's error shape, and is counted."""
        started = time.perf_counter()
        outcome, told = _Outcome(), None
        try:
            told = self._tools[tool](arguments, outcome)
            payload = contract.answer_payload(told)
            text = as_text(payload)
        # A panic of a Rust library, or an exit a library asks for, derives from BaseException. None of them may end
        # the server. Interrupts are delivered to the main thread, and cancellation to the task, never to this thread.
        except BaseException as error:
            outcome, told = _Outcome("ERROR", error.code if isinstance(error, RagMcpError) else "internal_error"), None
            if not isinstance(error, RagMcpError):
                logger.exception("%s failed", tool)
            payload = contract.error_payload(error)
            text = as_text(payload)
        elapsed_ms = (time.perf_counter() - started) * 1000
        self._telemetry.record(
            tool, status=outcome.status, reason=outcome.reason, winner_class=outcome.winner, elapsed_ms=elapsed_ms
        )
        logger.info("%s %s %s in %.1f ms", tool, outcome.status, outcome.reason, elapsed_ms)
        return Answer(payload, text, outcome.status == "ERROR", told)

    def _read(self, tool: str, arguments: Mapping[str, object] | None) -> Any:
        return self._requests[tool].parse(arguments)

    def _search(self, arguments: Mapping[str, object] | None, outcome: _Outcome) -> SearchResponse:
        response = self._knowledge.search(self._read("search_knowledge", arguments))
        outcome.status = response.status
        outcome.reason = response.reason.value if response.reason else ""
        outcome.winner = response.results[0].source_class if response.results else None
        return response

    def _document(self, arguments: Mapping[str, object] | None, _: _Outcome) -> Document:
        return self._knowledge.get_document(DocumentRequest.parse(arguments))

    def _documents(self, arguments: Mapping[str, object] | None, _: _Outcome) -> DocumentPage:
        return self._knowledge.list_documents(self._read("list_documents", arguments))

    def _sources(self, arguments: Mapping[str, object] | None, _: _Outcome) -> SourceInventory:
        return self._knowledge.list_sources(self._read("list_knowledge_sources", arguments))

    def _status(self, arguments: Mapping[str, object] | None, _: _Outcome) -> Status:
        NoRequest.parse(arguments)
        status = self._knowledge.status()
        visible = [member for member in SourceClass if member in status.inventory]
        notes = (*status.notes, *self._notes())
        return replace(status, telemetry=self._telemetry.snapshot(visible), notes=notes)


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
            logger.warning("Not ready to search: %s", error.for_operator)
        except BaseException:  # as in ToolRunner.run: this thread has nobody to tell but the log
            logger.exception("Loading the index or the model failed")
        finally:
            self.done.set()


# --- the server ------------------------------------------------------------------------------------------------------


def build_server(
    knowledge: Knowledge, *, transport: str = "stdio", telemetry: Telemetry | None = None, notes: Notes = tuple
) -> Server[Any]:
    """Return the server for a knowledge base; it neither opens nor closes it. ``notes`` are the server's own, for the
    status.

    Calls run in bounded worker threads, searches, documents and lookups apart, so that status answers while the others
    are busy.
    """
    corpora = knowledge.about()
    specs = contract.tools_for(corpora)
    handlers = _Handlers(knowledge, specs, transport=transport, telemetry=telemetry or Telemetry(), notes=notes)
    server: Server[Any] = Server(
        "rag-mcp",
        version=__version__,
        title="Local knowledge base",
        description="Answers questions from a local folder of markdown with cited passages.",
        instructions=contract.instructions(corpora),
        cache_hints={method: _STATIC for method in ("tools/list", "resources/list", "resources/read")},
        lifespan=handlers.lifespan,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_resource_templates,
        on_read_resource=handlers.read_resource,
    )

    async def describe_anew(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """What was withdrawn since the start must not be told again."""
        if ctx.method in ("server/discover", "initialize"):
            server.instructions = contract.instructions(knowledge.about())
        return await call_next(ctx)

    server.middleware += [handlers.begin_after_first_reply, describe_anew]
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

    def __init__(
        self,
        knowledge: Knowledge,
        specs: Sequence[contract.ToolSpec],
        *,
        transport: str,
        telemetry: Telemetry,
        notes: Notes,
    ) -> None:
        self._specs = specs
        self._transport = transport
        self._runner = ToolRunner(knowledge, telemetry, specs, notes)
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
        return types.ListToolsResult(tools=[listed(spec) for spec in self._specs])

    async def call_tool(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        names = [spec.name for spec in self._specs]
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


def listed(spec: contract.ToolSpec) -> types.Tool:
    """A tool as hosts are told of it."""
    return types.Tool(
        name=spec.name,
        title=spec.title,
        description=spec.description,
        input_schema=spec.input_schema,
        output_schema=spec.listed_output,
        annotations=types.ToolAnnotations(
            read_only_hint=True,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )
