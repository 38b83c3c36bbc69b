"""Files that questions name and the index does not hold are said, with what may have been meant; hidden ones are none."""

from __future__ import annotations

import json
import unicodedata

import pytest
from cli_process import forked_cli
from support import Library, growth

from rag_mcp.errors import InvalidArgument
from rag_mcp.evaluation.names import place_names, too_few
from rag_mcp.evaluation.questions import parse_questions

SOURCES = {
    "sails.md",
    "rigging/Mast Step.md",
    "rigging/boom.md",
    "old/boom.md",
    unicodedata.normalize("NFD", "tücher/größe.md"),
}

UNPLACED = "answerable, and no file in the index: {}; eval counts them as missed, calibrate not at all"


def asked(*names, near=None):
    rows = [{"question": "Where?", "relevant": [name], "id": f"q{n}"} for n, name in enumerate(names)]
    if near is not None:
        rows.append({"question": "Who?", "near": near, "id": "n"})
    return parse_questions(map(json.dumps, rows))


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("sails.md", "sails.md"),
        ("./sails.md", "sails.md"),
        (".//./sails.md", "sails.md"),
        ("rigging//boom.md", "rigging/boom.md"),
        ("tücher/größe.md", unicodedata.normalize("NFD", "tücher/größe.md")),
    ],
)
def test_a_name_is_taken_as_get_document_takes_it(name, source):
    placed = place_names(asked(name), SOURCES)
    assert [place.source for place in placed.questions[0].relevant] == [source]
    assert placed.notes == () and placed.unplaced == frozenset()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Sails.MD", "did you mean sails.md?"),
        ("rigging\\boom.md", "did you mean rigging/boom.md?"),
        (".\\sails.md", "did you mean sails.md?"),
        ("/home/me/notes/sails.md", "did you mean sails.md?"),
        ("sails", "did you mean sails.md?"),
        ("mast step.md", "did you mean rigging/Mast Step.md?"),
        ("sials.md", "did you mean sails.md?"),
        ("TÜCHER/GRÖSSE.md", "did you mean tu\u0308cher/gro\u0308ße.md?"),
        ("rigging", "it is a folder"),
        ("rigging/", "it is a folder"),
        ("keel.md", "keel.md is not in the index"),
        ("boom.md", "boom.md is not in the index"),
        ("../sails.md", "did you mean sails.md?"),
        ("keel\nforged.md", "keel\ufffdforged.md is not in the index"),
    ],
)
def test_a_name_that_is_not_there_is_said_with_what_may_be_meant(name, said):
    placed = place_names(asked("sails.md", name), SOURCES)
    assert placed.notes[1:] == (UNPLACED.format(1),)
    assert placed.notes[0].startswith("question q1: ") and said in placed.notes[0]
    assert placed.unplaced == {"q1"}


def test_a_question_with_one_file_that_is_there_counts_and_the_other_is_said():
    rows = [{"question": "Where?", "relevant": ["sails.md", "keel.md"], "id": "both"}]
    placed = place_names(parse_questions(map(json.dumps, rows)), SOURCES)
    assert placed.unplaced == frozenset() and "keel.md is not in the index" in placed.notes[0]


def test_a_tempting_file_that_is_not_there_is_said_too():
    placed = place_names(asked("sails.md", near="keel.md"), SOURCES)
    assert placed.notes == ("question n: keel.md is not in the index",) and placed.unplaced == frozenset()


def test_a_set_none_of_whose_files_is_there_is_refused_with_the_names():
    with pytest.raises(InvalidArgument, match=r"question q0: keel\.md is not in the index"):
        place_names(asked("keel.md", "rudder.md", near="sails.md"), SOURCES)
    assert place_names(parse_questions(['{"question": "Who?"}']), SOURCES).notes == ()


def test_many_names_are_counted_and_few_are_spelled_out():
    placed = place_names(asked("sails.md", *(f"no-{n}.md" for n in range(500))), SOURCES)
    assert len(placed.notes) == 22 and placed.notes[20].startswith("480 more")


