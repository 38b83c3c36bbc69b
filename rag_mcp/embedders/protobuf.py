"""The little of the protobuf wire format that reading and rewriting an ONNX graph takes.

Source: https://protobuf.dev/programming-guides/encoding/. Group fields (wire types 3 and 4) are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Field", "WireError", "encode_bytes", "encode_int", "fields"]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10


class WireError(ValueError):
    """The bytes are not a protobuf message."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: ``number`` is its integer value (0 for bytes), ``body`` its content, ``raw`` all its bytes."""

    id: int
    number: int
    body: memoryview
    raw: memoryview

    def text(self) -> str:
        """Return the body as UTF-8. Raises WireError."""
        try:
            return str(self.body, "utf-8")
        except UnicodeDecodeError as error:
            raise WireError(f"field {self.id} is not text") from error


def fields(message: memoryview) -> Iterator[Field]:
    """Yield the fields of one message in order, without copying. Raises WireError."""
    at, size = 0, len(message)
    while at < size:
        start = at
        tag, at = _varint(message, at)
        wire, number, body_at = tag & 7, 0, at
        if tag >> 3 == 0:
            raise WireError("field number 0")
        if wire == _VARINT:
            number, at = _varint(message, at)
        elif wire == _BYTES:
            length, body_at = _varint(message, at)
            at = body_at + length
        elif wire in (_FIXED32, _FIXED64):
            at += 4 if wire == _FIXED32 else 8
        else:
            raise WireError(f"wire type {wire}")
        if at > size:
            raise WireError("the message ends inside a field")
        yield Field(tag >> 3, number, message[body_at:at], message[start:at])


def encode_bytes(field_id: int, body: bytes | str) -> bytes:
    """Encode one length-delimited field (bytes, text or a message)."""
    content = body.encode() if isinstance(body, str) else body
    return b"".join((_encoded(field_id << 3 | _BYTES), _encoded(len(content)), content))


def encode_int(field_id: int, value: int) -> bytes:
    """Encode one non-negative integer field."""
    return _encoded(field_id << 3 | _VARINT) + _encoded(value)


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * _MAX_VARINT_BYTES, 7):
        if at >= len(message):
            raise WireError("the message ends inside a number")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise WireError("a number is too long")


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
