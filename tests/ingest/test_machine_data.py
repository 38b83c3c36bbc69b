"""Data inside a document is told by its shape and left out; what people wrote, in it and around it, is found."""

from __future__ import annotations

import base64
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import Library, growth

from rag_mcp.text.machine_data import leave_out_data
from rag_mcp.text.marks import DATA_MARK

DRAWN = ("Otter bridge", "Plank store")


def encoded(chars: int, width: int = 64, seed: int = 3) -> str:
    raw = base64.b64encode(random.Random(seed).randbytes(chars)).decode()[:chars]
    return "\n".join(raw[at : at + width] for at in range(0, len(raw), width))


def drawing(**dump: object) -> str:
    elements = [
        {"id": f"e{n}", "type": "text" if n < 2 else "line", "x": n * 1.5, "y": 7, "width": 40, "height": 9, "seed": 8_123 * n,
         **({"text": DRAWN[n], "originalText": DRAWN[n]} if n < 2 else {"points": [[0, n], [n, 3]]})}
        for n in range(60)
    ]  # fmt: skip
    return json.dumps(
        {"type": "excalidraw", "version": 2, "elements": elements, "appState": {"name": "grid of dots"}}, **dump
    )


CANVAS = json.dumps(
    {
        "nodes": [
            {"id": f"{n:016x}", "type": "text", "x": 20 * n, "y": 0, "width": 250, "height": 60, "text": DRAWN[n % 2]}
            for n in range(8)
        ],
        "edges": [{"id": "e", "fromNode": f"{0:016x}", "toNode": f"{1:016x}", "label": "carries over"}],
    },
    indent="\t",
)
NOTEBOOK = json.dumps(
    {
        "cells": [
            {"cell_type": "markdown", "source": ["# Otter bridge\n", "Load tables.\n"]},
            {"cell_type": "code", "source": ["plank_store()"], "outputs": [{"text": ["noise " * 99], "data": {"image/png": encoded(900)}}]},
        ],
        "nbformat": 4,
    },
    indent=1,
)  # fmt: skip
MINIFIED = json.dumps(
    [{"k": f"{n}", "note": "Otter bridge" if n == 40 else "", "v": [n, n]} for n in range(99)], separators=(",", ":")
)
SCRIPT = (
    "".join(f"function f{n}(a,b){{var c=a[{n}];if(c&&b)return c.x({n});}}" for n in range(60))
    + 'alert("Otter bridge ahead");'
)
READINGS = "| hour | level | flow |\n| --- | --- | --- |\n" + "".join(
    f"| 2031-04-{n % 28 + 1:02} {n % 24:02}:00 | {n / 7:.2f} | {n} |\n" for n in range(600)
)
CERTIFICATE = f"-----BEGIN CERTIFICATE-----\n{encoded(1_400)}\n-----END CERTIFICATE-----"
FENCE = "```"
DATA = {
    "compressed drawing": (f"{FENCE}compressed-json\n{encoded(9_000, 256).replace(chr(10), chr(10) * 2)}\n{FENCE}", ()),
    "drawing": (f"{FENCE}json\n{drawing(indent=2)}\n{FENCE}", DRAWN),
    "bare drawing": (drawing(), DRAWN),
    "canvas": (CANVAS, (*DRAWN, "carries over")),
    "notebook": (NOTEBOOK, ("Otter bridge", "plank_store()")),
    "minified": (MINIFIED, ("Otter bridge",)),
    "script": (SCRIPT, ("Otter bridge ahead",)),
    "certificate": (CERTIFICATE, ()),
    "one line": (encoded(4_000, 4_000), ()),
    "quoted": ("\n".join(f"> {line}" for line in encoded(2_000).split("\n")), ()),
    "hex": (random.Random(5).randbytes(900).hex(), ()),
    "readings": (READINGS, ("hour",)),
    "numbers": (json.dumps([[n, n * 2.5, -n] for n in range(200)], indent=0), ()),
}


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("before", ["", "# Heron\n\nThe heron waits.\n\n"])
def test_data_is_left_out_and_what_people_wrote_stays(name, before):
    data, words = DATA[name]
    text = f"{before}{data}\n\nBehind it the ferry lands.\n"
    found, left_out = leave_out_data(text, 0)
    assert len(found) < max(0.35 * len(text), 900) and DATA_MARK in found and left_out
    assert found.startswith(before) and found.endswith("\n\nBehind it the ferry lands.\n")
    assert found.count("\n") == text.count("\n")
    assert all(word in found for word in words)
    assert "noise" not in found and "grid of dots" not in found
    lines = text.split("\n")
    assert all(lines[each.line - 1].strip() for each in left_out)


