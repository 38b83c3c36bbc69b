"""What people write into the head of a note, or say by its name alone, is found; and what says nothing gives way."""

from __future__ import annotations

import pytest
from governed import Caller, settled
from support import Library

from rag_mcp.errors import NotFound
from rag_mcp.requests import DocumentRequest
from rag_mcp.text.frontmatter import parse_front_matter
from rag_mcp.text.properties import as_lines, asked_about, few
from rag_mcp.text.stubs import is_hollow

HEAD = """---
keeper: Thora Lindqvist
state: waiting for slates
visitors: [Odd Berg, Mina Falk]
inspected: 2031-08-14
beds: 6
heated: true
place:
  parish: Hollowmere
  phones: [555-0177, 555-0178]
guests:
  - {name: Sune Alm, from: Kettle Bay}
  - {name: Vera Holt}
see: "[[Upper Bothy]]"
---
# Lower bothy

The stove smokes in an east wind.
"""
NOTES = {
    "lower.md": HEAD,
    "upper.md": "# Upper bothy\n\nSnow lies against the door until May.\n",
    "path.md": "# Path\n\nThe path crosses the burn twice and climbs to the ridge.\n",
    "people/Aslak Moen.md": "---\ntrade: dyker\ntags: [contact]\n---\n",
    "Peat Cutting Rota.md": "",
    "Cairn Numbers.md": "<!-- to come -->\n",
    "Larder.md": "---\ntitle: Winter stores\n---\n",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("heads")
    with Library(folder / "corpus", folder / "store") as library:
        library.write(NOTES)
        library.ingest()
        yield library


# --- properties ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("Thora Lindqvist", "keeper"),
        ("state waiting for slates", "state"),
        ("slate", "state"),
        ("Mina Falk", "visitors"),
        ("inspected 2031-08-14", "inspected"),
        ("who is in Hollowmere", "place.parish"),
        ("555-0178", "place.phones"),
        ("Sune Alm", "guests.name"),
        ("Kettle Bay", "guests.from"),
        ('"waiting for slates"', "state"),
        ("Lindqvis*", "keeper"),
        ("Thora Lindqvits", "keeper"),
    ],
)
@pytest.mark.parametrize("mode", ["hybrid", "fts"])
def test_a_value_of_the_head_leads_to_the_first_passage_and_stands_beside_it(library, question, key, mode):
    best = library.search(question, confidence="strict", mode=mode).results[0]
    assert (best.citation.source, best.citation.chunk_index) == ("lower.md", 0)
    assert key in best.properties
    assert "Lindqvist" not in best.text
    assert best.text.startswith("# Lower bothy")


def test_a_question_about_the_text_brings_no_properties(library):
    (first, *_) = library.search("stove smokes in an east wind").results
    assert (first.citation.source, first.properties) == ("lower.md", {})


def test_a_head_makes_no_passage_and_moves_no_score_of_other_documents(tmp_path):
    bare = HEAD.partition("---\n# ")[2]
    found = []
    for name, text in (("with", HEAD), ("without", f"# {bare}")):
        with Library(tmp_path / name / "corpus", tmp_path / name / "store") as library:
            library.write({**NOTES, "lower.md": text})
            assert library.ingest().store_count == len(NOTES)
            found.append([
                [(hit.citation.source, hit.score) for hit in library.search(question).results]
                for question in ("snow against the door", "where does the path cross the burn", "stove smokes", "bothy")
            ])  # fmt: skip
    assert found[0] == found[1]


