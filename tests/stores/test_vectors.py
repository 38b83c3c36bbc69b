import os
import socket
import stat
import subprocess
import sys
import textwrap
from contextlib import closing

import numpy as np
import pytest

from rag_mcp.errors import StoreDamaged
from rag_mcp.models import SourceClass
from rag_mcp.stores.embedded.vectors import ChromaReader, ChromaWriter, check_database, is_settled

DOCS, CODE = SourceClass.DOCS, SourceClass.CODE


def unit(rows: int, dimension: int = 16, seed: int = 1) -> np.ndarray:
    found = np.random.default_rng(seed).normal(size=(rows, dimension)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def names(count: int) -> list[str]:
    return [f"id{number:05d}" for number in range(count)]


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "chroma"
    made.mkdir()
    return made


def write(folder, source_class, ids, vectors):
    writer = ChromaWriter(folder)
    writer.upsert(source_class, ids, vectors)
    writer.close()


def test_each_vector_finds_itself_first(folder):
    vectors = unit(50)
    write(folder, DOCS, names(50), vectors)
    reader = ChromaReader(folder)
    for number in (0, 17, 49):
        hits = reader.query(DOCS, vectors[number], 5)
        assert hits[0].id == names(50)[number]
        assert hits[0].cosine == pytest.approx(1.0, abs=1e-5)
        assert [hit.cosine for hit in hits] == sorted((hit.cosine for hit in hits), reverse=True)
    reader.close()


@pytest.mark.parametrize("place", ["environment", "working folder"])
def test_foreign_settings_of_chroma_lead_to_no_server(folder, tmp_path, monkeypatch, place):
    with socket.socket() as refusing:
        refusing.bind(("127.0.0.1", 0))
        foreign = {
            "CHROMA_API_IMPL": "chromadb.api.fastapi.FastAPI",
            "CHROMA_SERVER_HOST": "127.0.0.1",
            "CHROMA_SERVER_HTTP_PORT": str(refusing.getsockname()[1]),
        }
        if place == "environment":
            for name, value in foreign.items():
                monkeypatch.setenv(name, value)
        else:
            (tmp_path / ".env").write_text("".join(f"{name}={value}\n" for name, value in foreign.items()))
            monkeypatch.chdir(tmp_path)
        write(folder, DOCS, ["a"], unit(1))
        reader = ChromaReader(folder)
        assert reader.ids(DOCS) == {"a"}
        reader.close()


def test_classes_do_not_see_each_other(folder):
    writer = ChromaWriter(folder)
    writer.upsert(DOCS, ["a"], unit(1))
    writer.upsert(CODE, ["b"], unit(1))
    writer.close()
    reader = ChromaReader(folder)
    assert [hit.id for hit in reader.query(DOCS, unit(1)[0], 10)] == ["a"]
    assert reader.ids(CODE) == {"b"}
    assert reader.query(SourceClass.MEMORY, unit(1)[0], 10) == []
    assert reader.similarities(DOCS, unit(1)[0], {"a", "b", "c"}) == pytest.approx({"a": 1.0}, abs=1e-5)
    reader.close()


def stored(folder, source_class):
    with closing(ChromaReader(folder)) as reader:
        return reader.ids(source_class)


def test_more_rows_than_one_batch_takes_are_all_written_and_all_deleted(folder):
    count = 6_500
    writer = ChromaWriter(folder)
    writer.upsert(DOCS, names(count), unit(count, 8))
    writer.upsert(DOCS, ["kept"], unit(1, 8))
    writer.close()
    assert stored(folder, DOCS) == {*names(count), "kept"}
    writer = ChromaWriter(folder)
    writer.delete(DOCS, names(count))
    writer.close()
    assert stored(folder, DOCS) == {"kept"}


def test_a_reader_loads_nothing_of_chromadb_but_its_native_half(folder):
    write(folder, DOCS, names(3), unit(3))
    code = f"""
        import sys
        from pathlib import Path
        from rag_mcp.models import SourceClass
        from rag_mcp.stores.embedded.vectors import ChromaReader
        reader = ChromaReader(Path({str(folder)!r}))
        assert len(reader.ids(SourceClass.DOCS)) == 3
        reader.close()
        loaded = {{name.partition(".")[0] for name in sys.modules}}
        assert "chromadb_rust_bindings" in loaded and not loaded & {{"chromadb", "opentelemetry", "pydantic", "httpx"}}
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=60)


def test_a_class_emptied_by_deletion_is_gone(folder):
    write(folder, DOCS, ["a"], unit(1))
    writer = ChromaWriter(folder)
    writer.delete(DOCS, {"a", "never there"})
    writer.close()
    reader = ChromaReader(folder)
    assert reader.ids(DOCS) == set()
    assert reader.query(DOCS, unit(1)[0], 3) == []
    reader.close()


@pytest.mark.parametrize("rows", [1, 2, 20, 1_200])
def test_reading_leaves_every_settled_file_but_the_database_as_it_was(folder, rows):
    write(folder, DOCS, names(rows), unit(rows))
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".sqlite3" and is_settled(path)]
    before = {path: path.read_bytes() for path in files}
    assert bool(before) == (rows > 1)
    reader = ChromaReader(folder)
    reader.query(DOCS, unit(1)[0], 10)
    reader.close()
    assert {path: path.read_bytes() for path in before} == before


def test_a_torn_database_is_named_before_native_code_sees_it(folder):
    write(folder, DOCS, names(20), unit(20))
    database = folder / "chroma.sqlite3"
    check_database(folder)
    content = database.read_bytes()
    database.write_bytes(content[: len(content) // 2])
    with pytest.raises(StoreDamaged):
        check_database(folder)
    database.write_bytes(b"not a database" * 100)
    with pytest.raises(StoreDamaged):
        check_database(folder)
    database.unlink()
    with pytest.raises(StoreDamaged):
        check_database(folder)


def test_a_folder_that_cannot_be_written_is_read_from_a_private_copy(folder, tmp_path, monkeypatch):
    write(folder, DOCS, names(20), unit(20))
    monkeypatch.setattr("rag_mcp.stores.embedded.vectors.is_writable", lambda _: False)
    for path in folder.rglob("*"):
        os.chmod(path, stat.S_IREAD | (stat.S_IEXEC if path.is_dir() else 0))
    before = (folder / "chroma.sqlite3").read_bytes()
    scratch = tmp_path / "scratch"
    reader = ChromaReader(folder, scratch=scratch)
    assert reader.query(DOCS, unit(20)[3], 1)[0].id == "id00003"
    assert any(scratch.iterdir())
    reader.close()
    assert not any(scratch.iterdir())
    assert (folder / "chroma.sqlite3").read_bytes() == before


def test_a_zero_vector_never_gives_a_number_that_is_not_finite(folder):
    rows = np.vstack([unit(3), np.zeros((1, 16), dtype=np.float32)])
    write(folder, DOCS, names(4), rows)
    reader = ChromaReader(folder)
    for vector in (rows[0], rows[3]):
        assert all(np.isfinite(hit.cosine) for hit in reader.query(DOCS, vector, 4))
    reader.close()


def test_the_best_of_hundreds_of_passages_that_are_nearly_the_same_is_found_in_every_build(tmp_path):
    from rag_mcp.embedders.hash import HashEmbedder

    embedder = HashEmbedder()
    vectors = embedder.embed_documents([f"# Many {number}\n\nBuoy {number} swims." for number in range(200)])
    asked = {number: embedder.embed_query(f"Many {number} Buoy {number} swims") for number in range(0, 200, 7)}
    for build in range(6):
        folder = tmp_path / str(build)
        folder.mkdir()
        write(folder, DOCS, names(200), vectors)
        reader = ChromaReader(folder)
        for number, question in asked.items():
            assert names(200)[number] in {hit.id for hit in reader.query(DOCS, question, 60)}, (build, number)
        reader.close()