PROSE = (
    '```json\n{\n  "mcpServers": {\n    "notes": {"command": "rag-mcp", "args": ["serve", "--db", "notes.store"]}\n  }\n}\n```\n' * 9,
    '```json\n{"query": "Why would a pot burst?", "k": 5, "mode": "hybrid"}\n```\n',
    "Tides of a week.\n\n| hour | level | flow |\n| --- | --- | --- |\n" + "".join(f"| {n} | {n}.5 | {n} |\n" for n in range(90)),
    "| buoy | hue | depth |\n|---|---|---|\n" + "".join(f"| B{n} | red | {n} |\n" for n in range(900)),
    "[![Build](https://example.org/badge/a1.svg)](https://example.org/ci)" * 40 + "\n",
    "".join(f"- https://example.org/tides/2031/{n:04}/harbour-of-the-north\n" for n in range(300)),
    "".join(f"{random.Random(n).randbytes(32).hex()}  charts/{n}.txt\n" for n in range(80)),
    "".join(f"harbour_of_the_north_{n}/quay_of_the_old_rope_makers/plan\n" for n in range(90)),
    f"A short block stays: {encoded(300, 300)}\n",
    "The lamp burns all night. " * 400,
    "灯台は夜通し燃える。" * 500,
    "[1] Otter, 2031. [2] Heron, 2032.\n[ ] paint\n[x] rope\n{ open\n" * 50,
    "[" + "9" * 6_000 + "]\n",
    "<% tp.file.title %> {{date:YYYY-MM-DD}} {{#if x}} {% raw %}\n" * 30,
)  # fmt: skip


@pytest.mark.parametrize("text", PROSE, ids=range(len(PROSE)))
def test_what_is_no_data_stays_as_it_is(text):
    assert leave_out_data(text, 0) == (text, ())


@given(
    st.lists(st.sampled_from([*(data for data, _ in DATA.values()), *PROSE, "\n", "Ferry.\n"]), max_size=6).map(
        "\n".join
    )
)
def test_lines_keep_their_numbers_and_nothing_is_found_twice(text):
    found, _ = leave_out_data(text, 0)
    assert found.count("\n") == text.count("\n")
    assert found.count("Ferry.") == text.count("Ferry.")


@pytest.mark.parametrize(
    "part", [encoded(60) + " ", "[1, ", '{"a": ', '{"a": [\n', "9,8,7\n", "x=1;" * 20, '"' + "a b" * 9 + '\\"', "[\n]\n", f"{FENCE}\n{{\n"]
)  # fmt: skip
def test_the_time_goes_with_the_size(part):
    assert growth(lambda size: part * size, lambda text: leave_out_data(text, 0), 1_500) < 3


# --- in the index ----------------------------------------------------------------------------------------------------

HEAD = "---\nexcalidraw-plugin: parsed\ntags: [excalidraw]\n---\n"


@pytest.fixture
def library(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store") as found:
        yield found


def test_a_drawing_has_as_many_passages_as_its_words_and_no_title_of_its_tool(library):
    body = f"# Text Elements\nOtter bridge ^a1b2\n\nPlank store ^c3d4\n\n# Drawing\n{FENCE}compressed-json\n{encoded(60_000, 256)}\n{FENCE}\n"
    library.write(
        {"yard/quay.excalidraw.md": HEAD + body, "open.md": f"# Pump\n\n{drawing()}\n\nIt is oiled in May.\n"}
    )
    summary = library.ingest()
    assert summary.store_count < 5 and not summary.skipped
    assert {(notice.source, notice.text) for notice in summary.notices} == {
        ("yard/quay.excalidraw.md", "left out as no prose: base64 (line 12)"),
        ("open.md", "left out as no prose: drawing (line 3)"),
    }
    found = library.search("plank store", mode="fts").results
    assert {result.citation.source for result in found} == {"yard/quay.excalidraw.md", "open.md"}
    assert {result.citation.title for result in found} == {"quay.excalidraw", "Pump"}
    assert not library.search(DATA_MARK, mode="fts").results
    assert library.search("oiled in May", mode="fts").results[0].citation.line_end == 5


def test_chance_in_data_makes_no_secret_and_a_private_key_leaves_its_file_out(library):
    chance = encoded(30_000, 256)[:9_000] + "AKIAQ3EGRT7PL4WZX2NM" + encoded(30_000, 256)[9_000:]
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{encoded(1_600)}\n-----END RSA PRIVATE KEY-----\n"
    library.write(
        {
            "a.md": f"# A\n\n{FENCE}compressed-json\n{chance}\n{FENCE}\n",
            "b.md": f"# B\n\n{key}",
            "c.md": f"access: none\n\n{drawing()}\n",
            "d.md": json.dumps({"access": "none", "text": "x y " * 300}),
        }
    )
    summary = library.ingest()
    assert {each.source for each in summary.skipped} == {"b.md", "c.md", "d.md"}
    assert set(library.manifest().files) == {"a.md"}


def test_the_syntax_of_templates_is_text_like_any_other(library):
    line = "<% tp.file.title %> leaves {{date:YYYY}} {{#each boats}} {{name}} {% raw %} for the otter quay."
    library.write({"plan.md": f"# Plan\n\n{line}\n"})
    assert not library.ingest().notices
    (found,) = library.search("otter quay YYYY", mode="fts").results
    assert line in found.text
