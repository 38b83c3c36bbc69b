"""Asking the class indexes that access control has picked."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TypeVar

from rag_mcp.models import Chunk, SourceClass
from rag_mcp.stores.base import EVERYTHING, KeywordEvidence, KeywordHit, PassageFilter
from rag_mcp.stores.embedded.files import is_writable
from rag_mcp.stores.embedded.keywords.folder import check_format
from rag_mcp.stores.embedded.keywords.index import ClassIndex
from rag_mcp.stores.embedded.keywords.matching import best, evidence_of, meeting
from rag_mcp.stores.embedded.keywords.stemmer import Stemmer
from rag_mcp.stores.embedded.keywords.translate import damaged, translated
from rag_mcp.stores.embedded.private_copy import private_copy
from rag_mcp.stores.planned import PlannedReader
from rag_mcp.text.question import Plan, Planner

__all__ = ["TantivyReader"]

_Answer = TypeVar("_Answer")


class TantivyReader(PlannedReader):
    """Answers from the class indexes as they were when first asked; any number of threads may share it.

    A folder that can't be written is copied to ``scratch`` first: Tantivy takes a lock file to open an index.
    Classes known to be ``broken`` are never opened; asking them raises StoreDamaged.
    """

    def __init__(
        self, folder: Path, *, scratch: Path | None = None, broken: Collection[SourceClass] = frozenset()
    ) -> None:
        super().__init__()
        self._broken = frozenset(broken)
        check_format(folder)
        self._copy = private_copy(folder, scratch) if folder.is_dir() and not is_writable(folder) else None
        self._folder = self._copy.path if self._copy is not None else folder
        self._stem = Stemmer()
        self._lock = Lock()
        self._indexes: dict[SourceClass, ClassIndex | None] = {}

    def search(
        self, text: str, classes: Collection[SourceClass], limit: int, *, filters: PassageFilter = EVERYTHING
    ) -> list[KeywordHit]:
        if limit < 1:
            return []
        plan = self._plan(text, classes)
        ranked = self._ask(classes, lambda index: best(plan, index, limit, filters))
        hits = sorted((-score, key) for hits in ranked for key, score in hits)
        return [KeywordHit(key, -score) for score, key in hits[:limit]]

    def evidence(
        self,
        text: str,
        classes: Collection[SourceClass],
        ids: Collection[str],
        *,
        known: Mapping[str, float] = MappingProxyType({}),
    ) -> dict[str, KeywordEvidence]:
        plan = self._plan(text, classes)
        return dict(ChainMap(*self._ask(classes, lambda index: evidence_of(plan, index, ids, known))))

    def holding(
        self,
        text: str,
        label: str,
        classes: Collection[SourceClass],
        limit: int,
        *,
        filters: PassageFilter = EVERYTHING,
    ) -> set[str]:
        (unit,) = (unit for unit in self._plan(text, classes).units if unit.label == label)
        return set().union(*self._ask(classes, lambda index: meeting(unit, index, limit, filters)))

    def matching_ids(self, classes: Collection[SourceClass], filters: PassageFilter, limit: int) -> set[str] | None:
        ids: set[str] = set()
        for some in self._ask(classes, lambda index: index.matching(filters, limit)):
            ids |= some or set()
            if some is None or len(ids) > limit:
                return None
        return ids

    def size(self, classes: Collection[SourceClass]) -> int:
        return sum(index.live for index in self._asked(classes))

    def fetch(self, classes: Collection[SourceClass], ids: Collection[str]) -> dict[str, Chunk]:
        return dict(ChainMap(*self._ask(classes if ids else (), lambda index: index.chunks(ids))))

    def ids(self, source_class: SourceClass) -> set[str]:
        return set().union(*self._ask([source_class], ClassIndex.ids))

    def close(self) -> None:
        """Let go of the snapshots; searches still running keep theirs until they end."""
        with self._lock:
            self._indexes.clear()
        super().close()
        if self._copy is not None:
            self._copy.close()

    def _make_plan(self, text: str, classes: Collection[SourceClass]) -> Plan:
        with translated(self._folder):
            return Planner(self._asked(classes), self._stem).plan(text)

    def _ask(self, classes: Collection[SourceClass], question: Callable[[ClassIndex], _Answer]) -> Iterator[_Answer]:
        for index in self._asked(classes):
            with translated(index.folder):
                answer = question(index)
            yield answer

    def _asked(self, classes: Collection[SourceClass]) -> list[ClassIndex]:
        """The indexes of these classes, in a fixed order; a class without chunks has none."""
        opened = [self._class(source_class) for source_class in sorted(set(classes))]
        return [index for index in opened if index is not None and index.live]

    def _class(self, source_class: SourceClass) -> ClassIndex | None:
        with self._lock:
            if source_class in self._broken:
                raise damaged(self._folder / source_class, ValueError("its files have changed on disk"))
            if source_class not in self._indexes:
                folder = self._folder / source_class
                with translated(folder):
                    self._indexes[source_class] = ClassIndex(folder) if folder.is_dir() else None
            return self._indexes[source_class]
