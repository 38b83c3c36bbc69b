"""Turn text into index terms; the same functions serve chunks and questions, so every spelling meets itself.

A *piece* is what a reader sees as one word: a plain word, a compound such as ``on-premise`` or ``GitHub``, or an
identifier such as ``pkg.ledger_io.flushToDisk``. A piece has *parts* (its words, one position each) and *wholes*
(its joined forms, at the position of the last part). Joined forms drop their separators, except a dot between two
digits, so ``QX-7731`` and ``qx7731`` are one term while ``2.10.3`` and ``21.03`` stay two.

Order matters: characters are folded before stemming, because stemmers leave words with unexpected accents alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import chain, pairwise

from rag_mcp.text.folding import fold, normal

__all__ = [
    "LANGUAGES",
    "NO_LANGUAGE",
    "Piece",
    "QueryText",
    "Stem",
    "index_terms",
    "is_digest",
    "letters",
    "read_query",
    "segment",
    "spelling_neighbours",
    "stem_map",
]

Stem = Callable[[str, list[str]], list[str]]
"""(language, folded words) -> their stems, one for one."""

NO_LANGUAGE = "none"
LANGUAGES = ("en", "es", "pt", "fr", "de", "it", "nl")

_MAX_TERM_CHARS = 256
_MAX_WHOLES = 12
_MAX_CACHED_CHARS = 64
_MIN_HEX_CHARS = 7
_QUERY_CHARS = 8_000


# --- segmentation ----------------------------------------------------------------------------------------------------

_RUN_SCRIPTS = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u1b00-\u1b7f\u3005\u3007\u3040-\u30ff"
    "\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\ua980-\ua9ff\uaa60-\uaadf\uac00-\ud7ff\uf900-\ufaff"
    "\U0001aff0-\U0001b16f\U00020000-\U0003347f"
)
"""Scripts written without spaces (or, Hangul, with particles glued on): two letters with their marks make a term."""

_STACKERS = "\u1039\u17d2\u1a60"
"""Signs that put the next letter below the one before: Myanmar, Khmer, Tai Tham."""

_LAST_MARK = 0x1E94A


def _marks() -> str:
    r"""All combining marks as ranges of a character class: they belong to the word though ``\w`` leaves most out.

    Ranges run on over letters and unassigned places, so that there are few of them.
    """
    ranges: list[str] = []
    first = last = 0
    for code in range(0x300, _LAST_MARK + 1):
        char = chr(code)
        if unicodedata.category(char)[0] == "M":
            first, last = first or code, code
        elif first and not char.isalnum() and unicodedata.category(char) != "Cn":
            ranges.append(f"{chr(first)}-{chr(last)}")
            first = 0
    return "".join([*ranges, f"{chr(first)}-{chr(last)}" if first else ""])


_CHAR = rf"[\w{_marks()}]"
_PIECE = re.compile(
    rf"(?:(?<![^\s`\"'(\[<{{=])(?:\.|--?)(?=[^\W\d_]))?"  # .NET, .env, --flag
    rf"{_CHAR}+"
    rf"(?:(?:::|:\\|->|[-./:\\@&+](?!-)|(?<=\d),(?=\d{{3}}(?!\d)))/{{0,2}}{_CHAR}+)*"
    r"(?:\+\+|\#(?!\w))?"
)
# The sign comes first: a search for four characters is a fifth of one that looks behind everywhere.
_APOSTROPHE = re.compile(r"['’ʼ`](?:(?<=\w.)(?:s|re|ve|ll|d|m)\b|(?<=n.)(?=t\b))", re.IGNORECASE)
_RUN = re.compile(f"[{_RUN_SCRIPTS}]+")
_DOT = r"(?<!\d)\.+|\.+(?!\d)"
_LEVELS = (re.compile(r"[/\\:@&+>]+"), re.compile(_DOT), re.compile(r"[-_,]"))
_SEPARATORS = re.compile(rf"[-_/\\:@&+#>]+|{_DOT}")
_GROUPING = re.compile(r"(?<=\d),(?=\d)")
_HUMPS = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+[0-9]*|[^A-Za-z0-9]+")
_HUMP_BORDER = re.compile(r"(\w)(?=\w)")
_INITIALS = re.compile(r"[^\W\d_](?:\.[^\W\d_])+")
_HEX = re.compile(rf"(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{{{_MIN_HEX_CHARS},}}")
_TYPE_NAME = re.compile(r"(?=.{8})[A-Z][a-z]{2,}[A-Z][a-z]{3,}")
_COUNTED = re.compile(r"\d+(?:st|nd|rd|th|s)", re.IGNORECASE)
_NAME_JOINT = re.compile(r"[_.\\@]|::|->|/.*/")
_DIGIT_RUN = re.compile(r"\d{3,}")
_VERSION_SIGN = re.compile(r"v(?:er|ersion)?(?=\d+\.)", re.IGNORECASE)
_DOTTED_NUMBER = re.compile(r"\d+(?:\.\d+)+")
_ISO_DATE = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")
_PATH = re.compile(r"[/\\:@&>]")
_QUANTITY = re.compile(r"\d+(?:\.\d+)?(?:[^\W\d_]{1,4}|(?:-[^\W\d_]{2,})+|(?:\.\d+)*\.[xX])")
_DOTTED_YEAR = re.compile(r"\d{1,2}\.\d{1,2}\.(\d{4})")


@dataclass(frozen=True, slots=True)
class Piece:
    """One word as written. ``parts`` are folded words, ``wholes`` joined forms, the complete one first.

    ``identifier`` tells names that mean one thing (codes, paths, function names) from hyphenated or capitalised prose.
    """

    surface: str
    parts: tuple[str, ...]
    wholes: tuple[str, ...] = ()
    identifier: bool = False

    @property
    def complete(self) -> str:
        """The one term that stands for the whole piece."""
        plain = len(self.parts) == 1 and self.surface[0] != "." and self.surface[-1] not in "+#"
        return self.parts[0] if plain or not self.wholes else self.wholes[0]

    @property
    def number(self) -> bool:
        return not any(map(str.isalpha, self.surface))

    @property
    def initials(self) -> bool:
        return _INITIALS.fullmatch(self.surface) is not None and self.surface.isupper()

    @property
    def code(self) -> bool:
        """Tell whether this is a number, version, date or code that means one of several like things: no path, and no
        quantity with its unit."""
        digits = any(map(str.isdigit, self.surface))
        return self.identifier and digits and not (_PATH.search(self.surface) or _QUANTITY.fullmatch(self.surface))


def segment(text: str) -> Iterator[Piece]:
    """Yield the pieces of a text in order; punctuation, emoji, control characters and lone surrogates separate."""
    plain = _APOSTROPHE.sub("", normal(text))
    days = {day.end(): whole for day, whole in _worded_days(plain)}
    if not days:  # most texts, and each of their words costs something here
        yield from chain.from_iterable(map(_pieces_of, _PIECE.findall(plain)))
        return
    for found in _PIECE.finditer(plain):
        yield from _pieces_of(found.group())
        if found.end() in days:
            yield Piece(found.group(), (), (days[found.end()],))


def _pieces_of(raw: str) -> tuple[Piece, ...]:
    return _common_pieces(raw) if len(raw) <= _MAX_CACHED_CHARS else _pieces(raw)


@lru_cache(maxsize=1 << 16)
def _common_pieces(raw: str) -> tuple[Piece, ...]:
    """Most words come again, so each is taken apart once; very long ones do not, and would fill the memory."""
    return _pieces(raw)


def _pieces(raw: str) -> tuple[Piece, ...]:
    """Split at script borders, then make a piece of each side."""
    if raw.isascii() or not _RUN.search(raw):
        piece = _piece(raw)
        return (piece,) if piece.parts else ()
    pieces: list[Piece] = []
    at = 0
    for run in _RUN.finditer(raw):
        pieces += _pieces(raw[at : run.start()])
        pieces += _run_pieces(run.group())
        at = run.end()
    pieces += _pieces(raw[at:])
    return tuple(pieces)


def _run_pieces(run: str) -> Iterator[Piece]:
    """Overlapping pairs of letters, each with the single letters that a word of one letter is found by."""
    letters = [letter for letter in _letters(run) if _folded(letter)]
    if len(letters) == 1:
        yield Piece(run, (_folded(run),))
    for at, (first, second) in enumerate(pairwise(letters), start=2):
        singles = (first, second) if at == len(letters) else (first,)
        yield Piece(first + second, (_folded(first + second),), tuple(map(_folded, singles)))


_folded = lru_cache(maxsize=1 << 16)(fold)


def _letters(run: str) -> list[str]:
    """The letters of a run, each with its marks and with what is stacked below it."""
    letters: list[list[str]] = []
    for char in run:
        if letters and (unicodedata.category(char)[0] == "M" or letters[-1][-1] in _STACKERS):
            letters[-1].append(char)
        else:
            letters.append([char])
    return ["".join(letter) for letter in letters]


def letters(piece: Piece) -> tuple[str, ...]:
    """The two folded letters of a pair out of a run without spaces; none of any other piece."""
    run = _RUN.fullmatch(piece.surface)
    found = _letters(piece.surface) if run else []
    return tuple(map(fold, found)) if len(found) > 1 else ()


def _piece(raw: str) -> Piece:
    raw = _GROUPING.sub("", raw)
    segments = [segment for segment in _SEPARATORS.split(raw) if segment.strip("_")]
    if _INITIALS.fullmatch(raw):
        return Piece(raw, (fold(raw.replace(".", "")),))
    parts = [part for segment in segments for part in _humps(segment)]
    if not parts:
        return Piece(raw, ())
    return Piece(
        surface=raw,
        parts=tuple(map(_bounded, parts)),
        wholes=tuple(map(_bounded, _wholes(raw, segments, parts))),
        identifier=_is_identifier(raw, segments, parts),
    )


_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar janvier enero janeiro gennaio januari",
            "february feb februar février fevrier febrero fevereiro febbraio februari",
            "march mar märz marz mars marzo março marco maart",
            "april apr avril abril aprile",
            "may mai mayo maio maggio mei",
            "june jun juni juin junio junho giugno",
            "july jul juli juillet julio julho luglio",
            "august aug août aout agosto augustus",
            "september sep sept septembre septiembre setembro settembre",
            "october oct oktober okt octobre octubre outubro ottobre",
            "november nov novembre noviembre novembro",
            "december dec dezember dez décembre decembre diciembre dezembro dicembre",
        ),
        start=1,
    )
    for name in names.split()
}
_WORDED_DAY = re.compile(
    r"(?<![\w.])(?:(?P<day>\d{1,2})(?:st|nd|rd|th|er|\.)?\s+(?:(?:of|de)\s+)?(?P<month>[^\W\d_]{3,10})\.?"
    r"|(?P<first>[^\W\d_]{3,10})\.?\s+(?P<second>\d{1,2})(?:st|nd|rd|th)?),?\s+(?:del?\s+)?(?P<year>\d{4})\Z"
)
_YEAR = re.compile(r"(?<=\s)\d{4}(?!\w)")
_WORDED_DAY_CHARS = 40
_DOTTED_DAY = re.compile(r"(?<![\w.])(0?[1-9]|[12]\d|3[01])\.(0?[1-9]|1[0-2])\.([12]\d{3})(?![\w.]*\d)")


def _worded_days(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Days written as "5 March 2026", "March 5, 2026" or "05.03.2026", with the term their ISO spelling has too."""
    # A day ends with its year: looking back from each costs less than looking ahead from every word.
    ends = (year.end() for year in _YEAR.finditer(text))
    for found in filter(None, (_WORDED_DAY.search(text, max(0, end - _WORDED_DAY_CHARS), end) for end in ends)):
        month = _MONTHS.get((found["month"] or found["first"]).lower())
        day = int(found["day"] or found["second"])
        if month and 1 <= day <= 31:
            yield found, f"{found['year']}.{month:02}.{day:02}"
    for found in _DOTTED_DAY.finditer(text):
        yield found, f"{found[3]}.{int(found[2]):02}.{int(found[1]):02}"


