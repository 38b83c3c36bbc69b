"""Federation: several corpora, each a KnowledgeBase with its own store and policy, that answer as one."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from rag_mcp.access.names import from_cursor, no_such_document, to_cursor
from rag_mcp.answers import CorporaInventory, CorporaPage, Document, DocumentEntry, SearchResponse, Status
from rag_mcp.config import Config
from rag_mcp.embedders.lazy import LazyEmbedder, SharedEmbedder
from rag_mcp.errors import InvalidArgument, NotFound, RagMcpError
from rag_mcp.knowledge import KnowledgeBase
from rag_mcp.models import About
from rag_mcp.requests import DocumentRequest, ListRequest, NoRequest, Request, SearchRequest
from rag_mcp.search.several import (
    addressed,
    inside,
    merged_inventory,
    merged_search,
    merged_status,
    named_document,
    told,
)
from rag_mcp.stores.embedded.place import corpora_of

__all__ = ["Federation"]

_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())  # without a log set up, the answer says it
_Answer = TypeVar("_Answer")
_NEAREST = 5


class Federation:
    """The methods of a KnowledgeBase over ``config.corpora``; every method is thread-safe.

    A corpus that can't answer is said as degradation while others answer; when none can, its error is the answer. A
    question is embedded once for all.
    """

    def __init__(self, config: Config, *, embedder: LazyEmbedder | None = None) -> None:
        shared = SharedEmbedder(config, embedder)
        self._gap_log = config.gap_log
        self._description = config.description
        self._bases = {
            name: KnowledgeBase(replace(each, gap_log=None), embedder=shared)
            for name, each in corpora_of(config).items()
        }

    @classmethod
    def open(cls, config: Config) -> Federation:
        """Nothing is loaded yet, and nothing has to exist yet. Raises ConfigError."""
        return cls(config)

    def warm_up(self) -> None:
        """As KnowledgeBase.warm_up, one corpus after the other."""
        for base in self._bases.values():
            base.warm_up()

    def close(self) -> None:
        for base in self._bases.values():
            base.close()

    # --- answers -----------------------------------------------------------------------------------------------------

    def search(self, request: SearchRequest) -> SearchResponse:
        """One answer in the order of the passages' probabilities."""
        from rag_mcp.search.gaps import note_unanswered

        places = addressed(request.path, self._asked(request))
        # A property that no document of one corpus has may be known in another.
        answers, problems = self._each(
            places, lambda name, base: base.search(replace(request, path=places[name])), declined=InvalidArgument
        )
        response = merged_search(request, answers, problems)
        note_unanswered(self._gap_log, request.query, response.reason)
        return response

    def get_document(self, request: DocumentRequest) -> Document:
        """By ``name/path``, or by what names one document of one corpus. Raises NotFound."""
        anywhere = dict.fromkeys(self._bases, request.source)
        places = addressed(request.source, list(self._bases))
        try:
            return self._document(places, request)
        except NotFound:
            if places != anywhere:  # a title may begin like the name of a corpus
                with contextlib.suppress(NotFound):
                    return self._document(anywhere, request)
            raise

    def _document(self, places: Mapping[str, str | None], request: DocumentRequest) -> Document:
        nearest: list[str] = []

        def read(name: str, base: KnowledgeBase) -> Document:
            try:
                return named_document(name, base.get_document(replace(request, source=places[name] or request.source)))
            except NotFound as error:
                nearest.extend(inside(name, source) for source in error.nearest)
                raise

        try:
            found, _ = self._each(places, read, declined=NotFound)
        except NotFound:
            raise no_such_document(request.source, nearest[:_NEAREST]) from None
        if len(found) > 1:
            raise no_such_document(request.source, [each.source for each in found.values()][:_NEAREST])
        return next(iter(found.values()))

    def list_documents(self, request: ListRequest) -> CorporaPage:
        """One page, corpus after corpus, each in path order."""
        asked = self._asked(request)
        places = {field: addressed(getattr(request, field), asked) for field in ("prefix", "path", "linked_to")}
        names, behind = _rest_of([name for name in asked if all(name in each for each in places.values())], request)
        found: list[DocumentEntry] = []

        def take(name: str, base: KnowledgeBase) -> bool:
            """What fits on the page; True when there is more."""
            there: dict[str, Any] = {field: each[name] for field, each in places.items()}
            there["linked_to"] = there["linked_to"] or request.linked_to
            there["cursor"] = behind if name == names[0] else None
            room = request.limit - len(found)
            page = base.list_documents(replace(request, **there, limit=max(1, room)))
            if not room:
                return bool(page.documents)
            found.extend(replace(entry, source=inside(name, entry.source)) for entry in page.documents)
            return page.next_cursor is not None

        more, problems = self._each(names, take, declined=(InvalidArgument, NotFound))
        cursor = to_cursor(found[-1].source) if found and any(more.values()) else None
        return CorporaPage(tuple(found), cursor, None, told(problems))

    def list_sources(self, request: NoRequest | None = None) -> CorporaInventory:
        """What each corpus holds, and all together."""
        names = self._asked(request) if request is not None else list(self._bases)
        found, problems = self._each(names, lambda _, base: base.list_sources())
        return merged_inventory(found, problems, self.about())

    def about(self) -> tuple[About, ...]:
        """Each corpus by its name, and first, without one, what the operator says of all."""
        all_of_them = (About("", self._description),) if self._description else ()
        each = ((name, about) for name, base in self._bases.items() for about in base.about())
        return (*all_of_them, *(replace(about, name=name) for name, about in each))

    def status(self) -> Status:
        found, problems = self._each(self._bases, lambda _, base: base.status())
        return merged_status(found, problems)

    # --- parts -------------------------------------------------------------------------------------------------------

    def _asked(self, request: Request) -> list[str]:
        """The corpora a request is for. Raises InvalidArgument for a name that is none."""
        corpus = getattr(request, "corpus", None)  # only the requests of several corpora have it
        if corpus is None:
            return list(self._bases)
        if corpus not in self._bases:
            raise InvalidArgument("corpus", "is not known.", allowed=list(self._bases))
        return [corpus]

    def _each(
        self,
        names: Iterable[str],
        work: Callable[[str, KnowledgeBase], _Answer],
        *,
        declined: type[RagMcpError] | tuple[type[RagMcpError], ...] = (),
    ) -> tuple[dict[str, _Answer], dict[str, str]]:
        """The answers, and the problems of those that gave none; a corpus that ``declined`` has merely nothing to say.
        Raises what the first of them raised when there is no answer at all."""
        answers: dict[str, _Answer] = {}
        problems: dict[str, str] = {}
        errors: list[RagMcpError] = []
        for name in names:
            try:
                answers[name] = work(name, self._bases[name])
            except declined as error:
                errors.insert(0, error)
            except RagMcpError as error:
                _log.error("corpus %s: %s", name, error.for_operator)
                problems[name] = str(error)
                errors.append(error)
        if errors and not answers:
            raise errors[0]
        return answers, problems


def _rest_of(names: Sequence[str], request: ListRequest) -> tuple[Sequence[str], str | None]:
    """The corpora from that on where the page before ended, and the cursor in the first of them."""
    if request.cursor is None:
        return names, None
    name, _, path = (from_cursor(request.cursor) or "").partition("/")
    if name not in names or not path:
        raise InvalidArgument("cursor", "is not one that list_documents gave for these arguments.")
    return names[names.index(name) :], to_cursor(path)
