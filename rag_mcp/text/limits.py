"""How large may a passage be, and how is that counted? Pure."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from rag_mcp.errors import InvalidArgument

__all__ = ["LIKELY_CHARS_PER_TOKEN", "Budget", "ChunkLimits", "Count"]

Count = Callable[[str], int]
"""How many tokens the embedder makes of a text."""

LIKELY_CHARS_PER_TOKEN = 4
"""A longer text is rarely within a limit of tokens."""

_MAX_TOKENS = 256  # also for models that read more
_SMALLEST_LIMIT = 16
_CHARS_PER_TOKEN = 16
_SPECIAL_TOKENS = 2


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """Sizes in the embedder's own tokens, of all that is embedded: title, heading path and text.

    No passage is ever larger than ``max_tokens``. A section above it is cut into passages of about ``soft_tokens``;
    a passage below ``min_tokens`` is avoided where its neighbours in the section leave room.
    """

    max_tokens: int = _MAX_TOKENS
    soft_tokens: int = 200
    min_tokens: int = 40

    def __post_init__(self) -> None:
        if self.max_tokens < _SMALLEST_LIMIT:
            raise InvalidArgument("max_tokens", f"{self.max_tokens} is too small; use {_SMALLEST_LIMIT} or more.")
        if self.soft_tokens < 1 or self.min_tokens < 0:
            raise InvalidArgument("soft_tokens, min_tokens", "must be positive.")

    @classmethod
    def of_model(cls, longest_input: int) -> ChunkLimits:
        """For a model that reads ``longest_input`` of its tokens: two are kept for the special ones."""
        return cls(max_tokens=min(longest_input, _MAX_TOKENS) - _SPECIAL_TOKENS)

    @property
    def max_chars(self) -> int:
        """Characters of a passage: a tokenizer may call a megabyte without spaces one unknown token."""
        return _CHARS_PER_TOKEN * self.max_tokens


@dataclass(frozen=True, slots=True)
class Budget:
    """What title and headings leave for the text of a section's passages. Below ``few_chars`` pieces are counted
    together where there are very many. ``recount`` knows what it counted: headers and items stand in many passages."""

    tokens: int
    soft_tokens: int
    min_tokens: int
    chars: int
    few_chars: int
    count: Count
    recount: Count

    @classmethod
    def beside(cls, context: str, limits: ChunkLimits, count: Count) -> Budget:
        """The budget of passages that all begin with ``context``."""
        taken = count(context)
        return cls(
            tokens=max(1, limits.max_tokens - taken),
            soft_tokens=max(1, min(limits.soft_tokens, limits.max_tokens) - taken),
            min_tokens=limits.min_tokens,
            chars=limits.max_chars,
            few_chars=limits.max_chars // 16,
            count=count,
            recount=functools.cache(count),
        )
