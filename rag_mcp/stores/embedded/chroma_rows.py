"""The rows of a Chroma folder, read through the native half of chromadb alone.

What the package itself loads beside that (clients, telemetry, embedding functions, validation) takes a second and sixty
megabytes, and a reader uses none of it. These calls are chromadb's own and promised to nobody, so ``pyproject.toml``
holds it to one minor version.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rag_mcp.embedders.base import Vectors

__all__ = ["ChromaRows"]

# Tenant and database that a folder has when none were named.
_PLACE = ("default_tenant", "default_database")
# Far more than there are classes: what is kept is spread over parts, and a small part lets go of the one index it has.
_KEPT_INDEXES = 4_096


class ChromaRows:
    """An open folder; collections go by their names. Raises whatever the native code does."""

    def __init__(self, folder: Path) -> None:
        import chromadb_rust_bindings as native

        database = native.SqliteDBConfig(
            hash_type=native.MigrationHash.MD5,
            migration_mode=native.MigrationMode.Apply,
            url=str(folder / "chroma.sqlite3"),
        )
        self._open: Any = native.Bindings(
            allow_reset=False, sqlite_db_config=database, persist_path=str(folder), hnsw_cache_size=_KEPT_INDEXES
        )
        self.collections = {each.name: str(each.id) for each in self._open.list_collections(None, None, *_PLACE)}

    def count(self, name: str) -> int:
        return int(self._open.count(self.collections[name], *_PLACE))

    def ids(self, name: str) -> list[str]:
        return list(self._get(name, None, []).ids)

    def vectors(self, name: str, ids: Sequence[str]) -> tuple[list[str], Sequence[Sequence[float]]]:
        """The ids that exist, and their vectors."""
        found = self._get(name, list(ids), ["embeddings"])
        return list(found.ids), found.embeddings

    def nearest(self, name: str, vector: Vectors, limit: int) -> list[tuple[str, float]]:
        """Ids and cosine distances."""
        asked = (self.collections[name], None, [vector.tolist()], limit, None, None, ["distances"])
        found = self._open.query(*asked, *_PLACE)
        return list(zip(found.ids[0], found.distances[0], strict=True))

    def close(self) -> None:
        """Let go of it; calls still running keep it until they end."""
        self._open = None

    def _get(self, name: str, ids: list[str] | None, include: Collection[str]) -> Any:
        return self._open.get(self.collections[name], ids, None, None, 0, None, list(include), *_PLACE)
