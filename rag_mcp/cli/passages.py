"""How the answer to a question is printed for people; a field that is left out says nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from rag_mcp.cli.output import say
from rag_mcp.text.sanitize import one_line, terminal_safe

__all__ = ["print_answer"]

Payload: TypeAlias = Mapping[str, Any]

# Other places of a passage that an answer names.
_PLACES = 5


def _print_refusal(answer: Payload) -> None:
    withheld = answer.get("withheld")
    more = f": {withheld} withheld as too weak; --confidence normal shows them" if withheld else ""
    say(f"{answer['status']} ({answer['reason']}){more}", bold=True)
    for place in answer.get("nearest", ()):
        near = f"   near: {place['source']}  {place['heading']}  [{place['score']:.2f}]"
        say(one_line(near), dim=True)


def print_answer(answer: Payload) -> None:
    if answer.get("degraded"):
        say(f"Degraded: {one_line(answer.get('degraded_reason') or '')}", fg="yellow")
    if unknown := answer.get("not_in_documents"):
        say(f"In no document: {one_line(', '.join(unknown))}", fg="yellow")
    if answer["status"] != "OK":
        _print_refusal(answer)
        return
    for number, result in enumerate(answer["results"], start=1):
        _print_passage(number, result)


def _print_passage(number: int, result: Payload) -> None:
    cited = result["citation"]
    head = f"{number}. {_place(cited)}"
    if pages := cited.get("pages"):
        head += f", page {'-'.join(map(str, pages))}"
    say(one_line(head), bold=True, fg="cyan")
    about = _headings(cited) or cited.get("title", "")
    note = f"   {one_line(about)}  [{result['confidence']}, {result['score']:.2f}]"
    if day := cited.get("snapshot_date"):
        note += f"  as of {', '.join((day, *cited.get('also_unchanged_on', ())))}"
    say(note, dim=True)
    for key, values in result.get("properties", {}).items():
        said = f"{key}: {', '.join(map(str, values))}"
        say(f"   {one_line(said)}", dim=True)
    text = "(left out: the answer's budget is spent)" if result["text"] is None else result["text"] or "(no text)"
    # Every line of a passage is prefixed, so that a passage can't look like another result.
    for line in terminal_safe(text).splitlines():
        say(f"   | {line}")
    others = result.get("also_in", ())
    for place in others[:_PLACES]:
        where = f"{_place(place)}  {_headings(place)}".rstrip()
        say(f"   same text in {one_line(where)}", dim=True)
    if (total := result.get("also_in_total", len(others))) > _PLACES:
        say(f"   and in {total - _PLACES} more places", dim=True)
    if result.get("explain"):
        say(f"   {json.dumps(result['explain'])}", dim=True)
    say("")


def _place(citation: Payload) -> str:
    return f"{citation['source']}:{citation['line_start']}-{citation['line_end']}"


def _headings(citation: Payload) -> str:
    return " > ".join(citation.get("heading_path", ()))
