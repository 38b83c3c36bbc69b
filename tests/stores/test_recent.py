"""What came and went since the vector index was written is answered as if it were in it."""

import numpy as np
import pytest

from rag_mcp.errors import StoreDamaged
from rag_mcp.models import SourceClass
from rag_mcp.stores.embedded.recent import Recent, read_recent, write_recent
from rag_mcp.stores.embedded.vectors import ChromaReader, ChromaWriter, copy_index, link_index, rows_held

DOCS, CODE = SourceClass.DOCS, SourceClass.CODE


def unit(rows: int, seed: int) -> np.ndarray:
    found = np.random.default_rng(seed).normal(size=(rows, 16)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


BASE = {f"base{number:03d}": row for number, row in enumerate(unit(60, 1))}
NEW = {f"new{number:03d}": row for number, row in enumerate(unit(20, 2))}
GONE = sorted(BASE)[5:25]


@pytest.fixture
def folder(tmp_path):
    """Sixty rows in the index, of which twenty are gone, and twenty recent ones; in the class code recent ones only."""
    with_index = tmp_path / "live"
    with_index.mkdir()
    writer = ChromaWriter(with_index)
    writer.upsert(DOCS, list(BASE), np.stack(list(BASE.values())))
    writer.close()
    next_one = tmp_path / "next"
    link_index(with_index, next_one)
    write_recent(next_one, DOCS, Recent(tuple(NEW), np.stack(list(NEW.values())), frozenset(GONE)))
    write_recent(next_one, CODE, Recent(tuple(NEW)[:2], np.stack(list(NEW.values()))[:2]))
    return next_one


def test_every_answer_is_that_of_one_index_that_holds_it_all(folder):
    live = {**{i: row for i, row in BASE.items() if i not in GONE}, **NEW}
    reader = ChromaReader(folder)
    assert (reader.ids(DOCS), reader.ids(CODE)) == (set(live), {"new000", "new001"})
    assert reader.counts() == {"docs": 60, "code": 2}
    for question in unit(10, 3):
        best = sorted(live, key=lambda i: -float(live[i] @ question))
        for limit in (1, 7, 45, 100):
            assert [hit.id for hit in reader.query(DOCS, question, limit)] == best[:limit]
        asked = {*GONE[:2], *best[:3], "never there"}
        near = {i: float(live[i] @ question) for i in best[:3]}
        assert reader.similarities(DOCS, question, asked) == pytest.approx(near, abs=1e-5)
    ids, rows = reader.vectors(DOCS, {*GONE, *live})
    assert sorted(ids) == sorted(live)
    assert np.allclose(rows, np.stack([live[i] for i in ids]), atol=1e-6)
    reader.close()


def test_it_can_be_asked_without_opening_the_index(folder):
    assert rows_held(folder, DOCS, {"base000", GONE[0], "new000", "never there"}) == (60, {"base000", "new000"})
    assert rows_held(folder, CODE, {"base000"}) == (2, set())
    assert rows_held(folder, SourceClass.MEMORY, {"base000"}) == (0, set())


def test_folded_in_it_gives_the_same_answers(folder, tmp_path):
    folded = tmp_path / "folded"
    copy_index(folder, folded)
    writer = ChromaWriter(folded)
    writer.fold({each: read_recent(folder, each) for each in SourceClass})
    writer.close()
    before, after = ChromaReader(folder), ChromaReader(folded)
    for source_class in (DOCS, CODE):
        assert before.ids(source_class) == after.ids(source_class)
        for question in unit(5, 4):
            first, second = (reader.query(source_class, question, 10) for reader in (before, after))
            assert [hit.id for hit in first] == [hit.id for hit in second]
    before.close()
    after.close()


def test_the_index_is_shared_and_its_database_is_not(folder, tmp_path):
    shared = {path.name for path in folder.rglob("*") if path.is_file() and path.stat().st_nlink > 1}
    assert "data_level0.bin" in shared and "chroma.sqlite3" not in shared
    assert not [name for name in shared if name.startswith("recent-")]


def test_what_was_gone_and_is_back_needs_no_vector():
    recent = Recent(gone=frozenset({"a", "b"}))
    assert recent.new({"a", "c"}) == ["c"]
    assert recent.plus({"a", "c"}, unit(1, 5)).gone == {"b"}
    back = recent.plus({"c"}, unit(1, 5)).without({"c"})
    assert (back.ids, back.rows, back.gone) == ((), None, {"a", "b"})
    assert not Recent()


def test_a_round_trip_through_the_file(tmp_path):
    for recent in (
        Recent(("a", "b"), unit(2, 6), frozenset({"c"})),
        Recent(gone=frozenset({"c"})),
        Recent(("a",), unit(1, 6)),
    ):
        write_recent(tmp_path, DOCS, recent)
        read = read_recent(tmp_path, DOCS)
        assert (read.ids, read.gone) == (recent.ids, recent.gone)
        assert read.rows is None if recent.rows is None else np.array_equal(read.rows, recent.rows)
        (tmp_path / "recent-docs.npz").unlink()


@pytest.mark.parametrize("raw", [b"", b"PK\x03\x04", b"\x80\x04not a zip", b"\x93NUMPY"])
def test_a_damaged_file_is_named_as_such(tmp_path, raw):
    (tmp_path / "recent-docs.npz").write_bytes(raw)
    with pytest.raises(StoreDamaged):
        read_recent(tmp_path, DOCS)
