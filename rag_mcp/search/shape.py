"""From scored candidates to the list a reader should see: newest first among equals, no copies, no crowding. Pure.

Everything here works on the whole candidate list and never looks at ``k``, so a shorter answer is always the beginning
of a longer one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from rag_mcp.models import Chunk, Evidence, Level
from rag_mcp.text.stubs import is_hollow

__all__ = ["RARE_EXACT", "Candidate", "cut_at", "cut_text", "order_candidates", "shape"]

# Passages of one file that count in full; what each further one is worth of the one before.
PER_FILE = 3
CROWDING = 0.9
# Joining stops here: a longer run of neighbours is better read with get_document.
MAX_JOINED = 3
# So many passages with the very words asked for may be guaranteed a place.
RARE_EXACT = 5
EXACT_PLACE = 2
# Probabilities closer than this are the same relevance: the states of a series differ by a word or two.
SAME_RELEVANCE = 0.05
# Share of common words above which two passages say the same thing; so many candidates are compared by words.
NEAR_DUPLICATE = 0.9
_COMPARED = 40
_WORD = re.compile(r"\w+")
_DIGIT = re.compile(r"\d")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A scored passage. ``rank_score`` orders, ``probability`` decides what is withheld and is what readers see; neither
    is made from the other. ``joined`` are neighbours read as one with it, in file order, itself included; ``also_in`` are
    the other places of its text. ``by_head``: words of the question stand in the head of its document."""

    chunk: Chunk
    evidence: Evidence
    features: dict[str, float]
    rrf: float
    rank_score: float
    probability: float
    level: Level
    joined: tuple[Chunk, ...] = ()
    also_in: tuple[Chunk, ...] = ()
    by_head: bool = False

    def __post_init__(self) -> None:
        if not self.joined:
            object.__setattr__(self, "joined", (self.chunk,))

    def with_places_of(self, other: Candidate) -> Candidate:
        """What is read for both."""
        return replace(self, also_in=(*self.also_in, *other.also_in), by_head=self.by_head or other.by_head)


def order_candidates(candidates: Sequence[Candidate], *, day: str | None) -> list[Candidate]:
    """Best first: rank score, then fused rank, then source and position.

    Passages of one dated series under one heading are states of the same thing, so among equals the newest comes first
    (and, with ``day``, the one valid that day before all); they share out the places their scores have earned.
    """
    ordered = sorted(candidates, key=_sort_key)
    places: dict[tuple[object, ...], list[int]] = {}
    for place, candidate in enumerate(ordered):
        if candidate.chunk.series is not None:
            places.setdefault(_state_of(candidate.chunk), []).append(place)
    for taken in places.values():
        best = [ordered[place] for place in taken]
        for place, state, held in zip(taken, _newest_first(best, day), best, strict=True):
            ordered[place] = _standing(state, held)
    return _hollow_behind(_promoted(ordered))


def _hollow_behind(ordered: Sequence[Candidate]) -> list[Candidate]:
    """What says nothing of its own stands right behind the first that speaks and meets as much of the question; where no
    word of it is met, and the question is not its very name, behind all that speak: in a language the model does not
    know short names are near to everything."""
    hollow = [_is_hollow(each.chunk.text, (each.chunk.title, *each.chunk.heading_path)) for each in ordered]
    speaking = [place for place in range(len(ordered)) if not hollow[place]]
    placed = []
    for place, candidate in enumerate(ordered):
        host = _host(ordered, speaking, candidate) if hollow[place] else -1
        if host > place:
            weaker = min(ordered[host], candidate, key=lambda each: each.probability)
            candidate = replace(_standing(candidate, weaker), rank_score=ordered[host].rank_score)
        placed.append((max(host, place), place != max(host, place), candidate))
    return [candidate for _, _, candidate in sorted(placed, key=lambda item: item[:2])]


# A question this near to a name is the name.
_NAMED_COSINE = 0.9


