"""``rag-mcp calibrate`` and ``rag-mcp eval`` over a real store."""

import json

import pytest
from cli_process import forked_cli
from support import Library

TOPICS = ("anchors", "bellows", "candles", "dredgers", "eels", "ferries", "gaskets", "herrings", "icebergs", "jetties")


@pytest.fixture
def library(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store") as found:
        texts = {
            f"{t}-{n}.md": f"# {t} {n}\n\nThe {t} of yard {n} are painted {t} red in month {n}.\n"
            for t in TOPICS
            for n in range(3)
        }
        found.write(texts)
        yield found


def questions(path, answerable: int, unanswerable: int):
    lines = []
    for number in range(answerable):
        topic, n = TOPICS[number % 10], number // 10 % 3
        question = f"what colour are the {topic} of yard {n} painted in month {n}"
        lines.append(
            {
                "id": f"a{number}",
                "question": question,
                "answerable": True,
                "relevant": [{"source": f"{topic}-{n}.md", "quote": None}],
            }
        )
    for number in range(unanswerable):
        lines.append(
            {
                "id": f"u{number}",
                "question": f"zebra quantum violin number {number}",
                "answerable": False,
                "relevant": [],
                "negkind": "off-topic",
            }
        )
    path.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    return path


def test_too_few_questions_are_refused_with_the_number_needed(library, tmp_path):
    few = questions(tmp_path / "few.jsonl", 5, 2)
    done = forked_cli("calibrate", few, "--corpus", library.corpus, "--db", library.store_path)
    assert done.returncode == 2
    assert "5 answerable and 2 unanswerable" in done.stderr


def test_a_calibration_is_kept_with_the_store_and_calibrating_again_gives_the_same(library, tmp_path):
    asked = questions(tmp_path / "asked.jsonl", 30, 15)
    first = forked_cli("calibrate", asked, "--corpus", library.corpus, "--db", library.store_path)
    assert first.returncode == 0, first.stderr
    kept = (library.store_path / "calibration.json").read_bytes()
    shipped = library.search("zebra quantum violin", confidence="normal")
    assert forked_cli("calibrate", asked, "--corpus", library.corpus, "--db", library.store_path).returncode == 0
    assert (library.store_path / "calibration.json").read_bytes() == kept
    assert all(result.confidence == "low" for result in shipped.results)
    assert library.search("what colour are the eels of yard 1 painted", confidence="strict").status == "OK"
    assert library.search("zebra quantum violin number 3", confidence="strict").status == "NO_RELEVANT_CONTEXT"


def test_a_calibration_for_another_embedder_counts_as_none(library, tmp_path):
    asked = questions(tmp_path / "asked.jsonl", 30, 15)
    assert forked_cli("calibrate", asked, "--corpus", library.corpus, "--db", library.store_path).returncode == 0
    raw = json.loads((library.store_path / "calibration.json").read_text(encoding="utf-8"))
    before = library.search("eels of yard 1").results[0].score
    (library.store_path / "calibration.json").write_text(json.dumps({**raw, "embedder": "other"}), encoding="utf-8")
    uncalibrated = library.search("eels of yard 1").results[0].score
    (library.store_path / "calibration.json").write_text("{torn", encoding="utf-8")
    assert library.search("eels of yard 1").results[0].score == uncalibrated != before


def test_eval_writes_json_and_a_page_and_compares_with_an_older_run(library, tmp_path):
    asked = questions(tmp_path / "asked.jsonl", 30, 15)
    old, page = tmp_path / "old.json", tmp_path / "page.html"
    common = ("eval", asked, "--corpus", library.corpus, "--db", library.store_path)
    done = forked_cli(*common, "--json", old, "--report", page)
    assert done.returncode == 0, done.stderr
    report = json.loads(old.read_text(encoding="utf-8"))
    assert report["questions"] == 45
    assert set(report["modes"]) == {"hybrid", "fts", "vector"}
    assert {"answered", "auroc", "ece"} <= set(report["gate"])
    assert "off-topic" in report["gate"]["withheld"]
    assert page.read_text(encoding="utf-8").startswith("<!doctype html")
    again = forked_cli(*common, "--modes", "hybrid", "--compare", old)
    assert again.returncode == 0, again.stderr
    assert forked_cli(*common, "--modes", "hybird").returncode == 2
