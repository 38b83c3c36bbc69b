"""The gap log: its owner's, small, never through a link; and its groups, in linear time."""

from __future__ import annotations

import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import growth

from rag_mcp.errors import ConfigError
from rag_mcp.search import gaps
from rag_mcp.search.gaps import Gap, append_gap, group_gaps, read_gaps

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes and links of POSIX")


def gap(question: str, at: str = "2031-01-01") -> Gap:
    return Gap(at, question, "no_results")


def asked(path) -> list[str]:
    return [one.question for one in read_gaps(path)]


def test_the_log_stays_small_and_keeps_the_latest_questions(tmp_path, monkeypatch):
    monkeypatch.setattr(gaps, "MAX_LOG_BYTES", 2_000)
    log = tmp_path / "gaps.jsonl"
    for number in range(200):
        append_gap(log, gap(f"question {number}"))
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["gaps.jsonl", "gaps.jsonl.1"]
    assert all(file.stat().st_size <= 2_000 for file in files)
    kept = asked(log)
    assert kept == [f"question {number}" for number in range(200 - len(kept), 200)]
    assert len(kept) > 20


def test_a_log_grown_too_large_before_is_read_from_its_end(tmp_path, monkeypatch):
    log = tmp_path / "gaps.jsonl"
    for number in range(200):
        append_gap(log, gap(f"question {number}"))
    monkeypatch.setattr(gaps, "MAX_LOG_BYTES", 1_000)
    kept = asked(log)
    assert kept[-1] == "question 199" and 10 < len(kept) < 100


@posix
def test_both_logs_are_their_owners_and_an_open_one_is_closed(tmp_path, monkeypatch):
    monkeypatch.setattr(gaps, "MAX_LOG_BYTES", 300)
    log = tmp_path / "gaps.jsonl"
    log.write_text("", encoding="utf-8")
    log.chmod(0o666)
    for number in range(9):
        append_gap(log, gap(f"question {number}"))
        assert log.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "gaps.jsonl.1").stat().st_mode & 0o777 == 0o600


@posix
@pytest.mark.parametrize("there", [True, False])
def test_nothing_is_written_through_a_link(tmp_path, there):
    target, log = tmp_path / "target", tmp_path / "gaps.jsonl"
    if there:
        target.write_text("untouched", encoding="utf-8")
    log.symlink_to(target)
    with pytest.raises(OSError, match="link"):
        append_gap(log, gap("where"))
    assert (target.read_text(encoding="utf-8") if there else None) == ("untouched" if there else None)
    assert target.exists() == there


@posix
def test_an_older_log_that_is_a_link_is_replaced_and_not_followed(tmp_path, monkeypatch):
    monkeypatch.setattr(gaps, "MAX_LOG_BYTES", 200)
    target, log = tmp_path / "target", tmp_path / "gaps.jsonl"
    target.write_text("untouched", encoding="utf-8")
    (tmp_path / "gaps.jsonl.1").symlink_to(target)
    for number in range(9):
        append_gap(log, gap(f"question {number}"))
    assert target.read_text(encoding="utf-8") == "untouched"
    assert not (tmp_path / "gaps.jsonl.1").is_symlink()


@posix
def test_a_pipe_holds_up_neither_a_search_nor_the_report(tmp_path):
    log = tmp_path / "gaps.jsonl"
    os.mkfifo(log)
    with pytest.raises(OSError):
        append_gap(log, gap("where"))
    with pytest.raises(ConfigError, match="no file"):
        read_gaps(log)


def test_a_missing_log_says_so(tmp_path):
    with pytest.raises(ConfigError, match="can't be read"):
        read_gaps(tmp_path / "none.jsonl")


# --- groups ----------------------------------------------------------------------------------------------------------


def quadratic(questions: list[str]) -> list[list[str]]:
    """The same grouping, by comparing each question with every group."""
    groups: list[tuple[frozenset[str], list[str]]] = []
    for question in questions:
        words = gaps._words(question)
        home = next(
            (members for first, members in groups if words | first and len(words & first) / len(words | first) >= 0.5),
            None,
        )
        if home is None:
            groups.append((words, [question]))
        else:
            home.append(question)
    return sorted(sorted(members) for _, members in groups)


@given(st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4).map(" ".join), max_size=40))
def test_groups_are_those_of_comparing_each_with_all(questions):
    questions = [" ".join(f"word{letter}" for letter in question.split()) for question in questions]
    found = group_gaps([gap(question, f"{n:03}") for n, question in enumerate(questions)])
    assert sum(group.count for group in found) == len(questions)
    assert sorted(sorted(set(group.questions)) for group in found) == [
        sorted(set(members)) for members in quadratic(questions)
    ]


def test_a_question_asked_again_joins_its_group_however_much_lies_between():
    questions = ["harbour lights"] + [f"harbour thing{n} term{n} word{n}" for n in range(300)] + ["lights harbour"]
    assert group_gaps([gap(question) for question in questions])[0].count == 2


@pytest.mark.parametrize(
    "question",
    ["harbour {0}", "{0}", "harbour lights tide mast {0} x{0} y{0} z{0} q{0}"],
    ids=["pair", "alone", "many"],
)
def test_grouping_grows_with_the_log_and_not_with_its_square(question):
    def log(size):
        return [gap(question.format(f"unlike{n}")) for n in range(size)]

    assert growth(log, group_gaps, 500) < 3
