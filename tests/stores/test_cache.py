"""The embedding cache: a vector is right or not there, and only real damage is moved aside."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_mcp.errors import StoreError, StoreLocked, StoreReadOnly
from rag_mcp.stores.embedded.cache import EmbeddingCache


def vectors(count: int, dimension: int = 8, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)


def keys(count: int, start: int = 0) -> list[str]:
    return [f"{number:032x}" for number in range(start, start + count)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "embeddings.sqlite"


def moved_aside(path: Path) -> list[Path]:
    """The damaged or foreign files that were in the cache's place, oldest first."""
    return sorted(path.parent.glob(f"{path.name}.damaged-[0-9]"))


def filled(path: Path, count: int = 50, fingerprint: str = "model-a") -> np.ndarray:
    rows = vectors(count)
    with closing(EmbeddingCache(path, fingerprint)) as cache:
        cache.put(keys(count), rows)
    return rows


def test_what_was_put_is_found_by_the_next_process_bit_for_bit(path: Path) -> None:
    rows = filled(path)
    with closing(EmbeddingCache(path, "model-a")) as cache:
        found = cache.get([*keys(50), "unknown"])
        assert cache.count() == 50
    assert set(found) == set(keys(50))
    assert all(
        np.array_equal(found[key], row) and found[key].dtype == np.float32
        for key, row in zip(keys(50), rows, strict=True)
    )


def test_another_fingerprint_sees_nothing(path: Path) -> None:
    filled(path)
    with closing(EmbeddingCache(path, "model-b")) as cache:
        assert cache.get(keys(50)) == {}
        assert cache.count() == 0


def test_a_second_put_of_a_key_replaces_its_vector(path: Path) -> None:
    filled(path)
    with closing(EmbeddingCache(path, "model-a")) as cache:
        cache.put(keys(1), np.ones((1, 8), dtype=np.float32))
        assert cache.get(keys(1))[keys(1)[0]].tolist() == [1.0] * 8
        assert cache.count() == 50


def test_more_keys_than_a_statement_takes_are_all_found(path: Path) -> None:
    with closing(EmbeddingCache(path, "model-a")) as cache:
        cache.put(keys(2_500), vectors(2_500, 2))
        assert len(cache.get(keys(3_000))) == 2_500
        assert cache.get([]) == {}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_refused_and_nothing_of_the_batch_kept(path: Path, bad: float) -> None:
    rows = vectors(3)
    rows[1, 4] = bad
    with closing(EmbeddingCache(path, "model-a")) as cache:
        with pytest.raises(StoreError, match="not finite"):
            cache.put(keys(3), rows)
        assert cache.count() == 0


def test_another_dimension_is_refused(path: Path) -> None:
    filled(path)
    with closing(EmbeddingCache(path, "model-a")) as cache:
        with pytest.raises(StoreError, match="8 numbers, not 9"):
            cache.put(keys(1), vectors(1, 9))
        with pytest.raises(StoreError, match="2 keys"):
            cache.put(keys(2), vectors(3))
        assert cache.count() == 50


def test_trim_keeps_what_it_is_told_to_and_gives_the_space_back(path: Path) -> None:
    for fingerprint in ("model-a", "model-b", "model-c"):
        filled(path, 400, fingerprint)
    before = path.stat().st_size
    with closing(EmbeddingCache(path, "model-a")) as cache:
        assert cache.trim(keys(10), keep_fingerprints=["model-b"]) == 390 + 400
        assert set(cache.get(keys(400))) == set(keys(10))
    with closing(EmbeddingCache(path, "model-b")) as cache:
        assert cache.count() == 400
    with closing(EmbeddingCache(path, "model-c")) as cache:
        assert cache.count() == 0
    assert path.stat().st_size < before * 0.6


def test_every_flipped_byte_is_a_miss_or_harmless_and_never_a_wrong_vector(path: Path) -> None:
    rows = filled(path, 20)
    whole = path.read_bytes()
    right = dict(zip(keys(20), rows, strict=True))
    for at in range(0, len(whole), 307):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        with closing(EmbeddingCache(path, "model-a")) as cache:
            found = cache.get(keys(20))
            assert all(np.array_equal(vector, right[key]) for key, vector in found.items()), at
            cache.put(["new"], vectors(1))
            assert "new" in cache.get(["new"])


