"""Damage on disk is recognised and named, answered by what is left, and repaired without embedding anything again."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from cli_process import forked_cli
from raw_server import RawServer
from support import Library

from rag_mcp.errors import StoreError
from rag_mcp.maintenance import repair
from rag_mcp.models import Reason, SourceClass
from rag_mcp.stores.embedded.owner import Owner
from rag_mcp.stores.embedded.verify import verify_store

FILES = {
    **{f"docs/n{number}.md": f"# Note {number}\n\nBody {number} about herons.\n" for number in range(12)},
    **{f"memory/m{number}.md": f"# Diary {number}\n\nDay {number} with otters.\n" for number in range(3)},
}
CHANGE = {"docs/n1.md": "# Note 1\n\nBody 1 about egrets.\n"}
LATER = {"docs/n2.md": "# Note 2\n\nBody 2 about storks.\n"}
MODES = ("hybrid", "vector", "fts")

CHROMA = (
    "chroma.sqlite3",
    "data_level0.bin",
    "header.bin",
    "index_metadata.pickle",
    "length.bin",
    "link_lists.bin",
    "recent-docs.npz",
)
TANTIVY = ("meta.json", ".managed.json", ".del", ".fast", ".fieldnorm", ".idx", ".pos", ".store", ".term")


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def scrambled(path: Path) -> None:
    path.write_bytes(random.Random(7).randbytes(path.stat().st_size))


def empty(path: Path) -> None:
    path.write_bytes(b"")


def missing(path: Path) -> None:
    path.unlink()


DAMAGE = (truncated, zeroed, scrambled, empty, missing)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A store of two generations that share what they can."""
    folder = tmp_path_factory.mktemp("prepared")
    with Library(folder / "corpus", folder / "store") as library:
        library.write(FILES)
        library.ingest()
        library.write(CHANGE)
        library.ingest()
    return folder


@pytest.fixture
def library(prepared, tmp_path):
    """A copy of the prepared store, names that share a file included."""
    subprocess.run(["cp", "-a", prepared / "corpus", prepared / "store", tmp_path], check=True)
    with Library(tmp_path / "corpus", tmp_path / "store", profile="auditor") as found:
        found.generations.belong_to(Owner(found.corpus, "a copy"))
        yield found


def place(library: Library, name: str) -> Path:
    """The file of the live generation that ``name`` ends: of the class docs where each class has one."""
    live = library.store_path / "generations" / "000002"
    if name in ("CURRENT", "embeddings.sqlite"):
        return library.store_path / name
    if name.startswith(("generation.json", "manifest")):
        return live / name
    if name == "format.json":
        return live / "keywords" / name
    if name in TANTIVY:
        return max((live / "keywords" / "docs").glob(f"*{name}"), key=lambda path: path.stat().st_size)
    found = [path for path in (live / "chroma").rglob(name) if path.stat().st_size]
    return max(found, key=lambda path: path.stat().st_size)


def put_back(library: Library, prepared: Path, path: Path) -> None:
    """In place, as the damage was: names that share the file are whole again too."""
    with path.open("wb") as stream:
        stream.write((prepared / "store" / path.relative_to(library.store_path)).read_bytes())
    shutil.copystat(prepared / "store" / path.relative_to(library.store_path), path)


def problems(library: Library) -> str:
    return "\n".join(verify_store(library.generations)[1])


def ask(library: Library, base, mode: str, query: str = "Note 3 Body 3 about herons", source: str = "docs/n3.md"):
    found = library.search(query, base=base, mode=mode)
    if found.status == "OK":
        assert found.results[0].citation.source == source, (mode, found)
    return found


def test_an_undamaged_store_is_found_clean(library):
    assert problems(library) == ""
    assert forked_cli("verify", "--db", library.store_path).returncode == 0


