"""A store belongs to the folder it was made from: no other folder empties it, and the default one is named after it."""

import json
import os
import shutil
from pathlib import Path

import pytest
from cli_process import forked_cli
from support import Library

from rag_mcp.config import Config
from rag_mcp.errors import CorpusError
from rag_mcp.ingest.options import IngestOptions
from rag_mcp.ingest.run import run_ingest
from rag_mcp.knowledge import KnowledgeBase
from rag_mcp.places import is_inside, same_folder
from rag_mcp.stores.embedded.files import write_json
from rag_mcp.stores.embedded.owner import OWNER_FILE, default_store, read_owner

TIDES = {f"tide{n}.md": f"# Tide {n}\n\nThe tide turns at hour {n}.\n" for n in range(6)}
REEFS = {f"reef{n}.md": f"# Reef {n}\n\nThe reef lies at fathom {n}.\n" for n in range(6)}
SAME_NAMES = {name: text.replace("tide", "crab") for name, text in TIDES.items()}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def ingest(root: Path, store: Path | None = None, **options: object):
    config = Config.load({}, corpus_root=root, db_path=store, embedder="hash")
    return run_ingest(config, IngestOptions(**options))


def ask(text: str, *, root: Path | None = None, store: Path | None = None) -> list[str]:
    from rag_mcp.requests import SearchRequest

    base = KnowledgeBase.open(Config.load({}, corpus_root=root, db_path=store, embedder="hash"))
    try:
        found = base.search(SearchRequest.parse({"query": text, "confidence": "normal"}))
        return [result.citation.source for result in found.results]
    finally:
        base.close()


def forget(store: Path, *, stat_cache: bool = True) -> None:
    """Make the store what an older version left."""
    (store / OWNER_FILE).unlink()
    for path in store.glob("generations/*/generation.json"):
        info = json.loads(path.read_text())
        info["notes"] = {"embedder_name": "hash"}
        write_json(path, info)
    if not stat_cache:
        (store / "stat-cache.json").unlink()


@pytest.fixture
def tides(tmp_path):
    return write(tmp_path / "tides", TIDES)


@pytest.fixture
def store(tmp_path, tides):
    ingest(tides, tmp_path / "store")
    return tmp_path / "store"


# --- another folder


def others(tmp_path: Path) -> list[Path]:
    inner = write(tmp_path / "tides" / "inner", {"deep.md": "# Deep\n\nDeep water.\n"})
    return [
        write(tmp_path / "reefs", REEFS),
        tmp_path,
        inner,
        write(tmp_path / "elsewhere" / "tides", REEFS),
        write(tmp_path / "copies" / "tides", TIDES),
    ]


@pytest.mark.parametrize("which", range(5))
@pytest.mark.parametrize("options", [{}, {"full": True}, {"clean": True}, {"allow_shrink": True}, {"dry_run": True}])
def test_any_other_folder_is_refused_and_the_message_names_both_and_the_way_out(tmp_path, tides, which, options):
    store = tmp_path.parent / f"{tmp_path.name}.store"
    ingest(tides, store)
    other = others(tmp_path)[which]
    before = sorted(path for path in store.rglob("*"))
    with pytest.raises(CorpusError) as refused:
        ingest(other, store, **options)
    assert all(part in str(refused.value) for part in (f"from {tides}, ", f"from {other}:", "--adopt", "--db"))
    assert sorted(path for path in store.rglob("*")) == before
    assert ask("tide turns", store=store)[0] in TIDES
    shutil.rmtree(store)


def test_on_the_command_line_that_is_exit_code_1_and_adopt_takes_the_store_over(tmp_path, tides, store):
    moved = tides.rename(tmp_path / "moved")
    refused = forked_cli("ingest", moved, "--db", store)
    assert refused.returncode == 1 and "--adopt" in refused.stderr
    assert f"{tides}, which is gone" in refused.stderr
    looked = forked_cli("doctor", "--db", store, "--corpus", moved)
    assert looked.returncode == 1 and "BAD  owner:" in looked.stdout
    taken = forked_cli("ingest", moved, "--db", store, "--adopt", "--json")
    assert json.loads(taken.stdout)["chunks_embedded"] == 0
    assert forked_cli("ingest", moved, "--db", store).returncode == 0
    assert "ok   owner:" in forked_cli("doctor", "--db", store, "--corpus", moved).stdout


