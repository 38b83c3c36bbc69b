"""An ingest into Postgres: the same run over another workplace."""

from __future__ import annotations

import threading
from contextlib import closing
from urllib.parse import urlsplit, urlunsplit

import pytest
from postgres_server import new_database
from shelves import EMBEDDER
from support import Library

from rag_mcp.access.policy import Policy
from rag_mcp.config import Config
from rag_mcp.errors import CorpusError, StoreAbsent, StoreError, StoreLocked
from rag_mcp.ingest.options import IngestOptions, Step
from rag_mcp.ingest.run import run_ingest
from rag_mcp.models import SourceClass
from rag_mcp.requests import DocumentRequest, ListRequest, SearchRequest
from rag_mcp.stores.postgres.place import held_workplace, store_of
from rag_mcp.stores.postgres.roles import grant_roles, role_of
from rag_mcp.stores.postgres.store import make_store

psycopg = pytest.importorskip("psycopg")

FILES = {
    "kiln.md": "# Kiln\n\nThe kiln is fired at dusk.\n",
    "decisions/glaze.md": "# Glaze\n\nWe decided on teal.\n",
    "memory/day.md": "# Day\n\nA private word: bergamot.\n",
    "stock-2026-01-01.md": "# Stock\n\nNine crates.\n",
    "stock-2026-02-01.md": "# Stock\n\nFour crates.\n",
}


@pytest.fixture
def library(server, tmp_path):
    dsn = new_database(server)
    make_store(dsn, "rag_mcp")
    with Library(tmp_path / "corpus", tmp_path / "own", database=dsn) as found:
        found.write(FILES)
        yield found


def records(library, number=None):
    """{id: (record)} of the live generation, once from each side."""
    with closing(store_of(library.config())) as store:
        snapshot = store.open(number)
        every = {each: ids for each, ids in snapshot.manifest().ids().items()}
        found = {i: c for each, ids in every.items() for i, c in snapshot.records(each, ids).items()}
        assert set(found) == set().union(*every.values())
        return found


def test_an_incremental_run_gives_what_a_first_run_gives(library, tmp_path):
    first = library.ingest()
    assert (first.published, first.chunks_added, first.files_ingested) == (True, len(records(library)), 5)
    again = library.ingest()
    assert (again.published, again.files_unchanged) == (False, 5)
    library.write({"kiln.md": "# Kiln\n\nA new line.\n\nThe kiln is fired at dusk.\n", "more.md": "# More\n\nMore.\n"})
    library.remove("decisions/glaze.md")
    third = library.ingest()
    assert third.published and third.incremental and third.chunks_embedded <= 3
    assert {i: c.text for i, c in records(library).items()} == {
        i: record["text"] for i, record in Library(library.corpus, tmp_path / "f").fresh(tmp_path / "fresh").items()
    }


def test_what_an_embedded_run_reports_is_reported(library, tmp_path):
    with Library(library.corpus, tmp_path / "embedded") as embedded:
        theirs, ours = embedded.ingest(), library.ingest()
        for name in ("files_seen", "files_ingested", "chunks_added", "store_count", "generation", "skipped", "notices"):
            assert getattr(ours, name) == getattr(theirs, name), name


class Killed(Exception):
    pass


@pytest.mark.parametrize("step", [step for step in Step if step is not Step.COLLECTED], ids=lambda step: step.value)
def test_a_run_that_ends_anywhere_leaves_the_state_before_or_the_next(library, step):
    library.ingest()
    before = records(library)
    library.write({"kiln.md": "# Kiln\n\nAnother text.\n"})

    def end(at):
        if at is step:
            raise Killed

    with pytest.raises(Killed):
        run_ingest(library.config(), IngestOptions(), on_step=end)
    published = step is Step.PUBLISHED
    assert (records(library) == before) != published
    assert library.ingest().published != published
    assert any("Another text" in chunk.text for chunk in records(library).values())


def test_two_writers_and_another_corpus_are_refused(library, tmp_path):
    library.ingest()
    with held_workplace(library.config()), pytest.raises(StoreLocked):
        library.ingest()
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / "a.md").write_text("# A\n\nAnother corpus.\n")
    with pytest.raises(CorpusError, match="was made from"):
        library.ingest(config={"corpus_root": other, "db_path": tmp_path / "own2"})


def test_clean_leaves_one_generation_and_nothing_of_the_others(library):
    library.ingest()
    library.write({"kiln.md": "# Kiln\n\nErased: verbena.\n"})
    library.ingest()
    library.remove("kiln.md")
    library.ingest(clean=True)
    with closing(store_of(library.config())) as store:
        assert len(store.numbers()) == 1
        held = store.database.rows("select payload from chunk")
        assert held and "verbena" not in str(held)
        assert not store.database.rows("select 1 from post where term = 'verbena'")


