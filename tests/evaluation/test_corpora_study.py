"""What two corpora behind one server cost each, as the documents report it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "corpora_study.py"


@pytest.fixture(scope="module")
def study():
    spec = importlib.util.spec_from_file_location("corpora_study", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def sets(tmp_path):
    texts = {
        "mill": {"saw.md": "The band saw is sharpened on Fridays.", "belt.md": "The drive belt hangs in the attic."},
        "inn": {"beds.md": "Seven beds stand under the roof.", "soup.md": "Barley soup is cooked on Mondays."},
    }
    words = {"mill": ("band saw", "drive belt"), "inn": ("seven beds", "barley soup")}
    other = {"mill": "inn", "inn": "mill"}
    for name, files in texts.items():
        folder = tmp_path / name / "corpus"
        folder.mkdir(parents=True)
        for file, text in files.items():
            (folder / file).write_text(f"# {file.removesuffix('.md').title()}\n\n{text}\n")
        asked = [
            {"id": str(i), "question": text, "answerable": True, "relevant": [{"source": file}]}
            for i, (text, file) in enumerate(zip(words[name], files, strict=True))
        ]
        stray = [words[other[name]][0], "quantum chromodynamics"]
        asked += [
            {"id": f"n{i}", "question": text, "answerable": False, "relevant": [], "negkind": "other-product"}
            for i, text in enumerate(stray)
        ]
        (tmp_path / name / "queries.jsonl").write_text("".join(json.dumps(each) + "\n" for each in asked))
    return tmp_path


def test_each_set_is_measured_alone_and_beside_the_other_and_in_halves(study, sets, tmp_path, capsys):
    out = tmp_path / "report.md"
    out.write_text(f"before\n{study.BEGIN}\nold\n{study.END}\nafter\n")
    options = ["--all", sets, "--cache", tmp_path / "stores", "--embedder", "hash", "--out", out]
    assert study.main(list(map(str, [*options, "--pair", "mill,inn", "--split", "mill"]))) == 0
    before, table, after = out.read_text().split("<!-- corpora:")[0], capsys.readouterr().out, out.read_text()
    assert before == "before\n" and after.endswith("\nafter\n") and table.strip() in after and "old" not in after
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    assert [row[:3] for row in rows] == [
        ["mill", "inn", "3"],  # what the other corpus answers is not asked
        ["inn", "mill", "3"],
        ["mill", "its other half", "4"],
    ]
    assert all(row[3:5] == ["1.000", "1.000"] for row in rows), "each file is found, alone and beside others"
