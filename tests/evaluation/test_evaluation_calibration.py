from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_mcp.errors import InvalidArgument
from rag_mcp.evaluation.calibration import (
    ScoredQuestion,
    TooFewQuestions,
    fit_platt,
    fit_thresholds,
    questions_needed,
)
from rag_mcp.evaluation.gate import calibration_error


def answerable(score: float, *, relevant: bool = True) -> ScoredQuestion:
    return ScoredQuestion(score=score, relevant=relevant, answerable=True)


def unanswerable(score: float) -> ScoredQuestion:
    return ScoredQuestion(score=score, relevant=False, answerable=False)


SAMPLES = st.tuples(
    st.lists(st.builds(answerable, st.floats(0, 1), relevant=st.booleans()), min_size=20, max_size=60),
    st.lists(st.builds(unanswerable, st.floats(0, 1)), min_size=10, max_size=30),
).map(lambda groups: groups[0] + groups[1])


@pytest.mark.parametrize(("wanted", "others"), [(19, 10), (20, 9), (0, 0)])
def test_too_few_questions_say_how_many_there_are_and_how_many_it_takes(wanted, others):
    scored = [answerable(0.9)] * wanted + [unanswerable(0.1)] * others
    with pytest.raises(TooFewQuestions, match=f"{wanted} answerable and {others} unanswerable .* 20 .* 10 ") as caught:
        fit_thresholds(scored)
    assert (caught.value.answerable, caught.value.needed_answerable) == (wanted, 20)


def test_a_stricter_target_needs_more_questions():
    assert questions_needed(0.95) == (20, 10)
    assert questions_needed(0.99) == (99, 10)


def test_between_two_separate_groups_the_threshold_stands_in_the_middle():
    got = fit_thresholds([answerable(0.8)] * 20 + [unanswerable(0.2)] * 10)
    assert got.medium == pytest.approx(0.5)
    assert (got.high, got.n_answerable, got.n_unanswerable) == (0.8, 20, 10)


@given(SAMPLES)
def test_the_share_asked_for_is_answered_and_high_is_never_below_medium(scored):
    got = fit_thresholds(scored)
    wanted = [one.score for one in scored if one.answerable]
    assert sum(score >= got.medium for score in wanted) / len(wanted) >= 0.95
    assert 0 <= got.medium <= got.high <= 1


@given(SAMPLES)
def test_scores_from_high_up_are_as_precise_as_asked_unless_none_is(scored):
    got = fit_thresholds(scored)
    above = [one.relevant for one in scored if one.score >= got.high]
    if got.medium < got.high < 1.0:
        assert sum(above) / len(above) >= 0.9 and len(above) >= 10


def test_without_a_precise_region_nothing_is_high():
    got = fit_thresholds([answerable(0.5 + n / 100, relevant=n % 2 == 0) for n in range(30)] + [unanswerable(0.1)] * 10)
    assert got.high == 1.0


def test_new_questions_of_the_same_kind_are_answered_as_promised():
    rng = random.Random(7)
    shares = []
    for _ in range(300):
        got = fit_thresholds([answerable(rng.random()) for _ in range(25)] + [unanswerable(0.0)] * 10)
        shares.append(1 - got.medium)  # scores are uniform: the share above a threshold is one minus it
    assert sum(shares) / len(shares) >= 0.95


@pytest.mark.parametrize("score", [-0.1, 1.1, math.nan])
def test_a_score_that_is_no_probability_is_refused(score):
    with pytest.raises(InvalidArgument, match="from 0 to 1"):
        fit_thresholds([answerable(score)] * 20 + [unanswerable(0.1)] * 10)


def test_a_share_outside_zero_to_one_is_refused():
    with pytest.raises(InvalidArgument, match="answered_target"):
        fit_thresholds([], answered_target=1.0)


@settings(max_examples=40, deadline=None)
@given(scored=SAMPLES, scores=st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_recalibration_is_monotone_and_gives_probabilities(scored, scores):
    mapped = [fit_platt(scored).apply(score) for score in sorted(scores)]
    assert all(0 <= p <= 1 for p in mapped)
    assert all(low <= high + 1e-12 for low, high in zip(mapped, mapped[1:], strict=False))


def drawn(n: int, truth, seed: int) -> list[ScoredQuestion]:
    rng = random.Random(seed)
    scores = [rng.random() for _ in range(n)]
    return [answerable(score, relevant=rng.random() < truth(score)) for score in scores] + [unanswerable(0.001)] * 10


def test_overconfident_scores_become_probabilities_on_questions_not_fitted():
    def truth(score: float) -> float:
        z = 0.4 * math.log(max(score, 1e-6) / max(1 - score, 1e-6)) - 1
        return 1 / (1 + math.exp(-z))

    fitted = fit_platt(drawn(300, truth, seed=1))
    fresh = drawn(3000, truth, seed=2)
    before = calibration_error([(one.score, one.relevant) for one in fresh])
    after = calibration_error([(fitted.apply(one.score), one.relevant) for one in fresh])
    assert before > 0.15 and after < 0.05


def test_calibrated_scores_stay_nearly_as_they_are():
    fitted = fit_platt(drawn(5000, lambda score: score, seed=3))
    assert all(abs(fitted.apply(step / 20) - step / 20) < 0.03 for step in range(1, 20))


def test_scores_that_rank_backwards_give_the_base_rate():
    fitted = fit_platt([answerable(0.1)] * 30 + [unanswerable(0.9)] * 30)
    assert fitted.apply(0.1) == pytest.approx(fitted.apply(0.9)) == pytest.approx(0.5)
