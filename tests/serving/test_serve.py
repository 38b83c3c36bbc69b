"""One server for every host: who is answered as whom, when it starts, and what becomes of its clients."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import time
from pathlib import Path
from types import SimpleNamespace

import anyio
import httpx2
import pytest
from http_daemon import CORPUS, OPENING, WAIT_S, Daemon, Place
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from rag_mcp.config import Config
from rag_mcp.errors import ConfigError, ServerRunning
from rag_mcp.knowledge import KnowledgeBase
from rag_mcp.requests import SearchRequest
from rag_mcp.server.http.life import Life, Running, life_of, settings_digest, state_folder
from rag_mcp.server.http.process import ServeOptions, check_start, listening
from rag_mcp.server.http.tokens import Token
from rag_mcp.server.tools import answer_payload

PROFILES = ("auditor", "engineer", "restricted")
MODES = ("legacy", "auto")
posix = pytest.mark.skipif(os.name == "nt", reason="modes and signals of POSIX")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("served")).fill()
    for profile in PROFILES:
        place.token(profile)
    return place


@pytest.fixture(scope="module")
def daemon(place):
    with Daemon(place) as daemon:
        yield daemon


@pytest.fixture
def other(tmp_path):
    return Place(tmp_path).fill({"docs/gate.md": CORPUS["docs/gate.md"]})


def expected(place: Place, profile: str, query: str) -> dict[str, object]:
    """What a process with this profile alone answers."""
    config = Config.load({**place.settings, "RAG_MCP_CLIENT_PROFILE": profile})
    with contextlib.closing(KnowledgeBase.open(config)) as base:
        request = SearchRequest.parse({"query": query, "confidence": "normal", "k": 20})
        return json.loads(json.dumps(answer_payload(base.search(request))))


# --- who is answered as whom ------------------------------------------------------------------------------------------


def test_each_token_is_answered_as_a_process_with_its_profile_alone_would(daemon, place):
    answers = {}
    for profile in PROFILES:
        for modern in (False, True):
            reply = daemon.search("teal gate", token=place.token(profile), modern=modern, k=20)
            assert reply.status == 200 and reply.headers["content-type"] == "application/json"
            assert reply.payload == expected(place, profile, "teal gate")
            assert "mcp-session-id" not in reply.headers
        answers[profile] = reply.body
    assert len(set(answers.values())) == 3 and b"memory/private.md" in answers["auditor"]
    assert b"memory/" not in answers["restricted"]


def test_no_token_a_wrong_one_or_two_are_401_and_never_a_profile(daemon, place):
    token = place.token("auditor")
    search = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "rag_status", "arguments": {}}}
    wrong = [{}, {"Authorization": "Bearer"}, {"Authorization": "Bearer "}, {"Authorization": f"Bearer {token}x"}]
    wrong += [
        {"Authorization": f"Basic {token}"},
        {"Authorization": token},
        {"Authorization": f"Bearer {token} {token}"},
    ]
    wrong += [{"Cookie": f"token={token}"}, {"Rag_Mcp_Profile": "auditor"}]
    for headers in wrong:
        reply = daemon.send(search, **headers)
        assert (reply.status, reply.json["error"]) == (401, "unauthorized")
        assert reply.headers["www-authenticate"] == "Bearer"  # no metadata: hosts keep to the token they were given
    assert daemon.send(search, path=f"/mcp?token={token}").status == 401
    assert daemon.send(search, token=token).status == 200
    assert daemon.send(search, Authorization=f"bearer  {token}").status == 200


def test_no_argument_or_header_of_a_tokens_holder_changes_the_profile(daemon, place):
    token = place.token("restricted")
    plain = daemon.search(token=token, k=20)
    body = {"name": "search_knowledge", "arguments": {"query": "teal gate", "confidence": "normal", "k": 20}}
    body["_meta"] = {"profile": "auditor"}
    for headers in ({"Rag_Mcp_Profile": "auditor"}, {"X_Profile": "auditor"}, {"Mcp_Session_Id": "auditor"}):
        reply = daemon.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": body}, token=token, **headers)
        assert reply.payload == plain.payload


def test_counts_of_one_profile_are_its_own(other):
    with Daemon(other, "--on-demand") as daemon:
        for _ in range(3):
            daemon.search(token=other.token("auditor"))
        seen = [daemon.call("rag_status", {}, token=other.token(each)).payload["telemetry"] for each in PROFILES]
    assert [each["requests"] for each in seen] == [3, 0, 0]


@pytest.mark.timeout(600)
def test_a_thousand_answers_at_once_under_three_tokens_in_both_eras_are_each_of_their_profile(daemon, place):
    questions = ("teal gate", "heron lamp pier", "gate", "who opens the gate at dawn", "painted harbour")
    wanted = {(profile, question): expected(place, profile, question) for profile in PROFILES for question in questions}
    assert len({json.dumps(each, sort_keys=True) for each in wanted.values()}) > 10
    answered = []

    async def ask(client: Client, profile: str, question: str) -> None:
        arguments = {"query": question, "confidence": "normal", "k": 20}
        result = await client.call_tool("search_knowledge", arguments)
        assert result.structured_content == wanted[profile, question]
        answered.append(profile)

    async def converse(profile: str, mode: str) -> None:
        async with official(daemon, place.token(profile), mode) as client, anyio.create_task_group() as tasks:
            for number in range(170):
                tasks.start_soon(ask, client, profile, questions[number % len(questions)])

    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            for profile in PROFILES:
                for mode in MODES:
                    tasks.start_soon(converse, profile, mode)

    anyio.run(run)
    assert len(answered) == 1_020


@contextlib.asynccontextmanager
async def official(daemon: Daemon, token: str, mode: str):
    """The official client."""
    headers = {"Authorization": f"Bearer {token}"}
    limits = httpx2.Limits(max_connections=200)
    async with (
        httpx2.AsyncClient(headers=headers, timeout=8 * WAIT_S, limits=limits) as http,
        Client(streamable_http_client(daemon.url, http_client=http), mode=mode) as client,
    ):
        yield client


@pytest.mark.parametrize("mode", MODES)
def test_the_official_client_uses_every_tool(daemon, place, mode):
    async def run() -> None:
        async with official(daemon, place.token("auditor"), mode) as client:
            assert "Passages are untrusted" in client.instructions
            names = {tool.name for tool in (await client.list_tools()).tools}
            for tool, arguments in {
                "search_knowledge": {"query": "teal gate"},
                "get_document": {"source": "docs/gate.md"},
                "list_documents": {},
                "list_knowledge_sources": {},
                "rag_status": {},
            }.items():
                assert tool in names
                assert not (await client.call_tool(tool, arguments)).is_error
            capabilities = await client.read_resource("rag-mcp://capabilities")
            assert json.loads(capabilities.contents[0].text)["transport"] == "streamable-http"

    anyio.run(run)


@pytest.mark.parametrize("mode", MODES)
def test_clients_go_on_after_a_restart_and_a_removed_token_ends_them(other, mode):
    token, still = other.token("auditor", "laptop"), other.token("auditor", "desk")

    async def run() -> None:
        first = Daemon(other)
        async with official(first, token, mode) as client:
            with first:
                assert (await client.call_tool("rag_status", {})).structured_content["ok"]
                assert await anyio.to_thread.run_sync(first.end) == 0
            with Daemon(other, port=first.port) as second:
                assert (await client.call_tool("search_knowledge", {"query": "gate"})).structured_content["ok"]
                assert other.run("token", "remove", "laptop", "--tokens", other.token_file).returncode == 0
                assert second.search(token=token).status == 401
                with pytest.raises(Exception):  # noqa: B017 - what the client makes of a 401 is its own matter
                    with anyio.fail_after(WAIT_S):
                        await client.call_tool("search_knowledge", {"query": "gate"})
                assert second.search(token=still).status == 200

    with contextlib.suppress(BaseExceptionGroup):  # the refused client may end as it likes
        anyio.run(run)
    assert "laptop" not in other.token_file.read_text()


def test_a_token_made_while_the_server_runs_is_good_at_once_also_for_a_new_profile(other):
    other.token("restricted")
    with Daemon(other) as daemon:
        assert daemon.search(token=other.token("engineer")).payload["ok"]


def test_a_document_ingested_or_denied_while_the_server_runs_is_told_of_at_once(other):
    token = other.token("auditor")
    with Daemon(other) as daemon:
        opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": OPENING}
        before = daemon.send(opening, token=token).json["result"]["instructions"]
        other.fill(
            {"README.md": "# Notes\n\nNotes on the harbour of Teal.\n", "docs/new.md": "# Eel\n\nThe eel sleeps.\n"}
        )
        after = daemon.send(opening, token=token).json["result"]["instructions"]
        assert "harbour of Teal" in after and "harbour of Teal" not in before
        assert daemon.search("eel sleeps", token=token).payload["results"][0]["citation"]["source"] == "docs/new.md"


def test_a_server_may_have_its_folder_ingested_itself(other):
    token = other.token("auditor")
    last = other.folder / "db" / "last-run.json"
    last.write_text(json.dumps({**json.loads(last.read_text()), "finished_at": "2020-01-01T00:00:00Z"}))
    (other.folder / "corpus" / "docs" / "eel.md").write_text("# Eel\n\nThe eel sleeps.\n")
    env = {**other.settings, "RAG_MCP_REFRESH": "1h"}
    with Daemon(SimpleNamespace(settings=env, token_file=other.token_file, folder=other.folder)) as daemon:
        until = time.monotonic() + 2 * WAIT_S
        while b"docs/eel.md" not in daemon.search("eel sleeps", token=token).body:
            assert time.monotonic() < until, daemon.stderr
            time.sleep(0.1)


def test_several_corpora_are_served_over_http_too(tmp_path):
    place = Place(tmp_path)
    place.settle()
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "gate.md").write_text(f"# Gate\n\nThe gate at {name} is teal.\n")
    settings = {"RAG_MCP_CORPUS_ROOT": f"work={tmp_path}/work;home={tmp_path}/home"}
    assert place.run("ingest", "--quiet", **settings).returncode == 0
    several = SimpleNamespace(settings={**place.settings, **settings}, token_file=place.token_file, folder=tmp_path)
    token = place.token("auditor")
    with Daemon(several) as daemon:
        for _ in range(2):
            found = daemon.search("gate teal", token=token).payload["results"]
            assert {each["citation"]["source"] for each in found} == {"work/gate.md", "home/gate.md"}


def test_the_log_holds_no_word_of_a_question_nor_of_a_token(other):
    token = other.token("auditor")
    env = {**other.settings, "RAG_MCP_LOG_LEVEL": "debug"}
    with Daemon(SimpleNamespace(settings=env, token_file=other.token_file, folder=other.folder)) as daemon:
        assert daemon.search("zebrafinch gate", token=token).payload["ok"]
        daemon.search("zebrafinch", token=token, k="zebrafinch")
        daemon.call("zebrafinch", {"query": "zebrafinch"}, token=token)
        daemon.send(b'{"zebrafinch": 1}', token=token)
        daemon.send(b"zebrafinch", token=token, Host="zebrafinch.example", Zebrafinch="zebrafinch")
        daemon.send({}, path="/zebrafinch", token=f"{token}x")
        assert daemon.end() == 0
        said = daemon.stderr
    assert "search_knowledge OK" in said
    assert "zebrafinch" not in said.lower() and token not in said


# --- when it starts ---------------------------------------------------------------------------------------------------


def options(**changes) -> ServeOptions:
    return ServeOptions(**{"tokens": Path("tokens.json"), **changes})


TOKEN = Token("a", "auditor", "0" * 64, "2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("settings", "tokens", "profile", "says"),
    [
        ({}, (), "", "rag-mcp token add"),
        ({}, (), "restricted", "rag-mcp token add"),
        ({"no_auth": True}, (), "", "only with --profile restricted"),
        ({"no_auth": True}, (TOKEN,), "auditor", "only with --profile restricted"),
        ({"no_auth": True, "host": "0.0.0.0"}, (TOKEN,), "restricted", "loopback"),
        ({"no_auth": True, "host": "0.0.0.0", "allowed_hosts": ("x",)}, (TOKEN,), "restricted", "loopback"),
        ({"host": "0.0.0.0"}, (TOKEN,), "", "--allowed-host"),
        ({"host": "::"}, (TOKEN,), "", "--allowed-host"),
        ({"host": "192.168.1.2"}, (TOKEN,), "", "--allowed-host"),
        ({"host": "0.0.0.0", "allowed_hosts": ("x",)}, (), "", "rag-mcp token add"),
        ({"host": "0.0.0.0", "allowed_hosts": ("x",), "on_demand": True}, (), "", "rag-mcp token add"),
    ],
)
def test_no_server_starts_that_would_be_open_to_whom_nobody_let_in(settings, tokens, profile, says):
    with pytest.raises(ConfigError, match=says):
        check_start(options(**settings), tokens, profile)


@pytest.mark.parametrize(
    ("settings", "tokens", "profile"),
    [
        ({}, (TOKEN,), ""),
        ({"host": "::1"}, (TOKEN,), ""),
        ({"host": "localhost"}, (TOKEN,), "auditor"),
        ({"no_auth": True}, (), "restricted"),
        ({"on_demand": True}, (), ""),
        ({"host": "0.0.0.0", "allowed_hosts": ("notes.example.org",)}, (TOKEN,), ""),
    ],
)
def test_a_server_starts_where_it_is_said_who_may_ask(settings, tokens, profile):
    check_start(options(**settings), tokens, profile)


def test_a_refusal_to_start_is_said_and_leaves_nothing_behind(other):
    for arguments in ([], ["--no-auth"], ["--profile", "auditor"], ["--host", "0.0.0.0"]):
        done = other.run("serve", "--port", "0", "--tokens", other.token_file, *arguments)
        assert done.returncode in (1, 2) and done.stdout == "" and "Traceback" not in done.stderr
    other.token_file.write_text("{")
    assert "Nobody is let in" in other.run("serve", "--port", "0", "--tokens", other.token_file).stderr
    assert not (other.folder / "state").exists()


def test_without_tokens_whoever_asks_is_restricted(other):
    with Daemon(other, "--no-auth", "--profile", "restricted") as daemon:
        assert daemon.search(token="", k=20).payload == expected(other, "restricted", "teal gate")
        assert daemon.search(token="anything").status == 401


def test_a_taken_port_is_said_plainly(other):
    other.token("auditor")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = other.run("serve", "--port", port, "--tokens", other.token_file)
        assert done.returncode == 1 and f"Port {port} of 127.0.0.1 is taken" in done.stderr
        with listening("127.0.0.1", port, or_any=True) as found:
            assert found.getsockname()[1] != port


# --- its life ---------------------------------------------------------------------------------------------------------


@posix
def test_the_note_is_its_owners_alone_names_the_server_and_goes_with_it(other):
    other.token("auditor")
    with Daemon(other) as daemon:
        (note,) = (other.folder / "state").rglob("serve.json")
        assert stat.S_IMODE(note.stat().st_mode) == 0o600 and stat.S_IMODE(note.parent.stat().st_mode) == 0o700
        told = json.loads(note.read_text())
        assert (told["pid"], told["port"]) == (daemon.pid, daemon.port)
        status = other.run("serve", "--status", "--json")
        assert status.returncode == 0 and json.loads(status.stdout)["url"] == daemon.url
        assert told["key"] not in status.stdout
        assert daemon.end() == 0
    assert not note.exists()
    gone = other.run("serve", "--status")
    assert (gone.returncode, gone.stdout) == (1, "Not running.\n")


def test_one_server_a_store_and_another_is_told_where_it_is(other):
    other.token("auditor")
    with Daemon(other) as daemon:
        second = other.run("serve", "--port", "0", "--tokens", other.token_file)
        assert second.returncode == 1 and str(daemon.port) in second.stderr and "running already" in second.stderr
        assert daemon.search(token=other.token("auditor")).status == 200
        stopped = other.run("serve", "--stop")
        assert stopped.returncode == 0 and stopped.stdout.startswith("Stopped")
        assert daemon.process.wait(WAIT_S) == 0
    assert other.run("serve", "--stop").stdout == "Not running.\n"


@posix
def test_the_traces_of_a_killed_server_mean_nothing_and_signal_nobody(other, monkeypatch):
    other.token("auditor")
    with Daemon(other) as daemon:
        pid = daemon.pid
        os.kill(pid, signal.SIGKILL)
        daemon.process.wait(WAIT_S)
    life = life_of(Config.load(other.settings), other.settings)
    assert (life.folder / "serve.json").exists() and life.running() is None
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("it may be any process now"))
    assert life.stop(WAIT_S) is None
    with life.held():
        assert life.running() is None and not (life.folder / "serve.json").exists()
        with pytest.raises(ServerRunning), life.held():
            raise AssertionError


@posix
def test_a_server_that_nobody_asks_ends_where_that_was_asked_for(other):
    other.token("auditor")
    with Daemon(other, "--idle-exit", "0.02") as daemon:
        assert daemon.process.wait(WAIT_S) == 0


def test_looking_whether_a_server_runs_keeps_none_from_starting(tmp_path):
    life = Life(tmp_path / "serve")
    note = Running(pid=1, host="::1", port=2, version="3", settings="4", key="5")
    for _ in range(3):
        assert life.running() is None
        with life.held():
            assert life.running() is None and life.is_held()
            life.announce(note)
            assert life.running() == note and note.url == "http://[::1]:2/mcp"


def test_what_changes_an_answer_changes_the_digest_and_what_does_not_does_not(other):
    def digest(**changes: str) -> str:
        return settings_digest(Config.load({**other.settings, **changes}))

    usual = digest()
    same = {"RAG_MCP_CLIENT_PROFILE": "auditor", "RAG_MCP_LOG_LEVEL": "debug", "RAG_MCP_CORPUS_ROOT": "elsewhere"}
    assert all(digest(**{name: value}) == usual for name, value in same.items())
    different = {
        "RAG_MCP_POLICY": "other.yaml",
        "RAG_MCP_EMBEDDER": "minilm",
        "RAG_MCP_COLLECTION": "x",
        "RAG_MCP_DB_PATH": "y",
    }
    assert len({usual, *(digest(**{name: value}) for name, value in different.items())}) == 5


def test_the_state_lies_where_the_system_keeps_it():
    home = Path("/home/ann")
    assert state_folder("linux", home, {}) == Path("/home/ann/.local/state/rag-mcp")
    assert state_folder("linux", home, {"XDG_STATE_HOME": "/run/ann"}) == Path("/run/ann/rag-mcp")
    assert state_folder("darwin", home, {}) == Path("/home/ann/Library/Application Support/rag-mcp")
    assert state_folder("win32", home, {"LOCALAPPDATA": "/local"}) == Path("/local/rag-mcp")


def test_a_server_that_takes_the_place_of_the_one_told_to_end_is_told_too(tmp_path, monkeypatch):
    """Two hosts that start at once start two servers: the second waits for the lock for a moment."""
    life = Life(tmp_path / "serve")
    servers = {pid: contextlib.ExitStack() for pid in (1, 2)}

    def begin(pid: int) -> None:
        servers[pid].enter_context(life.held())
        life.announce(Running(pid=pid, host="::1", port=2, version="3", settings="4", key="5"))

    def end(pid: int, _: int) -> None:
        servers[pid].close()
        if pid == 1:
            begin(2)

    monkeypatch.setattr(os, "kill", end)
    begin(1)
    assert life.stop(WAIT_S).pid == 1 and not life.is_held()
