"""The next generation while it is built: the live one's files and what differs from them, unseen until it is published."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from rag_mcp.errors import StoreDamaged, StoreError
from rag_mcp.models import SourceClass
from rag_mcp.stores.base import Changes, KnownVectors
from rag_mcp.stores.embedded.files import disk_is_full, remove_tree, writing
from rag_mcp.stores.embedded.generation import Generation, GenerationInfo
from rag_mcp.stores.embedded.generations import GenerationStore
from rag_mcp.stores.embedded.manifest_file import write_manifest
from rag_mcp.stores.embedded.recent import RECENT_ROWS, Recent, read_recent, write_recent
from rag_mcp.stores.embedded.vectors import ChromaReader, ChromaWriter, check_database, copy_index, link_index
from rag_mcp.stores.embedded.verify import checksums, verify_changes, verify_indexes
from rag_mcp.stores.manifest import Manifest, ids_digest, stored_ids, stored_keys

if TYPE_CHECKING:
    from rag_mcp.embedders.base import Vectors

__all__ = ["GenerationWrite", "begin_write"]

# HNSW never reclaims the slot of a deleted row, so a class whose slots outgrow its rows is built anew from known
# vectors. The constant keeps small classes from being rebuilt for every edit.
SLOT_RATIO = 1.25
SLOT_SLACK = 64
_ROWS = 2_000
# So often everything is read and compared, and in between only what changed.
FULL_CHECK_EVERY = 50


@contextmanager
def begin_write(store: GenerationStore, *, live: Generation | None, parent: int | None) -> Iterator[GenerationWrite]:
    """Build upon ``live`` (None: from nothing) while the block runs; the caller holds the writer lock. What is not
    published by then is removed. Raises StoreError or StoreReadOnly when the store can't be written."""
    with writing(store.root):
        write = GenerationWrite(store, live, parent)
        try:
            yield write
        except StoreDamaged as error:
            # Judged before the folder is removed: a library that was refused a write tends to call it damage.
            full = disk_is_full(write.folder)
            remove_tree(write.folder)
            if full:
                raise StoreError(f"The disk is full, and the store is what it was. Free some space: {error}") from error
            raise
        except BaseException:
            remove_tree(write.folder)
            raise


class GenerationWrite:
    """The steps in their order; each raises StoreDamaged when the live generation or the result fails its check."""

    def __init__(self, store: GenerationStore, live: Generation | None, parent: int | None) -> None:
        self.number = store.next_number()
        self.folder = store.stage()
        self._store = store
        self._live = live
        self._parent = parent
        self._slots: Mapping[str, int] = {}
        self._few: Changes | None = None
        self._thorough = self.number % FULL_CHECK_EVERY == 0

    def write_vectors(self, changes: Changes, known: KnownVectors, progress: Callable[[str, int, int], None]) -> None:
        index = _VectorIndex(changes, known, progress)
        folder = self.folder / "chroma"
        live = self._live
        if live is None:
            folder.mkdir()
            with closing(ChromaWriter(folder)) as writer:
                self._slots = index.fill(writer, None)
            return
        damaged = live.changed("chroma/", trusted=not self._thorough)
        if damaged:
            raise StoreDamaged("The live vector index has changed on disk: " + ", ".join(damaged))
        check_database(live.chroma_path)
        recent = {c: read_recent(live.chroma_path, c) for c in SourceClass}
        if all(len(each) + index.changed_rows(c) <= RECENT_ROWS for c, each in recent.items()):
            link_index(live.chroma_path, folder)
            for source_class, each in index.with_changes(recent).items():
                write_recent(folder, source_class, each)
            self._slots = live.info.vector_slots
            self._few = changes
            return
        self._fold(live, changes, index, recent)

    def _fold(
        self, live: Generation, changes: Changes, index: _VectorIndex, recent: Mapping[SourceClass, Recent]
    ) -> None:
        folder = self.folder / "chroma"
        new = {c: len(recent[c].ids) + len(changes.added.get(c, ())) for c in SourceClass}
        slots = {c.value: live.info.vector_slots.get(c.value, 0) + count for c, count in new.items()}
        counts = changes.manifest.counts()
        if any(slots[name] > counts.get(name, 0) * SLOT_RATIO + SLOT_SLACK for name in slots):
            # Opening a folder writes to it, and the live one belongs to its readers.
            copy = self.folder / "chroma-live"
            copy_index(live.chroma_path, copy)
            for source_class, each in recent.items():
                write_recent(copy, source_class, each)
            with closing(ChromaReader(copy)) as reader:
                folder.mkdir()
                with closing(ChromaWriter(folder)) as writer:
                    self._slots = index.fill(writer, reader)
            remove_tree(copy)
            return
        copy_index(live.chroma_path, folder)
        with closing(ChromaWriter(folder)) as writer:
            writer.fold(recent)
            index.update(writer)
        self._slots = {name: count for name, count in slots.items() if name in counts}

    def write_keywords(self, changes: Changes) -> None:
        from rag_mcp.stores.embedded.keywords import TantivyWriter, clone_index

        folder = self.folder / "keywords"
        if self._live is None:
            folder.mkdir()
        else:
            damaged = self._live.changed("keywords/", trusted=not self._thorough)
            if damaged:
                raise StoreDamaged("The live keyword index has changed on disk: " + ", ".join(damaged))
            clone_index(self._live.keywords_path, folder)
        with closing(TantivyWriter(folder)) as writer:
            for source_class, ids in (*changes.deleted.items(), *changes.updated.items()):
                writer.delete(source_class, ids)
            for part in (changes.added, changes.updated):
                for ids in part.values():
                    writer.add(changes.chunks[i] for i in sorted(ids))
            writer.commit()

    def write_manifest(self, manifest: Manifest) -> None:
        with writing(self.folder):
            write_manifest(self.folder, manifest)

    def verify(self, manifest: Manifest) -> None:
        """What changed and a sample, where that is little; else, and every so often, everything."""
        if self._few is not None and not self._thorough:
            problems = verify_changes(self.folder, self._few)
        else:
            problems = verify_indexes(self.folder, manifest)
        if problems:
            raise StoreDamaged("The new generation failed its check and was not published: " + "; ".join(problems))

    def seal(self, manifest: Manifest, *, created_at: str, notes: Mapping[str, object]) -> None:
        """Nothing of it may change any more."""
        known = self._live.info.checksums if self._live is not None and not self._thorough else {}
        info = GenerationInfo(
            number=self.number,
            parent=self._parent,
            created_at=created_at,
            identity=manifest.identity,
            counts=manifest.counts(),
            files=len(manifest.files),
            ids_digest=self._ids_digest(manifest),
            checksums=checksums(self.folder, known),
            vector_slots=self._slots,
            notes=notes,
        )
        self._store.seal(self.folder, info)

    def _ids_digest(self, manifest: Manifest) -> str:
        before = self._live.info.ids_digest if self._live is not None else ""
        if self._few is None or len(before) != len(ids_digest({})):
            return ids_digest(stored_ids(manifest.files.values()))
        return ids_digest(self._few.added, self._few.deleted, before=before)

    def publish(self) -> None:
        self._store.publish(self.folder, self.number)


