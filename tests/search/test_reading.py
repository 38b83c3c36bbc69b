"""get_document: what is asked for is in the text, the answer says what it shows, and reading on reaches the end."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from typing import Any

import pytest
from cli_process import forked_cli
from governed import Caller
from hypothesis import given, settings
from hypothesis import strategies as st
from support import Library, growth

from rag_mcp.errors import InvalidArgument
from rag_mcp.models import Chunk, DocClass, SourceClass
from rag_mcp.requests import DocumentRequest
from rag_mcp.search.excerpt import excerpt
from rag_mcp.stores.embedded.keywords import TantivyReader
from rag_mcp.stores.manifest import ChangedFiles, ChunkRef

SENTENCES = " ".join(f"The ferryman counted {n} oars and wrote the sum into book {n % 9}." for n in range(400))
# No stretch of a document occurs twice in it, so that a place shown is found again.
DOCUMENTS = {
    "sections.md": "# Oars\n" + "".join(f"\n## Oar {n}\n\nOar {n} hangs on hook {n % 13}, dry.\n" for n in range(150)),
    "one-line.md": f"# Sums\n\n{SENTENCES}\n",
    "no-blank.md": "# Knot\n\n" + "".join(f"{n:05}" for n in range(2_400)) + "\n",
    "blanks.md": "# Wide\n\nbow" + " " * 2_500 + "stern\n",
    "table.md": "# Hooks\n\n| hook | oar |\n| --- | --- |\n" + "".join(f"| {n} | ash {n} |\n" for n in range(400)),
    "code.md": "# Winch\n\n```python\n" + "".join(f"    turn({n})\n\n\n" for n in range(200)) + "```\n",
    "signs.md": "# 櫂\n\n"
    + "".join(f"櫂{n}は乾く。" for n in range(500))
    + "\n\n"
    + " ".join(f"حبل{n}" for n in range(900))
    + "\n",
    "line-ends.md": "# Rope\r\n\r\n" + "".join(f"Rope {n} lies here.\r\n\r\n" for n in range(300)),
    "short.md": "# Bell\n\nIt rings.\n",
    "empty.md": "\n\n",
}


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reading")
    with Library(folder / "corpus", folder / "store") as library:
        library.write(DOCUMENTS)
        library.ingest()
        caller = Caller(library, "restricted")
        yield lambda **arguments: caller.ask("get_document", **arguments)


def whole_text(reader: Any, source: str) -> str:
    answer = reader(source=source, max_chars=100_000)
    assert "next" not in answer and "truncated" not in answer
    return str(answer["text"])


def read_on(reader: Any, answer: dict[str, Any], budget: int) -> list[dict[str, Any]]:
    pages = [answer]
    while "next" in pages[-1]:
        assert len(pages) < 3_000
        pages.append(reader(source=answer["source"], max_chars=budget, **pages[-1]["next"]))
    return pages


def place(whole: str, text: str, position: int) -> int:
    """Where ``text`` goes on in ``whole``, with nothing but blanks left out in between."""
    while not whole.startswith(text, position):
        assert whole[position].isspace(), f"a gap before {text[:40]!r}"
        position += 1
    return position


def check_pages(pages: list[dict[str, Any]], whole: str, first_line: int, position: int) -> None:
    """The pages are the rest of the document from ``position`` on, each with the lines it shows."""
    for page in pages:
        text = page["text"]
        position = place(whole, text, position)
        assert page["line_start"] == first_line + whole.count("\n", 0, position)
        position += len(text)
        assert page["line_end"] == first_line + whole.count("\n", 0, position - 1)
    assert position == len(whole)
    shown = [(page["chunk_start"], page["chunk_end"]) for page in pages]
    assert all(start <= end for start, end in shown)
    assert shown[-1][1] == pages[-1]["chunk_count"] - 1


def test_the_whole_of_a_document_is_its_file(reader):
    for source, text in DOCUMENTS.items():
        assert whole_text(reader, source) == text.replace("\r\n", "\n").strip("\n"), source


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(DOCUMENTS)), st.integers(200, 9_000))
def test_reading_on_comes_to_the_end_without_a_gap_or_a_repeat(reader, source, budget):
    whole = whole_text(reader, source)
    first = reader(source=source, max_chars=budget)
    if not whole:
        assert (first["text"], first["chunk_count"], first.get("next")) == ("", 1, None)
        return
    assert ("truncated" in first) == ("next" in first)
    pages = read_on(reader, first, budget)
    assert all(0 < len(page["text"]) <= budget for page in pages)
    check_pages(pages, whole, 1, 0)


@settings(deadline=None, max_examples=80)
@given(st.data(), st.sampled_from(sorted(set(DOCUMENTS) - {"empty.md"})), st.integers(0, 20), st.integers(200, 6_000))
def test_what_is_asked_for_is_in_the_text_and_context_gives_way(reader, data, source, context, budget):
    whole = reader(source=source, max_chars=100_000)
    index = data.draw(
        st.one_of(st.just(0), st.just(whole["chunk_count"] - 1), st.integers(0, whole["chunk_count"] - 1))
    )
    own = reader(source=source, chunk_index=index, context=0, max_chars=100_000)
    assert own["chunk_start"] == own["chunk_end"] == index
    answer = reader(source=source, chunk_index=index, context=context, max_chars=budget)
    assert len(answer["text"]) <= budget
    if len(own["text"]) > budget:
        assert own["text"].startswith(answer["text"]) and answer["truncated"]
        assert answer["next"] == {"from_chunk": index, "from_char": len(answer["text"])}
    else:
        assert own["text"] in answer["text"]
        wanted = max(0, index - context), min(whole["chunk_count"] - 1, index + context)
        assert wanted[0] <= answer["chunk_start"] <= index <= answer["chunk_end"] <= wanted[1]
        assert ("truncated" in answer) == ((answer["chunk_start"], answer["chunk_end"]) != wanted)
    lines = whole["text"].split("\n")
    start = sum(len(line) + 1 for line in lines[: answer["line_start"] - 1])
    start = whole["text"].index(answer["text"], start)
    check_pages(read_on(reader, answer, budget), whole["text"], 1, start)


def test_stepping_from_chunk_to_chunk_needs_nothing_but_chunk_end(reader):
    pages = [reader(source="sections.md", chunk_index=0, context=0)]
    while pages[-1]["chunk_end"] + 1 < pages[-1]["chunk_count"]:
        pages.append(reader(source="sections.md", chunk_index=pages[-1]["chunk_end"] + 1, context=0))
    check_pages(pages, whole_text(reader, "sections.md"), 1, 0)


def test_the_nearest_context_stays_and_the_far_gives_way(reader):
    answer = reader(source="sections.md", chunk_index=20, context=20, max_chars=1_200)
    assert answer["truncated"]
    before, after = 20 - answer["chunk_start"], answer["chunk_end"] - 20
    assert before >= 1 and after >= 1 and abs(before - after) <= 1


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"chunk_index": 10_000}, "chunk_index"),
        ({"from_chunk": 10_000}, "from_chunk"),
        ({"from_chunk": 0, "from_char": 10_000}, "from_char"),
        ({"from_chunk": 0, "chunk_index": 0}, "from_chunk"),
        ({"chunk_index": 0, "from_char": 3}, "from_char"),
        ({"from_chunk": -1}, "from_chunk"),
        ({"from_char": "later"}, "from_char"),
    ],
)
def test_a_place_the_document_does_not_have_is_an_error_that_names_it(reader, arguments, field):
    answer = reader(source="short.md", **arguments)
    assert answer["error"]["type"] == "invalid_argument" and answer["error"]["message"].startswith(f"{field}: ")


def test_a_document_without_text_is_one_empty_passage(reader):
    assert reader(source="empty.md", chunk_index=0)["text"] == ""
    assert "passages 0 to 0" in reader(source="empty.md", from_chunk=2)["error"]["message"]


# --- cost ------------------------------------------------------------------------------------------------------------


def passages(count: int, text: str) -> tuple[list[ChunkRef], dict[str, Chunk]]:
    refs = [ChunkRef(f"id{n}", "key", 2 * n + 1, 2 * n + 1, "digest") for n in range(count)]
    chunks = {
        ref.id: Chunk(
            id=ref.id, text_key="key", source="a.md", source_class=SourceClass.DOCS, project=None,
            doc_class=DocClass.NOTE, title="A", heading_path=(), index=n, line_start=ref.line_start,
            line_end=ref.line_end, start=n * len(text), end=(n + 1) * len(text), text=text,
        )
        for n, ref in enumerate(refs)
    }  # fmt: skip
    return refs, chunks


def test_only_what_is_shown_is_fetched_however_long_the_document_is():
    refs, chunks = passages(20_000, "x" * 400)
    fetched: list[str] = []

    def fetch(ids):
        fetched.extend(ids)
        return {i: chunks[i] for i in ids}

    part = excerpt(DocumentRequest("a.md", chunk_index=9_000, context=20, max_chars=2_000), refs, fetch)
    assert part.first < 9_000 < part.last and len(fetched) <= 96
    fetched.clear()
    assert excerpt(DocumentRequest("a.md", max_chars=2_000), refs, fetch).last == 3
    assert len(fetched) <= 32


def test_the_work_grows_with_the_budget_and_not_with_its_square():
    refs, chunks = passages(4_000, "word " * 12)

    def read(budget):
        return excerpt(DocumentRequest("a.md", max_chars=budget), refs, lambda ids: {i: chunks[i] for i in ids})

    assert growth(lambda size: size, read, 12_000) < 3


UNITS = ("\x9d", "\x1b]", "\u200b", "\u202e", "\ufe0f", "e\u0301\u0327")
SMALL, LARGE = 6_000, 48_000


@pytest.fixture(scope="module")
def pumps(tmp_path_factory):
    """One store with a small and a large document of each unit.

    No larger than this: passages that are all the same cost Chroma's index quadratic time.
    """
    folder = tmp_path_factory.mktemp("pumps")
    with Library(folder / "corpus", folder / "store") as library:
        for n, unit in enumerate(UNITS):
            head = f"# Pump {n}\n\nThe cellar pump {n} is loud.\n\n"
            library.write({f"{n}/{size}.md": head + unit * (size // len(unit)) + "\n" for size in (SMALL, LARGE)})
        library.ingest()
        yield Caller(library, "restricted")


@pytest.mark.parametrize("unit", UNITS, ids=ascii)
def test_an_answer_costs_what_it_shows_and_not_what_the_document_holds(pumps, unit, monkeypatch):
    fetched: list[str] = []
    fetch = TantivyReader.fetch

    def counting(reader, classes, ids):
        fetched.extend(ids)
        return fetch(reader, classes, ids)

    monkeypatch.setattr(TantivyReader, "fetch", counting)

    def read(size):
        fetched.clear()
        answer = pumps.ask("get_document", source=f"{UNITS.index(unit)}/{size}.md", max_chars=4_000)
        assert "cellar pump" in answer["text"]
        assert not set(answer["text"]) & set("\x9d\x1b\u200b\u202e")
        return len(fetched)

    assert 0 < read(LARGE) <= read(SMALL) + 16
    assert growth(lambda size: size, read, SMALL) < 1
    found = [hit["text"] for hit in pumps.search("cellar pump loud")["results"]]
    assert any(f"The cellar pump {UNITS.index(unit)} is loud." in text for text in found)


# --- names -----------------------------------------------------------------------------------------------------------

NAMES = ("Werft/Prüfstand Möwe.md", "Ångström/한국어.md", "प्रश्न/क़लम.md", "Ελλάδα/ἀρχή.md", "Việt/Nước.md")
FORMS = ("NFC", "NFD")


def spelled(form: str, text: str) -> str:
    return unicodedata.normalize(form, text)


@pytest.mark.parametrize("stored", FORMS)
@pytest.mark.parametrize("typed", FORMS)
@pytest.mark.parametrize("name", NAMES)
def test_a_name_in_any_canonical_form_opens_and_lists_what_is_stored_in_any(library, name, stored, typed):
    path = spelled(stored, name)
    library.write({path: "# Crane\n\nIt is greased in May.\n", "plain/ok.md": "# Fine\n\nPlain.\n"})
    library.ingest()
    caller = Caller(library, "restricted")
    answer = caller.ask("get_document", source=spelled(typed, name))
    assert answer["source"] == path and "greased in May" in answer["text"]
    folder = spelled(typed, name).split("/")[0]
    for prefix in (folder, f"{folder}/", f"./{folder}", spelled(typed, name)):
        assert caller.listed(prefix=prefix) == [path]


def test_two_files_that_differ_by_form_alone_stay_apart(library):
    composed, decomposed = (spelled(form, "Brücke/Öl.md") for form in FORMS)
    library.write({composed: "# Oil\n\nThe composed one.\n", decomposed: "# Oil\n\nThe decomposed one.\n"})
    if len(list(library.corpus.iterdir())) == 1:
        pytest.skip("this file system takes both names for one")
    library.ingest()
    caller = Caller(library, "restricted")
    for path in (composed, decomposed):
        assert caller.ask("get_document", source=path)["source"] == path
        assert caller.listed(prefix=path.split("/")[0]) == [path]
    neither = f"{composed.split('/')[0]}/{decomposed.split('/')[1]}"
    assert caller.ask("get_document", source=neither)["error"]["type"] == "not_found"


def test_a_hidden_file_of_the_same_name_neither_opens_nor_stands_in_the_way(library):
    composed, decomposed = (spelled(form, "Brücke/Öl.md") for form in FORMS)
    library.write({composed: "# Oil\n\nThe composed one.\n", decomposed: "# Oil\n\nThe decomposed one.\n"})
    if len(list(library.corpus.iterdir())) == 1:
        pytest.skip("this file system takes both names for one")
    library.ingest()
    caller = Caller(library, "restricted")
    opened = caller.base._live.current().generation
    files = opened.manifest.files
    moved = replace(files[composed], source_class=SourceClass.MEMORY)  # no rule can tell the two apart
    opened.manifest = replace(opened.manifest, files=ChangedFiles(files, {composed: moved}, ()))
    assert caller.ask("get_document", source=composed)["source"] == decomposed
    assert caller.listed(prefix=composed.split("/")[0]) == [decomposed]


def test_a_name_that_looks_encoded_is_a_name_and_opens(library):
    library.write({"notes/50%2f50.md": "# Half\n\nHalf and half.\n", "%2e%2e/a.md": "# Dots\n\nDots.\n"})
    library.ingest()
    caller = Caller(library, "restricted")
    assert "Half and half" in caller.ask("get_document", source="notes/50%2f50.md")["text"]
    assert caller.listed(prefix="%2e%2e") == ["%2e%2e/a.md"]
    assert caller.ask("get_document", source="notes/50/50.md")["error"]["type"] == "not_found"


def test_every_indexed_path_can_be_asked_for_and_paged_behind_however_long(library):
    long = "/".join([*(f"{n:02}-{'folder' * 30}" for n in range(8)), "leaf.md"])
    assert len(long) > 1_400
    library.write({long: "# Deep\n\nFar down.\n", "zz.md": "# Last\n\nLast.\n"})
    library.ingest()
    caller = Caller(library, "restricted")
    assert "Far down" in caller.ask("get_document", source=long)["text"]
    page = caller.ask("list_documents", limit=1)
    assert [entry["source"] for entry in page["documents"]] == [long]
    assert caller.listed(cursor=page["next_cursor"]) == ["zz.md"]


def test_from_char_without_from_chunk_reads_the_first_chunk():
    assert DocumentRequest.parse({"source": "a.md", "from_char": 4}) == DocumentRequest("a.md", from_char=4)
    with pytest.raises(InvalidArgument):
        DocumentRequest.parse({"source": "a.md", "from_char": 4, "chunk_index": 1})


# --- equal texts -----------------------------------------------------------------------------------------------------

HOURS = "Closed at dusk by the watchman, who hangs the key on the second nail of the board.\n"
DOORS = f"""# Doors

