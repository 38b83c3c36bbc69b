"""The server: every call answered in the contract's shape, whatever the tools meet, in memory and as a process."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest
from cli_process import COLD, forked_cli, warm_command
from fake_knowledge import FakeKnowledge
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from mcp import Client, MCPError, types
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server.lowlevel import Server
from raw_server import MODERN_META, ROOT, WAIT_S, RawServer, server_env

from rag_mcp import __version__, logs
from rag_mcp.answers import Document, SearchResponse
from rag_mcp.config import Config
from rag_mcp.errors import ConfigError, StoreDamaged
from rag_mcp.requests import DocumentRequest, SearchRequest
from rag_mcp.server import tools as contract
from rag_mcp.server.mcp import ToolRunner, build_server, open_knowledge
from rag_mcp.server.rendering import as_text
from rag_mcp.server.stdio import serve
from rag_mcp.telemetry import Telemetry


class RustPanic(BaseException):
    """Stands for pyo3's PanicException, which is no Exception."""


def talk(server: Server[Any], body: Callable[[Client], Awaitable[None]], *, mode: str = "auto") -> None:
    async def run() -> None:
        with anyio.fail_after(WAIT_S):
            async with Client(server, mode=mode) as client:
                await body(client)

    anyio.run(run)


def content(result: types.CallToolResult) -> dict[str, Any]:
    """The structured content, checked to be what the text says too."""
    assert [block.type for block in result.content] == ["text"]
    assert result.content[0].text == as_text(result.structured_content)
    return result.structured_content


# --- in memory


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_every_tool_is_listed_as_read_only_with_both_schemas(mode):
    async def body(client: Client) -> None:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == [spec.name for spec in contract.TOOLS]
        for tool in tools:
            assert tool.annotations.read_only_hint is True
            assert tool.annotations.idempotent_hint is True
            assert tool.annotations.open_world_hint is False
            assert tool.annotations.destructive_hint is False
            assert tool.input_schema == contract.INPUT_SCHEMAS[tool.name]
            assert tool.output_schema == next(spec.listed_output for spec in contract.TOOLS if spec.name == tool.name)

    talk(build_server(FakeKnowledge()), body, mode=mode)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search_knowledge", {"query": "teal gate"}),
        ("get_document", {"source": "docs/gate.md"}),
        ("list_documents", {}),
        ("list_knowledge_sources", {}),
        ("rag_status", {}),
    ],
)
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_every_tool_answers_with_structure_and_text(tool, arguments, mode):
    async def body(client: Client) -> None:
        result = await client.call_tool(tool, arguments)
        assert not result.is_error
        assert content(result)["ok"] is True
        for schemas in (contract.OUTPUT_SCHEMAS, {tool.name: tool.listed_output for tool in contract.TOOLS}):
            Draft202012Validator(schemas[tool]).validate(content(result))

    talk(build_server(FakeKnowledge()), body, mode=mode)


def test_an_empty_value_of_an_answer_survives_the_wire():
    async def body(client: Client) -> None:
        assert content(await client.call_tool("rag_status", {}))["degraded_reason"] is None

    talk(build_server(FakeKnowledge()), body)


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": "x", "sources": "docs"}, {"query": "x", "profile": "auditor"}, {"query": "x", "k": "abc"}, {"query": ""},
        {}, {"Query": "x"}, {"query": "x", "source_class": "DOCS"},
    ],
)  # fmt: skip
def test_a_wrong_argument_comes_back_as_an_error_result_and_nothing_is_searched(arguments):
    knowledge = FakeKnowledge()

    async def body(client: Client) -> None:
        result = await client.call_tool("search_knowledge", arguments)
        assert result.is_error
        assert content(result)["error"]["type"] in ("invalid_argument", "invalid_query")

    talk(build_server(knowledge), body)
    assert knowledge.requests == []


def test_arguments_that_are_clear_reach_the_search():
    knowledge = FakeKnowledge()

    async def body(client: Client) -> None:
        await client.call_tool("search_knowledge", {"query": "x", "k": "7", "project": "", "mode": None})

    talk(build_server(knowledge), body)
    assert knowledge.requests == [SearchRequest("x", k=7)]


