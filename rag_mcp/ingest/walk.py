"""The walk over the corpus folder and the guarded read of one file; every other stage works on what these return.

Nothing outside the real root is ever listed or read: links are not followed, and a file is opened step by step from the
root. Only "no such file" means gone; whatever else fails is *unreadable*, so that its chunks can be kept.

Left out by default, by whole component: hidden files and folders (a leading dot: .git, .obsidian, .trash, .venv) and the
folders in ``NOISE_FOLDERS``. ``include`` patterns of the policy bring in other file types, never these places.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rag_mcp.access.names import MAX_PATH_CHARS, name_problem, path_problem
from rag_mcp.access.policy import Policy, denied
from rag_mcp.errors import CorpusError
from rag_mcp.ingest.gitignore import Pattern
from rag_mcp.ingest.ignore import (
    Excludes,
    IgnoreFile,
    IgnoreUnusable,
    PathFilters,
    by_folded,
    check_meaning,
    ignore_rules,
    obsidian_filters,
    obsidian_templates,
    resembles_ignore_file,
    suggestion,
)
from rag_mcp.ingest.options import MAX_FILE_BYTES
from rag_mcp.models import Notice, Skipped
from rag_mcp.text.filetypes import included
from rag_mcp.text.globs import composed
from rag_mcp.text.sanitize import printable

__all__ = [
    "IGNORE_FILE",
    "NOISE_FOLDERS",
    "CorpusFile",
    "CorpusListing",
    "FileChanging",
    "FileGone",
    "FileRefused",
    "FileUnreadable",
    "is_link",
    "read_beneath",
    "read_file",
    "walk_corpus",
]

IGNORE_FILE = ".ragignore"
VAULT_FOLDER = ".obsidian"
VAULT_SETTINGS = f"{VAULT_FOLDER}/app.json"
TEMPLATE_SETTINGS = {
    f"{VAULT_FOLDER}/templates.json": "folder",
    f"{VAULT_FOLDER}/plugins/templater-obsidian/data.json": "templates_folder",
}
MAX_IGNORE_BYTES = 1024 * 1024
MAX_NAMED_LINES = 5
READ_ATTEMPTS = 3
READ_PAUSE_S = 0.02

NOISE_FOLDERS = frozenset(
    {
        "node_modules",
        "bower_components",
        "jspm_packages",
        "__pycache__",
        "__pypackages__",
        "site-packages",
        "dist-packages",
        "venv",
        "virtualenv",
        "__macosx",
        "@eadir",
        "#recycle",
        "$recycle.bin",
        "system volume information",
        "lost+found",
    }
)


class FileGone(CorpusError):
    """The file is not there any more: as good as deleted."""


class FileRefused(CorpusError):
    """The path is now a link, a special file or too large: it must not be indexed."""


class FileUnreadable(CorpusError):
    """The file can't be read at the moment; what is known of it stays."""


class FileChanging(FileUnreadable):
    """The file changed during every attempt to read it."""


@dataclass(frozen=True, slots=True)
class CorpusFile:
    """A file to index: its path relative to the root (posix, exactly as on disk) and what ``lstat`` said."""

    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class CorpusListing:
    """What a walk found, all in path order. ``excluded`` counts entries left out by rule (a folder counts once).

    ``unreadable`` names files and folders.
    ``notices`` say what the owner should know of what was asked for; ``unmet`` are the ``exclude`` texts that met
    nothing. ``withheld`` are ignore files that can't be understood, whose folders were not read. ``leaves_out`` tells
    whether a rule leaves out a file below an unreadable path.
    """

    files: tuple[CorpusFile, ...]
    skipped: tuple[Skipped, ...] = ()
    unreadable: tuple[str, ...] = ()
    excluded: Mapping[str, int] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()
    unmet: tuple[str, ...] = ()
    withheld: tuple[Skipped, ...] = ()
    leaves_out: Callable[[str], bool] = field(default=lambda _: False, compare=False)


