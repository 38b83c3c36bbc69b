"""Bytes become text the same way on every machine, and pictures never become text."""

from __future__ import annotations

import base64
import random
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_mcp.errors import CorpusError
from rag_mcp.text.decode import Undecodable, decode, shorten_data_uris, text_digest

NOTE = "# Lighthouse\n\nNinety-one stairs, 91 °C.\n"


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(NOTE.encode(), id="plain"),
        pytest.param(b"\xef\xbb\xbf" + NOTE.encode(), id="utf-8 mark"),
        pytest.param(b"\xff\xfe" + NOTE.encode("utf-16-le"), id="utf-16 little"),
        pytest.param(b"\xfe\xff" + NOTE.encode("utf-16-be"), id="utf-16 big"),
        pytest.param(b"\xff\xfe\x00\x00" + NOTE.encode("utf-32-le"), id="utf-32 little"),
        pytest.param(b"\x00\x00\xfe\xff" + NOTE.encode("utf-32-be"), id="utf-32 big"),
        pytest.param(NOTE.replace("\n", "\r\n").encode(), id="crlf"),
        pytest.param(NOTE.replace("\n", "\r").encode(), id="lone cr"),
        pytest.param(NOTE.replace("\n\n", "\r\n\n").encode(), id="mixed"),
    ],
)
def test_encoding_mark_and_line_endings_change_neither_text_nor_digest(raw: bytes) -> None:
    assert decode(raw) == NOTE
    assert text_digest(decode(raw)) == text_digest(NOTE)


def test_one_changed_character_changes_the_digest() -> None:
    assert text_digest(NOTE) != text_digest(NOTE.replace("91", "92"))


def test_a_mark_left_inside_by_joining_files_is_removed() -> None:
    assert decode("One.\n\ufeff\n## Two\n".encode()) == "One.\n\n## Two\n"


def test_unicode_separators_are_characters_not_line_breaks() -> None:
    text = "a\u2028b\u0085c\x0bd\x0ce"
    assert decode(text.encode()) == text


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"secret \xff\xfa tail", id="not utf-8"),
        pytest.param("secret".encode("utf-16-le"), id="utf-16 without mark"),
        pytest.param(b"\xff\xfes", id="torn utf-16"),
        pytest.param(b"secret\x00", id="nul"),
        pytest.param(b"\xff\xfe\x00\xd8", id="lone surrogate"),
    ],
)
def test_what_is_not_text_is_refused_with_a_reason_that_quotes_nothing(raw: bytes) -> None:
    with pytest.raises(Undecodable) as caught:
        decode(raw)
    assert isinstance(caught.value, CorpusError)
    assert caught.value.reason == str(caught.value)
    assert "secret" not in caught.value.reason
    assert "0xff" not in caught.value.reason
    assert caught.value.__cause__ is None


@given(st.binary(max_size=60))
def test_any_bytes_are_text_without_carriage_returns_or_undecodable(raw: bytes) -> None:
    try:
        text = decode(raw)
    except Undecodable:
        return
    assert not {"\r", "\x00", "\ufeff"} & set(text)
    assert decode(text.encode()) == text


BLOB = base64.b64encode(random.Random(7).randbytes(3_000)).decode()
WRAPPED = "\n".join(BLOB[at : at + 76] for at in range(0, len(BLOB), 76))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            f"![teal pump](data:image/png;base64,{BLOB})",
            "![teal pump](data:image/png,3000-bytes-left-out)",
            id="image",
        ),
        pytest.param(
            f"[p1]: data:image/jpeg;base64,{BLOB}\n\nNext.",
            "[p1]: data:image/jpeg,3000-bytes-left-out\n\nNext.",
            id="definition",
        ),
        pytest.param(
            f'<img alt="gauge" src="data:image/gif;base64,{BLOB}">',
            '<img alt="gauge" src="data:image/gif,3000-bytes-left-out">',
            id="html",
        ),
        pytest.param(
            f"x data:font/woff2;charset=utf-8;base64,{BLOB}\nplain words",
            "x data:font/woff2,3000-bytes-left-out\nplain words",
            id="plain",
        ),
        pytest.param(f"DATA:image/svg+xml,{'%3Csvg' * 50}", "data:image/svg+xml,200-bytes-left-out", id="escaped"),
    ],
)
def test_a_payload_becomes_its_size_and_its_surroundings_stay(before: str, after: str) -> None:
    assert shorten_data_uris(before) == after


def test_a_wrapped_payload_keeps_the_line_numbers_below_it() -> None:
    text = f'<img src="data:image/png;base64,{WRAPPED}">\n\nBelow.\n'
    short = shorten_data_uris(text)
    assert short.count("\n") == text.count("\n")
    assert not re.search(r"[A-Za-z0-9+/]{40}", short)
    assert short.endswith('">\n\nBelow.\n')


def test_short_payloads_and_ordinary_text_stay_as_they_are() -> None:
    text = "![dot](data:image/gif;base64,R0lGODlhAQABAAAAACw=) metadata: data: x, " + "word" * 100
    assert shorten_data_uris(text) == text


def test_shortening_twice_changes_nothing_more() -> None:
    once = shorten_data_uris(f"![a](data:image/png;base64,{WRAPPED})")
    assert shorten_data_uris(once) == once


@given(st.text(alphabet="data:;bse64,/pnimg+=%A \n\t)\"'", max_size=400))
def test_lines_are_never_added_or_lost(text: str) -> None:
    assert shorten_data_uris(text).count("\n") == text.count("\n")


@pytest.mark.parametrize(
    "text",
    [
        "data:;base64," * 60_000,
        "data:a/b;" * 80_000,
        "data:;base64," + ("A" * 19 + "\n") * 40_000,
        ("data:;base64,a" + " " * 1_000) * 700,
        "data:;base64," + "A\n" * 300_000,
        "data:" + ";a" * 300_000,
    ],
    ids=range(6),
)
def test_hostile_text_takes_linear_time(text: str) -> None:
    started = time.perf_counter()
    shorten_data_uris(text)
    assert time.perf_counter() - started < 2.0
