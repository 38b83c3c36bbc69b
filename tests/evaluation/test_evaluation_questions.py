from __future__ import annotations

import json

import pytest

from rag_mcp.evaluation.questions import QuestionsInvalid, parse_questions, read_questions


def line(**fields: object) -> str:
    return json.dumps({"id": "q1", "question": "Why?", **fields})


def test_a_full_line_keeps_its_ranges_kind_and_difficulty():
    (question,) = parse_questions(
        [
            line(
                answerable=True,
                relevant=[{"source": "a.md", "quote": "x", "start": 3, "end": 4}, {"source": "b.md", "quote": None}],
                lang="en",
                type="hard",
                answers=["ignored"],
            )
        ]
    )
    assert question.sources == {"a.md", "b.md"}
    assert question.ranges == (("a.md", 3, 4),)
    assert (question.lang, question.difficulty, question.negkind) == ("en", "hard", None)


def test_a_user_may_write_only_the_question_and_the_file_names():
    questions = parse_questions(['{"question": "Why?", "relevant": ["./a.md"]}', "", '{"question": "Who?"}'])
    assert [(one.id, one.answerable, one.sources) for one in questions] == [
        ("line-1", True, {"a.md"}),
        ("line-3", False, frozenset()),
    ]
    assert questions[1].negkind == "unanswerable"


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "JSON object"),
        (line(question=" "), "'question' is missing"),
        (line(question=3), "'question' must be a text"),
        (line(answerable="yes"), "true or false"),
        (line(answerable=True), "at least one file"),
        (line(answerable=False, relevant=["a.md"]), "'near'"),
        (line(relevant="a.md"), "must be a list"),
        (line(relevant=[3]), "file name or an object"),
        (line(relevant=[{"quote": "x"}]), "no 'source'"),
        (line(relevant=[{"source": "a.md", "start": 1}]), "belong together"),
        (line(relevant=[{"source": "a.md", "start": 5, "end": 5}]), "0 <= start < end"),
        (line(relevant=[{"source": "a.md", "start": True, "end": 5}]), "0 <= start < end"),
        (line(id=[1]), "'id'"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_a_bad_line_is_named_with_its_number(bad, says):
    with pytest.raises(QuestionsInvalid, match=r"q\.jsonl, line 2: ") as caught:
        parse_questions([line(id="ok"), bad], name="q.jsonl")
    assert says in str(caught.value)
    assert caught.value.line == 2


def test_an_id_used_twice_names_the_first_line():
    with pytest.raises(QuestionsInvalid, match=r"line 2: id 'q1' was used in line 1"):
        parse_questions([line(), line()])


def test_a_file_with_byte_order_mark_and_windows_line_ends_is_read(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + line().encode() + b"\r\n" + line(id="q2").encode() + b"\r\n")
    assert [one.id for one in read_questions(path)] == ["q1", "q2"]


def test_an_empty_or_missing_file_says_so(tmp_path):
    path = tmp_path / "q.jsonl"
    with pytest.raises(QuestionsInvalid, match="can't be read"):
        read_questions(path)
    path.write_text("\n", encoding="utf-8")
    with pytest.raises(QuestionsInvalid, match="holds no question"):
        read_questions(path)
