"""Generations: complete, immutable states of a store, swapped by one atomic pointer and kept while someone reads them.

    <store>/CURRENT                  number of the live generation, replaced last
    <store>/writer.lock              held by the one writer; dies with its process
    <store>/generations/000017/      generation.json, manifest.json, chroma/, keywords/, pin
    <store>/generations/.building-*  a writer's unfinished work; swept by the next writer

A reader holds a shared lock on ``pin`` while it has the generation open. The collector needs that lock exclusively, so
a generation in use is never removed; both locks die with their process, so nothing is left to clean up by hand.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rag_mcp.errors import StoreDamaged, StoreEmpty, StoreError, StoreLocked, StoreReadOnly, StoreTooNew
from rag_mcp.stores.embedded.files import (
    close_to_others,
    find_link,
    fsync_folder,
    fsync_tree,
    is_open,
    make_folder,
    note_text,
    owners_only,
    read_json,
    remove_tree,
    tree,
    write_json,
    write_text,
)
from rag_mcp.stores.embedded.owner import OWNER_FILE, Owner, read_owner

__all__ = [
    "FORMAT_VERSION",
    "KEPT_GENERATIONS",
    "Generation",
    "GenerationInfo",
    "GenerationStore",
]

FORMAT_VERSION = 1
KEPT_GENERATIONS = 2
_COLLECTIONS = "collections"
# What a store keeps in its folder. Other names there are somebody else's: neither judged nor closed to others.
_OWN = re.compile(
    r"\.?(?:CURRENT|corpus\.json|writer\.(?:lock|pid)|embeddings\.sqlite.*|(?:stat-cache|last-run|withdrawn|calibration)\.json"
    r"|erase-pending|generations)(?:\.tmp)?"
)


@dataclass(frozen=True, slots=True)
class GenerationInfo:
    """What generation.json says. ``checksums`` covers every file but the one Chroma rewrites when it is opened."""

    number: int
    parent: int | None
    created_at: str
    identity: Mapping[str, object]
    counts: Mapping[str, int]
    files: int
    ids_digest: str
    checksums: Mapping[str, list[object]]
    vector_slots: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, object] = field(default_factory=dict)
    format: int = FORMAT_VERSION


@dataclass(slots=True)
class Generation:
    """One complete generation on disk, pinned while this object is open."""

    folder: Path
    info: GenerationInfo
    _pin: int | None

    @property
    def number(self) -> int:
        return self.info.number

    @property
    def manifest_path(self) -> Path:
        return self.folder / "manifest.json"

    @property
    def chroma_path(self) -> Path:
        return self.folder / "chroma"

    @property
    def keywords_path(self) -> Path:
        return self.folder / "keywords"

    def resized(self) -> list[str]:
        """Names of files that are missing or have another size: a check that costs next to nothing."""
        found = [name for name, value in self.info.checksums.items() if _size(self.folder / name) != value[0]]
        return found if _size(self.chroma_path / "chroma.sqlite3") > 0 else [*found, "chroma/chroma.sqlite3"]

    def close(self) -> None:
        """Let the collector have it; safe to call twice."""
        if self._pin is not None:
            descriptor, self._pin = self._pin, None
            os.close(descriptor)


class GenerationStore:
    """The folder of generations: pin one, stage and publish the next, collect what nobody needs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "generations"
        self.cache_path = root / "embeddings.sqlite"

    # --- reading -----------------------------------------------------------------------------------------------------

    def marker(self) -> tuple[int, ...] | None:
        """Cheap value that changes with every publication (one stat); None when there is no store."""
        try:
            status = os.stat(self.root / "CURRENT")
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size

    def numbers(self) -> list[int]:
        """Numbers of all published generations, ascending."""
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"The store can't be read ({error.strerror}). Check the folder's permissions.") from error
        return sorted(int(name) for name in names if name.isdecimal())

    def current(self) -> int | None:
        """The live generation. A torn or missing CURRENT falls back to the newest complete generation."""
        number = self.generation_of_pointer()
        if number is not None and (self.path(number) / "generation.json").is_file():
            return number
        for number in reversed(self.numbers()):
            with contextlib.suppress(StoreDamaged):
                self.info(number)
                return number
        return None

    def pointer_problem(self) -> str | None:
        """What is wrong with CURRENT, in words; None when it names a generation that is there, or nothing is."""
        live = self.current()
        pointed = self.generation_of_pointer()
        if live is None or live == pointed:
            return None
        if pointed is not None:
            return f"Generation {pointed} is damaged: generation.json is missing."
        return "The store's pointer CURRENT is missing or torn."

    def generation_of_pointer(self) -> int | None:
        """The number CURRENT holds, whether that generation is there or not; None when it is missing or torn."""
        with contextlib.suppress(OSError, ValueError):
            return int((self.root / "CURRENT").read_text(encoding="ascii"))
        return None

    def path(self, number: int) -> Path:
        return self.folder / f"{number:06d}"

    def info(self, number: int) -> GenerationInfo:
        """Read generation.json. Raises StoreDamaged (missing, torn, incomplete) or StoreTooNew."""
        try:
            raw = read_json(self.path(number) / "generation.json")
            if not isinstance(raw, dict):
                raise TypeError("not an object")
            version = int(raw.get("format", 0))
            if version <= FORMAT_VERSION:
                return GenerationInfo(**raw)
        except (OSError, ValueError, TypeError) as error:
            raise StoreDamaged(f"Generation {number} is damaged: generation.json can't be read.") from error
        raise StoreTooNew(
            f"The store was written in format {version}; this version reads up to {FORMAT_VERSION}. "
            "Upgrade rag_mcp, or ingest into another folder."
        )

    def open(self, number: int | None = None) -> Generation:
        """Pin and return a generation (default: the live one).

        Raises StoreEmpty when there is none, StoreDamaged when it can't be read.
        """
        for _ in range(100):
            wanted = self.current() if number is None else number
            if wanted is None:
                raise StoreEmpty("Nothing has been ingested into this store yet. Run: rag-mcp ingest CORPUS --db DB")
            try:
                link = find_link(self.path(wanted))
                if link is not None:  # opening an index writes to it, and pinning locks
                    raise StoreDamaged(f"Generation {wanted} is damaged: {link.name} is a link to another place.")
                pin = _pin_shared(self.path(wanted) / "pin")
            except FileNotFoundError:
                if number is not None or (self.path(wanted) / "generation.json").is_file():
                    raise StoreDamaged(f"Generation {wanted} is missing or has no pin file.") from None
                continue  # collected between reading CURRENT and pinning: CURRENT names another one by now
            if pin is None:
                continue
            try:
                return Generation(self.path(wanted), self.info(wanted), pin)
            except BaseException:
                os.close(pin)
                raise
        raise StoreError("The store changes too quickly to be opened; try again.")

    # --- writing -----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def writer_lock(self) -> Iterator[None]:
        """Hold the writer lock. Raises StoreLocked at once when another run has it, StoreReadOnly if it can't be made."""
        from filelock import FileLock, Timeout

        try:
            self._prepare()
            lock = FileLock(self.root / "writer.lock", mode=0o600)
            lock.acquire(blocking=False)
        except Timeout:
            holder = self.lock_holder()
            raise StoreLocked(
                "Another ingest holds the lock of this store" + (f" (process {holder})." if holder else ".")
            ) from None
        except OSError as error:
            raise StoreReadOnly(f"The store folder can't be written ({error.strerror}): {self.root}") from error
        try:
            self._close_to_others()
            with contextlib.suppress(OSError):
                note_text(self.root / "writer.pid", str(os.getpid()))
            yield
        finally:
            lock.release()

    def _prepare(self) -> None:
        """Make the folders, and refuse a store in which a name of ours leads elsewhere, before anything is written.

        The store's own folder may be a link: its operator named it. Inside, this package makes none.
        """
        if self.root.is_symlink():
            _check_folder_link(self.root)
        collections = self.root.parent if self.root.parent.name == _COLLECTIONS else None
        names = [collections, self.root] if collections is not None else []
        link = next((name for name in names if name.is_symlink()), None) or self._link()
        if link is not None:
            raise StoreError(
                f"Refused: {link} is a link, where the store keeps something of its own. Nothing was written. Remove "
                "the link, or use another folder for the store."
            )
        if not self.root.is_dir():
            make_folder(self.root)
        make_folder(self.folder)

    def _link(self) -> Path | None:
        return next((link for path in self._own() if (link := find_link(path)) is not None), None)

    def _own(self) -> list[Path]:
        """What is in the store's folder and ours."""
        try:
            return [self.root / name for name in sorted(os.listdir(self.root)) if _OWN.fullmatch(name)]
        except FileNotFoundError:
            return []

    def _ours(self) -> list[Path]:
        """What only the owner may read: the store's folder, or, where other things lie in it too, what is ours of it."""
        own = self._own()
        ours = {_COLLECTIONS, *(path.name for path in own)}
        whole = ours.issuperset(os.listdir(self.root))
        return [Path(os.path.realpath(self.root))] if whole else own

    def open_to_others(self) -> list[Path]:
        """What others than the owner may read or write here, by its mode."""
        return [path for start in self._ours() for path, status in tree(start) if is_open(status)]

    def _close_to_others(self) -> None:
        """Also a store that an older version left open."""
        for path in self._ours():
            close_to_others(path)
        if self.root.parent.name == _COLLECTIONS:
            GenerationStore(self.root.parent.parent)._close_to_others()

    def lock_holder(self) -> int | None:
        """Process id of the last writer, for messages; says nothing about whether the lock is held."""
        with contextlib.suppress(OSError, ValueError):
            return int((self.root / "writer.pid").read_text(encoding="ascii"))
        return None

    def stage(self) -> Path:
        """A fresh folder to build the next generation in; the caller holds the writer lock."""
        self.sweep()
        folder = self.folder / f".building-{os.getpid()}"
        make_folder(folder)
        return folder

    def sweep(self) -> None:
        """Remove what killed writers left behind; the caller holds the writer lock."""
        for entry in self.folder.iterdir():
            if entry.name.startswith((".building-", ".trash-")):
                remove_tree(entry)

    def owner(self) -> Owner | None:
        """Which folder the store was made from: as it says itself, else as its live generation does."""
        found = read_owner(self.root)
        if found is not None:
            return found
        with contextlib.suppress(StoreError):
            live = self.current()
            notes = self.info(live).notes if live is not None else {}
            if notes.get("corpus_root"):
                return Owner(Path(str(notes["corpus_root"])), str(notes["store_id"]))
        return None

    def belong_to(self, owner: Owner) -> None:
        """Say from now on that the store is made from that folder; the caller holds the writer lock."""
        if read_owner(self.root) != owner:
            write_json(self.root / OWNER_FILE, {"root": str(owner.root), "store": owner.store_id, "named": owner.named})

    def next_number(self) -> int:
        return max([0, *self.numbers(), self.current() or 0]) + 1

    def seal(self, staging: Path, info: GenerationInfo) -> None:
        """Complete ``staging``: pin file, generation.json, everything its owner's alone and synced."""
        (staging / "pin").touch()
        write_json(staging / "generation.json", asdict(info))
        close_to_others(staging)  # the libraries make files as the process's umask has it
        fsync_tree(staging)

    def publish(self, staging: Path, number: int) -> None:
        """Make a sealed folder the live generation, or leave it at ``staging`` when that fails."""
        os.rename(staging, self.path(number))
        try:
            fsync_folder(self.folder)
            self.point_to(number)
        except BaseException:
            if self.generation_of_pointer() != number:
                os.rename(self.path(number), staging)
            raise

    def point_to(self, number: int) -> None:
        """Swap CURRENT, atomically and durably."""
        write_text(self.root / "CURRENT", f"{number}\n")

    def collect(self, *, keep: int = KEPT_GENERATIONS) -> list[int]:
        """Remove generations nobody has pinned but the live one, those it was built from (``keep`` in all), and,
        unless ``keep`` is 1, the newest one; return the numbers removed.

        By descent and not by number alone: what a killed writer did not get to publish must not take the place of a
        state that was live. The newest is the way forward after a rollback.
        """
        numbers = self.numbers()
        kept = set(numbers[-1:]) if keep > 1 else set()
        number = self.current()
        while number is not None and keep > 0:
            kept.add(number)
            keep -= 1
            number = self._before(number, numbers)
        return [number for number in numbers if number not in kept and self._remove(number)]

    def _before(self, number: int, numbers: Sequence[int]) -> int | None:
        """The generation ``number`` was built from, else the next older one."""
        with contextlib.suppress(StoreError):
            parent = self.info(number).parent
            if parent in numbers:
                return parent
        return max((other for other in numbers if other < number), default=None)

    def collect_for_good(self, *, asked: bool, keep: int) -> None:
        """Collect; when ``asked`` to drop everything older, do so, and where a reader still holds an older generation
        leave a mark, so that later runs finish it."""
        mark = self.root / "erase-pending"
        if not asked and not mark.exists():
            self.collect(keep=keep)
            return
        os.close(owners_only(str(mark), os.O_WRONLY | os.O_CREAT))
        self.collect(keep=1)
        if len(self.numbers()) <= 1:
            mark.unlink(missing_ok=True)

    def _remove(self, number: int) -> bool:
        folder = self.path(number)
        trash = self.folder / f".trash-{number:06d}"
        with _exclusive(folder / "pin") as free:
            if not free:
                return False
            try:
                os.rename(folder, trash)
            except OSError:  # Windows: a reader has a file of it open; the next run tries again
                return False
        remove_tree(trash)
        return True


