"""Roll back, examine and repair a store."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from rag_mcp.access.withdrawal import Cause, Withdrawals
from rag_mcp.config import Config
from rag_mcp.embedders import embedder_identity
from rag_mcp.errors import CorpusError, InvalidArgument, RagMcpError, StoreAbsent, StoreDamaged, StoreEmpty, StoreLocked
from rag_mcp.ingest.options import IngestOptions
from rag_mcp.models import Mode, Skipped
from rag_mcp.places import same_folder
from rag_mcp.search.calibrated import relevance_in_words, write_calibration
from rag_mcp.search.relevance import Calibration
from rag_mcp.stores.embedded.absent import live_generation
from rag_mcp.stores.embedded.cache import check_cache
from rag_mcp.stores.embedded.files import is_writable
from rag_mcp.stores.embedded.generations import GenerationStore
from rag_mcp.stores.embedded.owner import made_from
from rag_mcp.stores.embedded.place import is_foreign_chroma, store_folder, store_root
from rag_mcp.stores.embedded.withdrawn import read_withdrawals, restored, write_withdrawals
from rag_mcp.text.globs import folded

__all__ = ["Finding", "RolledBack", "examine", "repair", "roll_back", "store_calibration"]

_EXAMPLES = 3
_LOW_DISK_BYTES = 500 * 1024 * 1024
_NAMES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: how it is, and what to do about it if it is not well."""

    what: str
    ok: bool
    detail: str


