"""What words do to an answer: scripts, single letters, numbers that are not there, questions without a word."""

from __future__ import annotations

import json

import pytest
from support import Library

from rag_mcp.models import Mode
from rag_mcp.search.relevance import load_model
from rag_mcp.server.tools import answer_payload

PAGES = {
    f"trades/{name}.md": f"# {name.title()}\n\nThe {name} opens at dawn and closes when the last customer has left.\n"
    for name in ("bakery", "forge", "tannery", "weaver", "cooper")
}
SCRIPTS = {
    "ar.md": "# الطَّاحُونَة\n\nتُطْحَنُ الحُبُوبُ فِي كُلِّ صَبَاحٍ.\n",
    "fa.md": "# کندوها\n\nزنبورها در تابستان عسل می\u200cسازند.\n",
    "he.md": "# כַּוֶּרֶת\n\nהַדְּבוֹרִים עָפוֹת בַּבֹּקֶר.\n",
    "hi.md": "# चक्की\n\nअण्डे पीपल के नीचे रखे हैं।\n",
    "ja.md": "# 浜辺\n\n老漁師の白犬が鶴を見張る。\n",
    "zh.md": "# 果园\n\n东边的井每年清洗一次。\n",
    "ko.md": "# 마당\n\n큰솥을 닦아 둔다.\n",
    "km.md": "# ចម្ការ\n\nគេដាំដំឡូងជ្វានៅក្រោយផ្ទះ។\n",
    "th.md": "# สวน\n\nสวนส้มโออยู่หลังบ้าน\n",
    "bo.md": "# ཚལ་ར།\n\nཆུ་རགས་ཀྱི་འགྲམ་ལ་ཀུ་ཤུ་ཡོད།\n",
}


