"""What is to be said of many files, in few words: how many, of which kind, and some of them by name. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rag_mcp.text.sanitize import printable

__all__ = ["Tally", "tally"]

_KINDS = 10
_KIND_CHARS = 80
_PARTICULARS = re.compile(r"[:;(]")
_NUMBER = re.compile(r"(?<![\w-])[0-9][0-9,]*")


@dataclass(frozen=True, slots=True)
class Tally:
    """``by_kind`` counts all of them, the most frequent kind first; ``examples`` are (file, what is said of it)."""

    total: int
    by_kind: Mapping[str, int]
    examples: tuple[tuple[str, str], ...]

    @property
    def kinds(self) -> str:
        return ", ".join(f"{kind}: {count:,}" for kind, count in self.by_kind.items())


def tally(items: Sequence[tuple[str, str]], *, most: int, max_bytes: int | None = None) -> Tally:
    """Count ``items`` (file, what is said of it), and choose up to ``most`` of them as examples: all in their order if
    they are no more, else some of every kind. With ``max_bytes`` long ones are cut, and together they stay below it."""
    kinds = [_kind(source, text) for source, text in items]
    counts = Counter(kinds).most_common()
    by_kind = dict(counts[:_KINDS])
    if len(counts) > _KINDS:
        by_kind["other"] = sum(count for _, count in counts[_KINDS:])
    chosen: Sequence[int] = range(len(items)) if len(items) <= most else _of_every_kind(kinds)[:most]
    return Tally(len(items), by_kind, tuple(_within([items[place] for place in chosen], max_bytes)))


def _kind(source: str, text: str) -> str:
    """What is said, without the particulars of the file."""
    said = _PARTICULARS.split(text.removeprefix(f"{printable(source)}: "), maxsplit=1)[0]
    return _NUMBER.sub("N", said[:_KIND_CHARS]).strip(" .") or "other"


def _of_every_kind(kinds: Sequence[str]) -> list[int]:
    """Places, the first of each kind before the second of any."""
    seen: Counter[str] = Counter()
    ranked = []
    for place, kind in enumerate(kinds):
        ranked.append((seen[kind], place))
        seen[kind] += 1
    return [place for _, place in sorted(ranked)]


def _within(items: Sequence[tuple[str, str]], max_bytes: int | None) -> list[tuple[str, str]]:
    if max_bytes is None:
        return list(items)
    kept: list[tuple[str, str]] = []
    left = max_bytes
    for source, text in items:
        short = printable(source), printable(text)
        left -= len("".join(short).encode("utf-8", "replace"))
        if left < 0:
            break
        kept.append(short)
    return kept
