"""One generation, as whoever is logged in may see it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from rag_mcp.errors import StoreDamaged
from rag_mcp.models import Chunk, SourceClass
from rag_mcp.stores.base import KeywordReader, VectorReader
from rag_mcp.stores.manifest import Manifest
from rag_mcp.stores.postgres.connect import Database
from rag_mcp.stores.postgres.files import load_entry
from rag_mcp.stores.postgres.inverted import Lists
from rag_mcp.stores.postgres.keywords import PostgresKeywords
from rag_mcp.stores.postgres.rows import PassageRows
from rag_mcp.stores.postgres.state import StateInfo, class_states, info_of
from rag_mcp.stores.postgres.vectors import PostgresVectors

__all__ = ["PostgresSnapshot"]


class PostgresSnapshot:
    """Its rows stay as long as the generation is kept: a ``lease`` tells whether it is, and sees it whole to its end."""

    def __init__(self, database: Database, number: int, *, whole: bool = False) -> None:
        """``whole`` for the writer, who may see everything."""
        self._database = database
        self._whole = whole
        self.info: StateInfo = info_of(database, number)

    @property
    def number(self) -> int:
        return self.info.number

    @contextmanager
    def lease(self) -> Iterator[None]:
        """Raises StoreDamaged when the generation has been collected."""
        with self._database.reading():
            if not self._database.rows("select 1 from generation where number = %s", (self.number,)):
                raise StoreDamaged(f"Generation {self.number} is no longer there.")
            yield

    def manifest(self) -> Manifest:
        """What was left out for its content is told to the writer alone."""
        return self._manifest

    @cached_property
    def _manifest(self) -> Manifest:
        number, build = self.number, self.info.build
        query = (
            "select path, entry from file where build = %s and added <= %s and (removed is null or removed > %s)"
            " order by class, key"
        )
        rows = self._database.rows(query, (build, number, number))
        entries = {json.loads(path): load_entry(entry) for path, entry in rows}
        rejected: dict[str, list[str]] = {}
        if self._whole:
            for (files,) in self._database.rows("select files from rejected where generation = %s", (number,)):
                rejected = json.loads(files)
        return Manifest(
            identity=self.info.identity,
            derivation=self.info.derivation,
            files={path: entry for path, (entry, _) in entries.items()},
            rejected={path: (row[0], row[1]) for path, row in rejected.items()},
            notices={path: notices for path, (_, notices) in entries.items() if notices},
        )

    @property
    def file_count(self) -> int:
        return len(self.manifest().files)

    def resized(self) -> list[str]:
        """A database knows itself when something is missing."""
        return []

    def records(self, source_class: SourceClass, ids: Collection[str]) -> dict[str, Chunk]:
        return PassageRows(self._database, self.number, self.info.build).chunks([source_class], ids)

    def open_keywords(
        self, *, needed: Collection[SourceClass], partial: bool = False, scratch: Path | None = None
    ) -> KeywordReader:
        """What a database holds it vouches for itself: nothing is examined here."""
        rows = PassageRows(self._database, self.number, self.info.build)
        return PostgresKeywords(rows, Lists(self._database), class_states(self._database, self.number))

    def open_vectors(self, *, needed: Collection[SourceClass], scratch: Path | None = None) -> VectorReader:
        dimension = int(str(self.info.identity["dimension"]))
        return PostgresVectors(self._database, self.number, self.info.build, dimension)

    def close(self) -> None:
        """Nothing is held between questions."""