def _host(ordered: Sequence[Candidate], speaking: Sequence[int], hollow: Candidate) -> int:
    """The place behind which ``hollow`` stands, -1 where there is none."""
    if not hollow.evidence.term_share and (hollow.evidence.cosine or 0.0) < _NAMED_COSINE:
        return speaking[-1] if speaking else -1
    return next((at for at in speaking if _says(ordered[at], hollow)), -1)


def _says(candidate: Candidate, hollow: Candidate) -> bool:
    own, other = candidate.evidence.term_share or 0.0, hollow.evidence.term_share or 0.0
    return own >= other and (candidate.level is not Level.LOW or hollow.level is Level.LOW)


_is_hollow = lru_cache(maxsize=4_096)(is_hollow)


def _promoted(ordered: list[Candidate]) -> list[Candidate]:
    """The best of a few literal matches stands among the first three."""
    places = [place for place, candidate in enumerate(ordered) if candidate.features["exact"]]
    if not 0 < len(places) <= RARE_EXACT or places[0] <= EXACT_PLACE:
        return ordered
    best = _standing(ordered.pop(places[0]), ordered[EXACT_PLACE])
    return [*ordered[:EXACT_PLACE], best, *ordered[EXACT_PLACE:]]


def _standing(candidate: Candidate, held: Candidate) -> Candidate:
    """The candidate at the place, and with the scores, of ``held``."""
    return replace(candidate, rank_score=held.rank_score, probability=held.probability, level=held.level)


def _newest_first(states: Sequence[Candidate], day: str | None) -> list[Candidate]:
    """Order states of one thing, given best first: those valid on ``day``, then, among about equally relevant ones,
    the newest. A state that clearly fits the question better stays before a newer one."""
    leader = states[0].probability
    ranked = []
    cluster = 0
    for state in states:
        if leader - state.probability > SAME_RELEVANCE:
            leader, cluster = state.probability, cluster + 1
        ranked.append((day is None or day not in state.chunk.valid_on, cluster, state))
    newest = sorted(ranked, key=lambda item: item[2].chunk.valid_on[-1:], reverse=True)
    return [state for _, _, state in sorted(newest, key=lambda item: item[:2])]


def _sort_key(candidate: Candidate) -> tuple[object, ...]:
    chunk = candidate.chunk
    return (-round(candidate.rank_score, 9), -candidate.rrf, chunk.source, chunk.index)


def _state_of(chunk: Chunk) -> tuple[object, ...]:
    own = chunk.valid_on[0] if chunk.valid_on else ""
    return chunk.source_class, chunk.series, tuple(part.replace(own, "") for part in chunk.heading_path)


def shape(ordered: Sequence[Candidate]) -> list[Candidate]:
    """Collapse copies, join neighbours, keep one file from filling the list."""
    return _spread(_join(_collapse(ordered)))


@dataclass(frozen=True, slots=True)
class _Print:
    """What decides whether two passages say the same thing, taken once a passage."""

    plain: str
    words: frozenset[str]
    figures: tuple[str, ...]

    @classmethod
    @lru_cache(maxsize=4_096)
    def of(cls, text: str) -> _Print:
        """Of ``text``; kept, because a passage that comes up once tends to come up again."""
        words = _WORD.findall(text.casefold())
        figures = tuple(sorted(word for word in words if _DIGIT.search(word)))
        return cls(_plain(text), frozenset(words), figures)


def _collapse(ordered: Sequence[Candidate]) -> list[Candidate]:
    kept: list[Candidate] = []
    prints: list[_Print] = []
    equal: dict[str, list[int]] = {}
    # Copies have the same figures (two rows of a register differ in nothing else), so only those are compared.
    alike: dict[tuple[str, ...], list[int]] = {}
    for candidate in ordered[:_COMPARED]:
        own = _Print.of(candidate.chunk.text)
        rivals = alike.setdefault(own.figures, [])
        twin = next((i for i in rivals if _same(candidate.chunk, own, kept[i].chunk, prints[i])), None)
        if twin is None:
            rivals.append(len(kept))
            prints.append(own)
        _place(candidate, twin, own.plain, kept, equal)
    for candidate in ordered[_COMPARED:]:
        plain = _plain(candidate.chunk.text)
        twins = equal.get(plain, ()) if plain else ()
        twin = next((i for i in twins if not _one_series(candidate.chunk, kept[i].chunk)), None)
        _place(candidate, twin, plain, kept, equal)
    return kept


