"""One generation held open for reading: checked before native code sees it, closed when its last query has ended."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Collection, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rag_mcp.access.names import canonical_names
from rag_mcp.access.profiles import Rights
from rag_mcp.errors import StoreError
from rag_mcp.models import SourceClass
from rag_mcp.search.facets import Facets, facets_of
from rag_mcp.search.naming import Names, names_of
from rag_mcp.search.retrieve import GenerationView
from rag_mcp.stores.base import Snapshot, VectorReader

if TYPE_CHECKING:
    from rag_mcp.embedders.base import Embedder
    from rag_mcp.stores.manifest import Manifest

__all__ = ["OpenGeneration"]

_log = logging.getLogger(__name__)

# Callers of one process differ in the class they name and in nothing else, until a policy or what is withdrawn changes.
_KEPT_VIEWS = 2 * len(SourceClass)


class OpenGeneration:
    """Keyword index at once, vector index as soon as it is loaded; both belong to this one generation.

    Raises StoreDamaged when keyword files or the manifest are not byte by byte what was published: a shorter mapped
    file would kill the process, another one might answer. With ``partial``, keyword damage costs only its classes.
    Damage of a class that is not ``needed`` costs nothing and is not told: nobody here may know that the class exists.
    """

    def __init__(
        self,
        generation: Snapshot,
        *,
        scratch: Path | None,
        partial: bool = False,
        needed: Collection[SourceClass] = tuple(SourceClass),
    ) -> None:
        self.generation = generation
        self._needed = frozenset(needed)
        self._scratch = scratch
        self._lock = threading.Lock()
        self._vector_lock = threading.Lock()
        self._users = 0
        self._retired = False
        self._vectors: VectorReader | None = None
        self._vectors_failed: str | None = None
        self._vectors_done = threading.Event()
        self._loading = False
        self._shown: tuple[tuple[Rights, SourceClass | None, frozenset[str]], ...] = ()
        self.keywords = generation.open_keywords(needed=self._needed, partial=partial, scratch=scratch)

    @property
    def number(self) -> int:
        return self.generation.number

    @property
    def indexed_at(self) -> str:
        return self.generation.info.created_at

    @cached_property
    def manifest(self) -> Manifest:
        return self.generation.manifest()

    @cached_property
    def other_forms(self) -> dict[str, tuple[str, ...]]:
        """Paths that are spelled in another form of Unicode than the canonical one, by that."""
        return canonical_names(self.manifest.files)

    @cached_property
    def names(self) -> Names:
        return names_of(self.manifest.files)

    @cached_property
    def facets(self) -> Facets:
        return facets_of(self.manifest.files)

    def shown(self, rights: Rights, requested: SourceClass | None) -> frozenset[str]:
        """Paths of the documents that may be listed to who asks for this class. Kept while the rights stay the same."""
        for known, asked, paths in self._shown:
            if asked is requested and known == rights:
                return paths
        files = self.manifest.files.items()
        paths = frozenset(path for path, each in files if rights.may_see(each.source_class, path, requested=requested))
        # Of two threads that do this at once, one may be forgotten.
        self._shown = ((rights, requested, paths), *self._shown[: _KEPT_VIEWS - 1])
        return paths

    @cached_property
    def series_days(self) -> dict[str, dict[str, str]]:
        """{series: {day: path}} of all dated series."""
        found: dict[str, dict[str, str]] = {}
        for path, entry in self.manifest.files.items():
            if entry.series is not None and entry.day is not None:
                found.setdefault(entry.series, {}).setdefault(entry.day, path)
        return found

    def begin_loading(self) -> None:
        """Load the vector index in a thread of its own, unless one is at it or done, however many questions ask."""
        with self._lock:
            begins, self._loading = not self._loading, True
        if begins:
            threading.Thread(target=self.load_vectors, name="rag-mcp-load", daemon=True).start()

    def load_vectors(self) -> None:
        """Open the vector index; a failure is kept as a reason, not raised. Opens once, whoever calls."""
        with self._lock:
            self._loading = True
        with self._vector_lock:
            if self._vectors_done.is_set():
                return
            try:
                self._vectors = self.generation.open_vectors(needed=self._needed, scratch=self._scratch)
            except StoreError as error:
                self._vectors_failed = str(error)
            finally:
                self._vectors_done.set()

    def vectors_ready(self) -> bool:
        return self._vectors_done.is_set()

    def vectors_failed(self) -> str | None:
        return self._vectors_failed

    def view(self, embedder: Callable[[], Embedder], *, wait_s: float) -> GenerationView:
        """The parts a search needs; vectors that are not loaded within ``wait_s`` seconds are left out, with a reason."""
        ready = self._vectors_done.wait(wait_s)
        return GenerationView(
            number=self.number,
            indexed_at=self.indexed_at,
            manifest=lambda: self.manifest,
            series_days=lambda: self.series_days,
            facets=lambda: self.facets,
            shown=self.shown,
            keywords=self.keywords,
            vectors=self._vectors if ready else None,
            vectors_problem=self._vectors_failed if ready else "the vector index is still loading",
            embedder=embedder,
        )

    @contextlib.contextmanager
    def lease(self) -> Iterator[OpenGeneration]:
        """Keep it open while the block runs."""
        with self._lock:
            if self._retired and self._users == 0:
                raise StoreError("This generation has been closed.")
            self._users += 1
        try:
            with self.generation.lease():
                yield self
        finally:
            with self._lock:
                self._users -= 1
                last = self._retired and self._users == 0
            if last:
                self._close()

    def retire(self) -> None:
        """Close now, or when the last lease ends."""
        with self._lock:
            if self._retired:
                return
            self._retired = True
            idle = self._users == 0
        if idle:
            self._close()

    def _close(self) -> None:
        with self._vector_lock:
            self._vectors_done.set()
            vectors, self._vectors = self._vectors, None
        try:
            if vectors is not None:
                with contextlib.suppress(StoreError):
                    vectors.close()
            self.keywords.close()
        finally:
            self.generation.close()
