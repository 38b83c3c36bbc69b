"""One file's text -> its passages and metadata, or the reason it is left out. Which text that is, ``source`` tells."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from rag_mcp.access.policy import WITHHELD_BY
from rag_mcp.access.withdrawal import MASKED
from rag_mcp.errors import CorpusError
from rag_mcp.models import DocClass, Passage, SourceClass
from rag_mcp.text.blocks import code_ranges
from rag_mcp.text.chunking import chunk_text
from rag_mcp.text.decode import shorten_data_uris
from rag_mcp.text.docclass import classify_doc
from rag_mcp.text.embedded import embedded_text
from rag_mcp.text.filetypes import is_document
from rag_mcp.text.frontmatter import FrontMatter, parse_front_matter
from rag_mcp.text.headings import first_heading
from rag_mcp.text.hidden import hide
from rag_mcp.text.limits import ChunkLimits
from rag_mcp.text.links import MAX_LINKS, find_links
from rag_mcp.text.machine_data import LeftOut, leave_out_data, names_nothing
from rag_mcp.text.marks import without_marks
from rag_mcp.text.opening import first_paragraph, is_front_page
from rag_mcp.text.properties import Properties, as_lines, body_properties, joined
from rag_mcp.text.secrets import Finding, Tier, mask

__all__ = ["ParsedFile", "ParsedPassage", "Rejected", "Reader", "text_key"]

_LINES_SHOWN = 10


class Rejected(CorpusError):
    """The file is left out for what it holds; the message is the reason and quotes no content."""


@dataclass(frozen=True, slots=True)
class ParsedPassage:
    """``day`` is the date of the snapshot whose words these are, where it is not the file's own."""

    passage: Passage
    embedded: str
    text_key: str
    day: str | None = None


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """A file ready to be turned into chunks. Its text alone makes it, but for ``file_day``, the day of its file's time."""

    path: str
    sha256: str
    source_class: SourceClass
    project: str | None
    doc_class: DocClass
    title: str
    aliases: tuple[str, ...]
    tags: tuple[str, ...]
    date: str | None
    language: str
    passages: tuple[ParsedPassage, ...]
    notices: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    properties: Properties = field(default_factory=dict)
    head: tuple[str, ...] = ()
    opening: str = ""
    converted_from: str = ""
    pages: tuple[int, ...] = ()
    file_day: str = ""


def text_key(embedded: str) -> str:
    """Name of an embedded text: equal keys share one vector."""
    return hashlib.sha256(embedded.encode("utf-8", "surrogatepass")).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Reader:
    """Turns decoded text into a ParsedFile with one set of rules."""

    count: Callable[[str], int]
    limits: ChunkLimits
    handoff_dirs: Sequence[str]
    handoff_basenames: Sequence[str]
    find_secrets: Callable[[str, str], Sequence[Finding]]
    detect_language: Callable[[str], str]

    def read(self, path: str, text: str, sha256: str, *, source_class: SourceClass, project: str | None) -> ParsedFile:
        """Raises Rejected when the file must be left out."""
        prepared = shorten_data_uris(text)
        front = parse_front_matter(prepared)
        if front.access is not None:  # before all else: what such a file holds is nobody's business
            raise Rejected(_access_reason(front.access, front.unread))
        prepared, data = leave_out_data(prepared, front.body_start)
        found = self.find_secrets(path, prepared)
        if strong := [each for each in found if each.tier is Tier.STRONG]:
            raise Rejected("possible secret: " + "; ".join(f"{each.kind} (line {each.line})" for each in strong[:5]))
        if found:  # from here on nothing sees the values: not the title, not a property, no passage
            prepared = mask(prepared, found)
            front = parse_front_matter(prepared)
        prepared = hide(prepared, front.body_start, code_ranges)
        heading_title = front.title or _heading(prepared, front)
        # A file name is a title to show, not one to embed: renaming a file must not change any vector.
        title = heading_title or PurePosixPath(path).stem
        passages = chunk_text(
            prepared, body_start=front.body_start, title=heading_title, count=self.count, limits=self.limits
        )
        parsed = [self._parsed(passage, heading_title) for passage in passages]
        return ParsedFile(
            path=path,
            sha256=sha256,
            source_class=source_class,
            project=project,
            doc_class=classify_doc(
                path,
                type_=front.type,
                tags=front.tags,
                mirror_dirs=self.handoff_dirs,
                mirror_basenames=self.handoff_basenames,
            ),
            title=title,
            aliases=front.aliases,
            tags=front.tags,
            date=front.date,
            language=self.detect_language(without_marks(prepared[front.body_start :])),
            # A piece of nothing but comments has no words to be found by.
            passages=tuple(each for each in parsed if each.embedded)
            or (self._parsed(_name_alone(prepared, front.body_start), title),),
            notices=_notices(front.unread, found, data),
            links=_links(path, front.links, prepared, front.body_start),
            properties=joined(front.properties, body_properties(prepared[front.body_start :])),
            head=as_lines(front.properties),
            opening=first_paragraph(prepared, front.body_start) if is_front_page(path) else "",
        )

    def _parsed(self, passage: Passage, title: str | None) -> ParsedPassage:
        embedded = embedded_text(title, passage.heading_path, passage.shown, limits=self.limits)
        return ParsedPassage(passage, embedded, text_key(embedded))


def _heading(text: str, front: FrontMatter) -> str | None:
    heading = first_heading(text, front.body_start)
    return None if heading and names_nothing(heading, front.properties) else heading


def _name_alone(text: str, body_start: int) -> Passage:
    """What stands for a document that has no words of its own: its head, found by its name and properties, and no text."""
    return Passage("", (), 0, 0, 1, max(1, text.count("\n", 0, body_start)))


def _links(path: str, in_head: Sequence[str], text: str, start: int) -> tuple[str, ...]:
    """Two brackets are a link in prose only: code has lists of lists."""
    return tuple(dict.fromkeys((*in_head, *find_links(text, start))))[:MAX_LINKS] if is_document(path) else ()


def _masked_notice(found: Sequence[Finding]) -> str:
    lines = sorted({each.line for each in found})
    shown = ", ".join(map(str, lines[:_LINES_SHOWN])) + (", …" if len(lines) > _LINES_SHOWN else "")
    what = "1 possible secret" if len(found) == 1 else f"{len(found)} possible secrets"
    return f"{what} {MASKED} (line{'s' if len(lines) > 1 else ''} {shown})"


def _data_notice(data: Sequence[LeftOut]) -> str:
    shown = ", ".join(f"{each.kind} (line {each.line})" for each in data[:_LINES_SHOWN])
    return f"left out as no prose: {shown}{', …' if len(data) > _LINES_SHOWN else ''}"


def _notices(unread: str | None, found: Sequence[Finding], data: Sequence[LeftOut]) -> tuple[str, ...]:
    return tuple(
        [
            *([f"the head was not read: {unread}"] if unread else ()),
            *([_masked_notice(found)] if found else ()),
            *([_data_notice(data)] if data else ()),
        ]
    )


def _access_reason(access: str, unread: str | None) -> str:
    if access == "none":
        return f"{WITHHELD_BY} says access: none"
    if unread is not None:
        return f"{WITHHELD_BY} names access and was not read: {unread}"
    return f"{WITHHELD_BY} has an unknown access value; only 'none' is known, so the file is left out"
