"""Recognised secrets in a text: where, of which kind, and what follows from it. Never the value.

Two tiers. A *strong* finding tells by itself what it is (a maker's prefix, a block of a private key): the file is left
out. A *loose* one is called a secret by what stands beside it (a key, a column, an option, a sentence): the value is
masked and the rest of the file is indexed. Everything here is pure and linear in the text; the rules stand in
``guard_tokens`` and ``guard_keys``, what counts as a value in ``guard_values``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from rag_mcp.text.secret_keys import find_keyed
from rag_mcp.text.secret_tokens import find_tokens
from rag_mcp.text.secret_values import is_whole_encoded_key

__all__ = ["MASK", "Finding", "Tier", "find_secrets", "mask"]

MASK = "[secret masked]"


class Tier(StrEnum):
    STRONG = "strong"
    LOOSE = "loose"


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """``text[start:end]`` is the value; ``line`` counts from 1."""

    start: int
    end: int
    line: int
    kind: str
    tier: Tier


def find_secrets(text: str, *, accepts: Callable[[str], bool] | None = None) -> list[Finding]:
    """Return what is not of a kind known to be harmless here, in the order of the text; none overlaps another of its tier."""
    strong = ((start, end, kind, _tier(kind, text[start:end])) for start, end, kind in find_tokens(text))
    loose = ((*each, Tier.LOOSE) for each in find_keyed(text))
    places = sorted({*strong, *loose})
    findings: list[Finding] = []
    last_end: dict[Tier, int] = {}
    line, counted = 1, 0
    for start, end, kind, tier in places:
        if start < last_end.get(tier, 0) and end <= last_end[tier]:
            continue
        if accepts is not None and accepts(kind):
            continue
        line, counted = line + text.count("\n", counted, start), start
        findings.append(Finding(start, end, line, kind, tier))
        last_end[tier] = end
    return findings


def _tier(kind: str, value: str) -> Tier:
    """A key that is one word on one line can be masked like any value; of other shapes a rest might stay behind."""
    return Tier.LOOSE if kind == "Private Key" and is_whole_encoded_key(value) else Tier.STRONG


def mask(text: str, findings: Iterable[Finding]) -> str:
    """Replace the values of ``findings``, which come in the order of the text; line numbers stay."""
    parts: list[str] = []
    behind = 0
    for finding in findings:
        if finding.end <= behind:
            continue
        start = max(finding.start, behind)
        parts += [
            text[behind:start],
            MASK if start == finding.start else "",
            "\n" * text.count("\n", start, finding.end),
        ]
        behind = finding.end
    return "".join([*parts, text[behind:]])
