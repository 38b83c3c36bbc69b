from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from rag_mcp.errors import StoreDamaged
from rag_mcp.evaluation import Provenance, evaluate, read_questions
from rag_mcp.models import Mode

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "evaluate.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("evaluate_script", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def sets(tmp_path):
    for name in ("one", "two"):
        (tmp_path / "sets" / name / "corpus").mkdir(parents=True)
        line = json.dumps({"question": "q", "relevant": ["a.md"]})
        (tmp_path / "sets" / name / "queries.jsonl").write_text(line, encoding="utf-8")
    (tmp_path / "sets" / "no-corpus").mkdir()
    (tmp_path / "sets" / "no-corpus" / "queries.jsonl").write_text("", encoding="utf-8")
    return tmp_path / "sets"


@pytest.fixture
def measure(result, scripted):
    def run(folder, options):
        made = Provenance(corpus=folder.name, corpus_digest="d", embedder="hash", date=options.date.isoformat())
        search = scripted({"q": [result("a.md")]})
        questions = read_questions(folder / "queries.jsonl")
        return evaluate(questions, search, modes=options.modes, spans=lambda one: (0, 1), provenance=made)

    return run


def test_every_set_gives_a_row_a_mode_and_its_files(script, sets, measure, tmp_path, capsys):
    out = tmp_path / "docs" / "E.md"
    arguments = ["--all", str(sets), "--modes", "hybrid,fts", "--out", str(out), "--date", "2024-06-01"]
    files = ["--json-dir", str(tmp_path / "json"), "--html-dir", str(tmp_path / "html")]
    assert script.main([*arguments, *files], measure=measure) == 0
    text = out.read_text(encoding="utf-8")
    assert [line.split(" | ")[:2] for line in text.splitlines() if "| 1.000 |" in line] == [
        ["| one", "hybrid"],
        ["| one", "fts"],
        ["| two", "hybrid"],
        ["| two", "fts"],
    ]
    assert "Measured 2024-06-01 with embedder hash" in text and text in f"{script.splice('', capsys.readouterr().out)}"
    assert sorted(path.name for path in tmp_path.glob("*ml/*")) == ["one.html", "two.html"]
    assert json.loads((tmp_path / "json" / "two.json").read_text(encoding="utf-8"))["questions"] == 1


def test_a_second_run_is_compared_with_the_first(script, sets, measure, tmp_path, capsys):
    folder = str(tmp_path / "json")
    assert script.main(["--all", str(sets), "--sets", "one", "--json-dir", folder], measure=measure) == 0
    assert script.main(["--all", str(sets), "--sets", "one", "--compare-dir", folder], measure=measure) == 0
    assert "### one, against the earlier run" in capsys.readouterr().out


def test_a_set_that_fails_is_told_and_the_others_go_on(script, sets, measure, capsys):
    def half(folder, options):
        if folder.name == "one":
            raise StoreDamaged("broken store")
        return measure(folder, options)

    assert script.main(["--all", str(sets)], measure=half) == 1
    said = capsys.readouterr()
    assert "one: broken store" in said.err and "| two | hybrid |" in said.out


def test_a_folder_without_sets_fails(script, tmp_path, capsys):
    assert script.main(["--all", str(tmp_path)]) == 1
    assert "holds no set" in capsys.readouterr().err


def test_an_unknown_mode_is_a_usage_error(script, sets, capsys):
    with pytest.raises(SystemExit) as caught:
        script.main(["--all", str(sets), "--modes", "magic"])
    assert caught.value.code == 2 and "hybrid, fts, vector" in capsys.readouterr().err


def test_only_the_marked_part_of_a_document_is_replaced(script):
    first = script.splice("# Title\n\nText.\n", "old")
    assert first.startswith("# Title\n\nText.\n\n<!-- evaluation:begin -->\nold\n")
    again = script.splice(first + "\nAfter.\n", "new")
    assert "old" not in again and again.startswith("# Title") and again.endswith("After.\n")
    assert again.count(script.BEGIN) == 1


def test_default_modes_are_all(script):
    assert script._parser().parse_args(["--all", "x"]).modes == list(Mode)
