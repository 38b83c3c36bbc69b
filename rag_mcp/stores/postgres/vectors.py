"""Nearest neighbours by pgvector: one HNSW index for each class and build."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from rag_mcp.models import SourceClass
from rag_mcp.stores.base import VectorHit
from rag_mcp.stores.postgres.connect import Database

if TYPE_CHECKING:
    from rag_mcp.embedders.base import Vectors

__all__ = ["PostgresVectors", "index_of"]

# As for Chroma: among many passages that are nearly the same, few neighbours leave some out of reach.
_HNSW = "m = 24, ef_construction = 128"


def index_of(source_class: SourceClass, build: int, dimension: int) -> str:
    """The statement that makes the index of a class in this build."""
    name = source_class.value
    return (
        f"create index if not exists embedding_{name}_{build} on embedding_{name}"
        f" using hnsw ((v::halfvec({dimension})) halfvec_ip_ops) with ({_HNSW}) where build = {build}"
    )


class PostgresVectors:
    """The vectors of one generation. They are of unit length, so the inner product is the cosine."""

    def __init__(self, database: Database, number: int, build: int, dimension: int) -> None:
        self._database = database
        self._live = f"build = {build} and added <= {number} and (removed is null or removed > {number})"
        self._nearest = f"v::halfvec({dimension}) <#> %(v)s::halfvec({dimension})"

    def query(self, source_class: SourceClass, vector: Vectors, limit: int) -> list[VectorHit]:
        query = (
            f"select id, -(v <#> %(v)s::vector) from embedding where class = '{source_class.value}' and {self._live}"
            f" order by {self._nearest} limit {limit}"
        )
        hits = [VectorHit(i, cosine) for i, cosine in self._database.rows(query, {"v": _text(vector)})]
        return sorted(hits, key=lambda hit: (-hit.cosine, hit.id))

    def similarities(self, source_class: SourceClass, vector: Vectors, ids: Collection[str]) -> dict[str, float]:
        query = (
            f"select id, -(v <#> %(v)s::vector) from embedding where class = '{source_class.value}'"
            f" and id = any(%(ids)s) and {self._live}"
        )
        return dict(self._database.rows(query, {"v": _text(vector), "ids": sorted(ids)}))

    def close(self) -> None:
        """The connections are the store's."""


def _text(vector: Vectors) -> str:
    return "[" + ",".join(map(repr, vector.tolist())) + "]"