@pytest.mark.parametrize("failure", [RustPanic("boom"), SystemExit(3), ValueError("at /srv/x"), MemoryError()])
def test_no_failure_of_a_tool_ends_the_server_or_shows_its_insides(failure, caplog):
    def fail(_: SearchRequest) -> None:
        raise failure

    async def body(client: Client) -> None:
        result = await client.call_tool("search_knowledge", {"query": "secret words"})
        assert result.is_error
        assert content(result) == {
            "ok": False,
            "error": {"type": "internal_error", "message": contract.INTERNAL_ERROR},
            "results": [],
        }
        assert content(await client.call_tool("rag_status", {}))["ok"] is True

    talk(build_server(FakeKnowledge(fail)), body)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.exc_info and record.exc_info[1] is failure
    assert "secret words" not in record.getMessage()


def test_a_deliberate_error_of_the_store_is_told_without_its_path():
    def fail(_: SearchRequest) -> None:
        raise StoreDamaged("Cannot read /srv/db/CURRENT; run rag-mcp verify.")

    async def body(client: Client) -> None:
        error = content(await client.call_tool("search_knowledge", {"query": "x"}))["error"]
        assert error == {"type": "store_damaged", "message": "Cannot read <path>; run rag-mcp verify."}

    talk(build_server(FakeKnowledge(fail)), body)


def test_an_unknown_tool_or_resource_is_a_protocol_error_that_lists_the_known():
    async def body(client: Client) -> None:
        with pytest.raises(MCPError, match="search_knowledge"):
            await client.call_tool("search", {"query": "x"})
        with pytest.raises(MCPError, match="rag-mcp://capabilities"):
            await client.read_resource("rag-mcp://other")

    talk(build_server(FakeKnowledge()), body)


def test_the_capabilities_resource_is_json_with_version_and_limits():
    async def body(client: Client) -> None:
        assert [str(resource.uri) for resource in (await client.list_resources()).resources] == [
            contract.CAPABILITIES_URI
        ]
        assert (await client.list_resource_templates()).resource_templates == []
        (block,) = (await client.read_resource(contract.CAPABILITIES_URI)).contents
        assert block.mime_type == "application/json"
        assert json.loads(block.text) == contract.capabilities_payload(version=__version__, transport="stdio")

    talk(build_server(FakeKnowledge()), body)


def test_the_instructions_say_that_passages_are_no_instructions():
    async def body(client: Client) -> None:
        assert "untrusted" in client.instructions
        assert "NO_RELEVANT_CONTEXT" in client.instructions

    talk(build_server(FakeKnowledge()), body)


def test_twenty_searches_run_at_once_in_bounded_threads_and_status_does_not_queue_behind_them():
    gate, lock = threading.Event(), threading.Lock()
    running: list[int] = [0, 0]

    def wait(_: SearchRequest) -> None:
        with lock:
            running[0] += 1
            running[1] = max(running)
        assert gate.wait(WAIT_S)
        with lock:
            running[0] -= 1

    async def body(client: Client) -> None:
        results: list[dict[str, Any]] = []

        async def search(number: int) -> None:
            results.append(content(await client.call_tool("search_knowledge", {"query": f"q{number}"})))

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(search, number)
            assert content(await client.call_tool("rag_status", {}))["ok"] is True
            assert results == []
            gate.set()
        assert len(results) == 20
        assert all(result["ok"] for result in results)

    talk(build_server(FakeKnowledge(wait)), body)
    assert running[1] <= 4


class HeavyDocuments(FakeKnowledge):
    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()

    def get_document(self, request: DocumentRequest, /) -> Document:
        assert self.gate.wait(WAIT_S)
        return super().get_document(request)


def test_no_other_call_queues_behind_documents_that_take_long():
    knowledge = HeavyDocuments()

    async def body(client: Client) -> None:
        read: list[dict[str, Any]] = []

        async def document() -> None:
            read.append(content(await client.call_tool("get_document", {"source": "docs/gate.md"})))

        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(document)
            for tool in ("rag_status", "list_documents", "list_knowledge_sources"):
                assert content(await client.call_tool(tool, {}))["ok"] is True
            assert content(await client.call_tool("search_knowledge", {"query": "gate"}))["ok"] is True
            assert read == []
            knowledge.gate.set()
        assert len(read) == 8

    talk(build_server(knowledge), body)