def walk_corpus(
    root: Path,
    *,
    policy: Policy,
    exclude: Sequence[str] = (),
    ignore_file: str = IGNORE_FILE,
    max_bytes: int = MAX_FILE_BYTES,
    store_path: Path | None = None,
) -> CorpusListing:
    """List the files of the corpus, opening none but ignore files.

    ``exclude`` holds paths from the root, compared by whole components, and gitignore patterns. ``store_path`` is left
    out wherever it lies. Raises CorpusError when the root or its own ignore file can't be used, InvalidArgument for a
    bad ``exclude``. A folder below whose ignore file can't be used is not read, nor is one with a line that met nothing
    and was certainly meant to say something else.
    """
    real_root = _real_root(root)
    store = None if store_path is None else os.path.realpath(store_path)
    if store is not None and (real_root == store or real_root.startswith(store.rstrip(os.sep) + os.sep)):
        raise CorpusError(f"The corpus {root} lies inside the store {store_path}; give the store a folder of its own.")
    walk = _Walk(
        root=real_root,
        policy=policy,
        excludes=Excludes.of(exclude, (roots := (os.path.abspath(root), real_root))),
        ignore_file=ignore_file,
        max_bytes=max_bytes,
        store=store,
    )
    walk.run()
    walk.judge_ignore_files(roots)
    unmet = walk.excludes.unmet((*walk.closed, *walk.unreadable))
    return CorpusListing(
        files=tuple(sorted(walk.files, key=lambda file: file.path)),
        skipped=tuple(sorted((*walk.skipped, *walk.withheld), key=lambda left_out: left_out.source)),
        unreadable=tuple(sorted(walk.unreadable)),
        excluded=dict(sorted(walk.excluded.items())),
        notices=(*sorted(walk.notices, key=lambda notice: notice.source), *_unmet_notices(unmet, walk.files)),
        unmet=tuple(raw for raw, _ in unmet),
        withheld=tuple(walk.withheld),
        leaves_out=walk.leaves_out,
    )


def _unmet_notices(unmet: Sequence[tuple[str, str]], files: Sequence[CorpusFile]) -> Iterator[Notice]:
    known = _known_paths(files) if unmet else {}
    for raw, plain in unmet:
        meant = suggestion(plain, known)
        hint = f"; did you mean {printable(meant)}?" if meant is not None and meant != plain else ""
        yield Notice(f"--exclude {printable(raw)}", f"met nothing, so it left nothing out{hint}")


def _known_paths(files: Sequence[CorpusFile], folder: str = "") -> Mapping[str, str]:
    """The files and folders below ``folder``, as paths from there."""
    known: dict[str, None] = {}
    for file in files:
        path = file.path[len(folder) :] if file.path.startswith(folder) else ""
        while path and path not in known:
            known[path] = None
            path = path.rpartition("/")[0]
    return by_folded(known)


def _unmet_lines(unmet: Sequence[Pattern], known: Mapping[str, str]) -> str:
    shown = unmet[:MAX_NAMED_LINES]
    lines = ", ".join(str(pattern.line) for pattern in shown)
    more = f" and {len(unmet) - len(shown):,} more" if len(unmet) > len(shown) else ""
    hints = "".join(
        f"; in line {pattern.line}, did you mean {printable(meant)}?"
        for pattern in shown
        if pattern.literal is not None and (meant := suggestion(pattern.literal, known)) is not None
    )
    return f"line{'s' if len(unmet) > 1 else ''} {lines}{more} met nothing in the folders that were read{hints}"


def _about_other_things(pattern: Pattern, policy: Policy) -> bool:
    """Tell whether a pattern is about what is no document anyway, as most lines of common templates are."""
    parts = pattern.text.strip("/").split("/")
    if any(part.startswith(".") or part.lower() in NOISE_FOLDERS for part in parts):
        return True
    star, stop, ending = parts[-1].partition(".")
    return star == "*" and ending.isalnum() and not included(f"x{stop}{ending}", policy.include_globs)


