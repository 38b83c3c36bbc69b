import random
from dataclasses import replace
from datetime import date, timedelta
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_mcp.models import SourceClass
from rag_mcp.text.series import (
    PassageKey,
    SeriesDay,
    collapse,
    group_series,
    members_to_read,
    series_of,
    state_on,
)

DOCS, MEMORY = SourceClass.DOCS, SourceClass.MEMORY


def day(number, *texts, heading="Lamp"):
    iso = (date(2031, 3, 1) + timedelta(days=number - 1)).isoformat()
    return SeriesDay(f"log/ferry-{iso}.md", iso, tuple(PassageKey((heading,), text) for text in texts))


def stored(plan):
    """{(day of month, position): days of month it holds on} of what is stored."""
    return {
        (int(path[-5:-3]), position): [int(iso[-2:]) for iso in held]
        for (path, position), held in plan.valid_on.items()
    }


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("ops/fleet-health-2026-07-23.md", ("ops/fleet-health", "2026-07-23")),
        ("a-2024-02-29.MARKDOWN", ("a", "2024-02-29")),
        ("d/log-2031-01-01-2031-01-02.md", ("d/log-2031-01-01", "2031-01-02")),
        ("d-2031-01-01/x.md", None),
        ("2031-01-02.md", None),
        ("daily/2031-01-02.md", None),
        ("daily/-2031-01-02.md", None),
        ("release-2031-13-45.md", None),
        ("release-2031-02-29.md", None),
        ("release-0000-01-01.md", None),
        ("log2031-01-02.md", None),
        ("log-2031-01-02.txt", None),
        ("log-2031-01-02-final.md", None),
        ("log-2031-1-2.md", None),
        ("log-٢٠٣١-٠١-٠٢.md", None),
        ("", None),
    ],
)
def test_only_a_name_ending_in_a_real_date_is_in_a_series(path, found):
    assert series_of(path) == found


def test_one_stem_in_two_unicode_spellings_is_one_series():
    assert series_of("u\u0308/fähre-2031-01-02.md") == series_of("ü/fa\u0308hre-2031-01-02.md")


def test_stems_differing_in_case_are_different_series():
    assert series_of("Log-2031-01-02.md")[0] != series_of("log-2031-01-02.md")[0]


# --- groups ----------------------------------------------------------------------------------------------------------


def names(stem, days, ending="md"):
    return [f"{stem}-2031-01-{number:02}.{ending}" for number in days]


def test_three_files_of_one_folder_stem_and_class_form_a_series_in_date_order():
    paths = names("ops/a", [3, 1, 2]) + names("ops/b", [1, 2]) + names("other/a", [1, 2, 3]) + ["ops/a.md"]
    groups = group_series([(path, DOCS) for path in paths])
    assert list(groups.values()) == [names("ops/a", [1, 2, 3]), names("other/a", [1, 2, 3])]


def test_source_classes_never_share_a_series():
    mixed = [(path, MEMORY if "02" in path else DOCS) for path in names("a", [1, 2, 3, 4])]
    assert list(group_series(mixed).values()) == [names("a", [1, 3, 4])]
    both = group_series([(path, DOCS) for path in names("a", [1, 2, 3])] + [(p, MEMORY) for p in names("b", [1, 2, 3])])
    assert len(set(both)) == 2
    assert all(any(each.value in key for each in (DOCS, MEMORY)) for key in both)


@given(st.permutations([*names("a", [1, 2, 3]), *names("a", [2], "markdown"), *names("a", [2, 3], "MD")]))
def test_a_day_has_one_snapshot_whatever_the_order_files_are_found_in(paths):
    assert list(group_series([(path, DOCS) for path in paths]).values()) == [names("a", [1, 2, 3])]


def test_two_spellings_of_one_day_do_not_make_up_for_a_missing_third_day():
    assert group_series([(path, DOCS) for path in [*names("a", [1, 2]), *names("a", [2], "markdown")]]) == {}


# --- collapsing ------------------------------------------------------------------------------------------------------


def test_a_value_that_changes_and_comes_back_is_a_new_fact():
    lamps = ["green", "green", "amber", "green", "green", "green"]
    plan = collapse([day(number, lamp) for number, lamp in enumerate(lamps, 1)])
    assert stored(plan) == {(1, 0): [1, 2], (3, 0): [3], (4, 0): [4, 5, 6]}


def test_a_missing_calendar_day_does_not_break_a_run():
    assert stored(collapse([day(1, "green"), day(9, "green"), day(20, "green")])) == {(1, 0): [1, 9, 20]}


def test_when_the_first_file_is_deleted_the_text_lives_on_under_the_next_date():
    days = [day(number, "green") for number in (1, 2, 3)]
    assert stored(collapse(days[1:])) == {(2, 0): [2, 3]}


def test_the_same_text_under_another_heading_is_another_passage():
    assert len(collapse([day(1, "green"), day(2, "green", heading="Horn")]).valid_on) == 2


def test_equal_passages_of_one_file_are_told_apart_by_occurrence():
    plan = collapse([day(1, "x", "x"), day(2, "x"), day(3, "x", "y", "x")])
    assert stored(plan) == {(1, 0): [1, 2, 3], (1, 1): [1], (3, 1): [3], (3, 2): [3]}


def test_one_heading_with_two_texts_keeps_both():
    plan = collapse([day(1, "morning", "evening"), day(2, "evening", "morning")])
    assert stored(plan) == {(1, 0): [1, 2], (1, 1): [1, 2]}