def test_a_cancelled_search_is_let_go_at_once_and_the_next_is_answered():
    gate = threading.Event()

    def wait(request: SearchRequest) -> None:
        assert request.query != "slow" or gate.wait(WAIT_S)

    async def body(client: Client) -> None:
        with anyio.move_on_after(0.2) as scope:
            await client.call_tool("search_knowledge", {"query": "slow"})
        assert scope.cancelled_caught
        assert content(await client.call_tool("search_knowledge", {"query": "quick"}))["ok"] is True
        gate.set()

    talk(build_server(FakeKnowledge(wait)), body, mode="legacy")


class SlowToLoad(FakeKnowledge):
    """Searches wait for the load, as the real one does within its limit."""

    def __init__(self) -> None:
        super().__init__()
        self.told = threading.Event()
        self.loaded = threading.Event()

    def warm_up(self) -> None:
        assert self.told.wait(WAIT_S)
        self.loaded.set()

    def search(self, request: SearchRequest, /) -> SearchResponse:
        assert self.loaded.wait(WAIT_S)
        return super().search(request)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_first_search_that_waits_for_the_model_tells_its_progress_once(mode):
    knowledge = SlowToLoad()
    seen: list[str | None] = []

    async def progress(_: float, __: float | None, message: str | None) -> None:
        seen.append(message)
        knowledge.told.set()

    async def body(client: Client) -> None:
        for _ in range(2):
            await client.call_tool("search_knowledge", {"query": "x"}, progress_callback=progress)

    talk(build_server(knowledge), body, mode=mode)
    assert len(seen) == 1 and "Loading" in seen[0]


def test_a_failing_warm_up_is_logged_and_leaves_the_tools_working(caplog):
    class Broken(FakeKnowledge):
        def warm_up(self) -> None:
            raise RustPanic("no model")

    async def body(client: Client) -> None:
        assert content(await client.call_tool("search_knowledge", {"query": "x"}))["ok"] is True
        while not caplog.records:
            await anyio.sleep(0.01)

    talk(build_server(Broken()), body)
    assert "failed" in caplog.text


def test_status_counts_every_request_also_the_refused_ones():
    async def body(client: Client) -> None:
        await client.call_tool("search_knowledge", {"query": "x"})
        await client.call_tool("search_knowledge", {"query": "x", "k": "abc"})
        counted = content(await client.call_tool("rag_status", {}))["telemetry"]
        assert counted["by_tool"] == {"search_knowledge": 2}
        assert counted["by_status"] == {"ERROR": 1, "OK": 1}
        assert counted["by_reason"] == {"invalid_argument": 1}
        assert counted["by_winner"] == {"docs": 1}

    talk(build_server(FakeKnowledge()), body)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_whatever_the_arguments_the_answer_fits_the_output_schema(data):
    runner = ToolRunner(FakeKnowledge(), Telemetry())
    tool = data.draw(st.sampled_from([spec.name for spec in contract.TOOLS]))
    names = st.sampled_from([*contract.INPUT_SCHEMAS[tool]["properties"], "other"])
    base = {"query": "x"} if tool == "search_knowledge" else {}
    arguments = base | data.draw(st.dictionaries(names, ANY_JSON, max_size=3))
    answer = runner.run(tool, arguments)
    answer.text.encode("utf-8")
    assert answer.text == as_text(answer.payload)
    assert answer.is_error is not answer.payload["ok"]
    Draft202012Validator(contract.OUTPUT_SCHEMAS[tool]).validate(answer.payload)


def test_a_transport_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match="use stdio"):
        anyio.run(partial(serve, FakeKnowledge(), transport="http"))


def test_without_configuration_each_tool_says_what_to_set(caplog):
    runner = ToolRunner(open_knowledge(Config()), Telemetry())
    for tool, arguments in (
        ("search_knowledge", {"query": "x"}),
        ("get_document", {"source": "a.md"}),
        ("list_documents", {}),
        ("list_knowledge_sources", {}),
        ("rag_status", {}),
    ):
        error = runner.run(tool, arguments).payload["error"]
        assert error["type"] == "config_error"
        assert "RAG_MCP_DB_PATH" in error["message"]
    assert "RAG_MCP_DB_PATH" in caplog.text


# --- logging


def restoring_logs(test: Callable[[], None]) -> None:
    root, package = logging.getLogger(), logging.getLogger("rag_mcp")
    before = (list(root.handlers), root.level, package.level)
    try:
        test()
    finally:
        root.handlers[:], _, _ = before
        root.setLevel(before[1])
        package.setLevel(before[2])
        logging.captureWarnings(False)


