"""Untrusted text made harmless to look at: what a reader can't see, or a terminal would obey, is taken out and named.

Nothing here judges the words of a text; a passage stays data because JSON (or a line prefix) says where it ends.
"""

from __future__ import annotations

import json
import re
import unicodedata

__all__ = [
    "json_safe",
    "neutralise",
    "one_line",
    "printable",
    "scrub",
    "single_line",
    "terminal_safe",
    "without_escapes",
]

# One scan decides whether there is anything to do; almost every text ends here. A carriage return before a line feed
# is an ordinary line end.
_SUSPECT = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]|[\ufe00-\ufe0f]{2}|\r(?!\n)"
)
# ECMA-48: CSI, then the string commands (OSC, DCS, PM, APC, SOS) up to their end, then two-character commands. An
# unfinished string command is not matched, so that it can't swallow the text behind it, nor does one reach over a line
# end, so that lines keep their numbers. Linear: no part can begin another (what opens a string command does not occur
# inside one), and what has been matched is never given back.
_ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\n\x07\x1b\x90\x98\x9c-\x9f]{0,4096}+(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*+[0-Z\\^-~]"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_BIDI_OVERRIDE = re.compile("[\u202a-\u202e\u2066-\u2069]")
# Tag characters and variation selectors can spell hidden text. Both have an honest use: the flags of England, Scotland
# and Wales, and one selector after the character it varies.
_TAG = re.compile("[\U000e0000-\U000e0fff]|(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f]")
_HONEST_TAG = re.compile(
    "\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,6}\U000e007f"
    "|[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff][\U000e0100-\U000e01ef]"
)
# All that Unicode or a terminal takes for the end of a line (str.splitlines), with the tab, which moves the cursor too.
_LINE_BREAK = re.compile("\r\n|[\t-\r\x1c-\x1e\x85\u2028\u2029]")
_UNSEEN = re.compile(
    "[\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e0fff]"
)
_JOINER = re.compile("[\u180e\u200c\u200d]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ZERO_WIDTH = re.compile("[\u00ad\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb]")


def neutralise(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the text without invisible and terminal-active characters, and the kinds found, in a fixed order.

    Kinds: ansi_escape, control_character, bidi_override, tag_character, zero_width. Controls become their visible
    picture (one character for one), the rest is removed, so a text never grows. Joiners that a script or an emoji
    needs, single direction marks and soft hyphens are no attack: they are kept, kept, and dropped without a warning.
    A text without such characters is returned as the same object.
    """
    if not _SUSPECT.search(text):
        return text, ()
    found: list[str] = []

    def replaced(kind: str, pattern: re.Pattern[str], by: str, value: str) -> str:
        result, count = pattern.subn(by, value)
        if count:
            found.append(kind)
        return result

    text = replaced("ansi_escape", _ANSI, "", text)
    if _CONTROL.search(text):
        found.append("control_character")
        text = _CONTROL.sub(_picture, text)
    text = replaced("bidi_override", _BIDI_OVERRIDE, "", text)
    text = _without_tags(text, found)
    text = _without_zero_width(text, found)
    return text, tuple(found)


def without_escapes(text: str) -> str:
    """Return text without the sequences that command a terminal, such as colours."""
    return _ANSI.sub("", text)


def terminal_safe(text: str) -> str:
    """Return text that can't move the cursor, reorder a line or break an encoder; for one value on a terminal."""
    return _BIDI.sub("", neutralise(scrub(text))[0])


def single_line(text: str) -> str:
    """Return neutralised text with a blank for every line end: for names, titles, headings and reasons."""
    return neutralise(_LINE_BREAK.sub(" ", text))[0]


def one_line(text: str) -> str:
    """Return ``terminal_safe`` text on one line: a name or a title can't begin a line of its own, nor go back on one."""
    return terminal_safe(_LINE_BREAK.sub(" ", text))


def json_safe(text: str) -> str:
    """Spell what a JSON text holds invisibly, or a terminal would obey, as escapes: the same data, fit to look at."""
    return _UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1], text)


def scrub(text: str) -> str:
    """Replace lone surrogates, which no UTF-8 stream can carry."""
    return _SURROGATE.sub("\ufffd", text)


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code == 0x7F:
        return "\u2421"
    return chr(0x2400 + code) if code < 0x20 else "\ufffd"


def _without_tags(text: str, found: list[str]) -> str:
    if not _TAG.search(text):
        return text
    pieces: list[str] = []
    position = 0
    for honest in _HONEST_TAG.finditer(text):
        pieces += [_TAG.sub("", text[position : honest.start()]), honest[0]]
        position = honest.end()
    pieces.append(_TAG.sub("", text[position:]))
    result = "".join(pieces)
    if result != text:
        found.append("tag_character")
    return result


def _without_zero_width(text: str, found: list[str]) -> str:
    plain = text.replace("\u00ad", "")
    result = _ZERO_WIDTH.sub("", plain)
    if _JOINER.search(result):
        result = "".join(
            character
            for position, character in enumerate(result)
            if not _JOINER.match(character) or _joins(result, position)
        )
    if result != plain:
        found.append("zero_width")
    return result


def _joins(text: str, position: int) -> bool:
    """Whether a joiner has work to do: between emoji, or inside a word of a script that shapes its letters."""
    before = text[position - 1] if position else ""
    after = text[position + 1 : position + 2]
    if not before or not after:
        return False
    if text[position] == "\u200d" and _pictograph(before) and _pictograph(after):
        return True
    return _shaping(before) and (_shaping(after) or text[position] == "\u200d" or not after.isalnum())


def _pictograph(character: str) -> bool:
    return (
        "\U0001f000" <= character <= "\U0001faff"
        or "\u2190" <= character <= "\u2bff"
        or character in "\ufe0f\u3030\u303d\u3297\u3299"
    )


def _shaping(character: str) -> bool:
    """Letters and marks of Arabic, Syriac, Indic and other scripts in which joiners change the spelling."""
    return (
        unicodedata.category(character)[0] in "LM"
        and "\u0600" <= character <= "\u1aff"
        and not "\u10a0" <= character <= "\u139f"
    )


def printable(text: str, *, max_chars: int = 200) -> str:
    """Return ``text`` fit for a report: one line, nothing invisible, bytes that are not UTF-8 in hexadecimal."""
    shown = "".join(character if character.isprintable() else _stand_in(character) for character in text)
    return shown if len(shown) <= max_chars else shown[: max_chars - 1] + "…"


def _stand_in(character: str) -> str:
    code = ord(character)
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else "\ufffd"
