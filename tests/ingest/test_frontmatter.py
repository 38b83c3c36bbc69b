"""A YAML mapping at the very start is metadata; anything else is text, and no file is lost for it."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_mcp.ingest.frontmatter import FrontMatter, parse_front_matter


def test_known_fields_and_the_start_of_the_body_are_read() -> None:
    text = (
        "---\ntitle: Kiln  schedule\naliases: [Oven plan, 1.10]\ntags: [kiln, zephyr-tag]\ndate: 2031-04-02\n"
        "type: Handoff\naccess: Internal\nstatus: reviewed\n---\n\n# Kiln\n"
    )
    found = parse_front_matter(text)
    assert text[found.body_start :] == "\n# Kiln\n"
    assert (found.title, found.aliases, found.tags) == ("Kiln schedule", ("Oven plan", "1.10"), ("kiln", "zephyr-tag"))
    assert (found.date, found.type, found.access) == ("2031-04-02", "handoff", "internal")
    assert found.data["status"] == "reviewed"


def test_fences_and_rules_inside_a_block_value_do_not_end_it() -> None:
    text = "---\ntitle: Card\nsample: |\n  ```sh\n  ---\n  ```\n---\nFM-CARD"
    found = parse_front_matter(text)
    assert text[found.body_start :] == "FM-CARD"
    assert found.data["sample"] == "```sh\n---\n```\n"


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
        pytest.param("---\ntitle: a: b\n---\n", id="invalid"),
        pytest.param("---\ntitle: never closed\n\nFM-OPEN", id="unclosed"),
        pytest.param("+++\ntitle = 'Orchard'\n+++\n", id="toml"),
        pytest.param("# Minutes\n\n---\nowner: body\n---\n", id="rule inside"),
        pytest.param(" ---\na: 1\n---\n", id="indented"),
        pytest.param("\n---\na: 1\n---\n", id="not at the start"),
        pytest.param("----\na: 1\n----\n", id="four dashes"),
        pytest.param("---\na: 1\n--- x\n", id="text behind the closing rule"),
        pytest.param("---\na: \ud800\n---\n", id="surrogate"),
        pytest.param("---\na: b\n--- \x01\n---\n", id="control character"),
        pytest.param(f"---\na: {'x' * 70_000}\n---\n", id="oversized"),
        pytest.param(f"---\na: {'[' * 30_000}\n---\n", id="deep"),
        pytest.param(f"---\na: {'[' * 60}{']' * 60}\n---\n", id="deeper than any metadata"),
        pytest.param("---\na: [" + "x," * 25_000 + "]\n---\n", id="very many values"),
        pytest.param("---\na: *nowhere\n---\n", id="unknown alias"),
    ],
)
def test_whatever_only_looks_like_front_matter_stays_text(text: str) -> None:
    assert parse_front_matter(text) == FrontMatter()


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


def test_data_is_fit_for_json_whatever_the_types() -> None:
    text = (
        "---\nn: .nan\nbig: 99999999999999999999999\ntime: 12:30\nf: 1.5\nb: on\nwhen: 2031-04-02 10:00:00\n"
        "? [a]\n: key\n1: number\nraw: !!binary aGk=\nset: !!set {a, b}\n---\n"
    )
    data = parse_front_matter(text).data
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert (data["time"], data["f"], data["b"], data["1"]) == ("12:30", 1.5, True, "number")
    assert data["when"] == "2031-04-02T10:00:00"


def test_language_tags_build_no_objects() -> None:
    found = parse_front_matter("---\ntitle: ok\nrun: !!python/object/apply:os.getcwd []\n---\n")
    assert (found.title, found.data["run"]) == ("ok", [])


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
    assert len(json.dumps(found.data)) < 500_000


def test_a_value_that_holds_itself_ends() -> None:
    found = parse_front_matter("---\na: &a [*a]\ntags: *a\n---\n")
    json.dumps(found.data)
    assert found.tags == ()


@given(st.text(alphabet=st.sampled_from("-a: \n[]{}&*!|>'\"#,.?0\t"), max_size=120))
def test_no_text_raises_and_the_body_starts_at_a_line(yaml: str) -> None:
    text = f"---\n{yaml}\n---\nbody"
    found = parse_front_matter(text)
    assert found.body_start == 0 or text[found.body_start - 1] == "\n"
    json.dumps(found.data, allow_nan=False)