def test_a_json_log_line_is_one_object_with_its_traceback_inside():
    out = io.StringIO()

    def body() -> None:
        logs.configure(level="info", style="json", stream=out)
        try:
            raise ValueError("why → ✓")
        except ValueError:
            logging.getLogger("rag_mcp.x").exception("it\nbroke")

    restoring_logs(body)
    (line,) = out.getvalue().splitlines()
    entry = json.loads(line)
    assert (entry["level"], entry["logger"], entry["message"]) == ("error", "rag_mcp.x", "it\nbroke")
    assert "why → ✓" in entry["exception"]


def test_a_text_log_message_cannot_forge_a_line_nor_steer_the_terminal():
    out = io.StringIO()

    def body() -> None:
        logs.configure(level="info", stream=out)
        logging.getLogger("rag_mcp.x").info("one\n2026-01-01 ERROR forged \x1b[2J")

    restoring_logs(body)
    assert len(out.getvalue().splitlines()) == 1
    assert "\x1b" not in out.getvalue()


def test_other_libraries_never_log_below_warning():
    out = io.StringIO()

    def body() -> None:
        logs.configure(level="debug", stream=out)
        logging.getLogger("mcp.server").debug("the question was …")
        logging.getLogger("rag_mcp.x").debug("ours")

    restoring_logs(body)
    assert "question" not in out.getvalue()
    assert "ours" in out.getvalue()


# --- as a process


def params(*command: str, **env: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable, args=list(command or ("-m", "rag_mcp")), env=server_env(env), cwd=ROOT
    )


@pytest.mark.parametrize("command", [("-m", "rag_mcp"), (str(ROOT / "run_server.py"),)])
def test_the_official_client_talks_to_the_process_and_a_missing_store_is_an_answer(command, tmp_path):
    async def run() -> None:
        with anyio.fail_after(WAIT_S), (tmp_path / "err").open("w", encoding="utf-8") as errlog:
            async with Client(stdio_client(params(*command), errlog=errlog)) as client:
                assert len((await client.list_tools()).tools) == 5
                result = await client.call_tool("search_knowledge", {"query": "x"})
                assert result.is_error
                assert content(result)["error"]["type"] == "config_error"
                refused = await client.call_tool("search_knowledge", {"query": "x", "sources": "docs"})
                assert content(refused)["error"]["type"] == "invalid_argument"

    anyio.run(run)
    assert "RAG_MCP_DB_PATH" in (tmp_path / "err").read_text(encoding="utf-8")


def test_a_wrong_setting_starts_the_server_and_every_call_names_it():
    with RawServer(env={"RAG_MCP_LOG_LEVEL": "loud"}) as server:
        server.initialize()
        error = server.call("rag_status", {}, id=2)["error"]
        assert error["type"] == "config_error" and "RAG_MCP_LOG_LEVEL" in error["message"]
        assert server.end() == 0


@pytest.mark.parametrize(("name", "value"), [("RAG_MCP_CLIENT_PROFILE", "auditer"), ("RAG_MCP_EMBEDDER", "minilmm")])
def test_a_setting_that_names_what_does_not_exist_is_in_the_log_from_the_start(tmp_path, name, value):
    with RawServer(env={"RAG_MCP_DB_PATH": str(tmp_path / "db"), name: value}) as server:
        server.initialize()
        assert server.end() == 0
        assert name in server.stderr and repr(value) in server.stderr


FAKE_SERVER = """
import logging, os, sys, time
sys.path[:0] = [{tests!r}, {root!r}]
from fake_knowledge import FakeKnowledge
from rag_mcp.server import stdio as server

class Noisy(FakeKnowledge):
    def warm_up(self):
        print("noise while loading", flush=True)
    def search(self, request):
        print("noise from a library", flush=True)
        os.write(1, b"noise from native code\\n")
        if request.query == "slow":
            time.sleep(60)
        return super().search(request)

server.open_knowledge = lambda config: Noisy()
sys.exit(server.main())
"""


@pytest.fixture
def fake_script(tmp_path):
    script = tmp_path / "fake_server.py"
    script.write_text(FAKE_SERVER.format(tests=str(ROOT / "tests"), root=str(ROOT)), encoding="utf-8")
    return script


