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
from rag_mcp.ingest.gitignore import BadPattern, IgnoreRules, Pattern
from rag_mcp.text.globs import composed, folded, meant_otherwise
from rag_mcp.text.sanitize import printable

__all__ = [
    "Excludes",
    "IgnoreFile",
    "IgnoreUnusable",
    "PathFilters",
    "by_folded",
    "check_meaning",
    "ignore_rules",
    "obsidian_filters",
    "obsidian_templates",
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


@dataclass(slots=True)
class IgnoreFile:
    """The rules that hold below ``folder`` ("" for the root, else with a closing slash), and what they have met."""

    folder: str
    rules: IgnoreRules
    met: set[int] = field(default_factory=set)
    judged: list[str] = field(default_factory=list)

    def verdict(self, path: str) -> bool | None:
        """As ``IgnoreRules`` has it, for a path from the root."""
        inner = path[len(self.folder) :]
        verdict = self.rules.verdict(inner, self.met)
        if verdict is not None:
            self.judged.append(inner)
        return verdict

    def unmet(self, closed: Iterable[str]) -> list[Pattern]:
        """The patterns that met nothing. Nobody looked into ``closed`` folders, so what begins in one is not counted."""
        folders = {folded(each[len(self.folder) :]) for each in closed if each.startswith(self.folder)}
        return [
            pattern
            for pattern in self.rules.unmet(self.met, self.judged)
            if not any(above in folders for above in _beginnings(pattern.beginning()))
        ]


def _beginnings(path: str) -> Iterable[str]:
    parts = path.split("/")
    return ("/".join(parts[:length]) for length in range(1, len(parts) + 1))


# --- what a line was meant to say ------------------------------------------------------------------------------------

_ESCAPED_OR_SET = re.compile(r"\\.|\[[^]/]+\]")
_SEPARATOR = re.compile(r"(?<=[^\\/])\\[*?\\_~@&=-]")
_HOMES = frozenset({"home", "users", "root", "volumes", "mnt"})


def check_meaning(unmet: Iterable[Pattern], roots: Sequence[str]) -> None:
    """Raise IgnoreUnusable for a pattern that met nothing and whose form says that its author meant another.

    Such a line may also be the very name of a file, which is then met. One that says so by a backslash before the sign,
    or by setting it in brackets, is taken at its word. ``roots`` are spellings of the corpus folder.
    """
    for pattern in unmet:
        fault = _misunderstood(pattern, roots)
        if fault is not None:
            raise IgnoreUnusable(f"line {pattern.line} met nothing and has {fault}, or remove it if it is out of date")


def _misunderstood(pattern: Pattern, roots: Sequence[str]) -> str | None:
    text = pattern.text
    if not pattern.exclude and not text.startswith("!("):
        return None  # it takes nothing in, so nothing is shown that its author wanted hidden
    if _SEPARATOR.search(text):
        return "a backslash; separate folders with /, set a sign that is part of a name in [brackets]"
    if text.startswith("/") and _is_absolute(folded(text).strip("/"), [folded(root).strip("/") for root in roots]):
        return "an absolute path; write it from the folder of this file"
    plain = _ESCAPED_OR_SET.sub("x", text)
    return meant_otherwise(plain)


def _is_absolute(path: str, roots: Sequence[str]) -> bool:
    """Tell whether a path that begins with a slash was meant from the root of the file system: it leads to the corpus,
    into people's folders, or by three steps to where the corpus lies too."""
    if any(f"{path}/".startswith(f"{root}/") for root in roots):
        return True
    first, *more = path.split("/")
    return (first in _HOMES and len(more) > 0) or (
        len(more) > 1 and any(root.startswith(f"{first}/") for root in roots)
    )


# --- names that are nearly that of an ignore file ---------------------------------------------------------------------

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
    stem = _letters(name.lstrip("._").split(".")[0])
    if sorted(wanted) in (sorted(found), sorted(stem)):
        return True
    return difflib.SequenceMatcher(None, stem, wanted).ratio() > 0.85


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
    filters = _setting(raw, "userIgnoreFilters")
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


def obsidian_templates(raw: bytes, key: str) -> PathFilters | None:
    """What leaves out the folder that ``key`` names, None without one; the vault itself is none. Raises IgnoreUnusable."""
    folder = _setting(raw, key)
    parts = [part for part in folder.split("/") if part.strip()] if isinstance(folder, str) else []
    return PathFilters((folded(f"{'/'.join(parts)}/"),), ()) if parts and not {".", ".."} & set(parts) else None


def _setting(raw: bytes, key: str) -> object:
    try:
        settings = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise IgnoreUnusable("not readable as JSON, so its excluded files are not known") from None
    return settings.get(key) if isinstance(settings, dict) else None


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
            prefixes[folded(prefix)] = raw
            if pattern is not None:
                patterns.append((raw, pattern))
        return cls(prefixes, tuple(patterns))

    def cover(self, path: str, *, is_folder: bool) -> bool:
        """Tell whether an entry is left out, and remember by what."""
        found = self.prefixes.get(folded(path))
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
        folders = {folded(folder) for folder in closed}
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


def by_folded(paths: Iterable[str]) -> dict[str, str]:
    """Paths by their folded form, as ``suggestion`` looks them up."""
    return {folded(path): path for path in paths}


def suggestion(asked: str, known: Mapping[str, str]) -> str | None:
    """The path of the corpus that was probably meant by ``asked``, which met nothing; ``known`` as ``by_folded`` has it."""
    wanted = folded(asked.replace("\\", "/").strip(" /"))
    if not wanted:
        return None
    if wanted in known:
        return known[wanted]
    elsewhere = sorted(path for path in known if path.endswith(f"/{wanted}"))
    alike = [path for path in known if 0.6 * len(wanted) <= len(path) <= len(wanted) / 0.6]  # what the cutoff lets pass
    close = elsewhere or difflib.get_close_matches(wanted, alike[:2_000], n=1, cutoff=0.75)
    return known[close[0]] if close else None