@pytest.mark.parametrize("name", ["CURRENT", "generation.json", "manifest-recent.sqlite", "format.json"])
def test_a_description_that_is_torn_or_gone_is_named_and_the_last_whole_state_answers(library, prepared, name):
    running = library.base()
    assert ask(library, running, "hybrid").generation == 2
    path = place(library, name)
    for damage in DAMAGE:
        if name == "CURRENT" and damage is truncated:
            continue  # half of one digit and a line end is still that digit
        damage(path)
        fresh = library.base()
        for mode in MODES:
            found = ask(library, fresh, mode)
            assert found.status == "OK" and found.degraded, (damage, mode, found)
            assert found.generation == (2 if name == "CURRENT" else 1)
            named = "CURRENT" if name == "CURRENT" else "Generation 2 is damaged"
            assert named in found.degraded_reason
            assert ask(library, running, mode).status == "OK"
        assert fresh.status().ok is False
        fresh.close()
        assert ("CURRENT" if name == "CURRENT" else name) in problems(library), damage
        put_back(library, prepared, path)


@pytest.mark.parametrize("name", CHROMA)
def test_a_damaged_vector_file_costs_the_vector_branch_only(library, prepared, name):
    running = library.base()
    assert ask(library, running, "vector").generation == 2
    path = place(library, name)
    for damage in DAMAGE:
        before = path.read_bytes()
        damage(path)
        if path.exists() and path.read_bytes() == before:
            continue  # a file of zeros, zeroed
        fresh = library.base()
        for mode in MODES:
            found = ask(library, fresh, mode)
            assert found.generation == 2
            if mode == "vector":
                assert (found.status, found.reason) == ("NO_RELEVANT_CONTEXT", Reason.PLANE_FAILED)
            else:
                assert found.status == "OK"
            assert found.degraded == (mode != "fts")
            if found.degraded:
                assert "vector index" in found.degraded_reason
        fresh.close()
        assert name in problems(library), damage
        put_back(library, prepared, path)
    assert ask(library, running, "hybrid").generation == 2


@pytest.mark.parametrize("name", TANTIVY)
def test_a_damaged_keyword_file_is_answered_by_the_last_whole_generation_or_costs_its_class(library, prepared, name):
    path = place(library, name)
    shared = path.stat().st_nlink > 1
    for damage in DAMAGE:
        damage(path)
        gone_from_both = shared and damage is not missing
        fresh = library.base()
        for mode in MODES:
            found = library.search("Note 3 Body 3 about herons", base=fresh, mode=mode)
            assert found.degraded and "Generation 2 is damaged" in found.degraded_reason
            assert all(result.citation.source != "docs/n3.md" for result in found.results) or found.generation == 1
            if not gone_from_both:
                assert (found.results[0].citation.source, found.generation) == ("docs/n3.md", 1)
                continue
            assert found.generation == 2
            assert SourceClass.DOCS in found.coverage.failed
            other = ask(library, fresh, mode, "Diary 2 Day 2 with otters", "memory/m2.md")
            assert other.status == "OK"
            only = library.search("herons", base=fresh, mode=mode, source_class="docs")
            assert (only.status, only.reason) == ("NO_RELEVANT_CONTEXT", Reason.PLANE_FAILED)
        fresh.close()
        assert path.name in problems(library), damage
        put_back(library, prepared, path)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_cache_costs_no_answer_and_is_filled_again_from_the_index(library, damage):
    damage(place(library, "embeddings.sqlite"))
    base = library.base()
    for mode in MODES:
        found = ask(library, base, mode)
        assert (found.status, found.degraded) == ("OK", False)
    assert "embeddings.sqlite" in problems(library)
    assert any("15 vectors" in line for line in repair(library.config()))
    assert problems(library) == ""
    assert library.ingest(full=True).chunks_embedded == 0


@pytest.mark.parametrize(
    "name",
    ["CURRENT", "generation.json", "manifest.sqlite", "format.json", "chroma.sqlite3", "data_level0.bin", ".store"],
)
@pytest.mark.parametrize("damage", [scrambled, missing])
def test_repair_and_the_next_ingest_both_heal_without_embedding_known_texts(library, prepared, tmp_path, name, damage):
    wanted = library.dump()
    damage(place(library, name))
    done = repair(library.config())
    assert not any("embedded" in line and " 0 passages embedded" not in line for line in done), done
    assert problems(library) == ""
    assert library.dump() == wanted
    assert repair(library.config()) == ["the live generation is whole"]
    damage(place(library, name) if library.generations.current() == 2 else newest(library, name))
    library.write(LATER)
    summary = library.ingest()
    assert (summary.published, summary.chunks_embedded) == (True, 1)
    assert problems(library) == ""
    assert library.dump() == library.fresh(tmp_path / "fresh")