def _store(config: Config) -> GenerationStore:
    return GenerationStore(store_root(config))


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The generation that is live now, and the documents it holds that stay hidden: ``withheld`` until an ingest takes
    them in again, ``gone`` (deleted since) until one does or ``restore_deleted`` is asked for. If it was, ``shown`` are
    those it shows until the next rollback or ingest, and ``refused`` those that may only have been moved out of sight."""

    number: int
    withheld: tuple[str, ...]
    gone: tuple[str, ...]
    shown: tuple[str, ...] = ()
    refused: tuple[Skipped, ...] = ()


def roll_back(config: Config, number: int | None, *, restore_deleted: bool = False) -> RolledBack:
    """Make an older generation live. What its owner has withheld since is not shown again; what was deleted since is,
    if ``restore_deleted`` and nothing in the corpus folder speaks against it, until the next rollback or ingest. Raises
    InvalidArgument, StoreEmpty, StoreDamaged, StoreLocked, and CorpusError where the folder is not there or not known.
    """
    store = _store(config)
    live = live_generation(store, config)
    with store.writer_lock():
        target = _older(store, live, number)
        known = read_withdrawals(store.root)  # one that is missing stays so: an empty one would open what it held
        record = restored(known or {}, ())
        causes = _causes(store, target, record)
        gone = tuple(path for path, found in causes.items() if found == {Cause.GONE})
        withheld = tuple(path for path, found in causes.items() if found - {Cause.GONE})
        # Before anything is written: a folder that is not there changes nothing.
        shown, refused = _split_deleted(config, store, record, gone) if restore_deleted and gone else ((), ())
        if known is not None:
            write_withdrawals(store.root, record)
        store.point_to(target)
        if shown:  # last: a run that is killed before has opened nothing
            write_withdrawals(store.root, restored(record, shown))
    return RolledBack(target, withheld, () if restore_deleted else gone, shown, refused)


def _older(store: GenerationStore, live: int, number: int | None) -> int:
    from rag_mcp.stores.embedded.verify import changed_files

    older = [other for other in store.numbers() if other < live]
    target = number if number is not None else max(older, default=None)
    if target is None or target not in store.numbers():
        what = "nothing older is kept" if number is None else f"generation {number} is not kept"
        kept = ", ".join(map(str, store.numbers()))
        raise InvalidArgument("number", f"{what}; there is {kept}.")
    damaged = changed_files(store.path(target), store.info(target))
    if damaged:
        raise StoreDamaged(f"Generation {target} has changed on disk and was not made live: {', '.join(damaged)}")
    return target


def _causes(store: GenerationStore, target: int, record: Withdrawals) -> dict[str, set[Cause]]:
    """Why documents of generation ``target`` stay hidden."""
    from rag_mcp.stores.embedded.manifest_file import read_manifest

    held = read_manifest(store.path(target)).states
    return {
        path: {each.cause for each in several if each.since > target} - {Cause.RENAMED}
        for path, several in sorted(record.items())
        if path in held
    }


def _split_deleted(
    config: Config, store: GenerationStore, record: Withdrawals, gone: Sequence[str]
) -> tuple[tuple[str, ...], tuple[Skipped, ...]]:
    from rag_mcp.ingest.deleted import Deleted, look_everywhere, split_deleted
    from rag_mcp.stores.embedded.manifest_file import read_manifest
    from rag_mcp.stores.manifest import Manifest

    manifests: dict[int, Manifest] = {}
    for number in store.numbers():
        with suppress(StoreDamaged):  # then it shows nothing either
            manifests[number] = read_manifest(store.path(number))
    # Whichever generation is served while they are shown: each text counts that one of them holds.
    held = {path: [each.states[path] for each in manifests.values() if path in each.states] for path in gone}
    deleted = {
        path: Deleted(
            frozenset(
                [entry.sha256 for entry in held[path]]
                + [each.sha256 for each in record[path] if each.cause is Cause.GONE]
            ),
            held[path][-1].source_class,
        )
        for path in gone
    }
    newest = manifests.get(max(store.numbers()))
    indexed = {path: entry.source_class for path, entry in newest.states.items()} if newest is not None else {}
    return split_deleted(deleted, look_everywhere(_corpus_of(config, store), store.root), indexed)


def _corpus_of(config: Config, store: GenerationStore) -> Path:
    """The folder that the store is of. Raises CorpusError when it is not there, not known or another one."""
    from rag_mcp.ingest.begin import corpus_folder
    from rag_mcp.ingest.claim import claimed

    owner = store.owner()
    named = Path(owner.named) if owner is not None and owner.named else made_from(store.root)
    given = config.corpus_root or named
    root = corpus_folder(given)
    if claimed(store, root, os.path.abspath(given or root), adopt=False).unproven:
        raise CorpusError(f"The store does not say whether it was made from {root}: ingest that folder first.")
    return root


def store_calibration(config: Config, modes: Mapping[Mode, Calibration], provenance: Mapping[str, object]) -> None:
    """Keep a calibration with the store, for the embedder it was built with. Raises StoreEmpty, StoreLocked."""
    store = _store(config)
    live = live_generation(store, config)
    with store.writer_lock():
        write_calibration(store.root, str(store.info(live).identity["embedder"]), modes, provenance)


def repair(config: Config) -> list[str]:
    """Put right what ``rag-mcp verify`` finds, and sweep leftovers; say what was done.

    The embedding cache is filled again from the live vector index, and a damaged generation built anew from corpus
    and cache: only texts whose vectors are in neither are embedded again.
    """
    from rag_mcp.ingest.run import run_ingest
    from rag_mcp.stores.embedded.verify import verify_store

    store = _store(config)
    try:
        number, problems = verify_store(store, scratch=config.scratch_dir)
    except StoreEmpty:
        return ["nothing to repair: the store is empty"]
    with store.writer_lock():
        leftovers = [entry for entry in store.folder.iterdir() if entry.name.startswith((".building-", ".trash-"))]
        store.sweep()
        done = [f"removed leftover {entry.name}" for entry in leftovers]
        done.extend(f"found: {problem}" for problem in problems)
        if check_cache(store.cache_path) is not None:
            done.append(f"took {_refill_cache(store, number)} vectors of generation {number} into the embedding cache")
        _, left = verify_store(store, scratch=config.scratch_dir)
        if left == [store.pointer_problem()] and store.generation_of_pointer() is None:
            store.point_to(number)
            left = []
            done.append(f"pointed CURRENT to generation {number} again")
    if left:
        summary = run_ingest(config, IngestOptions(full=True))
        done.append(f"built generation {summary.generation} anew, {summary.chunks_embedded} passages embedded")
    return done if problems else [*done, "the live generation is whole"]


def _refill_cache(store: GenerationStore, number: int) -> int:
    """Vectors taken over; none when the vector index or the manifest can't be trusted."""
    from rag_mcp.stores.embedded.cache import EmbeddingCache
    from rag_mcp.stores.embedded.manifest_file import MANIFEST
    from rag_mcp.stores.embedded.vectors import ChromaReader, check_database
    from rag_mcp.stores.embedded.verify import changed_files
    from rag_mcp.stores.manifest import stored_keys

    taken = 0
    try:
        with closing(store.open(number)) as generation:
            if changed_files(generation.folder, generation.info, below=("chroma/", MANIFEST)):
                return 0
            check_database(generation.chroma_path)
            manifest = generation.manifest()
            cache = EmbeddingCache(store.cache_path, str(generation.info.identity["embedder"]))
            with closing(cache), closing(ChromaReader(generation.chroma_path)) as vectors:
                for source_class, keys in stored_keys(manifest.files.values()).items():
                    ids, rows = vectors.vectors(source_class, keys)
                    cache.put([keys[i] for i in ids], rows)
                    taken += len(ids)
    except StoreDamaged:
        return taken
    return taken


