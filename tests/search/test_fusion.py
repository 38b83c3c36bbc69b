from hypothesis import given
from hypothesis import strategies as st

from rag_mcp.search.fusion import RRF_K0, reciprocal_rank_fusion

RANKINGS = st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8), max_size=4)


def test_each_list_adds_one_over_k0_plus_rank():
    fused = reciprocal_rank_fusion([["a", "b"], ["b", "c"]])
    assert fused == [("b", 1 / 62 + 1 / 61), ("a", 1 / 61), ("c", 1 / 62)]


def test_the_constant_is_sixty_and_can_be_given():
    assert RRF_K0 == 60
    assert reciprocal_rank_fusion([["a"]], k0=0) == [("a", 1.0)]


def test_ties_break_by_id():
    assert [item for item, _ in reciprocal_rank_fusion([["b", "a"], ["a", "b"]])] == ["a", "b"]


def test_an_id_listed_twice_counts_once_at_its_better_place():
    assert reciprocal_rank_fusion([["a", "b", "a"]]) == [("a", 1 / 61), ("b", 1 / 62)]


@given(RANKINGS)
def test_the_order_of_the_lists_changes_nothing(rankings):
    assert reciprocal_rank_fusion(rankings) == reciprocal_rank_fusion(rankings[::-1])


@given(RANKINGS)
def test_every_id_comes_once_and_scores_never_rise(rankings):
    fused = reciprocal_rank_fusion(rankings)
    assert sorted(i for i, _ in fused) == sorted({i for ranking in rankings for i in ranking})
    assert all(a[1] >= b[1] for a, b in zip(fused, fused[1:], strict=False))
