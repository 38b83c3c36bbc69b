from __future__ import annotations

import copy
import json

import pytest

from rag_mcp.evaluation.compare import ReportInvalid, compare, read_report
from rag_mcp.evaluation.questions import parse_questions
from rag_mcp.evaluation.runner import Provenance, evaluate
from rag_mcp.evaluation.tables import comparison_table, mode_table, probability, sets_table
from rag_mcp.models import Level, Mode


@pytest.fixture
def report(result, scripted):
    lines = [json.dumps({"id": f"q{n}", "question": f"q{n}", "relevant": ["a.md"]}) for n in range(12)]
    lines.append(json.dumps({"id": "off", "question": "off", "answerable": False, "negkind": "far|off"}))
    found = {f"q{n}": [result("b.md", 0.5), result("a.md", 0.4)] for n in range(12)}
    search = scripted({**found, "off": [result("b.md", 0.2, level=Level.LOW)]})
    made = Provenance(corpus="c", corpus_digest="d", embedder="one", date="2024-06-01")
    spans = lambda one: (0, 1)  # noqa: E731
    return evaluate(parse_questions(lines), search, modes=[Mode.HYBRID], spans=spans, provenance=made).as_json()


def improved(report):
    better = copy.deepcopy(report)
    for row in better["rows"][:12]:
        row["modes"]["hybrid"]["metrics"].update({"hit@1": 1.0, "mrr@10": 1.0, "ndcg@10": 1.0})
    better["rows"][12]["modes"]["hybrid"]["answered"] = True
    better["provenance"]["embedder"] = "two"
    return better


def test_a_run_compared_with_itself_shows_no_change(report):
    got = compare(report, report)
    assert got.changes == () and got.notes == ()
    assert {(one.mean, one.p_value) for one in got.differences["hybrid"].values()} == {(0.0, 1.0)}


def test_gains_and_losses_are_told_by_measure(report):
    got = compare(report, improved(report))
    table = got.differences["hybrid"]
    assert (table["hit@1"].old, table["hit@1"].new, table["hit@1"].n) == (0.0, 1.0, 12)
    assert table["hit@1"].p_value < 0.01 and table["hit@5"].mean == 0.0
    assert table["withheld far|off"].mean == -1.0
    assert got.notes == ("The two runs used a different embedder.",)


def test_a_lost_withholding_does_not_crowd_out_ranking_changes(report):
    changes = compare(report, improved(report)).changes
    assert [change.measure for change in changes] == ["ndcg@10"] * 10 + ["withheld far|off"]


def test_questions_are_paired_by_id_and_text_not_by_place(report):
    other = copy.deepcopy(report)
    other["rows"].reverse()
    other["rows"][0]["question"] = "reworded"
    got = compare(report, other)
    assert (got.shared, got.only_old, got.only_new) == (12, 1, 1)
    assert {one.mean for one in got.differences["hybrid"].values()} == {0.0}


def test_reports_without_a_shared_question_or_mode_are_refused(report):
    other = copy.deepcopy(report)
    other["modes"] = {"fts": other["modes"]["hybrid"]}
    with pytest.raises(ReportInvalid, match="no question or no mode"):
        compare(report, other)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ("[]", "not an evaluation report"),
        ('{"rows": [], "modes": {"a": 1}, "format": 9}', "format 9"),
    ],
)
def test_a_file_that_is_no_report_is_refused(tmp_path, text, says):
    path = tmp_path / "r.json"
    with pytest.raises(ReportInvalid, match="can't be read"):
        read_report(path)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ReportInvalid, match=says):
        read_report(path)


def test_a_report_reads_back_as_it_was_written(tmp_path, report):
    path = tmp_path / "r.json"
    path.write_text(json.dumps(report), encoding="utf-8")
    assert read_report(path) == report


def test_tables_are_markdown_and_a_bar_in_a_name_does_not_cut_a_cell(report):
    text = comparison_table(compare(report, improved(report)))
    assert "| hybrid | hit@1 | 0.000 | 1.000 | +1.000 (+1.000 to +1.000) | < 0.001 | 12 |" in text
    assert "withheld far\\|off" in text
    assert "| hybrid | 0.000 (0.000 to 0.000) | 1.000 (1.000 to 1.000) | 0.500" in mode_table(report)
    assert "| s | hybrid | 0.000 | 1.000 | 0.500 |" in sets_table({"s": report})
    assert probability(0.25) == "0.250"
