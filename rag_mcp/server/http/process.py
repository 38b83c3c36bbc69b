"""The server over HTTP as a process: may it start, where does it listen, when does it end?"""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import secrets
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from rag_mcp import __version__
from rag_mcp.access.policy import RESTRICTED
from rag_mcp.config import Config, environment
from rag_mcp.errors import ConfigError
from rag_mcp.server.http.app import App, Gate
from rag_mcp.server.http.connections import HttpServer, http_server
from rag_mcp.server.http.guard import Guard
from rag_mcp.server.http.life import DEFAULT_PORT, Running, life_of, settings_digest
from rag_mcp.server.http.profiles import Profiles
from rag_mcp.server.http.tokens import Token, TokenFile, TokenWatch
from rag_mcp.server.leaving import leave
from rag_mcp.server.refresh import Refresh

if TYPE_CHECKING:
    from rag_mcp.server.page.site import Page

__all__ = ["ServeOptions", "beside", "check_start", "listening", "serve"]

logger = logging.getLogger(__name__)

_IDLE_STEP_S = 1.0
_OPEN_FILES = 4096
# Each with the addresses at which a socket takes its connections too.
_LOOPBACKS = {"127.0.0.1": ("127.0.0.1", "0.0.0.0", "::"), "::1": ("::1", "::")}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """``no_auth``: whoever reaches the port is answered as restricted. ``on_demand``: started by a process of this user, for
    its like, which need no token, at any free port if the usual one is taken."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    allowed_hosts: tuple[str, ...] = ()
    tokens: Path
    no_auth: bool = False
    on_demand: bool = False
    idle_exit_s: float | None = None
    page: bool = False


def check_start(options: ServeOptions, tokens: tuple[Token, ...], profile: str) -> None:
    """Raises ConfigError where a server would be open to whom nobody let in. Pure."""
    near = _is_loopback(options.host)
    if options.no_auth and (not near or profile != RESTRICTED):
        raise ConfigError("--no-auth answers whoever asks: only with --profile restricted, on a loopback address.")
    if not near and not options.allowed_hosts:
        raise ConfigError(
            f"{options.host} is reached from other machines: say under which name they call this server, with "
            "--allowed-host, and put a proxy that speaks TLS before it (docs/HTTP.md)."
        )
    if not tokens and not options.no_auth and (not options.on_demand or not near):
        raise ConfigError(f"There is no token in {options.tokens}. Make one: rag-mcp token add --profile NAME")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listening(host: str, port: int, *, or_any: bool = False) -> socket.socket:
    """A socket that takes connections. Raises ConfigError saying what is wrong with the place."""
    try:
        found_at = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, place = found_at[0]
        # asyncio sends at once what is written (TCP_NODELAY) only where the protocol is said; else an answer's body would wait
        # until its headers are acknowledged, 40 ms.
        found = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"{host} is no address of this machine ({error.strerror}).") from error
    try:
        if sys.platform != "win32":  # there it would share the port with whoever has it
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(place)
        found.listen(2048)
    except OSError as error:
        found.close()
        if or_any and port and error.errno == errno.EADDRINUSE:
            return listening(host, 0)
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(
                f"Port {port} of {host} is taken, by another program or a server of another store: choose a --port."
            ) from error
        raise ConfigError(f"{host}:{port} can't be listened at ({error.strerror}).") from error
    return found


def beside(host: str, port: int) -> list[socket.socket]:
    """Sockets at the loopback addresses that one at ``host`` leaves to others. Browsers take the page's name for both, so
    whoever had the other one would be shown tokens. Raises ConfigError where somebody has."""
    return [listening(each, port) for each, covering in _LOOPBACKS.items() if host not in covering and _is_here(each)]


def _is_here(address: str) -> bool:
    """Whether this machine has the address: not everyone speaks IPv6."""
    try:
        listening(address, 0).close()
    except ConfigError:
        return False
    return True


def serve(config: Config, options: ServeOptions, *, say: Callable[[str], None]) -> None:
    """Serve until told to end, then end the process. Raises ConfigError or ServerRunning where it may not begin."""
    tokens = TokenFile(options.tokens)
    check_start(options, tokens.read(), config.profile)
    life = life_of(config, environment())
    _allow_many_files()
    with life.held():
        listener = listening(options.host, options.port, or_any=options.on_demand)
        host, port = listener.getsockname()[:2]
        listeners = [listener, *(beside(host, port) if options.page else ())]
        there = Running(
            pid=os.getpid(),
            host=host,
            port=port,
            version=__version__,
            settings=settings_digest(config),
            key=secrets.token_urlsafe(32),
            page=options.page,
        )
        life.announce(there)
        say(f"Serving at {there.url}")
        refresh = Refresh(config)
        refresh.start()
        profiles = Profiles(config, notes=refresh.notes)
        gate = Gate(TokenWatch(tokens), key=there.key, open_profile=RESTRICTED if options.no_auth else None)
        code = 0
        try:
            page = _page(config, gate, profiles) if options.page else None
            anyio.run(_run, App(gate, profiles, page=page), gate, profiles, listeners, options)
        except KeyboardInterrupt:
            logger.info("Interrupted")
        except Exception:
            logger.exception("The server stopped")
            code = 1

    def close() -> None:
        refresh.close()
        profiles.close()

    leave(close, code)


async def _run(app: App, gate: Gate, profiles: Profiles, listeners: list[socket.socket], options: ServeOptions) -> None:
    for library in ("uvicorn", "mcp"):  # what a caller sent may stand in their warnings
        logging.getLogger(library).setLevel(logging.ERROR)
    guard = Guard(app, options.allowed_hosts)
    server = http_server(guard)
    async with profiles.running(), anyio.create_task_group() as tasks:
        if options.idle_exit_s is not None:
            tasks.start_soon(_end_when_idle, guard, server, options.idle_exit_s)
        for profile in sorted(gate.profiles()):
            await profiles.of(profile)
        await server.serve(sockets=listeners)
        tasks.cancel_scope.cancel()


def _page(config: Config, gate: Gate, profiles: Profiles) -> Page:
    from rag_mcp.server.page.site import Page

    return Page(config, gate, profiles)


async def _end_when_idle(guard: Guard, server: HttpServer, idle_s: float) -> None:
    while guard.idle_s < idle_s:
        await anyio.sleep(min(_IDLE_STEP_S, idle_s))
    server.should_exit = True


def _allow_many_files() -> None:
    """A connection is an open file, and the usual limit is about a thousand of them."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