@pytest.mark.parametrize(
    ("answerable", "unanswerable", "said"),
    [
        (20, 10, ()),
        (19, 10, ("few questions: 19 answerable; below 20",)),
        (20, 0, ("few questions: 0 unanswerable; below 10",)),
        (1, 9, ("few questions: 1 answerable; below 20", "few questions: 9 unanswerable; below 10")),
    ],
)
def test_a_small_set_is_said_to_be_small_and_from_which_number_it_is_not(answerable, unanswerable, said):
    rows = [{"question": "Where?", "relevant": ["a.md"]}] * answerable + [{"question": "Who?"}] * unanswerable
    found = too_few(parse_questions(map(json.dumps, rows)))
    assert len(found) == len(said)
    assert all(note.startswith(start) for note, start in zip(found, said, strict=True))


def test_the_work_grows_with_the_names():
    def material(size):
        return asked(*(f"f{n}.md" for n in range(0, 2 * size, 2))), {f"f{n}.md" for n in range(2 * size)}

    assert growth(material, lambda given: place_names(*given), 500) < 3


# --- the commands ----------------------------------------------------------------------------------------------------


@pytest.fixture
def sheds(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store") as found:
        found.write(
            {
                "kettle.md": "# Kettle\n\nThe kettle is scoured in October.\n",
                "stove.md": "# Stove\n\nThe stove is blacked in spring.\n",
                "memory/cellar-key.md": "# Key\n\nThe cellar key is under the kettle.\n",
            }
        )
        yield found


def run(command, sheds, tmp_path, rows, *more):
    file = tmp_path / "asked.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return forked_cli(command, file, "--corpus", sheds.corpus, "--db", sheds.store_path, *more)


@pytest.mark.parametrize("command", ["eval", "calibrate"])
def test_a_command_refuses_questions_about_other_files_and_a_hidden_file_is_one(sheds, tmp_path, command):
    told = [
        run(command, sheds, tmp_path, [{"question": "Where is the key?", "relevant": [name]}])
        for name in ("memory/cellar-key.md", "memory/never-was.md")
    ]
    assert [done.returncode for done in told] == [2, 2]
    assert told[0].stderr.replace("cellar-key", "never-was") == told[1].stderr
    near = run(command, sheds, tmp_path, [{"question": "Where?", "relevant": ["Cellar-Key.md"]}])
    assert near.returncode == 2 and "mean" not in near.stderr


def test_eval_names_what_is_not_there_in_words_in_json_and_on_the_page(sheds, tmp_path):
    rows = [
        {"question": "When is the kettle scoured?", "relevant": ["./kettle.md"], "id": "dot"},
        {"question": "When is the stove blacked?", "relevant": ["Stove.md"], "id": "case"},
    ]
    report, page = tmp_path / "report.json", tmp_path / "page.html"
    done = run("eval", sheds, tmp_path, rows, "--json", report, "--report", page)
    assert done.returncode == 0, done.stderr
    told = "question case: Stove.md is not in the index; did you mean stove.md?"
    assert told in done.stderr and "few questions: 2 answerable; below 20" in done.stderr
    assert "question dot" not in done.stderr
    written = json.loads(report.read_text(encoding="utf-8"))
    assert written["notes"][0] == told
    assert written["rows"][0]["modes"]["fts"]["metrics"]["hit@1"] == 1.0
    assert "Stove.md is not in the index" in page.read_text(encoding="utf-8")


def test_calibrate_leaves_questions_without_an_indexed_file_out_and_says_so(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        library.write({f"{n}.md": f"# Buoy {n}\n\nBuoy {n} carries lamp {n} of the outer row.\n" for n in range(25)})
        rows = [{"question": f"which lamp does buoy {n} carry", "relevant": [f"{n}.md"]} for n in range(25)]
        rows += [{"question": f"violin quartet number {n}"} for n in range(10)]
        lost = [{"question": f"how deep is channel {n}", "relevant": [f"channel-{n}.md"]} for n in range(3)]
        done = run("calibrate", library, tmp_path, rows + lost)
        assert done.returncode == 0, done.stderr
        assert UNPLACED.format(3) in done.stderr
        kept = json.loads((library.store_path / "calibration.json").read_text(encoding="utf-8"))
        assert "35" in json.dumps(kept)
        again = run("calibrate", library, tmp_path, rows)
        assert again.stdout == done.stdout