@pytest.mark.parametrize("store_name", ["store", None])
def test_the_same_folder_by_another_path_is_the_same(tmp_path, tides, monkeypatch, store_name):
    store = tmp_path / store_name if store_name else None
    ingest(tides, store)
    alias = tmp_path / "alias"
    alias.symlink_to(tides)
    monkeypatch.chdir(tides.parent)
    for root in (alias, Path("tides"), Path("tides/"), Path("./tides/../tides"), tmp_path / "alias" / "."):
        summary = ingest(root, store)
        assert (summary.published, summary.files_unchanged) == (False, 6)
    monkeypatch.chdir(tides)
    assert not ingest(Path("."), store).published


def test_a_link_that_is_set_to_the_next_release_is_the_same_place(tmp_path, tides):
    store, reefs, link = tmp_path / "store", write(tmp_path / "reefs", REEFS), tmp_path / "current"
    link.symlink_to(tides)
    ingest(link, store)
    link.unlink()
    link.symlink_to(reefs)
    assert ingest(link, store).files_ingested == 6
    assert read_owner(store).root == reefs
    with pytest.raises(CorpusError, match="--adopt"):
        ingest(tides, store)


def test_a_folder_by_another_letter_case_is_the_same_where_the_file_system_says_so(tmp_path, tides, store, monkeypatch):
    shouted = tmp_path / "TIDES"
    shouted.mkdir()
    real = os.path.samefile
    alike = {str(tides), str(shouted)}

    def samefile(one, other):
        return {str(one), str(other)} <= alike or real(one, other)

    monkeypatch.setattr(os.path, "samefile", samefile)
    assert same_folder(shouted, tides) and is_inside(shouted / "store", tides)
    write(shouted, TIDES)
    ingest(shouted, store)
    assert read_owner(store).root == tides


def test_the_generation_and_the_store_say_the_folder_and_one_id(tmp_path, tides, store):
    owner = read_owner(store)
    write(tides, {"tide9.md": "# Tide 9\n\nA new one.\n"})
    ingest(tides, store)
    notes = [json.loads(path.read_text())["notes"] for path in sorted(store.glob("generations/*/generation.json"))]
    assert len(notes) == 2
    assert {(note["corpus_root"], note["store_id"]) for note in notes} == {(str(tides), owner.store_id)}
    (store / OWNER_FILE).write_text("{")
    with pytest.raises(CorpusError, match="was made from"):
        ingest(write(tmp_path / "reefs", REEFS), store)
    ingest(tides, store)
    assert read_owner(store) == owner
    moved = tides.rename(tmp_path / "moved")
    ingest(moved, store, adopt=True)
    assert (read_owner(store).root, read_owner(store).store_id) == (moved, owner.store_id)


def test_a_first_ingest_that_failed_and_a_dry_run_claim_nothing(tmp_path, tides):
    store = tmp_path / "store"
    with pytest.raises(CorpusError):
        ingest(write(tmp_path / "bare", {"note.txt": "x"}), store)
    ingest(tides, store, dry_run=True)
    assert read_owner(store) is None
    ingest(write(tmp_path / "reefs", REEFS), store)


# --- stores of older versions


def test_a_store_without_a_record_is_adopted_by_its_own_folder_whatever_has_changed_there(tides, store):
    forget(store)
    write(tides, {name: "# All new\n\nNothing is as it was.\n" for name in TIDES})
    ingest(tides, store)
    assert read_owner(store).root == tides


@pytest.mark.parametrize(("changed", "taken"), [(3, True), (4, False)])
def test_a_store_without_any_record_is_adopted_by_at_least_half_of_its_files_with_the_same_text(
    tides, store, changed, taken
):
    forget(store, stat_cache=False)
    write(tides, {f"tide{n}.md": f"# Other {n}\n\nOther {n}.\n" for n in range(changed)})
    if not taken:
        with pytest.raises(CorpusError, match="--adopt"):
            ingest(tides, store)
    ingest(tides, store, adopt=not taken)
    assert read_owner(store).root == tides