def _check_folder_link(root: Path) -> None:
    """A link that names the store's folder is followed if its owner is this user or root, as the system's own
    protection of shared folders has it."""
    if sys.platform != "win32" and os.lstat(root).st_uid not in (os.geteuid(), 0):
        raise StoreError(f"Refused: the store's folder {root} is a link that another user has made.")
    if not root.is_dir():
        raise StoreError(f"Refused: the store's folder {root} is a link that leads to no folder.")


def _size(path: Path) -> int:
    """In bytes; -1 when it can't be had."""
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _pin_shared(path: Path) -> int | None:
    """Descriptor that holds a shared lock on ``path``; None when the file is being collected right now."""
    descriptor = owners_only(str(path), os.O_RDONLY)
    if sys.platform == "win32":
        return descriptor  # the open handle itself keeps Windows from renaming or deleting the folder
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino == os.stat(path).st_ino:
            return descriptor
    except FileNotFoundError:
        pass
    except BlockingIOError:
        pass
    except OSError:
        # A file system without locks (some network mounts): read without a pin rather than not at all.
        return descriptor
    os.close(descriptor)
    return None


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[bool]:
    """Yield whether nobody has ``path`` pinned, holding it exclusively meanwhile."""
    if sys.platform == "win32":
        yield True
        return
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield True
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)
