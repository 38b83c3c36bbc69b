from __future__ import annotations

import itertools
import json

import pytest

from rag_mcp.errors import InvalidQuery, StoreDamaged
from rag_mcp.evaluation.metrics import METRICS
from rag_mcp.evaluation.questions import parse_questions
from rag_mcp.evaluation.runner import Provenance, evaluate, scored_questions
from rag_mcp.models import Gate, Level, Mode

QUESTIONS = parse_questions(
    [
        '{"id": "found", "question": "found?", "relevant": [{"source": "a.md", "start": 10, "end": 20}], "type": "easy"}',
        '{"id": "second", "question": "second?", "relevant": ["b.md"], "type": "hard"}',
        '{"id": "off", "question": "off?", "answerable": false, "negkind": "other-product"}',
        '{"id": "none", "question": "none?", "answerable": false, "negkind": "absent"}',
    ]
)


def by_explain(one):
    return tuple(one.explain["span"]) if one.explain else (0, 1)


@pytest.fixture
def search(result, scripted):
    return scripted(
        {
            "found?": [result("a.md", 0.9, span=(0, 11)), result("a.md", 0.5), result("c.md", 0.4, level=Level.LOW)],
            "second?": [result("a.md", 0.6, level=Level.LOW), result("b.md", 0.5, level=Level.LOW)],
            "off?": [result("a.md", 0.3, level=Level.MEDIUM)],
        }
    )


def run(search, **options):
    return evaluate(QUESTIONS, search, **{"modes": [Mode.HYBRID], "spans": by_explain, **options})


def test_ranking_is_averaged_over_answerable_questions_only(search):
    table = run(search).as_json()["modes"]["hybrid"]
    assert (table["hit@1"], table["hit@5"], table["mrr@10"]) == (0.5, 1.0, 0.75)
    assert (table["chunk_hit@1"], table["ci"]["chunk_hit@1"]["n"]) == (1.0, 1)


def test_the_gate_reads_the_strict_answer_off_the_open_one(search):
    report = run(search).as_json()
    assert report["gate"]["answered"] == 0.5  # "second?" has low results only
    assert report["gate"]["withheld"] == {"absent": 1.0, "other-product": 0.0}
    assert {request.confidence for request in search.asked} == {Gate.NORMAL}


def test_the_json_has_the_documented_keys(search):
    report = run(search, modes=[Mode.VECTOR, Mode.HYBRID], chunks=7).as_json()
    assert list(report["modes"]) == ["vector", "hybrid"]
    for table in report["modes"].values():
        assert set(METRICS) <= set(table) and set(table["ci"]) == set(METRICS)
    assert {"answered", "auroc", "ece", "withheld"} <= set(report["gate"])
    assert set(report["latency_ms"]) == {"p50", "p95"}
    assert (report["chunks"], report["questions"], report["gate"]["mode"]) == (7, 4, "vector")
    assert report == json.loads(json.dumps(report, allow_nan=False))


def test_each_question_keeps_a_row_that_can_be_read_alone(search):
    row = run(search).as_json()["rows"][0]
    answer = row["modes"]["hybrid"]
    assert (row["id"], row["expected"][0]["source"]) == ("found", "a.md")
    assert [one["relevant"] for one in answer["results"]] == [True, True, False]
    assert answer["results"][0]["overlaps"] is True and answer["results"][1]["overlaps"] is False
    assert (answer["score"], answer["level"], answer["answered"]) == (0.9, "high", True)


def test_the_first_search_of_a_mode_is_not_measured(search):
    ticks = itertools.chain([0.0, 100.0], itertools.count(200.0, 0.002))  # the warm-up takes 100 s, the others 2 ms
    report = run(search, clock=lambda: next(ticks))
    assert report.modes[Mode.HYBRID].latency_ms == {"p50": pytest.approx(2.0), "p95": pytest.approx(2.0)}
    assert [request.query for request in search.asked][:2] == ["found?", "found?"]


def test_a_duplicate_that_was_collapsed_takes_the_rank_below(result, scripted):
    search = scripted({"second?": [result("a.md", also_in=("b.md",)), result("c.md")]})
    table = run(search).as_json()["rows"][1]["modes"]["hybrid"]["metrics"]
    assert (table["hit@1"], table["mrr@10"]) == (0.0, 0.5)


def test_a_refused_question_counts_as_unanswered_and_is_told(result):
    def refuse(request):
        raise InvalidQuery("query", "is too long.")

    report = run(refuse).as_json()
    assert report["modes"]["hybrid"]["errors"] == 4 and report["modes"]["hybrid"]["hit@5"] == 0.0
    assert report["rows"][0]["modes"]["hybrid"]["error"] == "query: is too long."


def test_a_failing_store_ends_the_run():
    def fail(request):
        raise StoreDamaged("broken")

    with pytest.raises(StoreDamaged):
        run(fail)


def test_degraded_answers_are_counted(result, scripted):
    from dataclasses import replace

    whole = scripted({"found?": [result("a.md")]})
    report = run(lambda request: replace(whole(request), degraded=True)).as_json()
    assert report["modes"]["hybrid"]["degraded"] == 4


def test_difficulties_are_told_apart(search):
    tables = run(search).as_json()["modes"]["hybrid"]["by_difficulty"]
    assert (tables["easy"]["hit@1"], tables["hard"]["hit@1"]) == (1.0, 0.0)
    assert tables["hard"]["chunk_hit@1"] is None


def test_calibration_gets_the_score_the_gate_decides_by(result, scripted):
    search = scripted({"found?": [result("a.md", 0.4), result("c.md", 0.7)]})
    scored = scored_questions(run(search), Mode.HYBRID)
    assert [(one.score, one.relevant, one.answerable) for one in scored] == [
        (0.7, True, True),
        (0.0, False, True),
        (0.0, False, False),
        (0.0, False, False),
    ]


def test_provenance_reaches_the_json(search):
    made = Provenance(corpus="c", corpus_digest="d", embedder="hash", date="2024-06-01", versions={"x": "1"})
    assert run(search, provenance=made).as_json()["provenance"]["versions"] == {"x": "1"}


def test_no_questions_or_no_modes_are_refused(search):
    with pytest.raises(ValueError, match="at least one"):
        run(search, modes=[])
