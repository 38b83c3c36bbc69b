"""Only its owner can read a store, whatever the umask, and nothing is written through a link that lies in it."""

import os
import stat
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli_process import forked_cli

from rag_mcp.errors import RagMcpError, StoreDamaged, StoreError
from rag_mcp.ingest.options import IngestOptions
from rag_mcp.ingest.run import run_ingest
from rag_mcp.maintenance import roll_back, store_calibration
from rag_mcp.models import Mode
from rag_mcp.search.relevance import Calibration, Thresholds
from rag_mcp.stores.embedded import files
from rag_mcp.stores.embedded.cache import EmbeddingCache
from rag_mcp.stores.embedded.files import note_text, write_text
from rag_mcp.stores.embedded.folder import _OWN
from rag_mcp.stores.embedded.private_copy import private_copy

NOTES = {
    "docs/weir.md": "# Weir\n\nThe weir gate opens at dawn.\n",
    "docs/lock.md": "# Lock\n\nThe lock keeper rests at noon.\n",
    "memory/alone.md": "# Alone\n\nOne passage of its class.\n",
}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes and links as POSIX has them")


@contextmanager
def umask(mask: int):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    found = [folder, *folder.rglob("*")]
    return [f"{path.relative_to(folder)} {path.stat().st_mode:o}" for path in found if path.stat().st_mode & 0o077]


def calibrate(library) -> None:
    levels = Calibration(Thresholds(high=0.8, medium=0.4), ((0.0, 0.0), (1.0, 1.0)))
    store_calibration(library.config(), {Mode.HYBRID: levels}, {"questions": 9})


def widen(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o777 if path.is_dir() else 0o666)


# --- modes


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_everything_a_store_holds_is_its_owners_alone_after_every_kind_of_run(library, mask):
    with umask(mask):
        library.write(NOTES)
        library.ingest()
        library.write({"docs/weir.md": "# Weir\n\nThe weir gate opens at noon.\n"})
        library.ingest()
        calibrate(library)
        assert open_to_others(library.store_path) == []
        roll_back(library.config(), None)
        library.ingest(clean=True)
        library.ingest(full=True)
        base = library.base()
        base.warm_up()
        for mode in ("hybrid", "vector", "fts"):
            assert library.sources("weir gate", base=base, mode=mode)
        assert open_to_others(library.store_path) == []
        modes = {stat.S_IMODE(path.stat().st_mode) for path in library.store_path.rglob("*")}
        assert modes == {0o600, 0o700}


def test_a_collection_is_closed_with_the_folders_above_it(library):
    with umask(0):
        library.write(NOTES)
        library.settings["collection"] = "river"
        library.ingest()
        assert open_to_others(library.store_path) == []
        widen(library.store_path)
        library.ingest()
    assert open_to_others(library.store_path) == []


def test_the_next_ingest_closes_a_store_that_was_open_and_says_so_before(library):
    library.write(NOTES)
    library.ingest()
    widen(library.store_path)
    command = ("doctor", "--db", library.store_path)
    looked = forked_cli(*command)
    assert looked.returncode == 1
    assert "BAD  permissions: other users can" in looked.stdout
    assert not library.ingest().published
    assert open_to_others(library.store_path) == []
    assert "permissions: closed to other users" in forked_cli(*command).stdout


def test_closing_takes_rights_away_and_gives_none(library):
    library.write(NOTES)
    library.ingest()
    sealed = library.store_path / "generations" / "000001" / "manifest.sqlite"
    sealed.chmod(0o444)
    library.ingest()
    assert stat.S_IMODE(sealed.stat().st_mode) == 0o400


def test_in_a_folder_with_other_things_only_what_is_ours_is_closed(library):
    library.store_path.mkdir()
    library.store_path.chmod(0o755)
    other = library.store_path / "readme.txt"
    other.write_text("not ours")
    other.chmod(0o644)
    library.write(NOTES)
    library.ingest()
    assert sorted(name.split()[0] for name in open_to_others(library.store_path)) == [".", "readme.txt"]


def test_every_name_a_store_makes_is_known_as_its_own(library):
    library.write(NOTES)
    library.ingest()
    calibrate(library)
    library.ingest(clean=True)
    assert [name for name in os.listdir(library.store_path) if not _OWN.fullmatch(name)] == []


# --- links