@pytest.fixture
def fake_command(fake_script):
    return warm_command(fake_script)


@pytest.fixture
def cold_fake_command(fake_script):
    """For what an interpreter does by itself: its locale, its signals, its end."""
    return [sys.executable, str(fake_script)]


def test_stdout_carries_only_the_protocol_in_utf8_whatever_libraries_print_and_the_locale_says(cold_fake_command):
    env = {"LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    with RawServer(*cold_fake_command, env=env) as server:
        server.initialize()
        query = "Arrow → tick ✓ kanji 漢字 emoji 🙂"
        assert server.call("search_knowledge", {"query": query}, id=2)["ok"] is True
        server.send_bytes(
            b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"search_knowledge","arguments":'
            b'{"query":"\\ud83d\\ude42 \\ud800","mode":"\xe2\x86\x92"}}}'
        )
        assert "→" in server.wait_for(3)["result"]["structuredContent"]["error"]["message"]
        assert server.end() == 0
        for line in server.lines:
            assert json.loads(line.decode("utf-8"))["jsonrpc"] == "2.0"
        assert "noise from a library" in server.stderr
        assert "noise from native code" in server.stderr


def test_the_end_of_input_ends_the_process_at_once_even_with_a_search_running(fake_command):
    with RawServer(*fake_command) as server:
        server.initialize()
        server.send("tools/call", {"name": "search_knowledge", "arguments": {"query": "slow"}}, id=2)
        server.ask("ping", id=3)
        started = time.monotonic()
        assert server.end() == 0
        assert time.monotonic() - started < 5
        assert "Traceback" not in server.stderr


def test_a_client_that_leaves_before_the_first_word_ends_the_process():
    with RawServer(*COLD) as server:
        assert server.end() == 0
        assert "Traceback" not in server.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_ends_the_process_cleanly_even_with_a_search_running(name, cold_fake_command):
    with RawServer(*cold_fake_command) as server:
        server.initialize()
        server.send("tools/call", {"name": "search_knowledge", "arguments": {"query": "slow"}}, id=2)
        server.ask("ping", id=3)
        started = time.monotonic()
        server.process.send_signal(getattr(signal, name))
        assert server.wait() == 0
        assert time.monotonic() - started < 5
        assert "Traceback" not in server.stderr


def test_a_slow_client_loses_nothing(fake_command):
    """More answers than a pipe holds are left unread for a while; then all of them arrive, whole."""
    count = 60
    process = subprocess.Popen(
        fake_command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=server_env()
    )
    try:
        frames = [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "slow", "version": "0"}}}]  # fmt: skip
        frames += [{"jsonrpc": "2.0", "id": number, "method": "tools/list"} for number in range(1, count)]
        process.stdin.write(b"".join(json.dumps(frame).encode() + b"\n" for frame in frames))
        process.stdin.flush()
        first = process.stdout.readline()
        assert json.loads(first)["id"] == 0
        time.sleep(0.3)  # long enough to fill the pipe; the outcome must not depend on it
        ids = sorted(json.loads(process.stdout.readline())["id"] for _ in range(count - 1))
        assert ids == list(range(1, count))
        process.stdin.close()
        assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "leaving", "version": "0"}}


class LeavingClient:
    """A server process whose pipes a test closes one at a time."""

    def __init__(self, *command: str, modern: bool = False) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=server_env()
        )
        self.modern = modern

    def __enter__(self) -> LeavingClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError):
                stream.close()

    def send(self, id: int, method: str, **params: Any) -> None:
        if self.modern:
            params["_meta"] = MODERN_META
        frame = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        self.process.stdin.write(json.dumps(frame).encode() + b"\n")
        self.process.stdin.flush()

    def hello(self) -> None:
        if self.modern:
            self.send(1, "server/discover")
        else:
            self.send(1, "initialize", **HELLO)
        assert json.loads(self.process.stdout.readline())["id"] == 1

    def call(self, id: int, tool: str, **arguments: Any) -> None:
        self.send(id, "tools/call", name=tool, arguments=arguments)

    def assert_over(self) -> None:
        """Ended by itself, in time and in silence, while the pipes that were not closed stay open."""
        assert self.process.wait(5) == 0
        assert b"Traceback" not in self.process.stderr.read()


