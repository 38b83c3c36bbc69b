"""The guard before every route: names, pages, sizes, times; decided purely, and shown by a real server."""

from __future__ import annotations

import contextlib
import socket
import sys

import anyio
import pytest
from http_daemon import WAIT_S, Daemon, Place, memory_mb, together

from rag_mcp.server.http.guard import LOOPBACK_NAMES, Guard, Limits, Refusal, Slots, check_caller, whole_body

ROUTES = [("GET", "/health"), ("POST", "/mcp"), ("GET", "/mcp"), ("GET", "/.well-known/x"), ("GET", "/none")]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("guarded")).fill()
    place.token("auditor")
    return place


@pytest.fixture(scope="module")
def daemon(place):
    with Daemon(place, "--allowed-host", "Notes.Example.org") as daemon:
        yield daemon


# --- pure ------------------------------------------------------------------------------------------------------------


def refusal(host: str | None, *origins: str, names: frozenset[str] = LOOPBACK_NAMES) -> int | None:
    headers = [] if host is None else [(b"host", host.encode())]
    try:
        check_caller([*headers, *((b"origin", origin.encode()) for origin in origins)], names)
    except Refusal as refused:
        return refused.status
    return None


@pytest.mark.parametrize("host", ["127.0.0.1:8377", "[::1]:8377", "localhost:8377", "LOCALHOST:1", "rag-mcp.localhost"])
def test_our_names_are_let_in_with_any_port(host):
    assert refusal(host) is None


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.example",
        "localhost.evil.example",
        "evil-localhost",
        "127.0.0.1.evil.example",
        "localhost:",
        "localhost:x",
    ]
    + [
        "127.0.0.2",
        "0.0.0.0",
        "[::]",
        "localhost, evil.example",
        "user@localhost",
        "localhost/x",
        "localhost.",
        "127.1",
    ],
)
def test_any_other_name_is_misdirected(host):
    assert refusal(host) == 421


def test_two_hosts_are_none():
    with pytest.raises(Refusal):
        check_caller([(b"host", b"localhost"), (b"host", b"localhost")], LOOPBACK_NAMES)


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:8377", "http://localhost:8377"),
        ("127.0.0.1:8377", "http://rag-mcp.localhost:8377"),
        ("[::1]:8377", "http://[::1]:8377"),
        ("notes.example.org", "https://notes.example.org"),
        ("notes.example.org", "http://notes.example.org:80"),
        ("notes.example.org:443", "https://Notes.example.org"),
    ],
)
def test_our_own_page_may_call(host, origin):
    assert refusal(host, origin, names=LOOPBACK_NAMES | {"notes.example.org"}) is None


@pytest.mark.parametrize(
    "origin",
    ["null", "", "http://evil.example", "http://localhost", "http://localhost:3000", "https://localhost:443", "file://"]
    + [
        "http://localhost:8377.evil.example",
        "http://localhost:8377/",
        "chrome-extension://localhost:8377",
        "localhost:8377",
    ],
)
def test_any_other_page_is_refused_also_one_of_another_port_of_this_machine(origin):
    assert refusal("localhost:8377", origin) == 403
    assert refusal("localhost:8377", "http://localhost:8377", origin) == 403


def read(parts: list[bytes], limits: Limits, declared: int | None = None, *, stalls: bool = False) -> bytes:
    """The body as it comes in ``parts``; ``stalls``: the last one never comes."""
    messages = [{"type": "http.request", "body": part, "more_body": stalls or part is not parts[-1]} for part in parts]

    async def receive():
        if not messages:
            await anyio.sleep_forever()
        return messages.pop(0)

    headers = [] if declared is None else [(b"content-length", str(declared).encode())]

    async def run() -> bytes:
        return await whole_body(headers, receive, limits)

    return anyio.run(run)


def test_a_body_is_whole_or_refused():
    limits = Limits(body_bytes=8, body_s=WAIT_S)
    assert read([b"1234", b"5678"], limits) == b"12345678"
    for parts, declared in (([b"1234", b"5678", b"9"], None), ([b"123456789"], 9), ([b"x"], 2**40)):
        with pytest.raises(Refusal) as refused:
            read(parts, limits, declared)
        assert refused.value.status == 413
    with pytest.raises(Refusal) as refused:
        read([b"1234"], Limits(body_bytes=8, body_s=0.05), stalls=True)
    assert refused.value.status == 408


def test_a_caller_has_so_many_calls_at_once_and_takes_none_of_anothers():
    slots = Slots(2)
    with slots.taken("a"), contextlib.suppress(KeyError), slots.taken("a"):
        with pytest.raises(Refusal) as refused, slots.taken("a"):
            raise AssertionError
        assert refused.value.status == 429 and refused.value.headers["Retry-After"]
        with slots.taken("b"):
            raise KeyError
    with slots.taken("a"), slots.taken("a"):
        pass


