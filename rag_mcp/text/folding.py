"""Spellings that readers take for one another become one: letter case, accents, widths, look-alikes, invisible signs."""

from __future__ import annotations

import re
import unicodedata
from typing import ClassVar

__all__ = ["fold", "normal"]

_LETTERS = {
    "ł": "l", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ß": "ss", "ı": "i", "ħ": "h",
    "ŧ": "t", "ŋ": "n", "ĸ": "k", "ſ": "s", "ə": "e", "ƒ": "f", "ȷ": "j", "й": "й",
    # Arabic, Persian, Urdu: keyboards give yeh, kaf and heh other code points; teh marbuta is often typed as heh.
    "\u0671": "\u0627", "\u0672": "\u0627", "\u0673": "\u0627", "\u0649": "\u064a", "\u06cc": "\u064a",
    "\u06a9": "\u0643", "\u06aa": "\u0643", "\u06c1": "\u0647", "\u06be": "\u0647", "\u06d5": "\u0647",
    "\u0629": "\u0647", "\u06c3": "\u0647",
    # Hebrew: final forms, Yiddish digraphs.
    "\u05da": "\u05db", "\u05dd": "\u05de", "\u05df": "\u05e0", "\u05e3": "\u05e4", "\u05e5": "\u05e6",
    "\u05f0": "\u05d5\u05d5", "\u05f1": "\u05d5\u05d9", "\u05f2": "\u05d9\u05d9",
    # Candrabindu is written as anusvara; letters that older keyboards spell with virama and a zero-width joiner.
    "\u0901": "\u0902", "\u09ce": "\u09a4\u09cd", "\u0d7a": "\u0d23\u0d4d", "\u0d7b": "\u0d28\u0d4d",
    "\u0d7c": "\u0d30\u0d4d", "\u0d7d": "\u0d32\u0d4d", "\u0d7e": "\u0d33\u0d4d", "\u0d7f": "\u0d15\u0d4d",
    # Letters that only lengthen a line.
    "\u0640": "", "\u07fa": "", "\u180a": "",
}  # fmt: skip
"""Letters without a canonical decomposition that readers take for others, and й, which is no accented и."""

_NEEDED_MARKS = re.compile(
    "[\u0e00-\u109f\u1780-\u17ff\u1900-\u194f\u1a20-\u1aaf\u302a-\u309f\ua900-\ua92f\uaa60-\uaa7f]"
)
"""Scripts whose tone and vowel marks make other words though their combining classes are those of accents."""


def _may_be_left_out(char: str) -> bool:
    """Tell whether writers may leave a mark out: accents, points of Hebrew, Arabic and Syriac, nukta, enclosing marks.

    The canonical combining class says so: 7 is nukta, 10 to 36 are points, 1 and 200 upward attach to any letter; vowel
    signs and viramas have other classes.
    """
    place = unicodedata.combining(char)
    optional = place in (1, 7) or 10 <= place <= 36 or place >= 200 or unicodedata.category(char) == "Me"
    return optional and not _NEEDED_MARKS.match(char)


class _FoldTable(dict[int, str]):
    """Character -> folded form, worked out once for each character met."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        folded = _LETTERS.get(char)
        if folded is None:
            parts = unicodedata.normalize("NFD", char)
            kept = "".join(_LETTERS.get(part, part) for part in parts if not _may_be_left_out(part))
            folded = char if kept == parts else kept
        self[code] = folded
        return folded


class _SignTable(dict[int, str]):
    """Digits of every script become ASCII digits, look-alike apostrophes and hyphens become one each."""

    _SIGNS: ClassVar = {
        **dict.fromkeys(
            "\u00b4\u02b9\u02bb\u02bc\u02bd\u02be\u02bf\u02c8\u055a\u05f3\u07f4\u07f5\u2018\u2019\u201b", "'"
        ),
        **dict.fromkeys("\u2032\ua78c", "'"),
        **dict.fromkeys("\u058a\u05be\u2010\u2011", "-"),
        "\u066b": ".",
        "\u066c": ",",
    }

    def __missing__(self, code: int) -> str:
        char = chr(code)
        digit = unicodedata.decimal(char, None)
        self[code] = found = self._SIGNS.get(char, char) if digit is None else str(digit)
        return found


_FOLDS = _FoldTable()
_SIGNS = _SignTable()
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\U000e0000-\U000e0fff]"
)
_ARABIC = "\u0620-\u065f\u066e-\u06d3\u06d5-\u06dc\u06fa-\u06ff\u0750-\u077f"
_ARABIC_JOINT = re.compile(f"(?<=[{_ARABIC}])\u200c+(?=[{_ARABIC}])")
"""A zero-width non-joiner inside a Persian word, which others type as a space or not at all: a compound."""

_DOUBLED_VOWEL = re.compile("\u0e40\u0e40|\u0ec0\u0ec0")
_RESPELT = (
    (re.compile("([\u0e4d\u0ecd])([\u0e48-\u0e4b\u0ec8-\u0ecb])"), r"\2\1"),  # Thai, Lao: tone mark before nikhahit
    (re.compile("\u17d2\u178a"), "\u17d2\u178f"),  # Khmer: subscripts da and ta look alike
    (re.compile("\u0d4d{2,}"), "\u0d4d"),
    (  # Devanagari: a nasal before a stop of its own place is written as anusvara
        re.compile(
            "\u0919\u094d(?=[\u0915-\u0918])|\u091e\u094d(?=[\u091a-\u091d])|\u0923\u094d(?=[\u091f-\u0922])"
            "|\u0928\u094d(?=[\u0924-\u0927])|\u092e\u094d(?=[\u092a-\u092d])"
        ),
        "\u0902",
    ),
    (re.compile(r"(?:(?<=\w{3})|(?<=\u064a))\u0621+\b"), ""),  # Arabic: hamza at the end of a word
)


def normal(text: str) -> str:
    """Compatibility-composed text without invisible characters, with ASCII digits and apostrophes, letter case kept."""
    if text.isascii():
        return text
    visible = _INVISIBLE.sub("", _ARABIC_JOINT.sub("-", text))
    plain = unicodedata.normalize("NFKC", visible).translate(_SIGNS)
    return _DOUBLED_VOWEL.sub(lambda found: chr(ord(found.group()[0]) + 1), plain)


def fold(text: str) -> str:
    """Return the text without letter case, accents, points, ligatures, width variants and invisible characters."""
    if text.isascii():
        return text.lower()
    lowered = normal(text).lower().translate(_FOLDS)  # before casefold, which makes letters of iota subscripts
    cased = unicodedata.normalize("NFKC", lowered.casefold()).translate(_FOLDS)
    if not _EASTERN.search(cased):
        return unicodedata.normalize("NFC", cased)
    for pattern, spelling in _RESPELT:
        cased = pattern.sub(spelling, cased)
    return unicodedata.normalize("NFC", cased)


_EASTERN = re.compile("[\u0600-\u17ff]")
