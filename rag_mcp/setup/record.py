"""What set-ups did, kept for their removal: a file of the user in the system's folder for state. Host files may hold
keys of other programs, and their content before us is in it, so it is its owner's alone."""

from __future__ import annotations

import base64
import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rag_mcp.errors import ConfigError
from rag_mcp.setup.shared import Shared
from rag_mcp.stores.embedded.files import make_folder, read_json, write_json

__all__ = ["Record", "Setup", "locked_record", "missing_folders", "read_record", "remove_folders"]

_FILE, _LOCK = "setup.json", "setup.lock"
_FORMAT = 1
_WAIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Setup:
    """One folder that was set up. ``stores`` are those that were made for it, each with its id. ``manager`` keeps a warm
    server running, which leaves its traces in the folder ``life``."""

    corpus: str
    db: str
    label: str
    scheduler: str
    every: str
    collection: str = ""
    exclude: tuple[str, ...] = ()
    stores: Mapping[str, str] = field(default_factory=dict)
    manager: str = ""
    life: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """``setups`` by label, ``places`` by path (or ``crontab``); ``made`` are all folders that were made."""

    folder: Path
    setups: Mapping[str, Setup] = field(default_factory=dict)
    places: Mapping[str, Shared] = field(default_factory=dict)
    made: tuple[str, ...] = ()

    def with_setup(self, setup: Setup) -> Record:
        return replace(self, setups={**self.setups, setup.label: setup})

    def with_place(self, place: str, shared: Shared) -> Record:
        """Without it where no entry of ours is left."""
        rest = {name: known for name, known in self.places.items() if name != place}
        return replace(self, places={**rest, place: shared} if shared.entries else rest)

    def without_setup(self, label: str) -> Record:
        return replace(self, setups={name: each for name, each in self.setups.items() if name != label})

    def with_folders(self, made: Iterable[str]) -> Record:
        return replace(self, made=tuple(dict.fromkeys((*self.made, *made))))

    def places_of(self, label: str) -> list[str]:
        return [place for place, shared in self.places.items() if label in shared.entries]

    def save(self) -> None:
        """Raises OSError. One that holds nothing goes."""
        path = self.folder / _FILE
        if self.setups or self.places:
            write_json(path, _written(self))
        else:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def locked_record(folder: Path) -> Iterator[Record]:
    """The record as it is, while no other process may change it. Raises ConfigError when it can't be had or read."""
    from filelock import FileLock, Timeout

    made = missing_folders(folder)
    lock = FileLock(folder / _LOCK, timeout=_WAIT_S, mode=0o600)
    try:
        make_folder(folder)
        lock.acquire()
    except (Timeout, OSError) as error:
        why = "another rag-mcp setup is at work" if isinstance(error, Timeout) else error.strerror
        raise ConfigError(f"What set-ups did can't be recorded in {folder} ({why}); try again.") from error
    try:
        record = read_record(folder, made)
        yield record
    finally:
        lock.release()
    if not os.path.lexists(folder / _FILE):  # nothing was done, or all of it is undone
        (folder / _LOCK).unlink(missing_ok=True)
        remove_folders(record.made)


def read_record(folder: Path, made: tuple[str, ...] = ()) -> Record:
    """An empty one, with the folders ``made`` for it, where there is none. Raises ConfigError."""
    path = folder / _FILE
    try:
        return _read(folder, read_json(path)) if os.path.lexists(path) else Record(folder, made=made)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"The record of set-ups can't be read ({error}): {path}") from error


def missing_folders(folder: Path) -> tuple[str, ...]:
    """``folder`` and those above it that are not there yet, the outermost first."""
    missing = [each for each in (folder, *folder.parents) if not os.path.lexists(each)]
    return tuple(str(each) for each in reversed(missing))


def remove_folders(made: Iterable[str]) -> tuple[str, ...]:
    """Remove folders that nothing has come into, or nothing is left in; returns those that are still there."""
    for each in sorted(made, key=len, reverse=True):
        with contextlib.suppress(OSError):
            os.rmdir(each)
    return tuple(each for each in made if os.path.lexists(each))


def _written(record: Record) -> dict[str, Any]:
    places = {
        name: {**asdict(shared), "base": None if shared.base is None else base64.b64encode(shared.base).decode()}
        for name, shared in record.places.items()
    }
    setups = [asdict(each) for each in record.setups.values()]
    return {"format": _FORMAT, "setups": setups, "places": places, "made": record.made}


def _read(folder: Path, raw: Any) -> Record:
    if raw["format"] != _FORMAT:
        raise ValueError(f"format {raw['format']}: a newer version wrote it")
    places = {
        name: Shared(**{**each, "base": None if each["base"] is None else base64.b64decode(each["base"])})
        for name, each in raw["places"].items()
    }
    setups = [Setup(**{**each, "exclude": tuple(each["exclude"])}) for each in raw["setups"]]
    return Record(folder, {each.label: each for each in setups}, places, tuple(raw["made"]))
