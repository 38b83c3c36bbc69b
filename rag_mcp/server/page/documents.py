"""Documents: what there is, page by page."""

from __future__ import annotations

from rag_mcp.server.page.ask import arguments_of
from rag_mcp.server.page.view import Asked, Shown

__all__ = ["show_documents"]

_A_PAGE = "50"


def show_documents(asked: Asked) -> Shown:
    given = {name: value for name, value in asked.given.items() if value.strip()}
    page = asked.tool("list_documents", {"limit": _A_PAGE, **arguments_of(given)})
    kept = {name: value for name, value in given.items() if name != "cursor"}
    return Shown("documents.html", {"page": page, "given": given, "kept": kept}, status=200 if page["ok"] else 400)
