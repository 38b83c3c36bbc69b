"""The terms of some passages at their places: what a score, a phrase and the evidence of a match are computed from.

A term is its CRC-32: within the few passages looked at, two terms of a question's all but never share one, and what meets
a passage has mostly been found by its list before.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from zlib import crc32

import numpy as np

from rag_mcp.stores.passage import Placed, Terms
from rag_mcp.stores.postgres.lists import Array, impact, length_codes
from rag_mcp.text.question import Phrase

__all__ = ["Words", "packed"]

_HEADER = 3
# Between the places of one passage and the next: more than a passage has, with room for the offsets of a phrase.
_STRIDE = 1 << 40
_MARGIN = 1 << 20


def _hashed(term: str) -> int:
    return crc32(term.encode("utf-8", "surrogatepass"))


def packed(terms: Terms) -> bytes:
    """Three counts, then the terms of text, lead and head, then how far each is from the one before."""
    body = terms.text + terms.lead
    hashes = [_hashed(term) for term, _ in body + terms.head]
    counts = (len(terms.text), len(terms.lead), len(terms.head))
    return np.array([*counts, *hashes], dtype="<u4").tobytes() + bytes([*_steps(body), *_steps(terms.head)])


def _steps(placed: Placed) -> list[int]:
    return [after - before for before, after in pairwise([0, *(place for _, place in placed)])]


class Words:
    """Some passages of one class, numbered from 0."""

    def __init__(self, passages: Sequence[bytes], *, body_average: float, lead_average: float) -> None:
        self.size = len(passages)
        headers = np.array([np.frombuffer(each, "<u4", _HEADER) for each in passages], dtype=np.int64)
        counts = headers.reshape(-1, _HEADER)
        sizes = counts.sum(axis=1)
        hashes = [np.frombuffer(p, "<u4", n, 4 * _HEADER) for p, n in zip(passages, sizes, strict=True)]
        steps = [np.frombuffer(p, "u1", n, 4 * (_HEADER + n)) for p, n in zip(passages, sizes, strict=True)]
        self._hashes = np.concatenate(hashes) if passages else np.zeros(0, "<u4")
        self._section = np.repeat(np.tile(np.arange(_HEADER, dtype=np.uint8), self.size), counts.ravel())
        self._passage = np.repeat(np.arange(self.size), sizes)
        self._places = self._placed(np.concatenate(steps) if passages else np.zeros(0, np.uint8), counts)
        self._body_codes = length_codes(counts[:, 0] + counts[:, 1])
        self._lead_codes = length_codes(counts[:, 1])
        self._averages = body_average, lead_average
        self._found: dict[str, Array] = {}

    def _placed(self, steps: Array, counts: Array) -> Array:
        """Places counted over all passages, body and head of each for itself."""
        runs = np.stack([counts[:, 0] + counts[:, 1], counts[:, 2]], axis=1).ravel()
        starts = np.concatenate([[0], np.cumsum(runs)[:-1]]) if runs.size else runs
        sums = np.concatenate([[0], np.cumsum(steps, dtype=np.int64)])
        places = sums[1:] - np.repeat(sums[starts], runs)
        bases = np.arange(runs.size, dtype=np.int64) * _STRIDE + _MARGIN
        placed: Array = places + np.repeat(bases, runs)
        return placed

    # --- which passages have it, and how much ---

    def body(self, term: str) -> tuple[Array, Array]:
        return self._weighed(self._at(term, head=False), self._body_codes, self._averages[0])

    def lead(self, term: str) -> tuple[Array, Array]:
        found = self._where(term)
        return self._weighed(found[self._section[found] == 1], self._lead_codes, self._averages[1])

    def phrase(self, phrase: Phrase) -> tuple[Array, Array]:
        places = self._phrase_places(phrase, head=False)
        counts = np.bincount(places // _STRIDE // 2, minlength=self.size)
        where = np.flatnonzero(counts)
        return where, impact(counts[where], self._body_codes[where], self._averages[0])

    def has(self, field: str, term: str) -> Array:
        found = self._where(term)
        section = self._section[found]
        within = {"body": section < 2, "lead": section == 1, "head": section == 2}[field]
        return np.unique(self._passage[found[within]])

    def has_phrase(self, field: str, phrase: Phrase) -> Array:
        places = self._phrase_places(phrase, head=field == "head", lead_only=field == "lead")
        return np.unique(places // _STRIDE // 2)

    def _weighed(self, found: Array, codes: Array, average: float) -> tuple[Array, Array]:
        counts = np.bincount(self._passage[found], minlength=self.size)
        where = np.flatnonzero(counts)
        return where, impact(counts[where], codes[where], average)

    def _phrase_places(self, phrase: Phrase, *, head: bool, lead_only: bool = False) -> Array:
        """Where the phrase begins."""
        starts: Array | None = None
        for offset, term in phrase:
            found = self._at(term, head=head)
            if lead_only:
                found = found[self._section[found] == 1]
            places = np.unique(self._places[found] - offset)
            starts = places if starts is None else np.intersect1d(starts, places, assume_unique=True)
        return np.zeros(0, np.int64) if starts is None else starts

    def _at(self, term: str, *, head: bool) -> Array:
        found = self._where(term)
        within: Array = found[(self._section[found] == 2) == head]
        return within

    def _where(self, term: str) -> Array:
        if term not in self._found:
            self._found[term] = np.flatnonzero(self._hashes == _hashed(term))
        return self._found[term]
