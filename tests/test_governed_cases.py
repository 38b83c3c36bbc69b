"""Reported failures of other systems, end to end: links, folder borders, copies across classes, profiles, saying no."""

from __future__ import annotations

import json
import os

import pytest
from governed import Caller
from raw_server import RawServer
from support import Library

from rag_mcp.config import Config
from rag_mcp.knowledge import KnowledgeBase
from rag_mcp.server.mcp import ToolRunner
from rag_mcp.telemetry import Telemetry

# --- links: loops, duplicates, escapes


@pytest.fixture
def linked(library):
    outside = library.corpus.parent / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("# Outside\n\nThe outside word is periwinkle.\n", encoding="utf-8")
    library.write({"real/weir.md": "# Weir\n\nThe weir is opened by hand.\n"})
    links = {
        "self": ".",
        "real/up": "..",
        "above": "..",
        "out": outside,
        "file.md": outside / "secret.md",
        "copy.md": "real/weir.md",
        "dangling.md": "nowhere.md",
    }
    for name, target in links.items():
        (library.corpus / name).symlink_to(target)
    os.link(library.corpus / "real" / "weir.md", library.corpus / "real" / "hard.md")
    return library, outside


@pytest.mark.timeout(60)
def test_links_end_no_run_bring_nothing_in_and_are_counted(linked):
    library, _ = linked
    summary = library.ingest()
    assert sorted(library.manifest().files) == ["real/hard.md", "real/weir.md"]
    assert {item.source for item in summary.skipped if item.reason == "symlink"} == {
        "self", "real/up", "above", "out", "file.md", "copy.md", "dangling.md",
    }  # fmt: skip
    caller = Caller(library, "auditor")
    assert set(caller.sources("weir opened by hand")) <= {"real/weir.md", "real/hard.md"}
    assert "periwinkle" not in json.dumps([caller.search("periwinkle outside"), caller.ask("list_documents")])
    for path in ("out/secret.md", "file.md", "self/real/weir.md", "copy.md", "real/up/real/weir.md"):
        assert caller.ask("get_document", source=path)["error"]["type"] == "not_found"


def test_a_folder_replaced_by_a_link_leaves_and_brings_nothing_from_outside(linked):
    library, outside = linked
    library.write({"stays.md": "# Stays\n\nThe sluice stays.\n"})
    library.ingest()
    for name in ("weir.md", "hard.md", "up"):
        (library.corpus / "real" / name).unlink()
    (library.corpus / "real").rmdir()
    (library.corpus / "real").symlink_to(outside)
    library.ingest()
    assert sorted(library.manifest().files) == ["stays.md"]
    assert "periwinkle" not in json.dumps(library.dump())


def test_a_link_as_the_root_works_with_paths_from_the_root(linked):
    library, _ = linked
    root = library.corpus.parent / "root-link"
    root.symlink_to(library.corpus)
    library.ingest(config={"corpus_root": root})
    assert sorted(library.manifest().files) == ["real/hard.md", "real/weir.md"]


# --- folder borders are borders of whole names

BORDERS = {
    "notes/a.md": "# A\n\nPublic tide note alder.\n",
    "notes/ops/c.md": "# C\n\nOps tide note birch.\n",
    "notes/ops-archive/d.md": "# D\n\nArchive tide note cedar.\n",
    "notes/50%25 off [x]/f & g.md": "# F\n\nOdd name tide note dogwood.\n",
    "notes/..looks-hidden/e.md": "# E\n\nDotted tide note elder.\n",
    "notes-private/b.md": "# B\n\nPrivate tide note fir.\n",
}


def test_a_root_is_no_prefix_of_its_neighbour_and_odd_names_come_back_as_on_disk(library):
    library.write(BORDERS)
    library.ingest(config={"corpus_root": library.corpus / "notes"})
    caller = Caller(library, "auditor")
    wanted = ["50%25 off [x]/f & g.md", "a.md", "ops-archive/d.md", "ops/c.md"]
    assert caller.listed() == wanted == caller.sources("tide note")
    for path in wanted:
        assert "tide note" in caller.ask("get_document", source=path)["text"]
    assert not {"fir", "elder"} & set(json.dumps(caller.search("private dotted tide note fir elder")).split())


