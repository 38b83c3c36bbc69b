"""The table of one corpus asked in five languages: what it counts as right."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "language_study.py"


@pytest.fixture(scope="module")
def study():
    spec = importlib.util.spec_from_file_location("language_study", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_question_is_put_in_every_language_and_names_a_note(study):
    material = json.loads(study.MATERIAL.read_text(encoding="utf-8"))
    assert len(material["questions"]) == 10
    for question in material["questions"]:
        assert all(question[language] for language in study.LANGUAGES)
        assert question["source"] is None or question["source"] in material["notes"]


def test_withholding_is_right_only_where_no_note_answers(study):
    rows = [dict.fromkeys(study.LANGUAGES, outcome) for outcome in ("right", "wrong", "withheld", "withheld, rightly")]
    lines = study.table("model", ["a", "b", "c", "d"], rows).splitlines()
    assert lines[2] == "| a | right | right | right | right | right |"
    assert lines[-1] == "| as it should be | 2 of 4 | 2 of 4 | 2 of 4 | 2 of 4 | 2 of 4 |"


def test_the_default_model_answers_its_own_language_and_says_nothing_wrong_in_others(study):
    lines = study.study("minilm-int8").splitlines()
    cells = [[cell.strip() for cell in line.split("|")[2:-1]] for line in lines[2:-1]]
    assert [row[0] for row in cells[:7]] == ["right"] * 7
    assert not any("wrong" in row for row in cells)
    assert lines[-1].startswith("| as it should be | 10 of 10 |")
