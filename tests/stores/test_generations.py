import errno
import subprocess
import sys
import textwrap

import pytest

from rag_mcp.errors import StoreDamaged, StoreEmpty, StoreLocked, StoreTooNew
from rag_mcp.stores.embedded import generations
from rag_mcp.stores.embedded.collector import collect, collect_for_good
from rag_mcp.stores.embedded.files import write_json
from rag_mcp.stores.embedded.generations import FORMAT_VERSION, GenerationInfo, GenerationStore
from rag_mcp.stores.embedded.place import resolve_store


def info(number: int, parent: int | None = None) -> GenerationInfo:
    return GenerationInfo(number, parent, "2031-01-01T00:00:00+00:00", {}, {}, 0, "", {})


def publish(store: GenerationStore) -> int:
    number = store.next_number()
    staging = store.stage()
    store.seal(staging, info(number, store.current()))
    store.publish(staging, number)
    return number


@pytest.fixture
def store(tmp_path):
    made = GenerationStore(tmp_path / "store")
    made.folder.mkdir(parents=True)
    return made


def test_an_empty_store_says_that_nothing_was_ingested(store):
    assert store.current() is None
    assert store.marker() is None
    with pytest.raises(StoreEmpty, match="rag-mcp ingest"):
        store.open()


def test_publishing_moves_the_pointer_and_the_marker(store):
    first = publish(store)
    before = store.marker()
    second = publish(store)
    assert (first, second) == (1, 2)
    assert store.current() == 2
    assert store.marker() != before


def test_a_missing_or_torn_pointer_falls_back_to_the_newest_whole_generation(store):
    publish(store)
    publish(store)
    (store.root / "CURRENT").write_text("")
    assert store.current() == 2
    (store.root / "CURRENT").unlink()
    assert store.current() == 2
    (store.path(2) / "generation.json").write_text("{")
    assert store.current() == 1


def test_a_pinned_generation_is_not_collected_until_it_is_closed(store):
    publish(store)
    held = store.open()
    for _ in range(3):
        publish(store)
    assert collect(store) == [2]
    assert store.numbers() == [1, 3, 4]
    held.close()
    held.close()
    assert collect(store) == [1]


def test_a_pointer_that_is_no_use_is_named(store):
    assert store.pointer_problem() is None
    publish(store)
    publish(store)
    assert store.pointer_problem() is None
    (store.path(2) / "generation.json").unlink()
    assert "Generation 2" in store.pointer_problem()
    (store.root / "CURRENT").write_text("\0\0")
    assert "torn" in store.pointer_problem()


def test_what_was_live_is_kept_before_what_never_was(store, monkeypatch):
    publish(store)
    with monkeypatch.context() as patch:
        patch.setattr(GenerationStore, "point_to", lambda *_: None)  # killed before it got there
        publish(store)
    publish(store)
    assert collect(store) == [2]
    assert store.numbers() == [1, 3]


def test_after_a_rollback_the_way_forward_is_kept_until_something_new_is_built(store):
    for _ in range(3):
        publish(store)
    store.point_to(2)
    assert collect(store) == []
    publish(store)
    assert collect(store) == [1, 3]
    assert collect(store, keep=1) == [2]


@pytest.mark.parametrize("broken", ["fsync_folder", "write_text"])
def test_a_generation_that_cannot_be_published_is_not_left_half_published(store, monkeypatch, broken):
    publish(store)
    staging = store.stage()
    store.seal(staging, info(2, 1))

    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="space"):
        patch.setattr(generations, broken, fail)
        store.publish(staging, 2)
    assert (store.current(), store.numbers(), staging.exists()) == (1, [1], True)
    store.publish(staging, 2)
    assert store.current() == 2


def test_a_pin_dies_with_its_process(store, tmp_path):
    publish(store)
    code = f"""
        import os, signal
        from pathlib import Path
        from rag_mcp.stores.embedded.generations import GenerationStore
        from rag_mcp.stores.embedded.place import resolve_store
        held = GenerationStore(Path({str(store.root)!r})).open()
        print("pinned", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, timeout=60, check=False)
    assert b"pinned" in done.stdout
    publish(store)
    publish(store)
    assert collect(store) == [1]


def test_the_second_writer_is_refused_at_once_and_the_file_alone_is_no_lock(store):
    (store.root / "writer.lock").touch()
    with store.writer_lock():
        other = GenerationStore(store.root)
        with pytest.raises(StoreLocked, match="Another ingest"), other.writer_lock():
            pass
    with GenerationStore(store.root).writer_lock():
        pass


def test_what_a_killed_writer_left_is_swept_by_the_next(store):
    abandoned = store.stage()
    (abandoned / "half").write_text("x")
    (store.folder / ".trash-000009").mkdir()
    store.sweep()
    assert list(store.folder.iterdir()) == []


def test_a_newer_format_is_refused_with_the_remedy(store):
    number = publish(store)
    write_json(store.path(number) / "generation.json", {"format": FORMAT_VERSION + 1})
    with pytest.raises(StoreTooNew, match="Upgrade"):
        store.info(number)
    with pytest.raises(StoreTooNew):
        store.open()


def test_a_generation_without_its_description_is_damaged(store):
    publish(store)
    (store.path(1) / "generation.json").unlink()
    with pytest.raises(StoreDamaged):
        store.info(1)


def test_numbers_are_never_used_twice(store):
    publish(store)
    publish(store)
    store.point_to(1)
    assert store.next_number() == 3


def test_another_programs_chroma_folder_is_left_alone(tmp_path):
    folder = tmp_path / "old.chroma"
    folder.mkdir()
    (folder / "chroma.sqlite3").touch()
    assert resolve_store(folder) == tmp_path / "old.chroma.rag_mcp"
    assert resolve_store(tmp_path / "new") == tmp_path / "new"
    assert resolve_store(tmp_path / "new", "other") == tmp_path / "new" / "collections" / "other"


def test_dropping_all_older_generations_is_finished_later_where_a_reader_held_on(store):
    publish(store)
    held = store.open()
    publish(store)
    collect_for_good(store, asked=True, keep=2)
    assert store.numbers() == [1, 2]
    publish(store)
    held.close()
    collect_for_good(store, asked=False, keep=2)
    assert store.numbers() == [3]
    publish(store)
    collect_for_good(store, asked=False, keep=2)
    assert store.numbers() == [3, 4]
