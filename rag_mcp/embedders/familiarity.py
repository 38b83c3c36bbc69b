"""How well a vocabulary fits a text; the vector branch is believed less where it does not, and not at all where the
model knows none of its words. Both are read off the tokenizer: which scripts it holds words of, and whether they are many."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from rag_mcp.text.scripts import LATIN, script_of

__all__ = ["WordPieces", "familiarity", "known_scripts", "words_of"]

_WORD = re.compile(r"\w+")
# Words of one or two letters ("de", "la", "is") stand whole in the vocabulary in many languages and tell nothing.
_SHORTEST = 3
# Two whole words are taken as given, so that one rare word alone is not read as a foreign language.
_PRIOR_WORDS = 2.0
# A script without spaces makes a whole sentence one "word"; three pieces count as one broken word.
_PIECES_A_WORD = 3.0
# MiniLM holds 8 tokens of several Cyrillic letters and 26,000 Latin ones, multilingual-e5 some 100 of the rarest script.
_LEAST_TOKENS = 30
# A vocabulary of one language holds one script, or two or three; multilingual-e5 holds 26.
_MANY_SCRIPTS = 5


@dataclass(frozen=True, slots=True)
class WordPieces:
    """One word of a text, the number of pieces the tokenizer made of it, and how many of these it did not know."""

    word: str
    pieces: int
    unknown: int = 0


def known_scripts(vocabulary: Iterable[str]) -> frozenset[str]:
    """The scripts (as ``script_of``) that a vocabulary holds words of, and not single letters only."""
    counts: Counter[str] = Counter()
    for token in vocabulary:
        if not token.isascii():
            letters = [char for char in token if char.isalpha()]
            counts.update([script_of(letters[0])] if len(letters) > 1 else [])
    return frozenset({LATIN, *(script for script, count in counts.items() if count >= _LEAST_TOKENS)})


def familiarity(words: Iterable[WordPieces], scripts: Collection[str]) -> float:
    """Return the share (0..1) of words that stand whole in the vocabulary; 1.0 when there is nothing to judge, 0.0 when
    there are words and each is unknown or in none of the ``scripts`` the vocabulary holds words of.

    A vocabulary of many scripts is shared by many languages and splits the words of all: there a word counts as whole
    unless it is unknown. Identifiers (digits, underscores, inner capitals) are left out: they fall apart in every language.
    The value never rises when a word without unknown pieces falls into more, or a piece becomes unknown.
    """
    whole = _PRIOR_WORDS
    broken = 0.0
    listed = list(words)
    known = [_is_known(word, letter, scripts) for word in listed if (letter := _first_letter(word.word))]
    if known and not any(known):
        return 0.0
    splits = len(scripts) >= _MANY_SCRIPTS
    for word in listed:
        if _tells_nothing(word.word):
            continue
        if not word.unknown and (word.pieces <= 1 or (splits and _is_known(word, _first_letter(word.word), scripts))):
            whole += 1.0
        else:
            broken += max(1.0, word.pieces / _PIECES_A_WORD)
    return whole / (whole + broken)


def words_of(
    text: str, offsets: Sequence[tuple[int, int]], tokens: Sequence[str], unknown_tokens: Collection[str]
) -> list[WordPieces]:
    """Count the pieces of every word; ``offsets`` are character spans of ``tokens`` in ``text``, in order."""
    spans = [match.span() for match in _WORD.finditer(text)]
    pieces = [0] * len(spans)
    unknown = [0] * len(spans)
    at = 0
    for (start, end), token in zip(offsets, tokens, strict=True):
        while at < len(spans) and spans[at][1] <= start:
            at += 1
        if at == len(spans):
            break
        if end > spans[at][0]:
            pieces[at] += 1
            unknown[at] += token in unknown_tokens
    return [
        WordPieces(text[start:end], count, missed)
        for (start, end), count, missed in zip(spans, pieces, unknown, strict=True)
    ]


def _first_letter(word: str) -> str:
    return next(filter(str.isalpha, word), "")


def _is_known(word: WordPieces, letter: str, scripts: Collection[str]) -> bool:
    return word.unknown < max(1, word.pieces) and script_of(letter) in scripts


def _tells_nothing(word: str) -> bool:
    if word.isascii() and len(word) < _SHORTEST:
        return True
    return any(letter.isdigit() or letter == "_" for letter in word) or any(letter.isupper() for letter in word[1:])
