"""A place that holds no usable index: every tool and command says which kind of place it is and what to run."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_process import forked_cli
from jsonschema import Draft202012Validator
from raw_server import RawServer
from support import Library

from rag_mcp.config import Config
from rag_mcp.knowledge import KnowledgeBase
from rag_mcp.server import tools as contract
from rag_mcp.server.mcp import ToolRunner, open_knowledge
from rag_mcp.telemetry import Telemetry

CALLS = {
    "search_knowledge": {"query": "winter honey"},
    "get_document": {"source": "hive.md"},
    "list_documents": {},
    "list_knowledge_sources": {},
    "rag_status": {},
}


def nothing(place: Path) -> None:
    pass


def empty_folder(place: Path) -> None:
    place.mkdir()


def plain_file(place: Path) -> None:
    place.write_text("bees", encoding="utf-8")


def other_files(place: Path) -> None:
    place.mkdir()
    (place / "letters.txt").write_text("bees", encoding="utf-8")


def other_chroma(place: Path) -> None:
    place.mkdir()
    sqlite3.connect(place / "chroma.sqlite3").close()
    (place / "chroma.sqlite3").touch()


def begun(place: Path) -> None:
    (place / "generations" / ".building-1").mkdir(parents=True)
    (place / "writer.pid").write_text("1", encoding="ascii")


def torn_generations(place: Path) -> None:
    (place / "generations" / "000003").mkdir(parents=True)
    (place / "CURRENT").write_text("3\n", encoding="ascii")


def endless_link(place: Path) -> None:
    place.symlink_to(place.name)


PLACES: dict[Callable[[Path], None], str] = {
    nothing: "there is no such folder",
    empty_folder: "the folder is empty",
    plain_file: "it is not a folder",
    other_files: "other files and no store",
    other_chroma: "another program's Chroma database",
    begun: "published nothing yet",
    torn_generations: "damaged",
    endless_link: "it can't be read (",
}


def tree(folder: Path) -> list[tuple[str, bytes]]:
    """Every name below ``folder``, and what is in it."""
    files = sorted(path for path in folder.rglob("*"))
    return [(path.relative_to(folder).as_posix(), path.read_bytes() if path.is_file() else b"") for path in files]


def told(answer: dict[str, object]) -> str:
    """What the caller of a tool can read in an answer that is an error, or in a status that is not well."""
    if "error" in answer:
        assert answer["ok"] is False and answer["error"]["type"] == "empty_store"
        return answer["error"]["message"]
    assert answer["healthy"] is False and answer["degraded_reason"]
    return " ".join(answer["notes"])


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_each_tool_tells_what_is_at_the_place_as_it_was_configured_and_what_to_run(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    Path("hives").mkdir()
    place(tmp_path / "honey.store")
    before = tree(tmp_path)
    config = Config.load({"RAG_MCP_DB_PATH": "honey.store", "RAG_MCP_CORPUS_ROOT": "hives", "RAG_MCP_EMBEDDER": "hash"})
    runner = ToolRunner(open_knowledge(config), Telemetry())
    for tool, arguments in CALLS.items():
        answer = runner.run(tool, arguments)
        Draft202012Validator(contract.OUTPUT_SCHEMAS[tool]).validate(answer.payload)
        message = told(answer.payload)
        assert message.startswith("Nothing is indexed at honey.store: ") and PLACES[place] in message
        assert "rag-mcp ingest hives --db honey.store --embedder hash" in message
        assert str(tmp_path) not in answer.text
    assert tree(tmp_path) == before


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_each_command_tells_it_too_with_the_path_it_looked_at(tmp_path, place):
    place(tmp_path / "honey.store")
    before = tree(tmp_path)
    status = forked_cli("status", "--db", tmp_path / "honey.store")
    assert status.returncode == 1
    assert PLACES[place] in status.stdout and f"Looked at {tmp_path / 'honey.store'}" in status.stderr
    for command in (["query", "winter honey"], ["verify"], ["rollback"]):
        if place in (torn_generations, endless_link) and command != ["query", "winter honey"]:
            continue  # these speak of the damage itself
        done = forked_cli(*command, "--db", tmp_path / "honey.store")
        assert done.returncode == 1 and "Traceback" not in done.stderr
        assert PLACES[place] in done.stderr and "rag-mcp ingest FOLDER --db" in done.stderr
        assert f"(looked at {tmp_path / 'honey.store'}" in done.stderr
    assert tree(tmp_path) == before
    doctor = forked_cli("doctor", "--db", tmp_path / "honey.store")
    assert doctor.returncode == 1 and "Traceback" not in doctor.stderr
    assert "generations" in str(before) or tree(tmp_path) == before  # it tries the lock of a store that is one


def test_a_folder_that_may_not_be_read_is_told_apart_from_an_empty_one(tmp_path, monkeypatch):
    store = tmp_path / "honey.store"
    (store / "generations").mkdir(parents=True)
    real = os.listdir

    def refuse(path: str | Path = ".") -> list[str]:
        if Path(path).is_relative_to(store):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "listdir", refuse)
    runner = ToolRunner(KnowledgeBase.open(Config.load({}, db_path=store, embedder="hash")), Telemetry())
    for tool, arguments in CALLS.items():
        assert "it can't be read (Permission denied). Give this user the right" in told(
            runner.run(tool, arguments).payload
        )


def test_a_mistyped_folder_of_documents_is_named_and_no_command_repeats_the_mistake(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = Config.load({"RAG_MCP_CORPUS_ROOT": "hivse", "RAG_MCP_EMBEDDER": "hash"})
    message = told(
        ToolRunner(open_knowledge(config), Telemetry()).run("search_knowledge", CALLS["search_knowledge"]).payload
    )
    assert message.startswith("Nothing is indexed at the default store of hivse: there is no such folder.")
    assert "rag-mcp ingest FOLDER --embedder hash" in message and "hivse, is not there" in message
    done = forked_cli("ingest", "hivse")
    assert done.returncode == 1 and "hivse" in done.stderr and tree(tmp_path) == []


def test_the_command_names_the_collection_and_quotes_blanks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = Config.load({}, db_path=Path("honey store"), collection="drafts")
    message = told(ToolRunner(open_knowledge(config), Telemetry()).run("rag_status", {}).payload)
    assert 'rag-mcp ingest FOLDER --db "honey store" --collection drafts' in message


def test_a_refusal_by_profile_is_the_same_whether_a_store_is_there_or_not(tmp_path):
    """Decided before the store is looked at, so that an answer can't depend on what is hidden."""
    asked = {"query": "winter honey", "source_class": "memory"}
    with Library(tmp_path / "hives", tmp_path / "store") as library:
        library.write({"hive.md": "# Hive\n\nWinter honey stays in the hive.\n"})
        before = ToolRunner(library.base(), Telemetry()).run("search_knowledge", asked).payload
        library.ingest()
        assert ToolRunner(library.base(), Telemetry()).run("search_knowledge", asked).payload == before
        assert before["reason"] == "acl_denied"


