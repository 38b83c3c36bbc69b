"""Telemetry counts, and says nothing beyond counts."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_mcp.models import SourceClass
from rag_mcp.telemetry import Telemetry


def test_a_fresh_process_has_no_latencies_to_tell():
    assert Telemetry().snapshot(()) == {
        "requests": 0,
        "by_tool": {},
        "by_status": {},
        "by_reason": {},
        "by_winner": {},
        "latency_ms": {"p50": None, "p95": None, "max": None},
    }


def test_requests_are_counted_by_tool_status_reason_and_winner():
    telemetry = Telemetry()
    telemetry.record("search_knowledge", status="OK", elapsed_ms=2, winner_class=SourceClass.DOCS)
    telemetry.record("search_knowledge", status="NO_RELEVANT_CONTEXT", reason="no_results", elapsed_ms=4)
    telemetry.record("rag_status", status="OK", elapsed_ms=1)
    found = telemetry.snapshot(tuple(SourceClass))
    assert found["requests"] == 3
    assert found["by_tool"] == {"rag_status": 1, "search_knowledge": 2}
    assert found["by_status"] == {"NO_RELEVANT_CONTEXT": 1, "OK": 2}
    assert found["by_reason"] == {"no_results": 1}
    assert found["by_winner"] == {"docs": 1}


def test_a_hidden_class_does_not_show_as_a_winner():
    telemetry = Telemetry()
    telemetry.record("search_knowledge", status="OK", elapsed_ms=1, winner_class=SourceClass.MEMORY)
    assert telemetry.snapshot((SourceClass.DOCS,))["by_winner"] == {}


@settings(deadline=None)
@given(st.lists(st.floats(0.1, 100_000), min_size=1, max_size=60))
def test_quantiles_are_within_five_percent_of_the_exact_ones(latencies):
    telemetry = Telemetry()
    for latency in latencies:
        telemetry.record("t", status="OK", elapsed_ms=latency)
    ordered = sorted(latencies)
    found = telemetry.snapshot(())["latency_ms"]
    for share, name in ((0.5, "p50"), (0.95, "p95")):
        exact = ordered[-(-len(ordered) * round(share * 100) // 100) - 1]
        assert found[name] == pytest.approx(exact, rel=0.05, abs=0.002)
    assert found["max"] == round(max(latencies), 3)


@pytest.mark.parametrize("odd", [-1.0, float("nan"), float("inf"), 1e12])
def test_an_odd_clock_breaks_nothing(odd):
    telemetry = Telemetry()
    telemetry.record("t", status="OK", elapsed_ms=odd)
    assert telemetry.snapshot(())["requests"] == 1


def test_no_count_is_lost_between_threads():
    telemetry = Telemetry()

    def work() -> None:
        for _ in range(500):
            telemetry.record("t", status="OK", elapsed_ms=1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert telemetry.snapshot(())["requests"] == 4000
