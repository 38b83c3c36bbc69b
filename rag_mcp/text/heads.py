"""Where a file's head is, whether a block was meant as one, and whether it names ``access``. Pure, linear.

A head is a block at the very beginning, or after blank lines, comments and other heads. It opens and closes with a line
of dashes (YAML), plus signs (TOML) or semicolons (JSON), or is a JSON object. What such a block says may be torn, so
three questions are kept apart: was it meant as a head, can it be read, does it name ``access``. Here are the first and
the last; `frontmatter` reads.

A block that does not read as a mapping was meant as a head when its lines look like one: the first is ``key: value``,
and lines that are neither that nor belong to the line above (indented, a list item, a comment, a bracket) are no more
than the others, and there are none at all unless a well-known key is among them. Where the closing line is missing, or
the block turns out to be prose up to a later rule, only its first paragraph counts, and only with a well-known key.
Everything else, such as a letterhead between rules, is text. Files without such lines may still begin with properties
(``access:: none``), or with lines of that kind in a frame of another make (``===``, ``- - -``, ``---access: none``) or
behind a heading, a directive or prose: these stay text, and only ``access`` in them counts.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rag_mcp.text.sanitize import without_escapes

__all__ = [
    "MAX_HEAD_CHARS",
    "Block",
    "Syntax",
    "fold",
    "framed_access",
    "head_at",
    "names_access",
    "skip_comments",
    "stray_access",
]

MAX_HEAD_CHARS = 65_536
_MAX_UNCLOSED_CHARS = 65_536
_MAX_LINE_CHARS = 256


class Syntax(StrEnum):
    YAML = "YAML"
    TOML = "TOML"
    JSON = "JSON"


@dataclass(frozen=True, slots=True)
class Block:
    """``text[start:end]`` is what stands in the block, ``after`` the first line behind it. ``meant``: it is a head even
    if it can't be read. ``fault`` says what is wrong with its frame."""

    syntax: Syntax
    start: int
    end: int
    after: int
    meant: bool
    fault: str | None = None


# --- what a line looks like ------------------------------------------------------------------------------------------

_KNOWN_KEYS = (
    "access alias aliases author authors categories category class created cssclass cssclasses date description draft "
    "id lang language lastmod layout modified permalink publish published slug status summary tag tags title type updated"
)
_KNOWN = frozenset(_KNOWN_KEYS.split())
# Letters of other alphabets that look like those of "access" and "none", and signs that look like a colon.
_LOOKALIKES = str.maketrans("асеѕоԁοϲпαεᴀᴄᴇꜱᴏɴ\u2236\ua789\u05c3\u02d0", "acesodocnaeaceson::::")
_INVISIBLE = frozenset({"Mn", "Me", "Cf", "Cc"})


def fold(text: str) -> str:
    """Lower case without entities, compatibility forms, accents, look-alike letters and what shows nothing, such as
    controls of a terminal; white space stays."""
    if "&" in text:
        text = html.unescape(text)
    if text.isascii() and (text.isprintable() or not _CONTROL.search(text)):
        return text.lower()
    apart = unicodedata.normalize("NFKD", without_escapes(text)).casefold().translate(_LOOKALIKES)
    return "".join(char for char in apart if unicodedata.category(char) not in _INVISIBLE or char.isspace())


_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f]")
_KEY_LINE = re.compile(
    r"""(?:[-?]\s+|\#\+|:(?=\w)|\.\.\s+)?["'`*_]{0,3}(?P<key>[^\W\d][\w.-]{0,39}+(?:\ [\w.-]{1,39}+){0,2})["'`*_]{0,3}
    \s*(?P<mark>::?|=>?)(?P<rest>.?)""",
    re.VERBOSE,
)


class _Line(StrEnum):
    KEY = "key"
    KNOWN = "known key"
    MORE = "belongs to the line above"
    BLANK = "blank"
    STRAY = "stray"


_CONTINUES = ("- ", "-\t", "? ", "---", "//", "/*", "*/")


