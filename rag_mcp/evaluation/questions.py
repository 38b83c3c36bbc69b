"""Questions with known answers, one JSON object a line: the input of evaluation and calibration."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_mcp.access.names import plain_path
from rag_mcp.errors import InvalidArgument

__all__ = ["Expected", "Question", "QuestionsInvalid", "parse_questions", "read_questions"]

UNNAMED_KIND = "unanswerable"


class QuestionsInvalid(InvalidArgument):
    """A question file that can't be used; ``line`` is 1-based, None when the file as a whole is meant."""

    def __init__(self, name: str, line: int | None, message: str) -> None:
        super().__init__("questions", f"{name}, line {line}: {message}" if line else f"{name}: {message}")
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A place that answers: a file, and where known ``text[start:end]`` of the decoded file."""

    source: str
    start: int | None = None
    end: int | None = None
    quote: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """``negkind`` says what makes an unanswerable question so; it is None exactly when the question is answerable."""

    id: str
    text: str
    answerable: bool
    relevant: tuple[Expected, ...] = ()
    negkind: str | None = None
    near: str | None = None
    lang: str | None = None
    difficulty: str | None = None

    @property
    def sources(self) -> frozenset[str]:
        return frozenset(place.source for place in self.relevant)

    @property
    def ranges(self) -> tuple[tuple[str, int, int], ...]:
        """(source, start, end) of every place whose character range is known."""
        return tuple(
            (place.source, place.start, place.end)
            for place in self.relevant
            if place.start is not None and place.end is not None
        )


def read_questions(path: Path) -> tuple[Question, ...]:
    """Read a JSONL file. Raises QuestionsInvalid naming file and line."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise QuestionsInvalid(str(path), None, f"can't be read ({error.strerror}).") from error
    return parse_questions(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), name=str(path))


def parse_questions(lines: Iterable[bytes | str], *, name: str = "questions") -> tuple[Question, ...]:
    """Parse JSON lines; blank lines are skipped. Raises QuestionsInvalid for the first line that can't be used.

    A line needs ``question``; ``relevant`` lists objects with ``source`` (and ``start``, ``end``, ``quote``) or plain
    file names; ``answerable`` defaults to whether ``relevant`` lists anything; ``id`` defaults to the line number.
    """
    questions: list[Question] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            question = _question(_object(line), number)
        except ValueError as error:
            raise QuestionsInvalid(name, number, str(error)) from error
        if question.id in seen:
            raise QuestionsInvalid(name, number, f"id {question.id!r} was used in line {seen[question.id]} already.")
        seen[question.id] = number
        questions.append(question)
    if not questions:
        raise QuestionsInvalid(name, None, "holds no question; write one JSON object a line.")
    return tuple(questions)


def _object(line: bytes | str) -> Mapping[str, Any]:
    try:
        value = json.loads(line.decode("utf-8") if isinstance(line, bytes) else line)
    except UnicodeDecodeError as error:
        raise ValueError("is not UTF-8.") from error
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"is not JSON ({error}).") from error
    if not isinstance(value, dict):
        raise ValueError("must be a JSON object.")
    return value


def _question(row: Mapping[str, Any], number: int) -> Question:
    listed = row.get("relevant") or []
    if not isinstance(listed, list):
        raise ValueError("'relevant' must be a list.")
    relevant = tuple(_expected(item) for item in listed)
    answerable = row.get("answerable", bool(relevant))
    if not isinstance(answerable, bool):
        raise ValueError("'answerable' must be true or false.")
    if answerable and not relevant:
        raise ValueError("an answerable question needs at least one file in 'relevant'.")
    if relevant and not answerable:
        raise ValueError("an unanswerable question can't list files in 'relevant'; name the tempting file in 'near'.")
    text = _text(row, "question")
    if text is None:
        raise ValueError("'question' is missing or blank.")
    return Question(
        id=_identifier(row.get("id"), number),
        text=text,
        answerable=answerable,
        relevant=relevant,
        negkind=None if answerable else _text(row, "negkind") or UNNAMED_KIND,
        near=_text(row, "near"),
        lang=_text(row, "lang"),
        difficulty=_text(row, "difficulty") or _text(row, "type"),
    )


def _identifier(value: object, number: int) -> str:
    if value is None:
        return f"line-{number}"
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise ValueError("'id' must be a text or a whole number.")
    return str(value)


def _text(row: Mapping[str, Any], key: str) -> str | None:
    value = row.get(key)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{key!r} must be a text.")
    return value if value and value.strip() else None


def _expected(item: object) -> Expected:
    if isinstance(item, str):
        item = {"source": item}
    if not isinstance(item, dict):
        raise ValueError("each entry of 'relevant' must be a file name or an object with 'source'.")
    source = _text(item, "source")
    if source is None:
        raise ValueError("an entry of 'relevant' has no 'source'.")
    start, end = item.get("start"), item.get("end")
    if (start is None) != (end is None):
        raise ValueError("'start' and 'end' belong together.")
    if start is not None and not (_offset(start) and _offset(end) and start < end):
        raise ValueError("'start' and 'end' must be character offsets with 0 <= start < end.")
    return Expected(source=plain_path(source) or source, start=start, end=end, quote=_text(item, "quote"))


def _offset(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
