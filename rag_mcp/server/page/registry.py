"""Which views are there, in the order of the navigation?"""

from __future__ import annotations

from rag_mcp.server.page.ask import show_ask
from rag_mcp.server.page.view import View

__all__ = ["VIEWS"]

VIEWS: tuple[View, ...] = (View("ask", "Ask", show_ask),)
