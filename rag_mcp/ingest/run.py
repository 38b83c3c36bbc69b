"""One ingest run: walk, read, plan, embed what is new, build the next generation, verify, publish."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from rag_mcp.access.policy import Policy, classify, load_policy, secret_allowed
from rag_mcp.access.withdrawal import Withdrawal
from rag_mcp.config import Config
from rag_mcp.embedders import EmbedderIdentity, embedder_identity, open_embedder
from rag_mcp.errors import CorpusError, EmbedderError, StoreDamaged, StoreEmpty, StoreError
from rag_mcp.ingest.claim import Claim, check_same_files, claimed
from rag_mcp.ingest.options import GUARD_VERSION, IngestOptions, Progress, Step
from rag_mcp.ingest.plan import Delta, FilePlan, Placed, check_shrink, diff_chunks, is_below, plan_files, same_place
from rag_mcp.ingest.statcache import FileStat, StatCache, read_stat_cache, write_stat_cache
from rag_mcp.ingest.walk import (
    CorpusFile,
    CorpusListing,
    FileGone,
    FileRefused,
    FileUnreadable,
    read_file,
    walk_corpus,
)
from rag_mcp.models import Chunk, IngestSummary, Notice, Skipped, SourceClass
from rag_mcp.places import is_inside
from rag_mcp.stores.embedded.files import writing
from rag_mcp.stores.embedded.generations import KEPT_GENERATIONS, Generation, GenerationStore
from rag_mcp.stores.embedded.lastrun import write_last_run
from rag_mcp.stores.embedded.manifest import METADATA_VERSION, FileEntry, Manifest, read_manifest
from rag_mcp.stores.embedded.place import resolve_store, store_folder, store_root
from rag_mcp.stores.embedded.withdrawn import read_withdrawals, settled, withdraw, write_withdrawals
from rag_mcp.text.series import group_series, members_to_read

if TYPE_CHECKING:
    from rag_mcp.embedders.base import Embedder, Vectors
    from rag_mcp.ingest.parse import ParsedFile, Reader
    from rag_mcp.ingest.records import Records
    from rag_mcp.stores.embedded.cache import EmbeddingCache
    from rag_mcp.text.chunking import ChunkLimits
    from rag_mcp.text.secrets import Finding

__all__ = ["run_ingest"]

_log = logging.getLogger(__name__)

_EMBED_SLICE = 256
_LOOKUP_SLICE = 4_096
_CACHE_RATIO = 1.5
_CACHE_SLACK = 512


def _silent(stage: str, done: int, total: int) -> None:
    return None


def _no_step(step: Step) -> None:
    return None


def run_ingest(
    config: Config,
    options: IngestOptions,
    *,
    progress: Progress | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> IngestSummary:
    """Bring the store in step with the corpus folder and publish a new generation if anything changed.

    A run with nothing to do loads neither a model nor an index. Raises CorpusError, StoreLocked, StoreReadOnly,
    StoreTooNew, EmbedderError or PolicyError; the store is then what it was.
    """
    root = _corpus_root(config)
    policy = load_policy(config.policy_path)
    store = GenerationStore(store_root(config))
    _check_apart(root, resolve_store(store_folder(config)))
    with store.writer_lock():
        step = on_step or _no_step
        step(Step.LOCKED)
        claim = claimed(store, root, os.path.abspath(config.corpus_root or root), adopt=options.adopt)
        run = _Run(config, options, root, policy, store, claim, progress or _silent, step)
        try:
            summary = run.execute()
        except StoreDamaged as error:
            # The live generation can't be built upon; corpus and cached vectors can. A second failure is final.
            anew = replace(options, full=True)
            again = _Run(config, anew, root, policy, store, claim, progress or _silent, step, damage=str(error))
            again.embedded_count = run.embedded_count
            summary = again.execute()
        if not options.dry_run:
            try:
                store.belong_to(claim.owner)
            except OSError as error:  # the generation says it too
                _log.warning("the store's folder of documents can't be noted: %s", error.strerror)
            write_last_run(store.root, _now(), summary.skipped, summary.notices)
        return summary


def _corpus_root(config: Config) -> Path:
    if config.corpus_root is None:
        raise CorpusError("No corpus folder: name it on the command line, or set RAG_MCP_CORPUS_ROOT.")
    if not os.path.lexists(config.corpus_root):
        raise CorpusError(f"The corpus folder does not exist: {config.corpus_root}")
    if not os.path.isdir(config.corpus_root):
        raise CorpusError(f"The corpus is not a folder: {config.corpus_root}")
    return Path(os.path.realpath(config.corpus_root))


def _check_apart(root: Path, store: Path) -> None:
    """Raises CorpusError before anything is made: a store in its corpus would be indexed, synchronised and shared with
    it, and a corpus in its store would be closed to its other readers."""
    for inner, outer, what in (
        (root, store, "corpus {} lies inside the store"),
        (store, root, "store {} lies inside the corpus"),
    ):
        if is_inside(inner, outer):
            raise CorpusError(
                f"The {what.format(inner)} {outer}: refused, nothing was written. Give the store a folder of its own "
                "outside the corpus (--db, RAG_MCP_DB_PATH); one that is there already may be moved as it is."
            )


@dataclass(slots=True)
class _Content:
    """What reading the planned files gave."""

    unchanged: dict[str, FileEntry] = field(default_factory=dict)
    parsed: dict[str, ParsedFile] = field(default_factory=dict)
    rejected: dict[str, tuple[str, str]] = field(default_factory=dict)
    kept: dict[str, FileEntry] = field(default_factory=dict)
    unreadable: list[Skipped] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)


@dataclass
class _Run:
    config: Config
    options: IngestOptions
    root: Path
    policy: Policy
    store: GenerationStore
    claim: Claim
    progress: Progress
    on_step: Callable[[Step], None]
    damage: str | None = None
    # What the run finds out on its way.
    started_ns: int = 0
    rebuilt_because: str | None = None
    embedded_count: int = 0
    published: bool = False
    dissolved: set[str] = field(default_factory=set)
    stats: StatCache = field(default_factory=StatCache)
    files: dict[str, CorpusFile] = field(default_factory=dict)
    placed: dict[str, Placed] = field(default_factory=dict)

    def execute(self) -> IngestSummary:
        started = time.monotonic()
        self.started_ns = time.time_ns()
        self.stats = read_stat_cache(self.store.root / "stat-cache.json", str(self.root))
        known_before = dict(self.stats.models)
        self.identity = embedder_identity(self.config, known=self.stats.models)
        with contextlib.ExitStack() as stack:
            live = self._open_live(stack)
            old = self._old_manifest(live)
            listing = walk_corpus(
                self.root,
                policy=self.policy,
                exclude=self.options.exclude,
                max_bytes=self.options.max_file_bytes,
                store_path=self.store.root,
            )
            self.files = {file.path: file for file in listing.files}
            if self.claim.unproven and live is not None:
                read = partial(read_file, self.root, max_bytes=self.options.max_file_bytes)
                check_same_files(self.store, live, self.root, self.files, read)
            self.on_step(Step.WALKED)
            plan = self._plan(listing, old, live)
            content = self._read(plan, old)
            published, delta, manifest = None, Delta({}, {}, {}), old
            if old is None or not self._idle(content, old) or self._other_policy(live):
                manifest, records = self._next_manifest(content, old, live)
                delta = diff_chunks(old.records() if old is not None else {}, manifest.records())
                self.on_step(Step.PLANNED)
                changed = old is None or not delta.empty or _entries_differ(old, manifest) or self._other_policy(live)
                if changed and not self.options.dry_run:
                    published = self._publish(manifest, records, delta, old, live)
            assert manifest is not None
            self._remember(models_changed=known_before != dict(self.stats.models))
            summary = self._summary(listing, content, old, manifest, delta, published, live)
        if not self.options.dry_run:
            self._collect(manifest)
        return replace(summary, elapsed_s=round(time.monotonic() - started, 3))

    # --- what was there ----------------------------------------------------------------------------------------------

    def _open_live(self, stack: contextlib.ExitStack) -> Generation | None:
        try:
            live = self.store.open()
        except StoreEmpty:
            return None
        except StoreDamaged as error:
            self.rebuilt_because = str(error)
            return None
        stack.callback(live.close)
        resized = live.resized()
        if resized and self.damage is None:
            raise StoreDamaged(f"Generation {live.number} is damaged: {', '.join(resized)}")
        return live

    def _old_manifest(self, live: Generation | None) -> Manifest | None:
        """The manifest to build on; None, with the reason kept for the report, when everything must be built anew."""
        if live is None:
            return None
        if self.options.full or self.options.clean or self.options.re_embed:
            self.rebuilt_because = self.damage or "asked for"
            return None
        if dict(live.info.identity) != self._identity():
            self.rebuilt_because = "another embedder, chunker or index format"
            return None
        try:
            return read_manifest(live.manifest_path)
        except StoreDamaged as error:
            self.rebuilt_because = str(error)
            return None

    def _identity(self) -> dict[str, object]:
        from rag_mcp.stores.embedded.formats import INDEX_FORMATS
        from rag_mcp.text.chunking import CHUNKER_VERSION

        return {
            "embedder": self.identity.fingerprint,
            "embedder_name": self.identity.name,
            "dimension": self.identity.dimension,
            "chunker": [CHUNKER_VERSION, *astuple(chunk_limits(self.identity))],
            "indexes": dict(INDEX_FORMATS),
        }

    def _derivation(self) -> dict[str, object]:
        return {
            "metadata": METADATA_VERSION,
            "snapshot_dedupe": self.options.snapshot_dedupe,
            "handoff_dirs": list(self.options.handoff_dirs),
            "handoff_basenames": list(self.options.handoff_basenames),
            "guard": [GUARD_VERSION, [[item.glob, sorted(item.kinds)] for item in self.policy.allow_secrets]],
        }

    # --- what is there now -------------------------------------------------------------------------------------------

    def _plan(self, listing: CorpusListing, old: Manifest | None, live: Generation | None) -> FilePlan:
        # What is known counts even when it is not built upon (--full, another embedder): it would be replaced.
        known_files = len(old.files) if old is not None else (live.info.files if live is not None else None)
        unreadable = [path for path in listing.unreadable if path]
        below = sum(is_below(path, unreadable) for path in (old.files if old is not None else ()))
        check_shrink(
            known_files,
            len(listing.files) + below,
            allow=self.options.allow_shrink,
            root=self.root,
            withheld=listing.withheld,
        )
        trust = old is not None and dict(old.derivation) == self._derivation() and not self.options.rehash
        placed = []
        for file in listing.files:
            place = classify(self.policy, file.path)
            sha = self.stats.known(file.path, _status(file)) if trust else None
            placed.append(Placed(file.path, place.source_class, place.project, sha))
        self.placed = {file.path: file for file in placed}
        return plan_files(placed, listing.unreadable, old, trust=trust)

    def _read(self, plan: FilePlan, old: Manifest | None) -> _Content:
        content = _Content(unchanged=dict(plan.unchanged), kept=dict(plan.kept))
        if old is not None:
            content.rejected = {path: old.rejected[path] for path in plan.still_rejected}
        same_rules = old is not None and dict(old.derivation) == self._derivation()
        for done, path in enumerate(plan.read):
            entry = old.files.get(path) if old is not None else None
            self._read_one(path, entry, content, same_rules)
            self.progress("read", done + 1, len(plan.read))
        for path in [path for path in content.parsed if self._moved(path)]:
            del content.parsed[path]
            content.unreadable.append(
                Skipped(path, "being written; the next run reads it. Kept as last indexed, if it was.")
            )
            if old is not None and path in old.files:
                content.kept[path] = old.files[path]
        return content

    def _moved(self, path: str) -> bool:
        """Tell whether a file has changed since it was listed, and so may be half written."""
        listed = self.files[path]
        try:
            now = os.lstat(self.root / path)
        except OSError:
            return False  # gone, or not to be seen: the next run finds that out
        return (now.st_size, now.st_mtime_ns) != (listed.size, listed.mtime_ns)

    def _read_one(self, path: str, entry: FileEntry | None, content: _Content, same_rules: bool) -> None:
        from rag_mcp.ingest.parse import Rejected
        from rag_mcp.text.decode import Undecodable, decode, text_digest

        file = self.files[path]
        try:
            raw = read_file(self.root, file, max_bytes=self.options.max_file_bytes)
        except FileGone:
            content.gone.append(path)
            return
        except FileRefused as error:
            content.rejected[path] = ("", str(error))
            return
        except FileUnreadable as error:
            content.unreadable.append(Skipped(path, f"{error} Kept as last indexed, if it was."))
            if entry is not None:
                content.kept[path] = entry
            return
        sha = f"raw:{hashlib.sha256(raw).hexdigest()}"
        try:
            text = decode(raw)
            sha = text_digest(text)
            if same_rules and entry is not None and entry.sha256 == sha and same_place(entry, self.placed[path]):
                content.unchanged[path] = entry
            else:
                content.parsed[path] = self._parse(path, text, sha)
        except (Undecodable, Rejected) as error:
            content.rejected[path] = (sha, str(error))
        self._note(file, sha)

    def _parse(self, path: str, text: str, sha: str) -> ParsedFile:
        place = self.placed[path]
        return self.reader.read(path, text, sha, source_class=place.source_class, project=place.project)

    def _note(self, file: CorpusFile, sha: str) -> None:
        self.stats.entries[file.path] = (_status(file), sha)

    @cached_property
    def embedder(self) -> Embedder:
        embedder = open_embedder(self.config, known=self.stats.models, lazy=True)
        if embedder.fingerprint != self.identity.fingerprint:
            raise EmbedderError("The model's files changed while the run was under way. Run again.")
        return embedder

    @cached_property
    def reader(self) -> Reader:
        from rag_mcp.ingest.parse import Reader
        from rag_mcp.text.terms import detect_language

        return Reader(
            count=self.embedder.count_tokens,
            limits=chunk_limits(self.identity),
            handoff_dirs=self.options.handoff_dirs,
            handoff_basenames=self.options.handoff_basenames,
            find_secrets=self._find_secrets,
            detect_language=detect_language,
        )

    def _find_secrets(self, path: str, text: str) -> list[Finding]:
        from rag_mcp.text.secrets import AllowList, find_secrets

        return find_secrets(text, path=path, allow=AllowList(accepts=partial(secret_allowed, self.policy)))

    # --- what the next generation holds ------------------------------------------------------------------------------

    def _idle(self, content: _Content, old: Manifest) -> bool:
        """True when every file is what it was: the common run, which must not even compare records."""
        return (
            not content.parsed
            and content.unchanged.keys() | content.kept.keys() == old.files.keys()
            and content.rejected == {path: tuple(reason) for path, reason in old.rejected.items()}
            and dict(old.derivation) == self._derivation()
        )

    def _next_manifest(
        self, content: _Content, old: Manifest | None, live: Generation | None
    ) -> tuple[Manifest, Records]:
        from rag_mcp.ingest.records import Records, assemble

        series = self._series(content, old)
        self._complete_series(series, content, old, live)
        entries = {**content.unchanged, **content.kept}
        records = Records()
        if content.parsed or series:
            records = assemble(
                content.parsed,
                series,
                dedupe=self.options.snapshot_dedupe,
                before=old.files if old is not None else {},
                stored=partial(self._stored, live),
            )
            entries.update(records.entries)
        manifest = Manifest(
            identity=self._identity(),
            derivation=self._derivation(),
            files=dict(sorted(entries.items())),
            rejected=content.rejected,
            notices=_notices(content, old),
        )
        return manifest, records

    def _series(self, content: _Content, old: Manifest | None) -> dict[str, list[str]]:
        """Series that must be looked at again, with all their members: any member is new, changed or gone."""
        classes: dict[str, SourceClass] = {path: file.source_class for path, file in content.parsed.items()}
        for path, entry in [*content.unchanged.items(), *content.kept.items()]:
            classes[path] = entry.source_class
        groups = group_series(classes.items())
        before: dict[str, set[str]] = {}
        for path, entry in (old.files if old is not None else {}).items():
            if entry.series is not None:
                before.setdefault(entry.series, set()).add(path)
        touched = {
            key: members
            for key, members in groups.items()
            if set(members) != before.get(key, set()) or any(path in content.parsed for path in members)
        }
        # What has left its series (which may be none any more) must be read again to stand alone.
        self.dissolved = {
            path
            for key, members in before.items()
            for path in members - set(groups.get(key, ()))
            if path in content.unchanged or path in content.kept
        }
        return touched

    def _complete_series(
        self, series: Mapping[str, Sequence[str]], content: _Content, old: Manifest | None, live: Generation | None
    ) -> None:
        """Read the neighbours of what is new, changed or gone too: which of them owns a passage may have changed."""
        before: dict[str, list[str]] = {}
        if old is not None and dict(old.derivation) == self._derivation():
            members_of = [(known.day or "", path, known.series) for path, known in old.files.items() if known.series]
            for _, path, key in sorted(members_of):
                before.setdefault(key, []).append(path)
        wanted = set(self.dissolved)
        for key, members in series.items():
            wanted |= members_to_read(members, before.get(key, ()), content.parsed)
        for path in sorted(wanted - content.parsed.keys()):
            entry = content.unchanged.pop(path, None) or content.kept.pop(path)
            parsed = self._reread(path, entry)
            if parsed is None:
                parsed = self._restore(path, entry, live, old)
            content.parsed[path] = parsed

    def _stored(self, live: Generation | None, source_class: SourceClass, ids: set[str]) -> Mapping[str, Chunk]:
        from rag_mcp.ingest.restore import stored_chunks

        if live is None:
            raise StoreDamaged("No index holds the records that are needed.")
        return stored_chunks(live.keywords_path, source_class, ids)

    def _reread(self, path: str, entry: FileEntry) -> ParsedFile | None:
        from rag_mcp.text.decode import decode, text_digest

        if path not in self.files:
            return None
        try:
            text = decode(read_file(self.root, self.files[path], max_bytes=self.options.max_file_bytes))
            sha = text_digest(text)
            return self._parse(path, text, sha) if sha == entry.sha256 else None
        except CorpusError:
            return None

    def _restore(self, path: str, entry: FileEntry, live: Generation | None, old: Manifest | None) -> ParsedFile:
        """The file as it was last indexed, from the index itself: it can't be read now."""
        from rag_mcp.ingest.restore import restore_file

        if live is None:
            raise StoreDamaged(f"{path} can't be read, and no index holds its last state.")
        notices = old.notices.get(path, ()) if old is not None else ()
        return restore_file(path, entry, live.keywords_path, notices=notices)

    # --- build and publish -------------------------------------------------------------------------------------------

    def _publish(
        self, manifest: Manifest, records: Records, delta: Delta, old: Manifest | None, live: Generation | None
    ) -> int:
        from rag_mcp.ingest.build import BuildJob, build_generation
        from rag_mcp.stores.embedded.cache import EmbeddingCache

        cache = EmbeddingCache(self.store.cache_path, self.identity.fingerprint)
        try:
            self.embedded_count += self._embed(records, delta, cache)
            self.on_step(Step.EMBEDDED)
            number = build_generation(
                BuildJob(
                    store=self.store,
                    live=live if old is not None else None,
                    parent=live.number if live is not None else None,
                    manifest=manifest,
                    chunks=records.chunks,
                    delta=delta,
                    cache=cache,
                    dimension=self.identity.dimension,
                    created_at=_now(),
                    notes=self._notes(),
                    before_publishing=lambda number: self._withdraw(manifest, old, live, number),
                    progress=self.progress,
                    on_step=self.on_step,
                )
            )
            self.published = True
            return number
        finally:
            cache.close()

    def _other_policy(self, live: Generation | None) -> bool:
        """Whether the live generation names another policy: readers compare theirs with what is written there."""
        return live is not None and live.info.notes.get("policy") != self.policy.ingest_digest

    def _withdraw(self, manifest: Manifest, old: Manifest | None, live: Generation | None, number: int) -> None:
        """Record what kept generations must not show once ``number``, which holds ``manifest``, is live."""
        numbers = self.store.numbers()
        known = _known_withdrawals(self.store)
        if known is not None and old is not None and live is not None and numbers[-1:] == [live.number]:
            before = [old]  # what older ones hold besides was recorded when this one was published
        else:
            before = [found for each in numbers if (found := _manifest_of(self.store, each)) is not None]
        record = withdraw(
            known or {},
            before,
            manifest,
            number,
            oldest=min(numbers, default=number),
            on_disk=lambda path: os.path.lexists(self.root / path),
        )
        write_withdrawals(self.store.root, record)

    def _settle_withdrawals(self, manifest: Manifest) -> None:
        """Let go of what the corpus holds again: a run that was killed may have recorded it without publishing."""
        known = _known_withdrawals(self.store)
        if known is None:
            self._withdraw(manifest, None, None, self.store.next_number())
        elif (left := settled(known, manifest)) != known:
            write_withdrawals(self.store.root, left)

    def _notes(self) -> dict[str, object]:
        return {"embedder_name": self.identity.name, "policy": self.policy.ingest_digest, **self.claim.notes()}

    def _embed(self, records: Records, delta: Delta, cache: EmbeddingCache) -> int:
        """Compute the vectors that are not cached yet, keeping each batch as it comes; return how many."""
        needed = {records.chunks[i].text_key: None for ids in delta.added.values() for i in ids if i in records.chunks}
        missing = list(needed) if self.options.re_embed else _not_cached(cache, list(needed))
        for start in range(0, len(missing), _EMBED_SLICE):
            self.on_step(Step.EMBEDDING)
            keys = missing[start : start + _EMBED_SLICE]
            if not all(records.embedded[key] for key in keys):
                raise StoreDamaged("A file can't be read now, and the vectors of its last state are lost.")
            done = start

            def keep(offset: int, rows: Vectors, keys: Sequence[str] = keys, done: int = done) -> None:
                cache.put(keys[offset : offset + len(rows)], rows)
                self.progress("embed", done + offset + len(rows), len(missing))

            self.embedder.embed_documents([records.embedded[key] for key in keys], on_batch=keep)
        return len(missing)

    def _collect(self, manifest: Manifest) -> None:
        """Tidy up. What was published stays so when this fails; the next run does it again."""
        try:
            with writing(self.store.root):
                if not self.published and self.store.pointer_problem() is not None:
                    self._point_anew()
                self._settle_withdrawals(manifest)
                self.store.sweep()
                self.store.collect_for_good(asked=self.options.clean, keep=KEPT_GENERATIONS)
            self.on_step(Step.COLLECTED)
            if self.published:
                self._trim_cache()
        except StoreError as error:
            _log.warning("left for the next run: %s", error)

    def _point_anew(self) -> None:
        live = self.store.current()
        if live is not None:
            self.store.point_to(live)

    def _trim_cache(self) -> None:
        """Drop cached vectors that no kept generation uses, once there are many: a reverted edit or another branch
        checked out again is then mostly free, and the cache stays in proportion to the store."""
        from rag_mcp.stores.embedded.cache import EmbeddingCache

        keep: dict[str, set[str]] = {}
        for number in self.store.numbers():
            try:
                manifest = read_manifest(self.store.path(number) / "manifest.json")
            except StoreDamaged:
                return  # what it uses is unknown: keep everything
            keep.setdefault(str(manifest.identity["embedder"]), set()).update(manifest.text_keys())
        cache = EmbeddingCache(self.store.cache_path, self.identity.fingerprint)
        try:
            used = keep.pop(self.identity.fingerprint, set())
            if self.options.clean or cache.count() > len(used) * _CACHE_RATIO + _CACHE_SLACK:
                cache.trim(used, keep)
        finally:
            cache.close()

    def _remember(self, *, models_changed: bool) -> None:
        present = {path: entry for path, entry in self.stats.entries.items() if path in self.files}
        settled = all(
            self.stats.known(path, _status(file)) is not None for path, file in self.files.items() if path in present
        )
        if self.options.dry_run or (settled and len(present) == len(self.stats.entries) and not models_changed):
            return
        cache = StatCache(str(self.root), self.started_ns, present, self.stats.models)
        try:
            write_stat_cache(self.store.root / "stat-cache.json", cache)
        except OSError as error:
            _log.warning("the next run has to read all files again: %s", error.strerror)

    def _summary(
        self,
        listing: CorpusListing,
        content: _Content,
        old: Manifest | None,
        manifest: Manifest,
        delta: Delta,
        published: int | None,
        live: Generation | None,
    ) -> IngestSummary:
        skipped = (
            *listing.skipped,
            *(Skipped(path, "unreadable; kept as last indexed, if it was") for path in listing.unreadable),
            *content.unreadable,
            *(Skipped(path, reason) for path, (_, reason) in sorted(content.rejected.items())),
        )
        changed = {
            path
            for path in content.parsed
            if old is None or path not in old.files or _plain(old.files[path]) != _plain(manifest.files[path])
        }
        embedder = self.__dict__.get("embedder")
        return IngestSummary(
            files_seen=len(listing.files),
            files_ingested=len(changed),
            files_unchanged=len(manifest.files) - len(changed),
            files_skipped=len(skipped),
            files_deleted=sum(path not in manifest.files for path in old.files) if old is not None else 0,
            chunks_added=delta.size(lambda part: part.added),
            chunks_deleted=delta.size(lambda part: part.deleted),
            chunks_updated=delta.size(lambda part: part.updated),
            chunks_deduped=sum(not row[4] for entry in manifest.files.values() for row in entry.rows),
            chunks_embedded=self.embedded_count,
            chunks_truncated=int(getattr(embedder, "truncated", 0)),
            incremental=old is not None,
            rebuilt_because=self.rebuilt_because,
            store_count=sum(manifest.counts().values()),
            generation=published if published is not None else (live.number if live is not None else None),
            published=published is not None,
            skipped=skipped,
            notices=(
                *listing.notices,
                *(Notice(path, text) for path, texts in sorted(manifest.notices.items()) for text in texts),
            ),
            excluded=listing.excluded,
            unmet=listing.unmet,
            files_unreadable=len(listing.unreadable) + len(content.unreadable),
            elapsed_s=0.0,
        )


