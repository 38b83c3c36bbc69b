"""Who may see what: the profile's classes before a search, every hit again after it. Pure.

Everything fails closed. A profile name counts only when it is written exactly as defined; a path that is forbidden,
missing or malformed gives one and the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rag_mcp.access.policy import RESTRICTED, Policy, classes_of, denied
from rag_mcp.models import SourceClass

if TYPE_CHECKING:
    from rag_mcp.access.withdrawal import Withdrawals

__all__ = [
    "AccessPlan",
    "ResolvedProfile",
    "Rights",
    "plan_access",
    "profile_in_words",
    "profile_problem",
    "resolve_profile",
]


_KEPT_DECISIONS = 100_000


@dataclass(frozen=True, slots=True)
class ResolvedProfile:
    """What one process may see; ``explicit_only`` is a subset of ``classes``."""

    name: str
    classes: frozenset[SourceClass]
    explicit_only: frozenset[SourceClass] = frozenset()


@dataclass(frozen=True, slots=True)
class AccessPlan:
    """Classes to search, sorted, and the caller's own request if it was refused (then ``classes`` is empty)."""

    classes: tuple[SourceClass, ...]
    skipped_by_acl: tuple[SourceClass, ...] = ()


def resolve_profile(raw: str | None, policy: Policy) -> ResolvedProfile:
    """Return the profile named exactly ``raw``; anything else, blanks and other case included, is ``restricted``."""
    name = raw if raw is not None and raw in policy.profiles else RESTRICTED
    rule = policy.profiles[name]
    return ResolvedProfile(name, rule.classes, rule.explicit_only & rule.classes)


def profile_problem(raw: str | None, policy: Policy) -> str | None:
    """What is wrong with a profile's name, for whoever runs the process; None when it is defined, or not given."""
    if not raw or raw in policy.profiles:
        return None
    defined = ", ".join(sorted(policy.profiles))
    return f"RAG_MCP_CLIENT_PROFILE is {raw!r}, which is not defined, so {RESTRICTED} counts. Defined: {defined}."


def profile_in_words(profile: ResolvedProfile) -> str:
    """What a profile may see, for whoever runs the process."""
    seen = ", ".join(sorted(profile.classes - profile.explicit_only)) or "nothing"
    asked = ", ".join(sorted(profile.explicit_only))
    hidden = ", ".join(sorted(frozenset(SourceClass) - profile.classes))
    words = f"profile {profile.name} may see {seen}"
    return words + (f", and {asked} when asked for by name" if asked else "") + (f"; never {hidden}" if hidden else "")


def plan_access(profile: ResolvedProfile, requested: SourceClass | None) -> AccessPlan:
    """Choose the classes a search may ask: all of the profile but the explicit ones, or the one requested."""
    if requested is None:
        return AccessPlan(tuple(sorted(profile.classes - profile.explicit_only)))
    if requested in profile.classes:
        return AccessPlan((requested,))
    return AccessPlan((), (requested,))


@dataclass(frozen=True, slots=True)
class Rights:
    """What one answer may show: within the profile, by the policy in force, and not withdrawn since.

    The index knows the class a document had when it was ingested, the policy the one it has by its path now. Each of
    them counts, so neither an ingest under another policy nor a server under another one opens anything. ``withdrawn``
    holds what the generation that is read must not show any more, or only to who may see where it is now. All three stay
    as they are, so what was decided once is kept.
    """

    profile: ResolvedProfile
    policy: Policy
    withdrawn: Withdrawals = field(default_factory=dict)
    _decided: dict[tuple[SourceClass, str, SourceClass | None], bool] = field(
        default_factory=dict, repr=False, compare=False
    )

    def may_see(self, source_class: SourceClass, source: str, *, requested: SourceClass | None) -> bool:
        """Tell whether a hit, listed document or count may leave, given the class the caller asked for (None: any).

        ``source_class`` is the indexed one.
        """
        asked = (source_class, source, requested)
        decided = self._decided.get(asked)
        if decided is None:
            if len(self._decided) >= _KEPT_DECISIONS:
                self._decided.clear()
            listed = source_class in plan_access(self.profile, requested).classes
            decided = self._decided[asked] = listed and self._permitted(source, requested)
        return decided

    def may_open(self, source_class: SourceClass, source: str) -> bool:
        """Tell whether a document asked for by its exact path may be shown.

        A full path is as explicit as a class name, so ``explicit_only`` classes open: the profile has the right, and
        ``explicit_only`` only keeps them from coming up unasked. A prefix or a list is not explicit: use ``may_see``.
        """
        return source_class in self.profile.classes and self._permitted(source, None, explicit=True)

    def _permitted(self, source: str, requested: SourceClass | None, *, explicit: bool = False) -> bool:
        if denied(self.policy, source):
            return False
        now = classes_of(self.policy, source)
        for each in self.withdrawn.get(source, ()):
            if each.hidden or (each.renamed is not None and denied(self.policy, each.renamed)):
                return False
            if each.source_class is not None:
                now = (*now, each.source_class)
            if each.renamed is not None:
                now = (*now, *classes_of(self.policy, each.renamed))
        profile = self.profile
        unasked = frozenset() if explicit else profile.explicit_only - {requested}
        return all(each in profile.classes and each not in unasked for each in now)
