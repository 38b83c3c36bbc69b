"""What is the Postgres store's own: its segments, what it keeps and drops, its answers beside the embedded store's."""

from __future__ import annotations

import pytest
from shelves import EMBEDDER, PostgresShelf, passage

from rag_mcp.models import SourceClass

psycopg = pytest.importorskip("psycopg")

DOCS = SourceClass.DOCS


@pytest.fixture
def shelf(database):
    made = PostgresShelf(database)
    yield made
    made.close()


def count(shelf, table) -> int:
    with psycopg.connect(shelf.dsn, options=f"-c search_path={shelf.schema}") as connection:
        return connection.execute(f"select count(*) from {table}").fetchone()[0]


def test_segments_are_merged_and_what_is_gone_leaves_them(shelf):
    texts = [passage(f"p{n}", f"kiln number {n} " + "fired " * (n % 5)) for n in range(30)]
    for upto in range(2, 31, 2):
        shelf.publish(*texts[: upto - 2 : 1], *texts[upto - 2 : upto])
    shelf.publish(*texts[5:])
    with shelf.opened() as (_, keywords, _):
        grown = {hit.id for hit in keywords.search("fired kiln", (DOCS,), 40)}
    shelf.publish(*texts[5:], anew=True)
    with shelf.opened() as (_, keywords, vectors):
        hits = keywords.search("fired kiln", (DOCS,), 40)
        assert {hit.id for hit in hits} == grown == {f"p{n}" for n in range(5, 30)}
        assert len(vectors.query(DOCS, EMBEDDER.embed_query("kiln"), 40)) == 25


def test_what_no_kept_generation_has_is_dropped(shelf):
    first = shelf.publish(*(passage(f"p{n}", f"kiln {n}") for n in range(6)))
    second = shelf.publish(*(passage(f"p{n}", f"kiln {n}") for n in range(1, 6)))
    third = shelf.publish(
        passage("p1", "kiln 1", title="changed"), *(passage(f"p{n}", f"kiln {n}") for n in range(2, 6))
    )
    with shelf.store.writing() as connection:
        assert shelf.store.collect(connection) == [first]
        assert shelf.store.numbers() == [second, third]
        assert (count(shelf, "chunk"), count(shelf, "embedding")) == (6, 5)
        fourth = shelf.publish_with(connection, *(passage(f"p{n}", f"kiln {n}") for n in range(1, 6)), anew=True)
        assert shelf.store.collect(connection, keep=1) == [second, third]
    assert shelf.store.numbers() == [fourth]
    assert (count(shelf, "chunk"), count(shelf, "embedding"), count(shelf, "gone")) == (5, 5, 0)
    assert count(shelf, "pg_indexes where schemaname = current_schema() and indexname ~ '_docs_[0-9]+$'") == 1
    with shelf.opened() as (_, keywords, vectors):
        assert len(keywords.search("kiln", (DOCS,), 9)) == 5
        assert len(vectors.query(DOCS, EMBEDDER.embed_query("kiln 3"), 9)) == 5