def test_a_rule_and_a_prefix_for_a_folder_do_not_cover_its_neighbour(library, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text('rules:\n  - {path: "notes/ops/", class: memory, project: ops}\n', encoding="utf-8")
    library.write(BORDERS)
    library.ingest(config={"policy_path": policy})
    entries = library.manifest().files
    assert (entries["notes/ops/c.md"].source_class, entries["notes/ops/c.md"].project) == ("memory", "ops")
    assert (entries["notes/ops-archive/d.md"].source_class, entries["notes/ops-archive/d.md"].project) == ("docs", None)
    caller = Caller(library, "auditor", policy_path=policy)
    assert caller.listed(prefix="notes/ops") == ["notes/ops/c.md"]
    assert "notes-private/b.md" not in caller.listed(prefix="notes")


@pytest.mark.parametrize(
    "place", ["../notes-private", "/etc", "notes/../notes-private", "%2e%2e/notes-private", "..\\x"]
)
def test_a_place_outside_is_refused_alike_whether_it_exists_or_not(library, place):
    library.write(BORDERS)
    library.ingest(config={"corpus_root": library.corpus / "notes"})
    caller = Caller(library, "auditor")
    missing = caller.ask("get_document", source="never/was.md")
    for path in (f"{place}/b.md", f"{place}/never-was.md", f"{place}/passwd"):
        assert caller.ask("get_document", source=path) == missing
    there, not_there = (caller.ask("list_documents", prefix=f"{place}{end}") for end in ("", "-never-was"))
    assert there == not_there and not there.get("documents")


# --- nothing relevant (the real model)

QUIET = {
    "bridge.md": "# Bridge\n\nThe foot bridge closes in storms above force eight.\n",
    "clock.md": "# Tower clock\n\nThe tower clock is wound on Mondays. Its pendulum weighs forty kilograms.\n",
    "library.md": "# Library\n\nBooks are lent for three weeks; fines are paid at the desk.\n",
    "short.md": "# Misc\n\nok\n",
}
NONSENSE = ("zxq plorb vandeex quuu", "%%%% ---- ????", "asdf jkl")
ABSENT = (
    "how to bake sourdough bread",
    "capital of the southern federation",
    "what is the stock price of Borealis Cables",
)
NEAR = ("what is the tower clock made of", "who designed the foot bridge", "how many books does the library own")
HITS = {
    "when is the tower clock wound": "clock.md",
    "bridge storm force": "bridge.md",
    "how long can I borrow a book": "library.md",
}


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quiet")
    with Library(folder / "corpus", folder / "store", embedder="minilm") as found:
        found.write(QUIET)
        found.ingest()
        yield Caller(found, "restricted")


@pytest.mark.parametrize("question", [*NONSENSE, *ABSENT])
def test_nonsense_and_absent_subjects_get_no_answer_and_nothing_above_low(quiet, question):
    strict = quiet.search(question, confidence="strict")
    assert (strict["status"], strict["results"]) == ("NO_RELEVANT_CONTEXT", [])
    assert strict["reason"] in ("strict_blocked_low", "no_results")
    assert {hit["confidence"] for hit in quiet.search(question)["results"]} <= {"low"}


@pytest.mark.parametrize("question", NEAR)
def test_a_near_miss_is_never_of_high_confidence(quiet, question):
    for confidence in ("strict", "normal"):
        assert "high" not in {hit["confidence"] for hit in quiet.search(question, confidence=confidence)["results"]}


@pytest.mark.parametrize("question", HITS)
def test_what_is_there_is_found_first_in_strict_mode(quiet, question):
    best = quiet.search(question, confidence="strict")["results"][0]
    assert best["citation"]["source"] == HITS[question]
    assert best["confidence"] in ("medium", "high")


@pytest.mark.parametrize("question", ["how to", "what is", "what is the"])
def test_common_words_alone_earn_no_credit(quiet, question):
    assert quiet.search(question, confidence="strict", mode="fts")["results"] == []


# --- copies across classes

SHARED = "# Gate report\n\n## Lock\n\nThe lock code is changed by the harbour master.\n\n## Day\n\n"
DAYS = ("2031-05-01", "2031-05-02", "2031-05-03", "2031-05-04")
GATE_POLICY = """\
rules:
  - {path: "docs/", class: docs}
  - {path: "memory/", class: memory}
  - {path: "mixed/gate-report-2031-05-02.md", class: memory}
"""


@pytest.fixture
def copies(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(GATE_POLICY, encoding="utf-8")
    with Library(tmp_path / "corpus", tmp_path / "store", policy_path=policy) as found:
        found.write({f"docs/gate-report-{day}.md": f"{SHARED}Day {day[-1]}.\n" for day in DAYS[:3]})
        found.write({f"memory/gate-report-{day}.md": f"{SHARED}Internal day {day[-1]} ocelot.\n" for day in DAYS})
        found.ingest()
        yield found


def assert_own_copy_only(library: Library) -> str:
    """The restricted profile finds the shared text, and no trace of the other copy; return where it was found."""
    caller = Caller(library, "restricted")
    found = caller.search("lock code harbour master")
    told = json.dumps([found, caller.search("internal day ocelot"), caller.ask("list_documents")])
    assert "ocelot" not in told and "memory" not in told and "2031-05-04" not in told
    best = found["results"][0]
    assert "harbour master" in best["text"]
    assert not [place for place in best.get("also_in", ()) if not place["source"].startswith("docs/")]
    return best["citation"]["source"]


def test_each_profile_finds_its_own_copy_and_no_trace_of_the_other(copies):
    assert assert_own_copy_only(copies) == "docs/gate-report-2031-05-01.md"
    auditor = Caller(copies, "auditor")
    for name in ("docs", "memory"):
        shared = auditor.search("lock code harbour master", source_class=name)["results"][0]
        assert shared["citation"]["source"] == f"{name}/gate-report-2031-05-01.md"
        assert not [place for place in shared.get("also_in", ()) if not place["source"].startswith(name)]
    assert {hit["source_class"] for hit in auditor.search("gate report day")["results"]} == {"docs", "memory"}


def test_when_the_first_copy_goes_the_next_of_the_same_class_stands_for_it(copies):
    copies.remove("docs/gate-report-2031-05-01.md")
    copies.ingest()
    assert assert_own_copy_only(copies).startswith("docs/gate-report-2031-05-0")


def test_a_class_follows_the_place_of_a_file_in_the_same_run(copies):
    os.rename(copies.corpus / "memory", copies.corpus / "archive")
    copies.ingest()
    caller = Caller(copies, "restricted")
    assert any("ocelot" in (hit["text"] or "") for hit in caller.search("internal day ocelot")["results"])
    assert "memory/" not in json.dumps([caller.search("internal day ocelot"), caller.ask("list_documents")])


def test_a_series_of_one_folder_in_two_classes_is_two_series(copies):
    copies.write({f"mixed/gate-report-{day}.md": SHARED + "The marmot day.\n" for day in DAYS})
    copies.ingest()
    hit = Caller(copies, "restricted").search("marmot day")["results"][0]["citation"]
    assert hit["source"] == "mixed/gate-report-2031-05-01.md"
    assert hit["also_unchanged_on"] == ["2031-05-03", "2031-05-04"]


# --- the profile comes from the environment of the process only

PARK = {
    "docs/p.md": "# P\n\nThe park opens at seven.\n",
    "config/q.md": "# Q\n\nThe park key is under the third stone.\n",
    "memory/r.md": "# R\n\nThe park meeting was noisy.\n",
}
NOT_AUDITOR = (
    None,
    "",
    "restricted",
    "Restricted",
    " auditor ",
    "auditor;",
    "root",
    "auditor,restricted",
    "\u0430uditor",
)


@pytest.fixture(scope="module")
def park(tmp_path_factory):
    folder = tmp_path_factory.mktemp("park")
    with Library(folder / "corpus", folder / "store") as found:
        found.write(PARK)
        found.ingest()
        yield found


@pytest.mark.parametrize("value", NOT_AUDITOR)
def test_every_value_but_an_exact_name_acts_as_restricted(park, value):
    env = {"RAG_MCP_DB_PATH": str(park.store_path), "RAG_MCP_EMBEDDER": "hash"}
    if value is not None:
        env["RAG_MCP_CLIENT_PROFILE"] = value
    base = KnowledgeBase.open(Config.load(env))
    try:
        runner = ToolRunner(base, Telemetry())

        def ask(tool: str, **arguments: object) -> dict[str, object]:
            return runner.run(tool, arguments).payload

        for source_class in ("all", "docs", None):
            found = ask("search_knowledge", query="park", confidence="normal", source_class=source_class)
            assert [hit["citation"]["source"] for hit in found["results"]] == ["docs/p.md"]
        for source_class in ("config", "memory"):
            refused = ask("search_knowledge", query="park", confidence="normal", source_class=source_class)
            assert (refused["reason"], refused["results"]) == ("acl_denied", [])
        assert ask("rag_status")["profile"] == ask("list_knowledge_sources")["profile"] == "restricted"
    finally:
        base.close()


def test_nothing_a_caller_or_a_file_says_changes_the_profile_of_a_running_server(park, monkeypatch):
    env = {
        "RAG_MCP_DB_PATH": str(park.store_path),
        "RAG_MCP_EMBEDDER": "hash",
        "RAG_MCP_CLIENT_PROFILE": "restricted",
    }
    with RawServer(env=env) as server:
        server.initialize()
        monkeypatch.setenv("RAG_MCP_CLIENT_PROFILE", "auditor")
        refused = server.call("search_knowledge", {"query": "park", "profile": "auditor"}, id=10)
        assert refused["error"]["type"] == "invalid_argument"
        meta = {"profile": "auditor", "RAG_MCP_CLIENT_PROFILE": "auditor"}
        park.write({"docs/s.md": "---\nprofile: auditor\naccess: all\nclass: memory\n---\n# S\n\nThe park.\n"})
        park.ingest()
        asked = {"query": "park", "confidence": "normal", "k": 20}
        found = server.call("search_knowledge", asked, id=11, _meta=meta)
        assert [hit["citation"]["source"] for hit in found["results"]] == ["docs/p.md"]
        assert server.call("rag_status", {}, id=12, _meta=meta)["profile"] == "restricted"
        assert server.end() == 0