def examine(config: Config) -> list[Finding]:
    """Look at environment, model, policy, store, lock, disk and leftovers."""
    checks = (
        _check_versions,
        _check_model,
        _check_policy,
        _check_corpus,
        _check_store,
        _check_last_run,
        _check_lock,
        _check_disk,
    )
    return [finding for check in checks for finding in _guarded(check.__name__.removeprefix("_check_"), check(config))]


def _guarded(what: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    try:
        yield from findings
    except RagMcpError as error:
        yield Finding(what, False, error.for_operator)
    except OSError as error:
        yield Finding(what, False, f"can't be looked at: {error.strerror}")


def _check_versions(_: Config) -> Iterator[Finding]:
    from importlib import metadata

    names = ("chromadb", "tantivy", "onnxruntime", "tokenizers", "mcp")
    yield Finding("packages", True, ", ".join(f"{name} {metadata.version(name)}" for name in names))


def _check_model(config: Config) -> Iterator[Finding]:
    identity = embedder_identity(config)
    yield Finding("model", True, f"{identity.name}, {identity.dimension} dimensions, {identity.fingerprint[:24]}")


def _check_policy(config: Config) -> Iterator[Finding]:
    from rag_mcp.access.load import load_policy
    from rag_mcp.access.profiles import profile_in_words, profile_problem, resolve_profile
    from rag_mcp.search.doubts import other_policy

    policy = load_policy(config.policy_path)
    name = str(config.policy_path) if config.policy_path else "built in"
    store = _store(config)
    live = store.current()
    other = other_policy(store.info(live), policy) if live is not None else None
    yield Finding("policy", other is None, f"{name}. {other}" if other else name)
    problem = profile_problem(config.profile, policy)
    words = profile_in_words(resolve_profile(config.profile, policy))
    yield Finding("profile", problem is None, f"{problem} {words}" if problem else words)


def _check_corpus(config: Config) -> Iterator[Finding]:
    root = config.corpus_root
    if root is None:
        yield Finding("corpus", True, "not named here; only ingest needs it (RAG_MCP_CORPUS_ROOT)")
    else:
        there = os.path.isdir(root)
        yield Finding("corpus", there, f"{root}{'' if there else ' is not a folder'}")
        if there:
            yield _names(root, config)


def _names(root: Path, config: Config) -> Finding:
    """Names that are one on another system: a copy of the folder there, or a sync client, loses one of them."""
    from rag_mcp.access.load import load_policy
    from rag_mcp.ingest.walk import walk_corpus

    places: dict[str, set[str]] = {}
    for file in walk_corpus(root, policy=load_policy(config.policy_path), store_path=_store(config).root).files:
        parts = file.path.split("/")
        for length in range(1, len(parts) + 1):
            path = "/".join(parts[:length])
            places.setdefault(folded(path), set()).add(path)
    # A folder's twins are named once, not again with everything that is in them.
    twins = sorted(
        sorted(same) for same in places.values() if len({path.rpartition("/")[0] for path in same}) < len(same)
    )
    if not twins:
        return Finding("names", True, "no two differ only in letter case or Unicode form")
    shown = "; ".join(" and ".join(ascii(path) for path in same) for same in twins[:_NAMES_SHOWN])
    more = f" and {len(twins) - _NAMES_SHOWN} more" if len(twins) > _NAMES_SHOWN else ""
    return Finding("names", False, f"differ only in letter case or Unicode form, rename one: {shown}{more}")


def _check_store(config: Config) -> Iterator[Finding]:
    from rag_mcp.stores.embedded.verify import changed_files

    store = _store(config)
    if is_foreign_chroma(store_folder(config)):
        yield Finding(
            "store", True, f"{store_folder(config)} is another program's; ours lies beside it in {store.root}"
        )
    try:
        live = live_generation(store, config)
    except StoreAbsent as error:
        yield Finding("store", False, error.for_operator)
        return
    info = store.info(live)
    problems = [f"{name} has changed on disk" for name in changed_files(store.path(live), info)]
    problems += [problem for problem in (store.pointer_problem(), check_cache(store.cache_path)) if problem]
    detail = f"generation {live} of {info.created_at}, {sum(info.counts.values())} passages of {info.files} files"
    if problems:
        detail = f"{detail}; {'; '.join(problems)}. Run: rag-mcp doctor --fix"
    yield Finding("store", not problems, detail)
    built, configured = info.identity.get("embedder"), embedder_identity(config).fingerprint
    detail = (
        "the store's" if built == configured else "not the one the store was built with; set RAG_MCP_EMBEDDER or ingest"
    )
    yield Finding("embedder", built == configured, f"{config.embedder}: {detail}")
    yield Finding("relevance", *relevance_in_words(store.root, info.identity, info.notes))
    yield _permissions(store)
    other = made_from(store.root)
    foreign = config.corpus_root is not None and other is not None and not same_folder(other, config.corpus_root)
    detail = f"made from {other}" if other is not None else "does not say from which folder it was made"
    if foreign:
        detail = f"{detail}, not from {config.corpus_root}; if the folder was moved, ingest it once with --adopt"
    yield Finding("owner", not foreign, detail)
    stale = [entry.name for entry in store.folder.iterdir() if entry.name.startswith((".building-", ".trash-"))]
    detail = ", ".join(stale) + " (the next ingest removes them)" if stale else "none"
    yield Finding("leftovers", True, detail)


def _permissions(store: GenerationStore) -> Finding:
    if sys.platform == "win32":
        return Finding("permissions", True, "those of the folder it lies in")
    wide = store.open_to_others()
    if not wide:
        return Finding("permissions", True, "closed to other users")
    return Finding(
        "permissions", False, f"other users can get at {wide[0]} and {len(wide) - 1} more; any ingest closes them"
    )


def _check_last_run(config: Config) -> Iterator[Finding]:
    from rag_mcp.access.load import load_policy
    from rag_mcp.access.profiles import Rights, resolve_profile
    from rag_mcp.search.status import visible_report
    from rag_mcp.stores.embedded.lastrun import read_last_run
    from rag_mcp.text.tally import tally

    last = read_last_run(_store(config).root)
    if last is None:
        return
    policy = load_policy(config.policy_path)
    skipped, notices = visible_report(last, Rights(resolve_profile(config.profile, policy), policy), {})
    told = (
        ("left out", tally([(item.source, item.reason) for item in skipped], most=_EXAMPLES)),
        ("notes", tally([(item.source, item.text) for item in notices], most=_EXAMPLES)),
    )
    parts = [f"{found.total:,} {what}{f' ({found.kinds})' if found.total else ''}" for what, found in told]
    examples = [f"{source}: {text}" for _, found in told for source, text in found.examples]
    detail = "; ".join(
        [f"{last.finished_at}: {', '.join(parts)}", *(["for example " + "; ".join(examples)] if examples else [])]
    )
    yield Finding("last ingest", True, detail)


def _check_lock(config: Config) -> Iterator[Finding]:
    store = _store(config)
    if not store.folder.is_dir():
        return  # no store: looking for its lock would make one
    if not is_writable(store.root):
        yield Finding("lock", True, "the store is read-only here: searching works, ingesting does not")
        return
    try:
        with store.writer_lock():
            yield Finding("lock", True, "free")
    except StoreLocked as error:
        yield Finding("lock", True, f"{error} That is fine while it runs.")


def _check_disk(config: Config) -> Iterator[Finding]:
    folder = _store(config).root
    while not os.path.exists(folder) and folder != folder.parent:
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    used = _size(_store(config).root)
    detail = f"{used / 2**20:.0f} MiB used by the store, {free / 2**20:.0f} MiB free"
    yield Finding("disk", free > max(_LOW_DISK_BYTES, used), detail)


def _size(folder: Path) -> int:
    """Bytes on disk; a file with several names (shared by generations) counts once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            status = os.lstat(os.path.join(base, name))
            if (status.st_dev, status.st_ino) not in seen:
                seen.add((status.st_dev, status.st_ino))
                total += status.st_size
    return total
