"""Which documents of a generation have a tag, a property, a date, a place? Counted up once, asked by every filter. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from datetime import date
from itertools import accumulate
from operator import itemgetter

from rag_mcp.stores.manifest import FileEntry
from rag_mcp.text.globs import GlobSet, composed
from rag_mcp.text.properties import DocumentFilter, comparable, days_in, own_date, tags_of, written_tag

__all__ = ["Facets", "facets_of"]

_Paths = Mapping[str, Set[str]]


@dataclass(frozen=True, slots=True)
class Facets:
    """Paths of all documents, shown or not, by what a filter can ask: ``tags`` with what they are nested in, ``folders``
    with every path itself, ``keys`` of properties, ``values`` of each key. ``days`` are (ISO day, path), rising."""

    paths: frozenset[str]
    tags: _Paths
    folders: _Paths
    keys: _Paths
    values: Mapping[str, Mapping[str | float, Set[str]]]
    days: tuple[tuple[str, str], ...]

    def select(self, wanted: DocumentFilter) -> frozenset[str]:
        """The paths that pass ``wanted``. The smallest set goes first, so that the others cost no more than it has."""
        sets = sorted(self._parts(wanted), key=len)
        return frozenset(sets[0]).intersection(*sets[1:]) if sets else self.paths

    def keys_of(self, shown: Set[str]) -> list[str]:
        """The keys that documents among ``shown`` have, in order."""
        return sorted(key for key in self.keys if self.has_key(key, shown))

    def has_key(self, key: str, shown: Set[str]) -> bool:
        return not shown.isdisjoint(self.keys.get(key, ()))

    def _parts(self, wanted: DocumentFilter) -> Iterator[Set[str]]:
        for tag in wanted.tags:
            yield self.tags.get(written_tag(tag), frozenset())
        if wanted.path is not None:
            yield self._inside(wanted.path)
        if wanted.since is not None or wanted.until is not None:
            yield self._between(wanted.since or date.min, wanted.until or date.max)
        for key, values in wanted.where:
            held = self.values.get(key.lower(), {})
            for value in values:
                yield held.get(comparable(value), frozenset())

    def _inside(self, place: str) -> Set[str]:
        if "*" not in place and "?" not in place:
            return self.folders.get(composed(place.strip("/")), frozenset())
        return set(filter(GlobSet([place]).matches, self.paths))

    def _between(self, since: date, until: date) -> Set[str]:
        day = itemgetter(0)
        first = bisect_left(self.days, since.isoformat(), key=day)
        behind = bisect_right(self.days, until.isoformat(), key=day)
        return {path for _, path in self.days[first:behind]}


def facets_of(files: Mapping[str, FileEntry]) -> Facets:
    tags: defaultdict[str, set[str]] = defaultdict(set)
    folders: defaultdict[str, set[str]] = defaultdict(set)
    values: defaultdict[str, defaultdict[str | float, set[str]]] = defaultdict(lambda: defaultdict(set))
    dated = ((own_date(path, entry.properties, entry.file_day).day, path) for path, entry in files.items())
    for path, entry in files.items():
        for folder in _levels(composed(path)):
            folders[folder].add(path)
        for level in {level for tag in tags_of(entry.properties) for level in _levels(tag)}:
            tags[level].add(path)
        for key, held in entry.properties.items():
            for value in {*map(comparable, held), *days_in(held)}:
                values[key][value].add(path)
    return Facets(
        paths=frozenset(files),
        tags=tags,
        folders=folders,
        keys={key: frozenset().union(*held.values()) for key, held in values.items()},
        values=values,
        days=tuple(sorted((day, path) for day, path in dated if day is not None)),
    )


def _levels(path: str) -> Iterator[str]:
    """``a``, ``a/b`` and ``a/b/c`` of a/b/c."""
    return accumulate(path.split("/"), "{}/{}".format)
