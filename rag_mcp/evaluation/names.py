"""Which of the files that a set of questions names are in the index? Pure.

A name that is no indexed document makes its question a miss that no search could avoid, so it is said, with the file
that may have been meant. A file that the profile may not see is not there.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from rag_mcp.access.names import canonical_names, plain_path, same_names
from rag_mcp.errors import InvalidArgument
from rag_mcp.evaluation.calibration import MIN_ANSWERABLE, MIN_UNANSWERABLE
from rag_mcp.evaluation.questions import Question
from rag_mcp.text.globs import folded
from rag_mcp.text.sanitize import printable

__all__ = ["Placed", "place_names", "too_few"]

_NAMED = 20
_SIMILAR = 0.75


@dataclass(frozen=True, slots=True)
class Placed:
    """The questions with their files as the index spells them; ``unplaced`` are the ids of answerable questions none
    of whose files is there."""

    questions: tuple[Question, ...]
    notes: tuple[str, ...]
    unplaced: frozenset[str]


def place_names(questions: Sequence[Question], sources: Collection[str]) -> Placed:
    """Find every file that ``questions`` name among ``sources``. Raises InvalidArgument when none is there."""
    index = _Sources(sources)
    placed = [_placed(question, index) for question in questions]
    missing = [(question.id, name) for question in placed for name in _named(question) if name not in index.known]
    notes = [f"question {id_}: {index.why(name)}" for id_, name in missing[:_NAMED]]
    if len(missing) > _NAMED:
        notes.append(f"{len(missing) - _NAMED:,} more names of files are not in the index")
    wanted = [question for question in placed if question.answerable]
    unplaced = frozenset(question.id for question in wanted if not question.sources & index.known)
    if wanted and len(unplaced) == len(wanted):
        raise InvalidArgument("questions", f"no file they name is in the index ({'; '.join(notes[:3])}).")
    if unplaced:
        notes.append(
            f"answerable, and no file in the index: {len(unplaced)}; eval counts them as missed, calibrate not at all"
        )
    return Placed(tuple(placed), tuple(notes), unplaced)


def too_few(questions: Sequence[Question]) -> tuple[str, ...]:
    """Say of a small set that it is small, and from which number its figures carry."""
    answerable = sum(question.answerable for question in questions)
    counts = (
        (answerable, "answerable", MIN_ANSWERABLE),
        (len(questions) - answerable, "unanswerable", MIN_UNANSWERABLE),
    )
    return tuple(
        f"few questions: {count} {kind}; below {least} the figures for {kind} ones are examples, not a measurement"
        for count, kind, least in counts
        if count < least
    )


def _named(question: Question) -> Iterator[str]:
    yield from dict.fromkeys(place.source for place in question.relevant)
    if question.near is not None:
        yield question.near


def _placed(question: Question, index: _Sources) -> Question:
    relevant = tuple(replace(place, source=index.find(place.source) or place.source) for place in question.relevant)
    near = question.near if question.near is None else index.find(question.near) or question.near
    return replace(question, relevant=relevant, near=near)


class _Sources:
    """Indexed files by their name, and by what else a person may have written for it."""

    def __init__(self, sources: Collection[str]) -> None:
        self.known = dict.fromkeys(sorted(sources)).keys()
        self._forms = canonical_names(self.known)
        self._folded = {folded(source): source for source in self.known}
        self._last: dict[str, list[str]] = {}
        for source in self.known:
            self._last.setdefault(folded(source.rpartition("/")[2]), []).append(source)

    def find(self, name: str) -> str | None:
        """The file a name stands for, as get_document takes it."""
        path = plain_path(name)
        if path is None or path in self.known:
            return path
        equal = same_names(path, self.known, self._forms)
        return equal[0] if len(equal) == 1 else None

    def why(self, name: str) -> str:
        """That ``name`` is not there, and which file may have been meant."""
        said = f"{printable(name)} is not in the index"
        path = folded(name.replace("\\", "/").strip("/").removeprefix("./"))
        if any(folded(source).startswith(f"{path}/") for source in self.known):
            return f"{said}: it is a folder; name its files"
        meant = self._meant(path)
        return f"{said}; did you mean {printable(meant)}?" if meant is not None else said

    def _meant(self, path: str) -> str | None:
        for spelling in (path, f"{path}.md"):
            if spelling in self._folded:
                return self._folded[spelling]
            same_last = self._last.get(spelling.rpartition("/")[2], [])
            if len(same_last) == 1:
                return same_last[0]
        close = difflib.get_close_matches(path, self._folded, n=1, cutoff=_SIMILAR)
        return self._folded[close[0]] if close else None