def _look(line: str) -> _Line:
    bare = line[:_MAX_LINE_CHARS].strip()
    if not bare:
        return _Line.BLANK
    found = _KEY_LINE.match(fold(bare))
    known = found is not None and found["key"].replace("-", "_") in _KNOWN
    if found is not None and (known or not found["rest"] or found["rest"] in " \t\"'[{" or found["mark"] != ":"):
        return _Line.KNOWN if known else _Line.KEY
    if line[:1] in " \t" or bare[0] in "#[]{},\"'" or bare.startswith(_CONTINUES) or bare == "-":
        return _Line.MORE
    return _Line.STRAY


def _meant(looks: Sequence[_Line]) -> bool:
    filled = [look for look in looks if look is not _Line.BLANK]
    stray = filled.count(_Line.STRAY)
    known = _Line.KNOWN in filled
    if not filled or stray * 2 > len(filled) or (stray and not known):
        return False
    return filled[0] in {_Line.KEY, _Line.KNOWN} or (known and looks[0] is not _Line.BLANK and filled[0] is _Line.STRAY)


def _first_run(looks: Sequence[_Line]) -> int:
    """Number of lines of an unclosed head: its first paragraph, and those behind it that hold nothing but keys."""
    end, at = 0, 0
    while at < len(looks):
        stop = next((index for index in range(at, len(looks)) if looks[index] is _Line.BLANK), len(looks))
        part = looks[at:stop]
        if not part or part[0] not in {_Line.KEY, _Line.KNOWN} or (end and _Line.STRAY in part):
            break
        if _Line.KNOWN not in part:
            break
        end = stop - next(back for back, look in enumerate(reversed(part)) if look is not _Line.STRAY)
        if _Line.STRAY in part:
            break
        at = next((index for index in range(stop, len(looks)) if looks[index] is not _Line.BLANK), len(looks))
    return end


# --- frames ----------------------------------------------------------------------------------------------------------

_DASHES = r"(?:[-\u2010-\u2015\u2212]{3,}+|[\u2014\u2015]+)"
_OPENING = re.compile(
    rf"[^\S\n]*+(?:(?P<yaml>{_DASHES}[^\S\n]*+(?:(?P<named>yaml|yml|toml|json)\b|\#[^\n]*)?)|(?P<toml>\+{{3,}}+)"
    r"|(?P<json>;{3,}+))[^\S\n]*+(?:\n|\Z)",
    re.IGNORECASE,
)
_CLOSING = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.MULTILINE)
_TORN_CLOSING = re.compile(rf"^[^\S\n]*+(?:{_DASHES}|\.{{3,}}+|\+{{3,}}+|;{{3,}}+)[^\S\n]*+(?:\n|\Z)", re.MULTILINE)
_BRACE_CLOSING = re.compile(r"^\}[^\S\n]*+(?:\n|\Z)", re.MULTILINE)
_OBJECT = re.compile(
    r"\{(?:\s|//[^\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/)*+(?:[\"'](?=[^\n]{0,60}[\"']\s?:)|[A-Za-z_]{1,40}+\s?:)"
)


def head_at(text: str, start: int) -> list[Block]:
    """Ways to read a head that begins at ``start``, the likeliest first; empty when nothing opens there."""
    opening = _OPENING.match(text, start)
    if opening is None:
        return _object_at(text, start)
    inside = opening.end()
    syntax = Syntax.TOML if opening["toml"] else Syntax.JSON if opening["json"] else Syntax.YAML
    if opening["named"] and opening["named"].lower() in {"toml", "json"}:
        syntax = Syntax(opening["named"].upper())
    strict = _CLOSING.search(text, inside) if syntax is Syntax.YAML else None
    torn = _TORN_CLOSING.search(text, inside)
    blocks = [
        Block(syntax, inside, closing.start(), closing.end(), _meant(_looks(text[inside : closing.start()])))
        for closing in dict.fromkeys(match for match in (strict, torn) if match)
    ]
    if len(blocks) == 2 and blocks[0].start == blocks[1].start and blocks[0].end == blocks[1].end:
        blocks.pop()
    if not any(block.meant for block in blocks):
        blocks.extend(_unclosed(text, inside, syntax))
    return blocks


