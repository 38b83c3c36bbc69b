"""The keyword index on real Tantivy folders."""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shelves import passage

from rag_mcp.errors import StoreDamaged, StoreError, StoreLocked, StoreTooNew
from rag_mcp.models import DocClass, SourceClass
from rag_mcp.stores.base import PassageFilter
from rag_mcp.stores.embedded.keywords import SCHEMA_VERSION, TantivyReader, TantivyWriter, clone_index
from rag_mcp.stores.embedded.keywords.writer import ClassWriter

DOCS, DECISIONS, MEMORY = SourceClass.DOCS, SourceClass.DECISIONS, SourceClass.MEMORY


def write(folder, *chunks):
    writer = TantivyWriter(folder)
    writer.add(chunks)
    writer.commit()
    writer.close()
    return TantivyReader(folder)


def found(reader, text, classes=(DOCS,), limit=5, **options):
    return [hit.id for hit in reader.search(text, classes, limit, **options)]


def tree(folder):
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


PROSE = [passage(f"prose{n}", f"The server waits, the user reads page {n} and other things happen.") for n in range(12)]


# --- user text is not query syntax -----------------------------------------------------------------------------------

EVERYDAY = {
    "net": "The proxy lives at https://gate.example.org:9443/v3/health?a=1&b=2 behind a slash.",
    "size": "The left board is 18\" wide, the right board 9' tall.",
    "code": "Entry K41.7 - loose hinge. Fault F[23] means (dry start). Use name:value pairs and the flag --no-wait.",
    "people": 'O\'Malley asked: who is "bob"? AT&T line, C++ and C# lessons, R&D AND sales OR law.',
    "math": "X^2 + Y^2 ~ Z^2; ratio 5:7; 40% off; path D:\\work\\lib; pattern /xy+z/; regexes.",
}


@pytest.fixture(scope="module")
def everyday(tmp_path_factory):
    return write(tmp_path_factory.mktemp("everyday") / "kw", *(passage(key, text) for key, text in EVERYDAY.items()))


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("https://gate.example.org:9443/v3/health?a=1&b=2", "net"),
        ("gate.example.org:", "net"),
        ('18" board', "size"),
        ('"18" wide', "size"),
        ("9' tall", "size"),
        ("k41.7 - loose hinge", "code"),
        ("F[23]", "code"),
        ("[23", "code"),
        ("(dry start", "code"),
        ("name:value", "code"),
        ("name:", "code"),
        ("--no-wait", "code"),
        ('who is "bob"?', "people"),
        ('"bob', "people"),
        ("O'Malley", "people"),
        ("malley'", "people"),
        ("AT&T", "people"),
        ("C++", "people"),
        ("R&D AND", "people"),
        ("sales OR", "people"),
        ("AND sales", "people"),
        ("X^2 + Y^2", "math"),
        ("ratio 5:7", "math"),
        ("40% off", "math"),
        ("D:\\work\\lib", "math"),
        ("/xy+z/", "math"),
        ("title:regex", "math"),
        ("+regex -missing", "math"),
        ("rege*", "math"),
        ("regex~2", "math"),
    ],
)
def test_everyday_text_full_of_operators_finds_its_chunk(everyday, query, key):
    assert key in found(everyday, query)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet=st.characters(), max_size=60) | st.text(alphabet="ab \"*-_.:()[]{}+~^\\/'&|!?", max_size=60))
def test_no_query_is_an_error_and_every_score_stays_below_its_bound(everyday, query):
    hits = everyday.search(query, [DOCS], 5)
    evidence = everyday.evidence(query, [DOCS], [hit.id for hit in hits])
    bound = everyday.bm25_bound(query, [DOCS])
    for hit in hits:
        proof = evidence[hit.id]
        assert proof.bm25 == pytest.approx(hit.bm25, abs=2e-4)
        assert 0 < hit.bm25 <= bound + 1e-3
        assert 0 <= proof.title_share <= proof.term_share <= 1


