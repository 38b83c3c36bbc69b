"""A vault of some three hundred notes under the real model: what is found, what is refused, what filters and links reach."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest
from cli_process import forked_cli
from governed import Caller
from support import Library
from vault.make import QUESTIONS, make_vault, piled_up, written

MODEL = {"embedder": "minilm-int8"}


@pytest.fixture(scope="module")
def vault(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vault")
    make_vault(folder / "corpus")
    with Library(folder / "corpus", folder / "store", **MODEL) as library:
        library.ingest()
        yield library


@pytest.fixture(scope="module")
def caller(vault):
    return Caller(vault, "restricted")


@pytest.fixture(scope="module")
def evaluated(vault, tmp_path_factory):
    report = tmp_path_factory.mktemp("report") / "report.json"
    place = ("--corpus", vault.corpus, "--db", vault.store_path)
    run = ("eval", QUESTIONS, *place, "--modes", "hybrid", "--json", report)
    done = forked_cli(*run, env={"RAG_MCP_EMBEDDER": MODEL["embedder"]})
    assert done.returncode == 0, done.stderr
    return json.loads(report.read_text(encoding="utf-8"))


def test_the_vault_is_large_enough_and_made_the_same_every_time(tmp_path):
    assert make_vault(tmp_path / "one") == make_vault(tmp_path / "other") >= 300
    one, other = (
        {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for root in (tmp_path / "one", tmp_path / "other")
    )
    assert one == other
    rows = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    asked_for = {source for row in rows for source in row.get("relevant", ())}
    assert len(rows) == 40 and asked_for <= written().keys() and not written().keys() & piled_up().keys()


def test_the_notes_asked_for_come_first_and_what_is_off_the_topic_is_refused(evaluated):
    hybrid = evaluated["modes"]["hybrid"]
    assert (evaluated["questions"], evaluated["answerable"]) == (40, 30)
    assert hybrid["errors"] == hybrid["degraded"] == 0
    places = [row["modes"]["hybrid"]["metrics"] for row in evaluated["rows"] if row["answerable"]]
    assert sum(each["mrr@10"] >= 1 / 3 for each in places) >= 27, "in the top 3"
    assert hybrid["gate"]["answered"] >= 0.8 and hybrid["gate"]["withheld"]["off-topic"] >= 0.9


def test_an_off_topic_refusal_names_no_place(caller):
    rows = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    told = [caller.ask("search_knowledge", query=row["question"]) for row in rows if "negkind" in row]
    assert sum("nearest" in each for each in told) <= 1


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"where": {"status": "waiting"}}, ["projects/Solar roof.md"]),
        ({"where": {"owner": "Ines Calder", "budget": 2400}}, ["projects/Rental fleet.md"]),
        ({"tags": "workshop/brakes"}, ["reference/Bleeding hydraulic brakes.md"]),
        ({"path": "meetings", "where": {"attendees": "Lev Anders", "type": "meeting"}, "since": "2031-02-20", "until": "2031-02-20"},
         ["meetings/2031-02-20 Opening hours.md"]),
        ({"path": "daily", "since": "2031-01-05", "until": "2031-01-06"}, ["daily/2031-01-05.md", "daily/2031-01-06.md"]),
        ({"linked_to": "[[Ines Calder]]", "path": "projects"}, ["projects/Rental fleet.md"]),
    ],
)  # fmt: skip
def test_the_list_is_narrowed_as_people_ask_of_a_vault(caller, arguments, found):
    assert caller.listed(**arguments) == found


def test_a_note_is_opened_by_its_alias_and_says_who_links_to_it(caller):
    opened = caller.ask("get_document", source="chain checker")
    assert opened["source"] == "reference/Chain wear.md"
    assert {path.split("/")[0] for path in opened["backlinks"]} == {"daily"}
    assert (opened["date_from"], caller.ask("get_document", source="2031-01-05")["date"]) == ("file time", "2031-01-05")


def test_the_study_counts_what_became_of_each_question(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2] / "scripts")
    study = importlib.import_module("vault_study")

    def told(relevant, *sources, nearest=()):
        payload = {"results": [{"citation": {"source": each}} for each in sources]}
        payload |= {"nearest": [{"source": each} for each in nearest]} if nearest else {}
        return study.told({"question": "?", "relevant": relevant}, payload, "x" * 40)

    answers = [
        told(["a"], "b", "b", "a"),
        told(["a"], "b", "c", "d", "a"),
        told(["a"], nearest=["a"]),
        told([]),
        told([], "b"),
        told([], nearest=["b"]),
    ]
    assert list(study.report(answers).values())[:4] == ["1 of 3", "1; the note named in 1", "2 of 3", "1"]
    assert study.report(answers)["tokens an answer, text"] == "10"
