"""How do the answers of several corpora become one? Sources get the corpus's name before their path. Pure.

What is merged are answers, each of them already cut to what may be seen, so nothing hidden in one corpus can show in how
it stands beside another. Scores are probabilities of one scale: the order within a corpus stays, and between two of them
the more probable passage comes first.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from rag_mcp.answers import (
    Citation,
    CorporaInventory,
    CorpusInventory,
    Coverage,
    Document,
    Near,
    Result,
    SearchResponse,
    SourceInventory,
    Status,
)
from rag_mcp.models import About, Reason, Skipped, SourceClass
from rag_mcp.requests import SearchRequest
from rag_mcp.search.budget import fit_text
from rag_mcp.search.present import MAX_NEAREST, advice

__all__ = ["addressed", "inside", "merged_inventory", "merged_search", "merged_status", "named_document", "told"]

_T = TypeVar("_T")

# What a refusal is put down to where corpora have different reasons, the first of these.
_REASONS = (Reason.STRICT_BLOCKED_LOW, Reason.PLANE_FAILED, Reason.NO_RESULTS, Reason.ACL_DENIED)


def inside(name: str, source: str) -> str:
    """A source of the corpus ``name``, as callers see it."""
    return f"{name}/{source}"


def addressed(place: str | None, names: Sequence[str]) -> dict[str, str | None]:
    """In which corpora a path, folder or glob may lie, and what it is there: one that begins with a name is in that
    corpus; None is all of it."""
    first, _, rest = (place or "").lstrip("/").partition("/")
    return {first: rest or None} if first in names else dict.fromkeys(names, place)


def told(problems: Mapping[str, str]) -> str | None:
    """What is said of corpora that could not be asked."""
    return "; ".join(f"corpus {name}: {problem}" for name, problem in problems.items()) or None


# --- search ----------------------------------------------------------------------------------------------------------


def merged_search(
    request: SearchRequest, answers: Mapping[str, SearchResponse], problems: Mapping[str, str]
) -> SearchResponse:
    """One answer from at least one; ``problems`` are those of the corpora that gave none."""
    every = list(answers.values())
    ranked = heapq.merge(
        *(_named(name, each.results) for name, each in answers.items()), key=lambda result: -result.score
    )
    results = tuple(_fitted(list(ranked)[: request.k], request.max_chars))
    reason = None if results else next(each for each in _REASONS if each in [answer.reason for answer in every])
    degraded = {name: each.degraded_reason or "degraded" for name, each in answers.items() if each.degraded}
    problem = told({**problems, **degraded})
    lone = every[0] if len(every) == 1 else None
    return replace(
        every[0],
        status="OK" if results else "NO_RELEVANT_CONTEXT",
        reason=reason,
        degraded=problem is not None,
        degraded_reason=problem,
        coverage=_coverage([each.coverage for each in every]),
        generation=lone.generation if lone else None,
        indexed_at=_oldest(each.indexed_at for each in every),
        without_text=sum(result.text is None for result in results),
        not_in_documents=_in_all([each.not_in_documents for each in every]),
        **_refusal(answers) if reason is Reason.STRICT_BLOCKED_LOW else {"withheld": 0, "nearest": (), "advice": None},
        results=results,
    )


def _named(name: str, results: Iterable[Result]) -> Iterator[Result]:
    for result in results:
        places = tuple(_cited(name, place) for place in result.also_in)
        yield replace(result, citation=_cited(name, result.citation), also_in=places)


def _cited(name: str, citation: Citation) -> Citation:
    return replace(citation, source=inside(name, citation.source))


def _fitted(results: Sequence[Result], budget: int) -> Iterator[Result]:
    """Each corpus had the whole budget: what they show together has to fit into it."""
    for place, result in enumerate(results):
        text = fit_text(result.text or "", budget, first=place == 0, found_at=result.found_at)
        budget -= len(text.shown or "")
        if result.text is None or text.shown is None:
            yield replace(result, text=None)
        else:
            warnings = tuple(dict.fromkeys((*result.warnings, *text.warnings)))
            yield replace(result, text=text.shown, truncated=result.truncated or text.truncated, warnings=warnings)


def _coverage(parts: Sequence[Coverage]) -> Coverage:
    queried = {each for part in parts for each in part.queried}
    return Coverage(
        queried=tuple(sorted(queried)),
        skipped_by_acl=_in_all([part.skipped_by_acl for part in parts]),
        failed=tuple(sorted({each for part in parts for each in part.failed})),
    )


def _refusal(answers: Mapping[str, SearchResponse]) -> dict[str, Any]:
    places = [
        replace(near, source=inside(name, near.source)) for name, each in answers.items() for near in each.nearest
    ]
    nearest: list[Near] = sorted(places, key=lambda near: -near.score)[:MAX_NEAREST]
    withheld = sum(each.withheld for each in answers.values())
    return {"withheld": withheld, "nearest": tuple(nearest), "advice": advice(nearest)}


def _in_all(parts: Sequence[Sequence[_T]]) -> tuple[_T, ...]:
    return tuple(each for each in parts[0] if all(each in other for other in parts[1:]))


def _oldest(times: Iterable[str | None]) -> str | None:
    return min((each for each in times if each is not None), default=None)


# --- documents and the index -----------------------------------------------------------------------------------------


def named_document(name: str, document: Document) -> Document:
    links = tuple(replace(link, source=link.source and inside(name, link.source)) for link in document.links)
    backlinks = tuple(inside(name, source) for source in document.backlinks)
    return replace(document, source=inside(name, document.source), links=links, backlinks=backlinks)


def merged_inventory(
    found: Mapping[str, SourceInventory], problems: Mapping[str, str], about: Collection[About]
) -> CorporaInventory:
    """At least one was found; those that could not be asked are named with their problem."""
    every = list(found.values())
    descriptions = {each.name: each.description for each in about}
    corpora = (
        CorpusInventory(
            name,
            each.description,
            sum(counts["files"] for counts in each.classes.values()),
            each.generation,
            each.indexed_at,
        )
        for name, each in found.items()
    )
    absent = (CorpusInventory(name, descriptions.get(name, ""), problem=each) for name, each in problems.items())
    return CorporaInventory(
        profile=", ".join(dict.fromkeys(each.profile for each in every)),
        classes=_sums([each.classes for each in every]),
        explicit_only=tuple(sorted({kind for each in every for kind in each.explicit_only})),
        projects=tuple(sorted({project for each in every for project in each.projects})),
        generation=every[0].generation if len(every) == 1 else None,
        indexed_at=_oldest(each.indexed_at for each in every),
        corpora=(*corpora, *absent),
    )


_Kind = TypeVar("_Kind", str, SourceClass)


def _sums(parts: Sequence[Mapping[_Kind, Mapping[str, int]]]) -> dict[_Kind, dict[str, int]]:
    sums: dict[_Kind, dict[str, int]] = {}
    for part in parts:
        for kind, counts in part.items():
            total = sums.setdefault(kind, {})
            for what, count in counts.items():
                total[what] = total.get(what, 0) + count
    return dict(sorted(sums.items()))


def merged_status(found: Mapping[str, Status], problems: Mapping[str, str]) -> Status:
    """At least one was found. ``integrity`` tells of each corpus by its name."""
    every = list(found.values())
    reasons = {name: each.degraded_reason for name, each in found.items() if each.degraded_reason}
    integrity: dict[str, object] = {
        name: {"generation": each.generation, "indexed_at": each.indexed_at, **each.integrity}
        for name, each in found.items()
    }
    skipped = (Skipped(inside(name, item.source), item.reason) for name, each in found.items() for item in each.skipped)
    notices = (replace(item, source=inside(name, item.source)) for name, each in found.items() for item in each.notices)
    return replace(
        every[0],
        ok=not problems and all(each.ok for each in every),
        profile=", ".join(dict.fromkeys(each.profile for each in every)),
        generation=every[0].generation if len(every) == 1 else None,
        indexed_at=_oldest(each.indexed_at for each in every),
        embedder=", ".join(dict.fromkeys(each.embedder for each in every)),
        vector_ready=all(each.vector_ready for each in every),
        degraded_reason=told({**problems, **reasons}),
        inventory=_sums([each.inventory for each in every]),
        integrity=integrity,
        skipped=tuple(skipped),
        notices=tuple(notices),
        notes=tuple(f"{name}: {note}" for name, each in found.items() for note in each.notes),
    )
