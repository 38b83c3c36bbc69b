"""Ingest end to end with real indexes: what a run does, costs and leaves behind."""

import os
import subprocess
import sys
import textwrap
from datetime import date, timedelta

import pytest
from cli_process import cli_json, forked_cli
from support import Library

from rag_mcp.errors import CorpusError, CorpusShrunk, StoreLocked, StoreTooNew
from rag_mcp.ingest import content, statcache
from rag_mcp.ingest.options import IngestOptions, Step
from rag_mcp.ingest.plan import check_shrink
from rag_mcp.ingest.run import run_ingest
from rag_mcp.stores.embedded.files import write_json
from rag_mcp.stores.embedded.formats import INDEX_FORMATS

TREES = "# Trees\n\nIntro about trees.\n\n## Oak\n\nOaks carry acorns.\n\n## Elm\n\nElms have widgets.\n\n## Fir\n\nFirs stay green.\n"


def texts(library: Library) -> str:
    return "\n".join(str(chunk["text"]) for chunk in library.dump().values())


def test_the_first_run_indexes_everything_and_the_second_changes_nothing(library):
    library.write({"a.md": TREES, "sub/b.md": "# Bees\n\nBees make honey.\n"})
    first = library.ingest()
    assert (first.files_seen, first.files_ingested, first.generation, first.incremental) == (2, 2, 1, False)
    assert first.chunks_added == first.store_count == first.chunks_embedded
    second = library.ingest()
    assert (second.files_ingested, second.files_unchanged, second.published) == (0, 2, False)
    assert (second.chunks_added, second.chunks_deleted, second.chunks_embedded, second.generation) == (0, 0, 0, 1)
    assert library.generations.numbers() == [1]


