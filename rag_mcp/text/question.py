"""Decide what a question asks for: terms, identifiers and word order, weighed by the statistics of the classes asked.

Pure: it reads document frequencies through ``Statistics`` and knows nothing of how they are stored.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from math import log
from typing import Protocol

from rag_mcp.text.language import detect_language, is_frame_word, is_grammar, is_particle, is_stop_word
from rag_mcp.text.terms import (
    LANGUAGES,
    NO_LANGUAGE,
    Piece,
    QueryText,
    Stem,
    is_digest,
    letters,
    read_query,
    spelling_neighbours,
    stem_map,
)

__all__ = [
    "HEAD_WEIGHT",
    "LEAD_BOOST",
    "MATCHED",
    "PHRASE_WEIGHT",
    "Bonus",
    "Phrase",
    "Plan",
    "Planner",
    "Shares",
    "Statistics",
    "Unit",
    "idf",
]

LEAD_BOOST = 0.4
"""What a term in title, headings, aliases, tags or path adds to its score in the whole chunk."""

MATCHED = ("body", "head")
"""Where a term counts as met: in the chunk, or in what the head of its document says of it."""

HEAD_WEIGHT = 0.7
"""What a term in the head alone scores, against one that stands once in a chunk of average length."""

PHRASE_WEIGHT = 0.7
"""An identifier met only as its words in order, against the identifier met as written."""

_PART_WEIGHT = 0.25
_PAIR_WEIGHT = 0.3
_QUOTE_WEIGHT = 1.0
_TYPO_CREDIT = 0.6
_LETTER_CREDIT = 0.8
_PARTS_CREDIT = 0.5
_K1 = 1.2
# The share of its IDF that a frame word ("mentioned", "according") keeps.
_FRAME_IDF = 0.4

_MAX_UNITS = 64
_MAX_WORDS = 512
_MAX_PREFIX_TERMS = 64
_MAX_DIGEST_TERMS = 8
_MAX_PHRASE_TERMS = 8
_MAX_QUOTES = 4
_MAX_QUOTED_TERMS = 32
_MAX_PAIRS = 24
_MAX_TYPO_TERMS = 4
_MAX_TYPO_WORDS = 3
_TYPO_LETTERS = range(5, 17)


class Statistics(Protocol):
    """What is known of one class. ``documents`` and frequencies count alike (both with chunks not yet merged away)."""

    @property
    def documents(self) -> int: ...

    @property
    def languages(self) -> Mapping[str, int]: ...

    def expect(self, terms: Collection[str]) -> None:
        """Frequencies of these are asked for next: where each would cost a journey, they are fetched in one."""
        ...

    def frequency(self, field: str, term: str) -> int: ...

    def prefixed(self, prefix: str, limit: int) -> list[tuple[str, int]]:
        """Terms with that beginning and their frequencies; at most ``limit`` terms are looked at."""
        ...


Phrase = tuple[tuple[int, str], ...]
"""(offset, term) pairs, offsets from 0; a gap stands for words that may be any."""


def idf(documents: int, frequency: int) -> float:
    """Return the BM25 inverse document frequency, exactly as Tantivy computes it."""
    return log(1 + (documents - frequency + 0.5) / (frequency + 0.5))


@dataclass(frozen=True, slots=True)
class Unit:
    """One thing asked for. Any of ``variants`` (terms) or ``phrases`` is a match and it counts once.

    ``weight`` scales its score, ``credit`` its share when matched. An identifier names its ``parts``: other units that
    help the score and stand in for it when it is not found whole, but are not ``asked`` for themselves. Numbers and codes that
    say which of several like things is meant are ``fixed``, as written: another number is another thing.
    """

    label: str
    variants: tuple[str, ...]
    idf: float
    phrases: tuple[Phrase, ...] = ()
    weight: float = 1.0
    credit: float = 1.0
    exact: bool = False
    parts: tuple[str, ...] = ()
    asked: bool = True
    fixed: str = ""

    @property
    def known(self) -> bool:
        return bool(self.variants or self.phrases)


@dataclass(frozen=True, slots=True)
class Bonus:
    """Words in the order of the question; the best of the readings adds to the score as a term of this ``idf`` would."""

    phrases: tuple[Phrase, ...]
    idf: float
    exact: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """``common`` is True when the question holds nothing but words without content: only their order says anything.
    ``content`` are its other words as written, but for numbers and single letters, which mean nothing by themselves."""

    units: tuple[Unit, ...]
    bonuses: tuple[Bonus, ...]
    common: bool = False
    content: tuple[str, ...] = ()

    @property
    def bound(self) -> float:
        known = sum(unit.idf * unit.weight for unit in self.units if unit.known)
        return (_K1 + 1) * (known * (1 + LEAD_BOOST) + sum(bonus.idf for bonus in self.bonuses))


# "How long", "how many" ask for a measure; the answer rarely holds the word.
_MEASURES = frozenset({"long", "much", "many", "often", "far", "big", "large", "old", "tall", "high", "deep", "fast"})


# "The first 3", "over 500": a number behind these counts.
_COUNTING = frozenset(
    {"first", "last", "next", "past", "top", "least", "exactly", "around", "nearly", "almost", "every"}
)
_YEAR = re.compile(r"1[5-9]\d\d|20\d\d")
_GLUED = re.compile(r"([^\W\d_]{2,})(\d+(?:\.\d+)*)")


def _tells(piece: Piece) -> bool:
    """Single letters and numbers of a digit or two stand everywhere: alone they ask for nothing."""
    return not piece.surface.isascii() or len(piece.complete) > (2 if piece.number else 1)


class _Vocabulary:
    """What the classes asked, and no others, know of words."""

    def __init__(self, classes: Sequence[Statistics], stem: Stem) -> None:
        self._classes = classes
        self._stem = stem
        self.documents = sum(known.documents for known in classes)
        languages: Counter[str] = Counter()
        for known in classes:
            languages.update(known.languages)
        ranked = sorted(languages, key=lambda language: (-languages[language], language))
        self.languages = [language for language in ranked if language in LANGUAGES]

    def stems(self, words: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Every form a word may have been indexed under: as it is, and its stem in each language present."""
        distinct = sorted(words)
        by_language = [stem_map(distinct, language, self._stem) for language in self.languages]
        return {word: tuple(dict.fromkeys([word, *(stems[word] for stems in by_language)])) for word in distinct}

    def expect(self, terms: Iterable[str]) -> None:
        wanted = set(terms)
        for known in self._classes:
            known.expect(wanted)

    def begins_longer(self, prefix: str) -> bool:
        return any(known.prefixed(prefix, 1) for known in self._classes)

    def beginning(self, prefix: str) -> list[str]:
        """The most frequent terms with that beginning."""
        totals: Counter[str] = Counter()
        for known in self._classes:
            totals.update(dict(known.prefixed(prefix, 16 * _MAX_PREFIX_TERMS)))
        return sorted(totals, key=lambda term: (-totals[term], term))[:_MAX_PREFIX_TERMS]

    def digests(self, word: str) -> tuple[str, ...]:
        """Terms that begin with a hexadecimal word: a shortened commit or checksum finds the full one."""
        if not is_digest(word):
            return ()
        found = {term for known in self._classes for term, _ in known.prefixed(word, _MAX_DIGEST_TERMS)}
        return tuple(sorted(found)[:_MAX_DIGEST_TERMS])

    def readings(self, words: Sequence[tuple[int, str]]) -> tuple[Phrase, ...]:
        """The words as a phrase in each language present (and unstemmed), where every word is known."""
        distinct = [word for _, word in words]
        maps = [stem_map(distinct, language, self._stem) for language in [*self.languages, NO_LANGUAGE]]
        start = words[0][0]
        found = {tuple((at - start, stems[word]) for at, word in words): None for stems in maps}
        self.expect(term for phrase in found for _, term in phrase)
        return tuple(phrase for phrase in found if all(self.frequency(term) for _, term in phrase))

    def known(self, terms: Iterable[str]) -> tuple[str, ...]:
        distinct = dict.fromkeys(terms)
        self.expect(distinct)
        return tuple(term for term in distinct if self.frequency(term))

    def frequency(self, term: str) -> int:
        return sum(max(known.frequency(field, term) for field in MATCHED) for known in self._classes)

    def group_idf(self, variants: Sequence[str]) -> float:
        """IDF of the most frequent variant: the others are mostly other spellings of the same chunks' word.

        A word nobody uses weighs what a word used once does: in a handful of notes its absence says little, and in a
        large corpus the two are nearly equal.
        """
        return idf(self.documents, max(1, max(map(self.frequency, variants), default=0)))


