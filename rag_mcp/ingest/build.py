"""Build the next generation from the live one and a delta, check it, and publish it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rag_mcp.errors import StoreDamaged, StoreError
from rag_mcp.ingest.baseline import Baseline
from rag_mcp.ingest.context import Context
from rag_mcp.ingest.next import Next
from rag_mcp.ingest.options import Step
from rag_mcp.ingest.withdrawals import record_withdrawals
from rag_mcp.models import Chunk, SourceClass
from rag_mcp.stores.embedded.cache import EmbeddingCache
from rag_mcp.stores.embedded.files import disk_is_full, remove_tree, writing
from rag_mcp.stores.embedded.generations import Generation, GenerationInfo
from rag_mcp.stores.embedded.manifest import write_manifest
from rag_mcp.stores.embedded.vectors import ChromaReader, ChromaWriter, check_database, copy_index
from rag_mcp.stores.embedded.verify import changed_files, checksums, verify_indexes

if TYPE_CHECKING:
    from rag_mcp.embedders.base import Vectors

__all__ = ["BuildJob", "build_generation"]

# HNSW never reclaims the slot of a deleted row, so a class whose slots outgrow its rows is built anew from known
# vectors. The constant keeps small classes from being rebuilt for every edit.
SLOT_RATIO = 1.25
SLOT_SLACK = 64
_ROWS = 2_000


@dataclass(frozen=True, slots=True)
class BuildJob:
    """``following`` as it is to be, from ``base`` and the vectors in ``cache``."""

    run: Context
    following: Next
    base: Baseline
    cache: EmbeddingCache

    @property
    def live(self) -> Generation | None:
        """The generation whose indexes are copied; None when everything is built anew."""
        return self.base.live if self.base.manifest is not None else None


def build_generation(job: BuildJob) -> int:
    """Return the number of the generation published.

    Raises StoreDamaged when the live generation or the result fails its check, StoreError or StoreReadOnly when it
    can't be written; nothing is published then.
    """
    number = job.run.store.next_number()
    with writing(job.run.store.root):
        staging = job.run.store.stage()
        try:
            _build(job, staging, number)
        except StoreDamaged as error:
            # Judged before the folder is removed: a library that was refused a write tends to call it damage.
            full = disk_is_full(staging)
            remove_tree(staging)
            if full:
                raise StoreError(f"The disk is full, and the store is what it was. Free some space: {error}") from error
            raise
        except BaseException:
            remove_tree(staging)
            raise
    job.run.on_step(Step.PUBLISHED)
    return number


def _build(job: BuildJob, staging: Path, number: int) -> None:
    job.run.on_step(Step.STAGED)
    slots = _write_vectors(job, staging / "chroma")
    job.run.on_step(Step.VECTORS_WRITTEN)
    _write_keywords(job, staging / "keywords")
    job.run.on_step(Step.KEYWORDS_WRITTEN)
    write_manifest(staging / "manifest.json", job.following.manifest)
    job.run.on_step(Step.MANIFEST_WRITTEN)
    problems = verify_indexes(staging, job.following.manifest)
    if problems:
        raise StoreDamaged("The new generation failed its check and was not published: " + "; ".join(problems))
    job.run.on_step(Step.VERIFIED)
    job.run.store.seal(staging, _info(job, staging, number, slots))
    job.run.on_step(Step.SEALED)
    record_withdrawals(job.run, job.following.manifest, number, job.base)
    job.run.store.publish(staging, number)


def _info(job: BuildJob, staging: Path, number: int, slots: Mapping[str, int]) -> GenerationInfo:
    manifest, parent = job.following.manifest, job.base.live
    return GenerationInfo(
        number=number,
        parent=parent.number if parent is not None else None,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        identity=manifest.identity,
        counts=manifest.counts(),
        files=len(manifest.files),
        ids_digest=manifest.ids_digest(),
        checksums=checksums(staging),
        vector_slots=slots,
        notes=job.run.notes(),
    )


# --- vectors ---------------------------------------------------------------------------------------------------------


def _write_vectors(job: BuildJob, folder: Path) -> dict[str, int]:
    """Write the vector index; return the HNSW slots each class now takes."""
    live = job.live
    if live is None:
        folder.mkdir()
        return _fill(job, folder, None)
    damaged = changed_files(live.folder, live.info, below="chroma/")
    if damaged:
        raise StoreDamaged("The live vector index has changed on disk: " + ", ".join(damaged))
    check_database(live.chroma_path)
    slots = {c.value: live.info.vector_slots.get(c.value, 0) + len(ids) for c, ids in job.following.delta.added.items()}
    slots = {**live.info.vector_slots, **slots}
    counts = job.following.manifest.counts()
    if any(slots[name] > counts.get(name, 0) * SLOT_RATIO + SLOT_SLACK for name in slots):
        return _compact(job, live, folder)
    copy_index(live.chroma_path, folder)
    writer = ChromaWriter(folder)
    try:
        for source_class, ids in job.following.delta.deleted.items():
            writer.delete(source_class, ids)
        for source_class, added in job.following.delta.added.items():
            _add(job, writer, source_class, _keyed(job, added), None)
    finally:
        writer.close()
    return {name: count for name, count in slots.items() if name in counts}


def _compact(job: BuildJob, live: Generation, folder: Path) -> dict[str, int]:
    """Build from known vectors: the cache's, else those of the live index."""
    copy = folder.with_name("chroma-live")  # opening a folder writes to it, and the live one belongs to its readers
    copy_index(live.chroma_path, copy)
    reader = ChromaReader(copy)
    try:
        folder.mkdir()
        return _fill(job, folder, reader)
    finally:
        reader.close()
        remove_tree(copy)


