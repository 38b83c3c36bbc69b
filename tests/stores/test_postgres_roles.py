"""What a role of the database can do and learn, asked by sessions of its own with nothing of this program between."""

from __future__ import annotations

import re
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

import pytest
from postgres_server import new_database
from shelves import EMBEDDER, PostgresShelf, passage

from rag_mcp.access.policy import Policy
from rag_mcp.errors import ConfigError
from rag_mcp.models import SourceClass

psycopg = pytest.importorskip("psycopg")
roles = pytest.importorskip("rag_mcp.stores.postgres.roles")

OPEN = (SourceClass.DOCS, SourceClass.DECISIONS, SourceClass.CODE)
HIDDEN = (SourceClass.MEMORY, SourceClass.CONFIG)
PROFILES = {name: rule.classes for name, rule in Policy().profiles.items()}
SECRET = "zanzibarine"


@pytest.fixture(scope="module")
def shelf(server):
    made = PostgresShelf(new_database(server))
    made.publish(*_passages(hidden=7))
    with psycopg.connect(made.dsn, options=f"-c search_path={made.schema}") as connection:
        made.roles = roles.grant_roles(connection, made.schema, PROFILES)
        assert roles.hide_statistics(connection)
    with psycopg.connect(made.dsn, autocommit=True) as connection:
        connection.execute("analyze")
    yield made
    made.close()


def _passages(hidden: int):
    shown = [
        passage(f"{each.value}{n}", f"open {each.value} {n}", source_class=each) for each in OPEN for n in range(4)
    ]
    return [
        *shown,
        *(
            passage(f"{e.value}{n}", f"{SECRET} {n}", source_class=e, source=f"{SECRET}/{e.value}{n}.md")
            for e in HIDDEN
            for n in range(hidden)
        ),
    ]


def dsn_of(shelf, profile):
    parts = urlsplit(shelf.dsn)
    return urlunsplit(parts._replace(netloc=f"{roles.role_of(shelf.schema, profile)}:@"))


@contextmanager
def session(shelf, profile):
    """Without a setting of ours but where the tables are."""
    with psycopg.connect(dsn_of(shelf, profile), options=f"-c search_path={shelf.schema}", autocommit=True) as found:
        yield found


TABLES = [*roles.CLASS_TABLES]


@pytest.mark.parametrize("profile", PROFILES)
def test_a_role_sees_the_rows_of_its_classes_and_no_other(shelf, profile):
    with session(shelf, profile) as connection:
        for table in ("plane", "chunk", "embedding", "segment", "post", "file"):
            seen = {name for (name,) in connection.execute(f"select distinct class from {table}")}
            assert seen == {each.value for each in PROFILES[profile]}, table
        counted = connection.execute("select count(*) from chunk").fetchone()[0]
        assert counted == sum(4 if each in OPEN else 7 for each in PROFILES[profile])


@pytest.mark.parametrize("profile", PROFILES)
def test_no_role_can_write_whatever_it_sets(shelf, profile):
    attempts = [
        *(f"delete from {table}" for table in TABLES),
        *(f"insert into {table} select * from {table} limit 1" for table in TABLES),
        "update live set number = 1",
        "insert into generation select number + 9, parent, build, created_at, identity, derivation, notes from generation",
        "truncate post",
        "create table mine (x int)",
        "alter table chunk disable row level security",
        "drop schema public cascade",
    ]
    with session(shelf, profile) as connection:
        connection.execute("set default_transaction_read_only = off")
        for attempt in attempts:
            with pytest.raises(psycopg.Error) as refused:
                connection.execute(attempt)
            assert refused.value.sqlstate == "42501", attempt  # insufficient privilege


