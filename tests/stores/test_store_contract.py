"""One contract, both stores: whatever search and ingest ask of a store, each gives it."""

from __future__ import annotations

import pytest
from shelves import EMBEDDER, passage

from rag_mcp.errors import StoreDamaged, StoreError, StoreLocked
from rag_mcp.models import DocClass, SourceClass
from rag_mcp.stores.base import PassageFilter

DOCS, DECISIONS, MEMORY = SourceClass.DOCS, SourceClass.DECISIONS, SourceClass.MEMORY

KILN = passage("kiln", "The kiln is fired at dusk, and the tunnel kiln on Mondays.", title="Kiln hours")
GLAZE = passage("glaze", "A teal glaze needs copper; the kiln decides the rest.", project="pots", tags=("copper",))
ORDER = passage("order", "Ticket KLN-4471: the damper of the tunnel kiln sticks.", doc_class=DocClass.HANDOFF)
VERDICT = passage("verdict", "We decided on copper for the roof.", source_class=DECISIONS)
FIRST = passage("first", "Stock: nine crates.", series="docs:stock", valid_on=("2026-01-01",), date="2026-01-01")
SECOND = passage("second", "Stock: four crates.", series="docs:stock", valid_on=("2026-02-01",), date="2026-02-01")
ALL = (KILN, GLAZE, ORDER, VERDICT, FIRST, SECOND)
LONE = passage("lone", "An odd name\ud800 and a \x00 sign.")


def found(keywords, text, classes=(DOCS,), limit=10, **options):
    return [hit.id for hit in keywords.search(text, classes, limit, **options)]


# --- words


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("glaze", ["glaze"]),
        ("kln-4471", ["order"]),
        ("KLN4471", ["order"]),
        ('"tunnel kiln"', ["kiln", "order", "glaze"]),
        ("copp*", ["glaze"]),
        ("dampr", ["order"]),
        ("nothing-here-of-it", []),
        ("", []),
    ],
)
def test_words_find_their_passages(shelf, text, ids):
    shelf.publish(*ALL)
    with shelf.opened() as (_, keywords, _):
        assert set(found(keywords, text)) == set(ids)
        assert found(keywords, text)[:1] == ids[:1]


def test_only_the_classes_asked_are_looked_at_and_counted(shelf):
    shelf.publish(*ALL)
    with shelf.opened() as (_, keywords, _):
        assert found(keywords, "copper") == ["glaze"]
        assert set(found(keywords, "copper", (DOCS, DECISIONS))) == {"glaze", "verdict"}
        assert found(keywords, "copper", (MEMORY,)) == []
        assert (keywords.size((DOCS,)), keywords.size((DECISIONS,)), keywords.size((MEMORY,))) == (5, 1, 0)
        assert keywords.fetch((DECISIONS,), ["kiln", "verdict"]) == {"verdict": VERDICT}


def test_another_class_moves_no_score(shelf):
    shelf.publish(*ALL)
    with shelf.opened() as (_, keywords, _):
        alone = keywords.search("copper kiln", (DOCS,), 10), keywords.bm25_bound("copper kiln", (DOCS,))
    shelf.publish(*ALL, *(passage(f"m{n}", f"copper copper kiln {n}", source_class=MEMORY) for n in range(20)))
    with shelf.opened() as (_, keywords, _):
        assert (keywords.search("copper kiln", (DOCS,), 10), keywords.bm25_bound("copper kiln", (DOCS,))) == alone


def test_evidence_tells_what_is_met_and_where(shelf):
    shelf.publish(*ALL)
    with shelf.opened() as (_, keywords, _):
        evidence = keywords.evidence("kiln hours copper", (DOCS,), ["kiln", "glaze", "verdict", "no-such"])
        assert set(evidence) == {"kiln", "glaze"}
        assert evidence["kiln"].matched == ("kiln", "hours")
        assert evidence["kiln"].title_share > evidence["glaze"].title_share > 0
        hits = {hit.id: hit.bm25 for hit in keywords.search("kiln hours copper", (DOCS,), 10)}
        assert {key: evidence[key].bm25 for key in evidence} == {key: hits[key] for key in evidence}
        exact = keywords.evidence("KLN-4471", (DOCS,), ["order", "kiln"])
        assert [exact["order"].exact, exact["kiln"].exact] == [True, False]
        assert keywords.evidence('"tunnel kiln"', (DOCS,), ["kiln"])["kiln"].exact


def test_the_head_of_a_document_is_searched(shelf):
    shelf.publish(KILN, passage("headed", "Nothing of note.", head=("owner: Wendla",)))
    with shelf.opened() as (_, keywords, _):
        assert found(keywords, "wendla") == ["headed"]
        assert keywords.evidence("wendla", (DOCS,), ["headed"])["headed"].by_head


def test_what_a_question_turns_on_is_named_and_looked_up(shelf):
    shelf.publish(*ALL)
    with shelf.opened() as (_, keywords, _):
        subject = keywords.subject("what about KLN-4471 and kilns", (DOCS,))
        (label,) = subject.fixed
        assert keywords.holding("KLN-4471", label, (DOCS,), 5) == {"order"}
        notes = PassageFilter(doc_class=DocClass.NOTE)
        assert keywords.holding("KLN-4471", label, (DOCS,), 5, filters=notes) == set()


