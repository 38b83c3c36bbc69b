"""What the next generation is to hold, and how that differs from the live one."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from rag_mcp.ingest.baseline import Baseline
from rag_mcp.ingest.content import Content, parse_again
from rag_mcp.ingest.context import Context
from rag_mcp.ingest.options import Step
from rag_mcp.ingest.plan import Delta, FilePlan, diff_chunks
from rag_mcp.ingest.spool import SpooledMapping
from rag_mcp.models import Chunk
from rag_mcp.stores.manifest import ChangedFiles, FileEntry, Manifest, Row, stored_records
from rag_mcp.text.series import group_series, members_to_read

if TYPE_CHECKING:
    from rag_mcp.ingest.parse import ParsedFile

__all__ = ["Next", "next_state", "same_entry"]

_Series = Mapping[str, Sequence[str]]
"""Paths of a series' members in date order, by its key."""


@dataclass(frozen=True, slots=True)
class Next:
    """``chunks`` by id and ``embedded`` text by text key are those of every file that was parsed, spooled. ``content``
    has the neighbours in series too that had to be read again. ``changed`` False: the live generation holds it all."""

    content: Content
    manifest: Manifest
    chunks: Mapping[str, Chunk]
    embedded: Mapping[str, str]
    delta: Delta
    changed: bool


def next_state(run: Context, plan: FilePlan, content: Content, base: Baseline) -> Next:
    """Raises StoreDamaged when records of series are needed that the live index lacks."""
    other_policy = base.has_other_policy(run.policy.digests)
    if base.manifest is not None and not other_policy and _is_idle(run, content, base):
        return Next(content, base.manifest, {}, {}, Delta({}, {}, {}), changed=False)
    # Analysis and indexes: a run with nothing to do needs none.
    from rag_mcp.ingest.records import Records, assemble
    from rag_mcp.ingest.restore import stored_chunks

    series, left = _touched_series(plan, content, base)
    content = _with_neighbours(run, plan, content, base, series, left)
    records = Records(chunks=SpooledMapping(run.spool), embedded=SpooledMapping(run.spool))
    assemble(
        content.parsed,
        series,
        records,
        dedupe=run.options.snapshot_dedupe,
        before=base.files,
        known_members=_members(base),
        stored=partial(stored_chunks, base.live),
    )
    gone = base.states.keys() - content.unchanged - content.kept - records.entries.keys()
    manifest = Manifest(
        identity=run.identity,
        derivation=run.derivation,
        files=ChangedFiles(base.files, records.entries, gone),
        rejected=content.rejected,
        notices=_notices(content, base, records.notices),
    )
    replaced = (base.files[path] for path in gone.union(records.entries) if path in base.states)
    delta = diff_chunks(stored_records(replaced), stored_records(records.entries.values()))
    run.on_step(Step.PLANNED)
    changed = base.manifest is None or not delta.empty or other_policy or _entries_differ(base.manifest, manifest)
    return Next(content, manifest, records.chunks, records.embedded, delta, changed)


def _is_idle(run: Context, content: Content, base: Baseline) -> bool:
    """True when every file is what it was: the common run, which must not even compare records."""
    return (
        not content.parsed
        and content.unchanged | content.kept == base.states.keys()
        and content.rejected == base.rejected
        and base.derived_as(run.derivation)
    )


def _members(base: Baseline) -> _Series:
    """As they were, by series and in the order of their days."""
    dated = sorted((state.day or "", path, state.series) for path, state in base.states.items() if state.series)
    found: dict[str, list[str]] = {}
    for _, path, key in dated:
        found.setdefault(key, []).append(path)
    return found


def _touched_series(plan: FilePlan, content: Content, base: Baseline) -> tuple[_Series, set[str]]:
    """Series with a member that is new, changed or gone; and what has left its series (which may be none any more)
    without being read: it must be read again to stand alone."""
    classes = {path: base.states[path].source_class for path in content.unchanged | content.kept}
    classes |= {path: plan.files[path].source_class for path in content.parsed}
    groups = group_series(classes.items())
    before = {key: set(paths) for key, paths in _members(base).items()}
    touched = {
        key: members
        for key, members in groups.items()
        if set(members) != before.get(key, set()) or any(path in content.parsed for path in members)
    }
    left = {path for key, members in before.items() for path in members - set(groups.get(key, ()))}
    return touched, left & (content.unchanged | content.kept)


def _with_neighbours(
    run: Context, plan: FilePlan, content: Content, base: Baseline, series: _Series, left: set[str]
) -> Content:
    """Read the neighbours of what is new, changed or gone too: which of them owns a passage may have changed. One that
    can't be read now is restored from the index."""
    before = _members(base) if base.derived_as(run.derivation) else {}
    wanted = left.union(*(members_to_read(each, before.get(key, ()), content.parsed) for key, each in series.items()))
    found: SpooledMapping[ParsedFile] = SpooledMapping(run.spool)
    for path in sorted(wanted - content.parsed.keys()):
        found[path] = _look_again(run, plan, path, base.files[path], base)
    return replace(
        content,
        unchanged=content.unchanged.difference(found),
        kept=content.kept.difference(found),
        parsed=ChainMap(found, content.parsed),
    )


def _look_again(run: Context, plan: FilePlan, path: str, entry: FileEntry, base: Baseline) -> ParsedFile:
    from rag_mcp.ingest.restore import restore_file

    file = plan.files.get(path)
    parsed = parse_again(run, file, entry.sha256) if file is not None else None
    return parsed or restore_file(path, entry, base.live, notices=base.notices.get(path, ()))


def _notices(content: Content, base: Baseline, new: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """What is to be said of each indexed file: of those read just now, and as it was of the others."""
    kept = content.unchanged | content.kept
    known = {path: texts for path, texts in base.notices.items() if path in kept}
    return {**known, **{path: texts for path, texts in new.items() if texts}}


def _entries_differ(old: Manifest, new: Manifest) -> bool:
    """True when files or their passages changed although no stored record did (for example a repeated snapshot)."""
    return (
        old.states.keys() != new.states.keys()
        or dict(old.derivation) != dict(new.derivation)
        or dict(old.rejected) != dict(new.rejected)
        or dict(old.notices) != dict(new.notices)
        or any(not same_entry(old.files[path], entry) for path, entry in new.written.items())
    )


def same_entry(old: FileEntry, new: FileEntry) -> bool:
    """Compare but for the kind of sequence that rows are: a manifest that was read has lists."""
    return old is new or replace(old, rows=_plain(old)) == replace(new, rows=_plain(new))


def _plain(entry: FileEntry) -> tuple[Row, ...]:
    return tuple((row[0], row[1], row[2], row[3], row[4]) for row in entry.rows)
