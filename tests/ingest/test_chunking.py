"""Passages tile the file, know their headings and lines, and are never larger than the embedder reads."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support import keeps_pace

import rag_mcp
from rag_mcp.errors import InvalidArgument
from rag_mcp.models import Passage
from rag_mcp.text.blocks import code_ranges
from rag_mcp.text.chunking import chunk_text
from rag_mcp.text.decode import decode
from rag_mcp.text.embedded import embedded_text
from rag_mcp.text.frontmatter import parse_front_matter
from rag_mcp.text.headings import first_heading
from rag_mcp.text.limits import ChunkLimits


def words(text: str) -> int:
    return len(text.split())


def cut(text: str, *, title: str | None = None, count: Callable[[str], int] = words, **limits: int) -> list[Passage]:
    return chunk_text(text, title=title, count=count, limits=ChunkLimits(**limits))


def holding(passages: list[Passage], text: str) -> Passage:
    (found,) = [passage for passage in passages if text in passage.text]
    return found


def assert_tiles(text: str, passages: list[Passage], *, body_start: int = 0) -> None:
    at = body_start
    for passage in passages:
        assert not text[at : passage.start].strip()
        assert passage.start < passage.end
        assert text[passage.start : passage.end] == passage.text
        assert passage.line_start == text.count("\n", 0, passage.start) + 1
        assert passage.line_end == text.count("\n", 0, passage.end) + 1
        assert passage.text.strip()
        at = passage.end
    assert not text[at:].strip()


def assert_fits(
    passages: list[Passage], title: str | None, limits: ChunkLimits, count: Callable[[str], int] = words
) -> None:
    for passage in passages:
        assert count(embedded_text(title, passage.heading_path, passage.shown, limits=limits)) <= limits.max_tokens
        assert len(passage.text) <= limits.max_chars


# --- headings --------------------------------------------------------------------------------------------------------

KETTLE = """# Kettle controller

Intro about the board.

## Warm-up script

```sh
# warm the element
kettlectl pulse --seconds 4
```

After the script the lamp turns teal.

~~~python title="probe.py"
# read probe twice
~~~

1. Numbered step:

   ```ini
   # spout section
   flow = 3
   ```

```js {1,3} showLineNumbers
# not a heading either
```

    # indented code

<!--
# commented out
-->

> # quoted

- # listed

## Descaling

