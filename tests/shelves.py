"""A store of either kind, filled passage by passage and without a corpus: what the contract of the stores is shown on."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from rag_mcp.embedders.hash import HashEmbedder
from rag_mcp.models import Chunk, DocClass, SourceClass
from rag_mcp.stores.base import Changes
from rag_mcp.stores.embedded.generations import GenerationStore
from rag_mcp.stores.embedded.write import begin_write as begin_embedded
from rag_mcp.stores.manifest import FileEntry, Manifest, chunk_digest

EMBEDDER = HashEmbedder()
IDENTITY = {"embedder": EMBEDDER.fingerprint, "embedder_name": "hash", "dimension": EMBEDDER.dimension}
_SCHEMAS = itertools.count(1)


def passage(key: str, text: str, **changes) -> Chunk:
    base = Chunk(
        id=key,
        text_key=f"key:{key}",
        source=f"{key}.md",
        source_class=SourceClass.DOCS,
        project=None,
        doc_class=DocClass.NOTE,
        title="",
        heading_path=(),
        index=0,
        line_start=1,
        line_end=1,
        start=0,
        end=len(text),
        text=text,
    )
    return replace(base, **changes)


def manifest_of(chunks: Iterable[Chunk]) -> Manifest:
    """One file for each passage."""
    files = {
        chunk.source: FileEntry(
            sha256=chunk_digest(chunk),
            source_class=chunk.source_class,
            project=chunk.project,
            doc_class=chunk.doc_class,
            title=chunk.title,
            series=chunk.series,
            day=chunk.date,
            rows=((chunk.id, chunk.text_key, 1, 1, chunk_digest(chunk)),),
        )
        for chunk in chunks
    }
    return Manifest(identity=IDENTITY, derivation={"metadata": 1}, files=files)


def vectors_of(chunks: Iterable[Chunk]):
    known = dict(
        zip([c.text_key for c in chunks], EMBEDDER.embed_documents([c.text or "-" for c in chunks]), strict=True)
    )
    return lambda keys: {key: known[key] for key in keys if key in known}


class Shelf:
    """``publish`` is given all passages the next generation holds; what changed is worked out from those before."""

    def __init__(self) -> None:
        self.chunks: dict[str, Chunk] = {}

    def publish(self, *chunks: Chunk, anew: bool = False, fail=None) -> int:
        with self.writing(anew) as write:
            return self._publish(write, chunks, anew, fail)

    def _publish(self, write, chunks, anew, fail=None) -> int:
        new, old = {chunk.id: chunk for chunk in chunks}, {} if anew else self.chunks
        manifest = manifest_of(chunks)
        changes = Changes(
            manifest,
            new,
            added=_by_class(new[i] for i in new.keys() - old.keys()),
            updated=_by_class(new[i] for i in new.keys() & old.keys() if new[i] != old[i]),
            deleted=_by_class(old[i] for i in old.keys() - new.keys()),
        )
        write.write_vectors(changes, vectors_of(list(chunks)), lambda *_: None)
        write.write_keywords(changes)
        write.write_manifest(manifest)
        write.verify(manifest)
        write.seal(manifest, created_at="2026-01-02T03:04:05+00:00", notes={"made_by": "test"})
        if fail is not None:
            raise fail
        write.publish()
        self.chunks = new
        return write.number

    @contextmanager
    def opened(self, number: int | None = None):
        """(snapshot, keywords, vectors)"""
        with (
            closing(self.store.open(number)) as snapshot,
            closing(snapshot.open_keywords(needed=tuple(SourceClass), partial=False, scratch=None)) as keywords,
            closing(snapshot.open_vectors(needed=tuple(SourceClass), scratch=None)) as vectors,
        ):
            yield snapshot, keywords, vectors


class EmbeddedShelf(Shelf):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.store = GenerationStore(folder)

    @contextmanager
    def writing(self, anew=False):
        with self.store.writer_lock():
            live = self.store.open() if self.store.current() is not None else None
            try:
                with begin_embedded(
                    self.store, live=None if anew else live, parent=live.number if live else None
                ) as write:
                    yield write
            finally:
                if live is not None:
                    live.close()

    def close(self) -> None:
        pass


class PostgresShelf(Shelf):
    def __init__(self, dsn: str) -> None:
        from rag_mcp.stores.postgres.store import PostgresStore, make_store

        super().__init__()
        self.dsn, self.schema = dsn, f"rag_mcp_{next(_SCHEMAS)}"
        make_store(dsn, self.schema)
        self.store = PostgresStore(dsn, self.schema)

    @contextmanager
    def writing(self, anew=False):
        with self.store.writing() as connection, self._begun(connection, anew) as write:
            yield write

    def publish_with(self, connection, *chunks: Chunk, anew: bool = False) -> int:
        with self._begun(connection, anew) as write:
            return self._publish(write, chunks, anew)

    @contextmanager
    def _begun(self, connection, anew):
        from rag_mcp.stores.postgres.write import begin_write

        live = self.store.open() if self.store.current() is not None else None
        with begin_write(connection, live=None if anew else live, parent=live.number if live else None) as write:
            yield write

    def close(self) -> None:
        self.store.close()


def _by_class(chunks: Iterable[Chunk]) -> dict[SourceClass, set[str]]:
    found: dict[SourceClass, set[str]] = {}
    for chunk in chunks:
        found.setdefault(chunk.source_class, set()).add(chunk.id)
    return found


def copied(store: GenerationStore, shelf: PostgresShelf) -> None:
    """What an embedded store holds, published in the other: nothing is embedded again."""
    from rag_mcp.stores.embedded.cache import EmbeddingCache

    with closing(store.open()) as live:
        manifest = live.manifest()
        with closing(live.open_keywords(needed=())) as keywords:
            chunks = {i: c for each, ids in manifest.ids().items() for i, c in keywords.fetch([each], ids).items()}
        changes = Changes(manifest, chunks, added=manifest.ids(), updated={}, deleted={})
        with (
            closing(EmbeddingCache(store.cache_path, str(manifest.identity["embedder"]))) as cache,
            shelf.writing(anew=True) as write,
        ):
            write.write_vectors(changes, cache.get, lambda *_: None)
            write.write_keywords(changes)
            write.write_manifest(manifest)
            write.verify(manifest)
            write.seal(manifest, created_at=live.info.created_at, notes=live.info.notes)
            write.publish()
