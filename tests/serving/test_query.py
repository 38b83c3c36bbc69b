"""``rag-mcp query`` asks the warm server of its store, where there is one that answers as it would itself."""

from __future__ import annotations

import itertools
import json
import subprocess

import pytest
from cli_process import COLD
from http_daemon import Daemon, Place
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import cli_environment
from typer.main import get_command
from typer.testing import CliRunner

from rag_mcp.cli import warm
from rag_mcp.cli.app import command_line
from rag_mcp.config import Config

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


# --- without the command line's libraries ----------------------------------------------------------------------------

SLOW = {"typer", "rich", "pydantic", "yaml", "mcp", "numpy", "chromadb", "tantivy", "tokenizers", "onnxruntime"}


class Unruled(Place):
    """Without a policy file: reading one takes two libraries, once the answer is there."""

    @property
    def settings(self) -> dict[str, str]:
        return {name: value for name, value in super().settings.items() if name != "RAG_MCP_POLICY"}


def test_no_library_is_loaded_where_a_server_answers(tmp_path):
    place = Unruled(tmp_path).fill()
    env = cli_environment({**place.settings, "RAG_MCP_CLIENT_PROFILE": "auditor"})
    with Daemon(place, "--on-demand"):
        for form in ([], ["--json"]):
            words = [COLD[0], "-X", "importtime", *COLD[1:], "query", "teal gate", *form]
            done = subprocess.run(words, env=env, capture_output=True, encoding="utf-8", timeout=60, check=True)
            loaded = {line.rsplit("|", 1)[1].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line}
            assert "gate.md" in done.stdout and not loaded & SLOW


def test_a_reader_that_has_had_enough_is_no_fault(place):
    with Daemon(place, "--on-demand"):
        words = [*COLD, "query", "teal gate", "--confidence", "normal"]
        env = cli_environment({**place.settings, "RAG_MCP_CLIENT_PROFILE": "auditor"})
        with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as command:
            command.stdout.close()
            assert (command.stderr.read(), command.wait(60)) == (b"", 1)


def understood(words: list[str], monkeypatch) -> tuple[dict, Config] | None:
    """What the command line makes of a question's words; None for a wrong use."""
    asked = []
    monkeypatch.setattr("rag_mcp.cli.query.warm_answer", lambda *question: asked.append(question) or {"status": "OK"})
    monkeypatch.setattr("rag_mcp.cli.query.show", lambda answer, *, as_json: asked.append(as_json))
    CliRunner().invoke(command_line("query"), ["query", *words])
    if len(asked) != 2:
        return None
    (arguments, config), as_json = asked
    return {name: value for name, value in arguments.items() if value is not None}, config, as_json


def quickly(words: list[str], monkeypatch) -> tuple[dict, Config] | None:
    """What is made of them before that; None for what is left to the command line."""
    asked = []
    monkeypatch.setattr(warm, "warm_answer", lambda *question: asked.append(question) or {"status": "OK"})
    monkeypatch.setattr(warm, "show", lambda answer, *, as_json: asked.append(as_json))
    if not warm.answered(words):
        return None
    (arguments, config), as_json = asked
    return {name: value for name, value in arguments.items() if value is not None}, config, as_json


def options() -> list[str]:
    command = get_command(command_line("query")).commands["query"]
    return [name for param in command.params for name in param.opts if name.startswith("-")]


VALUES = st.sampled_from(["3", "teal gate", "fts", "a=b", "=b", "", "-x", "--", "-", "2026-01-02", "~", "$NOBODY", "é"])
OPTIONS = st.sampled_from(options())
PIECES = (
    st.tuples(OPTIONS, VALUES) | st.tuples(st.builds("{}={}".format, OPTIONS, VALUES)) | st.tuples(OPTIONS | VALUES)
)
WORDS = st.tuples(st.lists(PIECES, max_size=4), st.lists(PIECES, max_size=2)).map(
    lambda parts: [*itertools.chain(*parts[0]), "teal gate", *itertools.chain(*parts[1])]
)


@given(WORDS)
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_words_mean_the_same_with_those_libraries_and_without(monkeypatch, words):
    quick = quickly(words, monkeypatch)
    assert quick is None or quick == understood(words, monkeypatch)


@pytest.mark.parametrize("option", sorted({*options()} - {"--only"}))
def test_every_option_is_understood_without_them(monkeypatch, option):
    value = [] if option in ("--explain", "--json") else ["a=b"]
    words = ["teal gate", option, *value]
    assert quickly(words, monkeypatch) == understood(words, monkeypatch) != quickly(["teal gate"], monkeypatch)
