"""Corpus policy: which class and project a path has, what a profile may see, what is included or denied.

The values and the pure decisions; ``policy_file`` reads YAML, and ``load`` asks for it when there is a file.

The built-in policy is for a plain vault. Everything is ``docs``, except that folders named decisions, adr, adrs, rfc or
rfcs (at any depth) hold ``decisions``, and a folder named memory, memories, config or configs *at the root* holds
``memory`` or ``config``. These two hide their notes from the restricted profile; that is the safer reading of such a
name at the root, while a folder like ``docs/reference/config`` deeper in a documentation tree stays ``docs``. A file
that only an ``include`` pattern brought in is ``code`` unless a rule says otherwise. Rules of a policy file come before
the built-in ones, so that adding a rule never opens a folder; a last rule ``**`` replaces them all.

Names are compared as written and as a file system or an eye may take them (``globs.folded``): ``Memory/`` is memory.
Where the two readings give different classes, the stricter one is the file's, and both must be permitted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from rag_mcp.models import SourceClass
from rag_mcp.text.filetypes import is_document
from rag_mcp.text.globs import GlobSet

__all__ = [
    "BUILT_IN_PROFILES",
    "BUILT_IN_RULES",
    "RESTRICTED",
    "Placement",
    "Policy",
    "ProfileRule",
    "Rule",
    "WITHHELD_BY",
    "SecretAllowance",
    "classes_of",
    "classify",
    "denied",
    "classes_told_of",
    "secret_allowed",
]

RESTRICTED = "restricted"
WITHHELD_BY = "front matter"  # the reasons of files that withhold themselves from every profile begin so


@dataclass(frozen=True, slots=True)
class Rule:
    """Paths matching ``glob`` get the class, the project, or both; None leaves it to a later rule."""

    glob: str
    source_class: SourceClass | None = None
    project: str | None = None


@dataclass(frozen=True, slots=True)
class ProfileRule:
    """Classes a profile may see; those in ``explicit_only`` only when asked for by name."""

    classes: frozenset[SourceClass]
    explicit_only: frozenset[SourceClass] = frozenset()


@dataclass(frozen=True, slots=True)
class SecretAllowance:
    """Secrets of these ``kinds`` (empty: any kind, names as the guard reports them) are accepted under ``glob``."""

    glob: str
    kinds: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Placement:
    source_class: SourceClass
    project: str | None


_STRICTEST_FIRST = (SourceClass.CONFIG, SourceClass.MEMORY, SourceClass.CODE, SourceClass.DECISIONS, SourceClass.DOCS)
_KEPT_CLASSES = 65_536  # paths whose classes a policy remembers: a search asks for the same ones again and again

BUILT_IN_RULES: tuple[Rule, ...] = (
    *(Rule(f"/{name}/", SourceClass.MEMORY) for name in ("memory", "memories")),
    *(Rule(f"/{name}/", SourceClass.CONFIG) for name in ("config", "configs")),
    *(Rule(f"{name}/", SourceClass.DECISIONS) for name in ("decisions", "adr", "adrs", "rfc", "rfcs")),
)

BUILT_IN_PROFILES: Mapping[str, ProfileRule] = MappingProxyType(
    {
        RESTRICTED: ProfileRule(frozenset({SourceClass.DOCS, SourceClass.DECISIONS})),
        "engineer": ProfileRule(frozenset({SourceClass.CODE, SourceClass.DOCS, SourceClass.DECISIONS})),
        "auditor": ProfileRule(frozenset(SourceClass), frozenset({SourceClass.CONFIG})),
    }
)


@dataclass(frozen=True, slots=True)
class Policy:
    """An effective policy, its patterns compiled. ``profiles`` are laid over the built-in ones, so ``restricted``
    always exists. Raises ValueError for a pattern that can't be used.

    ``digests`` names the two halves: ``policy`` is what an index depends on, ``profiles`` who may see what of it.
    """

    rules: tuple[Rule, ...] = BUILT_IN_RULES
    profiles: Mapping[str, ProfileRule] = field(default_factory=lambda: BUILT_IN_PROFILES)
    include: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    allow_secrets: tuple[SecretAllowance, ...] = ()
    description: str = ""
    digests: Mapping[str, str] = field(init=False)
    _matchers: _Matchers = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "profiles", MappingProxyType({**BUILT_IN_PROFILES, **self.profiles}))
        object.__setattr__(self, "digests", _digests(self))
        object.__setattr__(self, "_matchers", _Matchers.of(self))

    @property
    def include_globs(self) -> GlobSet:
        return self._matchers.include


@dataclass(frozen=True, slots=True)
class _Matchers:
    class_rules: tuple[Rule, ...]
    class_globs: GlobSet
    loose_class_globs: GlobSet
    known_classes: dict[str, tuple[SourceClass, ...]]
    project_rules: tuple[Rule, ...]
    project_globs: GlobSet
    include: GlobSet
    deny: GlobSet
    secrets: tuple[GlobSet, ...]

    @classmethod
    def of(cls, policy: Policy) -> _Matchers:
        class_rules = tuple(rule for rule in policy.rules if rule.source_class is not None)
        project_rules = tuple(rule for rule in policy.rules if rule.project is not None)
        return cls(
            class_rules=class_rules,
            class_globs=GlobSet([rule.glob for rule in class_rules]),
            loose_class_globs=GlobSet([rule.glob for rule in class_rules], fold=True),
            known_classes={},
            project_rules=project_rules,
            project_globs=GlobSet([rule.glob for rule in project_rules]),
            include=GlobSet(policy.include),
            deny=GlobSet(policy.deny, fold=True),
            secrets=tuple(GlobSet([allowance.glob]) for allowance in policy.allow_secrets),
        )


def classify(policy: Policy, path: str) -> Placement:
    """Place a relative posix ``path``: the first matching rule that names a class gives the class, the first that
    names a project gives the project. Without one: docs for markdown, code for other included files, no project.
    """
    matchers = policy._matchers
    found = matchers.project_globs.first(path)
    project = None if found is None else matchers.project_rules[found].project
    return Placement(classes_of(policy, path)[0], project)


def classes_of(policy: Policy, path: str) -> tuple[SourceClass, ...]:
    """Return the class of ``path``, and behind it the other one that its name gives when read as written or loosely."""
    known = policy._matchers.known_classes
    found = known.get(path)
    if found is None:
        found = _classes(policy._matchers, path)
        if len(known) < _KEPT_CLASSES:
            known[path] = found
    return found


def _classes(matchers: _Matchers, path: str) -> tuple[SourceClass, ...]:
    rules = [globs.first(path) for globs in (matchers.class_globs, matchers.loose_class_globs)]
    read = {matchers.class_rules[rule].source_class for rule in rules if rule is not None}
    # A name that only a loose reading gives a class is without a rule when read as written. To be a plain document hides
    # nothing, so it is no second class; to be code does.
    if not read or (None in rules and not is_document(path)):
        read.add(SourceClass.DOCS if is_document(path) else SourceClass.CODE)
    return tuple(each for each in _STRICTEST_FIRST if each in read)


def denied(policy: Policy, path: str) -> bool:
    """Tell whether a file, or a folder (closing slash), is denied, whatever its case or Unicode normalisation."""
    return policy._matchers.deny.matches(path)


def classes_told_of(policy: Policy, source: str) -> frozenset[SourceClass] | None:
    """Return the classes that a report about ``source`` tells something of, or None when it is denied.

    A source is a path as a report prints it: it may be a folder, or a link to one, so rules about what lies in it speak
    too. The name may have had a character that shows nothing, for which a stand-in is printed, or be cut short.
    """
    if source.endswith("\u2026"):
        return frozenset(SourceClass)
    names = {source, source.replace("\ufffd", "")}
    places = [place for name in names for place in (name, f"{name}/_.md")]
    if any(denied(policy, place) for place in places):
        return None
    return frozenset(each for place in places for each in classes_of(policy, place))


def secret_allowed(policy: Policy, path: str, kind: str) -> bool:
    """Tell whether the policy accepts a recognised secret of this ``kind`` in this file."""
    return any(
        (not allowance.kinds or kind in allowance.kinds) and matcher.matches(path)
        for allowance, matcher in zip(policy.allow_secrets, policy._matchers.secrets, strict=True)
    )


def _digests(policy: Policy) -> Mapping[str, str]:
    rules = [
        [[rule.glob, rule.source_class, rule.project] for rule in policy.rules],
        list(policy.include),
        list(policy.deny),
        [[allowance.glob, sorted(allowance.kinds)] for allowance in policy.allow_secrets],
    ]
    profiles = [
        [name, sorted(rule.classes), sorted(rule.explicit_only)] for name, rule in sorted(policy.profiles.items())
    ]
    return {name: _sha256(terms) for name, terms in (("policy", rules), ("profiles", profiles))}


def _sha256(terms: object) -> str:
    return hashlib.sha256(json.dumps(terms, ensure_ascii=True).encode("ascii")).hexdigest()
