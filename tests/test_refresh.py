"""RAG_MCP_REFRESH: a server that has its folder ingested, and writes nothing itself."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from cli_process import forked_cli
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st
from raw_server import WAIT_S, RawServer

from rag_mcp.config import Config
from rag_mcp.errors import ConfigError
from rag_mcp.intervals import Interval
from rag_mcp.server import refresh as module
from rag_mcp.server.hosts import server_env
from rag_mcp.server.refresh import Refresh, ingest_arguments, seconds_left

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


@pytest.fixture
def notes(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "kiln.md").write_text("# Kiln\n\nThe glaze firing holds 1240 degrees for an hour.\n", encoding="utf-8")
    return folder


def config_of(notes, **more):
    return Config.load({"RAG_MCP_EMBEDDER": "hash", "RAG_MCP_REFRESH": "5m", **more}, corpus_root=notes)


def wait_until(said):
    deadline = time.monotonic() + WAIT_S
    while not said():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def started():
    """Starts what is closed again at the end."""
    running = []

    def start(config):
        running.append(Refresh(config, first_wait=0))
        running[-1].start()
        return running[-1]

    yield start
    for each in running:
        each.close()


def test_the_folder_is_ingested_with_the_settings_of_the_server_wherever_it_runs(notes, tmp_path, started, monkeypatch):
    policy = tmp_path / "policy.yaml"
    policy.write_text("deny: ['drafts/**']\n", encoding="utf-8")
    (notes / "drafts").mkdir()
    (notes / "drafts/wheel.md").write_text("# Wheel\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAG_MCP_EMBEDDER", "no-such")  # the configuration counts, and not what stands around
    refresh = started(config_of("notes", RAG_MCP_POLICY="policy.yaml"))
    store = tmp_path / "notes.rag_mcp.store"
    wait_until((store / "last-run.json").is_file)
    done = forked_cli("query", "wheel", "--db", store, "--policy", policy, "--json")
    assert "NO_RELEVANT_CONTEXT" in done.stdout or "drafts" not in done.stdout
    assert forked_cli("status", "--db", store, "--policy", policy).returncode == 0
    assert refresh.notes() == ()


def test_a_young_run_is_left_alone(notes, started, monkeypatch):
    forked_cli("ingest", notes)
    looked, begun = threading.Event(), []
    real = module.read_last_run
    monkeypatch.setattr(module, "read_last_run", lambda root: (looked.set(), real(root))[1])
    monkeypatch.setattr(module.subprocess, "Popen", lambda *_, **__: begun.append(1))
    refresh = started(config_of(notes))
    assert looked.wait(WAIT_S)
    refresh.close()
    assert not begun


def test_it_is_off_unless_asked_for(notes):
    refresh = Refresh(Config.load({}, corpus_root=notes), first_wait=0)
    refresh.start()
    refresh.close()
    assert not notes.with_name("notes.rag_mcp.store").exists()


def test_a_failure_is_in_the_status_without_a_word_of_what_failed(notes, started, caplog):
    (notes / "kiln.md").rename(notes / "secret.txt")
    refresh = started(config_of(notes))
    wait_until(refresh.notes)
    (note,) = refresh.notes()
    assert "exit code 1" in note and "RAG_MCP_REFRESH" in note and "every 5m" in note
    assert "notes" not in note.replace("rag_mcp", "") and "secret" not in note
    assert "no markdown file" in caplog.text


def test_without_a_folder_it_says_so(tmp_path, started, caplog):
    refresh = started(Config.load({"RAG_MCP_REFRESH": "5m"}, db_path=tmp_path / "db"))
    wait_until(refresh.notes)
    assert "set RAG_MCP_CORPUS_ROOT" in caplog.text


def test_another_run_at_work_is_no_failure(notes, started, monkeypatch):
    forked_cli("ingest", notes)
    (notes.with_name("notes.rag_mcp.store") / "last-run.json").unlink()
    codes = []
    real = Refresh._judge
    monkeypatch.setattr(Refresh, "_judge", lambda self, code, words: (real(self, code, words), codes.append(code)))
    with FileLock(notes.with_name("notes.rag_mcp.store") / "writer.lock"):
        refresh = started(config_of(notes))
        wait_until(lambda: codes)
    assert codes == [3] and refresh.notes() == ()


def test_closing_ends_the_child(notes, started, monkeypatch):
    children = []
    real = subprocess.Popen

    def child(words, **options):
        assert words[-1] == "--end-with-stdin"
        children.append(real([sys.executable, "-c", "import sys; sys.stdin.read()"], **options))
        return children[-1]

    monkeypatch.setattr(module.subprocess, "Popen", child)
    refresh = started(config_of(notes))
    wait_until(lambda: children)
    refresh.close()
    assert children[0].wait(WAIT_S) == 0 and refresh.notes() == ()


@pytest.mark.skipif(sys.platform == "win32", reason="a pending read on stdin would hang libraries there")
def test_an_ingest_whose_starter_has_gone_ends():
    code = (
        "from rag_mcp.cli.runlog import *; end_when_stdin_closes(); print(1, flush=True); __import__('time').sleep(600)"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin and child.stdout and child.stdout.read(1) == b"1"
    child.stdin.close()
    assert child.wait(WAIT_S) == 1
    child.stdout.close()


def test_a_real_server_refreshes_and_answers_from_it(notes):
    settings = {"RAG_MCP_EMBEDDER": "hash", "RAG_MCP_CORPUS_ROOT": str(notes), "RAG_MCP_REFRESH": "5m"}
    server = RawServer(env=settings)
    try:
        server.initialize()
        server.call("rag_status", {}, id=2)
        wait_until((notes.with_name("notes.rag_mcp.store") / "last-run.json").is_file)
        assert server.call("rag_status", {}, id=3)["generation"] == 1
    finally:
        server.process.kill()
        server.process.communicate(timeout=WAIT_S)


def test_a_command_starts_nothing(notes):
    done = forked_cli("status", "--corpus", notes, env={"RAG_MCP_REFRESH": "1m"})
    assert done.returncode == 1 and not notes.with_name("notes.rag_mcp.store").exists()


def test_the_setting_is_read_and_passed_on_as_it_is_written(notes):
    config = config_of(notes)
    assert config.refresh == Interval(5) and server_env(config)["RAG_MCP_REFRESH"] == "5m"
    assert not [word for word in ingest_arguments(config) if "REFRESH" in word]
    with pytest.raises(ConfigError, match=r"RAG_MCP_REFRESH.*'5 minutes'.*5m"):
        Config.load({"RAG_MCP_REFRESH": "5 minutes"})


def test_of_several_corpora_all_are_passed_on(notes, tmp_path):
    other = tmp_path / "other"
    config = Config.load({"RAG_MCP_CORPUS_ROOT": f"a={notes};b={other}", "RAG_MCP_DB_PATH": str(tmp_path / "stores")})
    assert list(ingest_arguments(config)) == ["ingest", f"a={notes};b={other}", "--db", str(tmp_path / "stores")]
    with pytest.raises(ConfigError, match="set RAG_MCP_CORPUS_ROOT"):
        ingest_arguments(Config())


@given(st.lists(st.integers(-10, 600), min_size=1, max_size=4), st.integers(1, 9))
def test_the_oldest_run_says_when_the_next_is_due(ages, minutes):
    finished = [(NOW - timedelta(seconds=age)).isoformat() for age in ages]
    left = seconds_left(finished, Interval(minutes), NOW)
    assert 0 <= left <= minutes * 60
    assert (left == 0) == (min(ages) < 0 or max(ages) >= minutes * 60)
    assert left in (0, minutes * 60 - max(ages))


@pytest.mark.parametrize("torn", [None, "", "yesterday", "2026-03-04T12:00:00"])
def test_a_run_that_does_not_say_when_is_none(torn):
    assert seconds_left([NOW.isoformat(), torn], Interval(5), NOW) == 0