def test_a_changed_dimension_costs_the_vectors_and_does_not_refuse_every_put(path: Path) -> None:
    filled(path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE spaces SET dimension = 9")
        database.commit()
    with closing(EmbeddingCache(path, "model-a")) as cache:
        cache.put(keys(2), vectors(2))
        assert cache.count() == 2
        assert len(moved_aside(path)) == 1


@settings(max_examples=25, deadline=None)
@given(st.binary(min_size=1, max_size=9_000))
def test_any_file_that_is_not_ours_is_moved_aside_and_begun_anew(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("foreign") / "embeddings.sqlite"
    path.write_bytes(content)
    with closing(EmbeddingCache(path, "model-a")) as cache:
        assert [aside.read_bytes() for aside in moved_aside(path)] == [content]
        cache.put(keys(3), vectors(3))
        assert cache.count() == 3


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_a_torn_file_costs_vectors_and_nothing_else(path: Path, share: float) -> None:
    filled(path, 500)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with closing(EmbeddingCache(path, "model-a")) as cache:
        cache.get(keys(500))
        cache.put(keys(500), vectors(500))
        assert cache.count() == 500


def test_a_database_of_someone_else_is_kept_beside_ours(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executescript("CREATE TABLE vectors (a); INSERT INTO vectors VALUES (1);")
    with closing(EmbeddingCache(path, "model-a")):
        (aside,) = moved_aside(path)
        assert aside.name == "embeddings.sqlite.damaged-1"
    with closing(sqlite3.connect(aside)) as database:
        assert database.execute("SELECT a FROM vectors").fetchall() == [(1,)]


def test_a_second_damaged_file_gets_the_next_number(path: Path) -> None:
    for number in (1, 2):
        path.write_bytes(b"not a database, whatever it is" * 40)
        EmbeddingCache(path, "model-a").close()
        assert [aside.name[-9:] for aside in moved_aside(path)] == [f"damaged-{at}" for at in range(1, number + 1)]


def test_a_locked_file_is_an_error_and_stays_in_place(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_mcp.stores.embedded.cache._BUSY_TIMEOUT_MS", 50)
    filled(path)
    with closing(sqlite3.connect(path)) as other, closing(EmbeddingCache(path, "model-a")) as cache:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreLocked, match="in use"):
            cache.put(keys(1), vectors(1))
        other.rollback()
        assert cache.count() == 50
        assert moved_aside(path) == []


def test_a_full_disk_is_an_error_and_keeps_what_was_there(path: Path) -> None:
    filled(path)
    with closing(EmbeddingCache(path, "model-a")) as cache:
        pages = cache._database.execute("PRAGMA page_count").fetchone()[0]
        cache._database.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match="disk is full"):
            cache.put(keys(5_000, start=100), vectors(5_000))
        assert cache.count() == 50
        assert moved_aside(path) == []


def test_a_file_that_may_not_be_written_is_an_error_and_stays(path: Path) -> None:
    filled(path)
    with closing(EmbeddingCache(path, "model-a")) as cache:
        cache._database.execute("PRAGMA query_only = ON")
        with pytest.raises(StoreReadOnly, match="can't be written"):
            cache.put(keys(1), vectors(1))
        assert moved_aside(path) == []


def test_a_folder_in_the_place_of_the_file_is_an_error(path: Path) -> None:
    path.mkdir()
    with pytest.raises(StoreError, match="can't be used"):
        EmbeddingCache(path, "model-a")
    assert path.is_dir()


def test_a_killed_writer_leaves_whole_batches_only(path: Path) -> None:
    script = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        import numpy as np
        from rag_mcp.stores.embedded.cache import EmbeddingCache
        cache = EmbeddingCache(Path(sys.argv[1]), "model-a")
        for batch in range(100_000):
            cache.put([f"{batch}-{row}" for row in range(40)], np.full((40, 384), batch, dtype=np.float32))
            if batch == 3:
                print("writing", flush=True)
        """
    )
    writer = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"writing\n"
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait(timeout=20)
    writer.stdout.close()
    with closing(EmbeddingCache(path, "model-a")) as cache:
        total = cache.count()
        assert moved_aside(path) == []
        assert total >= 160
        assert total % 40 == 0
        last = total // 40 - 1
        assert cache.get([f"{last}-39"])[f"{last}-39"].tolist() == [float(last)] * 384


def test_twenty_thousand_vectors_are_put_in_two_seconds_and_read_in_one(path: Path) -> None:
    rows = vectors(20_000, 384)
    names = keys(20_000)[::-1]
    with closing(EmbeddingCache(path, "model-a")) as cache:
        start = time.perf_counter()
        cache.put(names, rows)
        put_s = time.perf_counter() - start
        start = time.perf_counter()
        found = cache.get(names)
        get_s = time.perf_counter() - start
    assert len(found) == 20_000
    assert put_s < 2
    assert get_s < 1
