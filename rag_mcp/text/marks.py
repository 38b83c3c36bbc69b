"""What stands in a passage in the place of text that was taken out: shown to readers, never searched."""

from __future__ import annotations

__all__ = ["DATA_MARK", "HIDDEN_MARK", "without_marks"]

HIDDEN_MARK = "[comment not shown]"
"""For what no reader of the rendered page sees."""

DATA_MARK = "[data left out]"
"""For what is no prose."""


def without_marks(text: str, by: str = "") -> str:
    return text.replace(HIDDEN_MARK, by).replace(DATA_MARK, by)
