"""Dated snapshot series: which files form one, and which passage of which day stands for its unchanged repeats. Pure.

A series is three or more files of one folder, one stem and one source class whose names end in ``-YYYY-MM-DD``. Within
it, a passage that repeats the directly preceding snapshot, but for their own dates in headings, is not stored again;
the first of the unbroken run owns it and lists the later dates. A value that changes and comes back is a new fact and
gets an owner of its own. The source class is part of the key, so a passage never stands for one that other people may
see.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from rag_mcp.models import SourceClass

__all__ = [
    "MIN_MEMBERS",
    "PassageKey",
    "Place",
    "SeriesDay",
    "SeriesPlan",
    "collapse",
    "group_series",
    "members_to_read",
    "series_of",
    "state_on",
]

MIN_MEMBERS = 3

Place = tuple[str, int]
"""A passage: path of its file and position among the file's passages, from 0."""

_DATED_NAME = re.compile(
    r"(?P<stem>.+)-(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})\.(?:md|markdown)", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class PassageKey:
    """What must be equal for a passage to be the same as the day before."""

    heading_path: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class SeriesDay:
    """One snapshot: ``date`` is ISO, ``passages`` are in file order, or None where the file was not read. Then
    ``carried``, the ids its passages had before, tells which of them are those of the day before."""

    path: str
    date: str
    passages: tuple[PassageKey, ...] | None
    carried: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SeriesPlan:
    """``owners`` maps every passage to the one stored for it (itself, if it is new on its day); ``valid_on`` maps every
    owner to the dates it holds on, its own first, then rising.
    """

    owners: dict[Place, Place]
    valid_on: dict[Place, tuple[str, ...]]


def series_of(path: str) -> tuple[str, str] | None:
    """Return ``(folder and stem, ISO date)`` of a dated markdown name, else None.

    The date must exist (2031-13-45 is none), and a name that is nothing but a date, such as a daily note, is no
    series: its files share no subject. Folder and stem compare exactly but for Unicode normalisation.
    """
    folder, slash, name = path.rpartition("/")
    found = _DATED_NAME.fullmatch(name)
    if found is None:
        return None
    try:
        day = date.fromisoformat(found["date"])
    except ValueError:
        return None
    return unicodedata.normalize("NFC", f"{folder}{slash}{found['stem']}"), day.isoformat()


def group_series(members: Iterable[tuple[str, SourceClass]]) -> dict[str, list[str]]:
    """Return the paths of every series in date order, by a key that names source class, folder and stem.

    A day has one snapshot. Of several files with one series and date (``.md`` beside ``.markdown``, two Unicode
    spellings) the one named ``.md``, then the first by path, is the member; the others stand alone.
    """
    days: dict[str, dict[str, str]] = {}
    for path, source_class in members:
        found = series_of(path)
        if found is None:
            continue
        stem, day = found
        of_series = days.setdefault(f"{source_class.value}:{stem}", {})
        of_series[day] = min(of_series.get(day, path), path, key=_preference)
    return {
        key: [by_day[day] for day in sorted(by_day)]
        for key, by_day in sorted(days.items())
        if len(by_day) >= MIN_MEMBERS
    }


def members_to_read(members: Sequence[str], before: Sequence[str], changed: Container[str]) -> set[str]:
    """Which members of a series must be looked into: each that is ``changed`` or stands behind another day than
    ``before``, and the day it stands behind. Of all others it is known what they repeat.
    """
    stood_behind = dict(zip(before, [None, *before], strict=False))
    wanted: set[str] = set()
    previous: str | None = None
    for path in members:
        if path in changed or previous in changed or stood_behind.get(path, path) != previous:
            wanted |= {path} if previous is None else {path, previous}
        previous = path
    return wanted


def _preference(path: str) -> tuple[bool, str]:
    return not path.endswith(".md"), path


def collapse(days: Iterable[SeriesDay], *, dedupe: bool = True) -> SeriesPlan:
    """Plan which passages of one series are stored; the order of ``days`` does not matter.

    Consecutive means consecutive members: a missing calendar day does not break a run, and a deleted file is simply
    not there, so its text lives on under the next date that has it. Equal passages within one file are told apart by
    occurrence. Without ``dedupe`` every passage owns itself, valid on its own date. Raises ValueError when a path
    comes twice.
    """
    owners: dict[Place, Place] = {}
    dates: dict[Place, list[str]] = {}
    before: dict[object, Place] = {}
    paths: set[str] = set()
    for day in sorted(days, key=lambda each: (each.date, each.path)):
        if day.path in paths:
            raise ValueError(f"{day.path} is given twice")
        paths.add(day.path)
        today: dict[object, Place] = {}
        for position, names in enumerate(_names(day)):
            place = (day.path, position)
            owner = next((before[name] for name in names if name in before), place)
            owners[place] = owner
            today.update(dict.fromkeys(names, owner))
            known = dates.setdefault(owner, [])
            if day.date not in known[-1:]:
                known.append(day.date)
        before = today if dedupe else {}
    return SeriesPlan(owners, {owner: tuple(held) for owner, held in dates.items()})


def _names(day: SeriesDay) -> Iterator[tuple[object, ...]]:
    """What each passage is known by, to be found again in the next day: its words where they were read, its id where it
    had one. A day whose neighbour before it is another one than it was needs the words of both."""
    if day.passages is None:
        yield from ((id_,) for id_ in day.carried)
    elif day.carried:
        yield from zip(_occurrences(day.passages), day.carried, strict=True)
    else:
        yield from ((occurrence,) for occurrence in _occurrences(day.passages))


def _occurrences(passages: Sequence[PassageKey]) -> Iterable[tuple[PassageKey, int]]:
    seen: Counter[PassageKey] = Counter()
    for key in passages:
        yield key, seen[key]
        seen[key] += 1


def state_on(dates: Iterable[str], day: date) -> str | None:
    """Return the latest of the ISO ``dates`` that is not after ``day``: the snapshot that was current then."""
    limit = day.isoformat()
    return max((each for each in dates if each <= limit), default=None)