def _humps(segment: str) -> list[str]:
    """Folded words of one separator-free segment: ``HTTPServerV2Handler`` -> http, server, v2, handler.

    A number with dots is one word: its digits alone name nothing.
    """
    if "." in segment:
        return [fold(_VERSION_SIGN.sub("", segment))]
    folded = fold(segment)
    if segment == segment.lower() or _HEX.fullmatch(folded):
        return [folded] if folded else []
    humps = _HUMPS.findall(segment) if segment.isascii() else _HUMP_BORDER.sub(_spaced, segment).split()
    return [folded for hump in humps if (folded := fold(hump))]


def _spaced(pair: re.Match[str]) -> str:
    left, right = pair.group(1), pair.string[pair.end()]
    return f"{left} " if right.isupper() and not left.isupper() else left


def _wholes(raw: str, segments: list[str], parts: list[str]) -> list[str]:
    """Joined forms: the complete piece, then each stretch between stronger separators that has words to join."""
    found: dict[str, None] = {}
    if len(parts) > 1 or raw[0] == "." or raw[-1] in "+#":
        found[_whole(raw)] = None
    if len(parts) > 1:
        stretches = [raw]
        for level in _LEVELS:
            stretches = [stretch for whole in stretches for stretch in level.split(whole) if stretch]
            for stretch in stretches:
                found.setdefault(_whole(stretch))
    for segment in segments:
        found.update(dict.fromkeys(_numbers_in(segment)))
    found.update(dict.fromkeys(".".join(day) for day in _ISO_DATE.findall(raw)))
    return [whole for whole in found if whole and whole not in parts][:_MAX_WHOLES]


