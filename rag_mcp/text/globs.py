"""Path patterns of the policy file: gitignore's meaning on whole path components, without its escapes.

``*`` and ``?`` stay within one component, ``**`` spans components. A pattern without a slash (a closing one does not
count) matches at any depth, any other from the root; a closing slash asks for a folder (behind ``**`` it adds
nothing). Whoever matches a folder matches everything below it. Character classes, braces, backslashes, ``!`` and what
is plainly meant otherwise (quotes, comments, lists, absolute paths) are refused rather than taken literally: a deny
pattern that silently matches nothing would be worse than an error.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

__all__ = [
    "MAX_GLOB_CHARS",
    "SPAN",
    "GlobSet",
    "composed",
    "folded",
    "folded_glob",
    "glob_problem",
    "meant_otherwise",
    "path_regex",
]

MAX_GLOB_CHARS = 500

SPAN: Sequence[str] = ()
"""The component ``**``, for ``path_regex``."""

# Default_Ignorable_Code_Point of the Unicode Character Database (DerivedCoreProperties.txt).
_SHOWS_NOTHING = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_BLANK_PATTERN = "\u2800"  # of Braille, no character of its own to the eye
# Their compatibility forms hold a slash, a star or a question mark, which would turn a name into a path or a pattern.
_SIGNS = "\u2047\u2048\u2049\u2100\u2101\u2105\u2106\ufe16\ufe56\ufe61\uff0a\uff0f\uff1f"
_SIGN = re.compile(f"([{_SIGNS}])")
_EDGES = ("/ ", " /", "./")
_ANYTHING_BELOW = "(?:[^/]+/)*?"


def composed(text: str) -> str:
    """Return ``text`` in NFC, so that one name written in two ways compares equal."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def folded(text: str) -> str:
    """Return the form under which names are equal that a file system, a keyboard or an eye takes for the same.

    Case (a dotted or dotless i too) and compatibility forms (Unicode D146, toNFKC_Casefold without its full table of
    ignorable characters), characters that show nothing, blanks around a component and the stops at its end do not count.
    """
    same = _same_letters(text)
    if same.isascii() and not (same[:1] == " " or same[-1:] in (" ", ".") or any(edge in same for edge in _EDGES)):
        return same
    return "/".join(map(_without_edges, same.split("/")))


def folded_glob(glob: str) -> str:
    """The pattern for ``folded`` paths. What stands at the edge of a wildcard stays: ``*.`` must not become ``*``."""
    parts = _same_letters(glob).split("/")
    return "/".join(part if any(each in part for each in "*?[\\") else _without_edges(part) for part in parts)


def _same_letters(text: str) -> str:
    if text.isascii():
        return text.lower()
    return "".join(piece if piece in _SIGNS else _casefolded(piece) for piece in _SIGN.split(text))


def _casefolded(text: str) -> str:
    plain = _SHOWS_NOTHING.sub("", unicodedata.normalize("NFKC", text)).replace(_BLANK_PATTERN, " ")
    return unicodedata.normalize("NFKC", plain.casefold()).replace("i\u0307", "i").replace("\u0131", "i")


def _without_edges(part: str) -> str:
    return part.strip(" ").rstrip(". \u3002") or part


def glob_problem(glob: str) -> str | None:
    """Say why ``glob`` can't be used, or None."""
    if not glob.strip() or not glob.strip("/"):
        return "is empty"
    if len(glob) > MAX_GLOB_CHARS:
        return f"is longer than {MAX_GLOB_CHARS} characters"
    if any(character in "[]{}" for character in glob):
        return "uses brackets or braces, which have no meaning here; write ? for that one character"
    if "\\" in glob:
        return "has a backslash; separate folders with /"
    if glob.startswith("!"):
        return "starts with !; patterns can't be negated here, order the rules instead"
    if not glob.isprintable() or not folded(glob).strip("/ "):
        return "has a control or invisible character"
    if advice := next((advice for form, advice in _MISTAKES if form.search(glob)), None):
        return f"has {advice}, or ? in place of a sign that is part of a name"
    parts = (glob[1:] if glob.startswith("/") else glob).removesuffix("/").split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "has an empty, . or .. component; write it relative to the corpus root"
    return None


# --- what a pattern was meant to say ---------------------------------------------------------------------------------

_QUOTE = "\"'`\u2018-\u201f\u00ab\u00bb\u300c-\u300f"
_ONE_EACH = "a list; give each pattern an entry of its own"
_MISTAKES = tuple(
    (re.compile(form), advice)
    for form, advice in (
        (f'^[{_QUOTE}].*[{_QUOTE}]|["`\u201c-\u201f\u00ab\u00bb]', "quotes; write the pattern without them"),
        (r"\s#(?:\s|$)", "a comment behind a pattern; put the comment on a line of its own"),
        (r"\{[^{}]*(?:,|\.\.)[^{}]*\}|\||^!\(", "alternatives; give each an entry of its own"),
        # Not ``*,v``, which old version control systems have files for.
        (r"[*/][,;\u3001\uff0c\uff1b](?!v$)|[^\s,;][,;\u3001\uff0c\uff1b](?!v$)\S", _ONE_EACH),
        (
            r"[\uff0f\uff0a\uff1f\uff3c\u2044\u2215\u2217\u22c6\u29f8]|^[\uff01\uff03]",
            "a sign that only looks like / * ? ! or #; type the plain one",
        ),
        (r"(?:\.{3}|\u2026)/?$", "dots at its end; write folder/ for everything below a folder"),
        (r"^\^|\$$|\.\+|\(\?|(?:^|/)\.\*", "a regular expression; * stands for any characters, ** for any folders"),
        (r"^[A-Za-z]:|^\w+://", "an address; write the path below the corpus alone"),
        (r"^~(?:/|$)|^\$\w+/|^\$\{|^%\w+%", "a path for a shell; write it from the root of the corpus"),
        (r"(?i)^/(?:home|users|volumes|mnt|root)/[^/]+/[^/]", "an absolute path; write it from the root of the corpus"),
        (r"[*?]\s+(?:/|$)|(?:^|/)\s+[*?]", "a blank beside a wildcard; write it without"),
    )
)
# Forms that are also names people give: they say something only of a pattern that met nothing.
_LIKELY_MISTAKES = tuple(
    (re.compile(form), advice)
    for form, advice in (
        (r"\s#", "a comment behind a pattern; put the comment on a line of its own"),
        (r"^(?:[-*+\u2022\u2013\u2014\u00b7]|\d+[.)])\s", "the mark of a list; write the pattern alone"),
        (r"[^\s,;][,;\u3001\uff0c\uff1b](?!v$)", _ONE_EACH),
        (r"%[0-9A-Fa-f]{2}", "an escape with %; write the character itself"),
        (r"<[^<>]+>|^\w+:", "an address, a key or markup; write the path alone"),
        (r"^~\w+/", "a path for a shell; write it from the folder of this file"),
    )
)