@pytest.mark.parametrize(
    "query",
    ["(" * 3_000, "[" * 4_000, "word " * 800, "a e " * 1_000, "*" * 500, '"' * 999, "\ud800\udfff", "\x00\x07", "🙂" * 400,
     " ".join(f"w{n}x" for n in range(600)), " ".join("qwertzuio"[:5 + n % 4] + "pasdfghjkl"[n % 10] for n in range(400))],
    ids=["brackets", "square", "repeated", "short", "stars", "quotes", "surrogates", "control", "emoji", "many", "typos"],
)  # fmt: skip
def test_a_hostile_query_answers_in_bounded_time(everyday, query):
    started = time.perf_counter()
    everyday.search(query, [DOCS], 20)
    everyday.evidence(query, [DOCS], list(EVERYDAY))
    assert time.perf_counter() - started < 2.0


@pytest.mark.parametrize("query", ["", "   ", "(((", "🙂"])
def test_a_query_without_words_finds_nothing(everyday, query):
    assert everyday.search(query, [DOCS], 5) == []
    assert everyday.bm25_bound(query, [DOCS]) == 0.0
    assert everyday.evidence(query, [DOCS], ["net"])["net"].term_share == 0.0


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_gives_nothing(everyday, limit):
    assert everyday.search("board", [DOCS], limit) == []


# --- spellings -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def menu(tmp_path_factory):
    return write(
        tmp_path_factory.mktemp("menu") / "kw",
        passage("nfc", "The caf\u00e9 sells cr\u00e8me br\u00fbl\u00e9e on Fridays."),
        passage("nfd", "The cafe\u0301 sells cre\u0300me bru\u0302le\u0301e on Mondays."),
        passage("plain", "The cafe sells creme brulee on Sundays."),
        passage("names", "Gro\u00dfe Stra\u00dfe, \u0141\u00f3d\u017a, \u0130zmir, na\u00efve, \ufb01lter, \uff26\uff35\uff2c\uff2c width"),
    )  # fmt: skip


@pytest.mark.parametrize("query", ["café", "cafe\u0301", "cafe", "CAFÉ", "Cafe\u0301", "brulee", "brûlée", "BRÛLÉES"])
def test_every_spelling_of_a_word_finds_every_spelling(menu, query):
    assert set(found(menu, query)) == {"nfc", "nfd", "plain"}


@pytest.mark.parametrize(
    "query", ["strasse", "Straße", "STRASSE", "lodz", "Łódź", "izmir", "İzmir", "naive", "filter", "full"]
)
def test_folded_letters_meet(menu, query):
    assert found(menu, query) == ["names"]


# --- identifiers -----------------------------------------------------------------------------------------------------

DIGEST = "3b7e1c9d52f04a8866e0b1d7c4a9f2385d6e7f8091a2b3c4d5e6f708192a3b4c"


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    return write(
        tmp_path_factory.mktemp("names") / "kw",
        passage("writer", "The helper store_cache_page is called by drainQueueToFile in app.disk.queue_io (see lib/disk/queue_io.rs:41)."),
        passage("errors", "WRN-5512-C is raised when arm64_v8 builds of libwave-3.12.4 meet the key min.poll_delay or E0417."),
        passage("digest", f"Digest {DIGEST} belongs to build q20290103T1122Z. FTPClientV3Factory stays. Code QX-7731 blinked."),
        passage("other", "The code QX-7713 blinked. Drain the sink, queue for the file, store a page in the cache."),
        *PROSE,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("store_cache_page", "writer"),
        ("storeCachePage", "writer"),
        ("STORE_CACHE_PAGE", "writer"),
        ("cache_page", "writer"),
        ("drainQueueToFile", "writer"),
        ("DrainQueue", "writer"),
        ("drain queue to file", "writer"),
        ("queue_io.rs", "writer"),
        ("app.disk.queue_io", "writer"),
        ("lib/disk/queue_io.rs:41", "writer"),
        ("WRN-5512-B WRN-5512-C", "errors"),
        ("wrn 5512", "errors"),
        ("5512", "errors"),
        ("arm64_v8", "errors"),
        ("libwave-3.12.4", "errors"),
        ("3.12.4", "errors"),
        ("min.poll_delay", "errors"),
        ("poll_delay", "errors"),
        ("e0417", "errors"),
        (DIGEST, "digest"),
        (DIGEST.upper(), "digest"),
        (DIGEST[:12], "digest"),
        ("q20290103T1122Z", "digest"),
        ("FTPClientV3Factory", "digest"),
        ("ftp client factory", "digest"),
        ("qx7731", "digest"),
        ("what does code QX-7731 mean", "digest"),
        ("QX-7713", "other"),
    ],
)
def test_an_identifier_its_parts_and_its_other_spellings_find_the_chunk_first(names, query, key):
    assert found(names, query)[0] == key


