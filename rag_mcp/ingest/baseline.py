"""What is already indexed, and whether the next generation can be built upon it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass

from rag_mcp.errors import StoreDamaged, StoreEmpty
from rag_mcp.ingest.context import Context
from rag_mcp.stores.base import LiveSnapshot
from rag_mcp.stores.manifest import FileEntry, FileState, Manifest

__all__ = ["Baseline", "open_baseline"]


@dataclass(frozen=True, slots=True)
class Baseline:
    """``manifest`` is the live generation's; None, with the reason in ``rebuilt_because`` unless there was no generation,
    when everything must be built anew."""

    live: LiveSnapshot | None
    manifest: Manifest | None
    rebuilt_because: str | None

    @property
    def files(self) -> Mapping[str, FileEntry]:
        return self.manifest.files if self.manifest is not None else {}

    @property
    def states(self) -> Mapping[str, FileState]:
        return self.manifest.states if self.manifest is not None else {}

    @property
    def rejected(self) -> Mapping[str, tuple[str, str]]:
        return self.manifest.rejected if self.manifest is not None else {}

    @property
    def notices(self) -> Mapping[str, tuple[str, ...]]:
        return self.manifest.notices if self.manifest is not None else {}

    @property
    def known_files(self) -> int | None:
        """How many files are indexed, also where they are not built upon (--full, another embedder): they would be
        replaced. None where nothing has been published yet."""
        if self.manifest is not None:
            return len(self.manifest.states)
        return self.live.file_count if self.live is not None else None

    def derived_as(self, derivation: Mapping[str, object]) -> bool:
        return self.manifest is not None and dict(self.manifest.derivation) == derivation

    def has_other_policy(self, digests: Mapping[str, str]) -> bool:
        """Whether the live generation names another policy: readers compare theirs with what is written there."""
        if self.live is None:
            return False
        return any(self.live.info.notes.get(name) != digest for name, digest in digests.items())


@contextmanager
def open_baseline(run: Context) -> Iterator[Baseline]:
    """Hold the live generation open. Raises StoreDamaged when files of it are cut short, unless that is known."""
    try:
        live = run.store.open()
    except (StoreEmpty, StoreDamaged) as error:
        nothing = Baseline(None, None, str(error) if isinstance(error, StoreDamaged) else None)
    else:
        with closing(live):
            resized = live.resized()
            if resized and run.damage is None:
                raise StoreDamaged(f"Generation {live.number} is damaged: {', '.join(resized)}")
            yield _judged(run, live)
        return
    yield nothing


def _judged(run: Context, live: LiveSnapshot) -> Baseline:
    if run.options.full or run.options.clean or run.options.re_embed:
        return Baseline(live, None, run.damage or "asked for")
    if dict(live.info.identity) != run.identity:
        return Baseline(live, None, "another embedder, chunker or index format")
    try:
        return Baseline(live, live.manifest(), None)
    except StoreDamaged as error:
        return Baseline(live, None, str(error))
