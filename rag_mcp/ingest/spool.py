"""What a run has read and not yet written lies in a file without a name, so that memory does not grow with the corpus."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar

from rag_mcp.stores.embedded.files import writing

__all__ = ["Spool", "SpooledMapping"]

T = TypeVar("T")

_IN_MEMORY = 16 * 1024 * 1024
_LENGTH_BYTES = 8


class Spool:
    """Values, one after the other. The file is its owner's alone, in the store's folder and not among everybody's
    temporary files, and goes with the process, however that ends. Raises StoreError or StoreReadOnly."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = tempfile.SpooledTemporaryFile(  # noqa: SIM115 - closed by __exit__
            _IN_MEMORY, prefix=".building-spool-", dir=str(folder)
        )

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._file.close()

    def append(self, value: object) -> int:
        """Return the place to read it from."""
        raw = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        with writing(self._folder):
            place = self._file.seek(0, os.SEEK_END)
            self._file.write(len(raw).to_bytes(_LENGTH_BYTES, "big"))
            self._file.write(raw)
        return place

    def read(self, place: int) -> Any:
        with writing(self._folder):  # what was appended last may have to be written first
            self._file.seek(place)
            length = int.from_bytes(self._file.read(_LENGTH_BYTES), "big")
            return pickle.loads(self._file.read(length))


class SpooledMapping(MutableMapping[str, T], Generic[T]):
    """Keys in memory, values in ``spool``; each look-up gives a new copy. The place of a value that is replaced or
    deleted is not used again."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._places: dict[str, int] = {}

    def __getitem__(self, key: str) -> T:
        value: T = self._spool.read(self._places[key])
        return value

    def __setitem__(self, key: str, value: T) -> None:
        self._places[key] = self._spool.append(value)

    def __delitem__(self, key: str) -> None:
        del self._places[key]

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
