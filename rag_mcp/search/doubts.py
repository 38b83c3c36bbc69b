"""Which settings of a process are not what was meant? Light: a command that asks a warm server says it too."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from rag_mcp.access.load import load_policy
from rag_mcp.access.policy import Policy
from rag_mcp.access.profiles import profile_problem
from rag_mcp.config import Config
from rag_mcp.embedders import check_embedder_name
from rag_mcp.errors import EmbedderError, RagMcpError
from rag_mcp.stores.embedded.absent import live_generation
from rag_mcp.stores.embedded.generations import GenerationStore
from rag_mcp.stores.embedded.place import store_root

if TYPE_CHECKING:
    from rag_mcp.stores.base import SnapshotInfo

__all__ = ["doubtful_settings", "other_policy"]


def doubtful_settings(config: Config) -> list[str]:
    """Settings that name what does not exist or is not the ingest's, in words for whoever runs the process: each works
    as something less than was meant. An unusable policy file is an error of every answer instead."""
    if config.roots:
        return [f"{name}: {text}" for name, each in config.corpora.items() for text in doubtful_settings(each)]
    doubts: list[str | None] = []
    with contextlib.suppress(RagMcpError):
        policy = load_policy(config.policy_path)
        doubts.append(profile_problem(config.profile, policy))
        store = GenerationStore(store_root(config))
        doubts.append(other_policy(store.info(live_generation(store, config)), policy))
    try:
        check_embedder_name(config.embedder)
    except EmbedderError as error:
        doubts.append(f"RAG_MCP_EMBEDDER: {error} Until then only words are searched, not meanings.")
    return [text for text in doubts if text]


def other_policy(info: SnapshotInfo, policy: Policy) -> str | None:
    """What to know when the policy in force is not the one of the ingest that made a generation; None when it is, or
    when the generation is of a version that did not say."""
    differs = {name for name, digest in policy.digests.items() if info.notes.get(name, digest) != digest}
    if not differs:
        return None
    counts = (
        "what either of them hides stays hidden" if "policy" in differs else "only profiles differ, and its own count"
    )
    return (
        f"The last ingest used another policy than this process: {counts}. "
        "Run rag-mcp ingest with this policy (RAG_MCP_POLICY or --policy), or give this process that one."
    )