def test_a_whole_identifier_ranks_above_its_scattered_parts_and_is_exact(names):
    proof = names.evidence("store_cache_page", [DOCS], ["writer", "other"])
    assert proof["writer"].exact and not proof["other"].exact
    assert proof["writer"].term_share == 1.0
    assert 0 < proof["other"].term_share <= 0.5
    assert proof["writer"].bm25 > proof["other"].bm25


def test_a_near_code_is_no_match_for_a_code(names):
    assert "errors" not in found(names, "E0418")
    assert names.evidence("QX-7731", [DOCS], ["other"])["other"].exact is False


# --- word forms, phrases, prefixes, typos ----------------------------------------------------------------------------


def test_words_meet_in_all_their_forms_in_each_language(tmp_path):
    reader = write(
        tmp_path / "kw",
        passage("en", "The valves were calibrated when the boiler was inspected by them.", language="en"),
        passage("es", "Las válvulas fueron calibradas cuando se inspeccionaron las calderas.", language="es"),
        passage("de", "Die Kessel wurden geprüft und die Ventile sind nicht mehr undicht.", language="de"),
    )
    assert found(reader, "inspecting a valve")[0] == "en"
    assert found(reader, "¿cuándo se inspeccionó la caldera?") == ["es"]
    assert found(reader, "Ventil") == ["de"]


def test_stop_words_count_only_when_there_is_nothing_else(tmp_path):
    reader = write(tmp_path / "kw", passage("hamlet", "To be, or not to be: that is the question."), *PROSE)
    assert found(reader, "to be or not to be")[0] == "hamlet"
    assert found(reader, "what is the boiler") == []


def test_a_quoted_phrase_is_exact_and_first_where_the_words_stand_in_order(tmp_path):
    reader = write(
        tmp_path / "kw",
        passage("a", "gate of the flood, one gate, one flood"),
        passage("b", "A flood gate is long and stays shut."),
    )
    assert found(reader, '"flood gate"') == ["b", "a"]
    proof = reader.evidence('"flood gate"', [DOCS], ["a", "b"])
    assert (proof["a"].exact, proof["b"].exact) == (False, True)


def test_words_of_two_sections_are_no_phrase(tmp_path):
    reader = write(tmp_path / "kw", passage("a", "closed flood", title="gate", heading_path=("flood", "gate")))
    assert reader.evidence('"flood gate"', [DOCS], ["a"])["a"].exact is False


def test_a_trailing_star_finds_every_ending(tmp_path):
    reader = write(tmp_path / "kw", passage("a", "calibration"), passage("b", "a calibrator"), passage("d", "caliph"))
    assert set(found(reader, "calibr*")) == {"a", "b"}
    assert found(reader, "calibration*")[0] == "a"
    assert set(found(reader, "c*")) == set()


def test_a_misspelt_word_finds_its_neighbour_at_a_discount(tmp_path):
    reader = write(tmp_path / "kw", passage("a", "The zeppelin waits."), *PROSE)
    assert found(reader, "zepelin") == ["a"]
    right, wrong = (reader.evidence(word, [DOCS], ["a"])["a"] for word in ("zeppelin", "zepelin"))
    assert wrong.bm25 < right.bm25
    assert wrong.term_share < right.term_share == 1.0


def test_a_known_word_is_never_taken_for_a_typo(tmp_path):
    reader = write(tmp_path / "kw", passage("a", "calibrate"), passage("b", "celibrate"))
    assert found(reader, "celibrate") == ["b"]


# --- evidence --------------------------------------------------------------------------------------------------------


