"""Which character begins a line, and which line is a character on? Pure."""

from __future__ import annotations

import re
from bisect import bisect_right

__all__ = ["Lines"]


class Lines:
    """Lines of the body that begins at ``body_start``: its first is line 0. A line ends at a line feed and nowhere else."""

    def __init__(self, text: str, body_start: int) -> None:
        self.text = text
        self.body_start = body_start
        self._breaks = [match.start() for match in re.finditer("\n", text)]
        self._skipped = bisect_right(self._breaks, body_start - 1)

    def __len__(self) -> int:
        return len(self._breaks) - self._skipped + 1

    def offset(self, line: int) -> int:
        """Character offset of the start of a line of the body; the end of the text for any line after the last."""
        index = self._skipped + line - 1
        if line <= 0:
            return self.body_start
        return self._breaks[index] + 1 if index < len(self._breaks) else len(self.text)

    def number(self, offset: int) -> int:
        """1-based line in the whole file."""
        return bisect_right(self._breaks, offset - 1) + 1