def _numbers_in(segment: str) -> list[str]:
    """Numbers inside a longer word that are asked for by themselves: 7731 of ``err7731b``, 3.11 of ``python3.11``."""
    if "." in segment:
        return [*_DOTTED_NUMBER.findall(segment), *_DOTTED_YEAR.findall(segment)]
    return [] if segment.isdigit() or _HEX.fullmatch(fold(segment)) else _DIGIT_RUN.findall(segment)


_BETWEEN_DIGITS = re.compile(r"(?<=\d)[-_./\\:@+>]+(?=\d)")
_DROPPED = re.compile(r"[-_/\\:@>,]+|(?<!\d)\.+|\.+(?!\d)|\+(?!\+|$)|(?<=\w)#(?=\w)")


def _whole(raw: str) -> str:
    """The joined form; a leading dot (``.net``) and trailing ``++`` or ``#`` make other words, so they stay."""
    lead = "." if raw.startswith(".") else ""
    dotted = _BETWEEN_DIGITS.sub(".", fold(raw))
    return lead + _DROPPED.sub("", dotted)


def _is_identifier(raw: str, segments: list[str], parts: list[str]) -> bool:
    digits = any(map(str.isdigit, raw))
    if digits and any(map(str.isalpha, raw)):
        return len(raw) >= 4 and not _COUNTED.fullmatch(raw)
    if digits:
        return raw.count(".") >= 2 or _ISO_DATE.fullmatch(raw) is not None
    if raw[0] in ".-" or raw[-1] in "+#":
        return True
    if len(segments) == 1 and "_" not in raw:
        lower_camel = len(parts) == 2 and raw[0].islower() and len(parts[0]) > 1
        return len(parts) >= 3 or lower_camel or _TYPE_NAME.fullmatch(raw) is not None
    return bool(_NAME_JOINT.search(raw.strip("_"))) or any(len(_humps(segment)) > 1 for segment in segments)


