"""What the page shows of the state of things: what was left out, how fresh, since when, what nobody could answer."""

from __future__ import annotations

import html
import json
import re

import pytest
from page_site import Site, words
from support import Library

from rag_mcp.evaluation.questions import parse_questions
from rag_mcp.evaluation.runner import evaluate
from rag_mcp.models import Mode, Reason
from rag_mcp.requests import SearchRequest
from rag_mcp.search.gaps import note_gap
from rag_mcp.server.page.evaluation import REPORT
from rag_mcp.server.page.history import changed
from rag_mcp.server.page.series import Line, Run, lines_of

SECRET = "AKIA" + "QZ7W" * 4
LOG = "# Weir log {day}\n\n## Gauge\n\nThe gauge reads {height}.\n\n## Keeper\n\nThe keeper is Odile.\n"
DAYS = {"2031-05-01": "eleven", "2031-05-02": "eleven", "2031-05-03": "twelve", "2031-05-04": "eleven"}
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Two generations: one with a series and what is left out, and one that changes, adds, removes and withdraws."""
    folder = tmp_path_factory.mktemp("upkeep")
    with Library(folder / "corpus", folder / "store", gap_log=str(folder / "gaps.jsonl")) as library:
        library.write({f"docs/weir-{day}.md": LOG.format(day=day, height=height) for day, height in DAYS.items()})
        library.write({"docs/sluice.md": f"# Sluice\n\nThe sluice key is {SECRET} and the gate is oak.\n"})
        library.write(
            {"docs/torn.md": b"\0\0\xff", "memory/own.md": b"\0\0\xff", "docs/old.md": "# Old\n\nAn old note.\n"}
        )
        library.write({"docs/secretplan.md": "# Plan\n\nThe plan is to move the weir.\n"})
        library.ingest()
        library.write({"docs/new.md": "# New\n\nA new note of the weir.\n", "docs/old.md": "# Old\n\nAn older note.\n"})
        library.remove("docs/weir-2031-05-04.md")
        library.write({"docs/secretplan.md": "---\naccess: none\n---\n# Plan\n\nThe plan is to move the weir.\n"})
        library.ingest()
        yield library


@pytest.fixture(scope="module")
def restricted(site):
    return site.signed_in("restricted")


# --- left out --------------------------------------------------------------------------------------------------------


def test_each_file_left_out_is_named_with_the_reason_to_whom_may_know_of_it(auditor, restricted, library):
    told = library.base(profile="auditor").status()
    text = words(auditor.get("/page/left").text)
    assert {each.source for each in told.skipped} >= {"docs/torn.md", "memory/own.md"}
    for each in (*told.skipped, *told.notices):
        assert html.unescape(text).count(each.source) >= 1
    of_restricted = restricted.get("/page/left").text
    assert "docs/torn.md" in of_restricted and "memory/own.md" not in of_restricted


def test_secrets_that_were_masked_are_counted_and_not_shown(auditor):
    text = auditor.get("/page/left").text
    assert "possible secret: 1 file" in words(text) and "docs/sluice.md" in text and SECRET not in text


# --- freshness -------------------------------------------------------------------------------------------------------


def test_an_auditor_sees_what_each_run_changed_and_how_to_go_back(auditor):
    text = auditor.get("/page/freshness").text
    rows = [words(row) for row in re.findall(r"<tr>(.*?)</tr>", text, re.S)][1:]
    assert [row.split()[0] for row in rows] == ["2", "1"] and "live" in rows[0] and "secretplan" not in text
    assert "1 new, 1 changed, 2 gone docs/new.md docs/old.md" in rows[0]
    assert "rag-mcp rollback 1" in rows[1] and "rag-mcp rollback" not in rows[0]


def test_others_see_how_fresh_it_is_and_no_history(restricted, library):
    text = restricted.get("/page/freshness").text
    assert "Generation 2" in words(text) and "rollback" not in text and "gone" not in text
    assert str(library.corpus) not in text and str(library.store_path) not in text


def test_a_document_that_may_not_be_shown_counts_and_is_not_named(library):
    files = library.manifest().files
    made = changed({}, files, lambda path, _: not path.endswith("new.md"))
    assert made.added == len(files) and "docs/new.md" not in made.named and (made.altered, made.gone) == (0, 0)


# --- series ----------------------------------------------------------------------------------------------------------


def test_a_passage_is_one_line_with_a_run_for_each_time_it_stood():
    days = ["2031-05-01", "2031-05-02", "2031-05-03"]
    snapshots = [
        [(1, "# Log 2031-05-01"), (3, "## A\n\none")],
        [(1, "# Log 2031-05-02"), (3, "## A\n\ntwo"), (7, "## B\n\nnew")],
        [(1, "# Log 2031-05-03"), (3, "## A\n\none"), (7, "## B\n\nnew")],
    ]
    assert lines_of(days, snapshots) == [
        Line("Log …", (Run(0, 2, 1),)),
        Line("A one", (Run(0, 0, 3), Run(2, 2, 3))),
        Line("A two", (Run(1, 1, 3),)),
        Line("B new", (Run(1, 2, 7),)),
    ]
    assert lines_of(days, [snapshots[0], [], snapshots[2]])[0].runs == (Run(0, 0, 1), Run(2, 2, 1))


def test_a_series_is_listed_and_drawn_with_each_change_and_each_day_a_question(restricted):
    listed = restricted.get("/page/series").text
    assert "docs/weir-2031-05-01.md" in listed and "docs/sluice.md" not in listed
    drawn = restricted.get("/page/series", params={"source": "docs/weir-2031-05-02.md", "query": "gauge & keeper"}).text
    assert "3 snapshots, 2031-05-01 to 2031-05-03" in drawn
    table = words(drawn[drawn.index('id="words"') :])
    assert re.search(r"The gauge reads eleven\. 2031-05-01 to 2031-05-02 ", table)
    assert re.search(r"The gauge reads twelve\. 2031-05-03 ", table)
    assert re.search(r"The keeper is Odile\. 2031-05-01 to 2031-05-03 ", table)
    assert drawn.count('class="run"') == 3
    assert 'href="/page/ask?query=gauge+%26+keeper&amp;as_of=2031-05-03"' in drawn
    lead = re.search(r'href="(/page/document\?source=docs%2Fweir-2031-05-03\.md#L1)"', drawn)
    assert lead and restricted.get(lead[1]).status_code == 200


def test_what_is_no_series_and_what_is_hidden_are_alike(restricted):
    replies = [
        restricted.get("/page/series", params={"source": source})
        for source in ("docs/sluice.md", "docs/none-2031-05-01.md", "memory/own-2031-05-01.md")
    ]
    shown = {re.sub(r'value="[^"]*"', "", reply.text) for reply in replies}
    assert [reply.status_code for reply in replies] == [404] * 3 and len(shown) == 1


# --- gaps ------------------------------------------------------------------------------------------------------------


def test_unanswered_questions_are_an_auditors_in_groups_with_what_was_nearest(auditor, restricted, library):
    log = library.config().gap_log
    weak = Reason.STRICT_BLOCKED_LOW.value
    for question, reason in (
        ("who is the keeper of the weir gauge", weak),
        ("who is the keeper of the weir gauge today", weak),
        (f"zeppelin {HOSTILE}", Reason.NO_RESULTS.value),
    ):
        note_gap(log, question, reason)
    before = log.read_bytes()
    assert restricted.get("/page/gaps").status_code == 404 and "Gaps" not in restricted.get("/page/ask").text
    text = auditor.get("/page/gaps").text
    assert log.read_bytes() == before  # looking asks nothing that is noted
    first, second = text.split("<li>\n<h2")[1:3]
    assert "asked 2 times" in first and "docs/weir-" in first and "1 more way" in first
    assert 'href="/page/ask?query=who+is+the+keeper+of+the+weir+gauge"' in first
    assert "<script>alert" not in text and "asked 1 time<" in second and "docs/" not in second


def test_where_no_questions_are_kept_it_is_said(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        library.write({"docs/a.md": "# A\n\nA lock.\n"})
        library.ingest()
        with Site(library, tmp_path / "tokens.json").running() as site:
            assert "RAG_MCP_GAP_LOG" in site.signed_in("auditor").get("/page/gaps").text


# --- evaluation ------------------------------------------------------------------------------------------------------


def test_the_report_in_the_stores_place_is_an_auditors_with_charts_and_no_markup_of_its_own(
    auditor, restricted, library
):
    place = library.store_path / REPORT
    assert REPORT in auditor.get("/page/evaluation").text
    lines = [
        {"id": "1", "question": "gauge", "relevant": [{"source": "docs/weir-2031-05-01.md"}], "difficulty": HOSTILE},
        {"id": "2", "question": "zeppelin", "answerable": False, "negkind": HOSTILE},
    ]
    questions = parse_questions([json.dumps(line) for line in lines])
    base = library.base(profile="auditor")
    report = evaluate(questions, base.search, modes=[Mode.FTS], spans=lambda _: (0, 1)).as_json()
    assert base.search(SearchRequest.parse({"query": "gauge"})).results
    for written, said in (
        (json.dumps(report), "2 questions, 1 of them answerable"),
        (json.dumps({**report, "modes": {"fts": {}}}), "lacks something"),
        ("{", "is not JSON"),
    ):
        place.write_text(written, encoding="utf-8")
        reply = auditor.get("/page/evaluation")
        assert reply.status_code == 200 and said in words(reply.text), reply.text
        assert "<script" not in reply.text and "<img" not in reply.text and str(library.store_path) not in reply.text
        assert reply.text.count("<svg") == (3 if written == json.dumps(report) else 0)
    assert restricted.get("/page/evaluation").status_code == 404
    place.unlink()
