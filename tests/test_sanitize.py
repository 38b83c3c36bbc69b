"""Untrusted text shows what it says and does nothing else; honest text is left alone."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support import growth

from rag_mcp.text.sanitize import json_safe, neutralise, one_line, scrub, single_line, terminal_safe

HOSTILE = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("\x1b[]m;\x07\\\x9b\x00\r\n\u200b\u200c\u200d\u202e\u2066\ufe0f\ufe01\U000e0041\U000e0100"),
        st.sampled_from("👩🏴葛می\u0915\u094d\U000e007f\ud800"),
    ),
    max_size=60,
)


@pytest.mark.parametrize(
    ("text", "shown", "kinds"),
    [
        ("a\x1b[31mred\x1b[0m", "ared", ("ansi_escape",)),
        ("\x9b2Jcleared", "cleared", ("ansi_escape",)),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x07", "link", ("ansi_escape",)),
        ("\x1bcreset", "reset", ("ansi_escape",)),
        ("\x1b]0;never closed, but kept", "␛]0;never closed, but kept", ("control_character",)),
        ("bell\x07 null\x00 delete\x7f next\x85", "bell␇ null␀ delete␡ next\ufffd", ("control_character",)),
        ("over\rwritten", "over␍written", ("control_character",)),
        ("user\u202etxt.exe", "usertxt.exe", ("bidi_override",)),
        ("\u2066isolated\u2069", "isolated", ("bidi_override",)),
        ("pass\u200bword\ufeff", "password", ("zero_width",)),
        ("x\u200dy", "xy", ("zero_width",)),
        ("hi\U000e0068\U000e0069", "hi", ("tag_character",)),
        ("a\ufe0f\ufe01\ufe02\ufe03", "a\ufe0f", ("tag_character",)),
        ("a\x1b[1m\u202e\u200b", "a", ("ansi_escape", "bidi_override", "zero_width")),
        ("co\u00adop", "coop", ()),
    ],
)
def test_what_hides_or_acts_is_taken_out_and_named(text, shown, kinds):
    assert neutralise(text) == (shown, kinds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Plain text, tab\tand\nlines\r\nof a file.",
        "Grüße, 漢字, עברית, العربية 🙂",
        "👩\u200d👩\u200d👧 and 👩🏽\u200d🚀 and ❤️\u200d🔥",
        "می\u200cخواهم",
        "क\u094d\u200dष क\u094d\u200cष",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "葛\U000e0100飾",
        "שלום \u200fabc",
    ],
)
def test_honest_text_of_any_script_comes_back_unchanged(text):
    assert neutralise(text) == (text, ())


def test_text_without_suspects_is_the_same_object():
    text = "An ordinary paragraph — with dashes, 漢字 and 🙂.\r\n" * 50
    assert neutralise(text)[0] is text


@settings(deadline=None)
@given(HOSTILE)
@example("\x1b\x1b[[m")
@example("\u200b\U000e0041\ufe0f\ufe0f")
@example("\x1b\u200b[31m")
def test_the_result_is_clean_and_never_longer(text):
    shown, _ = neutralise(text)
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\ufeff\u202a-\u202e\u2066-\u2069]|\r(?!\n)", shown)
    assert len(shown) <= len(text)


@settings(deadline=None)
@given(HOSTILE)
def test_a_second_pass_finds_no_terminal_or_direction_control(text):
    assert not {"ansi_escape", "control_character", "bidi_override"} & set(neutralise(neutralise(text)[0])[1])


@settings(deadline=None)
@given(HOSTILE)
def test_terminal_text_can_always_be_encoded_and_holds_no_direction_marks(text):
    safe = terminal_safe(text)
    safe.encode("utf-8")
    assert not re.search("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\x1b]", safe)


def test_lone_surrogates_are_replaced():
    assert scrub("a\ud800b\udfff") == "a\ufffdb\ufffd"


@given(st.text(st.characters()))
def test_escaped_json_holds_the_same_data_and_nothing_a_terminal_would_obey_or_hide(text):
    shown = json_safe(json.dumps([text], ensure_ascii=False))
    assert json.loads(shown) == [text]
    shown.encode("utf-8")
    assert terminal_safe(shown) == shown


LINE_ENDS = [each for each in map(chr, range(0x3000)) if len(f"a{each}b".splitlines()) > 1]


@given(st.text(st.one_of(st.characters(), st.sampled_from(LINE_ENDS))))
@example("\r\n")
@example("\r\u200e\n")
@example("first\r\n\r\nsecond\r")
def test_a_name_or_title_stays_on_its_line(text):
    for shown in (one_line(text), single_line(text)):
        assert len(shown.splitlines()) <= 1
        assert not re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029]", shown)


@pytest.mark.parametrize("end", [*LINE_ENDS, "\r\n"], ids=ascii)
def test_every_kind_of_line_end_is_one_blank_in_a_title(end):
    assert one_line(f"Lamp{end}room") == single_line(f"Lamp{end}room") == "Lamp room"


@pytest.mark.parametrize(
    "unit",
    [
        "\x9d", "\x9da", "\x1b]", "\x1b]a", "\x1bP\x90", "\x1b", "\x1b ", "\x1b[", "\x9b0", "\x9b0 ", "\x98\x1b",
        "\u200b", "\u200d", "\u0628\u200d", "\u202e", "\u2066\u2069", "\ud800", "\U000e0041", "\U0001f3f4\U000e0061",
        "\ufe0f", "e\u0301\u0327", "\r", "\xad", "\x85", "\ufeff\x00",
    ],
    ids=ascii,
)  # fmt: skip
@pytest.mark.parametrize(
    "clean", [neutralise, one_line, single_line, json_safe], ids=lambda function: function.__name__
)
def test_the_work_grows_with_the_text_and_not_with_its_square(clean, unit):
    assert growth(lambda size: f"\x9d\x9b\x1b]{unit * (size // len(unit))}", clean, 1_000) < 3


def test_a_string_command_reaches_over_no_line_end():
    """Its lines would be gone, and every line number behind it wrong."""
    shown, kinds = neutralise("one\x1b]0;two\nthree\x07four\n")
    assert shown.count("\n") == 2 and kinds == ("control_character",)
