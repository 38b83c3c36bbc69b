"""Rows streamed into a table by binary COPY: each value as the bytes that Postgres keeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import pack
from typing import TYPE_CHECKING, Any

from rag_mcp.stores.postgres.lists import Array

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["copy_rows", "vector_bytes"]

_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = b"\xff\xff"
_BLOCK_BYTES = 1 << 20


def copy_rows(
    connection: Connection[Any], table: str, columns: Sequence[str], rows: Iterable[Sequence[int | str | bytes]]
) -> None:
    """``table`` and ``columns`` are of this program, never of a text."""
    with (
        connection.cursor() as cursor,
        cursor.copy(f"copy {table} ({', '.join(columns)}) from stdin (format binary)") as copy,
    ):
        block = bytearray(_HEADER)
        for row in rows:
            block += pack(">h", len(row))
            for value in row:
                raw = _raw(value)
                block += pack(">i", len(raw)) + raw
            if len(block) > _BLOCK_BYTES:
                copy.write(bytes(block))
                block.clear()
        copy.write(bytes(block) + _END)


def _raw(value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return pack(">i", value)
    return value.encode() if isinstance(value, str) else value


def vector_bytes(row: Array) -> bytes:
    return pack(">hh", row.size, 0) + row.astype(">f4").tobytes()