def _place(
    candidate: Candidate, twin: int | None, plain: str, kept: list[Candidate], equal: dict[str, list[int]]
) -> None:
    if twin is None:
        equal.setdefault(plain, []).append(len(kept))
        kept.append(candidate)
    else:
        kept[twin] = replace(kept[twin], also_in=(*kept[twin].also_in, candidate.chunk))


@lru_cache(maxsize=4_096)
def _plain(text: str) -> str:
    return " ".join(text.split())


def _one_series(chunk: Chunk, other: Chunk) -> bool:
    return chunk.series is not None and chunk.series == other.series


def _same(chunk: Chunk, own: _Print, other_chunk: Chunk, other: _Print) -> bool:
    if _one_series(chunk, other_chunk):
        return False  # states of one series differ in a word or two, and that word is the answer
    if not own.plain:
        return False  # two documents without a text have nothing in common
    if own.plain == other.plain:
        return True
    if chunk.heading_path != other_chunk.heading_path:
        return False  # nearly the same under another heading is said of something else
    shorter, longer = sorted((len(own.words), len(other.words)))
    if longer <= 8 or shorter < NEAR_DUPLICATE * longer:
        return False
    return len(own.words & other.words) >= NEAR_DUPLICATE * len(own.words | other.words)


def _join(ordered: Sequence[Candidate]) -> list[Candidate]:
    """Neighbouring passages of one section, or of sections side by side, that both match become one result, at the
    better one's place."""
    groups: list[Candidate] = []
    of_file: dict[str, list[int]] = {}
    for candidate in ordered:
        groups_of_file = of_file.setdefault(candidate.chunk.source, [])
        host = next((i for i in groups_of_file if _neighbours(groups[i], candidate)), None)
        if host is None:
            groups_of_file.append(len(groups))
            groups.append(candidate)
        else:
            run = sorted((*groups[host].joined, candidate.chunk), key=lambda chunk: chunk.index)
            groups[host] = replace(groups[host].with_places_of(candidate), joined=tuple(run))
    return groups


def _neighbours(group: Candidate, candidate: Candidate) -> bool:
    chunk, host = candidate.chunk, group.chunk
    return (
        chunk.index in (group.joined[0].index - 1, group.joined[-1].index + 1)
        and len(group.joined) < MAX_JOINED
        and chunk.heading_path[:-1] == host.heading_path[:-1]
        and chunk.valid_on == host.valid_on
        and candidate.level is not Level.LOW
        and group.level is not Level.LOW
    )


def _spread(ordered: Sequence[Candidate]) -> list[Candidate]:
    """Each further passage of a file beyond ``PER_FILE`` counts a little less, so that another file of about the same
    relevance comes before it, and a weaker one does not."""
    taken: dict[str, int] = {}
    weighed: list[tuple[float, int]] = []
    for place, candidate in enumerate(ordered):
        count = taken.get(candidate.chunk.source, 0)
        taken[candidate.chunk.source] = count + 1
        weighed.append((-candidate.rank_score * CROWDING ** max(0, count + 1 - PER_FILE), place))
    return [ordered[place] for _, place in sorted(weighed)]


def cut_text(text: str, limit: int) -> str:
    """The beginning of ``text``, at most ``limit`` characters, ending at a line, a sentence or a word."""
    return text if len(text) <= limit else text[: cut_at(text, limit)].rstrip()


def cut_at(text: str, limit: int) -> int:
    """How many characters ``cut_text`` takes, the line end or blank it cuts at included: there the text goes on."""
    if len(text) <= limit:
        return len(text)
    for pattern in (r"\n", r"(?<=[.!?。！？])\s", r"\s"):
        ends = [match.end() for match in re.finditer(pattern, text[:limit])]
        if ends and ends[-1] > limit // 2:
            return ends[-1]
    return limit
