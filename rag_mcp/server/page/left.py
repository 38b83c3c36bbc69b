"""Left out and why: what the last ingest said of files, as far as this profile may know of them."""

from __future__ import annotations

from collections.abc import Iterable

from rag_mcp.answers import Status
from rag_mcp.server.page.view import Asked, Shown
from rag_mcp.text.sanitize import scrub, single_line

__all__ = ["show_left"]

_MOST = 300


def show_left(asked: Asked) -> Shown:
    answer = asked.served.tools.run("rag_status", {})
    told = answer.told
    if not isinstance(told, Status):
        return Shown("left.html", {"status": answer.payload}, status=400)
    lists = {
        "skipped": _some((each.source, each.reason) for each in told.skipped),
        "notices": _some((each.source, each.text) for each in told.notices),
    }
    return Shown("left.html", {"status": answer.payload, "lists": lists, "most": _MOST})


def _some(said: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return sorted((single_line(scrub(source)), single_line(scrub(text))) for source, text in said)[:_MOST]
