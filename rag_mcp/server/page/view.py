"""What a view is: a function from what was asked, and the tools of who asked, to a template and its data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rag_mcp.config import Config
from rag_mcp.server.http.app import Caller
from rag_mcp.server.http.profiles import Served
from rag_mcp.server.page.rights import ProfileBook

__all__ = ["Asked", "Payload", "Shown", "View"]

Payload = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """``given`` are the fields of the form or link. ``served`` answers under the caller's profile, and whatever a view shows
    of documents comes from its tools; ``seen`` is what list_knowledge_sources says. ``auditor``: ``served_as`` may be used,
    which opens another profile."""

    given: Mapping[str, str]
    caller: Caller
    served: Served
    seen: Payload
    config: Config
    book: ProfileBook
    auditor: bool
    served_as: Callable[[str], Served]

    def tool(self, name: str, arguments: Mapping[str, object]) -> Payload:
        """What the tool of this name answers, or the error it tells."""
        return self.served.tools.run(name, arguments).payload


@dataclass(frozen=True, slots=True)
class Shown:
    template: str
    data: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True, slots=True)
class View:
    """``name`` is its address below /page and its template's name. One without ``label`` is not in the navigation; one for
    auditors is, to others, not there."""

    name: str
    label: str
    show: Callable[[Asked], Shown]
    auditors_only: bool = False