def test_a_run_with_nothing_to_do_loads_no_index_and_no_model(library):
    library.write({"a.md": TREES})
    for embedder in ("hash", "minilm"):
        db = library.store_path.with_name(embedder)
        assert forked_cli("ingest", library.corpus, "--db", db, "--embedder", embedder).returncode == 0
        code = f"""
            import sys
            sys.argv = ["rag-mcp", "ingest", {str(library.corpus)!r}, "--db", {str(db)!r}, "--embedder", {embedder!r}, "-q"]
            from rag_mcp.cli import main
            try:
                main()
            except SystemExit as end:
                assert not end.code, end.code
            heavy = {{"chromadb", "tantivy", "onnxruntime", "tokenizers", "numpy", "mcp", "markdown_it", "rich"}} & set(sys.modules)
            assert not heavy, heavy
            analysis = {{"rag_mcp.text.terms", "rag_mcp.stores.embedded.keywords", "rag_mcp.ingest.records"}} & set(sys.modules)
            assert not analysis, analysis
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        assert "0 ingested" in done.stdout


def test_an_edit_in_one_section_embeds_only_that_section(library):
    library.write({"a.md": TREES, "b.md": "# Bees\n\nBees make honey.\n"})
    library.ingest()
    library.write({"a.md": TREES.replace("Elms have widgets.", "Elms have gadgets.")})
    summary = library.ingest()
    assert (summary.chunks_added, summary.chunks_deleted, summary.chunks_embedded) == (1, 1, 1)
    assert "gadgets" in texts(library)
    assert "widgets" not in texts(library)


def test_an_insertion_renumbers_without_embedding_the_rest(library, tmp_path):
    library.write({"a.md": TREES})
    library.ingest()
    library.write({"a.md": TREES.replace("## Oak", "## Ash\n\nAshes are tall.\n\n## Oak")})
    summary = library.ingest()
    assert summary.chunks_embedded == 1
    assert summary.chunks_updated == 3
    assert library.dump() == library.fresh(tmp_path / "fresh")


@pytest.mark.parametrize(
    "keep", ["# Trees\n\nIntro about trees.\n\n## Oak\n\nOaks carry acorns.\n", "# Trees\n", "", "  \n\n"]
)
def test_a_file_that_shrinks_leaves_no_ghosts(library, tmp_path, keep):
    library.write({"a.md": TREES, "b.md": "# Bees\n\nBees make honey.\n"})
    library.ingest()
    library.write({"a.md": keep})
    library.ingest()
    assert library.dump() == library.fresh(tmp_path / "fresh")
    for mode in ("fts", "vector", "hybrid"):
        found = library.search("elms widgets", mode=mode, k=20).results
        assert not any("widgets" in (result.text or "") for result in found)


def test_deleting_the_only_file_empties_both_indexes(library):
    library.write({"a.md": TREES})
    library.ingest()
    library.remove("a.md")
    summary = library.ingest(allow_shrink=True)
    assert (summary.files_deleted, summary.store_count) == (1, 0)
    assert library.dump() == {}


def test_a_rename_and_a_move_embed_nothing_and_cite_the_new_path(library, tmp_path):
    library.write({"inbox/heron.md": "# Herons\n\nHerons nest on the third island.\n", "inbox/otter.md": TREES})
    library.ingest()
    (library.corpus / "archive").mkdir()
    (library.corpus / "inbox/heron.md").rename(library.corpus / "archive/heron-survey.md")
    summary = library.ingest()
    assert (summary.chunks_embedded, summary.files_deleted) == (0, 1)
    assert library.sources("herons third island")[0] == "archive/heron-survey.md"
    assert "inbox/heron.md" not in library.sources("herons third island", k=20)
    assert library.dump() == library.fresh(tmp_path / "fresh")


def test_a_note_without_heading_may_be_renamed_for_nothing_too(library):
    library.write({"first name.md": "Only a paragraph, no heading at all.\n"})
    library.ingest()
    (library.corpus / "first name.md").rename(library.corpus / "second name.md")
    assert library.ingest().chunks_embedded == 0


def test_a_copy_survives_when_the_original_goes(library):
    text = "# Otters\n\nOtters use the north culvert.\n"
    library.write({"a.md": text, "b.md": text})
    assert library.ingest().chunks_embedded == 1
    library.remove("a.md")
    assert library.ingest().chunks_embedded == 0
    assert library.sources("otters north culvert") == ["b.md"]


def test_reverting_an_edit_embeds_nothing(library):
    library.write({"a.md": TREES})
    library.ingest()
    library.write({"a.md": TREES.replace("acorns", "cones")})
    assert library.ingest().chunks_embedded == 1
    library.write({"a.md": TREES})
    assert library.ingest().chunks_embedded == 0


def test_content_decides_and_not_the_clock(library):
    library.write({"rates.md": "# Berth fee\n\nThe berth fee is 41 crowns.\n"})
    library.ingest()
    path = library.corpus / "rates.md"
    before = path.stat()
    path.write_text("# Berth fee\n\nThe berth fee is 57 crowns.\n", encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    library.ingest()
    assert "57 crowns" in texts(library)
    assert "41 crowns" not in texts(library)
    for year in (0, 631152000, 3786912000):
        os.utime(path, (year, year))
        summary = library.ingest()
        assert (summary.files_ingested, summary.chunks_embedded, summary.published) == (0, 0, False)


@pytest.mark.parametrize("changed", [b"\xef\xbb\xbf", b""])
def test_a_byte_order_mark_or_other_line_ends_change_nothing(library, changed):
    library.write({"a.md": TREES})
    library.ingest()
    before = library.dump()
    library.write({"a.md": changed + TREES.replace("\n", "\r\n").encode()})
    summary = library.ingest()
    assert (summary.files_ingested, summary.chunks_embedded, summary.published) == (0, 0, False)
    assert library.dump() == before


def test_rehash_reads_every_file_again(library):
    library.write({"a.md": TREES})
    library.ingest()
    assert library.ingest(rehash=True).published is False


@pytest.mark.parametrize(("options", "embedded"), [({"full": True}, 0), ({"clean": True}, 0), ({"re_embed": True}, 4)])
def test_rebuilding_pays_only_when_told_to(library, options, embedded):
    library.write({"a.md": TREES})
    library.ingest()
    before = library.dump()
    summary = library.ingest(**options)
    assert (summary.incremental, summary.chunks_embedded, summary.generation) == (False, embedded, 2)
    assert library.dump() == before
    assert library.generations.numbers() == ([2] if options.get("clean") else [1, 2])


def test_a_store_of_an_older_index_format_is_built_anew_from_the_cache(library, monkeypatch):
    library.write({"a.md": TREES})
    with monkeypatch.context() as older:
        older.setitem(INDEX_FORMATS, "keywords", INDEX_FORMATS["keywords"] - 1)
        older.setattr("rag_mcp.stores.embedded.keywords.folder.SCHEMA_VERSION", INDEX_FORMATS["keywords"])
        library.ingest()
    again = library.ingest()
    assert (again.incremental, again.chunks_embedded, again.store_count) == (False, 0, len(library.dump()))
    assert library.sources("trees")[:1] == ["a.md"]


def test_another_embedder_is_a_whole_new_generation_and_coming_back_is_free(library):
    library.write({"a.md": TREES})
    library.ingest()
    other = library.ingest(config={"embedder": "hash:2"})
    assert other.incremental is False
    assert other.chunks_embedded == other.store_count
    assert "embedder" in other.rebuilt_because
    assert library.ingest().chunks_embedded == 0


def test_a_store_built_with_another_embedder_refuses_to_compare_vectors(library):
    from rag_mcp.errors import IndexMismatch

    library.write({"a.md": TREES})
    library.ingest()
    base = library.base(embedder="hash:2")
    for mode in ("hybrid", "vector"):
        with pytest.raises(IndexMismatch, match="RAG_MCP_EMBEDDER"):
            library.search("oaks", base=base, mode=mode)
    assert library.search("oaks acorns", base=base, mode="fts").results


def test_excluding_prunes_and_including_brings_back(library):
    library.write(
        {"keep.md": TREES, "git notes/x.md": "# X\n\nExcluded words.\n", "git notes more/y.md": "# Y\n\nStays.\n"}
    )
    library.ingest()
    library.ingest(exclude=("git notes",))
    assert {chunk["source"] for chunk in library.dump().values()} == {"keep.md", "git notes more/y.md"}
    assert library.ingest().chunks_embedded == 0
    assert "Excluded words." in texts(library)


def test_what_cannot_be_indexed_is_left_out_and_named_once(library):
    library.write({"ok.md": TREES, "nul.md": b"a\x00b", "latin.md": "caf\u00e9".encode("latin-1")})
    summary = library.ingest()
    assert {item.source for item in summary.skipped} == {"nul.md", "latin.md"}
    again = library.ingest()
    assert {item.source for item in again.skipped} == {"nul.md", "latin.md"}
    assert again.published is False
    assert {item.source for item in library.base().status().skipped} == {"nul.md", "latin.md"}


def test_a_file_that_becomes_unusable_loses_its_chunks(library):
    library.write({"a.md": TREES, "b.md": "# Bees\n\nBees make honey.\n"})
    library.ingest()
    library.write({"a.md": b"\xff\xfe\xfa"})
    library.ingest()
    assert {chunk["source"] for chunk in library.dump().values()} == {"b.md"}
    library.write({"a.md": TREES})
    assert library.ingest().chunks_embedded == 0


@pytest.mark.parametrize("front", ["access: none", "access: NONE", "access: everyone"])
def test_front_matter_can_only_narrow_access(library, front):
    library.write({"a.md": f"---\n{front}\n---\n# A\n\nHidden words.\n", "b.md": TREES})
    summary = library.ingest()
    assert [item.source for item in summary.skipped] == ["a.md"]
    assert "Hidden words" not in texts(library)


def test_an_empty_blank_or_heading_only_file_is_no_error_and_no_change(library):
    library.write({"empty.md": "", "blank.md": " \n\n", "only.md": "# Decommissioned valves\n", "a.md": TREES})
    summary = library.ingest()
    assert summary.skipped == ()
    assert "Decommissioned valves" in texts(library)
    assert library.ingest().published is False


@pytest.mark.parametrize(
    "text", ["<!-- moved to the wiki -->\n", "%%\nlater\n%%\n", "[//]: # (nothing yet)\n", "---\na: 1\n---\n<!-- x -->"]
)
def test_a_file_of_nothing_but_comments_is_no_error_and_gains_words_later(library, text):
    library.write({"hushed.md": text, "spoken.md": "# Spoken\n\nThe harbour opens at six.\n"})
    assert library.ingest().store_count == 2
    assert [each["text"] for each in library.dump().values() if each["source"] == "hushed.md"] == [""]
    assert library.ingest().published is False
    library.write({"hushed.md": f"{text}\nThe bell rings at noon.\n"})
    assert library.ingest().store_count == 2


def test_bad_corpora_are_named_and_lose_nothing(library, tmp_path):
    library.write({"a.md": TREES})
    library.ingest()
    before = library.dump()
    for bad in (tmp_path / "missing", tmp_path / "corpus" / "a.md"):
        with pytest.raises(CorpusError, match="corpus"):
            run_ingest(library.config(corpus_root=bad), IngestOptions())
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(CorpusError, match="no markdown"):
        run_ingest(library.config(corpus_root=empty, db_path=tmp_path / "other"), IngestOptions())
    assert library.dump() == before


def test_a_corpus_that_is_suddenly_nearly_empty_is_refused_unless_meant(library):
    library.write({f"n{number}.md": f"# Note {number}\n\nBody {number}.\n" for number in range(20)})
    library.ingest()
    before = library.dump()
    for number in range(20):
        (library.corpus / f"n{number}.md").unlink()
    library.write({"left.md": "# Left\n\nOne file is left.\n"})
    for options in ({}, {"full": True}, {"clean": True}, {"config": {"embedder": "hash:2"}}):
        with pytest.raises(CorpusShrunk, match="--allow-shrink"):
            library.ingest(**options)
    library.remove("left.md")
    assert library.dump() == before
    library.ingest(allow_shrink=True)
    assert library.dump() == {}
    published = library.ingest().generation  # what was emptied on purpose does not fail at every later run
    assert library.ingest(full=True).store_count == 0 and published is not None


@pytest.mark.parametrize(
    ("known", "left", "refused"),
    [(1, 0, True), (2, 0, True), (3, 0, True), (4, 0, True), (5, 1, True), (10, 1, True), (30, 3, True),
     (1, 1, False), (2, 1, False), (4, 1, False), (5, 2, False), (20, 3, False), (0, 1, False)],
)  # fmt: skip
def test_an_emptied_or_nearly_emptied_corpus_of_any_size_is_refused(known, left, refused):
    check_shrink(known, left, allow=True)
    if refused:
        with pytest.raises(CorpusShrunk, match="corpus folder vault holds.*--allow-shrink"):
            check_shrink(known, left, allow=False, root="vault")
    else:
        check_shrink(known, left, allow=False)


@pytest.mark.parametrize("known", [True, False])
def test_a_file_that_is_being_written_waits_for_the_next_run(library, monkeypatch, known):
    library.write({"a.md": TREES, **({"b.md": "# B\n\nWhole.\n"} if known else {})})
    library.ingest()
    library.write({"b.md": "# B\n\nHalf"})
    real = content.read_file

    def read_file(root, file, **options):
        raw = real(root, file, **options)
        if file.path == "b.md":
            with open(root / "b.md", "ab") as stream:  # its writer goes on after we have read
                stream.write(b" and more.\n")
        return raw

    monkeypatch.setattr(content, "read_file", read_file)
    summary = library.ingest()
    assert [(item.source, item.reason) for item in summary.skipped] == [
        ("b.md", "being written; the next run reads it. Kept as last indexed, if it was.")
    ]
    assert summary.files_unreadable == 1
    assert {record["text"] for record in library.dump().values() if record["source"] == "b.md"} == (
        {"# B\n\nWhole."} if known else set()
    )
    monkeypatch.setattr(content, "read_file", real)
    assert library.ingest().skipped == ()
    assert {r["text"] for r in library.dump().values() if r["source"] == "b.md"} == {"# B\n\nHalf and more."}


def test_doctor_names_what_differs_only_in_case_or_unicode_form(library):
    from rag_mcp.maintenance import examine

    def names():
        return next(finding for finding in examine(library.config()) if finding.what == "names")

    library.write({"Notes/a.md": TREES, "b.md": TREES, "caf\u00e9.md": TREES})
    library.ingest()
    assert names().ok
    library.write({"notes/a.md": TREES, "B.md": TREES, "cafe\u0301.md": TREES})
    if len(list(library.corpus.rglob("*.md"))) < 6:
        pytest.skip("this file system folds names")
    assert not names().ok
    told = names().detail
    assert "'B.md' and 'b.md'; 'Notes' and 'notes'; 'cafe\\u0301.md' and 'caf\\xe9.md'" in told
    assert "a.md'" not in told


def snapshots(days, *, lamp="green"):
    forms = ("{0:%Y-%m-%d}", "{0.day} {0:%B} {0.year}", "{0:%B} {0.day}, {0.year}", "{0:%d/%m/%Y}", "{0:%d.%m.%Y}")
    found = {}
    for number in days:
        day = date(2031, 3, 1) + timedelta(days=number)
        title = forms[number % len(forms)].format(day)
        found[f"log/ferry-{day}.md"] = (
            f"---\ndate: {day}\n---\n# Ferry log {title}\n\n## Lamp\n\nThe lamp is {lamp}.\n\n## Crew\n\nThe crew is nine.\n"
        )
    return found


def test_a_series_that_differs_by_its_own_dates_alone_is_stored_once(library):
    library.write(snapshots(range(12)))
    library.ingest()
    chunks = library.dump().values()
    assert {len(chunk["valid_on"]) for chunk in chunks} == {12}
    assert {chunk["source"] for chunk in chunks} == {"log/ferry-2031-03-01.md"}


@pytest.mark.parametrize(
    ("change", "read"),
    [
        (lambda library: library.write(snapshots([40])), {40, 39}),
        (lambda library: library.write(snapshots([17], lamp="amber")), {16, 17, 18}),
        (lambda library: library.remove(*snapshots([20])), {19, 21}),
        (lambda library: library.remove(*snapshots([0])), {1}),
        (lambda library: library.remove(*snapshots([39])), set()),
        (lambda library: library.write({"other.md": TREES}), set()),
    ],
    ids=["one more", "one edited", "one gone", "the first gone", "the last gone", "another file"],
)
def test_a_change_in_a_series_reads_only_the_neighbours_and_gives_what_a_fresh_build_gives(
    library, tmp_path, monkeypatch, change, read
):
    library.write(snapshots(range(40)))
    library.ingest()
    real, opened = content.read_file, []

    def read_file(root, file, **options):
        opened.append(file.path)
        return real(root, file, **options)

    change(library)
    monkeypatch.setattr(content, "read_file", read_file)
    monkeypatch.setattr(statcache.StatCache, "known", lambda cache, path, status: dict(cache.entries).get(path, [None] * 2)[1]
                        if cache.entries.get(path, [None])[0] == status else None)  # fmt: skip
    library.ingest()
    assert {path for path in opened if path.startswith("log/")} == set(snapshots(read))
    assert library.dump() == library.fresh(tmp_path / "fresh")


def test_the_only_file_of_a_corpus_may_be_renamed_and_may_not_vanish(library):
    library.write({"a.md": TREES})
    library.ingest()
    (library.corpus / "a.md").rename(library.corpus / "b.md")
    assert library.ingest().chunks_embedded == 0
    assert {record["source"] for record in library.dump().values()} == {"b.md"}
    library.remove("b.md")
    with pytest.raises(CorpusShrunk, match="--allow-shrink"):
        library.ingest()
    assert library.dump()
    library.ingest(allow_shrink=True)
    assert library.dump() == {}


def test_an_ignore_file_at_the_root_that_is_not_understood_leaves_the_store_as_it_was(library):
    library.write({"a.md": TREES})
    library.ingest()
    library.write({".ragignore": "private/\n".encode("utf-16")[:-1], "b.md": TREES, "private/c.md": TREES})
    with pytest.raises(CorpusError, match=r"\.ragignore: .*save it as UTF-8"):
        library.ingest()
    assert set(library.manifest().files) == {"a.md"}


def test_what_an_ignore_file_withholds_leaves_the_index_and_a_refusal_for_it_names_the_cause(library):
    library.write({"shared/a.md": TREES, "shared/b.md": TREES, "c.md": TREES})
    library.ingest()
    library.write({"shared/.ragignore": "[z-a]\n"})
    summary = library.ingest()
    assert set(library.manifest().files) == {"c.md"}
    assert [item.source for item in summary.skipped] == ["shared/.ragignore"]
    library.write({f"more/{number}.md": TREES for number in range(30)})
    library.ingest()
    library.write({"more/.ragignore": "[z-a]\n"})
    with pytest.raises(CorpusShrunk, match=r"more/\.ragignore: line 1"):
        library.ingest()


def test_a_dry_run_tells_and_writes_nothing(library):
    library.write({"a.md": TREES})
    plan = library.ingest(dry_run=True)
    assert (plan.chunks_added, plan.published, plan.generation) == (4, False, None)
    assert library.generations.numbers() == []
    assert not (library.store_path / "embeddings.sqlite").exists()


def test_a_second_run_at_once_gives_up_and_says_who_has_the_lock(library):
    library.write({"a.md": TREES})
    library.ingest()
    with library.generations.writer_lock():
        with pytest.raises(StoreLocked):
            library.ingest()
        done = forked_cli("ingest", library.corpus, "--db", library.store_path)
        assert done.returncode == 3
        assert "Another ingest" in done.stderr
    assert library.ingest().published is False


def test_a_store_of_a_newer_format_is_not_touched(library):
    library.write({"a.md": TREES})
    library.ingest()
    write_json(library.generations.path(1) / "generation.json", {"format": 99})
    with pytest.raises(StoreTooNew):
        library.ingest()
    assert library.generations.numbers() == [1]


def test_more_rows_than_the_stores_take_at_once(library):
    says = "What a part says is long enough for a passage of its own, as it is in a file that people wrote. " * 2
    sections = "".join(f"## Part {number}\n\nBL{number:05d} stands here. {says}\n\n" for number in range(6_000))
    library.write({"big.md": f"# Big\n\n{sections}", "small.md": "# Small\n\nStays here.\n"})
    summary = library.ingest()
    assert summary.store_count > 6_000
    assert library.sources("BL05999", mode="fts")[0] == "big.md"
    library.remove("big.md")
    library.ingest()
    assert {chunk["source"] for chunk in library.dump().values()} == {"small.md"}


def test_passages_that_differ_by_a_number_only_are_no_damage(library):
    """HNSW leaves some of such vectors without a way to them, in any order and with any thread count."""
    sections = "".join(f"## Part {number}\n\nLong part {number}.\n\n" for number in range(400))
    library.write({"big.md": f"# Big\n\n{sections}"})
    assert library.ingest().published
    assert library.ingest(full=True).published


def test_steps_come_in_their_order(library):
    library.write({"a.md": TREES})
    seen = []
    run_ingest(library.config(), IngestOptions(), on_step=seen.append)
    assert list(dict.fromkeys(seen)) == list(Step)


def test_the_command_line_gives_the_summary_as_json(library):
    library.write({"a.md": TREES})
    summary = cli_json("ingest", library.corpus, "--db", library.store_path)
    wanted = (
        "files_seen files_ingested files_unchanged files_skipped chunks_added chunks_deleted chunks_deduped "
        "chunks_embedded incremental store_count generation skipped elapsed_s"
    )
    assert set(wanted.split()) <= set(summary)
    line = forked_cli("ingest", library.corpus, "--db", library.store_path, "--quiet")
    assert line.stdout.count("\n") == 1
    assert line.stderr == ""


def test_strict_fails_when_anything_was_left_out(library):
    library.write({"a.md": TREES, "nul.md": b"\x00"})
    assert forked_cli("ingest", library.corpus, "--db", library.store_path, "--strict").returncode == 4
    assert forked_cli("ingest", library.corpus, "--db", library.store_path).returncode == 0


def test_a_bare_chroma_store_of_another_program_is_not_touched(tmp_path):
    import chromadb

    old = tmp_path / "store"
    client = chromadb.PersistentClient(str(old), settings=chromadb.config.Settings(anonymized_telemetry=False))
    collection = client.create_collection("corpus", embedding_function=None)
    metadata = {"source": "a.md", "heading": "Trees", "chunk_index": 0}
    collection.add(ids=["a.md#0"], embeddings=[[0.1] * 8], documents=["Intro"], metadatas=[metadata])
    client.close()
    (old / "ingest-manifest.json").write_text("{}", encoding="utf-8")
    before = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    with Library(tmp_path / "corpus", old) as library:
        library.write({"a.md": TREES})
        library.ingest()
        assert library.sources("oaks acorns")[:1] == ["a.md"]
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == before
    assert (tmp_path / "store.rag_mcp" / "CURRENT").exists()


def test_going_back_and_forth_between_two_states_is_paid_once(library):
    library.write({"a.md": TREES})
    library.ingest()
    for count in range(6):
        library.write(
            {"a.md": TREES.replace("acorns", "cones" if count % 2 == 0 else "acorns"), "n.md": f"Round {count}.\n"}
        )
        assert library.ingest().chunks_embedded <= (2 if count == 0 else 1)


def test_the_cache_stays_in_proportion_and_clean_empties_it_of_the_unused(library, monkeypatch):
    from rag_mcp.embedders.hash import hash_identity
    from rag_mcp.stores.embedded.cache import EmbeddingCache

    monkeypatch.setattr("rag_mcp.ingest.collect._CACHE_SLACK", 2)

    def cached() -> int:
        cache = EmbeddingCache(library.store_path / "embeddings.sqlite", hash_identity("").fingerprint)
        try:
            return cache.count()
        finally:
            cache.close()

    for count in range(12):
        library.write({"a.md": f"# A\n\nState {count}.\n", "b.md": "# B\n\nStays.\n"})
        library.ingest()
        assert cached() <= 3 * 1.5 + 2 + 1
    library.ingest(clean=True)
    assert cached() == 2


@pytest.fixture
def closed(monkeypatch):
    """Folders that can't be looked into: what the walk of an unprivileged user reports for them."""
    from dataclasses import replace

    from rag_mcp.ingest import run as pipeline

    folders: set[str] = set()
    original = pipeline.walk_corpus

    def walk(root, **options):
        listing = original(root, **options)
        files = tuple(file for file in listing.files if file.path.split("/")[0] not in folders)
        return replace(listing, files=files, unreadable=tuple(sorted(folders)))

    monkeypatch.setattr(pipeline, "walk_corpus", walk)
    return folders


