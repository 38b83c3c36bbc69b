"""Damage of a class tells nothing to who may not see it, and is named to who may; a missing model tells no place."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from governed import PLACES, TOOL_NAMES, Caller, governed, settled


def all_answers(caller: Caller) -> list[str]:
    answers = [caller.search(mode=mode, explain=True) for mode in ("hybrid", "fts", "vector")]
    answers += [caller.ask("get_document", source=place.path) for place in PLACES]
    answers += [caller.ask(tool) for tool in TOOL_NAMES if tool not in ("search_knowledge", "get_document")]
    return [json.dumps(settled(answer)) for answer in answers]


def keyword_folder(generation: Path, source_class: str) -> Path:
    return generation / "keywords" / source_class


def vector_folder(generation: Path, source_class: str) -> Path:
    """The folder with the vectors of a class, asked of the database itself."""
    query = (
        "SELECT s.id FROM segments s JOIN collections c ON s.collection = c.id "
        "WHERE s.scope = 'VECTOR' AND c.name LIKE '%' || ?"
    )
    with closing(sqlite3.connect(generation / "chroma" / "chroma.sqlite3")) as database:
        return generation / "chroma" / database.execute(query, (source_class,)).fetchone()[0]


def scrambled(folder: Path) -> None:
    for path in folder.iterdir():
        data = bytes(byte ^ 0x5A for byte in path.read_bytes())
        path.unlink()  # the file is shared with other generations
        path.write_bytes(data)


def shortened(folder: Path) -> None:
    for path in folder.iterdir():
        data = path.read_bytes()[: path.stat().st_size // 2]
        path.unlink()
        path.write_bytes(data)


@pytest.fixture
def library(tmp_path):
    with governed(tmp_path) as found:
        # A class of one row has no vector folder of its own yet.
        found.write({f"journal/{number}.md": f"# Day {number}\n\nThe harbour day {number}.\n" for number in range(3)})
        found.ingest()
        yield found


@pytest.mark.parametrize("harm", [scrambled, shortened, shutil.rmtree])
@pytest.mark.parametrize("where", [keyword_folder, vector_folder])
def test_damage_of_a_hidden_class_changes_no_answer(library, where, harm):
    whole = Caller(library, "restricted")
    before = all_answers(whole)
    whole.base.close()  # what is open stays in memory and would hide the damage
    harm(where(library.generations.path(library.generations.current()), "memory"))
    damaged = Caller(library, "restricted")
    assert all_answers(damaged) == before
    assert "degraded" not in damaged.search()
    status = damaged.ask("rag_status")
    assert (status["healthy"], status["degraded_reason"]) == (True, None)


@pytest.mark.parametrize("harm", [scrambled, shortened, shutil.rmtree])
def test_the_same_damage_is_named_to_who_may_see_the_class(library, harm):
    for number in library.generations.numbers():
        harm(keyword_folder(library.generations.path(number), "memory"))
    for mode in ("hybrid", "fts", "vector"):
        answer = Caller(library, "auditor").search(mode=mode)
        assert answer["coverage"]["failed"] == ["memory"]
        assert answer["degraded"] is True and "memory" in answer["degraded_reason"]
        assert {hit["source_class"] for hit in answer["results"]} == {"code", "decisions", "docs"}
    alone = Caller(library, "auditor").search(source_class="memory")
    assert (alone["status"], alone["reason"], alone["coverage"]["failed"]) == (
        "NO_RELEVANT_CONTEXT",
        "plane_failed",
        ["memory"],
    )


def test_a_class_that_was_broken_while_it_was_hidden_fails_by_name_once_it_may_be_seen(library):
    for number in library.generations.numbers():
        shortened(keyword_folder(library.generations.path(number), "memory"))
        shortened(vector_folder(library.generations.path(number), "memory"))
    caller = Caller(library, "engineer")
    assert "degraded_reason" not in caller.search()
    policy = library.config().policy_path
    wider = policy.read_text("utf-8")
    wider = wider.replace("  nobody_special:", "  engineer:\n    classes: [docs, memory]\n  nobody_special:")
    policy.write_text(wider, encoding="utf-8")
    answer = caller.search()
    assert answer["coverage"]["failed"] == ["memory"]
    assert {hit["source_class"] for hit in answer["results"]} == {"docs"}
    assert caller.search(source_class="memory")["reason"] == "plane_failed"


@pytest.mark.parametrize("content", [None, b"\xffgarbage"], ids=["missing", "damaged"])
def test_a_model_that_cannot_be_loaded_leaves_the_keywords_and_tells_no_place(library, tmp_path, content):
    models = tmp_path / "the models" / "mine"
    models.mkdir(parents=True)
    if content is not None:
        for name in ("model.onnx", "tokenizer.json"):
            (models / name).write_bytes(content)
    caller = Caller(library, "restricted", embedder="onnx", model_dir=models)
    hybrid, vector, fts = (caller.search("heron", mode=mode, explain=True) for mode in ("hybrid", "vector", "fts"))
    assert hybrid["results"][0]["citation"]["source"] == "docs/guide.md"
    assert hybrid["results"][0]["explain"]["vector"] is None
    assert hybrid["degraded"] is True and "<path>" in hybrid["degraded_reason"]
    assert (vector["status"], vector["reason"], vector["results"]) == ("NO_RELEVANT_CONTEXT", "plane_failed", [])
    assert "degraded" not in fts
    for answer in (hybrid, vector, fts, caller.ask("rag_status")):
        assert "mine" not in json.dumps(answer) and str(tmp_path) not in json.dumps(answer)
