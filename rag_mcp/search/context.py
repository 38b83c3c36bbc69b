"""Which part of its document is shown with each hit? All of a short note, the neighbours asked for, no passage twice.

A hit that stands in what is shown for a better one is read there. Each decision depends on better hits alone, so a
shorter answer is the beginning of a longer one. All text is the index's, and of a document that holds a hit: nothing
comes from one that the caller may not see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rag_mcp.models import Chunk
from rag_mcp.search.budget import FittedText, fit_text
from rag_mcp.search.passages import Passages
from rag_mcp.search.retrieve import Scope
from rag_mcp.search.shape import Candidate
from rag_mcp.stores.manifest import FileEntry
from rag_mcp.text.sanitize import neutralise

__all__ = ["SHORT_NOTE_CHARS", "Documents", "Excerpt", "Run", "excerpts"]

# 400 tokens at four characters each: about two passages of the usual size.
SHORT_NOTE_CHARS = 1_600


@dataclass(frozen=True, slots=True)
class Run:
    """The passages ``first`` to ``last`` of the document ``path``."""

    path: str
    first: int
    last: int

    def overlaps(self, other: Run) -> bool:
        return self.path == other.path and self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class Excerpt:
    candidate: Candidate
    run: Run
    text: FittedText
    found_at: int


class Documents:
    """The documents that the hits of one question stand in."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._opened: dict[str, Passages] = {}

    def run(self, chunks: Sequence[Chunk]) -> Run:
        """Where passages that are read as one stand: in their own document, or with ``as_of`` in the one of that day,
        which says the same in its own lines."""
        run = self._on_its_day(chunks) or Run(chunks[0].source, chunks[0].index, chunks[-1].index)
        self.passages(run.path).know(chunks)
        return run

    def _on_its_day(self, chunks: Sequence[Chunk]) -> Run | None:
        chunk = chunks[0]
        day = (self.scope.filters.valid_days or {}).get(chunk.series or "")
        if chunk.series is None or day not in chunk.valid_on[1:]:
            return None
        path = self.scope.days_of(chunk.series)[day]
        ids = {each.id for each in chunks}
        places = [place for place, row in enumerate(self.entry(path).rows) if row[0] in ids]
        return Run(path, places[0], places[-1]) if places else None

    def passages(self, path: str) -> Passages:
        """The passages of a document that holds a hit."""
        if path not in self._opened:
            entry, keywords = self.entry(path), self.scope.view.keywords
            self._opened[path] = Passages(entry.rows, lambda ids: keywords.fetch([entry.source_class], ids))
        return self._opened[path]

    def text(self, run: Run) -> str:
        return self.passages(run.path).run(run.first, run.last).strip("\n")

    def begin(self, run: Run, part: Run) -> int:
        """Where ``run`` begins in what is shown of ``part``."""
        before = map(self.passages(run.path).before, range(part.first, run.first))
        return len(neutralise("".join(before))[0])

    def reach(self, run: Run, chunk: Chunk) -> Run:
        """How far what is shown for a hit may extend."""
        entry = self.entry(run.path)
        last = len(entry.rows) - 1
        # What a snapshot says beside a passage need not hold on the days that the passage does: only who asks gets it.
        if chunk.series is None and 0 < entry.chars <= SHORT_NOTE_CHARS:
            return replace(run, first=0, last=last)
        beside = self.scope.request.neighbours
        return replace(run, first=max(0, run.first - beside), last=min(last, run.last + beside))

    def entry(self, path: str) -> FileEntry:
        return self.scope.view.manifest().files[path]


def excerpts(candidates: Sequence[Candidate], documents: Documents) -> list[Excerpt]:
    """The best ``k`` of the candidates, with the text that is shown for each. Half of the budget is for what was found
    alone: what stands around one hit must not cost others their own text."""
    request = documents.scope.request
    budget, spare = request.max_chars, request.max_chars // 2
    shown: list[Excerpt] = []
    for candidate in candidates:
        run = documents.run(candidate.joined)
        taken = [place for place, other in enumerate(shown) if other.run.overlaps(run)]
        for place in taken:
            run = _without(run, shown[place].run)
        if run.first > run.last:
            host = shown[taken[-1]]
            shown[taken[-1]] = replace(host, candidate=host.candidate.with_places_of(candidate))
        elif len(shown) < request.k:
            own = len(documents.text(run))
            part = _extended(run, candidate, documents, shown, min(spare, budget - own))
            text = documents.text(part)
            spare -= len(text) - own
            fitted = fit_text(text, budget, first=not shown)
            budget -= len(fitted.shown or "")
            shown.append(Excerpt(candidate, part, fitted, documents.begin(run, part)))
    return shown


def _extended(run: Run, candidate: Candidate, documents: Documents, shown: Sequence[Excerpt], chars: int) -> Run:
    """``run`` and what of its surroundings fits into so many more characters and is not shown yet."""
    wanted = documents.reach(run, candidate.chunk)
    for other in shown:
        if other.run.overlaps(wanted):
            wanted = _without(wanted, other.run)
    passages = documents.passages(run.path)
    first, last = passages.fitting((run.first, run.last), (wanted.first, wanted.last), chars)
    return replace(run, first=first, last=last)


def _without(run: Run, other: Run) -> Run:
    """What ``run`` has on one side of ``other``."""
    return replace(run, first=other.last + 1) if other.first <= run.first else replace(run, last=other.first - 1)
