"""Which script is a text written in, and is one text in another language than another? Pure."""

from __future__ import annotations

import unicodedata
from collections import Counter
from functools import lru_cache

from rag_mcp.text.language import detect_language
from rag_mcp.text.terms import LANGUAGES

__all__ = ["LATIN", "in_another_language", "script_of", "writing_of"]

LATIN = "LATIN"
# Japanese mixes these with Chinese characters; any of them tells it from Chinese.
_KANA = ("HIRAGANA", "KATAKANA")
_SAMPLE_CHARS = 160


def script_of(letter: str) -> str:
    """The first word of a letter's Unicode name: LATIN, THAI, CJK."""
    return LATIN if letter.isascii() else _named(letter)


@lru_cache(maxsize=4_096)
def _named(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


@lru_cache(maxsize=4_096)
def writing_of(text: str) -> str:
    """The script of most letters at the beginning of a text; empty when it has none."""
    sample = text[:_SAMPLE_CHARS]
    if sample.isascii():
        return LATIN if any(map(str.isalpha, sample)) else ""
    scripts = Counter(map(script_of, filter(str.isalpha, sample)))
    kana = next((script for script in _KANA if script in scripts), None)
    return kana and _KANA[0] or max(scripts, key=lambda script: (scripts[script], script), default="")


_language_of = lru_cache(maxsize=64)(detect_language)  # a question is compared with many passages


def in_another_language(question: str, passage: str, *, language: str) -> bool:
    """Tell whether a passage of a document in ``language`` is in another language than a question, as far as that can be
    told: another script, or two languages that both are known."""
    asked, written = writing_of(question), writing_of(passage)
    if not asked or not written:
        return False
    if asked != written:
        return True
    own = _language_of(question)
    return own != language and {own, language} <= set(LANGUAGES)
