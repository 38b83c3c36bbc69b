"""The whole application over a library, guard and all, in this process: for tests of the page."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient
from support import Library

from rag_mcp.server.http.app import App, Gate
from rag_mcp.server.http.guard import Guard
from rag_mcp.server.http.profiles import Profiles
from rag_mcp.server.http.tokens import TokenFile, TokenWatch
from rag_mcp.server.page.registry import VIEWS
from rag_mcp.server.page.site import Page
from rag_mcp.server.page.view import View

HOST = "http://rag-mcp.localhost:8377"
NAMES = ("notes.example.org",)


class Site:
    """``client`` signs nobody in; ``signed_in`` gives one that is."""

    def __init__(self, library: Library, tokens: Path, *, open_to_all: bool = False, views: Sequence[View] = VIEWS):
        self.tokens = TokenFile(tokens)
        config = library.config()
        self.profiles = Profiles(config)
        gate = Gate(TokenWatch(self.tokens), key="x" * 43, open_profile="restricted" if open_to_all else None)
        self.page = Page(config, gate, self.profiles, views=views)
        self._guard = Guard(App(gate, self.profiles, page=self.page), NAMES)
        self._root: TestClient

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] != "lifespan":
            return await self._guard(scope, receive, send)
        await receive()
        async with self.profiles.running():
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})

    @contextlib.contextmanager
    def running(self) -> Iterator[Site]:
        with self.client() as self._root:
            yield self
        self.profiles.close()

    def client(self, host: str = HOST) -> TestClient:
        client = TestClient(self, base_url=host, follow_redirects=False, raise_server_exceptions=False)
        client.portal = getattr(getattr(self, "_root", None), "portal", None)  # of the one event loop of all
        return client

    def token(self, profile: str, name: str | None = None) -> str:
        return self.tokens.add(profile, name)[1]

    def signed_in(self, profile: str, name: str | None = None) -> TestClient:
        client = self.client()
        reply = client.post("/page/login", data={"token": self.token(profile, name)})
        assert reply.status_code == 303
        return client


def words(html: str) -> str:
    """What is read on a page: without its marks, on one line."""
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


# What passes by the clock and says nothing of a document.
_PASSING = re.compile(r"Generation \d+, indexed [^.;<]*|\d{4}-\d{2}-\d{2} \d{2}:\d{2}(:\d{2})? UTC")


def looked_at(site: Site, profile: str, wanted: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """What the views named in ``wanted`` show a token of this profile, but for generation numbers and times."""
    client = site.signed_in(profile, f"looks-{profile}")
    replies = [client.get(f"/page/{name}", params=parameters) for name, parameters in wanted]
    assert all(reply.status_code < 500 for reply in replies)
    return [f"{reply.status_code} {_PASSING.sub('', reply.text)}" for reply in replies]
