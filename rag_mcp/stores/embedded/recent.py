"""Vectors that came and went since a class's HNSW file was written, beside it in a small file of their own.

Copied, loaded, saved and digested, the HNSW file costs seconds and its whole size in memory, however little changed. So
a generation shares it with the one before, and what is recent is looked through row by row. Once that is much, it is
folded in.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rag_mcp.errors import StoreDamaged
from rag_mcp.models import SourceClass
from rag_mcp.stores.base import VectorHit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rag_mcp.embedders.base import Vectors

__all__ = ["RECENT_ROWS", "Recent", "class_of_recent", "read_recent", "rounded", "write_recent"]

# Looking through as many takes a fraction of one HNSW search.
RECENT_ROWS = 1_024
_PREFIX, _SUFFIX = "recent-", ".npz"


@dataclass(frozen=True, slots=True)
class Recent:
    """``rows`` are the unit vectors of ``ids``, None for none; ``gone`` are ids of the HNSW file that do not count."""

    ids: tuple[str, ...] = ()
    rows: Vectors | None = None
    gone: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.ids) + len(self.gone)

    def without(self, deleted: Collection[str]) -> Recent:
        kept = [position for position, id_ in enumerate(self.ids) if id_ not in deleted]
        rows = self.rows[kept] if self.rows is not None and kept else None
        return Recent(tuple(self.ids[n] for n in kept), rows, self.gone.union(set(deleted).difference(self.ids)))

    def new(self, added: Collection[str]) -> list[str]:
        """Those of ``added`` whose vectors are needed. An id names its text, and so its vector: what was gone is back
        where it was."""
        return sorted(set(added) - self.gone)

    def plus(self, added: Collection[str], rows: Vectors | None) -> Recent:
        """``rows`` are those of ``new(added)``."""
        import numpy as np

        blocks = [block for block in (self.rows, rows) if block is not None]
        return Recent((*self.ids, *self.new(added)), np.concatenate(blocks) if blocks else None, self.gone - set(added))

    def nearest(self, vector: Vectors, limit: int) -> list[VectorHit]:
        if self.rows is None:
            return []
        hits = [VectorHit(i, rounded(float(cosine))) for i, cosine in zip(self.ids, self.rows @ vector, strict=True)]
        return sorted(hits, key=lambda hit: (-hit.cosine, hit.id))[:limit]

    def vectors(self, ids: Collection[str]) -> tuple[list[str], list[Vectors]]:
        if self.rows is None:
            return [], []
        wanted = set(ids)
        found = [(id_, row) for id_, row in zip(self.ids, self.rows, strict=True) if id_ in wanted]
        return [id_ for id_, _ in found], [row for _, row in found]


def rounded(cosine: float) -> float:
    """Equal texts have equal cosines, wherever they are stored: HNSW and numpy differ by less than this."""
    return round(cosine, 5)


def class_of_recent(name: str) -> SourceClass | None:
    """The class whose recent vectors are in a file of this name, None for any other file."""
    if not (name.startswith(_PREFIX) and name.endswith(_SUFFIX)):
        return None
    try:
        return SourceClass(name.removeprefix(_PREFIX).removesuffix(_SUFFIX))
    except ValueError:
        return None


def read_recent(folder: Path, source_class: SourceClass) -> Recent:
    """Nothing recent when there is no such file. Raises StoreDamaged."""
    import numpy as np

    try:
        raw = (folder / f"{_PREFIX}{source_class.value}{_SUFFIX}").read_bytes()
    except FileNotFoundError:
        return Recent()
    except OSError as error:
        raise StoreDamaged(f"The recent vectors can't be read ({error.strerror}).") from error
    try:
        with np.load(io.BytesIO(raw), allow_pickle=False) as kept:
            ids, rows, gone = _texts(kept["ids"]), kept["rows"], frozenset(_texts(kept["gone"]))
        if rows.ndim != 2 or len(rows) != len(ids):
            raise ValueError("ids and rows do not match")
    except (ValueError, KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile, MemoryError) as error:
        raise StoreDamaged("The recent vectors are damaged. Run: rag-mcp doctor --fix") from error
    return Recent(ids, rows if ids else None, gone)


def write_recent(folder: Path, source_class: SourceClass, recent: Recent) -> None:
    """No file where nothing is recent. Raises OSError."""
    import numpy as np

    if not recent:
        return
    rows = recent.rows if recent.rows is not None else np.zeros((0, 0), dtype=np.float32)
    with (folder / f"{_PREFIX}{source_class.value}{_SUFFIX}").open("xb") as stream:
        np.savez(stream, ids=_bytes(recent.ids), rows=rows, gone=_bytes(sorted(recent.gone)))


def _texts(values: NDArray[np.bytes_]) -> tuple[str, ...]:
    import numpy as np

    return tuple(np.char.decode(values, "ascii").tolist())


def _bytes(ids: Sequence[str]) -> NDArray[np.bytes_]:
    import numpy as np

    return np.array([id_.encode("ascii") for id_ in ids], dtype=np.bytes_)