Use citric powder.
"""


def test_only_headings_of_the_document_open_sections() -> None:
    passages = cut(KETTLE, max_tokens=400)
    assert [passage.heading_path for passage in passages] == [
        ("Kettle controller",),
        ("Kettle controller", "Warm-up script"),
        ("Kettle controller", "Descaling"),
    ]
    assert all(text in passages[1].text for text in ("# warm the element", "flow = 3", "lamp turns teal", "# listed"))


def test_the_path_follows_levels_through_jumps_and_a_second_title() -> None:
    text = (
        "# Plant\n\n### Pumps\n\na\n\n### Boilers\n\nb\n\n## Safety\n\nc\n\n#### Deep\n\nd\n\n## 24/7 watch\n\ne\n\n"
        "Appendix\n========\n\nf\n\n## Limits\n\ng\n\nLimits\n------\n\nh\n"
    )
    assert [passage.heading_path for passage in cut(text)] == [
        ("Plant", "Pumps"),
        ("Plant", "Boilers"),
        ("Plant", "Safety"),
        ("Plant", "Safety", "Deep"),
        ("Plant", "24/7 watch"),
        ("Appendix",),
        ("Appendix", "Limits"),
        ("Appendix", "Limits"),
    ]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("`run` the *big* __test__ ##", "run the big test"),
        ("[A link](http://x.y) and ![alt](z.png)", "A link and alt"),
        ("Tea &amp; co \\* <br> x", "Tea & co * x"),
        ("Setup {#setup-now}", "Setup"),
        ("[Defined] and [not]", "Defined and [not]"),
        ("a\tb", "a b"),
    ],
)
def test_heading_names_are_plain_words(source: str, name: str) -> None:
    text = f"# {source}\n\nbody\n\n[defined]: http://x.y\n"
    assert cut(text)[0].heading_path == (name,)
    assert first_heading(text) == name


def test_the_first_level_one_heading_is_found_wherever_it_is() -> None:
    assert first_heading("intro\n\n## Two\n\n```\n# no\n```\n\nOne\n===\n\n# Later\n") == "One"
    assert first_heading("# ```\n#\n\n# Real\n") == "```"
    assert first_heading("#\n\n# Real\n") == "Real"
    assert first_heading("## Only two\n\n> # quoted\n") is None
    assert first_heading("# front\n# body\n", 8) == "body"


# --- nothing is lost -------------------------------------------------------------------------------------------------


def test_the_text_before_the_first_heading_has_no_path() -> None:
    passages = cut("PREAMBLE-ONE\n\n# First\n\nBody.\n")
    assert [(passage.text, passage.heading_path) for passage in passages] == [
        ("PREAMBLE-ONE", ()),
        ("# First\n\nBody.", ("First",)),
    ]


def test_a_file_without_headings_is_one_passage() -> None:
    (passage,) = cut("HEADERLESS-TWO\n\ncopper gasket\n")
    assert (passage.heading_path, passage.line_start, passage.line_end) == ((), 1, 3)


@pytest.mark.parametrize(
    "body",
    [
        "", "TODO", "*To be written.*", "...", "---", "![the valve](valve.png)", "![[valve.png]]", '<img src="v.png">',
        "[comment not shown]", "[Old valves](#old-valves)", "[[Old valves]]", "-", "- [ ] TBD", "| a | b |\n|---|---|", "> TBA", "n/a",
        "### Deeper",
    ],
)  # fmt: skip
def test_a_section_that_says_nothing_beyond_its_heading_goes_with_the_one_before(body: str) -> None:
    text = f"# Valves\n\nTwo.\n\n## Old valves\n\n{body}\n\n## New valves\n\nThree.\n"
    passages = cut(text)
    assert_tiles(text, passages)
    assert [passage.heading_path for passage in passages] == [("Valves",), ("Valves", "New valves")]
    assert "Old valves" in embedded_text(None, passages[0].heading_path, passages[0].shown)
    older = body.replace("Old", "Older").replace("old", "older")
    last = cut(f"# Valves\n\nTwo.\n\n## Old valves\n\n{body}\n\n## Older valves\n\n{older}\n")
    assert [passage.heading_path for passage in last] == [("Valves",)]


@pytest.mark.parametrize(
    "body", ["Rust.", "```\nx = 1\n```", "| a |\n|---|\n| 1 |", "![a](a.png) rusty", "[TODO list](todo.md) of May"]
)
def test_a_section_that_says_a_little_is_a_passage(body: str) -> None:
    passages = cut(f"# Valves\n\nTwo.\n\n## Old valves\n\n{body}\n")
    assert [passage.heading_path for passage in passages] == [("Valves",), ("Valves", "Old valves")]


def test_a_heading_without_a_body_goes_with_its_subsection_and_at_the_start_with_what_follows() -> None:
    passages = cut("# A\n\n## B\n\n## C\n\n### D\n\ntext\n\n## E\n\nTODO\n\n### F\n\nmore\n")
    assert [(passage.heading_path, passage.text) for passage in passages] == [
        (("A", "C", "D"), "# A\n\n## B\n\n## C\n\n### D\n\ntext"),
        (("A", "E", "F"), "## E\n\nTODO\n\n### F\n\nmore"),
    ]
    assert [passage.text for passage in cut("# Only\n\nTODO\n")] == ["# Only\n\nTODO"]
    assert len(cut("# One\n\n# Two\n\n# Three\n")) == 1


def test_a_passage_from_inside_a_list_knows_the_items_above_it() -> None:
    def mill(name: str) -> str:
        parts = "".join(
            f"  1. [ ] **{part}** check\n\t\t- {'oil and wipe ' * 12}\n\t\t- {'turn and look ' * 12}\n" for part in "ab"
        )
        return f"- {name} mill\n{parts}"

    text = f"# Mills\n\n{mill('Upper')}{mill('Lower')}"
    passages = cut(text, max_tokens=40, soft_tokens=30, min_tokens=5)
    assert_tiles(text, passages)
    assert_fits(passages, None, ChunkLimits(max_tokens=40, soft_tokens=30, min_tokens=5))
    paths = {passage.heading_path for passage in passages if "turn and look" in passage.text}
    assert paths == {("Mills", f"{name} mill", f"{part} check") for name in ("Upper", "Lower") for part in "ab"}
    assert cut("- one\n  - two\n")[0].heading_path == ()


def test_very_many_tiny_sections_are_joined_under_what_their_paths_share() -> None:
    text = "# Words\n\n" + "".join(f"## w{number}\n\nx\n\n" for number in range(3_000))
    passages = cut(text, title="T")
    assert_tiles(text, passages)
    assert_fits(passages, "T", ChunkLimits())
    assert {passage.heading_path for passage in passages} == {("Words",)}
    assert len(passages) < len(text) / 200
    assert len(cut(text[:9_000])) > 500


def test_a_file_of_very_many_lines_keeps_its_headings_and_fences() -> None:
    text = "# Long ##\n\n" + "a b c\n\n" * 20_000 + "```\n# code\n```\n\n## Last [part](x)\n\nThe end.\n"
    passages = cut(text)
    assert_tiles(text, passages)
    assert_fits(passages, None, ChunkLimits())
    assert holding(passages, "The end.").heading_path == ("Long", "Last part")
    assert holding(passages, "# code").heading_path == ("Long",)
    assert code_ranges(text) == [(text.index("```"), text.index("\n\n## Last"))]
    assert first_heading(text) == "Long"


@pytest.mark.parametrize("text", ["", "\n\n   \n\t\n", "\x0c\u2028\n"])
def test_blank_files_have_no_passages(text: str) -> None:
    assert cut(text) == []


def test_link_definitions_are_kept() -> None:
    text = "[a]: http://one.example\n\n# H\n\ntext\n\n[b]: http://two.example\n"
    assert_tiles(text, cut(text))
    assert cut("[only]: http://definition.example\n")[0].text == "[only]: http://definition.example"


def test_front_matter_is_no_passage_and_lines_count_from_the_top_of_the_file() -> None:
    body = (
        "---\ntitle: Lighthouse\ntags: [lens]\n---\n# Lighthouse\n\nOil.\n\n## Stairs\n\nThere are ninety-one stairs.\n"
    )
    raws = [body.encode(), b"\xef\xbb\xbf" + body.encode()]
    raws += [body.replace("\n", ending).encode() for ending in ("\r\n", "\r")]
    results = []
    for raw in raws:
        text = decode(raw)
        start = parse_front_matter(text).body_start
        results.append(chunk_text(text, body_start=start, title="Lighthouse", count=words))
        assert_tiles(text, results[-1], body_start=start)
    assert all(result == results[0] for result in results)
    stairs = holding(results[0], "ninety-one stairs")
    assert (stairs.heading_path, stairs.line_start, stairs.line_end) == (("Lighthouse", "Stairs"), 9, 11)


def test_a_repeated_block_is_cited_at_each_of_its_places() -> None:
    block = "- rinse\n- drain\n- close the valve\n- sign\n\n"
    text = "".join(f"## Round {number}\n\n{block}" for number in range(6))
    assert [passage.line_start for passage in cut(text)] == [1, 8, 15, 22, 29, 36]


# --- the embedded text -----------------------------------------------------------------------------------------------


def test_title_headings_and_text_are_embedded_once_each() -> None:
    text = "# Kiln\n\n## Glaze *schedule* ##\n\nStarts at six.\n"
    (passage,) = cut(text)
    assert embedded_text("Pottery", passage.heading_path, passage.shown) == (
        "Pottery\nKiln\nGlaze schedule\n\nStarts at six."
    )
    assert embedded_text("kiln", passage.heading_path, passage.shown) == "Kiln\nGlaze schedule\n\nStarts at six."
    assert embedded_text(None, (), "# Other\ntext") == "# Other\ntext"


def test_a_setext_heading_is_not_repeated_and_a_rule_is_no_heading() -> None:
    (passage,) = cut("Glaze\nschedule\n===\n\nSix.\n")
    assert embedded_text(None, passage.heading_path, passage.shown) == "Glaze schedule\n\nSix."
    assert embedded_text(None, ("a",), "a\n\n---\nb") == "a\n\na\n\n---\nb"


def test_code_that_follows_a_heading_keeps_its_words() -> None:
    assert embedded_text("T", ("Setup",), "# Setup\n\n    # other\n    run") == "T\nSetup\n\n# other\n    run"


def test_another_heading_is_another_embedded_text() -> None:
    assert embedded_text("T", ("A",), "x") != embedded_text("T", ("B",), "x")


def test_a_long_path_is_shortened_to_the_heading_the_title_and_an_ellipsis() -> None:
    path = tuple(f"Level {number} " + "word " * 100 for number in range(6))
    context = embedded_text("Title of the file", path, "")
    assert len(context) < 200
    assert "Level 5 word" in context
    assert context.startswith("Title of the file\n")
    assert "…" in context
    assert embedded_text("T", path, "body").endswith("\n\nbody")


def test_an_ordinary_path_is_never_shortened() -> None:
    path = ("Kiln operating manual", "Glaze firing schedule", "Before the first firing of a new year")
    assert embedded_text("Pottery workshop", path, "") == "\n".join(("Pottery workshop", *path))


# --- sizes -----------------------------------------------------------------------------------------------------------


def test_a_section_within_the_limit_is_never_cut() -> None:
    text = "".join(f"## S{number}\n\n" + "word " * (140 + 10 * number) + "\n\nlast\n\n" for number in range(10))
    assert len(cut(text, max_tokens=256)) == 10


def test_an_oversized_section_ends_in_even_passages_and_no_crumb() -> None:
    text = "# H\n\n" + ("word " * 28 + "\n\n") * 10
    sizes = [words(passage.text) for passage in cut(text, max_tokens=256, soft_tokens=200)]
    assert len(sizes) == 2
    assert max(sizes) - min(sizes) <= 30


def test_whole_blocks_are_kept_and_a_lead_in_stays_with_its_list() -> None:
    prose = "word " * 60
    fence = "```\n" + "a = b\n\n" * 25 + "```"
    listing = "Take these:\n\n- one " + "x " * 30 + "\n- two " + "y " * 30
    text = f"# H\n\n{prose}\n\n{fence}\n\n{prose}\n\n{listing}\n\n{prose}\n"
    passages = cut(text, max_tokens=150, soft_tokens=120)
    assert_tiles(text, passages)
    assert fence in holding(passages, "a = b").text
    assert "- one" in holding(passages, "Take these:").text


def test_a_long_list_is_cut_between_top_level_items_first() -> None:
    text = "# H\n\n" + "".join(f"- item {number}\n  - {'sub ' * 12}\n  - {'sub ' * 12}\n" for number in range(20))
    passages = cut(text, max_tokens=100, soft_tokens=80)
    assert len(passages) > 5
    assert all(passage.text.startswith(("# H", "- item")) for passage in passages)


def test_an_oversized_item_is_cut_between_its_nested_items() -> None:
    text = "- top\n" + "".join(f"  - nested {number} {'sub ' * 10}\n" for number in range(20))
    passages = cut(text, max_tokens=60, soft_tokens=50)
    assert len(passages) > 3
    assert all(passage.text.startswith(("- top", "  - nested")) for passage in passages)


def test_code_is_cut_at_blank_lines_and_else_at_lines() -> None:
    functions = "\n\n".join(f"def f{number}():\n    x = {'1 + ' * 20}1\n    return x" for number in range(12))
    passages = cut(f"# H\n\n```python\n{functions}\n```\n", max_tokens=120, soft_tokens=100)
    assert len(passages) > 3
    assert all(passage.text.startswith(("# H", "def f")) for passage in passages)
    lines = cut("```\n" + "alpha beta gamma\n" * 200 + "```\n", max_tokens=60, soft_tokens=50)
    assert all(
        passage.text.startswith(("```", "alpha")) and passage.text.endswith(("gamma", "```")) for passage in lines
    )


def test_prose_is_cut_at_sentence_ends() -> None:
    text = "The clerk read the minutes aloud. The weather was noted!\nWho asked? Version 1.5 works e.g. here now. " * 20
    passages = cut(text, max_tokens=60, soft_tokens=50)
    assert len(passages) > 5
    assert all(passage.text[-1] in ".!?" for passage in passages)
    japanese = cut("委員会は議事録を確認した。" * 40, count=len, max_tokens=100, soft_tokens=80)
    assert all(passage.text.endswith("。") for passage in japanese)


def test_a_sentence_without_ends_is_cut_between_words() -> None:
    text = "supercalifragilistic " * 500
    passages = cut(text, max_tokens=50)
    assert all(set(passage.text.split()) == {"supercalifragilistic"} for passage in passages)


def test_a_cut_never_parts_a_letter_from_its_accents() -> None:
    text = "e\u0301\u0323" * 2_000
    passages = cut(text, count=len, max_tokens=64)
    assert len(passages) > 50
    assert all(passage.text.startswith("e") for passage in passages)


TABLE_HEADER = "| Valve id | Material | Location |\n| --- | :---: | --- |\n"
ROWS = [f"| VLV-{number:04} | steel plate | bay B{number % 10} |\n" for number in range(1, 121)]
REGISTER = "# Valve register\n\n## Main table\n" + TABLE_HEADER + "".join(ROWS) + "\nTB-NOTE: see above.\n"


def test_rows_stay_whole_and_every_part_of_a_table_shows_its_column_names() -> None:
    passages = cut(REGISTER, max_tokens=120, soft_tokens=100)
    assert_tiles(REGISTER, passages)
    assert len(passages) > 8
    for row in ROWS:
        assert row.rstrip() in holding(passages, row.rstrip()).text
    for passage in passages:
        assert passage.heading_path == ("Valve register", "Main table")
        if passage.text.startswith("| VLV-"):
            assert passage.table_header == TABLE_HEADER
            assert passage.shown == TABLE_HEADER + passage.text
        else:
            assert passage.table_header == ""
    assert_fits(passages, None, ChunkLimits(max_tokens=120, soft_tokens=100))


def test_a_header_too_large_to_repeat_is_not_repeated() -> None:
    wide = "|" + "name |" * 60 + "\n|" + "---|" * 60 + "\n" + ("|" + "v |" * 60 + "\n") * 10
    passages = cut(wide, max_tokens=100)
    assert_tiles(wide, passages)
    assert_fits(passages, None, ChunkLimits(max_tokens=100))
    assert not any(passage.table_header for passage in passages)


def test_a_row_larger_than_the_limit_is_cut_rather_than_lost() -> None:
    text = "| a | b |\n|---|---|\n| x | y |\n| " + "long " * 300 + "| z |\n| p | q |\n"
    passages = cut(text, max_tokens=64)
    assert_tiles(text, passages)
    assert_fits(passages, None, ChunkLimits(max_tokens=64))


def test_a_heading_larger_than_the_limit_still_leaves_room_for_text() -> None:
    text = "# " + "heading " * 700 + "\n\nThe body.\n"
    passages = cut(text, title="T", max_tokens=64)
    assert_tiles(text, passages)
    assert_fits(passages, "T", ChunkLimits(max_tokens=64))


@pytest.mark.parametrize("limits", [{"max_tokens": 15}, {"soft_tokens": 0}, {"min_tokens": -1}])
def test_limits_that_cannot_work_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument):
        ChunkLimits(**limits)


# --- always ----------------------------------------------------------------------------------------------------------

BLOCKS = st.sampled_from(
    [
        "# One",
        "## Two `code`",
        "Set\n===",
        "###",
        "#### Deep #",
        "para one. And two! Three? " * 3,
        "lead in:",
        "- a\n- b\n  - c " + "w " * 20,
        "1. x\n\n   y " + "z " * 30,
        "> quote\n> # no",
        "```\n# code\n\nx = 1\n" + "y = 2\n" * 10 + "```",
        "~~~\nopen",
        "    indented\n\n    code",
        "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 12,
        "<!--\n# no\n-->",
        "[ref]: http://x.y",
        "---",
        "漢字かな。交じり文！" * 6,
        "x" * 90,
        "e\u0301\u200d\U0001f3fb" * 10,
        "\t\x0b\x0c\u2028\u0085",
        "\ud800",
        "&amp; <b>x</b> {#id}",
        "\r",
        "",
    ]
)
MARKDOWN = st.lists(st.one_of(BLOCKS, st.text(max_size=20)), max_size=14).flatmap(
    lambda blocks: st.sampled_from(["\n\n", "\n", "\n \n"]).map(lambda gap: gap.join(blocks))
)
ANY_TEXT = st.one_of(MARKDOWN, st.text(max_size=200))
COUNTS = st.sampled_from([words, len, lambda text: len(text) // 3])


@settings(max_examples=250, deadline=None)
@given(
    text=ANY_TEXT,
    count=COUNTS,
    max_tokens=st.integers(16, 80),
    title=st.one_of(st.none(), st.text(max_size=120)),
    body_start=st.integers(0, 12),
)
@example(text="# a\n# b", count=len, max_tokens=16, title="長い題名" * 20, body_start=0)
def test_any_text_is_tiled_within_the_limit_and_the_same_each_time(
    text: str, count: Callable[[str], int], max_tokens: int, title: str | None, body_start: int
) -> None:
    limits = ChunkLimits(max_tokens=max_tokens, soft_tokens=max_tokens * 3 // 4, min_tokens=5)
    body_start = min(body_start, len(text))
    passages = chunk_text(text, body_start=body_start, title=title, count=count, limits=limits)
    assert_tiles(text, passages, body_start=body_start)
    assert_fits(passages, title, limits, count)
    assert passages == chunk_text(text, body_start=body_start, title=title, count=count, limits=limits)


SIMPLE_BLOCKS = st.lists(
    st.one_of(
        st.tuples(st.integers(1, 4), st.sampled_from("ABC")).map(lambda pair: f"{'#' * pair[0]} {pair[1]}"),
        st.integers(1, 30).map(lambda length: ("word " * length).strip()),
    ),
    max_size=20,
)


def simple_paths(text: str) -> dict[int, tuple[str, ...]]:
    """Heading path of every paragraph line of a text that holds nothing but ATX headings and one-line paragraphs."""
    stack: list[tuple[int, str]] = []
    paths = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if line.startswith("#"):
            level = line.count("#")
            stack = [entry for entry in stack if entry[0] < level] + [(level, line[-1])]
        elif line:
            paths[number] = tuple(name for _, name in stack)
    return paths


@settings(max_examples=150, deadline=None)
@given(SIMPLE_BLOCKS)
def test_every_paragraph_is_in_a_passage_with_its_own_heading_path(blocks: list[str]) -> None:
    text = "\n\n".join(blocks)
    paths = simple_paths(text)
    for passage in cut(text, max_tokens=40):
        lines = [line for line in paths if passage.line_start <= line <= passage.line_end]
        assert {paths[line] for line in lines} <= {passage.heading_path}
        assert lines or passage.text.startswith("#")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("word " * 200_000, id="one line of words"),
        pytest.param("x" * 1_000_000, id="one word"),
        pytest.param("委員会は確認した。" * 60_000, id="no spaces"),
        pytest.param("".join(f"# h{number}\n\ntext\n\n" for number in range(10_000)), id="headings"),
        pytest.param(TABLE_HEADER + "| x | y | z |\n" * 10_000, id="rows"),
        pytest.param("".join("  " * depth + "- a b c\n" for depth in range(300)), id="nested list"),
        pytest.param(("> " * 400 + "a\n\n") * 20, id="nested quotes"),
        pytest.param("- a\n" * 15_000, id="items"),
        pytest.param("```\n" + "a = b\n" * 60_000, id="unclosed fence"),
        pytest.param("#" * 400_000, id="marks"),
        pytest.param("# " + "[" * 100_000, id="brackets"),
    ],
)
def test_hostile_files_take_a_few_seconds_and_few_counts(text: str) -> None:
    counted = 0

    def count(piece: str) -> int:
        nonlocal counted
        counted += len(piece)
        return words(piece)

    started = time.perf_counter()
    passages = chunk_text(text, title="T", count=count)
    assert time.perf_counter() - started < 8.0
    assert counted < 10 * len(text) + 100_000
    assert_fits(passages, "T", ChunkLimits())


HEAVY = (
    "a\n\n", "# h\n", "# a\nb\n", "a\n=\n", "- a\n", "1. a\n\n", "> a\n\n", "> " * 99 + "a\n\n", "- " * 99 + "a\n", "|a|b|\n", "|a", "[a]: b\n",
    "# " + "[" * 900 + "\n", "# " + "![" * 450 + "\n", "# " + "*a **b_" * 120 + "\n", "# " + "`a``b" * 180 + "\n", "# " + "[a](b) " * 120 + "\n",
    "# " + "<a " * 300 + "\n", "*a **b_ ", "> - > - a\n", "    a\n\nb\n\n", "```\n```\n", "---\n", "<b>\n\n", "&amp;", "- TODO\n# h\n", "![a](b)",
)  # fmt: skip


@pytest.mark.parametrize("shape", HEAVY)
def test_time_and_passages_go_with_the_size_of_a_file_and_not_with_its_blocks(shape: str) -> None:
    small, passages = 20_000, {}

    def cost(size: int) -> float:
        text = shape * (size // len(shape))
        started = time.process_time()
        passages[size] = len(chunk_text(text, title="T", count=words))
        return time.process_time() - started

    assert keeps_pace(cost, small, at_most=24, floor=0.01)
    assert passages[8 * small] < 8 * small / 60


# --- the real tokenizer ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def minilm() -> Callable[[str], int]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(rag_mcp.__file__).parent / "data" / "minilm" / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def test_the_end_of_every_passage_is_within_what_the_model_reads(minilm: Callable[[str], int]) -> None:
    filler = (
        "The committee reviewed the minutes, thanked the clerk, noted the weather and agreed on the next date. " * 9
    )
    code = "\n".join(
        f"    registry[{n}] = make_entry(kind={n % 7}, weight={n * 3}, label='slot_{n}')" for n in range(24)
    )
    files = {
        "minutes": f"# Minutes\n\n{filler}Finally, the hives near the quarry lost their queens.\n",
        "code": f"# Handler\n\n```python\n{code}\n```\n\nThe turbine brake engages above storm force nine.\n",
        "ja": "# 議事録\n\n" + "委員会は議事録を確認し次回の日程を決めた。" * 14 + "最後に養蜂家が報告した。\n",
        "ko": "# " + "한국어 제목입니다 " * 60 + "\n\n" + "회의록을 확인했다. " * 80,
        "register": REGISTER,
        "path": "".join(f"{'#' * level} {'Zqxj vkw 90210 ' * 60}\n\n" for level in range(1, 7)) + filler,
        "symbols": "# ?!*\n\n" + "🙂👩‍👩‍👧 ∑∂ {}[]()<>/\\|~^ " * 100,
    }
    for title, text in files.items():
        for max_tokens in (64, 126, 254):
            limits = ChunkLimits(max_tokens=max_tokens, soft_tokens=max_tokens * 4 // 5)
            passages = chunk_text(text, title=title, count=minilm, limits=limits)
            assert_tiles(text, passages)
            assert_fits(passages, title, limits, minilm)