def test_unreadable_is_not_deleted(library, tmp_path, closed):
    library.write(
        {
            "open/a.md": TREES,
            "closed/b.md": "# Mill\n\nThe mill wheel has paddles.\n",
            "closed/deep/c.md": "# C\n\nDeep.\n",
        }
    )
    library.ingest()
    closed.add("closed")
    library.write({"open/d.md": "# Door\n\nThe mill door is green.\n"})
    summary = library.ingest()
    assert [item.source for item in summary.skipped] == ["closed"]
    assert summary.files_deleted == 0
    assert library.sources("mill wheel paddles")[0] == "closed/b.md"
    assert library.sources("mill door green")[0] == "open/d.md"
    closed.clear()
    library.write({"closed/b.md": "# Mill\n\nThe mill wheel has buckets.\n"})
    library.ingest()
    assert "buckets" in texts(library)
    assert library.dump() == library.fresh(tmp_path / "fresh")
    library.remove("closed/b.md", "closed/deep/c.md")
    assert library.ingest().files_deleted == 2


def test_a_series_with_an_unreadable_member_keeps_what_it_said(library, closed):
    day = "# Log\n\n## Lamp\n\nThe lamp is {}.\n\n## Tide\n\nTide of day {}.\n"
    library.write(
        {f"{folder}/x-2031-03-0{n}.md": day.format("green", n) for n, folder in ((1, "log"), (2, "log"), (3, "log"))}
    )
    library.ingest()
    assert library.ingest(full=True).chunks_deduped > 0
    library.remove("log/x-2031-03-01.md")
    closed.add("log")
    library.write({"other.md": TREES})
    library.ingest()
    assert "Tide of day 1." in texts(library)
    closed.clear()
    library.ingest()
    assert "Tide of day 1." not in texts(library)
    assert "The lamp is green." in texts(library)


