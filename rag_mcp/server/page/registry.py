"""Which views are there, in the order of the navigation?"""

from __future__ import annotations

from rag_mcp.server.page.ask import show_ask
from rag_mcp.server.page.document import show_document
from rag_mcp.server.page.documents import show_documents
from rag_mcp.server.page.profile import show_profile
from rag_mcp.server.page.view import View

__all__ = ["VIEWS"]

VIEWS: tuple[View, ...] = (
    View("ask", "Ask", show_ask),
    View("documents", "Documents", show_documents),
    View("document", "", show_document),
    View("profile", "What this profile sees", show_profile),
)
