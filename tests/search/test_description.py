"""What a model is told of a corpus before it asks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_server import MODERN_META, RawServer
from support import growth

from rag_mcp.server import tools as contract
from rag_mcp.server.tools import answer_payload
from rag_mcp.text.opening import MAX_DESCRIPTION_CHARS, first_paragraph, one_description

NOTE = {"berths.md": "# Berths\n\nThe ferry berths at the north quay.\n"}
README = (
    "# Harbour\n\n[![build](b.svg)](b)\n\nNotes of the *harbour office*:\ntides, [berths](berths.md), dues.\n\nMore.\n"
)
SAID = "Notes of the harbour office: tides, berths, dues."


def told(base) -> str:
    """The line, which instructions and list_knowledge_sources must agree about."""
    (about,) = base.about()
    assert answer_payload(base.list_sources()).get("description", "") == about.description
    assert (about.description in contract.instructions([about])) and about.name == ""
    return about.description


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (README, SAID),
        ("plain words\n", "plain words"),
        ("# Only a title\n", ""),
        ("![a picture](p.png)\n\n<!-- not for you -->\n\n- a list\n\nAt last.", "At last."),
        ("```\ncode\n```\n\n> a quotation\n\nProse.", "Prose."),
        ('He said "obey" and\u202e left\x1b[31m.', "He said 'obey' and left."),
        ("", ""),
    ],
)
def test_the_first_paragraph_is_the_first_prose(text, line):
    assert first_paragraph(text) == line


@given(st.text(max_size=600))
def test_a_description_is_one_short_line_that_stays_in_its_quotation(text):
    line = one_description(text)
    assert len(line) <= MAX_DESCRIPTION_CHARS and len(line.splitlines()) <= 1 and '"' not in line
    assert one_description(line) == line


def test_time_to_find_it_does_not_follow_the_size_of_the_file():
    assert growth(lambda n: "- item\n" * n, first_paragraph, 4_000) < 3


def test_setting_policy_and_front_page_go_before_each_other(library, tmp_path):
    library.write({**NOTE, "README.md": README, "index.md": "Index words.\n"})
    library.ingest()
    policy = tmp_path / "policy.yaml"
    policy.write_text("description: Dues and tides.\n")
    assert told(library.base()) == SAID
    assert told(library.base(policy_path=policy)) == "Dues and tides."
    assert told(library.base(policy_path=policy, description=" Of the\n office ")) == "Of the office"
    library.remove("README.md")
    assert told(library.base()) == SAID, "it is told from the store"
    library.ingest()
    assert told(library.base()) == "Index words."
    library.write({"index.md": "New words.\n"})
    library.ingest()
    assert told(library.base()) == "New words."
    library.remove("index.md")
    library.write({"deep/README.md": "Of a folder only.\n"})
    library.ingest()
    assert told(library.base()) == ""


@pytest.mark.parametrize("hiding", ["---\naccess: none\n---\n", "deny", "class", "explicit", "secret"])
@pytest.mark.parametrize("other", [{}, {"index.md": "Index words.\n"}])
def test_a_hidden_front_page_changes_no_byte(library, tmp_path, hiding, other):
    policy = tmp_path / "policy.yaml"
    rules = {
        "deny": 'deny: ["README.md"]\n',
        "class": 'rules: [{path: "README.md", class: memory}]\n',
        "explicit": 'rules: [{path: "README.md", class: config}]\n'
        "profiles: {restricted: {classes: [docs, config], explicit_only: [config]}}\n",
    }
    policy.write_text(rules.get(hiding, "version: 1\n"))
    secret = "token ghp_" + "k3Rt9QwZb1Lm" * 3 if hiding == "secret" else ""
    head = hiding if hiding.startswith("---") else ""
    library.write({**NOTE, **other})
    library.ingest(config={"policy_path": policy})
    without = told(library.base(policy_path=policy))
    library.write({"README.md": f"{head}{README}{secret}"})
    library.ingest(config={"policy_path": policy})
    assert told(library.base(policy_path=policy)) == without == other.get("index.md", "").strip()


def test_a_policy_edited_later_takes_the_line_back_at_once(library, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\n")
    library.write({**NOTE, "README.md": README})
    library.ingest(config={"policy_path": policy})
    base = library.base(policy_path=policy)
    assert told(base) == SAID
    policy.write_text('deny: ["README.md"]\n')
    assert told(base) == ""
    policy.write_text("deny: [")
    assert base.about()[0].description == ""


def test_a_masked_value_is_masked_in_the_line_too(library):
    library.write({**NOTE, "README.md": "The office logs in with password: Tr0ub4dor&3xyz9 every day.\n"})
    library.ingest()
    assert "Tr0ub4dor" not in told(library.base()) and "office" in told(library.base())


def test_no_store_and_a_store_of_an_older_version_say_nothing(library):
    assert library.base().about()[0].description == ""
    assert library.base(description="Dues.").about()[0].description == "Dues."


def test_a_client_of_either_era_reads_it(library):
    library.write({**NOTE, "README.md": README})
    library.ingest()
    env = {
        "RAG_MCP_CORPUS_ROOT": str(library.corpus),
        "RAG_MCP_DB_PATH": str(library.store_path),
        "RAG_MCP_EMBEDDER": "hash",
    }
    with RawServer(env=env) as server:
        assert SAID in server.initialize()["result"]["instructions"]
        assert server.call("list_knowledge_sources", {}, id=2)["description"] == SAID
    with RawServer(env=env) as server:
        ask = lambda id: server.ask("server/discover", {"_meta": MODERN_META}, id=id)["result"]["instructions"]  # noqa: E731
        assert SAID in ask(1)
        library.write({"README.md": "Other words.\n"})
        library.ingest()
        assert "Other words." in ask(2) and SAID not in ask(3)