def test_snapshots_share_what_they_repeat_and_say_so(library, tmp_path):
    state = ("green", "green", "amber", "green", "green", "green")
    for number, colour in enumerate(state, start=1):
        library.write(
            {
                f"ferry/ferry-log-2031-03-0{number}.md": f"# Ferry log\n\n## Lamp\n\nEngine lamp is {colour}.\n\n## Tide\n\nTide on day {number}.\n"
            }
        )
        library.write({f"tram/tram-log-2031-03-0{number}.md": "# Tram log\n\n## Lamp\n\nEngine lamp is green.\n"})
    library.ingest()
    lamps = sorted(
        (chunk["source"], chunk["valid_on"]) for chunk in library.dump().values() if "Engine lamp" in chunk["text"]
    )
    dates = [f"2031-03-0{number}" for number in range(1, 7)]
    assert lamps == [
        ("ferry/ferry-log-2031-03-01.md", tuple(dates[:2])),
        ("ferry/ferry-log-2031-03-03.md", (dates[2],)),
        ("ferry/ferry-log-2031-03-04.md", tuple(dates[3:])),
        ("tram/tram-log-2031-03-01.md", tuple(dates)),
    ]
    found = library.search("engine lamp", k=10).results
    assert len([result for result in found if "lamp" in (result.text or "")]) == 4
    amber = library.search("engine lamp amber", k=1).results[0].citation
    assert (amber.snapshot_date, amber.also_unchanged_on, amber.snapshots_covered) == (dates[2], (), 1)
    as_of = library.search("engine lamp ferry", as_of="2031-03-05", k=10).results
    cited = next(
        r.citation for r in as_of if r.citation.source.startswith("ferry") and "lamp is green" in (r.text or "")
    )
    assert cited.source == "ferry/ferry-log-2031-03-05.md"
    library.remove("ferry/ferry-log-2031-03-04.md")
    library.ingest()
    assert library.dump() == library.fresh(tmp_path / "fresh")
    assert library.ingest(snapshot_dedupe=False).chunks_deduped == 0
    copies = [chunk for chunk in library.dump().values() if "Engine lamp" in chunk["text"]]
    assert len(copies) == 11
    assert library.ingest().chunks_embedded == 0