def test_what_is_hidden_shows_in_no_row_plan_or_count_of_the_catalogue(shelf):
    """The same session before and after the hidden classes have grown tenfold: byte for byte what it was."""
    asked = [
        *(f"select * from {table} order by 1, 2, 3" for table in ("plane", "segment", "gone", "file")),
        "select class, no, id, payload, words from chunk order by 1, 2",
        "select class, term, data from post order by 1, 2",
        *(f"explain (costs on) select * from {table}" for table in TABLES),
        *(f"explain (costs on) select count(*) from {table} where class = 'memory'" for table in TABLES),
        "select relname from pg_class where relname ~ '^(chunk|post|file)' order by 1",
        "select tablename, attname, most_common_vals::text, n_distinct from pg_stats where schemaname = current_schema() and tablename not in ('generation', 'live') order by 1, 2",
    ]  # fmt: skip

    def told():
        with session(shelf, "restricted") as connection:
            return [connection.execute(query).fetchall() for query in asked]

    before = told()
    assert SECRET not in str(before)
    with shelf.store.writing() as connection:
        shelf.publish_with(connection, *_passages(hidden=70))
    with psycopg.connect(shelf.dsn, autocommit=True) as connection:
        connection.execute("analyze")
    after = told()
    # The new generation is no secret; what it holds of the open classes is what was there.
    changed = [query for query, one, other in zip(asked, before, after, strict=True) if one != other]
    assert set(changed) <= {asked[0], *(query for query in asked if "select * from plane" in query)}


@pytest.mark.parametrize(
    "question",
    [
        "select reltuples from pg_class limit 1",
        "select relpages from pg_class limit 1",
        "select * from pg_class limit 1",
        "select * from chunk_memory",
        "select count(*) from post_config",
        "select * from rejected",
        "select pg_relation_size('chunk_memory')",
        "select pg_total_relation_size('post_memory')",
        "select pg_stat_get_live_tuples('chunk_memory'::regclass)",
        "select n_live_tup from pg_stat_all_tables",
        "select tup_inserted from pg_stat_database",
        "select pg_database_size(current_database())",
        "select * from pg_statistic",
    ],
)
def test_a_role_is_refused_what_would_tell_of_other_classes(shelf, question):
    with session(shelf, "restricted") as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(question)


def test_a_role_that_another_asks_for_is_not_given(shelf):
    with session(shelf, "restricted") as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(f"set role {roles.role_of(shelf.schema, 'auditor')}")


def test_the_reader_answers_as_each_role_from_its_own_share(shelf):
    from rag_mcp.stores.postgres.store import PostgresStore

    for profile, classes in PROFILES.items():
        store = PostgresStore(dsn_of(shelf, profile), shelf.schema)
        try:
            snapshot = store.open()
            keywords = snapshot.open_keywords(needed=tuple(SourceClass))
            vectors = snapshot.open_vectors(needed=tuple(SourceClass))
            every = tuple(SourceClass)
            seen = SourceClass.MEMORY in classes
            assert bool(keywords.search(SECRET, every, 5)) == seen
            assert keywords.bm25_bound(SECRET, every) > 0 or not seen
            assert bool(vectors.query(SourceClass.MEMORY, EMBEDDER.embed_query(SECRET), 5)) == seen
            assert len(keywords.search("open docs", every, 20)) == 4 * len(set(OPEN) & classes)
            assert set(snapshot.info.counts) == {each.value for each in classes}
            assert {entry.source_class for entry in snapshot.manifest().files.values()} == set(classes)
            assert (SECRET in str(dict(snapshot.manifest().files))) == bool(set(HIDDEN) & classes)
        finally:
            store.close()


def test_a_profile_that_is_narrowed_or_gone_loses_what_it_had(server):
    shelf = PostgresShelf(new_database(server))
    shelf.publish(*_passages(hidden=2))
    with psycopg.connect(shelf.dsn, options=f"-c search_path={shelf.schema}", autocommit=True) as owner:
        roles.grant_roles(owner, shelf.schema, {"reader": HIDDEN, "other": OPEN})
        roles.grant_roles(owner, shelf.schema, {"reader": ()})
        with session(shelf, "reader") as connection:
            assert connection.execute("select count(*) from chunk").fetchone() == (0,)
        with session(shelf, "other") as connection, pytest.raises(psycopg.Error):
            connection.execute("select count(*) from chunk")
    shelf.close()


def test_two_profiles_have_no_role_in_common():
    with pytest.raises(ConfigError, match="Two profiles"):
        roles.roles_of("rag_mcp", {"a-b": OPEN, "a_b": HIDDEN})
    with pytest.raises(ConfigError, match="can't have a role"):
        roles.role_of("rag_mcp", 'x"; drop')


def test_the_name_of_a_role_is_one_word():
    assert re.fullmatch(r"\w+", roles.role_of("rag_mcp", "on-call"))
