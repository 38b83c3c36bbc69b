"""Where a folder is: what a path that an operator wrote stands for, whether two paths are one folder, and one lies in
another, however they are spelt."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from rag_mcp.errors import ConfigError

__all__ = ["expanded", "is_inside", "same_folder"]

_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([^{}]*)\})|%([A-Za-z_]\w*)%")


def expanded(setting: str, raw: str, variables: Mapping[str, str]) -> Path:
    """The path that ``raw`` stands for, as a shell would have it: ``~``, ``~user``, ``$NAME``, ``${NAME}``, ``%NAME%``.

    Hosts and schedulers start programs without a shell, and quotes keep one from looking, so a name that stands for
    nothing is a ConfigError here and never a folder called so. A path that is there just as it is written is meant so.
    """
    if not raw.strip():
        raise ConfigError(f"{setting} is empty: name a path, or leave it out.")

    def value(found: re.Match[str]) -> str:
        name = next(part for part in found.groups() if part is not None)
        if not variables.get(name):
            raise ConfigError(f"{setting} is {raw!r}: there is no variable {name!r} here. Write the path out.")
        return variables[name]

    if raw.startswith("~"):
        try:
            raw = str(Path(raw).expanduser())
        except RuntimeError as error:
            raise ConfigError(f"{setting} is {raw!r}: there is no such user here. Write the path out.") from error
    elif os.path.lexists(raw):
        return Path(raw)
    return Path(_VARIABLE.sub(value, raw))


def same_folder(one: Path, other: Path) -> bool:
    """True for two paths to one folder: through links, by letter case where the file system ignores it, or mounted
    twice. A folder that is not there is the same only by its path."""
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def is_inside(inner: Path, outer: Path) -> bool:
    """True when ``inner``, which need not exist yet, is ``outer`` or would lie in it."""
    inner = Path(os.path.realpath(inner))
    return any(same_folder(folder, outer) for folder in (inner, *inner.parents))
