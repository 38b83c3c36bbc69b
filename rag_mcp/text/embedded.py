"""Which string is embedded for a passage? Title, heading path and text, each once. Pure."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from rag_mcp.text.headings import comparable, leading_heading, shorten_name, token_estimate
from rag_mcp.text.limits import ChunkLimits
from rag_mcp.text.marks import without_marks

__all__ = ["embedded_text"]


def embedded_text(
    title: str | None, heading_path: Sequence[str], shown: str, *, limits: ChunkLimits | None = None
) -> str:
    """The string that is embedded. Give the limits the passage was cut with.

    A heading line at the start of the text is left out when the path already says it, and the title when it equals
    the first heading. A title and path that would take more than about a third of ``max_tokens`` are shortened.
    """
    context = _context(title or "", tuple(heading_path), (limits or ChunkLimits()).max_tokens)
    body = _without_headings(without_marks(shown), heading_path).strip()
    return "\n\n".join(part for part in (context, body) if part)


@functools.lru_cache(maxsize=256)
def _context(title: str, heading_path: tuple[str, ...], max_tokens: int) -> str:
    title, *names = (" ".join(name.split()) for name in (title, *heading_path))
    if title and (not names or title.casefold() != names[0].casefold()):
        names.insert(0, title)
    return "\n".join(_shortened([name for name in names if name], max_tokens))


def _shortened(names: list[str], max_tokens: int) -> list[str]:
    """Keep what tells most when not all fits: the heading itself, then the title, then the nearest parents.

    Tokens are estimated, because the result may not depend on which tokenizer counts; no more than three quarters of
    ``max_tokens`` characters leave room for text even where every character is a token.
    """
    tokens = max_tokens // 3
    chars = max_tokens * 3 // 4
    if sum(token_estimate(name) + 1 for name in names) <= tokens and sum(len(name) + 1 for name in names) < chars:
        return names
    kept: dict[int, str] = {}
    last = len(names) - 1
    for index in dict.fromkeys((last, 0, *range(last - 1, 0, -1))):
        if not kept and last > 0:
            name = shorten_name(names[index], tokens * 2 // 3, chars * 2 // 3 - 2)
        else:
            name = shorten_name(names[index], tokens - 1, chars - 2)
        if not name:
            break
        kept[index] = name
        tokens -= token_estimate(name) + 1
        chars -= len(name) + 1
    return [kept[index] for index in sorted(kept)]


def _without_headings(shown: str, heading_path: Sequence[str]) -> str:
    names = {comparable(name) for name in heading_path}
    rest = shown
    while names:
        heading, end = leading_heading(rest)
        if not heading & names:
            break
        rest = rest[end:]
    return rest