def test_a_document_class_is_back_filled_without_embedding(library):
    library.write(
        {
            "context/handoff.md": "# Session\n\nLeft off here.\n",
            "mirror/today.md": "# Today\n\nLeft off there.\n",
            "a.md": TREES,
        }
    )
    library.ingest()
    assert {r.citation.source for r in library.search("left off", doc_class="handoff").results} == {
        "context/handoff.md"
    }
    summary = library.ingest(handoff_dirs=("mirror",), handoff_basenames=("today.md",))
    assert (summary.chunks_embedded, summary.chunks_added, summary.chunks_updated) == (0, 0, 2)
    assert {r.citation.source for r in library.search("left off", doc_class="handoff").results} >= {"mirror/today.md"}


def test_a_changed_policy_moves_classes_without_embedding(library, tmp_path):
    policy = tmp_path / "policy.yaml"
    library.settings["policy_path"] = policy
    policy.write_text("rules: []\n", encoding="utf-8")
    library.write({"plans/x.md": "# Plan\n\nThe plan is secret.\n", "a.md": TREES})
    library.ingest()
    policy.write_text("rules:\n  - path: plans/\n    class: memory\n", encoding="utf-8")
    summary = library.ingest()
    assert summary.chunks_embedded == 0
    assert {chunk["source_class"] for chunk in library.dump().values()} == {"docs", "memory"}
    assert "plans/x.md" not in library.sources("secret plan")