def chunk_limits(identity: EmbedderIdentity) -> ChunkLimits:
    """Chunk sizes for a model, in its own tokens; two are kept for the special ones."""
    from rag_mcp.text.chunking import ChunkLimits

    return ChunkLimits(max_tokens=min(identity.max_tokens, 256) - 2)


def _manifest_of(store: GenerationStore, number: int) -> Manifest | None:
    """None for a generation whose manifest is damaged: it can't be served either."""
    try:
        return read_manifest(store.path(number) / "manifest.json")
    except StoreDamaged:
        return None


def _known_withdrawals(store: GenerationStore) -> dict[str, Withdrawal] | None:
    """None when there is no record that can be read: the kept generations then say what it must hold."""
    try:
        return read_withdrawals(store.root)
    except StoreDamaged:
        return None


def _not_cached(cache: EmbeddingCache, keys: Sequence[str]) -> list[str]:
    """Keys without a sound vector, looked up in slices: the vectors themselves are not kept in memory."""
    missing: list[str] = []
    for start in range(0, len(keys), _LOOKUP_SLICE):
        part = keys[start : start + _LOOKUP_SLICE]
        known = cache.get(part)
        missing.extend(key for key in part if key not in known)
    return missing


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _status(file: CorpusFile) -> FileStat:
    return file.size, file.mtime_ns, file.ctime_ns, file.inode


def _notices(content: _Content, old: Manifest | None) -> dict[str, tuple[str, ...]]:
    """What is to be said of each indexed file: of those read just now, and as it was of the others."""
    before = old.notices if old is not None else {}
    known = {path: before[path] for path in [*content.unchanged, *content.kept] if path in before}
    return {**known, **{path: file.notices for path, file in content.parsed.items() if file.notices}}


def _entries_differ(old: Manifest, new: Manifest) -> bool:
    """True when files or their passages changed although no stored record did (for example a repeated snapshot)."""
    return (
        old.files.keys() != new.files.keys()
        or dict(old.derivation) != dict(new.derivation)
        or {path: tuple(value) for path, value in old.rejected.items()} != dict(new.rejected)
        or dict(old.notices) != dict(new.notices)
        or any(
            entry is not new.files[path] and _plain(entry) != _plain(new.files[path])
            for path, entry in old.files.items()
        )
    )


def _plain(entry: FileEntry) -> tuple[object, ...]:
    rows = tuple(tuple(row) for row in entry.rows)
    return entry.sha256, entry.source_class, entry.project, entry.doc_class, entry.title, entry.series, entry.day, rows
