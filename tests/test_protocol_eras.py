"""Both protocol eras on one pipe, by raw frames: a dependency that drops one makes these fail."""

from __future__ import annotations

import json

import pytest
from raw_server import MODERN, MODERN_META, RawServer

from rag_mcp import __version__
from rag_mcp.server import tools as contract

HANDSHAKE_VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
TOOLS = [spec.name for spec in contract.TOOLS]
CLIENT = {"name": "raw", "version": "0"}


@pytest.fixture(scope="module")
def session():
    """One handshaken session; tests that use it leave it alive, and take ids of their own."""
    with RawServer() as server:
        server.initialize()
        yield server
        assert server.end() == 0
        assert "Traceback" not in server.stderr


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
def test_a_handshake_at_each_released_version_works_to_the_end(version):
    with RawServer() as server:
        result = server.initialize(version)["result"]
        assert result["protocolVersion"] == version
        assert result["serverInfo"]["name"] == "rag-mcp"
        assert result["serverInfo"]["version"] == __version__
        assert [tool["name"] for tool in server.ask("tools/list", {}, id=2)["result"]["tools"]] == TOOLS
        called = server.ask("tools/call", {"name": "search_knowledge", "arguments": {"query": "x"}}, id=3)["result"]
        assert called["isError"] is True
        assert called["structuredContent"]["error"]["type"] == "config_error"
        assert called["content"][0]["text"].startswith("Error config_error: ")
        assert server.end() == 0


def test_an_unknown_future_version_is_answered_with_a_supported_one():
    with RawServer() as server:
        assert server.initialize("2099-01-01")["result"]["protocolVersion"] in HANDSHAKE_VERSIONS
        assert len(server.ask("tools/list", {}, id=2)["result"]["tools"]) == len(TOOLS)


def test_the_modern_era_works_without_a_handshake_and_lists_and_answers_the_same(session):
    refused = {"query": "x", "sources": "docs"}
    with RawServer() as server:
        found = server.ask("server/discover", {"_meta": MODERN_META}, id=1)["result"]
        assert MODERN in found["supportedVersions"]
        assert "tools" in found["capabilities"] and "resources" in found["capabilities"]
        assert found["instructions"] == contract.INSTRUCTIONS
        tools = server.ask("tools/list", {"_meta": MODERN_META}, id=2)["result"]["tools"]
        assert tools == session.ask("tools/list", {}, id=100)["result"]["tools"]
        assert server.call("search_knowledge", refused, id=5, _meta=MODERN_META) == session.call(
            "search_knowledge", refused, id=101
        )
        answer = server.call("search_knowledge", {"query": "x"}, id=3, _meta=MODERN_META)
        assert answer["error"]["type"] == "config_error"
        read = server.ask("resources/read", {"uri": contract.CAPABILITIES_URI, "_meta": MODERN_META}, id=4)
        assert json.loads(read["result"]["contents"][0]["text"])["name"] == "rag-mcp"
        assert server.end() == 0


def test_a_modern_call_may_be_the_very_first_frame():
    with RawServer() as server:
        assert server.call("rag_status", {}, id=1, _meta=MODERN_META)["error"]["type"] == "config_error"


@pytest.mark.parametrize(
    ("opening", "second"),
    [
        ((("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}}),), None),
        ((("tools/list", {}),), None),
        ((("server/discover", {"_meta": MODERN_META}),), ("initialize", "2025-06-18")),
        ((), None),
    ],
    ids=["initialize without clientInfo", "request before any handshake", "modern, then initialize", "nothing"],
)
def test_an_opening_outside_the_rules_gets_a_well_formed_answer_and_harms_nothing(opening, second):
    with RawServer() as server:
        for number, (method, params) in enumerate(opening, 1):
            reply = server.ask(method, params, id=number)
            assert reply["jsonrpc"] == "2.0" and ("result" in reply) != ("error" in reply)
        if second:
            version = {"protocolVersion": second[1], "capabilities": {}, "clientInfo": CLIENT}
            error = server.ask(second[0], version, id=8)["error"]
            assert error["code"] == -32022 and MODERN in error["data"]["supported"]
            assert server.call("rag_status", {}, id=9, _meta=MODERN_META)["ok"] is False
        else:
            assert "result" in server.initialize(id=10)
            assert server.call("rag_status", {}, id=11)["ok"] is False
        assert server.end() == 0


def test_a_modern_envelope_after_a_handshake_is_refused_and_the_session_lives(session):
    assert session.ask("tools/list", {"_meta": MODERN_META}, id=110)["error"]["code"] == -32600
    assert "result" in session.ask("tools/list", {}, id=111)


def test_initializing_twice_or_pinging_early_harms_nothing():
    with RawServer() as server:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}
        assert "result" in server.ask("initialize", params, id=1)
        assert server.ask("ping", id=2)["result"] == {}
        second = server.ask("initialize", params, id=3)
        assert ("result" in second) != ("error" in second)
        server.send("notifications/initialized")
        assert "result" in server.ask("tools/list", {}, id=4)


GARBAGE = [
    b"", b"   ", b"{", b"nonsense", b"\xff\xfe\x00", b"[]", b"[1,2]", b"null", b"42", b'"text"', b'{"jsonrpc":"2.0"}',
    b"{" * 2000, b"[" * 100_000, b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}', b'{"a":' * 300 + b"1" + b"}" * 300,
    b'{"jsonrpc":"2.0","id":77,"result":{}}', b'{"jsonrpc":"2.0","method":"notifications/unknown"}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":12345}}',
]  # fmt: skip


def test_garbage_in_a_session_gets_no_reply_and_the_next_call_is_answered(session):
    before = len(session.lines)
    for line in GARBAGE:
        session.send_bytes(line)
    assert session.call("rag_status", {}, id=120)["ok"] is False
    assert [json.loads(line)["id"] for line in session.lines[before:]] == [120]


def test_garbage_before_the_first_request_does_not_decide_the_era():
    with RawServer() as server:
        for line in GARBAGE:
            server.send_bytes(line)
        assert server.call("rag_status", {}, id=99, _meta=MODERN_META)["ok"] is False
        assert [json.loads(line)["id"] for line in server.lines] == [99]
        assert server.end() == 0
        assert "Traceback" not in server.stderr


@pytest.mark.parametrize(
    ("line", "ids"),
    [
        (b'{"jsonrpc":"2.0","id":130,"method":5}', [130]),
        (b'{"jsonrpc":"2.0","id":131,"method":"tools/list","params":[1]}', [131]),
        (b'{"jsonrpc":"1.0","id":132,"method":"tools/list"}', [132]),
        (b'[{"jsonrpc":"2.0","id":133,"method":"ping"},{"jsonrpc":"2.0","id":134,"method":"ping"}]', [133, 134]),
    ],
)
def test_an_unusable_request_with_an_id_is_refused_and_not_left_waiting(session, line, ids):
    session.send_bytes(line)
    assert [session.wait_for(number)["error"]["code"] for number in ids] == [-32600] * len(ids)


def test_an_unknown_method_is_method_not_found(session):
    assert session.ask("no/such", {}, id=140)["error"]["code"] == -32601


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":150,"method":"tools/call","params":'
        b'{"name":"search_knowledge","arguments":{"query":"\\ud800","\\udfff":1}}}',
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":150,"method":"tools/call","params":{"name":"rag_status","arguments":{}}}',
    ],
    ids=["lone surrogates", "byte order mark"],
)
def test_a_request_the_parser_refuses_over_a_trifle_is_answered(session, line):
    session.send_bytes(line)
    assert session.wait_for(150)["result"]["structuredContent"]["ok"] is False
