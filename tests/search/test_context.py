"""What stands around a hit: all of a short note, neighbours that were asked for, no passage twice, nothing of another."""

from __future__ import annotations

import pytest
from governed import Caller
from hypothesis import given, settings
from hypothesis import strategies as st
from support import Library

from rag_mcp.search.context import SHORT_NOTE_CHARS

FILLER = "The ledger of the rope walk is kept dry and counted by nobody in particular. "
CELLAR = """---
owner: Ada
---
# Cellar

The cellar floods in spring.

## Pump

The walrus pump stands by the stairs.

## Switch

The walrus switch is behind the door.
"""


def ropes(sections: int, words: dict[int, str]) -> str:
    """A long document; the sections named in ``words`` say them, and no two of a chapter stand side by side."""
    return "# Ropes\n" + "".join(
        f"\n## Rope {n}\n\n### Use {n}\n\n{FILLER * 4}{n:04} {words.get(n, '')}\n" for n in range(sections)
    )


def shown(answer):
    return [(hit["citation"]["source"], hit["text"]) for hit in answer["results"]]


@pytest.fixture
def library(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store") as found:
        yield found


def lines_of(library: Library, citation) -> str:
    lines = (library.corpus / citation["source"]).read_text(encoding="utf-8").split("\n")
    return "\n".join(lines[citation["line_start"] - 1 : citation["line_end"]])


def asked(library: Library, query: str, **arguments):
    return Caller(library, "restricted").search(query, **arguments)


# --- a short note


def test_a_short_note_comes_whole_and_once_with_all_its_lines_cited(library):
    library.write({"cellar.md": CELLAR, "ropes.md": ropes(9, {})})
    library.ingest()
    hits = [hit for hit in asked(library, "walrus pump")["results"] if hit["citation"]["source"] == "cellar.md"]
    assert [hit["text"] for hit in hits] == [CELLAR.split("---\n")[2].strip()]
    citation = hits[0]["citation"]
    assert (citation["line_start"], citation["line_end"], citation["chunk_index"]) == (4, 14, 0)
    assert citation["heading_path"] == ["Cellar", "Pump"]


def test_a_note_of_more_than_the_budget_comes_as_the_passage_that_was_found(library):
    def note(chars: int, hour: int) -> str:
        head, tail = "# Barn\n\nThe barn is red.\n\n## Loft\n\n", f"\n\n## Owl\n\nThe marmot wakes the owl at {hour}.\n"
        return head + (FILLER * 40)[: chars - len(head) - len(tail)] + "." + tail

    library.write({"fits.md": note(SHORT_NOTE_CHARS, 5), "over.md": note(SHORT_NOTE_CHARS + 1, 6)})
    library.ingest()
    texts = dict(shown(asked(library, "marmot owl", mode="fts")))
    assert texts["fits.md"] == note(SHORT_NOTE_CHARS, 5).strip()
    assert texts["over.md"] == "## Owl\n\nThe marmot wakes the owl at 6."


def test_a_short_day_of_a_series_comes_as_its_passage(library):
    days = {1: "green", 2: "amber", 3: "white"}
    library.write(
        {
            f"log-2031-03-0{n}.md": f"# Log\n\n## Lamp\n\nIt is {word}.\n\n## Horn\n\nThe horn sounds.\n"
            for n, word in days.items()
        }
    )
    library.ingest()
    hits = asked(library, "horn sounds", mode="fts", as_of="2031-03-02")["results"]
    assert [hit["text"] for hit in hits if "horn" in hit["text"]] == ["## Horn\n\nThe horn sounds."]
    assert hits[0]["citation"]["also_unchanged_on"] == ["2031-03-02", "2031-03-03"]


# --- neighbours


def test_neighbours_are_the_text_around_as_get_document_gives_it(library):
    library.write({"ropes.md": ropes(30, {14: "walrus"})})
    library.ingest()
    caller = Caller(library, "restricted")
    own = caller.search("walrus", k=1, mode="fts")["results"][0]
    for neighbours in (1, 3):
        hit = caller.search("walrus", k=1, mode="fts", neighbours=neighbours)["results"][0]
        around = caller.ask(
            "get_document", source="ropes.md", chunk_index=own["citation"]["chunk_index"], context=neighbours
        )
        assert hit["text"] == around["text"].strip("\n") != own["text"]
        assert hit["citation"]["heading_path"] == own["citation"]["heading_path"]
        for field in ("line_start", "line_end"):
            assert hit["citation"][field] == around[field]
        assert hit["citation"]["chunk_index"] == around["chunk_start"]


def test_neighbours_end_where_the_document_does(library):
    library.write({"a.md": ropes(30, {0: "walrus", 29: "walrus"}), "b.md": ropes(9, {})})
    library.ingest()
    hits = asked(library, "walrus", mode="fts", neighbours=20)["results"]
    assert {hit["citation"]["source"] for hit in hits} == {"a.md"}
    assert min(hit["citation"]["line_start"] for hit in hits) == 1


def test_what_is_around_gives_way_before_what_was_found(library):
    library.write({"ropes.md": ropes(60, {n: "walrus" for n in range(10, 50, 8)})})
    library.ingest()
    alone = asked(library, "walrus", mode="fts", k=5)["results"]
    around = asked(library, "walrus", mode="fts", k=5, neighbours=2, max_chars=4_000)["results"]
    assert len(around) == 5 and sum(len(hit["text"]) for hit in around) <= 4_000
    for hit, own in zip(around, alone, strict=True):
        assert own["text"] in hit["text"] and "truncated" not in own
    assert len(around[0]["text"]) > len(alone[0]["text"])


def test_neighbours_with_as_of_are_those_of_that_day_and_no_other_day_is_said_of_them(library):
    def day(lamp: str) -> str:
        return f"# Log\n\n## Lamp\n\n{FILLER * 4}It is {lamp}.\n\n## Horn\n\n{FILLER * 4}The walrus sounds.\n\n## Sail\n\n{FILLER * 4}Set.\n"

    library.write({f"log-2031-03-0{n}.md": day(lamp) for n, lamp in ((1, "green"), (2, "amber"), (3, "amber"))})
    library.ingest()
    hit = asked(library, "walrus sounds", mode="fts", k=1, as_of="2031-03-02", neighbours=1)["results"][0]
    assert "It is amber." in hit["text"] and "Set." in hit["text"] and "green" not in hit["text"]
    citation = hit["citation"]
    assert citation["source"] == "log-2031-03-02.md" and hit["text"] == lines_of(library, citation)
    assert (citation["snapshot_date"], citation["also_unchanged_on"]) == ("2031-03-02", ["2031-03-03"])
    alone = asked(library, "walrus sounds", mode="fts", k=1, as_of="2031-03-02")["results"][0]["citation"]
    assert (alone["snapshot_date"], alone["snapshots_covered"]) == ("2031-03-01", 3)


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    folder = tmp_path_factory.mktemp("crowd")
    with Library(folder / "corpus", folder / "store") as library:
        library.write(
            {
                "many.md": ropes(40, {n: "walrus " * (n % 4) + "marmot " * (n % 3) for n in range(0, 40, 3)}),
                "flat.md": "# Flat\n" + "".join(f"\n## Part {n}\n\n{FILLER}walrus {n:03}\n" for n in range(40)),
                "cellar.md": CELLAR,
            }
        )
        library.ingest()
        yield Caller(library, "restricted")


@given(
    query=st.sampled_from(["walrus", "marmot", "walrus marmot", "walrus pump"]),
    k=st.integers(1, 19),
    neighbours=st.integers(0, 6),
    budget=st.sampled_from([700, 3_000, 12_000, 100_000]),
)
@settings(max_examples=60, deadline=None)
def test_no_passage_comes_twice_and_a_short_answer_begins_a_long_one(crowd, query, k, neighbours, budget):
    arguments = {"neighbours": neighbours, "max_chars": budget, "mode": "fts"}
    long = crowd.search(query, k=20, **arguments)["results"]
    assert crowd.search(query, k=k, **arguments)["results"] == long[:k]
    assert sum(len(hit["text"] or "") for hit in long) <= budget
    taken: set[tuple[str, int]] = set()
    for hit in long:
        cited = hit["citation"]
        lines = {(cited["source"], line) for line in range(cited["line_start"], cited["line_end"] + 1)}
        assert not lines & taken
        taken |= lines


# --- siblings


def test_sections_side_by_side_that_were_both_found_come_as_one(library):
    sections = "".join(f"\n## Part {n}\n\n{FILLER * 5}{'walrus' if n in (7, 8) else n}\n" for n in range(20))
    library.write({"flat.md": f"# Flat\n{sections}"})
    library.ingest()
    (hit,) = asked(library, "walrus", mode="fts")["results"]
    assert hit["text"] == lines_of(library, hit["citation"])
    assert "## Part 7" in hit["text"] and "## Part 8" in hit["text"] and "## Part 9" not in hit["text"]


def test_sections_of_two_chapters_stay_apart(library):
    library.write({"ropes.md": ropes(20, {7: "walrus", 8: "walrus"})})
    library.ingest()
    assert len(asked(library, "walrus", mode="fts")["results"]) == 2