def test_a_changed_property_is_found_and_nothing_is_embedded_for_it(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        library.write({"lower.md": HEAD})
        library.ingest()
        library.write({"lower.md": HEAD.replace("Thora Lindqvist", "Ragna Sol")})
        summary = library.ingest()
        assert (summary.chunks_updated, summary.chunks_added, summary.chunks_embedded) == (1, 0, 0)
        assert library.sources("Ragna Sol", confidence="strict") == ["lower.md"]
        assert library.sources("Thora Lindqvist", confidence="strict") == []
        assert library.dump() == library.fresh(tmp_path / "fresh")


def test_a_secret_in_the_head_is_neither_found_nor_shown(tmp_path):
    secret = "hunter2-Moraine-77"
    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        library.write(
            {"hut.md": f"---\nkeeper: Thora Lindqvist\npassword: {secret}\n---\n# Hut\n\nThe hut has a lock.\n"}
        )
        library.ingest()
        answer = library.search("Thora Lindqvist password hut", mode="fts")
        assert answer.results[0].citation.source == "hut.md"
        assert secret not in repr(answer)
        assert "Moraine" not in repr(library.dump())


def test_the_head_of_a_hidden_document_changes_no_byte_of_an_answer(tmp_path):
    """Not the words of a plan, not a score, not a count: each class has statistics of its own."""
    answers = []
    for name, head in (("plain", "a: 1"), ("full", "keeper: Thora Lindqvist\nstate: waiting for slates\ndoor: snow")):
        folder = tmp_path / name
        with Library(folder / "corpus", folder / "store") as library:
            library.write({**NOTES, "memory/diary.md": f"---\n{head}\n---\nLine.\n"})
            library.ingest()
            caller = Caller(library, "restricted")
            questions = ("Thora Lindqvist", "snow at the door", "waiting for slates", "Lindqv*")
            answers.append([settled(caller.search(question, explain=True)) for question in questions])
    assert answers[0] == answers[1]


def test_nested_properties_have_dotted_names_and_aliases_end():
    front = parse_front_matter(
        "---\nA:\n  B: {c: 1, d: [x, y]}\nlist: [{e: 1}, {e: 2}, plain]\naccess: {f: none}\n---\n"
    )
    assert dict(front.properties) == {"a.b.c": (1,), "a.b.d": ("x", "y"), "list": ("plain",), "list.e": (1, 2)}
    many = "".join(f"k{n}: *big\n" for n in range(150))
    front = parse_front_matter(f"---\nbig: &big [{', '.join(map(str, range(9_000)))}]\n{many}---\n")
    assert sum(map(len, front.properties.values())) <= 20_000


def test_lines_of_a_head_leave_out_its_names():
    properties = {"tags": ("a",), "title": ("T",), "aliases": ("B",), "state": ("open", "late"), "sold": (False,)}
    assert as_lines(properties) == ("state open, late", "sold false")


def test_properties_shown_are_those_asked_about_within_a_size():
    properties = {"state": ("waiting for slates",), "keeper": ("Thora",), "sizes": tuple(range(100, 400))}
    assert list(asked_about("which slate is it", properties)) == ["state"]
    assert asked_about("no such word", properties) == properties
    shown = few(properties, 60)
    assert list(shown) == ["state", "keeper", "sizes"]
    assert sum(len(key) + sum(len(str(value)) for value in values) for key, values in shown.items()) <= 60


# --- documents of a name alone ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "source", "lines"),
    [
        ("Aslak Moen", "people/Aslak Moen.md", (1, 4)),
        ("Peat Cutting Rota", "Peat Cutting Rota.md", (1, 1)),
        ("cairn numbers", "Cairn Numbers.md", (1, 1)),
        ("winter stores", "Larder.md", (1, 3)),
    ],
)
@pytest.mark.parametrize(
    "arguments", [{"confidence": "strict"}, {"confidence": "strict", "mode": "fts"}, {"mode": "vector"}]
)
def test_a_document_without_text_is_found_by_its_name(library, question, source, lines, arguments):
    (best, *_) = library.search(question, **arguments).results
    assert (best.citation.source, (best.citation.line_start, best.citation.line_end)) == (source, lines)
    assert (best.text, best.truncated) == ("", False)


def test_a_document_of_properties_alone_brings_them_all(library):
    (best, *_) = library.search("Aslak Moen").results
    assert best.properties == {"tags": ("contact",), "trade": ("dyker",)}
    assert [hit.citation.source for hit in library.search("dyker", confidence="strict").results] == [
        best.citation.source
    ]
    document = library.base().get_document(DocumentRequest.parse({"source": best.citation.source}))
    assert (document.text, document.properties["trade"]) == ("", ["dyker"])


