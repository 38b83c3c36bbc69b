"""Series as a time line: the passages of dated snapshots over their days, and when they changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rag_mcp.answers import Document
from rag_mcp.models import SourceClass
from rag_mcp.server.page.view import Asked, Payload, Shown
from rag_mcp.text.series import group_series, series_of

__all__ = ["Line", "Run", "lines_of", "show_series"]

_A_PAGE = "500"
_MOST_PAGES = 10
_MOST_DAYS = 40
_MOST_CHARS = "100000"
_LABEL_CHARS = 70
_DAY_CHARS = len("2031-05-03")

# A passage's first line in its file, and its text.
Passage = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Run:
    """The days, by number from ``first`` to ``last``, on which a passage stood unchanged, and its line on the first."""

    first: int
    last: int
    line: int


@dataclass(frozen=True, slots=True)
class Line:
    """A passage of the series: when it stood, and what it says in a few words."""

    label: str
    runs: tuple[Run, ...]


def show_series(asked: Asked) -> Shown:
    """All there are, or with ``source``, a snapshot of one, that one."""
    source = asked.given.get("source", "")
    found, more = _found(asked, source)
    if not source:
        shown = [(members[0], members[-1], len(members)) for members in found]
        return Shown("series.html", {"found": shown, "more": more, "given": asked.given})
    members = next((members for members in found if source in members), [])
    if not members:
        return Shown("series.html", {"found": [], "missing": True, "given": asked.given}, status=404)
    earlier, members = members[:-_MOST_DAYS], members[-_MOST_DAYS:]
    days = [dated[1] for member in members if (dated := series_of(member))]
    title, snapshots = _snapshots(asked, members)
    data = {
        "members": members,
        "days": days,
        "lines": lines_of(days, snapshots),
        "earlier": len(earlier),
        "name": title,
        "given": asked.given,
    }
    return Shown("series.html", data)


def _found(asked: Asked, source: str) -> tuple[list[list[str]], bool]:
    """The snapshots of each series the profile may list, and whether there are more documents than were looked at."""
    arguments: dict[str, object] = {"limit": _A_PAGE}
    if prefix := source.rpartition("/")[0] or asked.given.get("prefix", ""):
        arguments["prefix"] = prefix
    if name := asked.given.get("source_class", ""):
        arguments["source_class"] = name
    entries: list[Payload] = []
    cursor = None
    for _ in range(_MOST_PAGES):
        page = asked.tool("list_documents", {**arguments, **({"cursor": cursor} if cursor else {})})
        entries += page.get("documents", ())
        if not (cursor := page.get("next_cursor")):
            break
    members = group_series((each["source"], SourceClass(each["source_class"])) for each in entries)
    return list(members.values()), cursor is not None


def _snapshots(asked: Asked, members: Sequence[str]) -> tuple[str, list[list[Passage]]]:
    """The newest title, and the passages of each day; none of a document that went meanwhile."""
    title, snapshots = "", []
    for member in members:
        told = asked.served.tools.run("get_document", {"source": member, "max_chars": _MOST_CHARS}).told
        snapshots.append(list(_passages(told)) if isinstance(told, Document) else [])
        title = told.title if isinstance(told, Document) else title
    return title, snapshots


def _passages(document: Document) -> Iterator[Passage]:
    lines = document.text.split("\n")
    for first, last in document.passages:
        start = first - document.line_start
        yield first, "\n".join(lines[start : last - document.line_start + 1]).strip()


def lines_of(days: Sequence[str], snapshots: Sequence[Sequence[Passage]]) -> list[Line]:
    """The passages in the order they came up, with their unbroken runs of days. A heading that names a day of the series is
    the same heading on another day. Pure."""
    dated = re.compile(rf"(?m)(?<=^#).*?\b(?:{'|'.join(days)})\b")
    runs: dict[str, list[Run]] = {}
    for number, passages in enumerate(snapshots):
        for line, text in passages:
            own = runs.setdefault(dated.sub(lambda found: f"{found[0][:-_DAY_CHARS]}…", text), [])
            if own and own[-1].last >= number - 1:
                own[-1] = Run(own[-1].first, number, own[-1].line)
            else:
                own.append(Run(number, number, line))
    return [Line(_label(text), tuple(own)) for text, own in runs.items()]


def _label(text: str) -> str:
    """The last heading and what follows it, in a line."""
    words = " ".join(part.lstrip("#").strip() for part in text.split("\n") if part.strip())
    return words if len(words) <= _LABEL_CHARS else f"{words[: _LABEL_CHARS - 1]}…"
