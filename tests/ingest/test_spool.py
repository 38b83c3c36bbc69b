"""What a run keeps until it is written: on disk, its owner's alone, gone with the run."""

from __future__ import annotations

import errno
import os
import tracemalloc

import pytest

from rag_mcp.errors import StoreError
from rag_mcp.ingest import spool as spooling
from rag_mcp.ingest.spool import Spool, SpooledMapping


@pytest.fixture
def on_disk(monkeypatch):
    monkeypatch.setattr(spooling, "_IN_MEMORY", 1)


def test_values_come_back_whatever_was_written_since(tmp_path, on_disk):
    with Spool(tmp_path) as spool:
        first, second = SpooledMapping(spool), SpooledMapping(spool)
        for number in range(50):
            first[f"n{number}"] = ("heron", number)
            second[f"n{number}"] = "x" * number
            assert first["n0"] == ("heron", 0)
        first["n7"] = ("stork", 7)
        del first["n8"]
        assert {key: first[key] for key in first} == {
            f"n{number}": ("stork" if number == 7 else "heron", number) for number in range(50) if number != 8
        }
        assert [second[f"n{number}"] for number in range(50)] == ["x" * number for number in range(50)]
        assert ("n8" in first, first.get("n8"), len(first)) == (False, None, 49)


@pytest.mark.skipif(os.name == "nt", reason="an open file keeps its name there")
def test_the_file_has_no_name_and_no_reader_but_its_owner(tmp_path, on_disk):
    with Spool(tmp_path) as spool:
        spool.append("a marten")
        assert os.listdir(tmp_path) == []
        assert os.fstat(spool._file.fileno()).st_mode & 0o077 == 0


def test_a_full_disk_is_told_as_one(tmp_path, on_disk, monkeypatch):
    with Spool(tmp_path) as spool:

        def full(raw):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(spool._file, "write", full)
        with pytest.raises(StoreError, match="disk is full"):
            spool.append("a marten")


def test_an_ingest_through_the_disk_gives_what_one_in_memory_gives(library, tmp_path, monkeypatch):
    days = {
        f"log/tide-2031-05-{day:02d}.md": f"# Tide\n\nIt is high.\n\n## Day\n\nNumber {day // 3}.\n"
        for day in range(1, 12)
    }
    library.write({**days, **{f"n{number}.md": f"# Note {number}\n\nOf reeds {number}.\n" for number in range(9)}})
    in_memory = library.fresh(tmp_path / "memory")
    monkeypatch.setattr(spooling, "_IN_MEMORY", 1)
    library.ingest()
    assert library.dump() == in_memory
    library.write({"log/tide-2031-05-06.md": "# Tide\n\nIt is low.\n", "n3.md": "# Note 3\n\nOf rushes.\n"})
    library.remove("n4.md", "log/tide-2031-05-09.md")
    library.ingest()
    assert library.dump() == library.fresh(tmp_path / "fresh")
    assert sorted(os.listdir(library.store_path / "generations")) == ["000001", "000002"]


def test_memory_does_not_grow_with_the_texts(library, on_disk):
    """It grows by what a run has to remember of each passage; were the texts kept, they would be there three times."""
    words = [f"reed{number:03d}" for number in range(120)]

    def peak(files: int) -> int:
        for number in range(files):
            parts = (f"## Part {part}\n\n{' '.join(words)} {number}.{part}\n" for part in range(40))
            library.write({f"n{number}.md": "\n".join(parts)})
        library.ingest(dry_run=True)
        tracemalloc.start()
        try:
            library.ingest(dry_run=True)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few, many = peak(4), peak(24)
    text = sum(path.stat().st_size for path in library.corpus.iterdir()) * 20 // 24
    assert (many - few) / text < 2
