from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_mcp.evaluation.gate import (
    Outcome,
    auroc,
    auroc_interval,
    brier,
    calibration_error,
    gate_statistics,
    operating_point,
    reliability,
    sweep,
)

SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=30)


def outcome(score: float, *, relevant: bool = False, answered: bool = False, negkind: str | None = None) -> Outcome:
    return Outcome(best_score=score, top_score=score, top_relevant=relevant, answered=answered, negkind=negkind)


def test_auroc_counts_pairs_and_gives_ties_half():
    assert auroc([0.9, 0.5], [0.5, 0.1]) == 3.5 / 4
    assert auroc([1.0], [0.0]) == 1.0
    assert auroc([], [0.0]) is None


@given(SCORES, SCORES)
def test_auroc_equals_the_share_of_pairs_won(positives, negatives):
    pairs = [(p > n) + (p == n) / 2 for p in positives for n in negatives]
    assert auroc(positives, negatives) == pytest.approx(sum(pairs) / len(pairs))


@given(SCORES, SCORES)
def test_auroc_of_swapped_groups_adds_up_to_one(positives, negatives):
    forth, back = auroc(positives, negatives), auroc(negatives, positives)
    assert forth is not None and back is not None
    assert forth + back == pytest.approx(1.0)


def test_the_auroc_interval_holds_the_value_and_repeats():
    ours, theirs = [0.2, 0.6, 0.7, 0.9] * 10, [0.1, 0.3, 0.65] * 10
    got = auroc_interval(ours, theirs)
    assert got is not None and got == auroc_interval(ours, theirs)
    assert got.low < got.mean < got.high and got.mean == auroc(ours, theirs)


def test_calibration_error_is_the_count_weighted_gap():
    pairs = [(0.95, True)] * 3 + [(0.95, False)] + [(0.05, False)] * 4
    # Bin 0.9..1: |0.95 - 0.75| = 0.2, weight 1/2. Bin 0..0.1: 0.05, weight 1/2.
    assert calibration_error(pairs) == pytest.approx(0.125)
    assert brier([(1.0, True), (0.5, False)]) == pytest.approx(0.125)


def test_scores_on_an_edge_go_up_and_one_stays_in_the_last_bin():
    counts = [one.count for one in reliability([(0.0, False), (0.1, False), (0.999, True), (1.0, True)])]
    assert counts == [1, 1, 0, 0, 0, 0, 0, 0, 0, 2]


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1))
def test_calibration_error_and_brier_lie_between_zero_and_one_and_no_pair_is_lost(pairs):
    assert 0 <= calibration_error(pairs) <= 1 and 0 <= brier(pairs) <= 1
    assert sum(one.count for one in reliability(pairs)) == len(pairs)


def test_shares_are_told_for_each_kind_alone():
    got = gate_statistics(
        [
            outcome(0.9, relevant=True, answered=True),
            outcome(0.4),
            outcome(0.8, answered=True, negkind="near"),
            outcome(0.1, negkind="near"),
            outcome(0.1, negkind="far"),
        ]
    )
    assert got.answered is not None and got.answered.mean == 0.5
    assert {kind: share.mean for kind, share in got.withheld.items()} == {"far": 1.0, "near": 0.5}
    assert got.withheld_all is not None and got.withheld_all.mean == pytest.approx(2 / 3)
    assert {kind: area.mean for kind, area in got.auroc_by_kind.items()} == {"far": 1.0, "near": 0.75}
    assert got.auroc is not None and got.auroc.mean == pytest.approx(5 / 6)


def test_a_set_without_unanswerable_questions_has_no_auroc_but_still_a_calibration_error():
    got = gate_statistics([outcome(0.5, relevant=True, answered=True)])
    assert got.auroc is None and got.withheld == {} and got.withheld_all is None
    assert got.ece == 0.5


def test_the_operating_point_answers_the_share_asked_for():
    outcomes = [outcome(n / 20) for n in range(20)] + [outcome(0.0, negkind="far"), outcome(0.5, negkind="far")]
    point = operating_point(outcomes, answered=0.95)
    assert point is not None
    assert (point.threshold, point.answered, point.withheld) == (0.05, 0.95, {"far": 0.5})
    assert operating_point([outcome(0.5, negkind="far")], answered=0.95) is None


@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from([None, "near", "far"])), min_size=1))
def test_a_higher_threshold_never_answers_more_nor_withholds_less(rows):
    points = sweep([outcome(score, negkind=kind) for score, kind in rows])
    for low, high in zip(points, points[1:], strict=False):
        if low.answered is not None and high.answered is not None:
            assert high.answered <= low.answered
        assert all(high.withheld[kind] >= share for kind, share in low.withheld.items())
    assert points[0].answered in (None, 1.0) and not any(points[0].withheld.values())