def _looks(inner: str) -> list[_Line]:
    return [_look(line) for line in inner.split("\n")[: -1 if inner.endswith("\n") else None]]


def _unclosed(text: str, inside: int, syntax: Syntax) -> Iterator[Block]:
    part = text[inside : inside + _MAX_UNCLOSED_CHARS]
    torn = _TORN_CLOSING.search(part)
    lines = (part[: torn.start()] if torn else part).split("\n")
    count = _first_run([_look(line) for line in lines])
    if count:
        end = min(inside + sum(len(line) + 1 for line in lines[:count]), len(text))
        yield Block(syntax, inside, end, end, meant=True, fault="its closing line is missing")


def _object_at(text: str, start: int) -> list[Block]:
    if not _OBJECT.match(text, start):
        return []
    part = text[start : start + MAX_HEAD_CHARS + 1]
    try:
        value, length = json.JSONDecoder().raw_decode(part)
    except (ValueError, RecursionError):
        value, length = None, 0
    if isinstance(value, dict) and value and not (rest := part[length:].partition("\n")[0]).strip():
        end = start + length
        return [Block(Syntax.JSON, start, end, min(end + len(rest) + 1, len(text)), meant=True)]
    closing = _BRACE_CLOSING.search(text, start)
    if closing is None:
        return list(_unclosed(text, start + 1, Syntax.JSON))
    end = closing.start() + 1
    return [Block(Syntax.JSON, start, end, closing.end(), _meant(_looks(text[start + 1 : closing.start()].lstrip())))]


# --- what may stand before a head ------------------------------------------------------------------------------------

_BLANK = re.compile(r"\s*+")
_COMMENT_ENDS = re.compile(r"[^\S\n]*+(?:\n|\Z|<!--|%%)")
_COMMENT = re.compile(r"<!--|%%|\[(?://|[Cc]omment)\]:[^\n]*+")


def skip_comments(text: str, start: int) -> tuple[int, list[str]]:
    """The first line after blank lines and comments, and what the comments say. Text behind a comment ends them."""
    said: list[str] = []
    while True:
        at = _BLANK.match(text, start).end()  # type: ignore[union-attr]  # matches the empty text too
        line = text.rfind("\n", start, at) + 1 or start
        found = _COMMENT.match(text, at)
        if found is None:
            return line, said
        closing = {"<!--": "-->", "%%": "%%"}.get(found[0])
        end = text.find(closing, found.end()) if closing else found.end()
        said.append(text[found.end() : end if end >= 0 else None] if closing else found[0])
        if end < 0:
            return len(text), said
        start = end + len(closing or "")
        if not _COMMENT_ENDS.match(text, start):
            return start, said


# --- access ----------------------------------------------------------------------------------------------------------

_ACCESS = re.compile(r"(?<![\w-])access[\"'`*_)\]]*+\s*+(?:=>|::?|=)(?P<value>[^\n]*)")
# A line of nothing but the two words, whatever stands between and around them.
_ONLY_ACCESS = re.compile(r"\W*access\W{1,8}none\W*")
_DECORATION = " \t\"'`*_([{,;|-?>+#:.}"
_OPENERS = frozenset("{[,;|\"'")
_LOOKBACK = 40


def names_access(block: str, *, only_none: bool = False, one_word: bool = False) -> bool:
    """Whether a line of a head has ``access`` as its key, in any spelling, nested or in brackets, or says
    ``access: none`` anywhere. ``only_none`` and ``one_word`` ask for such a value. Comments do not count."""
    for line in block.split("\n"):
        folded = fold(line).strip()
        if "access" not in folded or (folded.startswith("#") and not folded.startswith("#+")):
            continue
        if _ONLY_ACCESS.fullmatch(folded):
            return True
        for found in _ACCESS.finditer(folded):
            value = found["value"].strip(" \t\"'`[](){},;*_").partition(" #")[0].strip(" \t\"'`[](){},;*_.")
            none = value == "none" or (not only_none and not one_word and re.match(r"none\b", value) is not None)
            if none or (not only_none and _is_key(folded, found.start()) and not (one_word and len(value.split()) > 1)):
                return True
    return False


