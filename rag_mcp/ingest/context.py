"""What one run works with from its first step to its last."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import astuple, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rag_mcp.access.policy import Policy
from rag_mcp.config import Config
from rag_mcp.embedders import EmbedderIdentity, embedder_identity, open_embedder
from rag_mcp.errors import EmbedderError
from rag_mcp.ingest.claim import Claim
from rag_mcp.ingest.options import CONVERTER_VERSION, GUARD_VERSION, IngestOptions, Progress, Step
from rag_mcp.ingest.spool import Spool
from rag_mcp.ingest.statcache import StatCache
from rag_mcp.stores.manifest import METADATA_VERSION
from rag_mcp.stores.workplace import Workplace
from rag_mcp.text.chunking import CHUNKER_VERSION
from rag_mcp.text.limits import ChunkLimits

if TYPE_CHECKING:
    from rag_mcp.embedders.base import Embedder

__all__ = ["Context", "LazyEmbedder"]


class LazyEmbedder:
    """The run's embedder: known by its identity, opened when it is first needed. ``embedded`` counts the texts it was
    given, also by a first attempt that failed. ``known`` as in ``open_embedder``."""

    def __init__(self, config: Config, known: MutableMapping[str, str]) -> None:
        self._config, self._known, self._known_before = config, known, dict(known)
        self.identity: EmbedderIdentity = embedder_identity(config, known=known)
        self.embedded = 0

    @cached_property
    def opened(self) -> Embedder:
        embedder = open_embedder(self._config, known=self._known, lazy=True)
        if embedder.fingerprint != self.identity.fingerprint:
            raise EmbedderError("The model's files changed while the run was under way. Run again.")
        return embedder

    @property
    def truncated(self) -> int:
        return int(getattr(self.__dict__.get("opened"), "truncated", 0))

    @property
    def hashed_files(self) -> bool:
        """Whether digests of model files had to be computed."""
        return self._known_before != dict(self._known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """``damage`` is why a first attempt failed; the second one is told to start from nothing."""

    options: IngestOptions
    root: Path
    policy: Policy
    store: Workplace
    claim: Claim
    stats: StatCache
    embedder: LazyEmbedder
    spool: Spool
    started_ns: int
    progress: Progress
    on_step: Callable[[Step], None]
    damage: str | None = None

    @property
    def chunk_limits(self) -> ChunkLimits:
        return ChunkLimits.of_model(self.embedder.identity.max_tokens)

    @property
    def identity(self) -> dict[str, object]:
        """Decides whether vectors and records may be mixed with those of another generation."""
        embedder = self.embedder.identity
        return {
            "embedder": embedder.fingerprint,
            "embedder_name": embedder.name,
            "dimension": embedder.dimension,
            "chunker": [CHUNKER_VERSION, *astuple(self.chunk_limits)],
            "indexes": dict(self.store.formats),
        }

    @property
    def derivation(self) -> dict[str, object]:
        """How metadata is derived from a file."""
        return {
            "metadata": METADATA_VERSION,
            "snapshot_dedupe": self.options.snapshot_dedupe,
            "handoff_dirs": list(self.options.handoff_dirs),
            "handoff_basenames": list(self.options.handoff_basenames),
            "converter": CONVERTER_VERSION,
            "guard": [GUARD_VERSION, [[item.glob, sorted(item.kinds)] for item in self.policy.allow_secrets]],
        }

    def notes(self) -> dict[str, object]:
        """What the generation says of itself besides what it holds."""
        return {
            "embedder_name": self.embedder.identity.name,
            **self.policy.digests,
            **self.claim.notes(),
        }
