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

__all__ = [
    "LANGUAGES",
    "NO_LANGUAGE",
    "Piece",
    "QueryText",
    "Stem",
    "analyse_terms",
    "detect_language",
    "fold",
    "index_terms",
    "is_digest",
    "is_stop_word",
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


# --- folding ---------------------------------------------------------------------------------------------------------

_LETTERS = {
    "ł": "l", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ß": "ss", "ı": "i", "ħ": "h",
    "ŧ": "t", "ŋ": "n", "ĸ": "k", "ſ": "s", "ə": "e", "ƒ": "f", "ȷ": "j", "й": "й",
}  # fmt: skip
"""Letters without a canonical decomposition, and й, which is a letter of its own rather than an accented и."""

_COMBINING = range(0x0300, 0x0370)


class _FoldTable(dict[int, str]):
    """Character -> folded form, worked out once for each character met."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        folded = _LETTERS.get(char)
        if folded is None:
            folded = char
            if code in _COMBINING:
                folded = ""
            elif code >= 0x80:
                decomposed = unicodedata.normalize("NFD", char)
                if any(ord(part) in _COMBINING for part in decomposed):
                    base = "".join(part for part in decomposed if ord(part) not in _COMBINING)
                    folded = "".join(_LETTERS.get(part, part) for part in base)
        self[code] = folded
        return folded


_FOLDS = _FoldTable()
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff]"
)


def _normal(text: str) -> str:
    """Compatibility-composed text without invisible characters, letter case kept."""
    return text if text.isascii() else unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))


def fold(text: str) -> str:
    """Return the text without letter case, accents, ligatures, width variants and invisible characters."""
    if text.isascii():
        return text.lower()
    cased = unicodedata.normalize("NFKC", _normal(text).casefold())
    return unicodedata.normalize("NFC", cased.translate(_FOLDS))


# --- segmentation ----------------------------------------------------------------------------------------------------

_BIGRAM_SCRIPTS = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003134f"
)
"""Scripts written without spaces (or, Hangul, with particles glued on): two characters make a term."""

_MARKS = "\u0300-\u036f\u0483-\u0487\u05b0-\u05bd\u05bf\u05c1\u05c2\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u0900-\u0963\u0966-\u0dff"
"""Vowel signs and marks that belong to the word though ``\\w`` leaves them out."""

_CHAR = rf"[\w{_MARKS}]"
_PIECE = re.compile(
    rf"(?:(?<![^\s`\"'(\[<{{=])(?:\.|--?)(?=[^\W\d_]))?"  # .NET, .env, --flag
    rf"{_CHAR}+"
    rf"(?:(?:::|:\\|->|[-./:\\@&+](?!-)|(?<=\d),(?=\d{{3}}(?!\d)))/{{0,2}}{_CHAR}+)*"
    r"(?:\+\+|\#(?!\w))?"
)
_APOSTROPHE = re.compile(r"(?<=\w)['’ʼ](?:s|re|ve|ll|d|m)\b|(?<=n)['’ʼ](?=t\b)", re.IGNORECASE)
_BIGRAM_RUN = re.compile(f"[{_BIGRAM_SCRIPTS}]+")
_LEVELS = (re.compile(r"[/\\:@&+>]+"), re.compile(r"[.]"), re.compile(r"[-_,]"))
_SEPARATORS = re.compile(r"[-_./\\:@&+#>,]+")
_HUMPS = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+[0-9]*|[^A-Za-z0-9]+")
_HUMP_BORDER = re.compile(r"(\w)(?=\w)")
_INITIALS = re.compile(r"[^\W\d_](?:\.[^\W\d_])+")
_HEX = re.compile(rf"(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{{{_MIN_HEX_CHARS},}}")
_COUNTED = re.compile(r"\d+(?:st|nd|rd|th|s)", re.IGNORECASE)
_NAME_JOINT = re.compile(r"[_.\\@]|::|->|/.*/")
_DIGIT_RUN = re.compile(r"\d{3,}")


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


def segment(text: str) -> Iterator[Piece]:
    """Yield the pieces of a text in order; punctuation, emoji, control characters and lone surrogates separate."""
    for raw in _PIECE.findall(_APOSTROPHE.sub("", _normal(text))):
        yield from _common_pieces(raw) if len(raw) <= _MAX_CACHED_CHARS else _pieces(raw)


@lru_cache(maxsize=1 << 16)
def _common_pieces(raw: str) -> tuple[Piece, ...]:
    """Most words come again, so each is taken apart once; very long ones do not, and would fill the memory."""
    return _pieces(raw)


def _pieces(raw: str) -> tuple[Piece, ...]:
    """Split at script borders, then make a piece of each side."""
    if raw.isascii() or not _BIGRAM_RUN.search(raw):
        piece = _piece(raw)
        return (piece,) if piece.parts else ()
    pieces: list[Piece] = []
    at = 0
    for run in _BIGRAM_RUN.finditer(raw):
        pieces += _pieces(raw[at : run.start()])
        pieces += [Piece(gram, (fold(gram),)) for gram in _bigrams(run.group())]
        at = run.end()
    pieces += _pieces(raw[at:])
    return tuple(pieces)


def _bigrams(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(max(1, len(run) - 1))]


def _piece(raw: str) -> Piece:
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


def _humps(segment: str) -> list[str]:
    """Folded words of one separator-free segment: ``HTTPServerV2Handler`` -> http, server, v2, handler."""
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
        if not segment.isdigit() and not _HEX.fullmatch(fold(segment)):
            found.update(dict.fromkeys(_DIGIT_RUN.findall(segment)))
    return [whole for whole in found if whole and whole not in parts][:_MAX_WHOLES]


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
        return raw.count(".") >= 2
    if raw[0] in ".-" or raw[-1] in "+#":
        return True
    if len(segments) == 1 and "_" not in raw:
        return len(parts) >= 3 or (len(parts) == 2 and raw[0].islower() and len(parts[0]) > 1)
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


def analyse_terms(text: str) -> list[str]:
    """Return the folded, unstemmed words of a text in order, for comparing texts with each other."""
    return [part for piece in segment(text) for part in piece.parts]


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
    text = text[:_QUERY_CHARS]
    phrases = (tuple(segment(found)) for found in _QUOTED.findall(text))
    prefixes = [fold(found) for found in _STARRED.findall(_normal(text)) if "_" not in found]
    rest = _STARRED.sub(lambda found: found.group() if "_" in found.group(1) else " ", _normal(text))
    return QueryText(
        pieces=tuple(segment(rest)),
        phrases=tuple(phrase for phrase in phrases if sum(len(piece.parts) for piece in phrase) > 1),
        prefixes=tuple(dict.fromkeys(prefixes)),
    )


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


# --- language --------------------------------------------------------------------------------------------------------

_STOP_WORDS = {
    "en": """a about above after again all also am an and any are as at be because been before being between both but
        by can could did do does doing dont down each eg etc few for from further had has have having he her here hers him his
        how i if in into is it its just me more most my no nor not of off on once only or other our out over own s same
        she should so some such t than that the their them then there these they this those through to too under until
        up us very was we were what when where which while who whom whose why will with would you your""",
    "es": """a al algo algunos ante antes aquel aquella como con contra cual cuales cuando cuanta cuantas cuanto cuantos
        de del desde donde dos durante e el ella ellas ellos en entre era eran es esa esas ese eso esos esta estaba
        estan estar estas este esto estos fue fueron ha habia han hasta hay la las le les lo los mas me mi mientras muy
        ni no nos o otra otro para pero poco por porque que quien quienes se sea ser si sido sin sobre son su sus
        tambien tanto te tiene tienen todo todos tras tu un una uno unos y ya yo""",
    "pt": """a ao aos as ate com como da das de dela dele deles depois do dos e ela elas ele eles em entre era eram essa
        esse esta estao estas este estes eu foi foram ha isso isto ja mais mas me mesmo meu minha muito na nao nas nem
        no nos nossa nosso num numa o os ou para pela pelas pelo pelos por porque qual quais quando quanto que quem se
        sem ser seu seus sao sua suas tambem te tem tinha um uma umas uns voce""",
    "fr": """a ai au aucun aussi autre aux avec avoir c ce ces cet cette comme comment d dans de des donc dont du elle
        elles en est et etait ete etre eu fait il ils j je l la le les leur leurs lors lui m ma mais me meme mes moi mon
        n ne nos notre nous on ont ou par pas plus pour pourquoi qu quand que quel quelle quelles quels qui quoi s sa
        sans se ses si son sont sous sur ta te tes toi ton tous tout tres tu un une vos votre vous y""",
    "de": """aber alle als also am an auch auf aus bei beim bin bis bist da damit dann das dass dem den der des die dies
        diese diesem diesen dieser dieses doch dort du durch ein eine einem einen einer eines er es euch fur hat haben
        hatte hatten hier ich ihm ihn ihnen ihr ihre im in ist ja kann kein keine konnen man mehr mein mich mir mit nach
        nicht noch nur ob oder ohne sehr sein seine sich sie sind so uber um und uns unter vom von vor wann war waren
        warum was weil welche welcher welches wenn wer werden wie wieder wir wird wo wurde wurden zu zum zur""",
    "it": """a ad ai al alla alle allo anche c che chi ci come con cosa cui d da dagli dai dal dalla dalle dei degli del
        della delle dello di dove e ed era erano essere fra gli ha hanno ho i il in io l la le lei li lo loro lui ma me
        mi mia mio ne nei nel nella nelle nello noi non nostro o ogni per perche piu po qual quale quali quando quanto
        quella quelle quelli quello questa queste questi questo se sei si sia sono stata stato su sua sue sugli sui sul
        sulla suo suoi tra tu un una uno vi voi""",
    "nl": """aan al alle als altijd ben bij daar dan dat de der deze die dit doch doen door dus een en er ge geen had
        heb hebben heeft hem het hier hij hoe hun ik in is ja je kan kon kunnen maar me meer men met mij mijn moet na
        naar niet niets nog nu of om omdat ons ook op over te tegen tot u uit uw van veel voor waar waarom wanneer want
        waren was wat we wel welke werd wezen wie wil worden wordt zal ze zelf zich zij zijn zo zonder zou""",
}
_STOP_SETS = {language: frozenset(words.split()) for language, words in _STOP_WORDS.items()}
_LANGUAGES_OF: dict[str, tuple[str, ...]] = {
    word: tuple(language for language in LANGUAGES if word in _STOP_SETS[language])
    for words in _STOP_SETS.values()
    for word in words
    if len(word) > 1
}
_SAMPLE_CHARS = 2_000
_PLAIN_WORD = re.compile(r"[^\W\d_]+")


def is_stop_word(word: str, language: str) -> bool:
    """Tell whether a folded word carries no content in that language."""
    return word in _STOP_SETS.get(language, ())


def detect_language(text: str, *, default: str = NO_LANGUAGE) -> str:
    """Guess the language by its stop words; ``default`` when they are too few or point two ways.

    A stop word of several languages counts for each by its share, and each word once: code repeats ``os`` and ``do``.
    """
    scores = dict.fromkeys(LANGUAGES, 0.0)
    for word in set(_PLAIN_WORD.findall(fold(text[:_SAMPLE_CHARS]))):
        owners = _LANGUAGES_OF.get(word)
        if owners:
            for language in owners:
                scores[language] += 1 / len(owners)
    ranked = sorted(scores.items(), key=lambda item: -item[1])
    (best, first), (_, second) = ranked[0], ranked[1]
    return best if first >= 1.5 and first >= 1.15 * second else default
