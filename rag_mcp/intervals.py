"""How often something is done, as people write it: ``5m``, ``2h``."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Interval"]

_DAY = 24 * 60


@dataclass(frozen=True, slots=True)
class Interval:
    """Whole minutes, at most a day; prints as it is read."""

    minutes: int

    @classmethod
    def parse(cls, text: str) -> Interval:
        """Raises ValueError that says what is taken."""
        found = re.fullmatch(r"([1-9][0-9]{0,3})([mh])", text.strip())
        minutes = int(found[1]) * (60 if found[2] == "h" else 1) if found else 0
        if not 1 <= minutes <= _DAY:
            raise ValueError(f"{text!r} is no interval; use 1m to 24h, as in 5m or 2h")
        return cls(minutes)

    def __str__(self) -> str:
        hours, rest = divmod(self.minutes, 60)
        return f"{self.minutes}m" if rest else f"{hours}h"

    @property
    def seconds(self) -> int:
        return self.minutes * 60

    @property
    def is_of_the_clock(self) -> bool:
        """Whether it always ends at the same minutes of an hour or hours of a day: a calendar can't say another one."""
        hours, rest = divmod(self.minutes, 60)
        return 60 % self.minutes == 0 if rest else 24 % hours == 0
