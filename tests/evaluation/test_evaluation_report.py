from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from rag_mcp.evaluation.compare import compare
from rag_mcp.evaluation.questions import parse_questions
from rag_mcp.evaluation.report import render
from rag_mcp.evaluation.runner import evaluate
from rag_mcp.models import Level, Mode

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028&amp;"


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.data = ""
        self._in_data = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._in_data = dict(attrs).get("id") == "data"

    def handle_data(self, data):
        if self._in_data:
            self.data += data

    def handle_endtag(self, tag):
        self._in_data = False


@pytest.fixture
def report(result, scripted):
    lines = [
        {"id": HOSTILE, "question": HOSTILE, "relevant": [{"source": "a.md", "quote": HOSTILE}], "difficulty": HOSTILE},
        {"id": "off", "question": "off", "answerable": False, "negkind": HOSTILE},
    ]
    search = scripted(
        {HOSTILE: [result("a.md", 0.8, text=HOSTILE)], "off": [result(HOSTILE, 0.1, level=Level.LOW)]},
    )
    questions = parse_questions([json.dumps(line) for line in lines])
    return evaluate(questions, search, modes=[Mode.HYBRID, Mode.FTS], spans=lambda one: (0, 1)).as_json()


def test_hostile_questions_add_no_element_and_no_script(report):
    page = Page(render(report, title=HOSTILE, comparison=compare(report, report)))
    assert "img" not in {tag for tag, _ in page.tags}
    assert [attrs.get("id") for tag, attrs in page.tags if tag == "script"] == ["data", None]
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)


def test_the_embedded_data_is_the_report_as_it_was(report):
    assert json.loads(Page(render(report)).data) == {"modes": ["hybrid", "fts"], "rows": report["rows"]}


def test_the_page_names_nothing_outside_itself(report):
    text = render(report)
    page = Page(text)
    assert not any({"src", "href", "action"} & set(attrs) for _, attrs in page.tags)
    assert not re.search(r"https?://|@import|url\(", text)
    policies = [attrs["content"] for _, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1 and "default-src 'none'" in policies[0] and "unsafe-inline'; script" in policies[0]


def test_every_mode_has_its_numbers_and_charts(report):
    text = render(report)
    assert text.count("Threshold sweep") == 2 * 2  # label and title, twice
    assert "Gate, hybrid" in text and "Gate, fts" in text
    assert '<th scope="row">fts</th><td>1.000 <small>1.000 to 1.000</small></td>' in text
    assert "0.80 to 0.84: 1 of 1" in text  # the histogram bar of the one answerable question


def test_a_set_without_unanswerable_questions_still_renders(result, scripted):
    questions = parse_questions(['{"question": "q", "relevant": ["a.md"]}'])
    got = evaluate(questions, scripted({}), modes=[Mode.HYBRID], spans=lambda one: (0, 1)).as_json()
    assert "answerable (1)" in render(got)


def test_refused_and_degraded_answers_are_shown_as_warnings(report):
    report["modes"]["fts"]["degraded"] = 3
    assert "fts: 3 answers were degraded" in render(report)