def test_words_no_chunk_has_lower_the_share_most(tmp_path):
    reader = write(tmp_path / "kw", passage("a", "The boiler has a valve."), passage("b", "The boiler is hot."), *PROSE)
    both = reader.evidence("boiler valve", [DOCS], ["a", "b"])
    assert both["a"].term_share == 1.0
    assert both["b"].term_share < 0.5
    assert reader.evidence("boiler zeppelin", [DOCS], ["a"])["a"].term_share < 0.5
    assert both["b"].matched == ("boiler",)


def test_title_share_looks_at_everything_but_the_text(tmp_path):
    places = {
        "title": {"title": "Kiln glaze"},
        "heading": {"heading_path": ("Works", "Kiln glaze")},
        "alias": {"aliases": ("kiln glaze",)},
        "tag": {"tags": ("kiln", "glaze")},
        "path": {"source": "kiln/glaze.md"},
    }
    reader = write(tmp_path / "kw", *(passage(key, "Starts at six.", **where) for key, where in places.items()),
                   passage("text", "The kiln and the glaze start at six."))  # fmt: skip
    proof = reader.evidence("kiln glaze", [DOCS], [*places, "text"])
    assert {key: proof[key].title_share for key in proof} == {**dict.fromkeys(places, 1.0), "text": 0.0}
    assert {proof[key].term_share for key in proof} == {1.0}


def test_more_terms_than_one_mask_holds_are_told_apart(tmp_path):
    words = [f"zq{first}{second}" for first in "bcdfghjk" for second in "bcdfghjk"][:60]
    reader = write(tmp_path / "kw", passage("all", " ".join(words)), *(passage(word, word) for word in words))
    proof = reader.evidence(" ".join(words), [DOCS], ["all", *words])
    assert proof["all"].term_share == pytest.approx(1.0)
    assert len(proof["all"].matched) == 60
    assert all(proof[word].matched == (word,) for word in words)


def test_evidence_is_given_for_candidates_that_match_nothing_and_not_for_strangers(tmp_path):
    reader = write(tmp_path / "kw", passage("a", "boiler"), passage("b", "valve"))
    assert set(reader.evidence("boiler", [DOCS], ["a", "b", "gone"])) == {"a", "b"}


def test_one_term_scores_exactly_what_bm25_says(tmp_path):
    reader = write(
        tmp_path / "kw",
        *(passage(f"c{n}", "boiler " * n + "x " * (6 - n), source=".md") for n in range(1, 5)),
        passage("z", "y", source=".md"),
    )
    idf = math.log(1 + (5 - 4 + 0.5) / (4 + 0.5))
    mean = (6 * 4 + 1 + 0) / 5
    for hit in reader.search("boiler", [DOCS], 9):
        tf = int(hit.id[1:])
        assert hit.bm25 == pytest.approx(idf * 2.2 * tf / (tf + 1.2 * (0.25 + 0.75 * 6 / mean)), rel=0.02)


# --- classes and filters ---------------------------------------------------------------------------------------------


def test_nothing_of_a_hidden_class_shows_in_any_answer(tmp_path):
    open_chunks = [passage(f"d{n}", f"flood gate number {n} is open {'wide ' * n}") for n in range(9)]
    secret = [
        passage(f"m{n}", "flood zeppelin gatekeeper " * (n + 1), source_class=MEMORY, language="de") for n in range(40)
    ]
    alone = write(tmp_path / "alone", *open_chunks)
    beside = write(tmp_path / "beside", *open_chunks, *secret)
    ids = [part.id for part in [*open_chunks, *secret]]
    for query in ("flood gate", "zeppelin", "zeppelim", "gate*", "flood-gate", '"flood gate"', "gatekeeper wide"):
        for answer in (
            lambda reader, query=query: reader.search(query, [DOCS], 20),
            lambda reader, query=query: reader.evidence(query, [DOCS], ids),
            lambda reader, query=query: reader.bm25_bound(query, [DOCS]),
        ):
            assert answer(alone) == answer(beside)
    assert beside.fetch([DOCS], ids).keys() == {part.id for part in open_chunks}