def before_any_word(client: LeavingClient) -> None:
    client.process.stdout.close()


def after_the_handshake(client: LeavingClient) -> None:
    client.hello()
    client.process.stdout.close()


def with_an_answer_to_come(client: LeavingClient) -> None:
    client.hello()
    client.process.stdout.close()
    with contextlib.suppress(BrokenPipeError):  # it may be gone by then
        client.call(2, "rag_status")


def with_a_search_under_way(client: LeavingClient) -> None:
    client.hello()
    client.call(2, "search_knowledge", query="slow")
    client.send(3, "tools/list")
    assert json.loads(client.process.stdout.readline())["id"] == 3
    client.process.stdout.close()


def in_the_middle_of_an_answer(client: LeavingClient) -> None:
    client.hello()
    for number in range(2, 60):
        client.send(number, "tools/list")
    assert client.process.stdout.read(100)
    client.process.stdout.close()


@pytest.mark.skipif(sys.platform == "win32", reason="there the first answer that can't be written ends the process")
@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "modern"])
@pytest.mark.parametrize(
    "leave",
    [before_any_word, after_the_handshake, with_an_answer_to_come, with_a_search_under_way, in_the_middle_of_an_answer],
)
def test_a_client_that_stops_reading_ends_the_process_though_it_keeps_the_other_end_open(fake_command, leave, modern):
    with LeavingClient(*fake_command, modern=modern) as client:
        leave(client)
        client.assert_over()


@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "modern"])
def test_an_answer_that_cannot_be_written_ends_the_process_where_the_pipe_is_not_watched(tmp_path, modern):
    script = tmp_path / "unwatched.py"
    unwatched = FAKE_SERVER.replace("sys.exit(", "server._leave_with_reader = lambda knowledge: None\nsys.exit(")
    script.write_text(unwatched.format(tests=str(ROOT / "tests"), root=str(ROOT)), encoding="utf-8")
    with LeavingClient(*warm_command(script), modern=modern) as client:
        with_an_answer_to_come(client)
        client.assert_over()


def test_a_client_that_closes_its_mouth_and_reads_no_more_ends_the_process(fake_command):
    with LeavingClient(*fake_command) as client:
        client.hello()
        for number in range(2, 60):
            client.send(number, "tools/list")  # more than a pipe holds: the writer waits for a reader
        client.process.stdin.close()
        client.assert_over()