def meant_otherwise(pattern: str) -> str | None:
    """What the form of a pattern that met nothing says its author meant, and what to write; None when it says nothing."""
    return next((advice for form, advice in (*_MISTAKES, *_LIKELY_MISTAKES) if form.search(pattern)), None)


# --- matching --------------------------------------------------------------------------------------------------------


class GlobSet:
    """An ordered set of patterns compiled once; ``fold`` compares ``folded`` names (for what keeps people out).

    Raises ValueError for a pattern that ``glob_problem`` finds fault with.
    """

    __slots__ = ("_exact", "_folded")

    def __init__(self, globs: Sequence[str], *, fold: bool = False) -> None:
        for glob in globs:
            if problem := glob_problem(glob):
                raise ValueError(f"{glob!r} {problem}")
        self._exact = _compile([composed(glob) for glob in globs], re.IGNORECASE if fold else re.NOFLAG)
        # Folding may lengthen a name (ß becomes ss), which a ? in the pattern would then miss: so both are asked.
        self._folded = _compile([folded_glob(glob) for glob in globs]) if fold else None

    def first(self, path: str) -> int | None:
        """Return the index of the first pattern that matches ``path``, or None.

        Paths are relative and posix; a folder's own path is given with a closing slash.
        """
        exact = _first(self._exact, composed(path))
        if self._folded is None or exact == 0:
            return exact
        loose = _first(self._folded, folded(path))
        return loose if exact is None or (loose is not None and loose < exact) else exact

    def matches(self, path: str) -> bool:
        """Tell whether any pattern matches ``path``."""
        return self.first(path) is not None


def _first(regex: re.Pattern[str] | None, path: str) -> int | None:
    found = regex.fullmatch(path) if regex is not None else None
    return None if found is None or found.lastindex is None else found.lastindex - 1


def _compile(globs: Sequence[str], flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str] | None:
    if not globs:
        return None
    return re.compile("|".join(f"({_pattern(glob)})" for glob in globs), flags | re.DOTALL)


def _pattern(glob: str) -> str:
    """Translate one pattern; groups are non-capturing, so that a caller's group number names the pattern."""
    anchored = "/" in glob.rstrip("/")
    parts = glob.strip("/").split("/")
    inside = "/.*"  # a closing ** means what is inside
    below = inside if glob.endswith("/") else "(?:/.*)?"
    return path_regex([_literals(part) for part in parts], anchored=anchored, below=below, inside=inside)


def path_regex(parts: Sequence[Sequence[str]], *, anchored: bool, below: str, inside: str) -> str:
    """Join components into a regular expression whose time is linear in the length of the path.

    A component is what stands between its stars, each piece a regular expression of fixed length; ``SPAN`` stands for
    ``**``. ``below`` follows the last component, ``inside`` takes its place after a closing ``**``.
    """
    groups = _groups(parts, anchored=anchored)
    if not groups[-1]:
        groups.pop()
        below = inside
        if not any(groups):
            return inside.removeprefix("/")
    *leading, last = groups
    found = []
    for position, group in enumerate(leading):
        body = "".join(f"{_component(part)}/" for part in group)
        # Every group matches a fixed number of components, so its leftmost place is as good as any later one: atomic,
        # and matching stays linear in the length of the path.
        found.append(body if position == 0 else f"(?>{_ANYTHING_BELOW}{body})")
    gap = _ANYTHING_BELOW if leading else ""
    return "".join(found) + gap + "/".join(map(_component, last)) + below


def _groups(parts: Sequence[Sequence[str]], *, anchored: bool) -> list[list[Sequence[str]]]:
    """Split components at every ``**``; the first group stands at the root, the others anywhere below."""
    groups: list[list[Sequence[str]]] = [[]] if anchored else [[], []]
    for part in parts:
        if part is not SPAN:
            groups[-1].append(part)
        elif groups[-1] or len(groups) == 1:
            groups.append([])
    return groups


def _literals(part: str) -> Sequence[str]:
    if part == "**":
        return SPAN
    return [
        "".join("[^/]" if character == "?" else re.escape(character) for character in piece)
        for piece in re.split(r"\*+", part)
    ]


def _component(pieces: Sequence[str]) -> str:
    first, *rest = pieces
    if not rest:
        return first
    *middle, last = rest
    nonempty = "(?=[^/])" if not first else ""
    return nonempty + first + "".join(f"(?>[^/]*?{piece})" for piece in middle) + f"[^/]*{last}"
