"""A keyword index that plans a question once: every part of one answer asks it by the same plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Collection
from threading import Lock

from rag_mcp.models import SourceClass
from rag_mcp.stores.base import Subject
from rag_mcp.text.question import Plan

__all__ = ["PlannedReader"]

_KEPT_PLANS = 32


class PlannedReader(ABC):
    """What of a KeywordReader follows from the plan alone. Any number of threads may share it."""

    def __init__(self) -> None:
        self._plans: OrderedDict[tuple[str, tuple[SourceClass, ...]], Plan] = OrderedDict()
        self._plans_lock = Lock()

    @abstractmethod
    def _make_plan(self, text: str, classes: Collection[SourceClass]) -> Plan: ...

    def bm25_bound(self, text: str, classes: Collection[SourceClass]) -> float:
        return self._plan(text, classes).bound

    def subject(self, text: str, classes: Collection[SourceClass]) -> Subject:
        plan = self._plan(text, classes)
        return Subject(plan.content, {unit.label: unit.fixed for unit in plan.units if unit.fixed})

    def close(self) -> None:
        with self._plans_lock:
            self._plans.clear()

    def _plan(self, text: str, classes: Collection[SourceClass]) -> Plan:
        key = (text, tuple(sorted(set(classes))))
        with self._plans_lock:
            if key in self._plans:
                self._plans.move_to_end(key)
                return self._plans[key]
        plan = self._make_plan(text, classes)
        with self._plans_lock:
            self._plans[key] = plan
            while len(self._plans) > _KEPT_PLANS:
                self._plans.popitem(last=False)
        return plan
