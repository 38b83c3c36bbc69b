"""The page as an application: who is signed in, which view is asked for, and the answer as HTML."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import anyio
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from rag_mcp.config import Config
from rag_mcp.server.http.app import Caller, Gate
from rag_mcp.server.http.guard import LOOPBACK_NAMES, Limits, Refusal, Slots, whole_body
from rag_mcp.server.http.life import PAGE_HOST
from rag_mcp.server.http.profiles import Profiles, Served
from rag_mcp.server.http.tokens import holder_of
from rag_mcp.server.page.headers import COOKIE_PATH, PAGE_SECURITY, cookie_name
from rag_mcp.server.page.registry import VIEWS
from rag_mcp.server.page.rendering import ASSETS, asset, link, render
from rag_mcp.server.page.rights import ProfileBook
from rag_mcp.server.page.sessions import LIFE_S, Sessions
from rag_mcp.server.page.view import Asked, Payload, Shown, View

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

__all__ = ["Page"]

logger = logging.getLogger(__name__)

_FORM = Limits(body_bytes=16 * 1024)
_AT_ONCE = 4  # views being made; more wait
_MOST = 32  # of one caller waiting
_OWN = re.compile(r"/page/[!-\[\]-~]*")  # an address of ours, without a backslash, which browsers take for a slash
_HOME = link("ask")


class Page:
    """The ASGI application of ``/``, ``/page`` and what lies below it."""

    def __init__(self, config: Config, gate: Gate, profiles: Profiles, *, views: Sequence[View] = VIEWS) -> None:
        self._config = config
        self._gate = gate
        self._profiles = profiles
        self._book = ProfileBook(config)
        self._views = {f"/page/{view.name}": view for view in views}
        self._sessions = Sessions()
        self._slots = Slots(_MOST)
        self._threads = anyio.CapacityLimiter(_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        response = await (self._posted(request, receive) if request.method == "POST" else self._got(request))
        response.headers.update(PAGE_SECURITY)
        await response(scope, receive, send)

    # --- GET ---------------------------------------------------------------------------------------------------------

    async def _got(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            raise Refusal(405, "method_not_allowed", "Use GET.", {"Allow": "GET, HEAD, POST"})
        if (moved := _at_page_host(request)) is not None:
            return RedirectResponse(moved)
        path = request.url.path
        if (kind := ASSETS.get(name := path.removeprefix("/page/"))) is not None:
            return Response(asset(name), media_type=kind)
        if path == "/page/login":
            return self._login(_own(request.query_params.get("next", "")))
        caller = self._caller(request)
        if path in ("/", "/page", "/page/"):
            return RedirectResponse(_HOME, 303)
        if caller is None:
            asked = f"{path}?{request.url.query}" if request.url.query else path
            return RedirectResponse(link("login", next=asked), 303)
        with self._slots.taken(caller.name):
            return await self._view(request, caller)

    async def _view(self, request: Request, caller: Caller) -> Response:
        served = await self._profiles.of(caller.profile)
        make = partial(self._made, self._views.get(request.url.path), dict(request.query_params), caller, served)
        try:
            return await anyio.to_thread.run_sync(make, limiter=self._threads)
        except Exception:
            logger.exception("A view failed")
            return self._html(Shown("failed.html", status=500), title="Failed")

    def _made(self, view: View | None, given: Mapping[str, str], caller: Caller, served: Served) -> Response:
        """A view as it is sent, made in a thread: whatever it asks may take its time."""
        seen = served.tools.run("list_knowledge_sources", {}).payload
        auditor = self._book.is_auditor(caller.profile)
        shown, title = Shown("missing.html", status=404), "Not found"
        if view is not None and (auditor or not view.auditors_only):
            asked = Asked(
                given=given,
                caller=caller,
                served=served,
                seen=seen,
                config=self._config,
                book=self._book,
                auditor=auditor,
                served_as=lambda profile: anyio.from_thread.run(self._profiles.of, profile),
            )
            title = view.label
            shown = view.show(asked)
        frame = {
            "caller": caller,
            "seen": seen,
            "open": caller == self._gate.anybody,
            "view": "" if view is None else view.name,
            "title": title,
            "navigation": self._navigation(auditor=auditor),
        }
        return self._html(shown, **frame)

    def _navigation(self, *, auditor: bool) -> list[View]:
        return [view for view in self._views.values() if view.label and (auditor or not view.auditors_only)]

    # --- signing in and out ------------------------------------------------------------------------------------------

    async def _posted(self, request: Request, receive: Receive) -> Response:
        """Whether another page sent the form was seen by the guard, by its Origin, and by what a browser says of it here."""
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise Refusal(403, "forbidden_origin", "No page of another origin may call this server.")
        if request.url.path not in ("/page/login", "/page/logout"):
            raise Refusal(405, "method_not_allowed", "Use GET.", {"Allow": "GET, HEAD"})
        body = await whole_body(request.scope["headers"], receive, _FORM)
        if request.url.path == "/page/logout":
            return self._signed_out(request)
        form = dict(parse_qsl(body.decode("utf-8", "replace"), max_num_fields=8))
        token = holder_of(form.get("token", "").strip(), self._gate.tokens())
        if token is None:
            return self._login(_own(form.get("next", "")), failed=True)
        self._sessions.end(request.cookies.get(_cookie(request), ""))
        response = RedirectResponse(_own(form.get("next", "")), 303)
        response.set_cookie(_cookie(request), self._sessions.begin(token), max_age=LIFE_S, **_kept(request))
        return response

    def _signed_out(self, request: Request) -> Response:
        self._sessions.end(request.cookies.get(_cookie(request), ""))
        response = RedirectResponse(link("login"), 303)
        response.delete_cookie(_cookie(request), **_kept(request))
        return response

    def _login(self, after: str, *, failed: bool = False) -> Response:
        shown = Shown("login.html", {"next": after, "failed": failed}, status=401 if failed else 200)
        return self._html(shown, title="Sign in", open=self._gate.anybody is not None)

    def _caller(self, request: Request) -> Caller | None:
        """Who is signed in, or anybody where the server asks for no token."""
        token = self._sessions.holder(request.cookies.get(_cookie(request), ""), self._gate.tokens())
        return self._gate.anybody if token is None else Caller(f"token {token.name}", token.profile)

    def _html(self, shown: Shown, **frame: Any) -> Response:
        empty: Payload = {}
        usual = {"caller": None, "seen": empty, "navigation": (), "view": ""}
        return HTMLResponse(render(shown.template, {**usual, **frame, **shown.data}), shown.status)


def _at_page_host(request: Request) -> str | None:
    """The same address under the page's own name, for one that other servers of this machine answer to as well."""
    name = request.url.hostname or ""
    known_as = f"[{name}]" if ":" in name else name
    if known_as == PAGE_HOST or known_as not in LOOPBACK_NAMES:
        return None
    return str(request.url.replace(hostname=PAGE_HOST))


def _own(address: str) -> str:
    """An address of this page to go to; another one is not gone to."""
    return address if _OWN.fullmatch(address) else _HOME


def _cookie(request: Request) -> str:
    return cookie_name(request.scope["server"][1])


def _kept(request: Request) -> dict[str, Any]:
    """How a browser keeps the cookie. Under any name but loopback's, TLS is spoken before this server."""
    far = request.url.hostname != PAGE_HOST
    return {"path": COOKIE_PATH, "httponly": True, "samesite": "strict", "secure": far}
