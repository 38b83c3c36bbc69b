"""Where a folder is: what a path that an operator wrote stands for, whether two paths are one folder, and one lies in
another, however they are spelt."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

from rag_mcp.errors import ConfigError

__all__ = ["check_apart", "expanded", "is_inside", "named_paths", "same_folder", "written_out"]

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


# Between several paths. Windows itself sets paths apart by it, so it is no part of a drive as the colon is, and it needs
# no care in JSON, YAML and TOML, where settings of hosts stand.
_BETWEEN = ";"
_NAME = re.compile(r"(?!(?:con|prn|aux|nul|com\d|lpt\d)\Z)[a-z0-9][a-z0-9_-]{0,31}", re.IGNORECASE)


def named_paths(setting: str, raw: str, variables: Mapping[str, str]) -> dict[str, Path]:
    """The paths of ``name=path;name=path`` by name; none for a plain path, which is what a slash before the first ``=``
    makes of it, and what is there just as it is written. Raises ConfigError saying what is wrong with a part."""
    name, equals, _ = raw.partition("=")
    if not equals or _BETWEEN in name or "/" in name or "\\" in name or os.path.lexists(raw):
        return {}
    found: dict[str, Path] = {}
    for part in filter(None, map(str.strip, raw.split(_BETWEEN))):
        name, equals, path = (piece.strip() for piece in part.partition("="))
        if not equals or not path:
            raise ConfigError(
                f"{setting}: {part!r} is not name=path; several stand so, with {_BETWEEN!r} between them."
            )
        if not _NAME.fullmatch(name):
            raise ConfigError(f"{setting}: {name!r} is no name: up to 32 letters a to z, digits, '-' and '_'.")
        if name.casefold() in map(str.casefold, found):  # each names a folder, and not every system tells them apart
            raise ConfigError(f"{setting} has the name {name!r} twice; give each folder a name of its own.")
        found[name] = expanded(setting, path, variables)
    return found


def written_out(paths: Mapping[str, Path]) -> str:
    """What ``named_paths`` reads back, with absolute paths."""
    return _BETWEEN.join(f"{name}={path.absolute()}" for name, path in paths.items())


def check_apart(setting: str, folders: Mapping[str, Path]) -> None:
    """Raise ConfigError when one of the folders lies in another: its files would be found twice, under two policies."""
    for (one, first), (other, second) in combinations(folders.items(), 2):
        if is_inside(first, second) or is_inside(second, first):
            raise ConfigError(f"{setting}: the folders of {one} and {other} are one, or one lies in the other.")


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