class _VectorIndex:
    """Vectors come from those ``known`` by text key, else from an index that has them by id."""

    def __init__(self, changes: Changes, known: KnownVectors, progress: Callable[[str, int, int], None]) -> None:
        self._changes = changes
        self._known = known
        self._progress = progress
        self._text_keys = stored_keys(changes.manifest.written.values())

    def fill(self, writer: ChromaWriter, source: ChromaReader | None) -> dict[str, int]:
        """Write all there is; return the HNSW slots each class takes."""
        keys = stored_keys(self._changes.manifest.files.values())
        for source_class, rows in sorted(keys.items()):
            self._add(writer, source_class, list(rows.items()), source)
        return {source_class.value: len(rows) for source_class, rows in keys.items() if rows}

    def changed_rows(self, source_class: SourceClass) -> int:
        return sum(len(part.get(source_class, ())) for part in (self._changes.added, self._changes.deleted))

    def with_changes(self, recent: Mapping[SourceClass, Recent]) -> dict[SourceClass, Recent]:
        """What is recent once the changes, which are few, are."""
        found: dict[SourceClass, Recent] = {}
        for source_class, before in recent.items():
            each = before.without(self._changes.deleted.get(source_class, ()))
            added = self._changes.added.get(source_class, ())
            rows = [(i, self._text_keys[source_class][i]) for i in each.new(added)]
            found[source_class] = each.plus(added, self._vectors(source_class, rows, None) if rows else None)
        return found

    def update(self, writer: ChromaWriter) -> None:
        for source_class, ids in self._changes.deleted.items():
            writer.delete(source_class, ids)
        for source_class, ids in self._changes.added.items():
            keys = self._text_keys[source_class]
            self._add(writer, source_class, [(i, keys[i]) for i in sorted(ids)], None)

    def _add(
        self,
        writer: ChromaWriter,
        source_class: SourceClass,
        rows: Sequence[tuple[str, str]],
        source: ChromaReader | None,
    ) -> None:
        for start in range(0, len(rows), _ROWS):
            part = rows[start : start + _ROWS]
            writer.upsert(source_class, [i for i, _ in part], self._vectors(source_class, part, source))
            self._progress("write", start + len(part), len(rows))

    def _vectors(
        self, source_class: SourceClass, rows: Sequence[tuple[str, str]], source: ChromaReader | None
    ) -> Vectors:
        import numpy as np

        known = self._known(list(dict.fromkeys(key for _, key in rows)))
        lost = [i for i, key in rows if key not in known]
        stored: dict[str, Vectors] = {}
        if lost and source is not None:
            stored = dict(zip(*source.vectors(source_class, lost), strict=True))
        if len(stored) < len(lost):
            missing = len(lost) - len(stored)
            raise StoreDamaged(f"{missing} vectors are in neither the embedding cache nor the live index.")
        return np.stack([known[key] if key in known else stored[i] for i, key in rows]).astype(np.float32)