class Planner:
    """Reads one question against the statistics of the classes asked, and of no others."""

    def __init__(self, classes: Sequence[Statistics], stem: Stem) -> None:
        self._words = _Vocabulary(classes, stem)

    def plan(self, text: str) -> Plan:
        query = read_query(text)
        pieces = query.pieces[:_MAX_WORDS]
        language = self._language(text, pieces)
        stems = self._words.stems({part for piece in pieces for part in piece.parts} | set(query.prefixes))
        wholes = (whole for piece in pieces for whole in piece.wholes)
        self._words.expect(chain(chain.from_iterable(stems.values()), wholes))
        content = self._content(pieces, language)
        kept = content or list(pieces)
        units = self._units(kept, language, stems, self._designations(pieces, language))
        units |= {f"{prefix}*": self._prefix_unit(prefix, stems) for prefix in query.prefixes[:_MAX_UNITS]}
        strongest = sorted(units.values(), key=lambda unit: (not unit.known, -unit.idf * unit.weight))
        chosen = {unit.label for unit in strongest[:_MAX_UNITS]}
        return Plan(
            units=tuple(self._with_typos(unit for unit in units.values() if unit.label in chosen)),
            bonuses=tuple(self._bonuses(query, pieces, language)),
            common=not any(map(_tells, content)) and not query.prefixes,
            content=(*(piece.surface for piece in content if _tells(piece) and not piece.number), *query.prefixes),
        )

    # words and identifiers

    def _language(self, text: str, pieces: Sequence[Piece]) -> str:
        """The language of a question; one of a few short words, all without content in one language, is in that one."""
        found = detect_language(text)
        words = {part for piece in pieces for part in piece.parts}
        default = self._words.languages[0] if self._words.languages else "en"
        if found != NO_LANGUAGE or len(words) < 2:
            return default if found == NO_LANGUAGE else found
        alike = (code for code in (default, *LANGUAGES) if all(is_stop_word(word, code) for word in words))
        return next(alike, default)

    def _content(self, pieces: Iterable[Piece], language: str) -> list[Piece]:
        listed = list(pieces)
        asking = {at + 1 for at, piece in enumerate(listed) if piece.parts == ("how",)}
        return [
            piece
            for at, piece in enumerate(listed)
            if self._is_name(piece)
            or not (
                all(is_stop_word(part, language) for part in piece.parts)
                or (at in asking and piece.parts[0] in _MEASURES)
                or (is_grammar(piece) and not self._words.frequency(piece.complete))
            )
        ]

    def _is_name(self, piece: Piece) -> bool:
        """Tell whether a piece is looked for as one name: a word with a dot before it (".env") only where it stands so."""
        dotted = piece.surface[0] == "." and len(piece.parts) == 1
        return piece.identifier and (not dotted or self._words.frequency(piece.complete) > 0)

    def _designations(self, pieces: Sequence[Piece], language: str) -> dict[str, str]:
        """Numbers behind a name say which one is meant, and may be joined to it ("berth 9", "berth9"); others count."""
        found: dict[str, str] = {}
        for before, piece in zip([None, *pieces], pieces, strict=False):
            if not piece.number or len(piece.parts) > 1 or piece.identifier:
                continue
            number = piece.complete
            name = before.parts[-1] if before else ""
            if name.isalpha() and name not in _COUNTING and not is_stop_word(name, language):
                found[number] = f"{name}{number}"
            elif _YEAR.fullmatch(number):
                found[number] = number
        return found

    def _units(
        self,
        pieces: Iterable[Piece],
        language: str,
        stems: Mapping[str, tuple[str, ...]],
        designations: Mapping[str, str],
    ) -> dict[str, Unit]:
        asked: dict[str, Unit] = {}
        helping: dict[str, Unit] = {}
        for piece in pieces:
            words = [part for part in piece.parts if not is_stop_word(part, language)] or list(piece.parts)
            if self._is_name(piece):
                words = words if len(piece.parts) > 1 and not piece.number else []
                unit = self._identifier_unit(piece, tuple(words))
                asked[unit.label] = unit
                for word in words:
                    helping.setdefault(
                        word, replace(self._word_unit(word, stems[word]), weight=_PART_WEIGHT, asked=False)
                    )
                continue
            joined = piece.wholes[:1] if len(piece.parts) > 1 else ()
            for word in words:
                unit = self._word_unit(word, (*stems[word], *joined, *filter(None, [designations.get(word)])))
                if is_frame_word(word, language):
                    unit = replace(unit, idf=_FRAME_IDF * unit.idf)
                for one in [unit] if unit.known else self._letter_units(piece) or [unit]:
                    asked.setdefault(
                        one.label,
                        replace(one, fixed=self._fixed(word, piece) if word in designations or piece.initials else ""),
                    )
        return helping | asked

    def _letter_units(self, piece: Piece) -> list[Unit]:
        """What stands for a pair of letters that no chunk has, be it two words or a word and its particle: the letters
        themselves, where each of them is known."""
        content = [letter for letter in letters(piece) if not is_particle(letter)]
        if not content or not all(map(self._words.frequency, content)):
            return []
        credit = _LETTER_CREDIT if len(content) > 1 else 1.0
        return [replace(self._word_unit(letter, [letter]), weight=credit, credit=credit) for letter in content]

    def _fixed(self, label: str, piece: Piece) -> str:
        """The spelling of a number or code; none where it is the beginning of longer numbers: 3.4.1 is a 3.4 too."""
        return "" if self._words.begins_longer(f"{label}.") else piece.surface

    def _word_unit(self, word: str, forms: Iterable[str]) -> Unit:
        found = self._words.known((*forms, *self._words.digests(word)))
        return Unit(word, found, self._words.group_idf(found))

    def _identifier_unit(self, piece: Piece, parts: tuple[str, ...]) -> Unit:
        whole = piece.complete
        found = self._words.known((*self._words.stems([whole])[whole], *self._words.digests(whole)))
        phrases: tuple[Phrase, ...] = ()
        glued = _GLUED.fullmatch(whole)
        words = glued.groups() if glued else piece.parts
        if 1 < len(words) <= _MAX_PHRASE_TERMS:
            phrases = self._words.readings(list(enumerate(words)))
        code = piece.code
        return Unit(
            whole,
            found,
            self._words.group_idf(found),
            phrases=phrases,
            exact=True,
            parts=() if code else parts,  # the parts of another code are no part of an answer
            fixed=self._fixed(whole, piece) if code else "",
        )

    def _prefix_unit(self, prefix: str, stems: Mapping[str, tuple[str, ...]]) -> Unit:
        ranked = self._words.beginning(prefix)
        variants = tuple(dict.fromkeys([*self._words.known(stems[prefix]), *ranked]))
        frequency = min(self._words.documents, sum(self._words.frequency(term) for term in variants))
        return Unit(f"{prefix}*", variants, idf(self._words.documents, frequency))

    def _with_typos(self, units: Iterable[Unit]) -> Iterator[Unit]:
        """Give words no chunk has their neighbours one edit away, at a discount."""
        left = _MAX_TYPO_WORDS
        for unit in units:
            word = unit.label
            plain = len(word) in _TYPO_LETTERS and word.isascii() and word.isalpha()
            if unit.known or unit.exact or not plain or left == 0:
                yield unit
                continue
            left -= 1
            forms = {form for found in self._words.stems(spelling_neighbours(word)).values() for form in found}
            near = sorted(self._words.known(sorted(forms)), key=lambda term: (-self._words.frequency(term), term))
            yield replace(
                unit, variants=tuple(near[:_MAX_TYPO_TERMS]), weight=_TYPO_CREDIT * unit.weight, credit=_TYPO_CREDIT
            )

    # order of words

    def _bonuses(self, query: QueryText, pieces: Sequence[Piece], language: str) -> Iterator[Bonus]:
        for phrase in query.phrases[:_MAX_QUOTES]:
            words = [part for piece in phrase for part in piece.parts][:_MAX_QUOTED_TERMS]
            yield from self._bonus(list(enumerate(words)), _QUOTE_WEIGHT, exact=True)
        placed = list(enumerate(part for piece in pieces for part in piece.parts))
        content = [(at, part) for at, part in placed if not is_stop_word(part, language)] or placed
        if 2 < len(content) <= _MAX_PHRASE_TERMS:
            yield from self._bonus(content, _PAIR_WEIGHT, exact=True)
        for first, second in islice(zip(content, content[1:], strict=False), _MAX_PAIRS):
            if second[0] - first[0] <= 2:
                yield from self._bonus([first, second], _PAIR_WEIGHT, exact=len(content) == 2)

    def _bonus(self, words: Sequence[tuple[int, str]], weight: float, *, exact: bool) -> Iterator[Bonus]:
        phrases = self._words.readings(words)
        if phrases:
            idfs = [self._words.group_idf((term,)) for _, term in phrases[0]]
            yield Bonus(phrases, weight * sum(idfs), exact)


class Shares:
    """IDF-weighted share of what was asked for. An identifier not met whole counts at most half, by its parts."""

    def __init__(self, units: Sequence[Unit]) -> None:
        idfs = {unit.label: unit.idf for unit in units}
        self._wanted = [
            (unit.label, unit.idf, unit.credit, [(part, idfs.get(part, 0.0)) for part in unit.parts])
            for unit in units
            if unit.asked
        ]
        self._asked = sum(weight for _, weight, _, _ in self._wanted)

    def of(self, met: Collection[str]) -> float:
        """Share (0..1) for a chunk that meets the units with these labels."""
        got = 0.0
        for label, weight, credit, parts in self._wanted:
            if label in met:
                got += weight * credit
            elif parts:
                total = sum(idf for _, idf in parts)
                found = sum(idf for part, idf in parts if part in met)
                got += _PARTS_CREDIT * weight * found / total if total else 0.0
        return min(1.0, got / self._asked) if self._asked else 0.0
