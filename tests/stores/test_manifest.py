"""A manifest is read and written by part, and what a change costs follows the change."""

import hashlib
import json
from dataclasses import asdict, replace

import pytest
from support import Library

from rag_mcp.errors import StoreDamaged
from rag_mcp.ingest import content
from rag_mcp.models import DocClass, SourceClass
from rag_mcp.stores.embedded import manifest_file
from rag_mcp.stores.embedded.manifest_file import StoredFiles, read_manifest, write_manifest
from rag_mcp.stores.embedded.verify import verify_store
from rag_mcp.stores.manifest import ChangedFiles, FileEntry, Manifest, ids_digest, stored_ids

FIELDS = [
    "sha256",
    "source_class",
    "project",
    "doc_class",
    "title",
    "series",
    "day",
    "rows",
    "aliases",
    "links",
    "properties",
    "opening",
]
LATER_FIELDS = ["converted_from", "pages", "file_day", "chars"]


def entry(number: int, **changes: object) -> FileEntry:
    rows = [(f"{number:024x}", f"{number:032x}", 1, 4, f"{number:016x}"), ("other", "key", 5, 6, "")]
    made = FileEntry(
        sha256=f"{number:064x}",
        source_class=SourceClass.DOCS,
        project="weir",
        doc_class=DocClass.NOTE,
        title=f"Gate {number} \ud83d",
        series="log/%",
        day="2031-03-01",
        rows=tuple(rows),
        aliases=("Sluice",),
        links=("b.md",),
        properties={"tags": ["open", 3, True]},
        opening="First words.",
        converted_from="pdf",
        pages=(1, 4),
        file_day="2031-02-02",
        chars=99,
    )
    return replace(made, **changes)


def plain(manifest: Manifest) -> dict[str, object]:
    return {path: replace(each, rows=tuple(map(tuple, each.rows))) for path, each in manifest.files.items()}


def written(folder, manifest: Manifest) -> Manifest:
    folder.mkdir()
    write_manifest(folder, manifest)
    return read_manifest(folder)


@pytest.mark.parametrize("recent_files", [0, 3, 256])
def test_it_is_read_as_it_was_written_whole_and_by_part(tmp_path, monkeypatch, recent_files):
    monkeypatch.setattr(manifest_file, "RECENT_FILES", recent_files)
    files = {f"{name}.md": entry(number) for number, name in enumerate("abcdefgh")}
    manifest = Manifest({"dimension": 8}, {"metadata": 1}, files, {"x.md": ("sha", "torn")}, {"a.md": ("masked",)})
    read = written(tmp_path / "0", manifest)
    for step in range(1, 4):
        put, gone = {f"{step}.md": entry(100 + step), "b.md": entry(200 + step)}, {"defg"[step] + ".md"}
        notices = {**read.notices, "b.md": (f"note {step}",)}
        files = {path: each for path, each in {**files, **put}.items() if path not in gone}
        changed = replace(read, files=ChangedFiles(read.files, put, gone), rejected={}, notices=notices)
        read = written(tmp_path / str(step), changed)
        assert plain(read) == files
        assert {path: read.files[path].title for path in files} == {path: each.title for path, each in files.items()}
        assert (dict(read.identity), dict(read.rejected), read.notices) == ({"dimension": 8}, {}, notices)
        assert list(read.files) == sorted(files)
        assert read.counts() == {"docs": len(files)}
        with pytest.raises(KeyError):
            read.files[next(iter(gone))]
    assert (tmp_path / "3" / "manifest-recent.sqlite").exists() is (recent_files > 0)


def test_what_a_run_asks_of_every_file_reads_no_passage(tmp_path, monkeypatch):
    read = written(tmp_path / "0", Manifest({}, {}, {f"{n}.md": entry(n) for n in range(9)}))
    monkeypatch.setattr(read.files, "_rows", None)
    assert (read.counts(), len(read.openings())) == ({"docs": 9}, 9)
    assert {len(each.rows) for each in read.files.values()} == {2}


@pytest.mark.parametrize("raw", [b"", b"SQLite format 3\0" + bytes(4096), b"{}"])
def test_a_file_that_is_torn_or_foreign_is_damage(tmp_path, raw):
    (tmp_path / "manifest.sqlite").write_bytes(raw)
    with pytest.raises(StoreDamaged):
        read_manifest(tmp_path)
    with pytest.raises(StoreDamaged):
        read_manifest(tmp_path / "nowhere")


def test_the_digest_of_ids_follows_from_the_one_before():
    docs, code = SourceClass.DOCS, SourceClass.CODE
    before = ids_digest({docs: {"a", "b"}, code: {"a"}})
    assert ids_digest({docs: {"c"}}, {code: {"a"}}, before=before) == ids_digest({docs: {"c", "b", "a"}})
    assert before != ids_digest({docs: {"a", "b", "c"}})