def read_file(root: Path, file: CorpusFile, *, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Return the bytes of a listed file, all from one moment.

    Raises FileGone, FileRefused (link, special file, too large), FileUnreadable or FileChanging (changed during each of
    ``READ_ATTEMPTS`` attempts).
    """
    if path_problem(file.path) is not None:
        raise FileRefused(f"{printable(file.path)}: not a path inside the corpus.")
    return read_beneath(root, file.path, max_bytes)


def read_beneath(root: Path, path: str, max_bytes: int) -> bytes:
    """As ``read_file``, for a name that no document may have as well."""
    for attempt in range(READ_ATTEMPTS):
        if attempt:
            time.sleep(READ_PAUSE_S)
        try:
            data = _read_once(root, path, max_bytes)
        except OSError as error:
            raise _read_error(path, error) from error
        if data is not None:
            return data
    raise FileChanging(f"{printable(path)}: kept changing while it was read; the next run tries again.")


# --- the walk --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Below:
    """Rules that hold below ``folder`` ("" for the root, else with a closing slash), and whose they are."""

    folder: str
    rules: PathFilters
    reason: str

    def verdict(self, path: str) -> bool | None:
        return self.rules.verdict(path[len(self.folder) :])


@dataclass(frozen=True, slots=True)
class _Rules:
    """What holds in a folder: its ignore files, innermost first, and the filters of the vaults it lies in."""

    ignores: tuple[IgnoreFile, ...] = ()
    filters: tuple[_Below, ...] = ()


@dataclass(slots=True, kw_only=True)
class _Walk:
    root: str
    policy: Policy
    excludes: Excludes
    ignore_file: str
    max_bytes: int
    store: str | None
    files: list[CorpusFile] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    withheld: list[Skipped] = field(default_factory=list)
    unreadable: dict[str, _Rules] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    ignores: list[IgnoreFile] = field(default_factory=list)
    excluded: Counter[str] = field(default_factory=Counter)

    def run(self) -> None:
        pending: list[tuple[str, _Rules]] = [("", _Rules())]
        while pending:
            folder, rules = pending.pop()
            try:
                with os.scandir(os.path.join(self.root, folder)) as found:
                    entries = list(found)
                own = self._rules(folder, entries, rules)
            except OSError as error:
                self._failed(folder.rstrip("/"), error, rules)
                continue
            if own is not None:
                pending.extend((f"{path}/", own) for path in self._folders(folder, entries, own))

    def _failed(self, path: str, error: OSError, rules: _Rules) -> None:
        if not path:
            raise CorpusError(f"The corpus root can't be read ({error.strerror}); check the permissions.") from error
        if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
            self.unreadable[path] = rules

    def _rules(self, folder: str, entries: Sequence[os.DirEntry[str]], inherited: _Rules) -> _Rules | None:
        """Add the folder's own rules; None when they can't be known, so that nothing of the folder may be read.

        Raises CorpusError for the root: then nothing of the corpus may be read, and what is indexed stays.
        """
        ignores, filters = inherited.ignores, inherited.filters
        for entry in entries:
            name = self.ignore_file if entry.name == self.ignore_file else VAULT_SETTINGS
            if entry.name not in (self.ignore_file, VAULT_FOLDER):
                if resembles_ignore_file(entry.name, self.ignore_file):
                    self._note(
                        folder + entry.name, f"not an ignore file: only the exact name {self.ignore_file} is one"
                    )
                continue
            try:
                if name is self.ignore_file:
                    own = IgnoreFile(folder, ignore_rules(self._read(folder + name)))
                    self.ignores.append(own)
                    ignores = (own, *ignores)
                else:
                    filters = (*filters, *self._vault(entry, folder))
            except IgnoreUnusable as error:
                self._withhold(folder, name, error)
                return None
        return _Rules(ignores, filters)

    def _withhold(self, folder: str, name: str, error: IgnoreUnusable) -> None:
        shown = printable(folder + name, max_chars=MAX_PATH_CHARS)
        if not folder:
            raise CorpusError(
                f"{shown}: {error}. Nothing was read, and the store is as it was; put the file right and run again."
            ) from error
        self.withheld.append(Skipped(shown, f"{error}; nothing of its folder is indexed"))
        self.closed.append(folder.rstrip("/"))

    def judge_ignore_files(self, roots: Sequence[str]) -> None:
        """Look at the patterns that met nothing: take back a folder where one was meant otherwise, name the others.

        Only now is it known that there is no entry of the very name. Raises CorpusError for the root.
        """
        closed = (*self.closed, *self.unreadable)
        found = [(ignore, ignore.unmet(closed)) for ignore in self.ignores]
        taken_back: set[str] = set()
        for ignore, unmet in found:
            if _is_within(ignore.folder, taken_back):
                continue
            try:
                check_meaning(unmet, roots)
            except IgnoreUnusable as error:
                self._withhold(ignore.folder, self.ignore_file, error)
                taken_back.add(ignore.folder)
        if taken_back:
            self.files = [file for file in self.files if not _is_within(file.path, taken_back)]
            self.skipped = [each for each in self.skipped if not _is_within(each.source, taken_back)]
            self.unreadable = {
                path: rules for path, rules in self.unreadable.items() if not _is_within(path, taken_back)
            }
            self.notices = [each for each in self.notices if not _is_within(each.source, taken_back)]
        for ignore, unmet in found:
            told = [each for each in unmet if each.exclude and not _about_other_things(each, self.policy)]
            if told and not _is_within(ignore.folder, taken_back):
                known = _known_paths(self.files, ignore.folder)
                self._note(ignore.folder + self.ignore_file, _unmet_lines(told, known))

    def _read(self, path: str) -> bytes:
        """Raises IgnoreUnusable; an ignore file that can't be read hides what it would have hidden, and more."""
        try:
            return read_beneath(Path(self.root), path, MAX_IGNORE_BYTES)
        except CorpusError as error:
            raise IgnoreUnusable(str(error).removeprefix(f"{printable(path)}: ").rstrip(".")) from error

    def _vault(self, entry: os.DirEntry[str], folder: str) -> Iterator[_Below]:
        if entry.is_symlink():
            raise IgnoreUnusable("in a folder that is a symlink")
        if not entry.is_dir(follow_symlinks=False):
            return
        path = folder + VAULT_SETTINGS
        if os.path.lexists(os.path.join(self.root, path)) and (found := obsidian_filters(self._read(path))):
            self._note(path, f"its excluded files are left out here too ({len(found)} filters)")
            yield _Below(folder, found, "Obsidian's excluded files")
        for name, key in TEMPLATE_SETTINGS.items():
            # One that can't be read hides nothing that somebody wanted hidden: templates are noise, no secret.
            with contextlib.suppress(CorpusError, IgnoreUnusable):
                if templates := obsidian_templates(self._read(folder + name), key):
                    self._note(folder + name, "the folder of templates it names is left out")
                    yield _Below(folder, templates, "Obsidian's templates")

    def _note(self, path: str, text: str) -> None:
        self.notices.append(Notice(printable(path, max_chars=MAX_PATH_CHARS), text))

    def _folders(self, folder: str, entries: Sequence[os.DirEntry[str]], rules: _Rules) -> Iterator[str]:
        """Take in the files of one folder and yield the folders to walk next."""
        for entry in entries:
            path = folder + entry.name
            try:
                is_folder = entry.is_dir(follow_symlinks=False)
                if reason := self._rule_against(path, is_folder, rules, entry):
                    self.excluded[reason] += 1
                    if is_folder:
                        self.closed.append(path)
                elif reason := self._fault(entry, path, is_folder):
                    self.skipped.append(Skipped(printable(path, max_chars=MAX_PATH_CHARS), reason))
                elif is_folder:
                    yield path
                else:
                    self._take(entry, path)
            except OSError as error:
                self._failed(path, error, rules)

    def _rule_against(
        self, path: str, is_folder: bool, rules: _Rules, entry: os.DirEntry[str] | None = None
    ) -> str | None:
        """Name the rule that keeps an entry out of the corpus, or None. Rules speak about names, so none needs a stat;
        ``entry`` is None for one that can't be listed."""
        name = path.rpartition("/")[2]
        whole = f"{path}/" if is_folder else path
        # Asked about every entry, so that a pattern is not said to have met nothing where another rule was first.
        ignored = bool(rules.ignores) and _ignored(whole, rules.ignores)
        if self.excludes.prefixes and self.excludes.cover(path, is_folder=is_folder):
            return "--exclude"
        if name.startswith("."):
            return "hidden folder" if is_folder else "hidden file"
        if name.lower() in NOISE_FOLDERS:
            return "dependency folder"
        if is_folder:
            if entry is not None and self._is_store(entry, path):
                return "store"
        elif name.startswith("~$"):
            return "temporary file"
        elif not included(path, self.policy.include_globs) and not (
            entry and entry.is_symlink() and _leads_to_folder(entry)
        ):
            return "not markdown"
        if ignored:
            return self.ignore_file.lstrip(".")
        if reason := next((vault.reason for vault in rules.filters if vault.verdict(whole)), None):
            return reason
        if denied(self.policy, whole):
            return "denied by policy"
        return None

    def leaves_out(self, path: str) -> bool:
        """Judge a file below an unreadable path by its name: the rules of the readable folder above hold for it."""
        parts = path.split("/")
        levels = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
        first = next((at for at, level in enumerate(levels) if level in self.unreadable), len(levels))
        return any(self._rule_against(level, level != path, self.unreadable[levels[first]]) for level in levels[first:])

    def _is_store(self, entry: os.DirEntry[str], path: str) -> bool:
        if self.store is None or composed(entry.name).casefold() != composed(os.path.basename(self.store)).casefold():
            return False
        try:
            return os.path.samefile(entry.path, self.store)
        except OSError:
            return os.path.join(self.root, *path.split("/")) == self.store

    def _fault(self, entry: os.DirEntry[str], path: str, is_folder: bool) -> str | None:
        """Name what is wrong with an entry that belongs to the corpus by its name, or None."""
        if is_link(entry):
            return "symlink"
        return name_problem(entry.name) if is_folder else path_problem(path)

    def _take(self, entry: os.DirEntry[str], path: str) -> None:
        found = entry.stat(follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode):
            self.skipped.append(Skipped(path, "not a regular file"))
        elif found.st_size > self.max_bytes:
            self.skipped.append(Skipped(path, f"larger than {self.max_bytes:,} bytes"))
        else:
            self.files.append(CorpusFile(path, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino))


def _real_root(root: Path) -> str:
    try:
        real = os.path.realpath(root, strict=True)
        mode = os.stat(real).st_mode
    except FileNotFoundError as error:
        raise CorpusError(f"There is no folder {root}; check the path, or whether the drive is mounted.") from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise CorpusError(
            f"The corpus root {root} can't be used ({why}); check the path and its permissions."
        ) from error
    if not stat.S_ISDIR(mode):
        raise CorpusError(f"{root} is not a folder; name the folder that holds the documents.")
    return real


def _ignored(path: str, ignores: tuple[IgnoreFile, ...]) -> bool:
    """The innermost ignore file that says anything decides, as in git; all are asked, for what their patterns meet."""
    decided: bool | None = None
    for ignore in ignores:
        verdict = ignore.verdict(path)
        if decided is None:
            decided = verdict
    return bool(decided)


def _is_within(path: str, folders: Container[str]) -> bool:
    """Tell whether a path is that of one of the ``folders`` (closing slash) or lies in one."""
    end = path.find("/")
    while end >= 0:
        if path[: end + 1] in folders:
            return True
        end = path.find("/", end + 1)
    return False


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=True)
    except OSError:
        return False


