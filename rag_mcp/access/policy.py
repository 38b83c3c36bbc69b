"""Corpus policy: which class and project a path has, what a profile may see, what is included or denied.

The values and the pure decisions; reading the YAML file is ``policy_file``'s, and loaded only when there is a file.

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
import os
import stat
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from rag_mcp.errors import PolicyError
from rag_mcp.models import SourceClass
from rag_mcp.text.globs import GlobSet

__all__ = [
    "BUILT_IN_PROFILES",
    "BUILT_IN_RULES",
    "MAX_POLICY_BYTES",
    "RESTRICTED",
    "Placement",
    "Policy",
    "PolicyWatch",
    "ProfileRule",
    "Rule",
    "WITHHELD_BY",
    "SecretAllowance",
    "built_in_policy",
    "classes_of",
    "classify",
    "denied",
    "included",
    "is_markdown",
    "load_policy",
    "secret_allowed",
]

RESTRICTED = "restricted"
MAX_POLICY_BYTES = 256 * 1024
WITHHELD_BY = "front matter"  # the reasons of files that withhold themselves from every profile begin so
_RACY_NS = 2_000_000_000  # the coarsest file times in use (FAT) tick every two seconds


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

    ``digest`` names all of it; ``ingest_digest`` only what an index depends on (not the profiles).
    """

    rules: tuple[Rule, ...] = BUILT_IN_RULES
    profiles: Mapping[str, ProfileRule] = field(default_factory=lambda: BUILT_IN_PROFILES)
    include: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    allow_secrets: tuple[SecretAllowance, ...] = ()
    digest: str = field(init=False)
    ingest_digest: str = field(init=False)
    _matchers: _Matchers = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "profiles", MappingProxyType({**BUILT_IN_PROFILES, **self.profiles}))
        object.__setattr__(self, "ingest_digest", _digest(_ingest_terms(self)))
        object.__setattr__(self, "digest", _digest([_ingest_terms(self), _profile_terms(self.profiles)]))
        object.__setattr__(self, "_matchers", _Matchers.of(self))


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


def built_in_policy() -> Policy:
    """Return the policy for a plain vault (see the module's docstring)."""
    return Policy()


def is_markdown(path: str) -> bool:
    """Tell whether a path names a markdown file, by its ending in any case."""
    return path.lower().endswith((".md", ".markdown"))


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
    # A name that only a loose reading gives a class is without a rule when read as written. To be plain markdown hides
    # nothing, so it is no second class; to be code does.
    if not read or (None in rules and not is_markdown(path)):
        read.add(SourceClass.DOCS if is_markdown(path) else SourceClass.CODE)
    return tuple(each for each in _STRICTEST_FIRST if each in read)


def denied(policy: Policy, path: str) -> bool:
    """Tell whether a file, or a folder (closing slash), is denied, whatever its case or Unicode normalisation."""
    return policy._matchers.deny.matches(path)


def included(policy: Policy, path: str) -> bool:
    """Tell whether a file belongs to the corpus by its name: markdown, or matched by an ``include`` pattern."""
    return is_markdown(path) or policy._matchers.include.matches(path)


def secret_allowed(policy: Policy, path: str, kind: str) -> bool:
    """Tell whether the policy accepts a recognised secret of this ``kind`` in this file."""
    return any(
        (not allowance.kinds or kind in allowance.kinds) and matcher.matches(path)
        for allowance, matcher in zip(policy.allow_secrets, policy._matchers.secrets, strict=True)
    )


def load_policy(path: Path | None) -> Policy:
    """Return the policy of a YAML file, or the built-in one for None. Raises PolicyError with line and key."""
    if path is None:
        return built_in_policy()
    return _parse(_read(path)[0], path)


class PolicyWatch:
    """The policy as its file says now: looked up at every ``current()`` call, re-read only when the file changed.

    A file that is missing or invalid makes every call raise PolicyError until it is repaired: what was denied in it
    must not be shown because it can't be read. Thread-safe.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp: tuple[int, ...] | None = None
        self._raw: bytes | None = None
        self._held: Policy | PolicyError | None = built_in_policy() if path is None else None

    def current(self) -> Policy:
        """Return the policy in force. Raises PolicyError."""
        if self._path is not None:
            with self._lock:
                self._refresh(self._path)
                held = self._held
        else:
            held = self._held
        if isinstance(held, Policy):
            return held
        # A fresh error each time: raising one object again and again would grow its traceback.
        raise PolicyError(str(held))

    def _refresh(self, path: Path) -> None:
        try:
            if self._stamp is not None and self._stamp == _stamp(os.stat(path)):
                return
            raw, stamp = _read(path)
        except (OSError, PolicyError) as error:
            self._stamp = self._raw = None
            self._held = error if isinstance(error, PolicyError) else _unreadable(path, error)
            return
        # A file written a moment ago can change again within one tick of its clock: look at its bytes until it is old.
        self._stamp = None if time.time_ns() - max(stamp[1:3]) < _RACY_NS else stamp
        if raw == self._raw:
            return
        self._raw = raw
        try:
            self._held = _parse(raw, path)
        except PolicyError as error:
            self._held = error


def _parse(raw: bytes, path: Path) -> Policy:
    from rag_mcp.access.policy_file import (
        parse_policy,  # brings pydantic and yaml, which the built-in policy does not need
    )

    return parse_policy(raw, name=path.name)


def _read(path: Path) -> tuple[bytes, tuple[int, ...]]:
    """Return the file's bytes and stamp. Raises PolicyError."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # before opening: a pipe would block
            raise PolicyError(f"RAG_MCP_POLICY: {path} is not a file; name a YAML file or unset it.")
        with open(path, "rb") as stream:
            stamp = _stamp(os.fstat(stream.fileno()))
            raw = stream.read(MAX_POLICY_BYTES + 1)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if len(raw) > MAX_POLICY_BYTES:
        raise PolicyError(
            f"{path.name} is larger than {MAX_POLICY_BYTES // 1024} KiB; shorten it, patterns may use **."
        )
    return raw, stamp


def _unreadable(path: Path, error: Exception) -> PolicyError:
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return PolicyError(f"RAG_MCP_POLICY: {path} can't be read ({why}); restore the file or unset the variable.")


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev)


def _ingest_terms(policy: Policy) -> list[object]:
    return [
        [[rule.glob, rule.source_class, rule.project] for rule in policy.rules],
        list(policy.include),
        list(policy.deny),
        [[allowance.glob, sorted(allowance.kinds)] for allowance in policy.allow_secrets],
    ]


def _profile_terms(profiles: Mapping[str, ProfileRule]) -> list[object]:
    return [[name, sorted(rule.classes), sorted(rule.explicit_only)] for name, rule in sorted(profiles.items())]


def _digest(terms: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(terms, ensure_ascii=True).encode("ascii")).hexdigest()