# --- a store of format 1 ---------------------------------------------------------------------------------------------


def make_format_1(library: Library) -> None:
    """What versions before format 2 left: one JSON file, digests without times, one digest over all ids in order."""
    folder = library.generations.path(1)
    manifest = library.manifest()
    columns = {
        path: [
            dict(value) if name == "properties" else list(map(list, value)) if name == "rows" else value
            for name in (*FIELDS, *LATER_FIELDS)
            for value in [getattr(each, name)]
        ]
        for path, each in manifest.files.items()
    }
    value = {"identity": manifest.identity, "derivation": manifest.derivation, "rejected": {}, "files": columns}
    raw = json.dumps({**value, "notices": manifest.notices})
    lines = sorted(f"docs {i}" for i in stored_ids(manifest.files.values())[SourceClass.DOCS])
    (folder / "manifest.sqlite").unlink()
    (folder / "manifest.json").write_text(raw, encoding="utf-8")
    info = asdict(library.generations.info(1))
    checksums = {name: value[:2] for name, value in info["checksums"].items() if name != "manifest.sqlite"}
    checksums["manifest.json"] = [len(raw), hashlib.blake2b(raw.encode(), digest_size=16).hexdigest()]
    info |= {"format": 1, "checksums": checksums, "ids_digest": hashlib.sha256("\n".join(lines).encode()).hexdigest()}
    (folder / "generation.json").write_text(json.dumps(info), encoding="utf-8")


def test_a_store_of_format_1_is_read_and_updated_in_place(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        library.write({f"n{n}.md": f"# Gate {n}\n\nThe gate {n} is open.\n" for n in range(5)})
        library.ingest()
        make_format_1(library)
        assert verify_store(library.generations) == (1, [])
        assert library.sources("gate 3")[0] == "n3.md"
        assert library.ingest().published is False
        library.write({"n9.md": "# Lock\n\nThe lock keeper sleeps.\n"})
        summary = library.ingest()
        assert (summary.incremental, summary.chunks_embedded, summary.chunks_added) == (True, 1, 1)
        assert isinstance(library.manifest().files, StoredFiles)
        assert verify_store(library.generations) == (2, [])
        assert library.dump() == library.fresh(tmp_path / "fresh")


@pytest.mark.parametrize("length", [8, 9, 10, 11, 12])
def test_what_an_older_version_did_not_write_is_empty(tmp_path, length):
    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        library.write({"skiff.md": "---\nsold: false\n---\n# Skiff\n\nA skiff.\n"})
        library.ingest()
        make_format_1(library)
        path = library.generations.path(1) / "manifest.json"
        raw = json.loads(path.read_text(encoding="utf-8"))
        raw["files"] = {source: values[:length] for source, values in raw["files"].items()}
        path.write_text(json.dumps(raw), encoding="utf-8")
        read = library.manifest().files["skiff.md"]
        assert (read.properties == {}) is (length < 11) and read.file_day == ""


# --- costs -----------------------------------------------------------------------------------------------------------


def cost_of_one_edit(folder, files: int, monkeypatch) -> dict[str, int]:
    """What the second edit of one file reads and writes; the first one writes what there was not before."""
    read: list[str] = []
    original = content.read_file
    with Library(folder / "corpus", folder / "store") as library:
        library.write({f"{n % 10}/n{n:04d}.md": f"# Gate {n}\n\nThe gate {n} is open.\n" for n in range(files)})
        library.ingest()
        for text in ("shut", "gone"):
            with monkeypatch.context() as patch:
                patch.setattr(
                    content, "read_file", lambda *args, **kwargs: read.append("") or original(*args, **kwargs)
                )
                library.ingest(rehash=False)  # times are too young to be trusted the first time
                read.clear()
                library.write({"0/n0000.md": f"# Gate 0\n\nThe gate 0 is {text}.\n"})
                library.ingest()
        new = library.generations.path(library.generations.current())
        own = {path for path in new.rglob("*") if path.is_file() and path.stat().st_nlink == 1}
        sizes = {path.name.split(".")[-1]: 0 for path in own}
        for path in own:
            sizes[path.name.split(".")[-1]] += path.stat().st_size
        return {"database": sizes.pop("sqlite3"), "sqlite": sizes["sqlite"], "npz": sizes["npz"], "rows": len(own)}


def test_what_an_edit_writes_does_not_grow_with_the_corpus(tmp_path, monkeypatch):
    few, many = (cost_of_one_edit(tmp_path / str(files), files, monkeypatch) for files in (60, 480))
    database = many.pop("database") - few.pop("database")
    assert few == many
    assert database <= 420 * 300  # Chroma's own database is copied: ids and places