def test_without_dedupe_every_passage_owns_itself_on_its_own_date():
    plan = collapse([day(1, "x"), day(2, "x")], dedupe=False)
    assert stored(plan) == {(1, 0): [1], (2, 0): [2]}
    assert all(place == owner for place, owner in plan.owners.items())


def test_a_path_given_twice_is_refused():
    with pytest.raises(ValueError, match="twice"):
        collapse([day(1, "x"), day(1, "x")])


def test_two_files_of_one_date_list_the_date_once():
    first, twin = day(1, "x"), SeriesDay("log/ferry-2031-03-01.markdown", "2031-03-01", day(1, "x").passages)
    assert list(collapse([first, twin, day(2, "x")]).valid_on.values()) == [("2031-03-01", "2031-03-02")]


def naive_owner(days, place):
    """Walk back day by day as long as the passage is there; slow, and said another way than the code under test."""
    index = next(i for i, each in enumerate(days) if each.path == place[0])
    key = days[index].passages[place[1]]
    occurrence = days[index].passages[: place[1]].count(key)
    while index:
        earlier = [at for at, other in enumerate(days[index - 1].passages) if other == key]
        if len(earlier) <= occurrence:
            break
        index, place = index - 1, (days[index - 1].path, earlier[occurrence])
    return place


HISTORIES = st.dictionaries(
    st.integers(1, 28),
    st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from("xyz")), max_size=5),
    max_size=8,
)


def series(history):
    return [
        SeriesDay(f"s-2031-03-{n:02}.md", f"2031-03-{n:02}", tuple(PassageKey((h,), t) for h, t in history[n]))
        for n in sorted(history)
    ]


@given(HISTORIES, st.randoms(use_true_random=False))
def test_the_plan_equals_a_naive_recomputation_in_any_order_of_input(history, rng: random.Random):
    days = series(history)
    shuffled = rng.sample(days, len(days))
    plan = collapse(shuffled)
    places = [(each.path, position) for each in days for position in range(len(each.passages))]
    assert plan.owners == {place: naive_owner(days, place) for place in places}
    assert set(plan.valid_on) == set(plan.owners.values())
    date_of = {each.path: each.date for each in days}
    for owner, held in plan.valid_on.items():
        assert list(held) == [date_of[path] for (path, _), other in sorted(plan.owners.items()) if other == owner]
        assert held[0] == date_of[owner[0]]


@given(HISTORIES)
def test_what_is_valid_on_a_day_is_exactly_that_days_file(history):
    days = series(history)
    plan = collapse(days)
    passage_at = {(each.path, at): key for each in days for at, key in enumerate(each.passages)}
    for each in days:
        owners = [plan.owners[(each.path, at)] for at in range(len(each.passages))]
        assert [passage_at[owner] for owner in owners] == list(each.passages)
        assert len(set(owners)) == len(owners)
        assert set(owners) == {owner for owner, held in plan.valid_on.items() if each.date in held}


@given(HISTORIES, st.data())
def test_editing_or_deleting_a_day_changes_nothing_before_it(history, data):
    days = series(history)
    cut = data.draw(st.integers(0, len(days)))
    whole, head = collapse(days), collapse(days[:cut])
    assert head.owners == {place: owner for place, owner in whole.owners.items() if place in head.owners}


def test_only_the_neighbours_of_what_is_new_changed_or_gone_are_read():
    days = [f"d{number}" for number in range(6)]
    assert members_to_read(days, days, set()) == set()
    assert members_to_read([*days, "d6"], days, {"d6"}) == {"d5", "d6"}
    assert members_to_read(["d", *days], days, {"d"}) == {"d", "d0"}
    assert members_to_read(days, days, {"d2"}) == {"d1", "d2", "d3"}
    assert members_to_read(days[1:], days, set()) == {"d1"}
    assert members_to_read(days[:-1], days, set()) == set()
    assert members_to_read(["d0", "d1", "d3", "d4"], ["d0", "d1", "d2", "d3", "d4"], set()) == {"d1", "d3"}
    assert members_to_read(days, [], {"d5"}) == set(days)


@given(HISTORIES, HISTORIES, st.sets(st.integers(1, 28), max_size=6))
def test_the_plan_of_a_series_of_which_only_some_days_were_read_is_that_of_all(history, edits, removed):
    """What is known of the days that are not read are the ids they had, each that of its owner."""
    was = series(history)
    known = {
        path: tuple(str(owner) for _, owner in group)
        for path, group in groupby(sorted(collapse(was).owners.items()), key=lambda item: item[0][0])
    }
    now = series({n: texts for n, texts in {**history, **edits}.items() if n not in removed})
    changed = {each.path for each in now if each.path[-5:-3].lstrip("0") in {str(n) for n in edits}}
    read = changed | members_to_read([each.path for each in now], [each.path for each in was], changed)
    some = [
        replace(
            each,
            passages=each.passages if each.path in read else None,
            carried=() if each.path in changed else known.get(each.path, ()),
        )
        for each in now
    ]
    assert collapse(some) == collapse(now)


# --- a day asked for -------------------------------------------------------------------------------------------------


def test_the_state_on_a_day_is_the_latest_snapshot_not_after_it():
    dates = ["2031-03-09", "2031-03-01", "2031-03-05"]
    asked = [date(2031, 2, 28), date(2031, 3, 1), date(2031, 3, 4), date(2031, 3, 5), date(2032, 1, 1)]
    assert [state_on(dates, each) for each in asked] == [None, "2031-03-01", "2031-03-01", "2031-03-05", "2031-03-09"]
    assert state_on([], date(2031, 1, 1)) is None
