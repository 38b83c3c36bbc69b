"""Which views are there, in the order of the navigation?"""

from __future__ import annotations

from rag_mcp.server.page.ask import show_ask
from rag_mcp.server.page.document import show_document
from rag_mcp.server.page.documents import show_documents
from rag_mcp.server.page.evaluation import show_evaluation
from rag_mcp.server.page.freshness import show_freshness
from rag_mcp.server.page.left import show_left
from rag_mcp.server.page.profile import show_profile
from rag_mcp.server.page.series import show_series
from rag_mcp.server.page.unanswered import show_gaps
from rag_mcp.server.page.view import View

__all__ = ["VIEWS"]

VIEWS: tuple[View, ...] = (
    View("ask", "Ask", show_ask),
    View("documents", "Documents", show_documents),
    View("document", "", show_document),
    View("series", "Series", show_series),
    View("profile", "What this profile sees", show_profile),
    View("left", "Left out", show_left),
    View("freshness", "Freshness", show_freshness),
    View("gaps", "Gaps", show_gaps, auditors_only=True),
    View("evaluation", "Evaluation", show_evaluation, auditors_only=True),
)