def test_a_rename_does_not_even_load_the_model(library):
    library.write({"a.md": TREES})
    real = {"embedder": "minilm-int8"}
    library.ingest(config=real)
    (library.corpus / "a.md").rename(library.corpus / "b.md")
    code = f"""
        import sys
        from pathlib import Path
        from rag_mcp.config import Config
        from rag_mcp.knowledge import KnowledgeBase
        config = Config.load({{}}, corpus_root=Path({str(library.corpus)!r}), db_path=Path({str(library.store_path)!r}))
        summary = KnowledgeBase.open(config).ingest()
        assert (summary.published, summary.chunks_embedded) == (True, 0), summary
        assert "onnxruntime" not in sys.modules
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_torn_head_withholds_where_it_names_access_and_else_is_told(library):
    library.write(
        {
            "secret.md": "---\ntitle: Otter: den\naccess: none\n---\n\nThe otter sleeps in the weir.\n",
            "listed.md": "---\naccess: [none]\n---\n\nThe stoat sleeps in the wall.\n",
            "open.md": "---\ntitle: Heron: nest\nstatus: draft\n---\n\nThe heron nests in the alder.\n",
        }
    )
    summary = library.ingest()
    assert {item.source: item.reason for item in summary.skipped} == {
        "secret.md": "front matter names access and was not read: a value with a colon needs quotes, line 2",
        "listed.md": "front matter has an unknown access value; only 'none' is known, so the file is left out",
    }
    assert [(notice.source, notice.text) for notice in summary.notices] == [
        ("open.md", "the head was not read: a value with a colon needs quotes, line 2")
    ]
    (chunk,) = library.dump().values()
    assert (chunk["text"], chunk["title"], list(chunk["heading_path"])) == (
        "The heron nests in the alder.",
        "Heron: nest",
        [],
    )


def test_comments_are_neither_found_nor_quoted_and_lines_stay(library):
    library.write(
        {
            "pond.md": "# Pond\n\nThe pond <!-- is leased -->is deep.\n\n<!--\nThe gander bites the\npostman.\n-->\n\n"
            "Reeds grow there.\n\n```html\n<!-- a lesson on newts -->\n```\n",
        }
    )
    library.ingest()
    (chunk,) = library.dump().values()
    assert "gander" not in chunk["text"]
    assert "leased" not in chunk["text"]
    assert chunk["text"].split("\n")[9] == "Reeds grow there."
    assert "a lesson on newts" in chunk["text"]
    assert chunk["text"].count("[comment not shown]") == 2