# --- filters and series


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        (PassageFilter(project="pots"), {"glaze"}),
        (PassageFilter(project="none"), set()),
        (PassageFilter(doc_class=DocClass.HANDOFF), {"order"}),
        (PassageFilter(sources=frozenset({"kiln.md", "order.md"})), {"kiln", "order"}),
        (PassageFilter(left_out=frozenset({"kiln.md"})), {"glaze", "order", "first", "second"}),
        (PassageFilter(valid_days={"docs:stock": "2026-02-01"}), {"kiln", "glaze", "order", "second"}),
        (PassageFilter(valid_days={}), {"kiln", "glaze", "order"}),
    ],
)
def test_filters_leave_what_passes(shelf, filters, ids):
    shelf.publish(*ALL)
    with shelf.opened() as (_, keywords, _):
        assert keywords.matching_ids((DOCS,), filters, 10) == ids
        assert set(found(keywords, "kiln stock crates glaze", filters=filters)) == ids
        assert not ids or keywords.matching_ids((DOCS,), filters, len(ids) - 1) is None


# --- vectors


def test_the_nearest_come_first_and_cosines_can_be_had_for_any(shelf):
    shelf.publish(*ALL)
    vector = EMBEDDER.embed_query(GLAZE.text)
    with shelf.opened() as (_, _, vectors):
        hits = vectors.query(DOCS, vector, 3)
        assert (hits[0].id, len(hits)) == ("glaze", 3)
        assert hits[0].cosine == pytest.approx(1, abs=2e-3)
        assert vectors.query(MEMORY, vector, 3) == []
        similar = vectors.similarities(DOCS, vector, ["glaze", "verdict", "kiln"])
        assert set(similar) == {"glaze", "kiln"}
        assert similar["glaze"] == pytest.approx(hits[0].cosine, abs=1e-6)


# --- generations


def test_a_generation_stays_what_it_is_while_others_are_published(shelf):
    first = shelf.publish(*ALL)
    with shelf.opened() as (before, keywords, vectors):
        changed = passage("kiln", KILN.text, title="Renamed")
        second = shelf.publish(changed, ORDER, passage("new", "A new kiln."))
        assert before.number == first < second
        assert set(found(keywords, "kiln")) == {"kiln", "order", "glaze"}
        assert keywords.fetch((DOCS,), ["kiln"]) == {"kiln": KILN}
        assert {hit.id for hit in vectors.query(DOCS, EMBEDDER.embed_query("kiln"), 9)} == {
            "kiln", "glaze", "order", "first", "second",
        }  # fmt: skip
    with shelf.opened() as (now, keywords, vectors):
        assert now.number == second
        assert set(found(keywords, "kiln")) == {"kiln", "order", "new"}
        assert keywords.fetch((DOCS,), ["kiln", "glaze"]) == {"kiln": changed}
        assert {hit.id for hit in vectors.query(DOCS, EMBEDDER.embed_query("kiln"), 9)} == {"kiln", "order", "new"}
        assert keywords.size((DOCS, DECISIONS)) == 3
    with shelf.opened(first) as (_, keywords, _):
        assert set(found(keywords, "kiln")) == {"kiln", "order", "glaze"}


def test_what_is_not_published_is_seen_by_nobody(shelf):
    shelf.publish(KILN)
    with pytest.raises(StoreError, match="killed"):
        shelf.publish(KILN, GLAZE, fail=StoreError("killed"))
    with shelf.opened() as (_, keywords, vectors):
        assert found(keywords, "glaze kiln") == ["kiln"]
        assert [hit.id for hit in vectors.query(DOCS, EMBEDDER.embed_query("glaze"), 5)] == ["kiln"]
    shelf.publish(KILN, ORDER)
    with shelf.opened() as (_, keywords, _):
        assert set(found(keywords, "kiln")) == {"kiln", "order"}


def test_one_writer(shelf):
    with shelf.writing(), pytest.raises(StoreLocked), shelf.writing():
        pass


def test_a_vector_that_is_lost_is_no_state_to_publish(shelf):
    shelf.publish(KILN)
    shelf.chunks["ghost"] = passage("ghost", "never written")
    with pytest.raises(StoreDamaged):
        shelf.publish(KILN, passage("ghost", "never written"))
    with shelf.opened() as (_, keywords, _):
        assert found(keywords, "never written kiln") == ["kiln"]


def test_a_manifest_comes_back_whole(shelf):
    shelf.publish(*ALL, LONE)
    with shelf.opened() as (snapshot, keywords, _):
        manifest = snapshot.manifest()
        assert set(manifest.files) == {chunk.source for chunk in (*ALL, LONE)}
        assert manifest.records()[DOCS].keys() == {"kiln", "glaze", "order", "first", "second", "lone"}
        assert manifest.files["first.md"].series == "docs:stock"
        assert snapshot.info.counts == {"decisions": 1, "docs": 6}
        assert snapshot.info.notes["made_by"] == "test"
        assert keywords.fetch((DOCS,), ["lone"]) == {"lone": LONE}
        assert found(keywords, "odd", filters=PassageFilter(sources=frozenset({LONE.source}))) == ["lone"]