def test_scores_of_two_classes_can_be_compared(tmp_path):
    texts = ["the boiler hums", *(f"the boiler and the gate {n}" for n in range(30))]
    reader = write(tmp_path / "kw", passage("rare", "gate", source_class=DECISIONS, source="x.md"),
                   *(passage(f"d{n}", text, source="x.md") for n, text in enumerate(texts)))  # fmt: skip
    scores = {hit.id: hit.bm25 for hit in reader.search("gate", [DOCS, DECISIONS], 50)}
    alone = reader.search("gate", [DECISIONS], 1)[0].bm25
    assert scores["rare"] < alone
    assert max(scores.values()) < 2 * min(scores.values())


def test_a_rare_class_is_complete_at_every_limit(tmp_path):
    bulk = [passage(f"bulk{n}", "Flood gate check, flood gate repair, flood gate.") for n in range(400)]
    rare = [
        passage(f"d{n}", f"After long talks the {part} of the flood gate is renewed.", source_class=DECISIONS)
        for n, part in enumerate(("hinge", "winch", "seal"))
    ]
    reader = write(tmp_path / "kw", *bulk, *rare)
    for limit in (3, 5, 20):
        assert sorted(found(reader, "flood gate", [DECISIONS], limit)) == ["d0", "d1", "d2"]
    assert reader.search("flood gate", [MEMORY], 5) == []


def test_project_and_doc_class_narrow_the_answer_but_not_the_scores(tmp_path):
    reader = write(
        tmp_path / "kw",
        passage("a", "boiler log", project="north"),
        passage("b", "boiler log", project="south", doc_class=DocClass.HANDOFF),
        passage("c", "boiler log"),
    )
    assert found(reader, "boiler", filters=PassageFilter(project="south")) == ["b"]
    assert found(reader, "boiler", filters=PassageFilter(doc_class=DocClass.NOTE)) == ["a", "c"]
    assert found(reader, "boiler", filters=PassageFilter(project="north", doc_class=DocClass.HANDOFF)) == []
    whole = {hit.id: hit.bm25 for hit in reader.search("boiler", [DOCS], 5)}
    assert reader.search("boiler", [DOCS], 5, filters=PassageFilter(project="north"))[0].bm25 == whole["a"]
    assert reader.matching_ids([DOCS], PassageFilter(project="south"), 5) == {"b"}
    assert reader.matching_ids([DOCS], PassageFilter(), 3) == {"a", "b", "c"}
    assert reader.matching_ids([DOCS], PassageFilter(), 2) is None


def test_documents_are_asked_for_or_left_out_and_the_scores_stay(tmp_path):
    reader = write(
        tmp_path / "kw", *(passage(name, "boiler log", source=f"{name}.md") for name in ("a", "b", "\u00f1"))
    )
    whole = {hit.id: hit.bm25 for hit in reader.search("boiler", [DOCS], 5)}
    for filters, left in (
        (PassageFilter(sources=frozenset({"\u00f1.md", "z.md"})), ["\u00f1"]),
        (PassageFilter(sources=frozenset()), []),
        (PassageFilter(left_out=frozenset({"\u00f1.md", "z.md"})), ["a", "b"]),
    ):
        assert {hit.id: hit.bm25 for hit in reader.search("boiler", [DOCS], 5, filters=filters)} == {
            name: whole[name] for name in left
        }
        assert reader.matching_ids([DOCS], filters, 5) == set(left)


def test_passages_holding_one_term_of_a_question_are_told_within_class_and_filter(tmp_path):
    reader = write(
        tmp_path / "kw",
        passage("a", "Dredge 3.4.1 takes oil.", project="north"),
        passage("b", "Dredge 3.4.2 takes oil."),
        passage("m", "Dredge 3.4.3 takes oil.", source_class=MEMORY),
    )
    question = "oil of dredge 3.4.1 and 3.4.3"
    assert reader.subject(question, [DOCS]).fixed == {"3.4.1": "3.4.1", "3.4.3": "3.4.3"}
    assert reader.holding(question, "3.4.1", [DOCS], 5) == {"a"}
    assert reader.holding(question, "3.4.1", [DOCS], 5, filters=PassageFilter(project="south")) == set()
    assert reader.holding(question, "3.4.3", [DOCS], 5) == set()
    assert reader.holding(question, "3.4.3", [DOCS, MEMORY], 5) == {"m"}
    assert len(reader.holding("dredge oil", "oil", [DOCS, MEMORY], 1)) == 2


