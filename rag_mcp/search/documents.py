"""Documents from the index, never from disk: one file or a neighbourhood, a page of the list, the inventory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING

from rag_mcp.access.names import from_cursor, no_such_document, safe_source, same_names, to_cursor
from rag_mcp.access.profiles import Rights
from rag_mcp.answers import Document, DocumentEntry, DocumentPage, Link, SourceInventory
from rag_mcp.errors import InvalidArgument
from rag_mcp.models import SourceClass
from rag_mcp.requests import DocumentRequest, ListRequest
from rag_mcp.search.description import described
from rag_mcp.search.document_filter import passing
from rag_mcp.search.excerpt import excerpt
from rag_mcp.search.naming import Shown, nearest, resolve
from rag_mcp.stores.manifest import FileEntry
from rag_mcp.text.globs import composed
from rag_mcp.text.links import link_target
from rag_mcp.text.properties import Properties, own_date
from rag_mcp.text.sanitize import neutralise, single_line

if TYPE_CHECKING:
    from rag_mcp.search.generation import OpenGeneration

__all__ = ["inventory", "page_documents", "read_document", "visible_counts"]

# Documents of one name that a refusal lists.
_CANDIDATES = 5


def read_document(request: DocumentRequest, opened: OpenGeneration, rights: Rights) -> Document:
    """Raises NotFound, in the same words for a missing, forbidden or malformed path, and InvalidArgument for a place
    the document does not have."""
    source = _meant(request.source, opened, rights)
    entry = opened.manifest.files[source]
    refs = list(entry.refs())
    part = excerpt(request, refs, lambda ids: opened.keywords.fetch([entry.source_class], ids))
    text, warnings = neutralise(part.text)
    dated = own_date(source, entry.properties, entry.file_day)
    return Document(
        source=source,
        title=single_line(entry.title),
        source_class=entry.source_class,
        project=entry.project,
        doc_class=entry.doc_class,
        text=text,
        line_start=part.line_start,
        line_end=part.line_end,
        chunk_start=part.first,
        chunk_end=part.last,
        chunk_count=len(entry.rows),
        truncated=part.truncated,
        next_chunk=part.next_chunk,
        next_char=part.next_char,
        generation=opened.number,
        indexed_at=opened.indexed_at,
        warnings=warnings,
        links=_links(source, opened, rights) if request.from_chunk is None else (),
        backlinks=tuple(_backlinks(source, opened, rights)) if request.from_chunk is None else (),
        properties=_served(entry.properties),
        converted_from=entry.converted_from,
        pages=entry.pages_of(part.line_start, part.line_end),
        date=dated.day,
        date_from=dated.source,
        passages=tuple((ref.line_start, ref.line_end) for ref in refs),
    )


def _served(properties: Properties) -> dict[str, object]:
    return {
        single_line(key): [single_line(each) if isinstance(each, str) else each for each in values]
        for key, values in properties.items()
    }


def _meant(asked: str, opened: OpenGeneration, rights: Rights) -> str:
    """The visible document of exactly this path, or else the only one with this name. Raises NotFound with those that
    have it, or one like it; a hidden document counts as none."""
    if (path := _at(safe_source(asked), opened, rights)) is not None:
        return path
    shown = _shown(opened, rights, None)
    name = link_target(asked)
    found = resolve(asked, opened.names, shown) or resolve(name, opened.names, shown)
    if len(found) == 1:
        return found[0]
    raise no_such_document(asked, found[:_CANDIDATES] or nearest(name, opened.names, shown))


def _shown(opened: OpenGeneration, rights: Rights, asked_for: SourceClass | None) -> Shown:
    """What may be named in an answer about a document of the class ``asked_for``; what it opened by is as explicit as
    the name of its class."""
    files = opened.manifest.files

    @cache
    def shown(path: str) -> bool:
        source_class = files[path].source_class
        return any(rights.may_see(source_class, path, requested=each) for each in {None, asked_for})

    return shown


def _links(source: str, opened: OpenGeneration, rights: Rights) -> tuple[Link, ...]:
    entry = opened.manifest.files[source]
    shown = _shown(opened, rights, entry.source_class)
    return tuple(
        Link(target, next(iter(resolve(target, opened.names, shown, source=source)), None)) for target in entry.links
    )


def _backlinks(source: str, opened: OpenGeneration, rights: Rights) -> list[str]:
    entry = opened.manifest.files[source]
    return opened.names.linking_to(source, entry, _shown(opened, rights, entry.source_class))


def _at(source: str, opened: OpenGeneration, rights: Rights) -> str | None:
    """The visible file of exactly this path, or else the only one that is canonically equal."""
    files = opened.manifest.files

    def shown(path: str) -> bool:
        return rights.may_open(files[path].source_class, path)

    if source in files and shown(source):
        return source
    equal = [path for path in same_names(source, files, opened.other_forms) if shown(path)]
    return equal[0] if len(equal) == 1 else None


def page_documents(request: ListRequest, opened: OpenGeneration, rights: Rights) -> DocumentPage:
    """Documents in path order; ``next_cursor`` is None on the last page. Raises InvalidArgument for a foreign cursor, and
    NotFound for a ``linked_to`` that means no one document."""
    after, files = _behind(request.cursor), opened.manifest.files
    shown = opened.shown(rights, request.source_class)
    below = _below(request.prefix, shown)
    asked = shown if request.documents.empty else passing(request.documents, opened.facets, shown)
    if request.linked_to is not None:
        asked = asked.intersection(_backlinks(_meant(request.linked_to, opened, rights), opened, rights))
    ahead = sorted(
        path for path in asked if path > after and below(path) and request.project in (None, files[path].project)
    )
    page = ahead[: request.limit]
    cursor = to_cursor(page[-1]) if len(ahead) > len(page) else None
    return DocumentPage(tuple(_listed(path, files[path]) for path in page), cursor, opened.number)


def _listed(path: str, entry: FileEntry) -> DocumentEntry:
    kinds = entry.source_class, entry.project, entry.doc_class
    dated = own_date(path, entry.properties, entry.file_day)
    return DocumentEntry(path, single_line(entry.title), *kinds, len(entry.rows), *dated)


def _behind(cursor: str | None) -> str:
    after = "" if cursor is None else from_cursor(cursor)
    if after is None:
        raise InvalidArgument("cursor", "is not one that list_documents gave.")
    return after


def _below(prefix: str | None, paths: Iterable[str]) -> Callable[[str], bool]:
    """The test for ``prefix``: as it is spelled, or in any canonically equal spelling if no path has this one."""
    prefix = (prefix or "").strip("/")

    def spelled(path: str) -> bool:
        return not prefix or path == prefix or path.startswith(f"{prefix}/")

    if any(spelled(path) for path in paths):
        return spelled
    form = composed(prefix)
    return lambda path: composed(path) == form or composed(path).startswith(f"{form}/")


def visible_counts(opened: OpenGeneration, rights: Rights) -> dict[SourceClass, dict[str, int]]:
    """{class: {files, chunks}} of every class of the profile; a class that holds nothing counts 0."""
    counts = {source_class: {"files": 0, "chunks": 0} for source_class in sorted(rights.profile.classes)}
    for source_class in rights.profile.classes:
        for path in opened.shown(rights, source_class):
            counts[source_class]["files"] += 1
            counts[source_class]["chunks"] += len(opened.manifest.files[path].rows)
    return counts


def inventory(opened: OpenGeneration, rights: Rights, description: str = "") -> SourceInventory:
    """Counts per class; ``description`` is the setting that goes before what the corpus says of itself."""
    visible = (path for each in rights.profile.classes for path in opened.shown(rights, each))
    projects = {project for path in visible if (project := opened.manifest.files[path].project) is not None}
    return SourceInventory(
        profile=rights.profile.name,
        classes=visible_counts(opened, rights),
        explicit_only=tuple(sorted(rights.profile.explicit_only)),
        projects=tuple(sorted(projects)),
        generation=opened.number,
        indexed_at=opened.indexed_at,
        description=described(description, rights, opened.generation.info.notes),
    )