def test_idle_counts_from_the_last_request_and_never_within_one():
    idle: list[float] = []

    async def app(scope, receive, send):
        idle.append(guard.idle_s)

    guard = Guard(app)
    anyio.run(guard, {"headers": [(b"host", b"localhost")]}, None, None)
    assert idle == [0.0] and guard.idle_s > 0.0


# --- by a real server -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_foreign_name_or_page_gets_nothing_from_any_route(daemon, place, method, path):
    token = place.token("auditor")
    foreign = daemon.send(method=method, path=path, token=token, Host="evil.example")
    assert (foreign.status, foreign.json["error"]) == (421, "misdirected_request")
    for origin in ("http://evil.example", "null", "http://localhost:1"):
        page = daemon.send(method=method, path=path, token=token, Origin=origin)
        assert (page.status, page.json["error"]) == (403, "forbidden_origin")
    own = daemon.send(method=method, path=path, Origin=f"http://localhost:{daemon.port}")
    assert own.status not in (421, 403)
    assert not [name for reply in (foreign, page, own) for name in reply.headers if name.startswith("access-control")]


def test_a_name_that_was_allowed_is_one_of_ours(daemon):
    assert daemon.send(method="GET", path="/health", Host="notes.example.org").body == b"ok"


def test_what_is_not_there_is_said_as_json(daemon):
    for path in (
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-authorization-server/mcp",
        "/register",
        "/",
        "/mcp/",
    ):
        for method in ("GET", "POST"):
            reply = daemon.send(method=method, path=path)
            assert (reply.status, reply.headers["content-type"], reply.json) == (
                404,
                "application/json",
                {"error": "not_found"},
            )


def test_mcp_takes_posts_and_health_says_ok_alone(daemon, place):
    for method in ("GET", "DELETE", "PUT", "OPTIONS"):
        reply = daemon.send(method=method, token=place.token("auditor"), Accept="text/event-stream")
        assert (reply.status, reply.headers["allow"], reply.json["error"]) == (405, "POST", "method_not_allowed")
    health = daemon.send(method="GET", path="/health")
    assert (health.status, health.body) == (200, b"ok") and "server" not in health.headers
    assert daemon.send(path="/health").status == 405


def test_a_body_that_is_too_large_is_413_and_read_by_nobody(daemon, place):
    token = place.token("auditor")
    for size in (256 * 1024 + 1, 3_000_000):
        reply = daemon.send(b" " * size, token=token)
        assert (reply.status, reply.json["error"]) == (413, "too_large")
    assert daemon.send(b" " * (256 * 1024), token=token).status == 400  # it is read, and is no message
    with connected(daemon) as huge:
        huge.sendall(head(token, b"Content-Length: 99999999999"))
        assert b" 413 " in huge.recv(4096)
    assert daemon.send(b" " * 3_000_000).status == 401  # nobody's body is read


def connected(daemon: Daemon) -> socket.socket:
    return socket.create_connection(("127.0.0.1", daemon.port), WAIT_S)


def head(token: str, *lines: bytes) -> bytes:
    usual = (b"POST /mcp HTTP/1.1", b"Host: localhost", b"Authorization: Bearer " + token.encode())
    return b"\r\n".join((*usual, *lines, b"", b""))


def ended(connection: socket.socket) -> bytes:
    """All that still comes, until the server has closed it."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            found += part
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_a_header_of_64_mib_is_cut_off_and_costs_no_memory(daemon):
    before = memory_mb(daemon.pid)
    with connected(daemon) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
        for _ in range(64):
            connection.sendall(b"x" * 2**20)
        assert b" 400 " in ended(connection)
    assert memory_mb(daemon.pid) - before < 8
    assert daemon.send(method="GET", path="/health").body == b"ok"


def test_forty_half_open_connections_shut_nobody_out_and_are_closed(daemon, place):
    """Ten each: silent, within a header, within a body, and within the headers of a second request."""
    token = place.token("auditor")
    second = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health HTTP/1.1\r\nHost: loc"
    openings = (b"", b"POST /mcp HTTP/1.1\r\nHo", head(token, b"Content-Length: 100") + b"{", second)
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(connected(daemon)) for _ in range(40)]
        for number, connection in enumerate(held):
            connection.sendall(openings[number % 4])
        together(*[lambda: check(daemon.search(token=token)) for _ in range(8)])
        told = [ended(connection) for connection in held]
    assert [b" 408 " in said for said in told] == [False, False, True, False] * 10


def check(reply) -> None:
    assert reply.status == 200 and reply.payload["ok"]