def _is_key(line: str, at: int) -> bool:
    before = line[max(0, at - _LOOKBACK) : at]
    kept = before.rstrip(_DECORATION)
    return not kept or not _OPENERS.isdisjoint(before[len(kept) :])


_INLINE = re.compile(r"[\[(]\s*access\s*::\s*none\s*[\])]")
_OTHER_LINE_ENDS = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_LABEL = re.compile(r"(?:<[^<>]*+>)*<(?:summary|title)\b|\[!|!\[")
_HEADING = re.compile(r"#{1,6}\s|%|<{7}(?:\s|\Z)")
_TAG = re.compile(r"</?[a-z][^<>]*+>|<!--|-->|%%|\A:{3,}.*+")
_FRAME = re.compile(
    r"\\?(?:(?P<head>-{2,}|\+{2,}|;{2,}|[{}](?!\S))|={3,}|\*{3,}|_{3,}|\.{3,}|(?:[-*_] ){2,}[-*_](?!\S)"
    r"|(?P<code>~{3,}|`{3,}|<(?=(?:pre|code|script|style|template|textarea)\b)|\{(?=[{%][<%-]?\s*(?:highlight|raw|code)\b)))"
    r"(?P<rest>.*)"
)
_CODE_ENDS = {
    "<": re.compile(r".*</(?:pre|code|script|style|template|textarea)\b.*"),
    "{": re.compile(r".*\{[{%].*(?:/|end).*"),
}
_CODE_OF_ITEM = re.compile(r"(?:(?:[-*+]|\d{1,9}[.)])\s+)+(?=`{3}|~{3})")
_FIELD = re.compile(
    r"(?:[-*+] )?[*_\[(]*access[*_]*\s*::\s*none[*_\])]*|(?:<!--|%%)\s*access\s*::?\s*none\s*(?:-->|%%)"
)
_TO_DASH = {code: "-" for code in (0x02D7, *range(0x2010, 0x2016), 0x2043, 0x2212, 0x2500, 0x2501)}
_MAX_FRAMED_LINES = 100


def framed_access(text: str, start: int, *, behind_head: bool = False) -> bool:
    """Whether ``access`` is set within the first lines without a head: in a frame whose lines are keys, in a paragraph of
    keys behind nothing but tags and labels, or as a field (``access:: none``) in a line of its own.

    Behind a heading only frames count; behind prose, or a head that could be read, those such as heads have, and only
    with ``access: none``. Code is an example, unless a frame of it without a name opens the file.
    """
    opening = _OTHER_LINE_ENDS.sub("\n", text[start : start + MAX_HEAD_CHARS])
    cut = [line[:_MAX_LINE_CHARS] for line in opening.split("\n", _MAX_FRAMED_LINES)[:_MAX_FRAMED_LINES]]
    if "access" not in fold("\n".join(cut)):
        return False
    lines = _bare_lines(cut)
    frames = [_FRAME.fullmatch(line) for line in lines]
    bare, prose, at = not behind_head, behind_head, 0
    while at < len(lines):
        frame = frames[at]
        if frame and frame["code"] and (behind_head or frame["rest"] or any(lines[:at])):
            bare, prose, at = False, True, _end_of_code(lines, at, frame["code"])
            continue
        end = _end_of_part(lines, frames, at)
        part = [line for line in lines[at:end] if line]
        if frame:
            rows = [frame["rest"].strip(), *part[1:]] if "access" in frame["rest"] else part[1:]
            if (not prose or frame["head"]) and _sets_access(rows, only_none=prose):
                return True
            at += 1  # what closes one frame may open another
        elif not part or _LABEL.match(part[0]):
            at += 1
        elif _HEADING.match(part[0]):
            bare, at = False, at + 1
        elif any(map(_FIELD.fullmatch, part)) or (
            bare and _opens_with_key(part) and _sets_access(part, only_none=True)
        ):
            return True
        else:
            prose = (
                prose or len(part) > 1 or end == len(lines) or frames[end] is None
            )  # one line above a rule is a title
            bare, at = False, end
    return False


