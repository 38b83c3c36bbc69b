"""A full disk fails the ingest with words that help, publishes nothing half, and costs nothing once there is room."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_process import forked_cli
from support import Library

from rag_mcp.errors import StoreError, StoreReadOnly
from rag_mcp.ingest import collect
from rag_mcp.stores.embedded import cache, files, generations, manifest_file, vectors, write
from rag_mcp.stores.embedded.keywords import folder, translate, writer

BEFORE = {f"n{number}.md": f"# Note {number}\n\nBody {number} about herons.\n" for number in range(6)}
NEW = {"n1.md": "# Note 1\n\nA newmark stands here.\n", "n9.md": "# Note 9\n\nAnother newmark.\n"}


def no_space(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def only_named(word, function):
    """``function``, but without room for paths that hold ``word``."""

    def wrapped(*args, **kwargs):
        if any(word in str(argument) for argument in args):
            no_space()
        return function(*args, **kwargs)

    return wrapped


def full_for_chroma(*_, **__):
    with vectors._translated(Path("/")):
        raise RuntimeError("error returned from database: (code: 13) database or disk is full")


def full_for_tantivy(*_, **__):
    with translate.translated(Path("/")):
        raise ValueError("An IO error occurred: 'No space left on device (os error 28)'")


def full_for_sqlite(*_, **__):
    import sqlite3

    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    raise error


# Where a run writes: (owner, name of the function, what it does on a full disk).
WRITES = {
    "cached vectors": (cache.EmbeddingCache, "_write", full_for_sqlite),
    "the folder of the next generation": (generations.GenerationStore, "stage", no_space),
    "the copy of the vector index": (vectors.shutil, "copyfile", only_named("chroma", shutil.copyfile)),
    "vectors": (vectors.ChromaWriter, "upsert", full_for_chroma),
    "the shared vector index": (vectors, "link_or_copy", no_space),
    "recent vectors": (write, "write_recent", no_space),
    "the copy of the keyword index": (folder, "_copy_tree", no_space),
    "terms": (writer.ClassWriter, "commit", full_for_tantivy),
    "the manifest": (manifest_file, "_put", full_for_sqlite),
    "the description": (files.os, "replace", only_named("generation.json", os.replace)),
    "synced files": (generations, "fsync_tree", no_space),
    "synced folders": (generations, "fsync_folder", no_space),
    "the new name": (generations.os, "rename", only_named("building", os.rename)),
    "the pointer": (files.os, "replace", only_named("CURRENT", os.replace)),
}


# Only where so much changes that it is folded into the vector index.
FOLDED = ("the copy of the vector index", "vectors")


@pytest.fixture
def served(library):
    library.write(BEFORE)
    library.ingest()
    return library


def assert_as_before(library: Library, *bases) -> None:
    for base in bases:
        for mode in ("hybrid", "vector", "fts"):
            found = library.search("Note 1 Body 1 about herons", base=base, mode=mode)
            assert found.results[0].citation.source == "n1.md"
            assert "herons" in found.results[0].text
            assert (found.generation, found.degraded) == (1, False), found.degraded_reason
    assert sorted(os.listdir(library.store_path / "generations")) == ["000001"]
    assert not [name for name in os.listdir(library.store_path) if name.endswith(".tmp")]


@pytest.mark.parametrize("what", WRITES)
def test_an_ingest_without_room_changes_nothing_and_the_next_one_finishes(served, monkeypatch, tmp_path, what):
    running = served.base()
    assert served.search("herons", base=running).generation == 1
    served.write(NEW)
    with monkeypatch.context() as patch:
        patch.setattr(*WRITES[what])
        patch.setattr(write, "RECENT_ROWS", 0 if what in FOLDED else write.RECENT_ROWS)
        with pytest.raises(StoreError, match=r"disk is full|No space left"):
            served.ingest()
    assert_as_before(served, running, served.base())
    summary = served.ingest()
    assert (summary.published, summary.incremental) == (True, True)
    assert served.dump() == served.fresh(tmp_path / "fresh")
    assert served.search("newmark", base=running).results[0].text.count("newmark") == 1


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EIO])
def test_other_refusals_of_the_file_system_are_typed_too(served, monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    served.write(NEW)
    with monkeypatch.context() as patch:
        patch.setattr(generations, "fsync_tree", refuse)
        with pytest.raises(StoreError if number == errno.EIO else StoreReadOnly, match="can't be written"):
            served.ingest()
    assert_as_before(served, served.base())


@pytest.mark.parametrize(
    ("owner", "name", "full"),
    [(collect, "write_stat_cache", no_space), (cache.EmbeddingCache, "_drop", full_for_sqlite)],
)
def test_no_room_for_mere_housekeeping_does_not_undo_a_published_run(served, monkeypatch, caplog, owner, name, full):
    served.write(NEW)
    with monkeypatch.context() as patch:
        patch.setattr(collect, "_CACHE_RATIO", 0)
        patch.setattr(collect, "_CACHE_SLACK", 0)
        patch.setattr(owner, name, full)
        assert served.ingest().published
    assert "the next run" in caplog.text
    assert served.sources("newmark")[0] in NEW
    assert served.ingest().published is False


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 12 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("mounting a small file system needs Linux and root")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", folder], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting is not allowed here: {done.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True, timeout=30)


def fill(folder: Path, *, leave: int) -> Path:
    pad = folder / "pad"
    pad.unlink(missing_ok=True)
    pad.write_bytes(b"x" * max(0, shutil.disk_usage(folder).free - leave))
    return pad


def test_a_file_system_that_really_fills_up_at_any_point_of_the_run(small_disk, tmp_path):
    with Library(tmp_path / "corpus", small_disk / "store") as library:
        library.write(BEFORE)
        library.ingest()
        running = library.base()
        assert library.search("herons", base=running).generation == 1
        sections = "".join(f"## Part {number}\n\nLong part {number}.\n\n" for number in range(400))
        library.write({**NEW, "big.md": f"# Big\n\n{sections}"})
        refused = 0
        for leave in (0, 60_000, 500_000, 900_000, 1_500_000, 2_200_000, 2_900_000, 12_000_000):
            pad = fill(small_disk, leave=leave)
            done = forked_cli("ingest", library.corpus, "--db", library.store_path)
            if done.returncode == 0:
                break
            refused += 1
            assert done.returncode == 1
            assert "full" in done.stderr and "Traceback" not in done.stderr
            found = library.search("Note 1 Body 1 about herons", base=running)
            assert (found.results[0].citation.source, found.generation, found.degraded) == ("n1.md", 1, False)
            fresh = library.base()
            assert library.search("herons", base=fresh).results  # degraded perhaps: Chroma writes when it is opened
            fresh.close()
            assert sorted(os.listdir(library.store_path / "generations")) == ["000001"]
            pad.unlink()
        assert refused >= 4
        assert library.search("newmark", base=running).generation == 2
        assert forked_cli("verify", "--db", library.store_path).returncode == 0
        assert library.dump() == library.fresh(tmp_path / "fresh")
        for base in library._bases:
            base.close()