@pytest.fixture(scope="module", params=["hash", "minilm-int8"])
def scripts(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("scripts")
    with Library(folder / "corpus", folder / "store", embedder=request.param) as library:
        library.write({**PAGES, **SCRIPTS})
        library.ingest()
        yield library, library.base()


@pytest.mark.parametrize("mode", ["hybrid", "fts"])
@pytest.mark.parametrize(
    ("question", "source"),
    [
        ("الطاحونه", "ar.md"),
        ("تطحن الحبوب في كل صباح", "ar.md"),
        ("كندوها", "fa.md"),
        ("میسازند", "fa.md"),
        ("می سازند", "fa.md"),
        ("כורת", "he.md"),
        ("הדבורימ עפות", "he.md"),
        ("अंडे", "hi.md"),
        ("犬", "ja.md"),
        ("鶴", "ja.md"),
        ("犬鶴", "ja.md"),
        ("鶴 犬", "ja.md"),
        ("犬はどこにいますか", "ja.md"),
        ("where is the 犬", "ja.md"),
        ("井", "zh.md"),
        ("井在哪里", "zh.md"),
        ("솥", "ko.md"),
        ("ដំឡូង", "km.md"),
        ("ផ្ទះ", "km.md"),
        ("ส้ม", "th.md"),
        ("บ้าน", "th.md"),
        ("ཀུ་ཤུ", "bo.md"),
    ],
)
def test_a_word_is_found_in_its_script_however_it_is_spelt_and_wherever_it_stands(scripts, question, source, mode):
    library, base = scripts
    found = library.search(question, base=base, mode=mode, confidence="strict").results
    assert [result.citation.source for result in found][:1] == [source]


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("question", ["狼", "水", "山", "달", "🚀", "🐝", "where is the 🚀", "волк", "狼 山"])
def test_words_that_model_and_notes_do_not_hold_are_not_answered(scripts, question, mode):
    library, base = scripts
    found = library.search(question, base=base, mode=mode, confidence="strict")
    assert (found.status, found.results) == ("NO_RELEVANT_CONTEXT", ())


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize(
    "question",
    [
        "...",
        "?",
        "؟",
        "。",
        "།",
        "—",
        "🙂",
        "#",
        "&",
        "x",
        "7",
        "42",
        "1912",
        "3.5",
        "what is the",
        "was ist das",
        "de la",
    ],
)
def test_a_question_without_a_word_is_not_answered(scripts, question, mode):
    library, base = scripts
    assert library.search(question, base=base, mode=mode, confidence="strict").status == "NO_RELEVANT_CONTEXT"


def test_unknown_words_are_not_answered_among_many_notes_either(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store", embedder="minilm-int8") as library:
        things = ("rope", "lamp", "sail", "oar", "drum", "hook")
        library.write(
            SCRIPTS
            | {f"n{n}.md": f"# {things[n % 6]} {n}\n\nThe {things[n % 6]} hangs on nail {n}.\n" for n in range(120)}
        )
        library.ingest()
        base = library.base()
        for question in ("🚀", "狼", "水"):
            for mode in Mode:
                assert library.search(question, base=base, mode=mode, confidence="strict").results == ()
        assert library.search("犬", base=base, confidence="strict").results[0].citation.source == "ja.md"


@pytest.mark.parametrize("question", ["who won the chess title in 1972", "how do I bake rye bread", "capital of Peru"])
def test_a_cosine_alone_gets_no_help_from_a_small_collection(tmp_path, question):
    with Library(tmp_path / "corpus", tmp_path / "store", embedder="minilm-int8") as library:
        library.write({"hive.md": "# Hive\n\nThe hive is opened in May.\n", "weir.md": "# Weir\n\nThe weir leaks.\n"})
        library.ingest()
        assert library.search(question, mode="vector", confidence="strict").results == ()
    model = load_model("minilm-int8")
    assert model.thresholds(Mode.VECTOR, passages=3) == model.heads[Mode.VECTOR].thresholds


NEIGHBOURS = {
    "dredge-3.4.1.md": "# Dredge 3.4.1\n\nVersion 3.4.1 of the dredge takes whale oil and two belts.\n",
    "dredge-3.4.2.md": "# Dredge 3.4.2\n\nVersion 3.4.2 of the dredge takes linseed oil and one belt.\n",
    "parts.md": "# Parts\n\nPart ZX-4482 is the spindle. Part ZX-4483 is the flange. Error E7011 means a torn belt.\n",
    "rules.md": "# Rules\n\nRule 17 forbids fire. Rule 18 forbids dogs. Clause 9.2 is about noise. Channel 8441 is for tugs.\n",
    "log.md": "# Log\n\nOn 2033-03-09 the mast fell. On 11 March 2033 it was raised. The lock was dug in 1887.\n",
    "crew.md": "# Crew\n\nA.B. steers the tug and K.L. cooks.\n",
}


@pytest.fixture(scope="module", params=["hash", "minilm-int8"])
def neighbours(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("neighbours")
    with Library(folder / "corpus", folder / "store", embedder=request.param) as library:
        library.write({**PAGES, **NEIGHBOURS})
        library.ingest()
        yield library, library.base()


ABSENT = [
    ("what does version 3.4.3 of the dredge take", "3.4.3"),
    ("dredge v3.4.3", "v3.4.3"),
    ("version 3.5 of the dredge", "3.5"),
    ("dredge 3.4.1.1 oil", "3.4.1.1"),
    ("what is part ZX-4484", "ZX-4484"),
    ("zx4484", "zx4484"),
    ("what does error E7012 mean", "E7012"),
    ("what does rule 19 forbid", "19"),
    ("noise in clause 9.3", "9.3"),
    ("which boats use channel 8442", "8442"),
    ("what fell on 2033-03-10", "2033-03-10"),
    ("did the mast fall on 10 March 2033", "2033-03-10"),
    ("mast 10.03.2033", "2033-03-10"),
    ("the lock dug in 1888", "1888"),
    ("what does C.D. steer", "C.D"),
]


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize(("question", "number"), ABSENT)
def test_a_number_that_stands_nowhere_is_not_answered_from_its_neighbours(neighbours, question, number, mode):
    library, base = neighbours
    strict = library.search(question, base=base, mode=mode, confidence="strict")
    assert (strict.status, strict.results) == ("NO_RELEVANT_CONTEXT", ())
    assert answer_payload(strict)["not_in_documents"] == [number]
    loose = library.search(question, base=base, mode=mode, confidence="normal")
    assert {result.confidence for result in loose.results} <= {"low"}


@pytest.mark.parametrize(
    ("question", "source"),
    [
        ("what does version 3.4.1 of the dredge take", "dredge-3.4.1.md"),
        ("dredge v3.4.2 oil", "dredge-3.4.2.md"),
        ("ZX4482", "parts.md"),
        ("part 4483", "parts.md"),
        ("what does rule 18 forbid", "rules.md"),
        ("channel 8441", "rules.md"),
        ("mast on 9 March 2033", "log.md"),
        ("mast 9.3.2033", "log.md"),
        ("mast 2033-03-11", "log.md"),
        ("what does K.L. cook", "crew.md"),
    ],
)
def test_a_number_that_is_there_is_met_in_every_spelling(neighbours, question, source):
    library, base = neighbours
    found = library.search(question, base=base, confidence="strict")
    assert found.results[0].citation.source == source
    assert found.not_in_documents == ()


@pytest.mark.parametrize(
    "question",
    [
        "what happened on 9 March 2033",
        "March 9th, 2033",
        "was geschah am 9. März 2033",
        "qué pasó el 9 de marzo de 2033",
        "le 9 mars 2033",
        "9 marzo 2033",
        "09.03.2033",
    ],
)
def test_a_day_asked_in_words_finds_the_note_of_that_day(tmp_path, question):
    days = [f"2033-{month:02}-{day:02}" for month in (2, 3) for day in (8, 9, 19)]
    with Library(tmp_path / "c", tmp_path / "s", embedder="minilm-int8") as library:
        library.write({f"log/{day}.md": f"# {day}\n\nThe tide gauge was read twice, by hand.\n" for day in days})
        library.ingest()
        assert library.sources(question, confidence="strict")[:1] == ["log/2033-03-09.md"]
        assert library.sources(question, mode="fts")[:1] == ["log/2033-03-09.md"]


def test_a_day_on_which_a_series_did_not_change_is_there(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        text = "# Sluice\n\nThe sluice stands open and the gauge reads {}.\n"
        days = {"2033-03-09": "four", "2033-03-10": "four", "2033-03-11": "nine"}
        library.write({f"sluice-{day}.md": text.format(gauge) for day, gauge in days.items()})
        library.ingest()
        assert library.search("sluice gauge on 2033-03-10").not_in_documents == ()
        assert library.search("sluice gauge on 2033-03-12").not_in_documents == ("2033-03-12",)


def test_numbers_in_what_the_caller_may_not_see_count_as_absent(tmp_path):
    told = []
    for place, files in {"with": {"memory/dredge.md": NEIGHBOURS["dredge-3.4.1.md"]}, "without": {}}.items():
        with Library(tmp_path / place, tmp_path / f"{place}-store") as library:
            library.write({"notes.md": NEIGHBOURS["dredge-3.4.2.md"], **files})
            library.ingest()
            question = "oil of dredge 3.4.1"
            assert (library.search(question, base=library.base(profile="auditor")).not_in_documents == ()) is bool(
                files
            )
            answer = answer_payload(library.search(question, base=library.base(profile="restricted")))
            told.append(json.dumps({**answer, "indexed_at": None}))
    assert '"not_in_documents": ["3.4.1"]' in told[0]
    assert told[0] == told[1]
