"""Connections: how long one may take to say what it wants, and how many may be open."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["HttpServer", "Patient", "http_server"]

_HEADERS_S = 10.0
_UNREAD_S = 10.0  # for an answer that its client does not read
_MOST = 2048  # of the 4,096 files that the process allows itself
_KEEP_ALIVE_S = 30  # a host pauses between two calls, and its next one must not meet a closing connection
_GRACE_S = 5  # below the ten seconds after which service managers kill


class Patient(H11Protocol):
    """uvicorn waits for the rest of a request's headers for ever. Here they have ``headers_s``, and with ``most``
    connections open the one that has asked nothing for the longest time makes room for a new one."""

    headers_s = _HEADERS_S
    unread_s = _UNREAD_S
    most = _MOST
    _deadline: asyncio.TimerHandle | None = None
    _since = 0.0  # when it opened, or was last answered

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()
        if len(self.connections) > self.most:
            waiting = [
                each for each in self.connections if isinstance(each, Patient) and each.conn.their_state is h11.IDLE
            ]
            min(waiting, key=lambda each: each._since, default=self).transport.abort()
        self._wait_for_headers()

    def on_response_complete(self) -> None:
        self._since = self.loop.time()
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0] and self._deadline is None:
            self._wait_for_headers()  # of a request that began behind the one just answered

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # IDLE: a request has not begun, or not all of its headers are there.
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._deadline is None:
            self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self.loop.call_later(self.unread_s, self.transport.abort)

    def _wait_for_headers(self) -> None:
        self._deadline = self.loop.call_later(self.headers_s, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class HttpServer(uvicorn.Server):
    """A server that returns when it was told to end; uvicorn's sends itself the signal once more."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        signals = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name)]
        before = {each: signal.signal(each, self.handle_exit) for each in signals}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


def http_server(app: ASGIApp) -> HttpServer:
    """h11: the other parser takes headers of any size into memory."""
    config: dict[str, Any] = {
        "http": Patient,
        "loop": "asyncio",
        "ws": "none",
        "lifespan": "off",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "timeout_keep_alive": _KEEP_ALIVE_S,
        "timeout_graceful_shutdown": _GRACE_S,
    }
    return HttpServer(uvicorn.Config(app, **config))
