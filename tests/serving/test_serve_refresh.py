"""RAG_MCP_REFRESH of the server over HTTP: one ingest for all its profiles."""

from __future__ import annotations

import time

import pytest
from http_daemon import WAIT_S, Daemon, Place

from rag_mcp.config import Config
from rag_mcp.server.http.life import settings_digest


class Refreshing(Place):
    """A place whose store is a file behind: its last run is of no known time."""

    @property
    def settings(self):
        return {**super().settings, "RAG_MCP_REFRESH": "5m"}


def until(said):
    deadline = time.monotonic() + WAIT_S
    while not said():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.fixture
def place(tmp_path):
    place = Refreshing(tmp_path).fill()
    (tmp_path / "db/last-run.json").unlink()
    return place


def test_the_server_over_http_has_its_folder_ingested(place):
    (place.folder / "corpus/docs/wheel.md").write_text("# Wheel\n\nThe amber wheel turns slowly.\n", encoding="utf-8")
    token = place.token("engineer")
    with Daemon(place) as server:
        until(lambda: "amber wheel" in str(server.search("amber wheel", token=token).payload))
        assert server.end() == 0


def test_a_failure_is_told_to_every_profile_in_the_same_words(place):
    tokens = [place.token("engineer"), place.token("auditor")]
    for path in (place.folder / "corpus").rglob("*.*"):
        path.unlink()
    with Daemon(place) as server:

        def notes(token):
            return [
                note
                for note in server.call("rag_status", {}, token=token).payload.get("notes", ())
                if "REFRESH" in note
            ]

        until(lambda: notes(tokens[0]))
        first, second = map(notes, tokens)
        assert first == second and "exit code 1" in first[0] and str(place.folder) not in first[0]


def test_it_changes_no_answer_so_servers_with_and_without_it_are_one(place):
    with_it = Config.load(place.settings)
    assert settings_digest(with_it) == settings_digest(Config.load({**place.settings, "RAG_MCP_REFRESH": ""}))