@pytest.mark.parametrize("damage", [scrambled, missing])
def test_recent_vectors_that_are_damaged_are_healed_by_the_next_ingest(library, tmp_path, damage):
    damage(place(library, "recent-docs.npz"))
    library.write(LATER)
    assert library.ingest().chunks_embedded == 1
    assert problems(library) == ""
    assert library.dump() == library.fresh(tmp_path / "fresh")


def newest(library: Library, name: str) -> Path:
    live = library.generations.path(library.generations.current())
    found = [path for path in live.rglob(f"*{name}") if path.stat().st_size] or [library.store_path / name]
    return max(found, key=lambda path: path.stat().st_size)


def test_files_that_are_cut_or_gone_are_healed_by_a_run_with_nothing_else_to_do(library):
    place(library, ".store").unlink()
    summary = library.ingest()
    assert (summary.published, summary.chunks_embedded) == (True, 0)
    assert "damaged" in summary.rebuilt_because
    place_of_pointer = library.store_path / "CURRENT"
    place_of_pointer.unlink()
    assert library.ingest().published is False
    assert problems(library) == ""


def test_a_store_damaged_beyond_any_answer_says_what_to_do(library):
    for path in (library.store_path / "generations").rglob("manifest.sqlite"):
        zeroed(path)
    base = library.base()
    with pytest.raises(StoreError, match="damaged"):
        library.search("herons", base=base)
    assert library.ingest().chunks_embedded == 0
    assert ask(library, base, "hybrid").status == "OK"


def test_the_command_line_names_damage_and_repairs_it(library):
    zeroed(place(library, "data_level0.bin"))
    place(library, ".term").unlink()
    found = forked_cli("verify", "--db", library.store_path)
    assert found.returncode == 1
    assert "data_level0.bin" in found.stdout and ".term" in found.stdout
    fixed = forked_cli("doctor", "--fix", "--db", library.store_path, "--corpus", library.corpus)
    assert "0 passages embedded" in fixed.stdout
    assert "BAD  store" not in fixed.stdout
    again = forked_cli("verify", "--db", library.store_path)
    assert (again.returncode, again.stdout.strip()) == (0, "generation 3: clean")


def question(server: RawServer, number: int, mode: str = "hybrid"):
    arguments = {"query": "Note 3 Body 3 about herons", "mode": mode, "confidence": "normal"}
    return server.call("search_knowledge", arguments, id=number)


@pytest.mark.parametrize(
    "name", ["chroma.sqlite3", "data_level0.bin", "link_lists.bin", ".store", ".term", "meta.json"]
)
def test_a_server_outlives_damage_before_it_starts_and_while_it_runs(library, prepared, name):
    env = {
        "RAG_MCP_EMBEDDER": "hash",
        "RAG_MCP_CORPUS_ROOT": str(library.corpus),
        "RAG_MCP_DB_PATH": str(library.store_path),
    }
    path = place(library, name)
    scrambled(path)
    with RawServer(env=env) as server:
        server.initialize()
        for number, mode in enumerate(MODES, 10):
            found = question(server, number, mode)
            assert found.get("degraded") or mode == "fts" or found["status"] == "OK", found
            assert found["status"] == "OK" or found["reason"] == "plane_failed", found
        put_back(library, prepared, path)
        library.write(LATER)
        library.ingest()
        healed = question(server, 20)
        assert (healed["status"], healed.get("degraded")) == ("OK", None)
        scrambled(newest(library, name))  # the same size: what is mapped stays mapped
        for number, mode in enumerate(MODES, 30):
            found = question(server, number, mode)
            assert found.get("ok", True) or found["error"]["type"] == "store_damaged", found
        library.write({"docs/n4.md": "# Note 4\n\nBody 4 about cranes.\n"})
        library.ingest()
        healed = question(server, 40)
        assert (healed["status"], healed.get("degraded")) == ("OK", None)
        assert server.end() == 0
        assert "Traceback" not in server.stderr