def is_link(entry: os.DirEntry[str]) -> bool:
    """Tell whether an entry is a symlink, or the junction that Windows has for folders. Raises OSError."""
    if os.name != "nt" or entry.is_symlink():
        return entry.is_symlink()
    tag = getattr(entry.stat(follow_symlinks=False), "st_reparse_tag", 0)
    return bool(tag) and tag == getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", -1)


# --- reading one file ------------------------------------------------------------------------------------------------


def _read_once(root: Path, path: str, max_bytes: int) -> bytes | None:
    """Return the file's bytes, or None when it changed meanwhile. Raises OSError, FileRefused."""
    descriptor = _open_beneath(root, path)
    try:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise FileRefused(f"{printable(path)}: not a regular file.")
        if before.st_size > max_bytes:
            raise FileRefused(f"{printable(path)}: larger than {max_bytes:,} bytes.")
        data = _read_up_to(descriptor, before.st_size + 1)
        after = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    unchanged = (before.st_size, before.st_mtime_ns, before.st_ctime_ns) == (
        after.st_size,
        after.st_mtime_ns,
        after.st_ctime_ns,
    )
    return data if unchanged and len(data) == before.st_size else None


def _read_up_to(descriptor: int, limit: int) -> bytes:
    pieces: list[bytes] = []
    while limit > 0 and (piece := os.read(descriptor, limit)):
        pieces.append(piece)
        limit -= len(piece)
    return b"".join(pieces)


