"""What this profile sees; for an auditor, what each profile finds of one question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rag_mcp.models import Gate, SourceClass
from rag_mcp.server.page.view import Asked, Payload, Shown

__all__ = ["Found", "compared", "show_profile"]

_PASSAGES = "10"


@dataclass(frozen=True, slots=True)
class Found:
    """A passage that some profile found, and its rank, from 1, and result under each that did."""

    citation: Payload
    source_class: str
    under: dict[str, tuple[int, Payload]]


def show_profile(asked: Asked) -> Shown:
    seen = asked.seen.get("classes", {})
    data: dict[str, object] = {
        "unseen": [each for each in SourceClass if each not in seen],
        "given": asked.given,
        "names": asked.book.names() if asked.auditor else [],
    }
    if asked.auditor and asked.given.get("query", "").strip():
        answers = {name: _answer(asked, name) for name in asked.book.names()}
        data |= {"answers": answers, "rows": compared(answers)}
    return Shown("profile.html", data)


def _answer(asked: Asked, profile: str) -> Payload:
    """Normal, so that comparing notes no question as unanswered; what strict would withhold is of level low."""
    arguments = {"query": asked.given["query"], "k": _PASSAGES, "confidence": Gate.NORMAL.value}
    return asked.served_as(profile).tools.run("search_knowledge", arguments).payload


def compared(answers: Mapping[str, Payload]) -> list[Found]:
    """The passages that any profile was answered, the best first; one passage is one row."""
    rows: dict[tuple[str, int], Found] = {}
    for profile, answer in answers.items():
        for rank, result in enumerate(answer["results"], start=1):
            cited = result["citation"]
            row = rows.setdefault((cited["source"], cited["line_start"]), Found(cited, result["source_class"], {}))
            row.under[profile] = (rank, result)
    return sorted(rows.values(), key=lambda row: -max(result["score"] for _, result in row.under.values()))