@pytest.mark.parametrize("place", [nothing, empty_folder, begun, other_chroma], ids=lambda place: place.__name__)
def test_a_running_server_creates_nothing_and_answers_once_something_is_ingested(tmp_path, place):
    hives, store = tmp_path / "hives", tmp_path / "honey.store"
    hives.mkdir()
    (hives / "hive.md").write_text("# Hive\n\nWinter honey stays in the hive.\n", encoding="utf-8")
    place(store)
    before = tree(tmp_path)
    env = {"RAG_MCP_DB_PATH": str(store), "RAG_MCP_EMBEDDER": "hash"}
    with RawServer(env=env) as server:
        assert "conclude nothing about the documents" in server.initialize()["result"]["instructions"]
        for number, (tool, arguments) in enumerate(CALLS.items(), 2):
            message = told(server.call(tool, arguments, id=number))
            assert f"indexed at {store}: " in message  # the setting itself, though it is an absolute path
            assert PLACES[place] in message
        assert tree(tmp_path) == before
        assert forked_cli("ingest", hives, "--quiet", env=env).returncode == 0
        asked = {"query": "winter honey", "confidence": "normal"}
        assert server.call("search_knowledge", asked, id=20)["results"][0]["citation"]["source"] == "hive.md"
        assert server.call("rag_status", {}, id=21)["healthy"] is True
        assert server.end() == 0


def test_an_index_without_its_folder_of_documents_answers_and_its_status_says_so(tmp_path):
    with Library(tmp_path / "hives", tmp_path / "store") as library:
        library.write({"hive.md": "# Hive\n\nWinter honey stays in the hive.\n"})
        library.ingest()
        assert library.base().status().notes == ()
        (tmp_path / "hives").rename(tmp_path / "unmounted")
        assert library.search("winter honey").results
        (note,) = library.base().status().notes
        assert f"{tmp_path / 'hives'} is not there" in note and "rag-mcp ingest FOLDER" in note


def test_an_index_that_is_taken_away_from_a_running_server_goes_on_answering(tmp_path):
    with Library(tmp_path / "hives", tmp_path / "store") as library:
        library.write({"hive.md": "# Hive\n\nWinter honey stays in the hive.\n"})
        library.ingest()
        base = library.base()
        assert library.search("winter honey", base=base).status == "OK"
        shutil.move(tmp_path / "store", tmp_path / "elsewhere")
        found = library.search("winter honey", base=base)
        assert found.results and found.degraded and "pointer is missing" in found.degraded_reason
