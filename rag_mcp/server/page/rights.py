"""Which profiles are there, and which of them see everything?"""

from __future__ import annotations

from rag_mcp.access.load import PolicyWatch
from rag_mcp.access.policy import Policy
from rag_mcp.access.profiles import resolve_profile
from rag_mcp.config import Config
from rag_mcp.errors import RagMcpError
from rag_mcp.models import SourceClass

__all__ = ["ProfileBook"]


class ProfileBook:
    """The policies as they are now, one for each corpus. Where one can't be read, nobody is an auditor."""

    def __init__(self, config: Config) -> None:
        self._watches = [PolicyWatch(each.policy_path) for each in config.corpora.values() or [config]]

    def is_auditor(self, profile: str) -> bool:
        """Whether a profile sees every class of every corpus, so that what others see or asked is no news to it."""
        every, policies = frozenset(SourceClass), self._policies()
        return bool(policies) and all(resolve_profile(profile, policy).classes == every for policy in policies)

    def names(self) -> list[str]:
        """The profiles that some policy defines."""
        return sorted({name for policy in self._policies() for name in policy.profiles})

    def _policies(self) -> list[Policy]:
        try:
            return [watch.current() for watch in self._watches]
        except RagMcpError:
            return []