FILES = (
    "CURRENT",
    ".CURRENT.tmp",
    "writer.lock",
    "writer.pid",
    ".writer.pid.tmp",
    "embeddings.sqlite",
    "embeddings.sqlite-journal",
    "embeddings.sqlite-wal",
    "stat-cache.json",
    ".stat-cache.json.tmp",
    "last-run.json",
    ".last-run.json.tmp",
    "calibration.json",
    ".calibration.json.tmp",
    "erase-pending",
)
INSIDE = (
    "generations/.building-1",
    "generations/.trash-000001",
    "generations/000001",
    "generations/000001/pin",
    "generations/000001/chroma",
    "generations/000001/chroma/chroma.sqlite3",
    "generations/000001/keywords/docs",
    "generations/000001/keywords/docs/meta.json",
    "generations/000001/manifest.sqlite",
)


class Victim:
    """What links lead to: a file, a folder with one, and a name that is not there."""

    def __init__(self, home: Path) -> None:
        self.file, self.folder, self.missing = home / "victim.txt", home / "victim", home / "missing"
        self.file.write_text("mine\n")
        self.folder.mkdir()
        (self.folder / "inner.txt").write_text("mine too\n")
        self.home = home
        self.before = self.state()

    def targets(self) -> list[Path]:
        return [self.file, self.folder, self.missing]

    def state(self) -> list[tuple[object, ...]]:
        found = [self.file, self.folder, *self.folder.rglob("*")]
        return [
            (path, path.stat().st_mode, path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
            for path in found
        ] + [(self.missing, os.path.lexists(self.missing))]


def put_link(path: Path, target: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rename(path.with_name(f"{path.name}.was"))
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


@pytest.mark.parametrize("place", [*FILES, "generations", *INSIDE])
def test_a_link_in_a_store_is_refused_by_name_and_what_it_leads_to_stays_as_it_is(library, tmp_path, place):
    library.write(NOTES)
    victim = Victim(tmp_path)
    for first in (True, False) if place in FILES else (False,):
        if not first:
            library.ingest()
        for target in victim.targets():
            put_link(library.store_path / place, target)
            for work in (
                lambda: library.ingest(),
                lambda: library.ingest(clean=True),
                lambda: calibrate(library),
                lambda: roll_back(library.config(), None),
            ):
                with pytest.raises(RagMcpError) as refused:
                    work()
                if isinstance(refused.value, StoreError) and "Refused" in str(refused.value):
                    assert str(library.store_path / place) in str(refused.value)
            with pytest.raises(StoreError, match="Refused: .*is a link"):
                library.ingest()
            assert victim.state() == victim.before
            (library.store_path / place).unlink()
        for moved in library.store_path.rglob("*.was"):
            moved.rename(moved.with_suffix(""))


@pytest.mark.parametrize("place", ["pin", "chroma/chroma.sqlite3", "keywords/docs", "manifest.sqlite"])
def test_a_reader_opens_no_generation_with_a_link_in_it(library, tmp_path, place):
    library.write(NOTES)
    library.ingest()
    victim = Victim(tmp_path)
    for target in victim.targets():
        put_link(library.store_path / "generations" / "000001" / place, target)
        with pytest.raises(StoreDamaged, match="is a link"):
            library.search("weir gate", base=library.base())
    assert victim.state() == victim.before


def test_a_link_to_the_stores_own_folder_is_followed_if_this_user_made_it_and_it_leads_somewhere(library, tmp_path):
    library.write(NOTES)
    disk = tmp_path / "disk"
    library.store_path.symlink_to(disk)
    with pytest.raises(StoreError, match="leads to no folder"):
        library.ingest()
    assert not disk.exists()
    disk.mkdir()
    library.ingest()
    assert library.sources("weir gate")[0] == "docs/weir.md"
    assert library.store_path.is_symlink() and open_to_others(disk) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a link away")
def test_a_link_to_the_stores_folder_that_another_user_made_is_refused(library, tmp_path):
    library.write(NOTES)
    disk = tmp_path / "disk"
    disk.mkdir()
    library.store_path.symlink_to(disk)
    os.chown(library.store_path, 12345, 12345, follow_symlinks=False)
    with pytest.raises(StoreError, match="another user"):
        library.ingest()
    assert list(disk.iterdir()) == []


@pytest.mark.parametrize("write", [write_text, note_text])
def test_a_file_is_replaced_without_going_through_a_link_at_its_name_or_its_temporary_one(tmp_path, write):
    victim = Victim(tmp_path)
    path = tmp_path / "note"
    for target in victim.targets():
        for name in ("note", ".note.tmp"):
            put_link(tmp_path / name, target)
        write(path, "ours")
        assert path.read_text() == "ours" and not path.is_symlink()
        assert victim.state() == victim.before


def test_an_embedding_cache_that_is_a_link_is_moved_aside_and_not_opened(tmp_path):
    victim = Victim(tmp_path)
    path = tmp_path / "embeddings.sqlite"
    for number, target in enumerate(victim.targets(), start=1):
        put_link(path, target)
        cache = EmbeddingCache(path, "one")
        assert cache.count() == 0 and len(list(tmp_path.glob("embeddings.sqlite.damaged-[0-9]"))) == number
        cache.close()
    assert victim.state() == victim.before
    assert path.is_file() and not path.is_symlink()


# --- replacing under a reader


def test_a_file_that_a_reader_has_open_is_replaced_as_soon_as_it_lets_go(tmp_path, monkeypatch):
    path = tmp_path / "CURRENT"
    write_text(path, "1")
    real, refusals = os.replace, [PermissionError(13, "in use")] * 3

    def replace(source, target):
        if refusals:
            raise refusals.pop()
        real(source, target)

    monkeypatch.setattr(files, "_REPLACE_TRIES", 5)
    monkeypatch.setattr(files, "_REPLACE_PAUSE_S", 0)
    monkeypatch.setattr(files.os, "replace", replace)
    write_text(path, "2")
    assert path.read_text() == "2"
    refusals.extend([PermissionError(13, "in use")] * 5)
    with pytest.raises(PermissionError):
        write_text(path, "3")
    assert (path.read_text(), os.listdir(tmp_path)) == ("2", ["CURRENT"])


# --- private copies of a store that can't be written


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "index"
    (made / "deep").mkdir(parents=True)
    (made / "deep" / "file").write_text("text")
    return made


def aged(path: Path, seconds: float = 3_600) -> None:
    os.utime(path, times=(time.time() - seconds,) * 2)


def test_a_private_copy_is_private_and_gone_when_it_is_closed(folder, tmp_path):
    with umask(0):
        copy = private_copy(folder, tmp_path / "scratch")
    assert (copy.path / "deep" / "file").read_text() == "text"
    assert open_to_others(tmp_path / "scratch") == []
    copy.close()
    copy.close()
    assert list((tmp_path / "scratch").iterdir()) == []


HOLD = """
import sys
from pathlib import Path
from rag_mcp.stores.embedded.private_copy import private_copy
copy = private_copy(Path(sys.argv[1]), Path(sys.argv[2]))
print(copy.path.parent, flush=True)
sys.stdin.read()
"""


def test_copies_of_dead_processes_are_swept_and_those_of_living_ones_are_not(folder, tmp_path):
    scratch = tmp_path / "scratch"
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), str(scratch)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        home = Path(other.stdout.readline().strip())
        aged(home)
        mine = private_copy(folder, scratch)
        aged(mine.path.parent)
        private_copy(folder, scratch).close()
        assert home.exists() and mine.path.exists()
        other.kill()
        other.wait(30)
        private_copy(folder, scratch).close()
        assert not home.exists() and mine.path.exists()
        mine.close()
    finally:
        other.kill()
        other.communicate()
    assert list(scratch.iterdir()) == []


def test_the_sweep_takes_nothing_that_is_fresh_foreign_a_link_or_of_a_process_that_runs(folder, tmp_path):
    scratch = tmp_path / "scratch"
    kept = [scratch / "rag_mcp-1", scratch / "notes", scratch / f"rag_mcp-{os.getpid()}-old", scratch / "rag_mcp-x-y"]
    dead = scratch / "rag_mcp-99999999-old"  # above any process number; made by a version without locks
    for path in (*kept, dead):
        path.mkdir(parents=True)
        aged(path)
    fresh = scratch / "rag_mcp-99999999-fresh"
    fresh.mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    aged(elsewhere)
    (scratch / "rag_mcp-99999999-link").symlink_to(elsewhere)
    if os.geteuid() == 0:
        theirs = scratch / "rag_mcp-99999999-theirs"
        theirs.mkdir()
        aged(theirs)
        os.chown(theirs, 12345, 12345)
        kept.append(theirs)
    private_copy(folder, scratch).close()
    assert not dead.exists()
    assert all(path.exists() for path in (*kept, fresh, elsewhere, scratch / "rag_mcp-99999999-link"))


# --- corpus and store apart


def test_a_store_inside_its_corpus_or_around_it_is_refused_before_anything_is_made(library, tmp_path):
    library.write(NOTES)
    away = tmp_path / "away"
    away.symlink_to(library.corpus)
    places = [
        library.corpus / "store",
        library.corpus / "docs" / "deep" / "store",
        library.corpus,
        library.corpus.parent,
        tmp_path / "nowhere" / ".." / library.corpus.name / "store",
        away / "store",
        Path(os.path.relpath(library.corpus / "store")),
    ]
    before = sorted(tmp_path.rglob("*"))
    for place in places:
        for changes in ({}, {"collection": "river"}):
            with pytest.raises(RagMcpError, match="inside"):
                run_ingest(library.config(db_path=place, **changes), IngestOptions())
            assert sorted(tmp_path.rglob("*")) == before, place
