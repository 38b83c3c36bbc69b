"""Every error this package raises on purpose; each class carries its wire code and says what to do.

``str(error)`` is for every caller, a model behind a narrow profile included. What only whoever runs the process may
read (what a policy says, where things lie on this machine) is in ``for_operator``: for the log and the command line.

RagMcpError
├── InvalidArgument            invalid_argument     the caller's arguments; names the field and what is allowed
│   └── InvalidQuery           invalid_query
├── NotFound                   not_found            no such document, or one the caller may not see (the same answer)
├── ConfigError                config_error
│   └── PolicyError            policy_invalid       unusable policy file: line and kind; its words only for the operator
├── ServerRunning              server_running       a server of this store runs already, or does not end
├── ServerGone                 server_gone          none runs that answers as this process would, and none could be started
├── CorpusError                corpus_error
│   └── CorpusShrunk           corpus_shrunk        refused: the folder suddenly looks (nearly) empty
├── StoreError                 store_error
│   ├── StoreEmpty             empty_store          nothing has been ingested here yet
│   │   └── StoreAbsent        empty_store          what is at the configured place instead, and what to run
│   ├── StoreLocked            store_locked         another ingest holds the writer lock
│   ├── StoreReadOnly          store_read_only
│   ├── StoreTooNew            store_too_new        written by a newer format
│   ├── StoreDamaged           store_damaged
│   └── IndexMismatch          index_mismatch       the store was built with another embedder
└── EmbedderError              embedder_error
    ├── UnknownEmbedder        unknown_embedder
    ├── ModelMissing           model_missing        carries the command that installs it
    ├── ModelNotFetched        model_not_fetched    the hub can't be reached, refuses, or gave other bytes
    └── ModelDamaged           model_damaged
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = [
    "ConfigError",
    "CorpusError",
    "CorpusShrunk",
    "EmbedderError",
    "IndexMismatch",
    "InvalidArgument",
    "InvalidQuery",
    "ModelDamaged",
    "ModelMissing",
    "ModelNotFetched",
    "NotFound",
    "PolicyError",
    "RagMcpError",
    "ServerGone",
    "ServerRunning",
    "StoreAbsent",
    "StoreDamaged",
    "StoreEmpty",
    "StoreError",
    "StoreLocked",
    "StoreReadOnly",
    "StoreTooNew",
    "UnknownEmbedder",
]


class RagMcpError(Exception):
    """``message`` is the public text; ``detail`` replaces it for whoever runs the process."""

    code = "error"

    def __init__(self, message: str, *, detail: str | None = None) -> None:
        super().__init__(message)
        self.for_operator = detail or message


class InvalidArgument(RagMcpError):
    """An argument that can't be used; ``field`` names it, ``allowed`` lists the accepted values if few."""

    code = "invalid_argument"

    def __init__(self, field: str, message: str, *, allowed: Sequence[str] = ()) -> None:
        super().__init__(f"{field}: {message}" + (f" Allowed: {', '.join(allowed)}." if allowed else ""))
        self.field = field
        self.allowed = tuple(allowed)


class InvalidQuery(InvalidArgument):
    code = "invalid_query"


class NotFound(RagMcpError):
    """``nearest`` are documents the caller may see that may be meant."""

    code = "not_found"

    def __init__(self, message: str, *, nearest: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.nearest = tuple(nearest)


class ConfigError(RagMcpError):
    code = "config_error"


class PolicyError(ConfigError):
    code = "policy_invalid"


class ServerRunning(RagMcpError):
    code = "server_running"


class ServerGone(RagMcpError):
    code = "server_gone"


class CorpusError(RagMcpError):
    code = "corpus_error"


class CorpusShrunk(CorpusError):
    code = "corpus_shrunk"


class StoreError(RagMcpError):
    code = "store_error"


class StoreEmpty(StoreError):
    code = "empty_store"


class StoreAbsent(StoreEmpty):
    """The configured place holds no index that could answer.

    The text names places only as the operator wrote them into the settings, so it is told whole to every caller;
    ``looked_at`` is where they lead, for the operator.
    """

    def __init__(self, message: str, looked_at: Path) -> None:
        super().__init__(message, detail=f"{message} (looked at {looked_at.absolute()})")


class StoreLocked(StoreError):
    code = "store_locked"


class StoreReadOnly(StoreError):
    code = "store_read_only"


class StoreTooNew(StoreError):
    code = "store_too_new"


class StoreDamaged(StoreError):
    code = "store_damaged"


class IndexMismatch(StoreError):
    code = "index_mismatch"


class EmbedderError(RagMcpError):
    code = "embedder_error"


class UnknownEmbedder(EmbedderError):
    code = "unknown_embedder"


class ModelMissing(EmbedderError):
    code = "model_missing"


class ModelNotFetched(EmbedderError):
    code = "model_not_fetched"


class ModelDamaged(EmbedderError):
    code = "model_damaged"