def _bare_lines(raws: Iterable[str]) -> list[str]:
    """Lines folded, without tags and marks of comments and quotes, and without code by indentation."""
    lines: list[str] = []
    for raw in raws:
        line = fold(raw).translate(_TO_DASH).strip().lstrip("> ")
        if raw.startswith(("    ", "\t")) and any(lines):
            line = ""
        if not (_LABEL.match(line) or _FIELD.fullmatch(line) or ((frame := _FRAME.match(line)) and frame["code"])):
            line = _CODE_OF_ITEM.sub("", _TAG.sub("", line).strip(), count=1)
        lines.append(line)
    return lines


def _end_of_code(lines: Sequence[str], at: int, code: str) -> int:
    """The first line behind the code that ``code`` opens at ``at``."""
    ends = _CODE_ENDS.get(code) or re.compile(rf"{code}{code[0]}*")
    same = code in _CODE_ENDS and ends.fullmatch(lines[at], len(code)) is not None
    return (
        at + 1
        if same
        else next((end for end in range(at + 1, len(lines)) if ends.fullmatch(lines[end])), len(lines)) + 1
    )


def _end_of_part(lines: Sequence[str], frames: Sequence[object], at: int) -> int:
    """Where the frame or paragraph that begins at ``at`` ends: at the next frame, else at a blank line."""
    blank = next((end for end in range(at + 1, len(lines)) if not lines[end]), len(lines))
    closing = next((end for end in range(at + 1, len(lines)) if frames[end]), len(lines))
    return closing if closing < blank or (frames[at] and closing < len(lines)) else blank


def _opens_with_key(rows: Sequence[str]) -> bool:
    return _look(rows[0]) in {_Line.KEY, _Line.KNOWN}


def _sets_access(rows: Sequence[str], *, only_none: bool) -> bool:
    keyed = all(_look(row) in {_Line.KEY, _Line.KNOWN, _Line.MORE} or _ONLY_ACCESS.fullmatch(row) for row in rows)
    return keyed and any(names_access(row, only_none=only_none, one_word=True) for row in rows)


_DATA_FENCE = re.compile(r"(?:`{3,}|~{3,})\s*\{?\.?(?:ya?ml|toml|json|meta\w*|front-?matter)\b[^\n]*\n", re.IGNORECASE)


def stray_access(text: str, start: int, comments: Iterable[str]) -> bool:
    """Whether ``access`` is set without a head: in a comment before the text, in a block of data that opens the file, or
    in properties, a first paragraph in which every line is ``key: value``."""
    if any(names_access(comment, one_word=True) for comment in comments):
        return True
    part = text[start : start + MAX_HEAD_CHARS]
    if fence := _DATA_FENCE.match(part):
        inside = re.split(r"\n(?:`{3}|~{3})", part[fence.end() :], maxsplit=1)[0]
        return names_access(
            "\n".join(line for line in inside.split("\n") if line[:1] not in {" ", "\t"}), one_word=True
        )
    rows = re.split(r"\n[^\S\n]*+(?:\n|\Z)|\n(?:---|\+\+\+|\.\.\.)[ \t]*(?:\n|\Z)", part, maxsplit=1)[0].strip("\n")
    if any(_INLINE.fullmatch(fold(row).strip()) for row in rows.split("\n")):
        return True
    looks = _looks(rows)
    keys = {_Line.KEY, _Line.KNOWN}
    return looks[0] in keys and set(looks) <= {*keys, _Line.MORE} and names_access(rows, one_word=True)
