"""The wire format: what is written is read back, and broken bytes are an error of one kind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_mcp.embedders.protobuf import WireError, encode_bytes, encode_int, fields


@given(st.lists(st.tuples(st.integers(1, 2**20), st.one_of(st.integers(0, 2**63), st.binary(max_size=300)))))
def test_what_is_encoded_is_read_back(parts: list[tuple[int, int | bytes]]) -> None:
    message = b"".join(
        encode_int(number, part) if isinstance(part, int) else encode_bytes(number, part) for number, part in parts
    )
    read = list(fields(memoryview(message)))
    assert [
        (field.id, field.number if isinstance(part, int) else bytes(field.body))
        for field, (_, part) in zip(read, parts, strict=True)
    ] == parts
    assert b"".join(bytes(field.raw) for field in read) == message


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        assert b"".join(bytes(field.raw) for field in fields(memoryview(content))) == content
    except WireError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x00\x01", "field number 0"),
        (b"\x0a\x05abc", "ends inside a field"),
        (b"\x0b", "wire type 3"),
        (b"\x08" + b"\xff" * 11, "too long"),
        (b"\x08\x80", "ends inside a number"),
    ],
)
def test_broken_bytes_are_refused_with_the_reason(content: bytes, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        list(fields(memoryview(content)))


def test_a_name_that_is_not_text_is_refused() -> None:
    (field,) = fields(memoryview(encode_bytes(1, b"\xff\xfe")))
    with pytest.raises(WireError, match="not text"):
        field.text()