def _bounded(term: str) -> str:
    """Terms longer than the limit keep their head and a digest of the rest, the same way on both sides."""
    if len(term) <= _MAX_TERM_CHARS:
        return term
    return f"{term[:64]}~{blake2b(term.encode('utf-8', 'surrogatepass'), digest_size=12).hexdigest()}"


def is_digest(term: str) -> bool:
    """Tell whether a folded term may be (the beginning of) a hexadecimal digest."""
    return _HEX.fullmatch(term) is not None


# --- index side ------------------------------------------------------------------------------------------------------


def index_terms(text: str, language: str, stem: Stem, *, start: int = 0) -> list[tuple[str, int]]:
    """Return (term, position) pairs, positions from ``start``; parts stemmed, joined forms as they are."""
    pieces = list(segment(text))
    stems = stem_map((part for piece in pieces for part in piece.parts), language, stem)
    terms: list[tuple[str, int]] = []
    position = start
    for piece in pieces:
        for part in piece.parts:
            terms.append((stems[part], position))
            position += 1
        for whole in piece.wholes:
            terms.append((whole, position - 1))
    return terms


def stem_map(words: Iterable[str], language: str, stem: Stem) -> dict[str, str]:
    """Stem each distinct word once; words with digits are names and keep their form."""
    distinct = list(dict.fromkeys(words))
    stems = {word: word for word in distinct}
    if language in LANGUAGES:
        plain = [word for word in distinct if len(word) > 2 and word.isalpha()]
        stems.update(zip(plain, stem(language, plain), strict=True))
    return stems


