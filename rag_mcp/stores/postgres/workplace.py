"""The store in Postgres as a run writes to it: the database is shared, the caches lie in a folder of the writer's own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_mcp.access.withdrawal import Cause, Withdrawal, Withdrawals
from rag_mcp.errors import StoreDamaged
from rag_mcp.models import SourceClass
from rag_mcp.stores.base import LiveSnapshot, StoreWrite
from rag_mcp.stores.embedded.folder import close_folder, prepare_folder
from rag_mcp.stores.embedded.formats import INDEX_FORMATS
from rag_mcp.stores.manifest import Manifest
from rag_mcp.stores.postgres.connect import translated
from rag_mcp.stores.postgres.snapshot import PostgresSnapshot
from rag_mcp.stores.postgres.store import KEPT_GENERATIONS, PostgresStore
from rag_mcp.stores.postgres.write import begin_write
from rag_mcp.stores.workplace import LastRun, Owner

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["PostgresWorkplace", "workplace"]

_FORMAT = 1


@contextmanager
def workplace(store: PostgresStore, folder: Path) -> Iterator[PostgresWorkplace]:
    """Hold the writer lock. Raises StoreLocked at once when another run has it; StoreError, StoreReadOnly."""
    prepare_folder(folder)
    close_folder(folder)
    with store.writing() as connection:
        yield PostgresWorkplace(store, connection, folder)


class PostgresWorkplace:
    """See ``rag_mcp.stores.workplace.Workplace``. What is noted while a generation is written is part of its transaction."""

    def __init__(self, store: PostgresStore, connection: Connection[Any], folder: Path) -> None:
        self._store = store
        self._connection = connection
        self._building = False
        self.root = self.folder = folder
        self.cache_path = folder / "embeddings.sqlite"
        self.place = "in this database"
        self.formats: Mapping[str, int] = {"postgres": _FORMAT, "terms": INDEX_FORMATS["keywords"]}

    # --- generations ---

    def numbers(self) -> list[int]:
        return self._store.numbers()

    def current(self) -> int | None:
        return self._store.current()

    def next_number(self) -> int:
        return max(self.numbers(), default=0) + 1

    def open(self, number: int | None = None) -> PostgresSnapshot:
        return self._store.open(number, whole=True)

    def manifest_of(self, number: int) -> Manifest:
        return self.open(number).manifest()

    @contextmanager
    def begin_write(self, *, live: LiveSnapshot | None, parent: int | None) -> Iterator[StoreWrite]:
        assert live is None or isinstance(live, PostgresSnapshot)
        with begin_write(self._connection, live=live, parent=parent) as write:
            self._building = True
            try:
                yield write
            finally:
                self._building = False

    def tidy(self, *, published: bool, erase: bool) -> None:
        dropped = self._store.collect(self._connection, keep=1 if erase else KEPT_GENERATIONS)
        if erase and dropped:
            self._store.vacuum(self._connection)

    # --- what is known beside them ---

    def owner(self) -> Owner | None:
        raw = self._note("owner")
        return None if raw is None else Owner(Path(raw[0]), str(raw[1]), str(raw[2]))

    def belong_to(self, owner: Owner) -> None:
        if self.owner() != owner:
            self._write_note("owner", [str(owner.root), owner.store_id, owner.named])

    def withdrawals(self) -> Withdrawals | None:
        raw = self._note("withdrawals")
        if raw is None:
            return None
        return {path: tuple(map(_withdrawal, rows)) for path, rows in raw.items()}

    def note_withdrawals(self, record: Withdrawals) -> None:
        self._write_note("withdrawals", {path: [astuple(each) for each in several] for path, several in record.items()})

    def note_run(self, last: LastRun) -> None:
        """When it looked is for everybody; what it left out names files, and stays on the writer's machine."""
        from rag_mcp.stores.embedded.lastrun import write_last_run

        write_last_run(self.root, last)
        with translated(), self._connection.transaction():
            self._connection.execute(
                "insert into last_run (finished_at) values (%s)"
                " on conflict (only_row) do update set finished_at = excluded.finished_at",
                (last.finished_at,),
            )

    def _note(self, name: str) -> Any:
        with translated():
            row = self._connection.execute("select value from note where name = %s", (name,)).fetchone()
            if not self._building:
                self._connection.rollback()
        try:
            return None if row is None else json.loads(row[0])
        except ValueError as error:
            raise StoreDamaged(f"What the store notes of its {name} can't be read.") from error

    def _write_note(self, name: str, value: object) -> None:
        with translated():
            self._connection.execute(
                "insert into note values (%s, %s) on conflict (name) do update set value = excluded.value",
                (name, json.dumps(value)),
            )
            if not self._building:
                self._connection.commit()


def _withdrawal(row: list[Any]) -> Withdrawal:
    since, cause, sha, now, renamed = row
    return Withdrawal(int(since), Cause(cause), str(sha), SourceClass(now) if now is not None else None, renamed)
