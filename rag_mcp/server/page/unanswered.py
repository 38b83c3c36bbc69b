"""Gaps, for auditors: what was asked and not answered, in groups, with what was nearest."""

from __future__ import annotations

from collections.abc import Sequence

from rag_mcp.errors import RagMcpError
from rag_mcp.models import Gate, Reason
from rag_mcp.search.gaps import Gap, group_gaps, read_gaps
from rag_mcp.server.page.view import Asked, Payload, Shown
from rag_mcp.server.tools import error_payload

__all__ = ["show_gaps"]

_MOST = 100
_LOOKED_UP = 10
_NEAREST = "3"


def show_gaps(asked: Asked) -> Shown:
    path = asked.config.gap_log
    if path is None:
        return Shown("gaps.html", {"kept": False})
    try:
        gaps = read_gaps(path) if path.exists() else []
    except RagMcpError as error:
        return Shown("gaps.html", {"kept": True, "problem_of": error_payload(error)["error"]}, status=400)
    groups = group_gaps(gaps)
    weak = _weak(gaps)
    looked_up = [group.questions[0] for group in groups if group.questions[0] in weak][:_LOOKED_UP]
    nearest = {question: _nearest(asked, question) for question in looked_up}
    return Shown("gaps.html", {"kept": True, "groups": groups[:_MOST], "total": len(groups), "nearest": nearest})


def _weak(gaps: Sequence[Gap]) -> set[str]:
    """Questions that found something last time, though too weak: only these are asked again here, without the gate, and so
    note nothing in the log."""
    last = {gap.question: gap.reason for gap in gaps}
    return {question for question, reason in last.items() if reason == Reason.STRICT_BLOCKED_LOW}


def _nearest(asked: Asked, question: str) -> list[Payload]:
    arguments = {"query": question, "k": _NEAREST, "confidence": Gate.NORMAL.value}
    results: list[Payload] = asked.tool("search_knowledge", arguments).get("results", [])
    return results
