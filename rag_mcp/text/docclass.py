"""Whether a file is a handoff (an agent's own session bookkeeping) or a note. Pure.

A file is a handoff when

1. its front matter says so: ``type: handoff``, or a tag ``handoff`` (any case, with or without ``#``); or
2. it lies directly in a mirror folder (a folder relative to the corpus root, ``context`` by default; not below it, not
   in a folder of that name elsewhere) and its name is a mirror name (``handoff.md``, ``active.md``, ``resume.md``) or
   ends in the word ``handoff``, a date or number behind it not counted: ``handoff-2026-09-03.md``,
   ``morning-dispatch-handoff.md``. A title that merely mentions the word (``handoff-skill-redesign-spec.md``) is not.

Everything else is a note. Names compare without regard to case and Unicode normalisation, as mirrors are often written
by tools on other file systems.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag_mcp.models import DocClass
from rag_mcp.text.globs import folded

__all__ = ["MIRROR_BASENAMES", "MIRROR_DIRS", "classify_doc"]

MIRROR_DIRS = ("context",)
MIRROR_BASENAMES = ("handoff.md", "active.md", "resume.md")

_WORD = "handoff"
_SEPARATORS = re.compile(r"[\W_]+")
_DATE_OR_NUMBER = re.compile(r"\d+(?:t\d+z?)?")


def classify_doc(
    path: str,
    *,
    type_: str | None,
    tags: Sequence[str],
    mirror_dirs: Sequence[str] = MIRROR_DIRS,
    mirror_basenames: Sequence[str] = MIRROR_BASENAMES,
) -> DocClass:
    """Return the class of the file at ``path`` (relative, posix) with this front matter; the module states the rule."""
    if _says_handoff(type_, tags) or _is_mirror(path, mirror_dirs, mirror_basenames):
        return DocClass.HANDOFF
    return DocClass.NOTE


def _says_handoff(type_: str | None, tags: Sequence[str]) -> bool:
    named = [tag.strip().removeprefix("#") for tag in tags]
    return any(name.strip().casefold() == _WORD for name in (type_ or "", *named))


def _is_mirror(path: str, mirror_dirs: Sequence[str], mirror_basenames: Sequence[str]) -> bool:
    folder, _, name = path.rpartition("/")
    if folded(folder) not in {_relative(each) for each in mirror_dirs}:
        return False
    return folded(name) in {folded(each.strip()) for each in mirror_basenames} or _ends_in_word(name)


def _relative(folder: str) -> str:
    """``./context/`` and ``context`` are one folder; ``.`` is the corpus root."""
    parts = folded(folder.strip().replace("\\", "/")).split("/")
    return "/".join(part for part in parts if part not in ("", "."))


def _ends_in_word(name: str) -> bool:
    stem = name.rpartition(".")[0] or name
    words = [word for word in _SEPARATORS.split(folded(stem)) if word]
    while words and _DATE_OR_NUMBER.fullmatch(words[-1]):
        words.pop()
    return bool(words) and words[-1] == _WORD
