"""Adding to and deleting from the class indexes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path

from rag_mcp.models import Chunk, SourceClass
from rag_mcp.stores.embedded.keywords.document import document, schema
from rag_mcp.stores.embedded.keywords.folder import check_format, segment_sizes
from rag_mcp.stores.embedded.keywords.stemmer import Stemmer
from rag_mcp.stores.embedded.keywords.translate import translated
from rag_mcp.stores.passage import load

__all__ = ["ClassWriter", "TantivyWriter"]

_HEAP_BYTES = 96_000_000
_MAX_SEGMENTS = 8
_MAX_DELETED_SHARE = 0.25


class TantivyWriter:
    """Adds to and deletes from the class indexes under one folder; nothing is visible before ``commit``.

    One thread and one writer: the caller holds the store's writer lock, and equal input gives equal segments.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stem = Stemmer()
        self._open: dict[SourceClass, ClassWriter] = {}
        with translated(folder):
            folder.mkdir(parents=True, exist_ok=True)
            check_format(folder, create=True)

    def add(self, chunks: Iterable[Chunk]) -> None:
        """Add chunks; one whose id is already in its class replaces it."""
        for chunk in chunks:
            writer = self._class(chunk.source_class)
            with translated(writer.folder):
                writer.add(chunk)

    def delete(self, source_class: SourceClass, ids: Collection[str]) -> None:
        if ids and (self._folder / source_class).is_dir():
            writer = self._class(source_class)
            with translated(writer.folder):
                writer.delete(ids)

    def commit(self) -> None:
        """Make all changes durable, await merges, remove dead files, and rewrite an index grown ragged."""
        self._finish(ClassWriter.commit)

    def close(self) -> None:
        """Drop what was not committed and release the locks."""
        self._finish(ClassWriter.rollback)

    def _finish(self, end: Callable[[ClassWriter], None]) -> None:
        while self._open:
            _, writer = self._open.popitem()
            with translated(writer.folder):
                try:
                    end(writer)
                except BaseException:
                    # Its threads would go on writing to a folder that is about to be taken away.
                    with suppress(Exception):
                        writer.rollback()
                    raise

    def _class(self, source_class: SourceClass) -> ClassWriter:
        if source_class not in self._open:
            folder = self._folder / source_class
            with translated(folder):
                self._open[source_class] = ClassWriter(folder, self._stem)
        return self._open[source_class]


class ClassWriter:
    def __init__(self, folder: Path, stem: Stemmer) -> None:
        import tantivy

        folder.mkdir(exist_ok=True)
        self.folder = folder
        self._tantivy = tantivy
        self._stem = stem
        self._index = tantivy.Index(schema(), path=str(folder), reuse=True)
        self._before = self._index.searcher()
        self._added: set[str] = set()
        self._writer = self._index.writer(_HEAP_BYTES, 1)

    def add(self, chunk: Chunk) -> None:
        key = chunk.id
        if key in self._added or self._before.doc_freq("id", key):
            self._writer.delete_documents_by_term("id", key)
        self._added.add(key)
        self._writer.add_document(document(chunk, self._stem))

    def delete(self, ids: Collection[str]) -> None:
        for key in ids:
            self._writer.delete_documents_by_term("id", key)

    def commit(self) -> None:
        self._writer.commit()
        self._settle()
        if self._ragged():
            self._rewrite()

    def rollback(self) -> None:
        self._writer.rollback()
        self._writer.wait_merging_threads()

    def _settle(self) -> None:
        """Await merges, then collect what they left; awaiting consumes the writer, so collecting needs a new one."""
        self._writer.wait_merging_threads()
        self._writer = self._index.writer(_HEAP_BYTES, 1)
        self._writer.garbage_collect_files()
        self._writer.wait_merging_threads()
        self._index.reload()

    def _ragged(self) -> bool:
        segments = segment_sizes(self.folder)
        total = sum(segments)
        return len(segments) > _MAX_SEGMENTS or total - self._index.searcher().num_docs > _MAX_DELETED_SHARE * total

    def _rewrite(self) -> None:
        """Build one fresh index from the live chunks beside the old one and put it in its place."""
        fresh = self.folder.with_name(f"{self.folder.name}.new")
        worn = self.folder.with_name(f"{self.folder.name}.old")
        shutil.rmtree(fresh, ignore_errors=True)
        writer = ClassWriter(fresh, self._stem)
        searcher = self._index.searcher()
        everything = self._tantivy.Query.all_query()
        for _, address in searcher.search(everything, max(1, searcher.num_docs), False).hits:  # 0 is a panic
            writer.add(load(searcher.doc(address)["payload"][0]))
        writer._writer.commit()
        writer._settle()
        os.replace(self.folder, worn)
        os.replace(fresh, self.folder)
        shutil.rmtree(worn)
