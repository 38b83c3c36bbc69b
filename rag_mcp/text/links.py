"""Which other documents does a text point to? Wikilinks, embeds and relative markdown links, as written. Pure.

What stands in code is no link, and hidden comments are gone before. Every pattern stops at a bracket, a blank or a line's
end, and a span of code is found by a look into a sorted list, so the time is linear.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from html import unescape
from urllib.parse import unquote

from rag_mcp.text.blocks import code_ranges

__all__ = ["MAX_LINKS", "MAX_LINK_CHARS", "find_links", "link_target"]

MAX_LINKS = 500
MAX_LINK_CHARS = 500

_FOUND = re.compile(
    r"""
    \\[!-/:-@\[-`{-~]
    |(?P<ticks>`++)
    |\[\[(?P<wiki>[^\[\]\n]{1,1000}+)\]\]
    |(?:\](?P<inline>\()|^(?:[ ]{0,3}>)*+[ ]{0,3}\[[^\[\]\n]{1,1000}+\]:)
        [ \t]*+
        (?:<(?P<angle>[^<>\n]{1,1000}+)>|(?P<bare>(?:[^\s()<>\\]|\\.|\([^\s()]{0,1000}+\)){1,1000}+))
        (?=[ \t\n]|(?(inline)\)|\Z))
    """,
    re.VERBOSE | re.MULTILINE,
)
_CANDIDATE = re.compile(r"\[\[|\]\(|\]:")
_BLANK_LINE = re.compile(r"\n[ \t>]*+(?=\n)")
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|//")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
# What an embed shows that is no text; a document is never one of these.
_MEDIA = re.compile(
    r"\.(?:png|jpe?g|gif|webp|svg|bmp|avif|heic|ico|mp3|m4a|wav|ogg|flac|mp4|mov|mkv|webm)\Z", re.IGNORECASE
)


def find_links(text: str, start: int = 0) -> tuple[str, ...]:
    """The targets that ``text[start:]`` names, each once, in order, the first MAX_LINKS.

    A wikilink's target is a name or path without its heading and display text. A markdown link's is decoded, and
    relative to the document's folder it begins with ``./`` or ``../``; from the root of the corpus it has no such begin.
    """
    body = text[start:]
    if not _CANDIDATE.search(body):
        return ()
    found: dict[str, None] = {}
    for target in filter(None, _targets(body)):
        found[target] = None
        if len(found) == MAX_LINKS:
            break
    return tuple(found)


def link_target(written: str) -> str:
    """The name in a wikilink's words: without display text, heading, block and the brackets."""
    name = written.strip().removeprefix("!")
    if name.startswith("[[") and name.endswith("]]"):
        name = name[2:-2]
    return " ".join(name.split("|", 1)[0].split("#", 1)[0].removesuffix("\\").split())


def _targets(body: str) -> Iterator[str | None]:
    code = code_ranges(body)
    ends = [end for _, end in code]
    spans: _CodeSpans | None = None
    at = 0
    while match := _FOUND.search(body, at):
        at = match.end()
        index = bisect_right(ends, match.start())
        if index < len(code) and code[index][0] <= match.start():
            at = code[index][1]
        elif match["ticks"]:
            spans = spans or _CodeSpans(body)
            at = spans.after(match)
        elif match["wiki"]:
            yield _kept(link_target(match["wiki"]))
        elif written := match["angle"] or match["bare"]:
            yield _markdown(written)


def _markdown(written: str) -> str | None:
    target = unescape(_ESCAPED.sub(r"\1", written))
    if _ELSEWHERE.match(target):
        return None
    target = unquote(target.split("#", 1)[0].split("?", 1)[0])
    if not target.strip("./ "):
        return None  # a heading of the same document, or a folder
    if target.startswith("/"):
        return _kept(target.lstrip("/"))
    return _kept(target if target.startswith(("./", "../")) else f"./{target}")


def _kept(target: str) -> str | None:
    fit = 0 < len(target) <= MAX_LINK_CHARS and target.isprintable() and not _MEDIA.search(target)
    return target if fit else None


class _CodeSpans:
    """Runs of backticks by length, and the blank lines that no span of code crosses."""

    def __init__(self, body: str) -> None:
        self._blank = [match.start() for match in _BLANK_LINE.finditer(body)]
        self._runs: dict[int, list[int]] = {}
        for run in re.finditer("`++", body):
            self._runs.setdefault(len(run[0]), []).append(run.start())

    def after(self, opening: re.Match[str]) -> int:
        """The end of the span that ``opening`` begins, else its own."""
        same = self._runs[len(opening["ticks"])]
        index = bisect_right(same, opening.start())
        if index == len(same) or bisect_right(self._blank, same[index]) != bisect_right(self._blank, opening.start()):
            return opening.end()
        return same[index] + len(opening["ticks"])