KILLED_PARENT = """
import os, signal, subprocess, sys
child = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=int(sys.argv[1]))
for line in sys.stdin.buffer:
    child.stdin.write(line)
    child.stdin.flush()
child.stdout.readline()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX pipes and signals")
def test_a_killed_parent_leaves_no_server_behind(cold_fake_command):
    slow = {"name": "search_knowledge", "arguments": {"query": "slow"}}
    frames = [("initialize", HELLO), ("tools/call", slow)]
    said = [
        {"jsonrpc": "2.0", "id": i, "method": method, "params": params} for i, (method, params) in enumerate(frames)
    ]
    errors, held = os.pipe()  # nobody but the server holds the writing end: it closes when the server is gone
    command = [sys.executable, "-c", KILLED_PARENT, str(held), *cold_fake_command]
    parent = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[held], env=server_env())
    os.close(held)
    with open(errors, "rb") as stream:
        parent.communicate(b"".join(json.dumps(frame).encode() + b"\n" for frame in said), timeout=WAIT_S)
        assert parent.returncode == -signal.SIGKILL
        ended = threading.Event()
        output: list[bytes] = []
        reader = threading.Thread(target=lambda: (output.append(stream.read()), ended.set()), daemon=True)
        reader.start()
        assert ended.wait(5)
        assert b"Traceback" not in output[0]


def test_importing_the_server_loads_no_model_and_no_index():
    code = (
        "import sys, rag_mcp.server.stdio; "
        "heavy = {'chromadb', 'tantivy', 'onnxruntime', 'tokenizers', 'numpy'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=server_env(), cwd=ROOT, timeout=WAIT_S)


def test_the_contract_loads_nothing_beyond_the_standard_library():
    code = (
        "import sys; before = set(sys.modules); import rag_mcp.server.tools, rag_mcp.logs, rag_mcp.telemetry; "
        "new = {name.partition('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names); "
        "new = {name for name in new if not name.startswith('_sysconfigdata')}; "
        "pydantic = {'pydantic', 'pydantic_core', 'annotated_types', 'typing_extensions', 'typing_inspection'}; "
        "assert new - pydantic == {'rag_mcp'}, new"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=server_env(), cwd=ROOT, timeout=WAIT_S)


# --- over a real store

UNICODE_LINE = "Arrow → tick ✓ kanji 漢字 emoji 🙂 in one line about the ferry bell."
CORPUS = {
    "docs/gate.md": "# Gates\n\nAbout gates.\n\n## Teal gate\n\nThe teal gate opens at dawn.\n",
    "docs/bell.md": f"# Bells\n\n{UNICODE_LINE}\n",
    "docs/lamp.md": "# Lamps\n\nThe heron lamp is lit at six.\n",
    "memory/private.md": "# Private\n\nThe teal gate key hangs behind the heron lamp.\n",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Environment of a server over a small ingested corpus."""
    folder = tmp_path_factory.mktemp("served")
    for name, text in CORPUS.items():
        path = folder / "corpus" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    settings = {
        "RAG_MCP_EMBEDDER": "hash",
        "RAG_MCP_CORPUS_ROOT": str(folder / "corpus"),
        "RAG_MCP_DB_PATH": str(folder / "db"),
    }
    assert forked_cli("ingest", folder / "corpus", "--quiet", env=settings).returncode == 0
    return settings


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_official_client_gets_cited_passages_from_the_real_server(store, mode):
    async def run() -> None:
        with anyio.fail_after(WAIT_S):
            async with Client(stdio_client(params(*warm_command()[1:], **store)), mode=mode) as client:
                schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
                found = content(
                    await client.call_tool("search_knowledge", {"query": "teal gate dawn", "confidence": "normal"})
                )
                best = found["results"][0]["citation"]
                assert best["source"] == "docs/gate.md"
                lines = CORPUS["docs/gate.md"].splitlines()[best["line_start"] - 1 : best["line_end"]]
                assert "The teal gate opens at dawn." in lines
                assert all(not hit["citation"]["source"].startswith("memory/") for hit in found["results"])
                calls: list[tuple[str, dict[str, Any]]] = [
                    ("search_knowledge", {"query": "teal gate", "explain": True, "k": 20, "confidence": "normal"}),
                    ("search_knowledge", {"query": "zzz qqq"}),
                    ("search_knowledge", {"query": "teal", "source_class": "memory"}),
                    ("get_document", {"source": "docs/gate.md"}),
                    ("get_document", {"source": "docs/gate.md", "chunk_index": 0}),
                    ("get_document", {"source": "docs/gate.md", "chunk_index": 99}),
                    ("list_documents", {"limit": 1}),
                    ("list_knowledge_sources", {}),
                    ("rag_status", {}),
                ]
                for tool, arguments in calls:
                    answer = content(await client.call_tool(tool, arguments))
                    Draft202012Validator(schemas[tool]).validate(answer)
                    json.dumps(answer, allow_nan=False)
                hidden, missing = [
                    content(await client.call_tool("get_document", {"source": source}))
                    for source in ("memory/private.md", "memory/other.md")
                ]
                assert hidden == missing and hidden["error"]["type"] == "not_found"

    anyio.run(run)


def test_a_passage_comes_back_character_by_character_under_any_locale(store):
    env = {**store, "LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    with RawServer(*COLD, env=env) as server:
        server.initialize()
        found = server.call("search_knowledge", {"query": "ferry bell", "confidence": "normal"}, id=2)
        assert any(UNICODE_LINE in (hit["text"] or "") for hit in found["results"])
        assert server.end() == 0
        assert "Traceback" not in server.stderr


def test_many_calls_at_once_are_all_answered_alike(store):
    with RawServer(env=store) as server:
        server.initialize()
        asked = {"name": "search_knowledge", "arguments": {"query": "heron lamp", "confidence": "normal"}}
        for number in range(10, 30):
            server.send("tools/call", asked, id=number)
        assert server.call("rag_status", {}, id=9)["ok"] is True
        answers = [server.wait_for(number)["result"]["structuredContent"] for number in range(10, 30)]
        sources = {answer["results"][0]["citation"]["source"] for answer in answers}
        assert sources == {"docs/lamp.md"}
        assert server.end() == 0
