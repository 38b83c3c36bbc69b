from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_mcp.evaluation.metrics import (
    chunk_hit,
    chunk_metrics,
    distinct,
    file_metrics,
    interval,
    ndcg,
    paired_difference,
    percentile,
    reciprocal_rank,
)

FILES = st.lists(st.sampled_from([f"{n}.md" for n in range(15)]), unique=True)
RELEVANT = st.frozensets(st.sampled_from([f"{n}.md" for n in range(15)]), min_size=1)


def test_passages_of_one_file_count_as_one_place_in_the_list():
    assert distinct(["a", "a", "b", "a", "c"]) == ("a", "b", "c")


def test_a_file_at_rank_three_gives_the_textbook_values():
    got = file_metrics(("x", "y", "a"), {"a"})
    assert got == {"hit@1": 0.0, "hit@5": 1.0, "mrr@10": pytest.approx(1 / 3), "ndcg@10": pytest.approx(0.5)}


def test_ndcg_of_two_relevant_files_at_ranks_one_and_four():
    gained = 1 + 1 / math.log2(5)
    ideal = 1 + 1 / math.log2(3)
    assert ndcg(("a", "x", "y", "b"), {"a", "b"}) == pytest.approx(gained / ideal)


def test_more_relevant_files_than_the_cutoff_can_still_reach_one():
    files = tuple(f"{n}" for n in range(10))
    assert ndcg(files, {f"{n}" for n in range(30)}) == pytest.approx(1.0)


def test_a_file_past_rank_ten_counts_nothing():
    files = tuple("abcdefghij") + ("wanted",)
    assert reciprocal_rank(files, {"wanted"}) == ndcg(files, {"wanted"}) == 0.0


@given(FILES, RELEVANT)
def test_every_metric_lies_between_zero_and_one_and_agrees_with_the_others(files, relevant):
    got = file_metrics(files, relevant)
    assert all(0 <= value <= 1 + 1e-12 for value in got.values())
    assert got["hit@1"] <= got["mrr@10"] and got["hit@1"] <= got["hit@5"]
    assert (got["mrr@10"] == 0) == (got["ndcg@10"] == 0)


@given(FILES, RELEVANT)
def test_moving_a_relevant_file_up_never_lowers_a_metric(files, relevant):
    at = next((index for index, file in enumerate(files) if index and file in relevant), None)
    if at is None:
        return
    better = [*files[: at - 1], files[at], files[at - 1], *files[at + 1 :]]
    before, after = file_metrics(files, relevant), file_metrics(better, relevant)
    assert all(after[name] >= before[name] - 1e-12 for name in before)


def test_ranges_that_only_touch_do_not_overlap():
    wanted = [("a", 10, 20)]
    assert chunk_hit([("a", 0, 10)], wanted, 1) == 0.0
    assert chunk_hit([("a", 20, 30)], wanted, 1) == 0.0
    assert chunk_hit([("a", 19, 30)], wanted, 1) == 1.0
    assert chunk_hit([("b", 0, 99)], wanted, 1) == 0.0


def test_chunk_metrics_exist_only_where_a_range_is_known():
    assert chunk_metrics([("a", 0, 9)], []) == {}
    passages = [("b", 0, 9), ("a", 0, 9)]
    assert chunk_metrics(passages, [("a", 3, 4)]) == {"chunk_hit@1": 0.0, "chunk_hit@5": 1.0}


def test_percentiles_interpolate():
    assert percentile([4, 1, 3, 2], 0.5) == 2.5
    assert percentile([1, 2, 3, 4, 5], 1.0) == 5
    assert math.isnan(percentile([], 0.5))


def test_the_interval_is_the_same_each_time_and_holds_the_mean():
    values = [0.0, 1.0] * 50
    got = interval(values)
    assert got == interval(values)
    assert got is not None and got.mean == 0.5 and got.n == 100
    assert 0.38 < got.low < 0.42 and 0.58 < got.high < 0.62  # 0.5 +- 1.96 x 0.05


def test_no_values_have_no_interval_and_equal_values_no_width():
    assert interval([]) is None
    got = interval([1.0] * 7)
    assert got is not None and (got.low, got.mean, got.high) == (1.0, 1.0, 1.0)


def test_the_same_run_twice_differs_by_nothing():
    got = paired_difference([0.0, 1.0, 0.5], [0.0, 1.0, 0.5])
    assert (got.mean, got.low, got.high, got.p_value) == (0.0, 0.0, 0.0, 1.0)


def test_a_gain_on_every_question_is_significant_and_one_gain_in_many_is_not():
    sure = paired_difference([0.0] * 20, [1.0] * 20)
    assert sure.mean == 1.0 and sure.p_value < 0.001
    chance = paired_difference([0.0] * 20, [1.0] + [0.0] * 19)
    assert chance.p_value == 1.0  # a single changed question has only two signs


def test_the_p_value_matches_the_exact_sign_count():
    # Six gains of one: 2 of the 64 sign patterns are as extreme.
    got = paired_difference([0.0] * 6, [1.0] * 6)
    assert got.p_value == pytest.approx(2 / 64, abs=0.006)


def test_unequal_runs_are_refused():
    with pytest.raises(ValueError, match="same questions"):
        paired_difference([1.0], [1.0, 0.0])
