"""Generations: complete, immutable states of a store, swapped by one atomic pointer and kept while someone reads them.

    <store>/CURRENT                  number of the live generation, replaced last
    <store>/writer.lock              held by the one writer; dies with its process
    <store>/generations/000017/      generation.json, manifest*.sqlite, chroma/, keywords/, pin
    <store>/generations/.building-*  a writer's unfinished work; swept by the next writer

A reader holds a shared lock on ``pin`` while it has the generation open. The collector needs that lock exclusively, so
a generation in use is never removed; both locks die with their process, so nothing is left to clean up by hand.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rag_mcp.errors import StoreDamaged, StoreEmpty, StoreError, StoreLocked, StoreReadOnly, StoreTooNew
from rag_mcp.stores.embedded.files import (
    close_to_others,
    find_link,
    fsync_folder,
    fsync_tree,
    make_folder,
    note_text,
    read_json,
    remove_tree,
    write_json,
    write_text,
)
from rag_mcp.stores.embedded.folder import close_folder, open_to_others, prepare_folder
from rag_mcp.stores.embedded.generation import (
    FORMAT_VERSION,
    Generation,
    GenerationInfo,
    pin_shared,
)
from rag_mcp.stores.embedded.owner import OWNER_FILE, Owner, read_owner

__all__ = [
    "FORMAT_VERSION",
    "Generation",
    "GenerationInfo",
    "GenerationStore",
]


class GenerationStore:
    """The folder of generations: pin one, stage and publish the next, collect what nobody needs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "generations"
        self.cache_path = root / "embeddings.sqlite"

    @property
    def place(self) -> str:
        return str(self.root)

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
        return _number_in(self.root / "CURRENT")

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
                pin = pin_shared(self.path(wanted) / "pin")
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
            prepare_folder(self.root)
            make_folder(self.folder)
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
            close_folder(self.root)
            with contextlib.suppress(OSError):
                note_text(self.root / "writer.pid", str(os.getpid()))
            yield
        finally:
            lock.release()

    def open_to_others(self) -> list[Path]:
        """What others than the owner may read or write here, by its mode."""
        return open_to_others(self.root)

    def lock_holder(self) -> int | None:
        """Process id of the last writer, for messages; says nothing about whether the lock is held."""
        return _number_in(self.root / "writer.pid")

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


def _number_in(path: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text(encoding="ascii"))
    return None
