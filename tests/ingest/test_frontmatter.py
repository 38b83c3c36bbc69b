"""A head is metadata, also where it is torn; it never opens what was to be hidden, and prose between rules is text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import keeps_pace

from rag_mcp.text.frontmatter import FrontMatter, parse_front_matter


def test_known_fields_and_the_start_of_the_body_are_read() -> None:
    text = (
        "---\ntitle: Kiln  schedule\naliases: [Oven plan, 1.10]\ntags: [kiln, zephyr-tag]\ndate: 2031-04-02\n"
        "type: Handoff\naccess: Internal\nstatus: reviewed\n---\n\n# Kiln\n"
    )
    found = parse_front_matter(text)
    assert text[found.body_start :] == "\n# Kiln\n"
    assert (found.title, found.aliases, found.tags) == ("Kiln schedule", ("Oven plan", "1.10"), ("kiln", "zephyr-tag"))
    assert (found.date, found.type, found.access) == ("2031-04-02", "handoff", "internal")


def test_fences_and_rules_inside_a_block_value_do_not_end_it() -> None:
    text = "---\ntitle: |\n  ```sh\n  ---\n  ```\n---\nFM-CARD"
    found = parse_front_matter(text)
    assert text[found.body_start :] == "FM-CARD"
    assert found.title == "```sh --- ```"


def test_three_dots_close_too_and_the_file_may_end_there() -> None:
    assert parse_front_matter("---\na: 1\n...\nbody").body_start == 13
    assert parse_front_matter("---\na: 1\n---").body_start == 12


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("---\n**MARROW & FINCH**\n4 Quay Lane\n---\n\nFM-LETTER", id="letterhead"),
        pytest.param("---\njust a sentence\n---\n", id="scalar"),
        pytest.param("---\n- a\n- b\n---\n", id="list"),
        pytest.param("---\n---\n", id="empty"),
        pytest.param("---\n# only a comment\n---\n", id="comment"),
        pytest.param("# Minutes\n\n---\nowner: body\n---\n", id="rule inside"),
        pytest.param("---\n\nThe gate list hangs in the hall.\n\naccess: none\n\n---\n\nMore.", id="rule, then prose"),
        pytest.param(
            "---\n\nNote: the mill is closed.\n\nIt opens in May.\n\nAsk there.\n\n---\n", id="prose that notes"
        ),
        pytest.param("Access: by the side door, ring twice.\n\nMore.", id="a sentence"),
        pytest.param("# Access\n\naccess: none\n", id="prose about access"),
        pytest.param("{{< note >}}\naccess: none\n{{< /note >}}\n", id="template"),
        pytest.param("***\ntitle: a\n***\n", id="stars"),
    ],
)
def test_whatever_only_looks_like_front_matter_stays_text(text: str) -> None:
    assert parse_front_matter(text) == FrontMatter()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("---\ntitle: a: b\n---\nBODY", id="invalid"),
        pytest.param("---\ntitle: a b\n\nBODY", id="unclosed"),
        pytest.param("---\ntitle: a b\ntags: x\nBODY", id="unclosed, no blank line"),
        pytest.param("---\ntitle: a b\n\nBODY one.\n\nTwo.\n\nThree.\n\n---\n\nFour.", id="a rule further down"),
        pytest.param("---\na: 1\n--- x\n---\nBODY", id="text behind the closing rule"),
        pytest.param("---\na: \ud800\n---\nBODY", id="surrogate"),
        pytest.param("---\na: b\n--- \x01\n---\nBODY", id="control character"),
        pytest.param(f"---\na: {'x' * 70_000}\n---\nBODY", id="oversized"),
        pytest.param(f"---\na: {'[' * 30_000}\n---\nBODY", id="deep"),
        pytest.param(f"---\na: {'[' * 60}{']' * 60}\n---\nBODY", id="deeper than any metadata"),
        pytest.param("---\na: [" + "x," * 25_000 + "]\n---\nBODY", id="very many values"),
        pytest.param("---\na: *nowhere\n---\nBODY", id="unknown alias"),
        pytest.param("---\ntitle: a\na stray line\n---\nBODY", id="stray line"),
        pytest.param("---\na stray line\ntitle: a\n---\nBODY", id="stray line first"),
        pytest.param("---\ntags:\n\t- sail\n---\nBODY", id="tab"),
        pytest.param("+++\ntitle = Orchard\n+++\nBODY", id="toml"),
        pytest.param(';;;\n"title": Orchard\n;;;\nBODY', id="json"),
        pytest.param('{\n"title": Orchard\n}\nBODY', id="braces"),
        pytest.param("---\na: 1\n---\n" * 5 + "BODY", id="a fifth head"),
    ],
)
def test_a_head_that_cannot_be_read_is_told_and_is_no_text(text: str) -> None:
    found = parse_front_matter(text)
    assert text[found.body_start :].lstrip().startswith("BODY")
    assert found.unread
    assert found.unread.rpartition(", line ")[2].isdigit()
    assert "nowhere" not in found.unread
    assert found.access is None


def test_lines_of_a_torn_head_count_where_they_can_be_read() -> None:
    text = "---\ntitle: Kelp: racks\ntags: [dry, kelp]\naliases: [[Rack]], [[Shelf]]\ndate: 2031-04-02\ntype: Handoff\nx: @y\n---\n"
    found = parse_front_matter(text)
    assert (found.title, found.tags, found.aliases) == ("Kelp: racks", ("dry", "kelp"), ("Rack", "Shelf"))
    assert (found.date, found.type, found.body_start) == ("2031-04-02", "handoff", len(text))
    assert found.unread == "a value with a colon needs quotes, line 2"


@pytest.mark.parametrize(
    "head",
    [
        "+++\ntitle = 'Orchard'\ndate = 2031-04-02\ntags = ['pear']\n+++\n",
        '{\n\t"title": "Orchard",\n\t"date": "2031-04-02",\n\t"tags": ["pear"]\n}\n',
        ';;;\n"title": "Orchard", "date": "2031-04-02", "tags": ["pear"]\n;;;\n',
        "---toml\ntitle = 'Orchard'\ndate = 2031-04-02\ntags = ['pear']\n---\n",
        "\n\n---\ntitle: Orchard\ndate: 2031-04-02\ntags: pear\n---\n",
        "<!-- by hand -->\n\n---\ntitle: Orchard\ndate: 2031-04-02\ntags: pear\n---\n",
        "---\ntitle: Orchard\n---\n\n---\ndate: 2031-04-02\ntags: pear\ntitle: second\n---\n",
        " ----\ntitle: Orchard\ndate: 2031-04-02\ntags: pear\n ----\n",
    ],
)
def test_other_frames_and_places_of_a_head_are_read_alike(head: str) -> None:
    found = parse_front_matter(f"{head}\n# Body\n")
    assert (found.title, found.date, found.tags, found.unread) == ("Orchard", "2031-04-02", ("pear",), None)
    assert found.body_start == len(head)


TORN = "---\ntitle: a: b\n{}\n---\nBODY"
LINES = [
    "access: none", "access:none", "Access : None", "ACCESS: none", "'access': none", '"access" : none', "access = none",
    "access\uff1a none", "\uff41ccess: none", "acc\u200bess: none", "\u0430ccess: none", "  access: none", "- access: none",
    "meta: {access: none}", "x: 1, access: none", "access:\tnone", "access: [none]", "access:\n  - none", "access:",
    "access: public", "> access: none", "**access**: none", "x access: none",
]  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_a_torn_head_that_names_access_withholds(line: str) -> None:
    assert parse_front_matter(TORN.format(line)).access == ""


@pytest.mark.parametrize(
    "text",
    [
        "+++\ntitle = x y\naccess = none\n+++\n",
        "+++\naccess = 'none\n+++\n",
        '{\n"title": x,\n"access": "none"\n}\n',
        '{ "access": "none", \n\nBODY',
        "---\ntitle: a\naccess: none\n\nBODY",
        "---\naccess: none\nBODY right behind\n\n---\n\nmore prose\nand more\nand more\n",
        "---\ntitle: a: b\n---\n---\naccess: none\n---\n",
        "---\ntitle: a\n---\naccess: none\n---\n",
        "\n\n---\ntitle: a: b\naccess: none\n---\n",
        "<!-- x -->\n---\ntitle: a: b\naccess: none\n---\n",
        "%% x %%\n---\ntitle: a: b\naccess: none\n---\n",
        "<!--\ntitle: a\naccess: none\n-->\n\nBODY",
        "---\ntitle: a: b\n" + "x: y\n" * 20_000 + "access: none\n---\n",
        "---\nThese notes are mine.\nPlease keep them.\naccess: none\n---\n",
        "---\ntitle: a\n  access:none\n---\n",
        "---\ntitle: |\n  x\n  access: none\n---\n",
        "---\nmeta:\n  access: none\n---\n",
        "\u2014\ntitle: a: b\naccess: none\n\u2014\n",
        "access: none\n\nBODY",
        "Title: a\nAccess: none\n\nBODY",
        "title:: a\naccess:: none\n\nBODY",
        "#+title: a\n#+access: none\n\nBODY",
        "```yaml\naccess: none\n```\n\nBODY",
        "---\na: 1\n---\n" * 6 + "---\naccess: none\n---\n",
    ],
)
def test_access_is_seen_in_every_torn_or_odd_head(text: str) -> None:
    assert parse_front_matter(text).access is not None


@pytest.mark.parametrize(
    ("value", "access"),
    [
        ("none", "none"), ("None", "none"), ("'none'", "none"), ("\uff4eone", "none"), ("", ""), ("~", ""), ("null", ""),
        ("[none]", ""), ("\n  - none", ""), ("{a: none}", ""), ("none at all", ""), ("|\n  none", "none"), ("public", "public"),
        ("none\naccess: public", ""), ("none\nAccess: none", ""), ("!!binary bm9uZQ==", "bm9uzq=="), ("12", "12"),
    ],
)  # fmt: skip
def test_access_that_can_be_read_is_one_word_or_unknown(value: str, access: str) -> None:
    assert parse_front_matter(f"---\ntitle: a\naccess: {value}\n---\n").access == access


@pytest.mark.parametrize(
    "head",
    [
        "\u200b---\naccess: none\n---", "%YAML 1.2\n---\naccess: none\n---", "# Weir\n---\naccess: none\n---", "# Weir\n\n---\naccess: none\n---",
        "% Weir\n% Ada\n\n---\naccess: none\n...", "--- !note\naccess: none\n---", "--\naccess: none\n--", "- - -\naccess: none\n- - -",
        "===\naccess: none\n===", "***\nstatus: open\naccess: none\n***", "~~~\naccess: none\n~~~", "```\naccess: none\n```", "---access: none\n---",
        "> ---\n> access: none\n> ---", "<<<<<<< HEAD\n---\naccess: none\n=======\n---\naccess: all\n>>>>>>> b\n---", "---\u0085access: none\u0085---",
        "---\u2028access: none\u2028---", "---\ntitle: a\naccess\u2236 none\n---", "---\ntitle: a\naccess\ua789 none\n---", "---\ntitle: a\naccess; none\n---",
        "---\naccess none\n---", "---\n\u03b1ccess: none\n---", "---\nacce\ua731\ua731: none\n---", "[access:: none]", "(access:: none)",
        "{\n  // for me\n  access: 'none',\n}", "{\n  /* for\n  me */\n  title: 'a',\n  access: none\n}", "---\n\x1b[1maccess: none\x1b[0m\n---",
        "\x1b[90m---\x1b[0m\ntitle: a\nac\x1b[1mcess: none\n\x1b[90m---\x1b[0m", "---\n\x1b]8;;x\x07access: none\n---", "---\nacc\x00ess: none\n---",
        "Draft.\n\n---\naccess: none\n---", "Draft.\nOf May.\n---\ntitle: a\naccess: none\n---", "Draft.\n\n+++\naccess = \"none\"\n+++",
        "Draft.\n\n{\n  \"access\": \"none\"\n}", "![[weir.png]]\n\n---\naccess: none\n---", "![[weir.png]]\naccess: none",
        "<details>\n\naccess: none\n\n</details>", "<details><summary>About</summary>\n\ntitle: a\naccess: none\n\n</details>", "<p>access: none</p>",
        "<details>\n\n---\naccess: none\n---\n\n</details>", "> [!info] About\n> access: none", ":::about\naccess: none\n:::",
        "---\ntitle: a\n---\n\nDraft.\n\n---\naccess: none\n---", "# Weir\n\nIt leaks.\n\n- access:: none", "# Weir\n**Access**:: none",
        "# Weir\n<!-- access: none -->", "Weir\n====\n\n===\naccess: none\n===", "\\---\naccess: none\n\\---", "---\naccess&#58; none\n---",
        "\u2500\u2500\u2500\naccess: none\n\u2500\u2500\u2500", "Draft.\n\n```\na: b\n```\n\n---\naccess: none\n---", "<pre>x</pre>\n\n---\naccess: none\n---",
    ],
)  # fmt: skip
def test_access_is_seen_in_frames_of_another_make(head: str) -> None:
    assert parse_front_matter(f"{head}\n\n# Weir\n\nThe weir leaks.\n").access is not None


@pytest.mark.parametrize(
    "text",
    [
        "# Weir\n\n```\naccess: none\n```\n", "===\nDear all, access: none of the rooms has a ramp.\n===\n", "***\nThe access road is closed.\n***\n",
        "# Access\n\naccess: by the north gate\n", "---\n\nWe discuss `access: none` here.\n\n---\n", "The weir.\n\n===\naccess: none\n===\n",
    ],
)  # fmt: skip
def test_a_frame_of_prose_or_an_example_hides_nothing(text: str) -> None:
    assert parse_front_matter(text).access is None


def test_what_only_mentions_access_hides_nothing() -> None:
    for text in (
        "---\ntitle: 'Granting access: a guide'\n---\n\naccess: none\n",
        "---\ntitle: Granting access: a guide\n---\n",
        "---\ntitle: a\n# access: none\n---\n",
        "---\ntitle: a: b\ninternet-access: none\n---\n",
        "<!-- Access: see the list in the hall. -->\n\nText.\n",
        "```yaml\nrules:\n  access: read\n```\n",
    ):
        assert parse_front_matter(text).access is None, text


@pytest.mark.parametrize(
    ("line", "tags"),
    [
        ("tags: kiln, glaze", ("kiln", "glaze")),
        ("tags: '#kiln #glaze/blue'", ("kiln", "glaze/blue")),
        ("tags: ['#kiln', glaze, kiln]", ("kiln", "glaze")),
        ("tags:\n  - kiln\n  - [glaze, [yes, 2024-01-02]]", ("kiln", "glaze", "yes", "2024-01-02")),
        ("Tags: two words", ("two words",)),
        ("tag: kiln\ntags: glaze", ("glaze", "kiln")),
        ("tags: 7", ("7",)),
        ("tags: null", ()),
        ("tags: {a: b}", ()),
        ("tags: ['', '#', ~]", ()),
    ],
)
def test_tags_are_read_in_every_way_people_write_them(line: str, tags: tuple[str, ...]) -> None:
    assert parse_front_matter(f"---\n{line}\n---\n").tags == tags


@pytest.mark.parametrize(
    ("line", "day"),
    [
        ("date: 2031-04-02", "2031-04-02"),
        ("date: '2031-4-2'", "2031-04-02"),
        ("date: 2031-04-02T10:00:00Z", "2031-04-02"),
        ("date: 2031/04/02 10:00", "2031-04-02"),
        ("updated: 2031-04-02", "2031-04-02"),
        ("date: soon\ncreated: 2031-04-02", "2031-04-02"),
        ("date: 2031-02-31", None),
        ("date: [2031-04-02]", None),
        ("date: 20310402", None),
    ],
)
def test_dates_become_iso_days(line: str, day: str | None) -> None:
    assert parse_front_matter(f"---\n{line}\n---\n").date == day


def test_titles_are_as_written_and_odd_ones_are_none() -> None:
    titles = {"1.10": "1.10", "2031-04-02": "2031-04-02", "12:30:45": "12:30:45", "yes": "yes", "[a]": None, "''": None}
    assert {raw: parse_front_matter(f"---\ntitle: {raw}\n---\n").title for raw in titles} == titles


def test_language_tags_build_no_objects() -> None:
    found = parse_front_matter("---\ntitle: ok\ntype: !!python/object/apply:os.getcwd []\n---\n")
    assert (found.title, found.type) == ("ok", None)


@pytest.mark.parametrize("merge", [False, True], ids=["list", "merge key"])
def test_aliases_of_aliases_stay_small(merge: bool) -> None:
    names = "abcdefghij"
    lines = ["a: &a {k: v}"]
    for name, upper in zip(names[1:], names, strict=False):
        many = "[" + ", ".join([f"*{upper}"] * 9) + "]"
        lines.append(f"{name}: &{name} " + (f"{{<<: {many}}}" if merge else many))
    text = "---\n" + "\n".join([*lines, "tags: *j"]) + "\n---\n"
    started = time.perf_counter()
    found = parse_front_matter(text)
    assert time.perf_counter() - started < 2.0
    assert found.body_start == len(text)
    assert found.tags == ()


def test_a_value_that_holds_itself_ends() -> None:
    found = parse_front_matter("---\na: &a [*a]\ntags: *a\n---\n")
    assert found.tags == ()


@given(st.text(alphabet=st.sampled_from("-a: \n[]{}&*!|>'\"#,.?0\t"), max_size=120))
def test_no_text_raises_and_the_body_starts_at_a_line(yaml: str) -> None:
    text = f"---\n{yaml}\n---\nbody"
    found = parse_front_matter(text)
    assert found.body_start == 0 or text[found.body_start - 1] == "\n"


@pytest.mark.parametrize(
    "shape",
    [
        "---\n" + "a: b\n" * 10,
        "---\n" + "\n" * 50,
        "---\n",
        "---\na: 1\n---\n",
        "<!-- -->",
        "<!--\n",
        "%% ",
        "[//]: # (x)\n",
        "+++\na = 1\n",
        "{",
        '{"a":',
        "- " * 20,
        " " * 40 + "-" * 9,
        "access " * 9,
        "access: [[[[,,,, ",
        "access: none &amp &#",
        "\x1b[1;access\x1b]",
        "<a <details>access\n",
        "title: x\n\n",
        "\u0430\u200b",
    ],
)
@pytest.mark.parametrize("frame", ["{}", "---\ntitle: a: b\n{}\n---\n", "---\ntitle: a: b\n{}"])
def test_hostile_heads_take_linear_time(shape: str, frame: str) -> None:
    def seconds(size: int) -> float:
        text = frame.replace("{}", shape * (size // len(shape)))
        started = time.process_time()
        parse_front_matter(text)
        return time.process_time() - started

    assert keeps_pace(seconds, 50_000, at_most=16, floor=0.004)
