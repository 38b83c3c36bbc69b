"""``rag-mcp query`` asks the warm server of its store, where there is one that answers as it would itself."""

from __future__ import annotations

import json

import pytest
from http_daemon import Daemon, Place

QUESTIONS = [
    ("teal gate",),
    ("who opens the gate", "-k", "2", "--confidence", "normal", "--explain"),
    ("zebrafinch in 1987",),
    ("gate", "--source-class", "memory", "--profile", "restricted"),
    ("gate", "--path", "docs", "--profile", "restricted"),
    ("gate", "--max-chars", "500", "--mode", "fts"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return Place(tmp_path_factory.mktemp("asked")).fill()


def answered(daemon: Daemon, place: Place, profile: str = "auditor") -> int:
    """How many searches the server has answered under a profile."""
    told = daemon.call("rag_status", {}, token=place.token(profile)).payload["telemetry"]
    return told["by_tool"].get("search_knowledge", 0)


def test_the_answer_is_the_same_word_for_word_and_comes_from_the_server(place):
    asked = [(*question, *form) for question in QUESTIONS for form in ((), ("--json",))]
    env = {"RAG_MCP_CLIENT_PROFILE": "auditor"}
    alone = [place.run("query", *arguments, **env) for arguments in asked]
    with Daemon(place, "--on-demand") as daemon:
        warm = [place.run("query", *arguments, **env) for arguments in asked]
        assert answered(daemon, place) + answered(daemon, place, "restricted") == len(asked)
    for one, other in zip(alone, warm, strict=True):
        assert (one.returncode, one.stdout, one.stderr) == (other.returncode, other.stdout, other.stderr)
    assert all(done.returncode == 0 for done in warm)


def test_a_command_with_other_settings_or_an_error_answers_itself(place, tmp_path):
    (tmp_path / "closed.yaml").write_text('deny: ["docs/**"]\n')
    other = {"RAG_MCP_CLIENT_PROFILE": "auditor", "RAG_MCP_POLICY": str(tmp_path / "closed.yaml")}
    wrong = ("query", "gate", "--where", "nobody=has")
    alone = place.run(*wrong)
    with Daemon(place, "--on-demand") as daemon:
        done = place.run("query", "gate", "--json", "-k", "20", **other)
        sources = {each["citation"]["source"] for each in json.loads(done.stdout)["results"]}
        assert answered(daemon, place) == 0 and not [source for source in sources if source.startswith("docs/")]
        assert "another policy" in done.stderr
        warm = place.run(*wrong)
        assert (warm.returncode, warm.stderr) == (alone.returncode, alone.stderr) and warm.returncode == 2


def test_what_is_doubtful_is_said_also_where_the_server_answers(place):
    with Daemon(place, "--on-demand"):
        done = place.run("query", "gate", RAG_MCP_CLIENT_PROFILE="Auditor")
    assert done.returncode == 0 and "not defined, so restricted counts" in done.stderr
