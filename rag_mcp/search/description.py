"""What is a corpus about, in a line for who has not asked yet? Its owner's words, else those of a front page."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

from rag_mcp.access.policy import Policy
from rag_mcp.access.profiles import ResolvedProfile, Rights
from rag_mcp.config import Config
from rag_mcp.errors import RagMcpError
from rag_mcp.models import SourceClass
from rag_mcp.stores.published import PublishedStore
from rag_mcp.text.opening import FRONT_PAGES, is_front_page, one_description

__all__ = ["described", "presented"]


def described(setting: str, rights: Rights, notes: Mapping[str, object]) -> str:
    """The setting, else the policy's description, else the opening of the best front page that may be seen unasked, as
    the generation that wrote ``notes`` has it; a hidden one counts as none. Empty where nothing says it."""
    return one_description(setting) or one_description(rights.policy.description) or _opening(rights, notes)


def presented(
    config: Config,
    store: PublishedStore,
    access: Callable[[], tuple[Policy, ResolvedProfile]],
) -> str:
    """What is known without opening an index; nothing of a corpus whose policy or record of withdrawals can't be read."""
    words = config.description
    with contextlib.suppress(RagMcpError):
        policy, profile = access()
        words = words or policy.description
        number = store.live_number()
        rights = Rights(profile, policy, store.withdrawn_since(number))
        return described(config.description, rights, store.info(number).notes)
    return one_description(words)


def _opening(rights: Rights, notes: Mapping[str, object]) -> str:
    openings = notes.get("openings")
    if not isinstance(openings, dict):  # of an older version
        return ""
    pages = (item for item in openings.items() if is_front_page(item[0]))
    best_first = sorted(pages, key=lambda item: (FRONT_PAGES.index(item[0].lower()), item[0]))
    shown = (text for path, (kind, text) in best_first if rights.may_see(SourceClass(kind), path, requested=None))
    return next((words for text in shown if (words := one_description(text))), "")
