"""Check that a generation is what its manifest says: same ids in both indexes, and both answer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from rag_mcp.errors import StoreDamaged, StoreEmpty, StoreError
from rag_mcp.models import SourceClass
from rag_mcp.stores.base import Changes
from rag_mcp.stores.embedded.cache import check_cache
from rag_mcp.stores.embedded.files import file_digest, files_below
from rag_mcp.stores.embedded.generation import Generation, changed_files, untouched
from rag_mcp.stores.embedded.generations import GenerationStore
from rag_mcp.stores.embedded.keywords import TantivyReader
from rag_mcp.stores.embedded.vectors import REWRITTEN_ON_OPEN, ChromaReader, check_database, is_settled, rows_held
from rag_mcp.stores.manifest import Manifest, chunk_digest, ids_digest, stored_ids, stored_records

if TYPE_CHECKING:
    from rag_mcp.embedders.base import Vectors

__all__ = ["changed_files", "checksums", "verify_changes", "verify_deep", "verify_indexes", "verify_store"]

_SAMPLES = 8
_DIGEST_CHARS_1 = 64
_ROWS = 2_000
# Two copies of one unit vector, through float32 and the index, differ by far less; two texts rarely by so little.
_SELF_COSINE = 0.999


def checksums(folder: Path, known: Mapping[str, list[object]]) -> dict[str, list[object]]:
    """Size, digest and time of every file of a finished generation that nobody may change any more. What it shares with
    the generation before, where ``known`` is of, is not read again."""
    found: dict[str, list[object]] = {}
    for path in files_below(folder, leave_out=REWRITTEN_ON_OPEN):
        name = path.relative_to(folder).as_posix()
        if not is_settled(path):
            continue
        if name in known and untouched(path, known[name]):
            found[name] = known[name]
        else:
            found[name] = [*file_digest(path), path.stat().st_mtime_ns]
    return found


def verify_indexes(folder: Path, manifest: Manifest, *, scratch: Path | None = None) -> list[str]:
    """Problems found, in words; empty when manifest, vectors and keywords agree and a sample answers."""
    with (
        closing(ChromaReader(folder / "chroma", scratch=scratch)) as vectors,
        closing(TantivyReader(folder / "keywords")) as keywords,
    ):
        return list(_differences(manifest, vectors, keywords))


def verify_changes(folder: Path, changes: Changes) -> list[str]:
    """The same where little has changed: that much was written and no more, and a sample of the rest is there."""
    with closing(TantivyReader(folder / "keywords")) as keywords:
        return [problem for each in SourceClass for problem in _changed_class(folder, changes, each, keywords)]


def _changed_class(folder: Path, changes: Changes, source_class: SourceClass, keywords: TantivyReader) -> Iterator[str]:
    count = changes.manifest.counts().get(source_class.value, 0)
    rest = changes.manifest.sample(source_class, _SAMPLES)
    written = {*changes.added.get(source_class, ()), *changes.updated.get(source_class, ())}
    gone = changes.deleted.get(source_class, ())
    rows, vectors = rows_held(folder / "chroma", source_class, {*rest, *written, *gone})
    records = keywords.fetch([source_class], {*rest, *written, *gone})
    digests = rest | {i: chunk_digest(changes.chunks[i]) for i in written}
    for name, found, size in (("vector", vectors, rows), ("keyword", records.keys(), keywords.size([source_class]))):
        missing, foreign = len(digests.keys() - found), len(found - digests.keys())
        if missing or foreign or size != count:
            yield f"{source_class.value}: {name} index has {size} of {count} rows, lacks {missing}, and kept {foreign}"
    if wrong := [i for i, chunk in records.items() if i in digests and chunk_digest(chunk) != digests[i]]:
        yield f"{source_class.value}: the stored record of {wrong[0]} is not the published one"


def _differences(manifest: Manifest, vectors: ChromaReader, keywords: TantivyReader) -> Iterator[str]:
    wanted = stored_ids(manifest.files.values())
    for source_class in SourceClass:
        ids = wanted.get(source_class, set())
        for name, found in (("vector", vectors.ids(source_class)), ("keyword", keywords.ids(source_class))):
            if found != ids:
                missing, foreign = len(ids - found), len(found - ids)
                yield f"{source_class.value}: {name} index lacks {missing} and has {foreign} unknown ids"
        yield from _sample(source_class, sorted(ids)[:: max(1, len(ids) // _SAMPLES)], vectors, keywords)


def _sample(
    source_class: SourceClass, ids: Sequence[str], vectors: ChromaReader, keywords: TantivyReader
) -> Iterator[str]:
    """A sample must be stored, and the vector index must lead to some of it: HNSW is approximate, and among many
    passages that differ by a number only it leaves some without a way to them."""
    found, rows = vectors.vectors(source_class, ids)
    asked = [row for row in rows if row.any()]
    if len(found) != len(set(ids)):
        yield f"{source_class.value}: the vector index does not give back {len(set(ids)) - len(found)} of its rows"
    if asked and not any(_finds(vectors, source_class, row) for row in asked):
        yield f"{source_class.value}: none of {len(asked)} vectors finds itself"
    if len(keywords.fetch([source_class], ids)) != len(set(ids)):
        yield f"{source_class.value}: the keyword index does not give back its records"


def _finds(vectors: ChromaReader, source_class: SourceClass, row: Vectors) -> bool:
    hits = vectors.query(source_class, row, 1)
    return bool(hits) and hits[0].cosine >= _SELF_COSINE


def verify_store(store: GenerationStore, *, scratch: Path | None = None) -> tuple[int, list[str]]:
    """Number of the live generation, and everything wrong with it, the pointer and the embedding cache, in words.

    Raises StoreEmpty when there is nothing to look at.
    """
    number = store.current()
    if number is None:
        raise StoreEmpty("Nothing has been ingested into this store yet. Run: rag-mcp ingest CORPUS --db DB")
    problems = [problem for problem in (store.pointer_problem(), check_cache(store.cache_path)) if problem]
    try:
        generation = store.open(number)
    except StoreDamaged as error:
        return number, [*problems, str(error)]
    with closing(generation):
        return number, [*problems, *verify_deep(generation, scratch=scratch)]


def verify_deep(generation: Generation, *, scratch: Path | None = None) -> list[str]:
    """Check every byte, id, record and vector of a generation; problems in words."""
    problems = [f"{name}: changed on disk" for name in generation.changed()]
    try:
        manifest = generation.manifest()
        if _ids_digest(manifest, generation.info.ids_digest) != generation.info.ids_digest:
            problems.append("the manifest: its ids are not those that were published")
        check_database(generation.chroma_path)
        if not any(name.startswith("chroma/") for name in (problem.partition(":")[0] for problem in problems)):
            problems.extend(verify_indexes(generation.folder, manifest, scratch=scratch))
            problems.extend(_deep(generation, manifest, scratch))
    except StoreError as error:
        problems.append(str(error))
    return problems


def _ids_digest(manifest: Manifest, published: str) -> str:
    """In the form that was published: versions before format 2 digested all ids in their order."""
    ids = stored_ids(manifest.files.values())
    if len(published) < _DIGEST_CHARS_1:
        return ids_digest(ids)
    lines = sorted(f"{source_class.value} {i}" for source_class, several in ids.items() for i in several)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _deep(generation: Generation, manifest: Manifest, scratch: Path | None) -> Iterator[str]:
    import numpy as np

    dimension = generation.info.identity.get("dimension")
    with (
        closing(ChromaReader(generation.chroma_path, scratch=scratch)) as vectors,
        closing(TantivyReader(generation.keywords_path)) as keywords,
    ):
        for source_class, records in stored_records(manifest.files.values()).items():
            ids = sorted(records)
            for start in range(0, len(ids), _ROWS):
                part = ids[start : start + _ROWS]
                _, rows = vectors.vectors(source_class, part)
                if rows.shape[1] != dimension or not np.isfinite(rows).all():
                    yield f"{source_class.value}: vectors of the wrong shape or with numbers that are not finite"
                norms = np.linalg.norm(rows, axis=1)
                if ((np.abs(norms - 1) > 1e-3) & (norms > 0)).any():
                    yield f"{source_class.value}: vectors that are not of unit length"
                for i, chunk in keywords.fetch([source_class], part).items():
                    if chunk_digest(chunk) != records[i]:
                        yield f"{source_class.value}: the stored record of {i} is not the published one"