def _open_beneath(root: Path, path: str) -> int:
    """Open a file so that no component below the root is followed as a link."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
        return _open_checked(root, path, flags)
    *folders, name = path.split("/")
    parent = _open_root(root)
    try:
        for folder in folders:
            child = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
            os.close(parent)
            parent = child
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=parent)
    finally:
        os.close(parent)


def _open_root(root: Path) -> int:
    try:
        return os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:  # not FileGone: a drive that went away has deleted nothing
        raise CorpusError(f"The corpus root {root} went away ({error.strerror}); nothing was changed.") from error


def _open_checked(root: Path, path: str, flags: int) -> int:
    """Do the same where the system has no ``openat``: the real path must be the path itself, before and after."""
    wanted = os.path.join(_real_root(root), *path.split("/"))
    _check_real(wanted, path)
    descriptor = os.open(wanted, flags)
    try:
        _check_real(wanted, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_real(wanted: str, path: str) -> None:
    if os.path.normcase(os.path.realpath(wanted, strict=True)) != os.path.normcase(wanted):
        raise FileRefused(f"{printable(path)}: symlink.")


def _read_error(path: str, error: OSError) -> CorpusError:
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return FileGone(f"{printable(path)}: gone since the corpus was listed.")
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return FileRefused(f"{printable(path)}: symlink.")
    return FileUnreadable(f"{printable(path)}: can't be read ({error.strerror}).")
