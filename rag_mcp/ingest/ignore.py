"""What the owner wants left out: ignore files, Obsidian's excluded files, ``--exclude``. Decisions about bytes and names;
the walk does the reading.

An ignore file is input of whoever may write into a folder. What can't be understood for certain raises
``IgnoreUnusable``: its author wanted something hidden, and a guess could show it.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rag_mcp.errors import InvalidArgument
from rag_mcp.ingest.gitignore import BadPattern, IgnoreRules
from rag_mcp.text.globs import composed, folded
from rag_mcp.text.sanitize import printable

__all__ = [
    "Excludes",
    "IgnoreUnusable",
    "PathFilters",
    "ignore_rules",
    "obsidian_filters",
    "resembles_ignore_file",
    "suggestion",
]


class IgnoreUnusable(ValueError):
    """What an ignore file says can't be known; the message is the reason and quotes nothing of it."""


# --- ignore files ----------------------------------------------------------------------------------------------------

_MARKS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\x00\x00", "utf-32-le"),  # begins with the mark of UTF-16, so it comes first
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_WIDE = ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_JOINERS = "\u200c\u200d"  # invisible, and letters of Persian names and of pictures
_SAVE_AS = "save it as UTF-8"


def ignore_rules(raw: bytes) -> IgnoreRules:
    """Raises IgnoreUnusable unless every line is certainly what its author sees."""
    lines = _decoded(raw).replace("\ufeff", "").splitlines()
    for number, line in enumerate(lines, start=1):
        if any(unicodedata.category(each) in ("Cc", "Cf", "Cn", "Co", "Cs") for each in _strange(line)):
            raise IgnoreUnusable(f"line {number} has a control or invisible character; {_SAVE_AS}")
    try:
        return IgnoreRules(lines)
    except BadPattern as error:
        raise IgnoreUnusable(f"line {error.line}: {error}") from None


def _strange(line: str) -> Iterable[str]:
    return () if line.isprintable() else (each for each in line if each not in _JOINERS and each != "\t")


def _decoded(raw: bytes) -> str:
    for mark, codec in _MARKS:
        if raw.startswith(mark):
            text = _strictly(raw[len(mark) :], codec)
            if text is None or _mixed(text, codec):
                raise IgnoreUnusable(f"not {codec[:-3] if codec in _WIDE else codec} throughout; {_SAVE_AS}")
            return text
    text = _strictly(raw, "utf-8")
    return text if text is not None else _unmarked(raw)


def _unmarked(raw: bytes) -> str:
    """Decode wide text without a mark. Read in the wrong order its ASCII characters vanish, so the reading that has
    them is the right one."""
    readings = [(codec, text) for codec in _WIDE if (text := _strictly(raw, codec)) and not _mixed(text, codec)]
    likely = [text for _, text in readings if any("\n" <= each <= "~" for each in text)]
    if len(likely) != 1:
        raise IgnoreUnusable(f"its encoding is not known; {_SAVE_AS}")
    return likely[0]


def _strictly(raw: bytes, codec: str) -> str | None:
    try:
        text = raw.decode(codec)
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text


def _mixed(text: str, codec: str) -> bool:
    """Tell whether wide text may have lines of UTF-8 in it, as another program's appending leaves them: they decode
    to far-off characters, whose bytes are text by themselves, line ends included."""
    if codec not in _WIDE:
        return False
    for found in _NOT_ASCII.finditer(text):
        raw = found[0].encode(codec)
        inner = _strictly(raw, "utf-8")
        if b"\n" in raw or b"\r" in raw or (inner is not None and inner.isprintable()):
            return True
    return False


_KNOWN_NAME = "ragignore"
_TYPICAL_ADDITIONS = (
    "txt",
    "md",
    "markdown",
    "bak",
    "old",
    "orig",
    "save",
    "copy",
    "tmp",
    "conf",
    "rtf",
    "sample",
    "s",
)


def resembles_ignore_file(name: str, ignore_file: str) -> bool:
    """Tell whether a file's name was probably meant to be that of the ignore file."""
    if len(name) > 40 or name == ignore_file or not ("rag" in name.lower() or "ignor" in name.lower()):
        return False
    wanted = _letters(ignore_file)
    found = _letters(name)
    if found.removeprefix(wanted) in ("", *_TYPICAL_ADDITIONS):
        return True
    close = difflib.SequenceMatcher(None, _letters(name.lstrip("._").split(".")[0]), wanted)
    return close.ratio() > 0.85


def _letters(name: str) -> str:
    return re.sub(r"[\W\d_]", "", folded(name))


# --- Obsidian --------------------------------------------------------------------------------------------------------

MAX_EXPRESSIONS = 100
MAX_EXPRESSION_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class PathFilters:
    """Filters of a vault: beginnings of paths in any case, and expressions that a file's path may contain."""

    prefixes: tuple[str, ...]
    expressions: tuple[Callable[[str], bool], ...]

    def verdict(self, path: str) -> bool | None:
        """True: left out; None: nothing is said. A folder's path ends in a slash."""
        if folded(path).startswith(self.prefixes):
            return True
        if path.endswith("/"):  # expressions are about files: one that fits a folder may not fit what is in it
            return None
        return True if any(fits(composed(path)) for fits in self.expressions) else None

    def __len__(self) -> int:
        return len(self.prefixes) + len(self.expressions)


