"""Packed lists: for one term the passages that have it, eight bytes each, with all that BM25 asks of them.

Numbers are as Tantivy has them: Okapi BM25 with lengths in 256 steps, so that both stores score alike. What depends on the
rest of the corpus (frequencies, average lengths) is not in a list, which therefore never has to be written anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rag_mcp.stores.passage import Terms

__all__ = [
    "ALL",
    "HEAD",
    "K1",
    "RECORD",
    "Array",
    "ListBuilder",
    "impact",
    "length_codes",
    "reserved",
    "segments_to_merge",
    "unpacked",
]

Array: TypeAlias = npt.NDArray[Any]

RECORD = np.dtype([("no", "<i4"), ("tf", "u1"), ("length", "u1"), ("lead", "u1"), ("lead_length", "u1")])
"""How often the term stands in the passage and in what leads to it, and how long these are. The top bit of ``lead`` tells
that the term stands in the head of the document. Counts end at 255 and 127: from there on a score hardly grows."""

HEAD = 0x80
ALL = "\x01"
"""The list of all passages. No term of a text begins with this character."""

K1, _B = 1.2, 0.75
_MAX_SEGMENTS = 8
_KEPT_SEGMENTS = 4
_MAX_GONE_SHARE = 0.25


def reserved(field: str, value: str) -> str:
    """The term under which passages with this value of a filter are listed."""
    return f"{ALL}{field}{ALL}{blake2b(value.encode(), digest_size=12).hexdigest()}"


def _decoded(code: int) -> int:
    """Lengths up to 40 are exact, longer ones keep their four leading bits."""
    if code < 24:
        return code
    bits, shift = (code - 24) & 7, (code - 24) >> 3
    return 24 + (bits if shift == 0 else (bits | 8) << (shift - 1))


_LENGTHS = np.array([_decoded(code) for code in range(256)], dtype=np.float64)


def length_codes(lengths: Sequence[int] | Array) -> Array:
    """The longest length that can be told and is not longer, as its number."""
    return (np.searchsorted(_LENGTHS, np.asarray(lengths), side="right") - 1).astype(np.uint8)


def impact(counts: Array, codes: Array, average: float) -> Array:
    """BM25 of a term but for its weight."""
    counts = counts.astype(np.float64)
    return (K1 + 1) * counts / (counts + K1 * (1 - _B + _B * _LENGTHS[codes] / (average or 1.0)))


def unpacked(parts: Sequence[bytes], gone: Array) -> Array:
    """The records of one term in all segments, without the passages that are ``gone`` (ascending numbers)."""
    records = np.frombuffer(b"".join(parts), dtype=RECORD)
    if gone.size:
        at = np.minimum(np.searchsorted(gone, records["no"]), gone.size - 1)
        records = records[gone[at] != records["no"]]
    return records


class ListBuilder:
    """The lists of one segment, as its passages are added in the order of their numbers."""

    def __init__(self) -> None:
        self.docs = 0
        self._lists: dict[str, bytearray] = {}

    def add(self, no: int, terms: Terms, values: Collection[tuple[str, str]]) -> None:
        self.docs += 1
        lead = Counter(term for term, _ in terms.lead)
        body = Counter(term for term, _ in terms.text)
        body.update(lead)
        length, lead_length = length_codes((sum(body.values()), sum(lead.values()))).tolist()
        head = {term for term, _ in terms.head}
        number = no.to_bytes(4, "little")
        for term in body.keys() | head:
            in_lead = min(lead[term], HEAD - 1) | (HEAD if term in head else 0)
            self._append(term, number + bytes((min(body[term], 255), length, in_lead, lead_length)))
        for term in {ALL, *(reserved(field, value) for field, value in values)}:
            self._append(term, number + bytes(4))

    def _append(self, term: str, record: bytes) -> None:
        known = self._lists.get(term)
        if known is None:
            self._lists[term] = bytearray(record)
        else:
            known += record

    def lists(self) -> Iterator[tuple[str, bytes]]:
        """(term, data) in the order of the terms."""
        return ((term, bytes(self._lists[term])) for term in sorted(self._lists))


def segments_to_merge(docs: dict[int, int], gone: int) -> list[int]:
    """Which of the segments ({number: passages}, ``gone`` among them) become one: all when much of them is gone, the
    smallest when there are many; none mostly."""
    if gone > _MAX_GONE_SHARE * sum(docs.values()):
        return sorted(docs)
    if len(docs) <= _MAX_SEGMENTS:
        return []
    return sorted(sorted(docs, key=lambda seg: (docs[seg], seg))[: len(docs) - _KEPT_SEGMENTS])
