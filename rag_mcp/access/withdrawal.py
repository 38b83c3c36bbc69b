"""What may not be shown any more of what an older generation holds, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from rag_mcp.models import SourceClass

__all__ = ["MASKED", "Cause", "Withdrawal", "Withdrawals"]

MASKED = "masked"
"""Stands in every notice about a file of which something is not shown."""


class Cause(StrEnum):
    """``WITHHELD`` is still in the corpus folder and left out (its head, a secret, a rule); ``GONE`` is not there;
    ``MASKED`` is there, with something masked that was not; ``MOVED`` to another class, ``RENAMED`` to another path.
    ``RESTORED`` was gone and is shown all the same until the next rollback or ingest, because its owner asked for it."""

    WITHHELD = "withheld"
    GONE = "gone"
    MASKED = "masked"
    MOVED = "moved"
    RENAMED = "renamed"
    RESTORED = "restored"


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
        return self.cause is not Cause.RESTORED and self.source_class is None and self.renamed is None


Withdrawals = Mapping[str, tuple[Withdrawal, ...]]
"""By path. Each of them counts: a path may have had several texts, and one text may have been closed in several ways."""
