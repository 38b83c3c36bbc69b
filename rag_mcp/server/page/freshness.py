"""Freshness: how old the answers are, whether the index is whole, and for an auditor what each run changed."""

from __future__ import annotations

from rag_mcp.errors import RagMcpError
from rag_mcp.search.several import inside
from rag_mcp.server.page.history import Kept, generations
from rag_mcp.server.page.view import Asked, Payload, Shown
from rag_mcp.server.tools import error_payload

__all__ = ["show_freshness"]


def show_freshness(asked: Asked) -> Shown:
    status = asked.tool("rag_status", {})
    stores: dict[str, list[Kept]] = {}
    problems = []
    if asked.auditor:
        for name, config in (asked.config.corpora or {"": asked.config}).items():
            try:
                stores[name] = generations(config, asked.caller.profile)
            except RagMcpError as error:
                problems.append(error_payload(error)["error"])
    data = {"status": status, "parts": _parts(asked, status), "stores": stores, "problems": problems, "inside": inside}
    return Shown("freshness.html", data, status=400 if "error" in status else 200)


def _parts(asked: Asked, status: Payload) -> dict[str, Payload]:
    """How the index of each corpus is, by its name; of a single one by none."""
    integrity: Payload = status.get("integrity", {})
    if asked.config.corpora:
        return integrity
    return {"": {"generation": status.get("generation"), "indexed_at": status.get("indexed_at"), **integrity}}
