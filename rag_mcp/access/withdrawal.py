"""What may not be shown any more of what an older generation holds, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rag_mcp.models import SourceClass

__all__ = ["MASKED", "Cause", "Withdrawal"]

MASKED = "masked"
"""Stands in every notice about a file of which something is not shown."""


class Cause(StrEnum):
    """``WITHHELD`` is still in the corpus folder and left out (its head, a secret, a rule); ``GONE`` is not there;
    ``MASKED`` is there, with something masked that was not; ``MOVED`` to another class, ``RENAMED`` to another path."""

    WITHHELD = "withheld"
    GONE = "gone"
    MASKED = "masked"
    MOVED = "moved"
    RENAMED = "renamed"


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """Holds for generations numbered below ``since``.

    ``sha256`` is of the text that was withdrawn: it is shown again when the corpus holds the very same again.
    ``source_class`` is the one it was moved to, ``renamed`` the path: whoever may see that may see the old.
    """

    since: int
    cause: Cause
    sha256: str
    source_class: SourceClass | None = None
    renamed: str | None = None

    @property
    def hidden(self) -> bool:
        """Whether nobody may see it, under whatever profile."""
        return self.source_class is None and self.renamed is None