def test_a_day_picks_its_version_of_each_series_and_leaves_loose_notes(tmp_path):
    reader = write(
        tmp_path / "kw",
        passage("old", "boiler", series="plan", valid_on=("2031-01-01", "2031-02-01")),
        passage("new", "boiler", series="plan", valid_on=("2031-03-01",)),
        passage("other", "boiler", series="menu", valid_on=("2031-01-01",)),
        passage("loose", "boiler"),
    )
    days = {"plan": "2031-02-01", **{f"series{n}": "2031-01-01" for n in range(500)}}
    assert found(reader, "boiler", filters=PassageFilter(valid_days=days)) == ["loose", "old"]
    assert found(reader, "boiler", filters=PassageFilter(valid_days={"plan": "2031-03-01", "menu": "2031-01-01"})) == [
        "loose",
        "new",
        "other",
    ]
    assert found(reader, "boiler", filters=PassageFilter(valid_days={})) == ["loose"]


def test_equal_scores_are_ordered_by_id_and_a_smaller_limit_is_a_prefix(tmp_path):
    keys = [f"k{n:03d}" for n in range(120)]
    reader = write(tmp_path / "kw", *(passage(key, "same boiler", source="s.md") for key in reversed(keys)))
    assert found(reader, "boiler", limit=7) == keys[:7]
    assert found(reader, "boiler", limit=500) == keys


# --- store -----------------------------------------------------------------------------------------------------------


def test_a_chunk_comes_back_exactly_as_it_was(tmp_path):
    full = passage(
        "a#1", "Line\r\n\ttab \x00 \ud800 é 🙂", source="d/é\udcff.md", project="p", doc_class=DocClass.HANDOFF, title="T",
        heading_path=("A", "B / C"), aliases=("x",), tags=("y", "z"), date="2031-01-02", language="pt", series="s",
        valid_on=("2031-01-02", "2031-01-03"), index=3, line_start=4, line_end=9, start=10, end=40,
    )  # fmt: skip
    reader = write(tmp_path / "kw", full)
    assert reader.fetch([DOCS], ["a#1", "none"]) == {"a#1": full}
    assert reader.fetch([DECISIONS], ["a#1"]) == {}
    assert reader.fetch([DOCS], []) == {}


def test_adding_an_id_again_replaces_it_and_deleting_removes_it(tmp_path):
    folder = tmp_path / "kw"
    write(folder, passage("notes/Pump House 2.md#0", "first boiler"), passage("b", "second"))
    for n in range(3):
        write(folder, passage("notes/Pump House 2.md#0", f"boiler version{n}"))
    reader = TantivyReader(folder)
    assert found(reader, "boiler") == ["notes/Pump House 2.md#0"]
    assert found(reader, "first") == []
    writer = TantivyWriter(folder)
    writer.add([passage("twice", "one boiler"), passage("twice", "two boiler")])
    writer.delete(DOCS, ["notes/Pump House 2.md#0", "unknown"])
    writer.delete(MEMORY, ["unknown"])
    writer.commit()
    writer.close()
    reader = TantivyReader(folder)
    assert reader.ids(DOCS) == {"b", "twice"}
    assert reader.fetch([DOCS], ["twice"])["twice"].text == "two boiler"
    assert not (folder / "memory").exists()


def test_nothing_is_kept_of_a_writer_that_did_not_commit(tmp_path):
    folder = tmp_path / "kw"
    write(folder, passage("a", "boiler"))
    writer = TantivyWriter(folder)
    writer.add([passage("b", "boiler")])
    writer.close()
    assert TantivyReader(folder).ids(DOCS) == {"a"}


def test_a_reader_keeps_its_snapshot_while_a_writer_commits(tmp_path):
    folder = tmp_path / "kw"
    reader = write(folder, passage("a", "boiler"))
    assert found(reader, "boiler") == ["a"]
    write(folder, passage("b", "boiler"), passage("a", "gone"))
    assert found(reader, "boiler pressure") == ["a"]
    assert found(TantivyReader(folder), "boiler") == ["b"]