# --- question side ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueryText:
    """A question taken apart. ``prefixes`` are folded words that ended in ``*``; ``phrases`` stood in quotes."""

    pieces: tuple[Piece, ...]
    phrases: tuple[tuple[Piece, ...], ...] = ()
    prefixes: tuple[str, ...] = ()


_QUOTED = re.compile(r"[\"“”„«»]([^\"“”„«»]+)[\"“”„«»]")
_STARRED = re.compile(rf"(?<![^\s\"(])({_CHAR}{{2,}})\*(?!{_CHAR})")


def read_query(text: str) -> QueryText:
    """Take a question apart. Any text is valid; nothing in it but quotes and a trailing ``*`` has a meaning."""
    text = _iso_days(normal(text[:_QUERY_CHARS]))
    phrases = (tuple(segment(found)) for found in _QUOTED.findall(text))
    prefixes = [fold(found) for found in _STARRED.findall(text) if "_" not in found]
    rest = _STARRED.sub(lambda found: found.group() if "_" in found.group(1) else " ", text)
    return QueryText(
        pieces=tuple(segment(rest)),
        phrases=tuple(phrase for phrase in phrases if sum(len(piece.parts) for piece in phrase) > 1),
        prefixes=tuple(dict.fromkeys(prefixes)),
    )


def _iso_days(text: str) -> str:
    """The text with days in words spelt as ISO dates: each is one thing asked for."""
    days = sorted(_worded_days(text), key=lambda day: day[0].start(), reverse=True)
    for found, whole in days:
        text = f"{text[: found.start()]}{whole.replace('.', '-')}{text[found.end() :]}"
    return text


_MIN_REPLACE_CHARS = 7
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def spelling_neighbours(word: str) -> list[str]:
    """Return all words one edit (insert, delete, swap of neighbours, replace) away; at most 54 for each letter.

    Short words have no replaced letters: ``house`` is another word than ``horse``, while ``houes`` is neither.
    """
    splits = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    near = {head + tail[1:] for head, tail in splits if tail}
    near |= {head + tail[1] + tail[0] + tail[2:] for head, tail in splits if len(tail) > 1}
    if len(word) >= _MIN_REPLACE_CHARS:
        near |= {head + letter + tail[1:] for head, tail in splits if tail for letter in _ALPHABET}
    near |= {head + letter + tail for head, tail in splits for letter in _ALPHABET}
    return sorted(near - {word})
