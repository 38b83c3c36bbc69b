"""What a generation says of itself and of each class: all that a reader has to know before its first question."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rag_mcp.errors import StoreDamaged
from rag_mcp.models import SourceClass
from rag_mcp.stores.postgres.connect import Database
from rag_mcp.stores.postgres.lists import Array

__all__ = ["State", "StateInfo", "class_states", "info_of"]


@dataclass(frozen=True, slots=True)
class StateInfo:
    """A generation's own row; ``counts`` are of the classes whoever is logged in may see."""

    number: int
    parent: int | None
    build: int
    created_at: str
    identity: Mapping[str, object]
    derivation: Mapping[str, object]
    counts: Mapping[str, int]
    notes: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class State:
    """A class: its live passages, their languages, how long they are on average, the segments with their lists, and the
    numbers (ascending) of those in them that are gone. ``numbers`` is one more than the greatest."""

    source_class: SourceClass
    build: int
    docs: int
    numbers: int
    body_average: float
    lead_average: float
    languages: Mapping[str, int]
    segments: tuple[int, ...]
    gone: Array


_GENERATION = "select number, parent, build, created_at, identity, derivation, notes from generation where number = %s"


def info_of(database: Database, number: int) -> StateInfo:
    """Raises StoreDamaged when there is no such generation (any more)."""
    with database.reading():
        rows = database.rows(_GENERATION, (number,))
        counts = database.rows("select class, docs from plane where generation = %s order by class", (number,))
        openings = database.rows(
            "select path, class, opening from file f join generation g on g.number = %s where opening <> ''"
            " and f.build = g.build and f.added <= g.number and (f.removed is null or f.removed > g.number)",
            (number,),
        )
    if not rows:
        raise StoreDamaged(f"Generation {number} is no longer there.")
    found, parent, build, created_at, identity, derivation, notes = rows[0]
    told = {**json.loads(notes), "openings": {json.loads(path): (kind, text) for path, kind, text in openings}}
    return StateInfo(found, parent, build, created_at, json.loads(identity), json.loads(derivation), dict(counts), told)


def class_states(database: Database, number: int) -> dict[SourceClass, State]:
    """Of the classes that hold anything and may be seen."""
    with database.reading():
        planes = database.rows(
            "select class, build, docs, numbers, body_terms, lead_terms, languages from plane"
            " join generation on number = generation where generation = %s and docs > 0",
            (number,),
        )
        segments = database.rows(
            "select class, seg from segment s join generation g on g.number = %s"
            " where s.build = g.build and s.added <= %s and (s.removed is null or s.removed > %s) order by class, seg",
            (number, number, number),
        )
        gone = database.rows(
            "select class, no from gone where build = (select build from generation where number = %s) and since <= %s"
            " order by class, no",
            (number, number),
        )
    return {
        SourceClass(name): State(
            source_class=SourceClass(name),
            build=build,
            docs=docs,
            numbers=numbers,
            body_average=body / docs,
            lead_average=lead / docs,
            languages=json.loads(languages),
            segments=tuple(seg for own, seg in segments if own == name),
            gone=np.array([no for own, no in gone if own == name], dtype=np.int64),
        )
        for name, build, docs, numbers, body, lead, languages in planes
    }
