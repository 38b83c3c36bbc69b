"""Ask: the passages of a question as an assistant is given them, and why these."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rag_mcp.models import DocClass, Gate, Level, Mode, Reason
from rag_mcp.server.page.view import Asked, Payload, Shown
from rag_mcp.server.rendering import as_text

__all__ = ["arguments_of", "as_given", "show_ask"]

_MODES = {
    Mode.HYBRID: "words and meaning",
    Mode.FTS: "words only",
    Mode.VECTOR: "meaning only",
}
_FEATURES = {
    "intercept": "Before any evidence",
    "cosine": "Meaning (cosine)",
    "term_share": "Words of the question found",
    "bm25_share": "The same by rarity and frequency (BM25)",
    "title_share": "Words in title and headings",
    "exact": "Exact identifier or phrase",
}
_REASONS = {
    Reason.STRICT_BLOCKED_LOW: "Only weak passages were found, and strict withholds them.",
    Reason.ACL_DENIED: "This profile may not see that class.",
    Reason.PLANE_FAILED: "The search failed.",
    Reason.NO_RESULTS: "Nothing was found.",
}
# Fields that are folded away; one that is filled in opens them.
_NARROWING = (
    *("source_class", "project", "corpus", "tags", "path", "since", "until", "where"),
    *("doc_class", "as_of", "neighbours", "max_chars"),
)
_GATES = {Gate.STRICT: "withhold weak passages", Gate.NORMAL: "show them, marked low"}


def show_ask(asked: Asked) -> Shown:
    form = {
        "given": asked.given,
        "modes": _MODES,
        "gates": _GATES,
        "doc_classes": list(DocClass),
        "narrowed": any(asked.given.get(name) for name in _NARROWING),
        "features": _FEATURES,
        "reasons": _REASONS,
    }
    if not asked.given.get("query", "").strip():
        return Shown("ask.html", form)
    arguments = arguments_of(asked.given)
    answer = asked.tool("search_knowledge", {**arguments, "explain": "true"})
    told = as_given(answer)
    return Shown(
        "ask.html",
        {
            **form,
            "answer": answer,
            "told_json": json.dumps(told, ensure_ascii=False, separators=(",", ":")),
            "told_text": as_text(told),
            "withheld": _withheld(asked, arguments, answer),
        },
        status=200 if answer["ok"] else 400,
    )


def arguments_of(given: Mapping[str, str]) -> dict[str, object]:
    """The tool's arguments: the fields as they are named there, of which only ``where`` is written otherwise."""
    arguments: dict[str, object] = {name: value for name, value in given.items() if name != "where"}
    if pairs := [pair.partition("=") for pair in given.get("where", "").split(";") if pair.strip()]:
        where: dict[str, list[str]] = {}
        for key, _, value in pairs:
            where.setdefault(key.strip(), []).append(value.strip())
        arguments["where"] = where
    return arguments


def as_given(answer: Payload) -> Payload:
    """The answer without its explanations: what the same question gives an assistant, which asks for none."""
    plain = {name: value for name, value in answer.items() if name != "explain"}
    plain["results"] = [{k: v for k, v in result.items() if k != "explain"} for result in answer["results"]]
    return plain


def _withheld(asked: Asked, arguments: Mapping[str, object], answer: Payload) -> list[dict[str, Any]]:
    """The passages that a strict question leaves out of what a normal one gives; where nothing was found none is asked, and
    the log of gaps has the question once."""
    asked_strict = answer["ok"] and answer["explain"]["confidence"] == Gate.STRICT
    if not asked_strict or answer.get("reason") not in (None, Reason.STRICT_BLOCKED_LOW):
        return []
    normal = asked.tool("search_knowledge", {**arguments, "confidence": Gate.NORMAL.value, "explain": "true"})
    return [result for result in normal["results"] if result["confidence"] == Level.LOW]
