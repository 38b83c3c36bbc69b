"""What stands before every route: by which name the server is called, from which page, how much it is sent and how fast,
and how much it is asked at once.

A browser sends whatever page it shows to any address, so a name that is not ours (DNS rebinding) and a page that is not
ours are refused before anything is looked at. The SDK checks both too, but inside its transport, behind the token.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    Headers = Sequence[tuple[bytes, bytes]]

__all__ = [
    "LOOPBACK_NAMES",
    "SECURITY",
    "USUAL",
    "Guard",
    "Limits",
    "Refusal",
    "Slots",
    "check_caller",
    "say",
    "values_of",
    "whole_body",
]

LOOPBACK_NAMES = frozenset({"127.0.0.1", "[::1]", "localhost", "rag-mcp.localhost"})

_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(\d{1,5}))?")
_ORIGIN = re.compile(r"(https?)://([^/]+)")
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_DROPPED_BYTES = 16 * 1024 * 1024
_DROPPED_S = 2.0
_NONE: Mapping[str, str] = MappingProxyType({})

SECURITY: Mapping[str, str] = MappingProxyType(
    {
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    }
)
"""Of every answer: nobody keeps it, guesses what it is, or shows it as a page that runs or frames anything."""


@dataclass(frozen=True, slots=True)
class Limits:
    body_bytes: int = 256 * 1024
    body_s: float = 10.0


USUAL = Limits()


class Refusal(Exception):
    """Why a request is not answered; raised before anything was sent. ``error`` is a word for programs."""

    def __init__(self, status: int, error: str, message: str = "", headers: Mapping[str, str] = _NONE) -> None:
        super().__init__(status, error)
        self.status = status
        self.error = error
        self.message = message
        self.headers = headers


# --- by name and page (pure) -----------------------------------------------------------------------------------------


def values_of(name: bytes, headers: Headers) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key == name]


def check_caller(headers: Headers, names: frozenset[str]) -> None:
    """Raises Refusal unless the Host is one of ``names``, and the Origin, if there is one, a page of this server."""
    host = _authority(values_of(b"host", headers))
    if host is None or host[0] not in names:
        raise Refusal(421, "misdirected_request", "This server has no such name; names are added with --allowed-host.")
    for origin in values_of(b"origin", headers):
        if not _is_own(origin.lower(), host[1], names):
            raise Refusal(403, "forbidden_origin", "No page of another origin may call this server.")


def _authority(values: Sequence[str]) -> tuple[str, str] | None:
    """Name and port of the one Host header, in small letters; None for anything else."""
    found = _AUTHORITY.fullmatch(values[0].lower()) if len(values) == 1 else None
    return None if found is None else (found[1], found[2] or "")


def _is_own(origin: str, port: str, names: frozenset[str]) -> bool:
    """Whether a page came from here: a port is part of an origin, so another server on this machine is another origin."""
    parts = _ORIGIN.fullmatch(origin)
    own = _authority([parts[2]]) if parts else None
    if parts is None or own is None or own[0] not in names:
        return False
    usual = _DEFAULT_PORTS[parts[1]]
    return (own[1] or usual) == (port or usual)


# --- how much ---------------------------------------------------------------------------------------------------------


async def whole_body(headers: Headers, receive: Receive, limits: Limits = USUAL) -> bytes:
    """The request's body. Raises Refusal for one that is too large or too slow."""
    if _declared(headers) > limits.body_bytes:
        raise _too_large(limits)
    parts, size = [], 0
    with anyio.move_on_after(limits.body_s):
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise Refusal(400, "incomplete_body")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limits.body_bytes:
                raise _too_large(limits)
            if not message.get("more_body"):
                return b"".join(parts)
    raise Refusal(408, "timeout", f"The body did not come within {limits.body_s:g} seconds.")


async def _rest_dropped(headers: Headers, receive: Receive) -> None:
    """Read on to the end of a body that nobody wants: its sender would see a broken connection in place of the answer. Not
    of one that is huge, or that waits to be asked for."""
    if _declared(headers) > _DROPPED_BYTES or values_of(b"expect", headers):
        return
    size = 0
    with anyio.move_on_after(_DROPPED_S):
        while size <= _DROPPED_BYTES:
            message = await receive()
            size += len(message.get("body", b""))
            if not message.get("more_body"):
                return


def _declared(headers: Headers) -> int:
    return int(next(iter(values_of(b"content-length", headers)), "0"))


def _too_large(limits: Limits) -> Refusal:
    return Refusal(413, "too_large", f"A request may have up to {limits.body_bytes // 1024} KB.")


class Slots:
    """How many calls of one caller may be under way. More are told to come again and never queued, so nobody waits behind
    somebody else's."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._busy: Counter[str] = Counter()

    @contextlib.contextmanager
    def taken(self, caller: str) -> Iterator[None]:
        """Raises Refusal."""
        if self._busy[caller] >= self._most:
            raise Refusal(429, "too_many_calls", "Too many calls are under way; ask again.", {"Retry-After": "1"})
        self._busy[caller] += 1
        try:
            yield
        finally:
            self._busy[caller] -= 1
            if not self._busy[caller]:
                del self._busy[caller]


# --- the guard --------------------------------------------------------------------------------------------------------


class Guard:
    """An ASGI application around another; a Refusal that comes out of it is told as JSON."""

    def __init__(self, app: ASGIApp, names: Iterable[str] = ()) -> None:
        self._app = app
        self._names = LOOPBACK_NAMES.union(name.lower() for name in names)
        self._under_way = 0
        self._last = time.monotonic()

    @property
    def idle_s(self) -> float:
        """Since the last request was answered; 0 while one is under way."""
        return 0.0 if self._under_way else time.monotonic() - self._last

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._under_way += 1
        more = True

        async def heard() -> Message:
            nonlocal more
            message = await receive()
            more = message.get("more_body", False)
            return message

        try:
            check_caller(scope["headers"], self._names)
            await self._app(scope, heard, send)
        except Refusal as refusal:
            if more:
                await _rest_dropped(scope["headers"], receive)
            body = {"error": refusal.error, **({"message": refusal.message} if refusal.message else {})}
            # What of the request was not read must not be taken for the next one.
            await say(send, refusal.status, body, {**refusal.headers, "Connection": "close"})
        finally:
            self._under_way -= 1
            self._last = time.monotonic()


async def say(send: Send, status: int, body: Mapping[str, str] | str, headers: Mapping[str, str] = _NONE) -> None:
    """Answer with JSON, or a plain word, that nobody keeps."""
    raw = (body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)).encode()
    kind = "text/plain; charset=utf-8" if isinstance(body, str) else "application/json"
    usual = {"Content-Type": kind, **SECURITY}
    lines = {**usual, "Content-Length": str(len(raw)), **headers}
    encoded = [(name.lower().encode(), value.encode()) for name, value in lines.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": raw})
