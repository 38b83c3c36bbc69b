"""What is shown of a text when only so many characters are left? Pure."""

from __future__ import annotations

from dataclasses import dataclass

from rag_mcp.search.shape import cut_text
from rag_mcp.text.sanitize import neutralise

__all__ = ["FittedText", "fit_text"]

_MIN_TEXT = 500


@dataclass(frozen=True, slots=True)
class FittedText:
    """What is shown of a passage; None when the budget is spent, and the citation stands alone."""

    shown: str | None
    truncated: bool = False
    warnings: tuple[str, ...] = ()


def fit_text(text: str, budget: int, *, first: bool, found_at: int = 0) -> FittedText:
    """What is shown of ``text``, of which what was found begins at ``found_at``; the ``first`` one of an answer always
    comes, as far as it goes."""
    truncated = len(text) > budget
    if truncated and not first and budget < _MIN_TEXT:
        return FittedText(None)
    # Cut first: what is removed from a text costs time, and a text only becomes shorter by it.
    shown, warnings = neutralise(cut_text(text[found_at:] if truncated else text, budget))
    return FittedText(shown, truncated, warnings)