## North door

It faces the lighthouse.

### Hours

{HOURS}
## East door

### Hours

Never closed; the east door has no lock.

## South door

It faces the orchard.

### Hours

{HOURS}"""


def test_equal_text_under_two_headings_is_cited_at_both_places(library):
    long = f"\n## Oars\n\n{SENTENCES[:2_000]}.\n"  # short notes would come whole
    sheds = f"# Sheds\n\n## Boat shed\n\nIt smells of tar.\n\n### Hours\n\n{HOURS}"
    library.write({"doors.md": DOORS + long, "sheds.md": sheds + long})
    library.ingest()
    found = Caller(library, "restricted").search("which are closed at dusk by the watchman")["results"]
    shown = [hit for hit in found if "watchman" in (hit["text"] or "")]
    assert len(shown) == 1
    places = [shown[0]["citation"], *shown[0]["also_in"]]
    files = {"doors.md": DOORS, "sheds.md": sheds}
    assert {tuple(place["heading_path"])[-2:] for place in places} == {
        ("North door", "Hours"), ("South door", "Hours"), ("Boat shed", "Hours")
    }  # fmt: skip
    for place in places:
        lines = files[place["source"]].split("\n")[place["line_start"] - 1 : place["line_end"]]
        assert HOURS.strip() in lines


# --- one line --------------------------------------------------------------------------------------------------------

ENDS = "\r \x0b \x0c \x1c \x1d \x1e \x85 \u2028 \u2029"


def test_titles_headings_and_paths_of_headings_are_one_line_in_every_answer(library):
    escaped = ENDS.encode("unicode_escape").decode("ascii")
    library.write(
        {
            "titled.md": f'---\ntitle: "Winch {escaped} 1. forged.md:1-9"\n---\n# Winch\n\nThe winch turns.\n',
            "headed.md": f"# Capstan {ENDS} 1. forged.md:1-9\n\n## Bar {ENDS} bar\n\nThe capstan turns.\n",
        }
    )
    library.ingest()
    caller = Caller(library, "restricted")
    found = caller.search("winch capstan turns")["results"]
    names = [entry["title"] for entry in caller.ask("list_documents")["documents"]]
    names += [caller.ask("get_document", source=source)["title"] for source in ("titled.md", "headed.md")]
    for hit in found:
        cited = hit["citation"]
        names += [*cited.get("heading_path", ()), *([cited["title"]] if "title" in cited else [])]
    assert len(names) >= 8 and any("forged" in name for name in names)
    assert not [name for name in names if len(name.splitlines()) > 1 or "\ufffd" in name]


# --- long series -----------------------------------------------------------------------------------------------------


def test_a_passage_of_a_long_series_names_its_newest_days_and_counts_all(library):
    days = [f"2031-{month:02}-{day:02}" for month in range(1, 6) for day in range(1, 29)]
    library.write({f"gauge-{day}.md": "# Gauge\n\nThe gauge stood still.\n" for day in days})
    library.ingest()
    cited = Caller(library, "restricted").search("gauge stood still")["results"][0]["citation"]
    assert (cited["snapshots_covered"], cited["snapshot_date"]) == (140, days[0])
    assert cited["also_unchanged_on"] == days[-100:]


def test_a_text_in_many_places_names_some_and_counts_all(library):
    library.write({f"shed{n}.md": f"# Shed\n\n{HOURS}" for n in range(30)})
    library.ingest()
    [hit] = Caller(library, "restricted").search("closed at dusk by the watchman")["results"]
    assert (len(hit["also_in"]), hit["also_in_total"]) == (20, 29)
    done = forked_cli("query", "closed at dusk by the watchman", "--db", library.store_path, "--confidence", "normal")
    assert done.stdout.count("same text in shed") == 5 and "and in 24 more places" in done.stdout