def _fill(job: BuildJob, folder: Path, source: ChromaReader | None) -> dict[str, int]:
    writer = ChromaWriter(folder)
    try:
        keyed: dict[SourceClass, list[tuple[str, str]]] = {}
        for entry in job.following.manifest.files.values():
            rows = [(row[0], row[1]) for row in entry.rows if row[4]]
            keyed.setdefault(entry.source_class, []).extend(rows)
        for source_class, rows in sorted(keyed.items()):
            _add(job, writer, source_class, rows, source)
    finally:
        writer.close()
    return {source_class.value: len(rows) for source_class, rows in keyed.items() if rows}


def _keyed(job: BuildJob, ids: frozenset[str]) -> list[tuple[str, str]]:
    return [(i, job.following.chunks[i].text_key) for i in sorted(ids)]


def _add(
    job: BuildJob,
    writer: ChromaWriter,
    source_class: SourceClass,
    rows: Sequence[tuple[str, str]],
    source: ChromaReader | None,
) -> None:
    for start in range(0, len(rows), _ROWS):
        part = rows[start : start + _ROWS]
        ids, vectors = _vectors_for(job, source_class, part, source)
        writer.upsert(source_class, ids, vectors)
        job.run.progress("write", start + len(part), len(rows))


def _vectors_for(
    job: BuildJob, source_class: SourceClass, rows: Sequence[tuple[str, str]], source: ChromaReader | None
) -> tuple[list[str], Vectors]:
    import numpy as np

    cached = job.cache.get(list(dict.fromkeys(key for _, key in rows)))
    lost = [i for i, key in rows if key not in cached]
    stored: dict[str, Vectors] = {}
    if lost and source is not None:
        stored = dict(zip(*source.vectors(source_class, lost), strict=True))
    if len(stored) < len(lost):
        raise StoreDamaged(f"{len(lost) - len(stored)} vectors are in neither the embedding cache nor the live index.")
    matrix = np.stack([cached[key] if key in cached else stored[i] for i, key in rows]).astype(np.float32)
    return [i for i, _ in rows], matrix


# --- keywords --------------------------------------------------------------------------------------------------------


def _write_keywords(job: BuildJob, folder: Path) -> None:
    from rag_mcp.stores.embedded.keywords import TantivyWriter, clone_index

    if job.live is not None:
        damaged = changed_files(job.live.folder, job.live.info, below="keywords/")
        if damaged:
            raise StoreDamaged("The live keyword index has changed on disk: " + ", ".join(damaged))
        clone_index(job.live.keywords_path, folder)
    else:
        folder.mkdir()
    writer = TantivyWriter(folder)
    try:
        for source_class, ids in (*job.following.delta.deleted.items(), *job.following.delta.updated.items()):
            writer.delete(source_class, ids)
        writer.add(_written(job))
        writer.commit()
    finally:
        writer.close()


def _written(job: BuildJob) -> Iterator[Chunk]:
    for part in (job.following.delta.added, job.following.delta.updated):
        for ids in part.values():
            yield from (job.following.chunks[i] for i in sorted(ids))
