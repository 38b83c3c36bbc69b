"""Questions that found nothing, for the owner of the corpus: off unless a file is named; grouped by their words.

The log holds what people asked, so it is its owner's alone, is not written through a link, and stays small: a full one
becomes the older one (``.1``), and the older one before it goes.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rag_mcp.errors import ConfigError
from rag_mcp.models import Reason
from rag_mcp.stores.embedded.logfile import append_line, older_logs

__all__ = ["MAX_LOG_BYTES", "Gap", "GapGroup", "append_gap", "group_gaps", "note_gap", "note_unanswered", "read_gaps"]

_log = logging.getLogger(__name__)

# Questions that share this part of their words are taken for one subject.
_ALIKE = 0.5
_SHORT = 3
# A question is compared with the latest groups that share a word with it, and with no more: else a word that stands in
# every question would have each of them compared with all before.
_COMPARED = 64
MAX_LOG_BYTES = 1024 * 1024


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


def note_gap(path: Path, question: str, reason: str) -> None:
    """Add a question asked just now. A log that can't be written is warned of: no search fails for it."""
    try:
        append_gap(path, Gap(datetime.now(UTC).isoformat(timespec="seconds"), question, reason))
    except OSError as error:
        _log.warning("gap log can't be written: %s", error.strerror)


def note_unanswered(path: Path | None, question: str, reason: Reason | None) -> None:
    """Add a question that ``reason`` left without an answer, where a log is kept; a refused access is no gap."""
    if path is not None and reason not in (None, Reason.ACL_DENIED):
        note_gap(path, question, reason or "")


def append_gap(path: Path, gap: Gap) -> None:
    """Add one line to a file that only its owner may read; a full one is set aside first.

    Raises OSError, for a link and whatever else is no file too: the caller decides that it must not fail a search.
    """
    line = json.dumps({"at": gap.at, "question": gap.question, "reason": gap.reason}, ensure_ascii=False)
    append_line(path, line, max_bytes=MAX_LOG_BYTES, keep=1)


def read_gaps(path: Path) -> list[Gap]:
    """The questions of the log and of the older one, of each the latest part if it is too large. Lines that can't be
    read (a torn one) are left out. Raises ConfigError when there is no such file."""
    (older,) = older_logs(path, keep=1)
    gaps = list(_parsed(_tail(older))) if older.is_file() else []
    try:
        return [*gaps, *_parsed(_tail(path))]
    except OSError as error:
        raise ConfigError(f"The gap log can't be read ({error.strerror}): {path}") from error


def _tail(path: Path) -> bytes:
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is no file", str(path))
    with open(path, "rb") as stream:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - 4 * MAX_LOG_BYTES))
        return stream.read()


def _parsed(raw: bytes) -> Iterator[Gap]:
    for line in raw.decode("utf-8", "replace").split("\n"):
        try:
            value = json.loads(line)
            yield Gap(str(value["at"]), str(value["question"]), str(value["reason"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            continue


def group_gaps(gaps: Iterable[Gap]) -> list[GapGroup]:
    """Group questions by shared words (Jaccard), most frequent group first, ties by the latest. Linear in the text."""
    groups: list[tuple[frozenset[str], list[Gap]]] = []
    of_words: dict[frozenset[str], int] = {}
    with_word: dict[str, list[int]] = {}
    for gap in gaps:
        words = _words(gap.question)
        home = of_words.get(words)
        if home is None:
            home = _home(words, groups, with_word)
        if home is None:
            home = len(groups)
            groups.append((words, []))
            for word in words:
                with_word.setdefault(word, []).append(home)
        of_words.setdefault(words, home)
        groups[home][1].append(gap)
    found = [_group(members) for _, members in groups]
    return sorted(found, key=lambda group: (group.count, group.last_at), reverse=True)


def _home(
    words: frozenset[str], groups: Sequence[tuple[frozenset[str], list[Gap]]], with_word: dict[str, list[int]]
) -> int | None:
    """The first of the groups looked at whose first question is alike."""
    shared = Counter(group for word in words for group in with_word.get(word, ())[-_COMPARED:])
    alike = (group for group, count in shared.items() if count >= _ALIKE * (len(words) + len(groups[group][0]) - count))
    return min(alike, default=None)


def _group(members: Sequence[Gap]) -> GapGroup:
    return GapGroup(tuple(dict.fromkeys(gap.question for gap in members)), len(members), max(gap.at for gap in members))


def _words(question: str) -> frozenset[str]:
    words = frozenset(re.findall(r"\w+", question.casefold()))
    return frozenset(word for word in words if len(word) > _SHORT) or words
