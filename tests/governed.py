"""A small corpus with every class, project and kind of denial, and an independent table of who may see what of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support import Library

from rag_mcp.server.mcp import ToolRunner
from rag_mcp.server.rendering import as_text
from rag_mcp.server.tools import TOOLS
from rag_mcp.telemetry import Telemetry

CLASSES = ("code", "config", "decisions", "docs", "memory")

POLICY = """\
version: 1
rules:
  - {path: "src/**", class: code}
  - {path: "notes/ops/**", class: config, project: pier}
  - {path: "journal/**", class: memory}
  - {path: "docs/pier/**", project: pier}
  - {path: "journal/pier/**", project: quay}
  - {path: "src/pier/**", project: pier}
profiles:
  custodian:
    classes: [docs, config, memory]
    explicit_only: [config, memory]
  nobody_special:
    classes: [decisions]
include: ["src/**/*.py"]
deny: ["docs/denied/", "*.draft.md"]
"""


@dataclass(frozen=True)
class Place:
    """What the corpus holds under one path; ``text`` names the one word that is only there."""

    path: str
    source_class: str
    project: str | None
    doc_class: str
    word: str


PLACES = (
    Place("src/tide.py", "code", None, "note", "kestrel"),
    Place("src/pier/lamp.py", "code", "pier", "note", "lapwing"),
    Place("docs/guide.md", "docs", None, "note", "heron"),
    Place("docs/pier/rules.md", "docs", "pier", "note", "plover"),
    Place("docs/pier/turnover.md", "docs", "pier", "handoff", "avocet"),
    Place("decisions/0001-lamps.md", "decisions", None, "note", "curlew"),
    Place("adr/0002-ropes.md", "decisions", None, "note", "godwit"),
    Place("notes/ops/lights.md", "config", "pier", "note", "dunlin"),
    Place("config/ropes.md", "config", None, "note", "whimbrel"),
    Place("journal/monday.md", "memory", None, "note", "sanderling"),
    Place("journal/pier/turnover.md", "memory", "quay", "handoff", "turnstone"),
)
# In the corpus, and never in the index: denied by the policy, by their own front matter, or as a secret.
OUTSIDE = {
    "docs/denied/plan.md": "# Plan\n\nThe harbour phalarope plan.\n",
    "docs/sale.draft.md": "# Sale\n\nThe harbour phalarope sale.\n",
    "docs/diary.md": "---\naccess: none\n---\n# Diary\n\nThe harbour phalarope diary.\n",
}
PROJECTS = (None, "pier", "quay")
DOC_CLASSES = (None, "note", "handoff")

# Profile as configured -> what it may see, and which of that only when it is named.
PROFILES: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "restricted": (frozenset({"docs", "decisions"}), frozenset()),
    "engineer": (frozenset({"code", "docs", "decisions"}), frozenset()),
    "auditor": (frozenset(CLASSES), frozenset({"config"})),
    "custodian": (frozenset({"docs", "config", "memory"}), frozenset({"config", "memory"})),
    "nobody_special": (frozenset({"decisions"}), frozenset()),
    "": (frozenset({"docs", "decisions"}), frozenset()),
    "Auditor": (frozenset({"docs", "decisions"}), frozenset()),
    "root": (frozenset({"docs", "decisions"}), frozenset()),
}


def text_of(place: Place) -> str:
    """A text that shares the word harbour with all others and is no copy of any."""
    front = "---\ntype: handoff\n---\n" if place.doc_class == "handoff" else ""
    own = f"{place.word} {place.word} watches the {place.word} post near the harbour {place.word} mast"
    return f"{front}# {place.word.title()}\n\nThe harbour {own}, number {len(place.path) * 7 + ord(place.word[0])}.\n"


def files() -> dict[str, str]:
    return {place.path: text_of(place) for place in PLACES} | OUTSIDE


def governed(folder: Path, **settings: object) -> Library:
    """The corpus above with its policy file, ingested; the policy lies at ``folder``/policy.yaml."""
    policy = folder / "policy.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    policy.write_text(POLICY, encoding="utf-8")
    library = Library(folder / "corpus", folder / "store", policy_path=policy, **settings)
    library.write(files())
    library.ingest()
    return library


def visible(profile: str, source_class: str = "all") -> list[Place]:
    """What the table of the design gives a profile for one value of source_class."""
    classes, explicit = PROFILES[profile]
    wanted = classes - explicit if source_class == "all" else classes & {source_class}
    return [place for place in PLACES if place.source_class in wanted]


class Caller:
    """Every tool of one process, as a host would call it."""

    def __init__(self, library: Library, profile: str, **changes: object) -> None:
        self.base = library.base(profile=profile, **changes)
        self._runner = ToolRunner(self.base, Telemetry())

    def ask(self, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = self._runner.run(tool, arguments)
        assert answer.text == as_text(answer.payload)
        return answer.payload

    def search(self, query: str = "harbour", **arguments: Any) -> dict[str, Any]:
        return self.ask("search_knowledge", query=query, **{"k": 20, "confidence": "normal", **arguments})

    def sources(self, query: str = "harbour", **arguments: Any) -> list[str]:
        return sorted({hit["citation"]["source"] for hit in self.search(query, **arguments)["results"]})

    def listed(self, **arguments: Any) -> list[str]:
        return [entry["source"] for entry in self.ask("list_documents", **arguments)["documents"]]


TOOL_NAMES = tuple(tool.name for tool in TOOLS)

_PASSING = {"generation", "indexed_at", "last_checked_at", "latency_ms"}


def settled(value: Any) -> Any:
    """An answer without what says when, how often and how fast: generation numbers, times, latencies."""
    if isinstance(value, dict):
        return {name: settled(item) for name, item in value.items() if name not in _PASSING}
    if isinstance(value, list):
        return [settled(item) for item in value]
    return value


def strings(value: Any) -> Iterator[str]:
    """Every string of an answer, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
