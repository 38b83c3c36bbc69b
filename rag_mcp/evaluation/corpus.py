"""The evaluated folder on disk: what exactly was measured, and the character range a cited line range stands for."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import accumulate
from pathlib import Path

from rag_mcp import __version__
from rag_mcp.answers import Result
from rag_mcp.errors import CorpusError
from rag_mcp.evaluation.runner import Provenance

__all__ = ["ResultSpans", "corpus_digest", "line_span", "line_starts", "provenance_of"]

_VERSIONED = ("chromadb", "tantivy", "onnxruntime", "tokenizers")

# Not str.splitlines: it also breaks at form feeds and U+2028, which are no line ends in markdown.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")


def line_starts(text: str) -> tuple[int, ...]:
    """Offset of each line's first character, and the text's length as the last entry."""
    lengths = (len(line) for line in _LINE.findall(text))
    return tuple(dict.fromkeys(accumulate(lengths, initial=0)))


def line_span(starts: Sequence[int], line_start: int, line_end: int) -> tuple[int, int]:
    """The half-open character range of 1-based inclusive lines; lines past the end are cut off."""
    last = len(starts) - 1
    return starts[min(max(line_start - 1, 0), last)], starts[min(max(line_end, 0), last)]


class ResultSpans:
    """Maps a result to its character range in the decoded file.

    ``explain["span"]`` is used when the search gives it. Otherwise the cited lines stand for the passage; where a
    paragraph of one line was cut in two, that range is the whole paragraph and chunk hits are too kind.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._starts: dict[str, tuple[int, ...]] = {}

    def __call__(self, result: Result) -> tuple[int, int]:
        """Return (start, end). Raises CorpusError when the cited file can't be read."""
        span = (result.explain or {}).get("span")
        if isinstance(span, Sequence) and len(span) == 2:
            return int(span[0]), int(span[1])
        citation = result.citation
        if citation.source not in self._starts:
            self._starts[citation.source] = line_starts(self._read(citation.source))
        return line_span(self._starts[citation.source], citation.line_start, citation.line_end)

    def _read(self, source: str) -> str:
        path = self._root / source
        try:
            return path.read_bytes().decode("utf-8", errors="replace")
        except OSError as error:
            raise CorpusError(
                f"{source} is in the index but can't be read from the corpus ({error.strerror}); ingest again, or give "
                "the corpus the store was made from."
            ) from error


def corpus_digest(root: Path) -> str:
    """SHA-256 over relative path and content of every ``*.md`` file, in path order. Raises CorpusError if unreadable."""
    total = hashlib.sha256()
    try:
        for path in sorted(root.rglob("*.md")):
            if path.is_file():
                total.update(path.relative_to(root).as_posix().encode("utf-8", errors="surrogateescape"))
                total.update(b"\0" + hashlib.sha256(path.read_bytes()).digest())
    except OSError as error:
        raise CorpusError(f"{root} can't be read ({error.strerror}).") from error
    return total.hexdigest()


def provenance_of(root: Path, questions: Path, *, embedder: str, date: str) -> Provenance:
    """What an evaluation of ``questions`` over ``root`` measures; ``date`` is ISO. Raises CorpusError if unreadable."""
    try:
        asked = hashlib.sha256(questions.read_bytes()).hexdigest()
    except OSError as error:
        raise CorpusError(f"{questions} can't be read ({error.strerror}).") from error
    return Provenance(
        corpus=root.resolve().name,
        corpus_digest=corpus_digest(root),
        questions_digest=asked,
        embedder=embedder,
        date=date,
        versions={"rag_mcp": __version__, **_installed()},
    )


def _installed() -> dict[str, str]:
    found = {}
    for name in _VERSIONED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
