"""A document that is no text -> the markdown it is read as: in a process of its own, under limits, once for its bytes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from rag_mcp.errors import CorpusError
from rag_mcp.ingest.options import CONVERTER_VERSION, MAX_FILE_BYTES
from rag_mcp.ingest.walk import FileUnreadable
from rag_mcp.stores.embedded.converted import ConvertedTexts
from rag_mcp.stores.embedded.files import writing
from rag_mcp.text.decode import Undecodable, decode, raw_digest

__all__ = [
    "LIMITS",
    "Converted",
    "Limits",
    "NotConverted",
    "NotInstalled",
    "check_installed",
    "convert",
    "read_converted",
]

_LIBRARIES = {
    "pdf": {"pypdfium2": "pypdfium2"},
    "docx": {"mammoth": "mammoth", "html_to_markdown": "html-to-markdown"},
    "html": {"html_to_markdown": "html-to-markdown"},
}
_SCRIPT = Path(__file__).with_name("converter.py")
# SIGKILL is nobody's limit: a system does this that has run out of memory.
_KILLED, _OUT_OF_TIME = -getattr(signal, "SIGKILL", 9), -getattr(signal, "SIGXCPU", 24)
_STOPPED = "its converter could not run to its end, perhaps for want of memory."
_PAGED = ("pdf",)
_REASONS = {
    "broken": "could not be converted: damaged, or not of the format its name says",
    "crashed": "could not be converted: the converter broke down",
    "deep": "could not be converted: nested too deeply",
    "empty": "holds no text (scanned pages need text recognition first)",
    "large": "could not be converted: unpacks to too much",
    "long": "could not be converted: more text than a document may have",
    "memory": "could not be converted within its limit of memory",
    "password": "can't be read without its password",
    "time": "could not be converted within its limit of time",
}


class NotConverted(CorpusError):
    """The document has no text to index; the message is the reason and quotes no content."""


class NotInstalled(FileUnreadable):
    """A library is missing that converts it."""

    def __init__(self) -> None:
        super().__init__('needs the extra that converts it: pip install "rag-mcp-local[documents]".')


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one conversion. Processor time and memory are held by the system where it can (not on Windows; memory on
    Linux alone); ``wall_s`` holds everywhere. ``chars`` is of the text."""

    cpu_s: int = 60
    wall_s: float = 240
    memory_bytes: int = 1024 * 1024 * 1024
    chars: int = MAX_FILE_BYTES


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Converted:
    """``pages`` holds the line each page begins on (1-based); empty where the format has none."""

    text: str
    pages: tuple[int, ...] = ()


def _is_installed(kind: str) -> bool:
    return all(find_spec(module) is not None for module in _LIBRARIES[kind])


def check_installed(kind: str) -> None:
    """Raises NotInstalled, without loading any library, when one is missing that ``kind`` needs."""
    if not _is_installed(kind):
        raise NotInstalled


def read_converted(kind: str, raw: bytes, texts: ConvertedTexts, scratch: Path, *, keep: bool) -> Converted:
    """The text of a document from ``texts``, else by converting it; then it is kept there if it may be. Raises
    NotConverted, and StoreError or StoreReadOnly when ``scratch`` or ``texts`` can't be written."""
    digest, name = raw_digest(raw), _version(kind)
    if (kept := texts.get(digest, name)) is not None:
        pages, _, text = kept.partition("\n")
        return Converted(text, tuple(json.loads(pages)))
    found = convert(kind, raw, scratch)
    if keep:
        texts.put(digest, name, f"{json.dumps(found.pages)}\n{found.text}")
    return found


def convert(kind: str, raw: bytes, scratch: Path, limits: Limits = LIMITS) -> Converted:
    """Run the converter in a process that can be killed; ``scratch`` holds its answer meanwhile. Raises NotConverted,
    and FileUnreadable where the machine, not the document, stands in the way."""
    answer_bytes = 6 * limits.chars  # a character may be written as \\uXXXX
    numbers = (limits.cpu_s, limits.memory_bytes, answer_bytes)
    command = [sys.executable, "-P", str(_SCRIPT), kind, *map(str, numbers)]
    with writing(scratch):
        answer = tempfile.TemporaryFile(dir=scratch, prefix=".building-spool-")  # noqa: SIM115 - closed below
    with answer:
        try:
            done = subprocess.run(
                command, input=raw, stdout=answer, stderr=subprocess.DEVNULL, timeout=limits.wall_s, check=False
            )
        except subprocess.TimeoutExpired:
            raise _failure("time") from None
        except OSError:
            raise FileUnreadable(_STOPPED) from None
        if done.returncode == _KILLED:
            raise FileUnreadable(_STOPPED)
        if done.returncode:
            raise _failure("time" if done.returncode == _OUT_OF_TIME else "crashed")
        answer.seek(0)
        parts = _parts(answer.read(answer_bytes + 1))
    if sum(map(len, parts)) > limits.chars:
        raise _failure("long")
    if not any(part.strip() for part in parts):
        raise _failure("empty")
    return _joined(parts, paged=kind in _PAGED)


def _parts(answer: bytes) -> list[str]:
    """What the process says is as foreign as the document."""
    try:
        told = json.loads(answer)
        if "failed" in told:
            raise _failure(str(told["failed"]))
        return [decode(str(part).encode("utf-8", "replace")) for part in told["parts"]]
    except (ValueError, TypeError, KeyError, Undecodable):
        raise _failure("crashed") from None


def _joined(parts: list[str], *, paged: bool) -> Converted:
    text, pages, line = [], [], 1
    for part in parts:
        page = part.strip("\n") + "\n\n"
        pages.append(line)
        text.append(page)
        line += page.count("\n")
    return Converted("".join(text), tuple(pages) if paged else ())


def _failure(name: str) -> CorpusError:
    return NotInstalled() if name == "missing" else NotConverted(_REASONS.get(name, _REASONS["crashed"]))


@cache
def _version(kind: str) -> str:
    """Format, converter and libraries: what decides the text of given bytes."""
    return "-".join([kind, str(CONVERTER_VERSION), *map(_installed, _LIBRARIES[kind].values())])


def _installed(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "0"
