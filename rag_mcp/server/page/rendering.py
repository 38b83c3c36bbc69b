"""Templates to HTML. Every value is escaped, wherever it comes from, and no document is ever rendered."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

if TYPE_CHECKING:
    import jinja2

__all__ = ["ASSETS", "asset", "link", "render"]

ASSETS = {"style.css": "text/css", "icon.svg": "image/svg+xml"}


def link(view: str, anchor: str = "", /, **parameters: object) -> str:
    """The address of a view; what is empty is left out."""
    given = {name: value for name, value in parameters.items() if value not in (None, "")}
    query = f"?{urlencode(given, doseq=True)}" if given else ""
    return f"/page/{view}{query}{f'#{anchor}' if anchor else ''}"


def render(template: str, data: Mapping[str, Any]) -> str:
    html: str = _environment().get_template(template).render(data)
    return html


@cache
def asset(name: str) -> bytes:
    """One of ASSETS."""
    return resources.files("rag_mcp.server.page").joinpath(f"static/{name}").read_bytes()


@cache
def _environment() -> jinja2.Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("rag_mcp.server.page"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["link"] = link
    environment.filters["tokens"] = _tokens
    environment.filters["moment"] = _moment
    environment.filters["day"] = lambda written: written[:10]
    environment.filters["drawn"] = _drawn
    environment.filters["pair"] = lambda value: (value, value)  # an option whose words are its value
    environment.filters["signed"] = lambda value: f"{value:+.2f}".replace("-", "\u2212")
    return environment


def _moment(written: str | None) -> str:
    """A time as the tools tell it, to the minute."""
    return "at no time" if written is None else f"{datetime.fromisoformat(written).astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _drawn(svg: str) -> object:
    """A chart of evaluation.plots, which escapes the words in it."""
    import markupsafe

    return markupsafe.Markup(svg)


def _tokens(text: str) -> int:
    """About how many tokens a model reads, by the usual four characters each."""
    return -(-len(text) // 4)