def test_many_small_commits_leave_few_segments_and_no_dead_files(tmp_path):
    folder = tmp_path / "kw"
    for n in range(10):
        write(folder, *(passage(f"c{(n + k) % 10}", f"boiler round {n}") for k in range(3)))
    segments = json.loads((folder / "docs" / "meta.json").read_text(encoding="utf-8"))["segments"]
    assert len(segments) <= 8
    live = {segment["segment_id"].replace("-", "") for segment in segments}
    on_disk = {path.name.split(".")[0] for path in (folder / "docs").iterdir() if not path.name.startswith(".")}
    assert on_disk == live | {"meta"}
    assert sorted(path.name for path in folder.iterdir()) == ["docs", "format.json"]
    assert TantivyReader(folder).ids(DOCS) == {f"c{n}" for n in range(10)}


def test_a_mostly_deleted_index_is_rewritten_so_its_scores_are_those_of_a_fresh_one(tmp_path):
    kept = [passage(f"k{n}", f"boiler number {n}") for n in range(6)]
    folder = tmp_path / "grown"
    write(folder, *kept, *(passage(f"x{n}", "boiler gate") for n in range(20)))
    writer = TantivyWriter(folder)
    writer.delete(DOCS, [f"x{n}" for n in range(20)])
    writer.commit()
    writer.close()
    fresh = write(tmp_path / "fresh", *kept)
    assert TantivyReader(folder).search("boiler 3", [DOCS], 9) == fresh.search("boiler 3", [DOCS], 9)


def test_a_clone_can_be_changed_without_touching_its_source(tmp_path):
    source, target = tmp_path / "one", tmp_path / "two"
    write(source, *PROSE, passage("a", "boiler"), passage("m", "boiler", source_class=MEMORY))
    before = tree(source)
    clone_index(source, target)
    assert tree(target) == before
    for n in range(3):
        write(target, passage(f"new{n}", "boiler"), passage("a", f"valve {n}"))
    assert tree(source) == before
    assert found(TantivyReader(source), "boiler", [DOCS, MEMORY]) == ["a", "m"]
    assert "a" in found(TantivyReader(target), "valve")


def test_a_clone_shares_its_segments_on_disk_and_copies_where_it_cannot(tmp_path, monkeypatch):
    source = tmp_path / "one"
    write(source, *PROSE)
    clone_index(source, tmp_path / "two")
    linked = [path for path in (tmp_path / "two" / "docs").glob("*.term") if path.stat().st_nlink == 2]
    assert linked

    def refuse(*_):
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    clone_index(source, tmp_path / "three")
    assert tree(tmp_path / "three") == tree(source)


def test_reading_leaves_no_trace_in_the_folder(tmp_path):
    write(tmp_path / "kw", *PROSE, passage("m", "x", source_class=MEMORY))
    clone_index(tmp_path / "kw", tmp_path / "copy")
    before = tree(tmp_path / "copy")
    reader = TantivyReader(tmp_path / "copy")
    found(reader, "server", list(SourceClass))
    reader.close()
    assert tree(tmp_path / "copy") == before


def test_an_empty_store_answers_with_nothing(tmp_path):
    reader = TantivyReader(tmp_path / "none")
    assert reader.search("boiler", list(SourceClass), 5) == []
    assert reader.bm25_bound("boiler", [DOCS]) == 0.0
    assert reader.ids(DOCS) == set()
    assert reader.matching_ids([DOCS], PassageFilter(), 5) == set()
    assert not (tmp_path / "none").exists()


def test_threads_share_a_reader(names):
    expected = {query: names.search(query, [DOCS], 5) for query in ("queue", "QX-7731", "server page")}
    wrong = []

    def ask():
        for _ in range(20):
            wrong.extend(query for query, hits in expected.items() if names.search(query, [DOCS], 5) != hits)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wrong == []


# --- locks and damage ------------------------------------------------------------------------------------------------


def test_readers_never_hold_the_writer_lock(tmp_path):
    folder = tmp_path / "kw"
    readers = [write(folder, passage("a", "boiler")) for _ in range(3)]
    assert all(found(reader, "boiler") == ["a"] for reader in readers)
    assert found(write(folder, passage("b", "boiler")), "boiler") == ["a", "b"]