@pytest.mark.parametrize("stat_cache", [True, False])
def test_a_store_without_a_record_refuses_other_folders_also_with_the_same_names(tmp_path, tides, store, stat_cache):
    forget(store, stat_cache=stat_cache)
    for other in (write(tmp_path / "reefs", REEFS), write(tmp_path / "crabs", SAME_NAMES)):
        with pytest.raises(CorpusError, match="--adopt"):
            ingest(other, store)
    assert ask("tide turns", store=store)[0] in TIDES


# --- the default store


def test_the_default_store_is_named_after_its_folder_so_that_siblings_never_meet(tmp_path, tides):
    reefs = write(tmp_path / "reefs", REEFS)
    for root in (tides, reefs, tides):
        ingest(root)
    assert sorted(path.name for path in tmp_path.glob("*.store")) == ["reefs.rag_mcp.store", "tides.rag_mcp.store"]
    assert ask("tide turns", root=tides)[0] in TIDES
    assert ask("reef lies", root=reefs)[0] in REEFS


@pytest.mark.parametrize("recorded", [True, False])
def test_the_one_default_store_of_older_versions_is_used_by_the_folder_it_was_made_from_and_no_other(
    tmp_path, tides, recorded
):
    reefs, old = write(tmp_path / "reefs", REEFS), tmp_path / "rag_mcp.store"
    ingest(tides, old)
    if not recorded:
        forget(old)
    assert (default_store(tides), default_store(reefs)) == (old, tmp_path / "reefs.rag_mcp.store")
    assert ask("tide turns", root=tides)[0] in TIDES
    assert ingest(reefs).chunks_embedded == 6
    assert ingest(tides).chunks_embedded == 0
    assert read_owner(old).root == tides
    assert not (tmp_path / "tides.rag_mcp.store").exists()
    assert default_store(tides) == old


def test_a_collection_in_the_old_default_store_is_found_by_its_own_folder(tmp_path, tides):
    reefs, old = write(tmp_path / "reefs", REEFS), tmp_path / "rag_mcp.store"
    for root, collection in ((tides, "water"), (reefs, "stone")):
        with Library(root, old, collection=collection) as library:
            library.ingest()
        assert default_store(root, collection) == old
    assert default_store(tides, "stone") == default_store(tides) == tmp_path / "tides.rag_mcp.store"


def test_a_folder_that_moved_with_the_old_default_store_still_finds_it(tmp_path, tides):
    home = tmp_path / "home"
    write(home / "tides", TIDES)
    ingest(home / "tides", home / "rag_mcp.store")
    forget(home / "rag_mcp.store")
    moved = home.rename(tmp_path / "moved")
    assert default_store(moved / "tides") == moved / "rag_mcp.store"
    assert ingest(moved / "tides").chunks_embedded == 0
    shutil.copytree(moved, tmp_path / "copy")  # both are there: which one it belongs to is recorded
    assert default_store(tmp_path / "copy" / "tides") == tmp_path / "copy" / "tides.rag_mcp.store"


def test_once_a_store_of_its_own_is_there_the_old_name_is_not_looked_at(tmp_path, tides):
    ingest(tides, tmp_path / "rag_mcp.store")
    ingest(tides, tmp_path / "tides.rag_mcp.store")
    assert default_store(tides) == tmp_path / "tides.rag_mcp.store"


@pytest.mark.parametrize("name", ["x" * 255, "å" * 127, "notes v2 (old)", "-", ".hidden"])
def test_any_name_of_a_folder_gives_a_name_the_file_system_takes(tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "a.md").write_text("# A\n\nText.\n")
    assert ingest(tmp_path / name).published
    assert len(list(tmp_path.glob("*.rag_mcp.store"))) + (tmp_path / ".hidden.rag_mcp.store").exists() >= 1


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"root": 1}', '{"root": null, "store": "x"}', "\x00"])
def test_a_record_that_cannot_be_read_counts_as_none(tmp_path, tides, store, damage):
    (store / OWNER_FILE).write_text(damage)
    assert read_owner(store) is None
    assert not ingest(tides, store).published
    assert read_owner(store).root == tides