def obsidian_filters(raw: bytes) -> PathFilters | None:
    """The ``userIgnoreFilters`` of an ``app.json``, None without any. Raises IgnoreUnusable."""
    try:
        settings = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise IgnoreUnusable("not readable as JSON, so its excluded files are not known") from None
    filters = settings.get("userIgnoreFilters") if isinstance(settings, dict) else None
    if filters is None:
        return None
    if not isinstance(filters, list) or not all(isinstance(each, str) for each in filters):
        raise IgnoreUnusable("userIgnoreFilters is not a list of texts")
    expressions = [each[1:-1] for each in filters if len(each) > 2 and each[0] == each[-1] == "/"]
    prefixes = [each.lstrip("/") for each in filters if not (len(each) > 2 and each[0] == each[-1] == "/")]
    if len(expressions) > MAX_EXPRESSIONS or any(len(each) > MAX_EXPRESSION_CHARS for each in expressions):
        raise IgnoreUnusable(
            f"more than {MAX_EXPRESSIONS} expressions, or one of over {MAX_EXPRESSION_CHARS} characters"
        )
    plain = tuple(folded(each) for each in prefixes if each)
    found = PathFilters(plain, tuple(_expression(each) for each in expressions))
    return found if len(found) else None


def _expression(expression: str) -> Callable[[str], bool]:
    """Compile with an engine whose time is linear; it knows no look-around and no back-references."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        # In any case, and as written: an expression with a negated set may fit in only one of the two ways.
        both = [
            SchemaValidator(core_schema.str_schema(pattern=f"{flags}(?:{expression})", regex_engine="rust-regex"))
            for flags in ("", "(?i)")
        ]
    except SchemaError:
        raise IgnoreUnusable(
            "userIgnoreFilters has an expression that can't be used here (look-around and back-references can't)"
        ) from None
    return lambda path: any(validator.isinstance_python(path) for validator in both)


# --- --exclude -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Excludes:
    """Paths from the root (by whole components) and gitignore patterns, and which of them have met something.

    A text with wildcards counts as both: a folder may be named ``notes [old]``.
    """

    prefixes: Mapping[str, str]
    patterns: tuple[tuple[str, IgnoreRules], ...] = ()
    met: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, given: Sequence[str], roots: Sequence[str]) -> Excludes:
        """``roots`` are spellings of the corpus folder, for absolute paths. Raises InvalidArgument."""
        prefixes: dict[str, str] = {}
        patterns: list[tuple[str, IgnoreRules]] = []
        for raw in given:
            prefix, pattern = _exclude(raw, roots)
            prefixes[composed(prefix)] = raw
            if pattern is not None:
                patterns.append((raw, pattern))
        return cls(prefixes, tuple(patterns))

    def cover(self, path: str, *, is_folder: bool) -> bool:
        """Tell whether an entry is left out, and remember by what."""
        found = self.prefixes.get(composed(path))
        if found is not None:
            self.met.add(found)
        entry = f"{path}/" if is_folder else path
        for raw, rules in self.patterns:
            if rules.verdict(entry):
                self.met.add(raw)
                found = raw
        return found is not None

    def unmet(self, closed: Iterable[str]) -> list[tuple[str, str]]:
        """What met nothing, each as given and its beginning without wildcards. Nobody looked into ``closed`` folders,
        so what begins in one is not counted."""
        folders = {composed(folder) for folder in closed}
        found = []
        for prefix, raw in self.prefixes.items():
            parts = prefix.split("/")
            plain = next((at for at, part in enumerate(parts) if any(each in part for each in "*?[")), len(parts))
            above = {"/".join(parts[:length]) for length in range(1, plain + 1)}
            if raw not in self.met and not above & folders:
                found.append((raw, "/".join(parts[:plain])))
        return found


def _exclude(raw: str, roots: Sequence[str]) -> tuple[str, IgnoreRules | None]:
    inside = next((raw[len(root) :] for root in roots if raw.startswith(root.rstrip(os.sep) + os.sep)), raw)
    text = inside.replace(os.sep, "/")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if not parts or ".." in parts or (os.name == "nt" and Path(inside).drive):
        raise InvalidArgument("exclude", f"{printable(raw)!r} is not a path below the corpus root.")
    prefix = "/".join(parts)
    if not any(character in prefix for character in "*?["):
        return prefix, None
    if prefix.startswith("!"):
        raise InvalidArgument("exclude", f"{printable(raw)!r} takes something in; it can only leave out.")
    slash = "/" if text.startswith("/") else ""
    try:
        return prefix, IgnoreRules([f"{slash}{prefix}{'/' if text.endswith('/') else ''}"])
    except BadPattern:
        return prefix, None


def suggestion(asked: str, paths: Iterable[str]) -> str | None:
    """The path of the corpus that was probably meant by ``asked``, which met nothing."""
    wanted = folded(asked.replace("\\", "/").strip(" /"))
    if not wanted:
        return None
    known = {folded(path): path for path in paths}
    if wanted in known:
        return known[wanted]
    elsewhere = sorted(path for path in known if path.endswith(f"/{wanted}"))
    close = elsewhere or difflib.get_close_matches(wanted, list(known)[:2_000], n=1, cutoff=0.75)
    return known[close[0]] if close else None