def test_the_address_shows_in_no_word_of_a_configuration():
    config = Config.load({}, database="postgresql://me:hush@host/db")
    assert "hush" not in repr(config)


def test_another_embedder_builds_anew_and_mixes_nothing(library):
    library.ingest()
    summary = library.ingest(config={"embedder": "hash:other"})
    assert summary.rebuilt_because and summary.published
    with closing(store_of(library.config())) as store:
        builds = store.database.rows("select build, count(*) from embedding group by build order by build")
        assert [count for _, count in builds] == [summary.store_count] * 2
        assert len(store.open().open_vectors(needed=()).query(SourceClass.DOCS, EMBEDDER.embed_query("kiln"), 9)) > 0


# --- and what is answered from it


def test_every_tool_answers_from_the_database_as_from_a_folder(library, tmp_path):
    library.write({"README.md": "# Readme\n\nNotes of a small pottery.\n"})
    library.ingest()
    with Library(library.corpus, tmp_path / "embedded") as embedded:
        embedded.ingest()
        ours, theirs = library.base(profile="auditor"), embedded.base(profile="auditor")
        for mode in ("hybrid", "fts", "vector"):
            found, expected = (
                each.search(
                    SearchRequest.parse({"query": "when is the kiln fired", "mode": mode, "confidence": "normal"})
                )
                for each in (ours, theirs)
            )
            assert [r.citation.source for r in found.results] == [r.citation.source for r in expected.results] != []
            assert not found.degraded
        assert library.sources("crates", base=ours, as_of="2026-01-15") == library.sources(
            "crates", base=theirs, as_of="2026-01-15"
        )
        document = DocumentRequest.parse({"source": "kiln.md"})
        assert ours.get_document(document).text == theirs.get_document(document).text
        listed = ListRequest.parse({})
        assert [d.source for d in ours.list_documents(listed).documents] == [
            d.source for d in theirs.list_documents(listed).documents
        ]
        assert ours.list_sources() == theirs.list_sources()
        assert ours.about() == theirs.about()
        status = ours.status()
        assert (status.ok, status.generation, status.inventory) == (True, 1, theirs.status().inventory)
        assert status.integrity["last_checked_at"] is not None


def test_the_next_question_sees_what_was_published(library):
    library.ingest()
    base = library.base()
    assert library.sources("kiln", base=base, mode="fts") == ["kiln.md"]
    library.write({"second.md": "# Second\n\nA second kiln.\n"})
    library.ingest()
    assert set(library.sources("kiln", base=base, mode="fts")) == {"kiln.md", "second.md"}
    assert base.status().generation == 2


def test_readers_never_see_two_generations_in_one_answer(library):
    """Each publication changes both files; an answer that has one of each would be torn."""

    def state(n):
        return {f"{name}.md": f"# {name}\n\nThe common word and state{n}.\n" for name in ("one", "two")}

    library.write(state(0))
    library.ingest()
    base, torn, done = library.base(), [], threading.Event()

    def ask():
        while not done.is_set():
            texts = [r.text for r in library.search("common word", base=base, k=2, mode="fts").results]
            states = {text.rpartition("state")[2].strip(" .\n") for text in texts}
            if len(texts) != 2 or len(states) != 1:
                torn.append(texts)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for n in range(1, 8):
            library.write(state(n))
            library.ingest()
    finally:
        done.set()
        for thread in threads:
            thread.join(30)
    assert torn == []


def test_a_role_with_less_than_its_profile_gives_its_share(library):
    library.ingest()
    with psycopg.connect(library.settings["database"], options="-c search_path=rag_mcp") as owner:
        grant_roles(owner, "rag_mcp", {"restricted": Policy().profiles["restricted"].classes})
    parts = urlsplit(library.settings["database"])
    narrow = urlunsplit(parts._replace(netloc=f"{role_of('rag_mcp', 'restricted')}:@"))
    base = library.base(profile="auditor", database=narrow)
    assert library.sources("bergamot", base=base, mode="fts") == []
    assert library.sources("bergamot", base=library.base(profile="auditor"), mode="fts") == ["memory/day.md"]
    assert base.status().inventory["memory"] == {"files": 0, "chunks": 0}


def test_a_database_without_a_store_or_that_is_not_there_is_told_in_words(library, server):
    empty = library.base(database=new_database(server))
    with pytest.raises(StoreAbsent, match="Nothing has been ingested"):
        library.search("kiln", base=empty)
    assert empty.status().ok is False
    gone = library.base(database="postgresql://nobody:hush@127.0.0.1:9/none")
    with pytest.raises(StoreError) as refused:
        library.search("kiln", base=gone)
    assert "hush" not in str(refused.value) + refused.value.for_operator
