"""The routes: who is calling, and what answers under that caller's profile."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rag_mcp.server.http.client import PROFILE_HEADER
from rag_mcp.server.http.guard import USUAL, Limits, Refusal, Slots, say, values_of, whole_body
from rag_mcp.server.http.profiles import Profiles
from rag_mcp.server.http.tokens import Token, TokenWatch

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from rag_mcp.server.http.guard import Headers

__all__ = ["App", "Caller", "Gate"]

_MOST_CALLS = 512  # of one caller at once; four of them are searched for at a time


@dataclass(frozen=True, slots=True)
class Caller:
    name: str
    profile: str


class Gate:
    """Who is calling? A token's holder; a process of this user, by the key only it can read; or, where no token is asked
    for, anybody under ``open_profile``."""

    def __init__(self, tokens: TokenWatch, *, key: str, open_profile: str | None = None) -> None:
        self._tokens = tokens
        self._key = key
        self._open_profile = open_profile

    @property
    def anybody(self) -> Caller | None:
        """As whom a caller is answered who shows nothing; None where that is refused."""
        return None if self._open_profile is None else Caller("", self._open_profile)

    def tokens(self) -> tuple[Token, ...]:
        """As they are now."""
        return self._tokens.current()

    def profiles(self) -> set[str]:
        """Whom there may be a call of soon."""
        named = {token.profile for token in self._tokens.current()}
        return named if self._open_profile is None else named | {self._open_profile}

    def caller(self, headers: Headers) -> Caller:
        """Raises Refusal: no token is never a profile, and neither is a wrong one."""
        shown = values_of(b"authorization", headers)
        if not shown and self.anybody is not None:
            return self.anybody
        kind, _, secret = shown[0].partition(" ") if len(shown) == 1 else ("", "", "")
        if kind.lower() == "bearer":
            secret = secret.strip()
            if hmac.compare_digest(secret.encode(), self._key.encode()):
                named = values_of(PROFILE_HEADER.lower().encode(), headers)
                return Caller("this user's own", named[0] if len(named) == 1 else "")
            if (token := self._tokens.holder(secret)) is not None:
                return Caller(f"token {token.name}", token.profile)
        raise Refusal(
            401, "unauthorized", "A valid token is needed: Authorization: Bearer …", {"WWW-Authenticate": "Bearer"}
        )


class App:
    """The ASGI application behind the guard; ``page`` answers what lies below /page, and the front door."""

    def __init__(self, gate: Gate, profiles: Profiles, limits: Limits = USUAL, *, page: ASGIApp | None = None) -> None:
        self._gate = gate
        self._profiles = profiles
        self._limits = limits
        self._slots = Slots(_MOST_CALLS)
        self._routes: dict[str, ASGIApp] = {"/mcp": self._mcp, "/health": _health}
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        route = self._routes.get(path)
        if route is None and (path in ("/", "/page") or path.startswith("/page/")):
            route = self._page
        if route is None:
            # Hosts that look for OAuth read this as JSON, and go on with the token they were given.
            raise Refusal(404, "not_found")
        await route(scope, receive, send)

    async def _mcp(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":  # a GET of the older protocol would hold a stream open for ever
            raise Refusal(405, "method_not_allowed", "Use POST.", {"Allow": "POST"})
        caller = self._gate.caller(scope["headers"])
        body = await whole_body(scope["headers"], receive, self._limits)
        with self._slots.taken(caller.name):
            served = await self._profiles.of(caller.profile)
            await served.protocol.handle_request(scope, _replayed(body, receive), send)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A body that was read already, and after it whatever comes: the client's leaving."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return left.pop() if left else await receive()

    return next_message


async def _health(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["method"] not in ("GET", "HEAD"):
        raise Refusal(405, "method_not_allowed", "Use GET.", {"Allow": "GET, HEAD"})
    await say(send, 200, "ok")
