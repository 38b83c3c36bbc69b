"""The bridge: a process on stdio that answers as the server on stdio does, from the warm server of its store."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading

import anyio
import pytest
from cli_process import COLD, warm_command
from http_daemon import WAIT_S, Daemon, Place, memory_mb
from hypothesis import given
from hypothesis import strategies as st
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.inbound import decode_header_value, encode_header_value
from raw_server import MODERN, MODERN_META, RawServer, server_env

from rag_mcp.config import Config
from rag_mcp.errors import ServerGone
from rag_mcp.server.http.bridge import Bridge, headers_of
from rag_mcp.server.http.client import Reply
from rag_mcp.server.http.life import life_of

SEARCH = {"query": "teal gate", "confidence": "normal", "k": 20}


@pytest.fixture
def place(tmp_path):
    """Whatever server was started for it ends with the test."""
    place = Place(tmp_path).fill()
    yield place
    life_of(Config.load(place.settings), place.settings).stop(WAIT_S)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("bridged")).fill()
    with Daemon(place, "--on-demand") as daemon:
        yield place, daemon


def bridge(place: Place, profile: str = "auditor", *command: str, **env: str) -> RawServer:
    settings = {**place.settings, "RAG_MCP_CLIENT_PROFILE": profile, **env}
    return RawServer(*(command or [*warm_command(), "connect"]), env=settings)


def modern(tool: str, arguments: object) -> dict[str, object]:
    return {"name": tool, "arguments": arguments, "_meta": MODERN_META}


# --- as the server on stdio does --------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["auditor", "restricted", "", "Auditor"])
def test_a_host_is_answered_under_its_profile_as_by_the_server_on_stdio(served, profile):
    place, daemon = served
    plain = RawServer(env={**place.settings, "RAG_MCP_CLIENT_PROFILE": profile})
    with bridge(place, profile) as bridged, plain:
        for number, server in enumerate((bridged, plain)):
            assert server.initialize()["result"]["serverInfo"]["name"] == "rag-mcp", number
        for number, (tool, arguments) in enumerate(
            [
                ("search_knowledge", SEARCH),
                ("get_document", {"source": "memory/private.md"}),
                ("list_documents", {}),
                ("x", {}),
            ],
            start=2,
        ):
            asked = {"name": tool, "arguments": arguments}
            assert bridged.ask("tools/call", asked, id=number) == plain.ask("tools/call", asked, id=number)
        assert bridged.ask("tools/list", {}, id=9) == plain.ask("tools/list", {}, id=9)
        assert bridged.end() == 0


def test_the_era_without_a_handshake_passes_too(served):
    place, _ = served
    with bridge(place) as server:
        found = server.ask("server/discover", {"_meta": MODERN_META}, id=1)
        assert MODERN in found["result"]["supportedVersions"]
        assert server.ask("tools/call", modern("search_knowledge", SEARCH), id="two")["result"]["structuredContent"][
            "ok"
        ]
        name = "größe\n=?base64?"
        assert "Unknown tool" in server.ask("tools/call", modern(name, {}), id=3)["error"]["message"]
        read = {"uri": "rag-mcp://capabilities", "_meta": MODERN_META}
        assert server.ask("resources/read", read, id=4)["result"]["contents"]
        assert server.ask("no/such", {"_meta": MODERN_META}, id=5)["error"]["code"] == -32601


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_official_client_gets_its_answers(served, mode):
    place, _ = served
    command, *arguments = [*warm_command(), "connect"]
    env = server_env({**place.settings, "RAG_MCP_CLIENT_PROFILE": "auditor"})

    async def run() -> None:
        with anyio.fail_after(2 * WAIT_S):
            async with Client(
                stdio_client(StdioServerParameters(command=command, args=arguments, env=env)), mode=mode
            ) as client:
                assert len((await client.list_tools()).tools) == 5
                async with anyio.create_task_group() as tasks:
                    for _ in range(20):
                        tasks.start_soon(client.call_tool, "search_knowledge", SEARCH)
                assert (await client.call_tool("rag_status", {})).structured_content["ok"]

    anyio.run(run)


def test_what_is_no_request_harms_nothing(served):
    place, _ = served
    with bridge(place) as server:
        server.initialize()
        for line in (
            b"",
            b"{",
            b"[" * 9_000,
            b"null",
            b"7",
            b'{"jsonrpc":"2.0","result":{},"id":5}',
            b'{"id":6}',
            b"\xff",
        ):
            server.send_bytes(line)
        server.send_bytes(b'[{"jsonrpc":"2.0","id":7,"method":"ping"}]')
        assert "batches" in server.wait_for(7)["error"]["message"]
        odd = b'{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"search_knowledge","arguments":{"query":"gate \\ud800 \\ud83d\\ude42"}}}'
        server.send_bytes(odd)
        assert server.wait_for(8)["result"]["structuredContent"]["ok"]
        long = {"name": "search_knowledge", "arguments": {"query": "x" * 300_000}}
        assert "256 KB" in server.ask("tools/call", long, id=9)["error"]["message"]
        assert server.ask("ping", {}, id=10)["result"] == {}
        assert server.end() == 0 and not [line for line in server.lines if json.loads(line).get("id") in (5, 6)]


# --- where the server comes from --------------------------------------------------------------------------------------


def test_the_first_host_starts_the_server_all_others_share_it_and_it_outlives_them(place):
    with bridge(place) as first, bridge(place, "restricted") as second:
        together = [threading.Thread(target=each.initialize) for each in (first, second)]
        for thread in together:
            thread.start()
        for thread in together:
            thread.join(4 * WAIT_S)
        assert (
            first.call("search_knowledge", SEARCH, id=2)["ok"] and second.call("search_knowledge", SEARCH, id=2)["ok"]
        )
        assert first.end() == second.end() == 0
    there = life_of(Config.load(place.settings), place.settings).running()
    assert there is not None
    with bridge(place) as third:
        assert third.call("search_knowledge", SEARCH, id=1)["ok"]
    assert place.run("serve", "--status").stdout.startswith(f"Running: {there.url}")


def test_a_call_after_the_servers_end_starts_it_again(place):
    with Daemon(place, "--on-demand") as daemon, bridge(place) as server:
        server.initialize()
        pid = daemon.pid
        os.kill(pid, 9)
        daemon.process.wait(WAIT_S)
        assert server.call("search_knowledge", SEARCH, id=2)["ok"]
        assert daemon.pid != pid


def test_why_there_is_no_server_is_said_to_the_host_at_each_call(place):
    with bridge(place, RAG_MCP_LOG_LEVEL="loud") as server:
        for number in (1, 2):
            error = server.ask("tools/call", modern("rag_status", {}), id=number)["error"]
            assert "RAG_MCP_LOG_LEVEL" in error["message"]
    place.token_file.parent.joinpath("state").write_text("no folder")
    with bridge(place) as server:
        message = server.ask("ping", {}, id=1)["error"]["message"]
        assert "can't be written" in message and str(place.folder) not in message
        assert server.end() == 0 and str(place.folder) in server.stderr
    place.token_file.parent.joinpath("state").unlink()


def test_a_server_with_another_policy_is_not_asked(served, tmp_path):
    place, daemon = served
    (tmp_path / "closed.yaml").write_text('deny: ["docs/**"]\n')
    with bridge(place, RAG_MCP_POLICY=str(tmp_path / "closed.yaml")) as server:
        error = server.ask("tools/call", modern("search_knowledge", SEARCH), id=1)["error"]
        assert "other settings" in error["message"] and "serve --stop" in error["message"]


# --- what it costs ----------------------------------------------------------------------------------------------------


def loaded(*arguments: str, env: dict[str, str]) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=WAIT_S,
        check=True,
    )
    return {line.rsplit("|", 1)[1].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line}


def test_it_starts_with_the_standard_library_alone(served):
    place, _ = served
    env = server_env(place.settings)
    names = loaded("-m", "rag_mcp", "connect", env=env) - loaded("-c", "pass", env=env)
    jython = "org"  # the standard library's copy looks for it
    assert "rag_mcp" in names and names <= sys.stdlib_module_names | {"rag_mcp", jython}


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_it_stays_below_25_mb(served):
    place, _ = served
    with bridge(place, "auditor", *COLD, "connect") as server:
        server.initialize()
        for number in range(2, 12):
            assert server.call("search_knowledge", SEARCH, id=number)["ok"]
        assert memory_mb(server.process.pid) < 25


# --- pure -------------------------------------------------------------------------------------------------------------


class SlowServer:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked = threading.Semaphore(0)
        self.go = threading.Event()

    def ask(self, body: bytes, headers: object) -> Reply:
        self.asked.release()
        assert self.go.wait(WAIT_S)
        return Reply(200, b'{"jsonrpc":"2.0","id":null,"result":{}}')


def test_a_call_that_was_taken_back_is_not_answered_and_others_are():
    out, server = io.BytesIO(), SlowServer()
    one = Bridge(server, out)
    for number in (1, 2):
        one.take(json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call"}).encode())
    assert all(server.asked.acquire(timeout=WAIT_S) for _ in range(2))
    for params in ({"requestId": 1}, {"requestId": 99}, None, []):
        one.take(json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).encode())
    server.go.set()
    one.finish()
    assert [json.loads(line)["id"] for line in out.getvalue().splitlines()] == [2]


def test_whatever_fails_is_an_answer_to_its_call():
    class Failing:
        def __init__(self, failure: BaseException | Reply) -> None:
            self.failure = failure

        def ask(self, body: bytes, headers: object) -> Reply:
            if isinstance(self.failure, Reply):
                return self.failure
            raise self.failure

    told = []
    for failure in (
        ServerGone("it is gone"),
        ZeroDivisionError(),
        Reply(500, b"<html>"),
        Reply(429, b'{"message": "again"}'),
    ):
        out = io.BytesIO()
        one = Bridge(Failing(failure), out)
        one.take(b'{"jsonrpc":"2.0","id":"a","method":"ping"}')
        one.finish()
        (reply,) = map(json.loads, out.getvalue().splitlines())
        assert reply["id"] == "a"
        told.append(reply["error"]["message"])
    assert told[0] == "it is gone" and "ZeroDivisionError" in told[1] and "500" in told[2] and told[3] == "again"


def test_a_message_is_named_in_its_headers_as_its_era_wants():
    legacy = {"method": "tools/call", "params": {"name": "x"}}
    assert headers_of(legacy, "") == {} and headers_of({"method": "x", "params": [1]}, "") == {}
    assert headers_of(legacy, "2025-11-25") == {"MCP-Protocol-Version": "2025-11-25"}
    assert headers_of({"method": "tools/call", "params": modern("a b", {})}, "2025-11-25") == {
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "a b",
    }


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_name_comes_out_of_its_header_as_it_went_in(name):
    written = headers_of({"method": "tools/call", "params": modern(name, {})}, "")["Mcp-Name"]
    assert decode_header_value(written) == name and written.isascii()
    assert written == encode_header_value(name) or not name


def test_the_bridge_is_a_command_among_the_others():
    done = subprocess.run(
        [*warm_command(), "--help"], capture_output=True, encoding="utf-8", timeout=WAIT_S, env=server_env()
    )
    assert "connect" in done.stdout
