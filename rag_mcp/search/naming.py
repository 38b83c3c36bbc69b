"""Which documents does a name mean? Paths, file names, titles, aliases and links, among those that may be shown. Pure.

Whoever resolves a name says what is shown: a document that is not shown takes no part, so that a name resolves as if it
did not exist.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from rag_mcp.stores.manifest import FileEntry
from rag_mcp.text.filetypes import is_markdown
from rag_mcp.text.globs import folded

__all__ = ["Names", "Shown", "nearest", "names_of", "resolve"]

Shown = Callable[[str], bool]

_NEAREST, _LIKENESS, _LONGEST = 5, 0.75, 200


@dataclass(frozen=True, slots=True)
class Names:
    """Paths by what each can be called: ``paths`` by whole path, ``stems`` by file name, ``titles`` by title and alias;
    ``mentions`` are (document, target) of all links by the last component of the target."""

    paths: Mapping[str, tuple[str, ...]]
    stems: Mapping[str, tuple[str, ...]]
    titles: Mapping[str, tuple[str, ...]]
    mentions: Mapping[str, tuple[tuple[str, str], ...]]

    def linking_to(self, path: str, entry: FileEntry, shown: Shown) -> list[str]:
        """The documents with a link that means ``path``, in path order."""
        last = dict.fromkeys(_last(_key(name)) for name in (path, entry.title, *entry.aliases))
        mentions = dict.fromkeys(mention for name in last for mention in self.mentions.get(name, ()))
        return sorted(
            {
                source
                for source, target in mentions
                if source != path and shown(source) and resolve(target, self, shown, source=source) == (path,)
            }
        )


def names_of(files: Mapping[str, FileEntry]) -> Names:
    """Index every name of ``files``, shown or not."""
    paths: dict[str, list[str]] = {}
    stems: dict[str, list[str]] = {}
    titles: dict[str, list[str]] = {}
    mentions: dict[str, list[tuple[str, str]]] = {}
    for path, entry in sorted(files.items()):
        key = _key(path)
        paths.setdefault(key, []).append(path)
        stems.setdefault(_last(key), []).append(path)
        for name in dict.fromkeys(map(_key, (entry.title, *entry.aliases))):
            titles.setdefault(name, []).append(path)
        for target in entry.links:
            mentions.setdefault(_last(_key(target)), []).append((path, target))
    return Names(_frozen(paths), _frozen(stems), _frozen(titles), {key: tuple(all_) for key, all_ in mentions.items()})


def resolve(name: str, names: Names, shown: Shown, *, source: str | None = None) -> tuple[str, ...]:
    """The documents that ``name`` means: by whole path, else by file name (with as much of its folder as is given), else
    by title or alias.

    In a link of the document ``source`` a path may be relative to its folder, and of several files of the name the one in
    that folder counts, else the one nearest to the root; elsewhere all are returned, for the caller to choose from.
    """
    folder = posixpath.dirname(source) if source else ""
    relative = name.startswith(("./", "../"))
    key = _key(name)
    bare = key
    while bare.startswith(("./", "../")):
        bare = bare.split("/", 1)[1]
    tiers = (
        names.paths.get(_key(posixpath.normpath(posixpath.join(folder, name))), ()) if relative else (),
        names.paths.get(bare, ()),
        [path for path in names.stems.get(_last(bare), ()) if f"/{_key(path)}".endswith(f"/{bare}")],
        names.titles.get(key, ()),
    )
    for number, tier in enumerate(tiers):
        if found := tuple(path for path in tier if shown(path)):
            if source is None or len(found) == 1:
                return found
            return () if number == len(tiers) - 1 else (min(found, key=lambda path: _distance(path, name, folder)),)
    return ()


def nearest(name: str, names: Names, shown: Shown) -> tuple[str, ...]:
    """The few documents shown whose file name, title or alias is nearly the last component of ``name``."""
    known: dict[str, list[str]] = {}
    for called in (names.stems, names.titles):
        for key, paths in called.items():
            if len(key) <= _LONGEST and (seen := [path for path in paths if shown(path)]):
                known.setdefault(_last(key), []).extend(seen)
    close = get_close_matches(_last(_key(name))[:_LONGEST], known, n=_NEAREST, cutoff=_LIKENESS)
    return tuple(dict.fromkeys(path for key in close for path in known[key]))[:_NEAREST]


def _key(name: str) -> str:
    """The form under which names are the same; the ending of markdown is optional."""
    key = folded(name)
    return key.rsplit(".", 1)[0] if is_markdown(key) else key


def _last(key: str) -> str:
    return key.rsplit("/", 1)[-1]


def _distance(path: str, name: str, folder: str) -> tuple[bool, bool, int, int, str]:
    spelled = path in (name, f"{name}.md")
    return not spelled, posixpath.dirname(path) != folder, path.count("/"), len(path), path


def _frozen(found: Mapping[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {key: tuple(paths) for key, paths in found.items()}
