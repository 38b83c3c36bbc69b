"""Questions that found nothing, for the owner of the corpus: off unless a file is named; grouped by their words."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rag_mcp.errors import ConfigError

__all__ = ["Gap", "GapGroup", "append_gap", "group_gaps", "read_gaps"]

# Questions that share this part of their words are taken for one subject.
_ALIKE = 0.5
_SHORT = 3


@dataclass(frozen=True, slots=True)
class Gap:
    at: str
    question: str
    reason: str


@dataclass(frozen=True, slots=True)
class GapGroup:
    questions: tuple[str, ...]
    count: int
    last_at: str


def append_gap(path: Path, gap: Gap) -> None:
    """Add one line to a file that, if it is new, only its owner may read.

    Raises OSError: the caller decides that a full disk must not fail a search.
    """
    line = json.dumps({"at": gap.at, "question": gap.question, "reason": gap.reason}, ensure_ascii=False)
    # What UTF-8 can't carry, a lone surrogate, is spelled as JSON spells it.
    with open(path, "a", encoding="utf-8", errors="backslashreplace", opener=_owners_only) as stream:
        stream.write(line + "\n")


def _owners_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def read_gaps(path: Path) -> list[Gap]:
    """Lines that can't be read (a torn last one) are left out. Raises ConfigError when there is no such file."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise ConfigError(f"The gap log can't be read ({error.strerror}): {path}") from error
    gaps = []
    for line in lines:
        try:
            raw = json.loads(line)
            gaps.append(Gap(str(raw["at"]), str(raw["question"]), str(raw["reason"])))
        except (ValueError, KeyError, TypeError):
            continue
    return gaps


def group_gaps(gaps: Iterable[Gap]) -> list[GapGroup]:
    """Group questions by shared words (Jaccard), most frequent group first, ties by the latest."""
    groups: list[tuple[frozenset[str], list[Gap]]] = []
    for gap in gaps:
        words = _words(gap.question)
        home = next((members for other, members in groups if _alike(words, other)), None)
        if home is None:
            groups.append((words, [gap]))
        else:
            home.append(gap)
    found = [_group(members) for _, members in groups]
    return sorted(found, key=lambda group: (group.count, group.last_at), reverse=True)


def _group(members: Sequence[Gap]) -> GapGroup:
    return GapGroup(tuple(dict.fromkeys(gap.question for gap in members)), len(members), max(gap.at for gap in members))


def _words(question: str) -> frozenset[str]:
    words = frozenset(re.findall(r"\w+", question.casefold()))
    return frozenset(word for word in words if len(word) > _SHORT) or words


def _alike(words: frozenset[str], other: frozenset[str]) -> bool:
    union = words | other
    return bool(union) and len(words & other) / len(union) >= _ALIKE