def test_a_writer_whose_commit_failed_writes_no_more_though_somebody_holds_its_error(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    writer = TantivyWriter(tmp_path / "kw")
    writer.add([passage("a", "herons")])
    with monkeypatch.context() as patch:
        patch.setattr(ClassWriter, "commit", full)
        with pytest.raises(StoreError) as held:
            writer.commit()
    assert found(write(tmp_path / "kw", passage("b", "herons wade")), "herons") == ["b"]
    assert held.value is not None


def test_a_second_writer_is_refused_and_the_first_goes_on(tmp_path):
    folder = tmp_path / "kw"
    first = TantivyWriter(folder)
    first.add([passage("a", "boiler")])
    with pytest.raises(StoreLocked):
        TantivyWriter(folder).add([passage("b", "boiler")])
    first.commit()
    assert TantivyReader(folder).ids(DOCS) == {"a"}


def test_a_killed_writer_leaves_no_lock_behind(tmp_path):
    folder = tmp_path / "kw"
    write(folder, passage("a", "boiler"))
    code = (
        "import os, sys\nfrom pathlib import Path\n"
        "from rag_mcp.models import SourceClass\nfrom rag_mcp.stores.embedded.keywords import TantivyWriter\n"
        "writer = TantivyWriter(Path(sys.argv[1]))\nwriter.delete(SourceClass.DOCS, ['a'])\nos._exit(9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], timeout=60, cwd=Path(__file__).parents[2], check=False
    )
    assert done.returncode == 9
    assert write(folder, passage("b", "boiler")).ids(DOCS) == {"a", "b"}


def test_a_lock_file_without_a_lock_is_no_obstacle(tmp_path):
    folder = tmp_path / "kw"
    write(folder, passage("a", "boiler"))
    (folder / "docs" / ".tantivy-writer.lock").write_bytes(b"")
    assert write(folder, passage("b", "boiler")).ids(DOCS) == {"a", "b"}


@pytest.mark.parametrize("name", ["meta.json", "*.term", "*.store", "*.idx"])
def test_a_torn_file_is_reported_as_damage_and_left_alone(tmp_path, name):
    folder = tmp_path / "kw"
    write(folder, *PROSE)
    for path in (folder / "docs").glob(name):
        path.write_bytes(path.read_bytes()[:20])
    before = tree(folder)
    with pytest.raises(StoreDamaged, match="full ingest"):
        reader = TantivyReader(folder)
        reader.search("server page", [DOCS], 5)
        reader.fetch([DOCS], [part.id for part in PROSE])
    assert tree(folder) == before


def test_a_missing_segment_file_is_damage(tmp_path):
    folder = tmp_path / "kw"
    write(folder, *PROSE)
    next((folder / "docs").glob("*.store")).unlink()
    with pytest.raises(StoreDamaged):
        found(TantivyReader(folder), "server")


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (json.dumps({"schema": SCHEMA_VERSION + 1}), StoreTooNew),
        (json.dumps({"schema": SCHEMA_VERSION - 1}), StoreDamaged),
        (json.dumps({"schema": "1"}), StoreDamaged),
        (json.dumps([1]), StoreDamaged),
        ("{", StoreDamaged),
        (None, StoreDamaged),
    ],
)
def test_another_format_is_refused_by_readers_and_writers(tmp_path, content, error):
    folder = tmp_path / "kw"
    write(folder, passage("a", "boiler"))
    if content is None:
        (folder / "format.json").unlink()
    else:
        (folder / "format.json").write_text(content, encoding="utf-8")
    for open_it in (TantivyReader, TantivyWriter):
        with pytest.raises(error):
            open_it(folder)


def test_a_full_disk_or_a_busy_file_is_not_called_damage(tmp_path, monkeypatch):
    folder = tmp_path / "kw"
    write(folder, passage("a", "boiler"))

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    writer = TantivyWriter(folder)
    writer.add([passage("b", "boiler")])
    monkeypatch.setattr(json, "loads", fail)
    with pytest.raises(StoreError) as caught:
        writer.commit()
    assert not isinstance(caught.value, StoreDamaged)


def test_importing_the_module_loads_no_tantivy():
    code = "import sys, rag_mcp.stores.embedded.keywords; sys.exit('tantivy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=False).returncode == 0
