"""Document: its text by lines, with the passages it was cut into, what it links to and what links to it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from rag_mcp.answers import Document
from rag_mcp.errors import NotFound
from rag_mcp.server.page.view import Asked, Shown

__all__ = ["Stretch", "show_document", "stretches"]

_MAX_CHARS = 100_000


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive lines that belong to the same passages (by number, none between passages), each with its number."""

    passages: range
    lines: tuple[tuple[int, str], ...]


def show_document(asked: Asked) -> Shown:
    """``lines`` are marked, and a long document is shown from ``passage`` on."""
    fields = {name: asked.given[name] for name in ("source", "from_chunk", "from_char") if asked.given.get(name)}
    arguments: dict[str, object] = {**fields, "max_chars": _MAX_CHARS}
    cited = _range(asked.given.get("lines", ""))
    answer = asked.served.tools.run("get_document", arguments)
    wanted = -1 if "from_chunk" in fields else _number(asked.given.get("passage", ""))
    if isinstance(answer.told, Document) and answer.told.chunk_end < wanted < answer.told.chunk_count:
        answer = asked.served.tools.run("get_document", {**arguments, "from_chunk": wanted})
    document, told = answer.payload, answer.told
    if not isinstance(told, Document):
        missing = document["error"]["type"] == NotFound.code
        return Shown("document.html", {"document": document}, status=404 if missing else 400)
    parts = list(stretches(document["text"], told.line_start, told.passages))
    return Shown("document.html", {"document": document, "parts": parts, "cited": cited, "title": document["title"]})


def stretches(text: str, first_line: int, passages: Sequence[tuple[int, int]]) -> Iterator[Stretch]:
    """``text`` begins on ``first_line``; ``passages`` are the first and last lines of each, in order: two may share a line
    where one was cut."""
    lines = text.removesuffix("\n").split("\n") if text else []
    begun = ended = 0
    owned: list[tuple[range, tuple[int, str]]] = []
    for number, line in enumerate(lines, start=first_line):
        while begun < len(passages) and passages[begun][0] <= number:
            begun += 1
        while ended < len(passages) and passages[ended][1] < number:
            ended += 1
        owned.append((range(ended, max(ended, begun)), (number, line)))
    for (_, _), group in groupby(owned, key=lambda each: (each[0].start, each[0].stop)):
        found = list(group)
        yield Stretch(found[0][0], tuple(line for _, line in found))


def _number(given: str) -> int:
    """A number that was written by this page; of anything else none that a document has."""
    return int(given) if re.fullmatch(r"[0-9]{1,9}", given) else -1


def _range(given: str) -> tuple[int, int]:
    first, _, last = given.partition("-")
    return _number(first), _number(last)