def test_documents_without_text_are_no_copies_of_each_other(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        library.write({f"2031-03-{day:02} ledger.md": "" for day in range(1, 6)})
        library.write({"ledger/a.md": "", "ledger/b.md": "", "other.md": "# Other\n\nWords.\n"})
        library.ingest()
        results = library.search("ledger", k=7).results
        assert len({hit.citation.source for hit in results}) == len(results) == 7
        assert not any(hit.also_in for hit in results)


def test_a_snapshot_without_text_is_found_with_its_own_properties(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        library.write(
            {f"log/2031-05-0{day}.md": f"---\nwatch: {who}\n---\n" for day, who in enumerate(["Odd", "Mina"], 1)}
        )
        library.ingest()
        assert library.sources("watch Mina", confidence="strict")[0] == "log/2031-05-02.md"
        library.write({"log/2031-05-03.md": "---\nwatch: Vera\n---\n"})
        library.ingest()
        assert library.sources("watch Mina", confidence="strict")[0] == "log/2031-05-02.md"
        assert library.dump() == library.fresh(tmp_path / "fresh")


def test_a_document_withheld_by_its_head_is_found_by_nothing_it_says(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        library.write({"Aslak Moen.md": "---\naccess: none\ntrade: dyker\n---\n", "other.md": "# Other\n\nWords.\n"})
        library.ingest()
        assert library.sources("Aslak Moen dyker") == ["other.md"]
        with pytest.raises(NotFound):
            library.base().get_document(DocumentRequest.parse({"source": "Aslak Moen.md"}))


# --- what says nothing -----------------------------------------------------------------------------------------------

SAYS = "# Bilge pump\n\nThe bilge pump is primed with a cup of water and run for a minute each week.\n"
HOLLOW = [
    "# Bilge pump\n",
    "# Bilge pump\n\nTODO\n",
    "Bilge pump\n==========\n\ntbd\n",
    "# Bilge pump\n\n---\n",
    "# Bilge pump\n\n![bilge pump](pump.png)\n",
    "# Bilge pump\n\n![[pump.png]]\n",
    "# Bilge pump\n\n<!-- ask Odd -->\n",
    "# Bilge pump\n\n[Bilge pump](#bilge-pump)\n",
    "# Bilge pump\n\nSee [[says]].\n",
    "# Bilge pump\n\n- [Bilge pump](says.md)\n- [Bilge pump, spare](spare.md)\n",
    "# Bilge pump\n\nhttps://example.org/pump\n",
    "# Bilge pump\n\n| part | note |\n|---|---|\n",
    "# Bilge pump\n\n| part | note |\n| --- | --- |\n| | |\n",
    "# Bilge pump\n\n-\n-\n",
    "# Bilge pump\n\nBilge pump\n",
    "# Bilge pump\n\n## Priming\n\nTODO\n\n## Parts\n\nn/a\n",
    "",
]
SPEAKING = [
    SAYS,
    "# Bilge pump\n\n| part | note |\n|---|---|\n| valve | worn |\n",
    "# Bilge pump\n\n```\nprime\n```\n",
    "# Bilge pump\n\nSee [[says]] before priming.\n",
    "# Bilge pump\n\n- [ ] prime the pump\n",
]


@pytest.mark.parametrize("text", HOLLOW)
def test_a_passage_without_a_word_of_its_own_is_hollow(text):
    assert is_hollow(text, ("Bilge pump", "Priming"))


@pytest.mark.parametrize("text", SPEAKING)
def test_a_passage_that_says_something_is_not(text):
    assert not is_hollow(text, ("Bilge pump", "Priming"))


@pytest.mark.parametrize("embedder", ["hash", "minilm-int8"])
@pytest.mark.parametrize("mode", ["hybrid", "fts", "vector"])
def test_what_says_it_stands_above_all_that_only_name_it(tmp_path, embedder, mode):
    with Library(tmp_path / "corpus", tmp_path / "store", embedder=embedder) as library:
        library.write({"says.md": SAYS, "path.md": NOTES["path.md"], "bilge pump.md": ""})
        library.write({f"a{number:02}.md": text for number, text in enumerate(HOLLOW) if text})
        library.ingest()
        for question in ("bilge pump", "how often is the bilge pump run", "priming the bilge pump"):
            results = library.search(question, mode=mode, k=20).results
            assert results[0].citation.source == "says.md", question


def test_a_name_is_found_where_others_have_only_some_of_its_words(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        library.write({"Bilge pump spares list.md": "", "says.md": SAYS})
        library.ingest()
        assert library.sources("bilge pump spares list", confidence="strict")[0] == "Bilge pump spares list.md"


def test_a_name_without_a_word_of_the_question_stands_behind_all_that_speak(tmp_path):
    """In a language the model does not know, a short name is near to everything."""
    names = {f"names/{name}.md": f"---\ntitle: {name}\n---\n" for name in ("Mussel", "Cockle", "Winkle", "Limpet")}
    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        library.write({**NOTES, **names})
        library.ingest()
        for mode in ("vector", "hybrid"):
            found = library.search("where does the snow lie", mode=mode, k=20).results
            spoken = [bool(each.text) for each in found]
            assert spoken == sorted(spoken, reverse=True) and any(spoken)
