"""How many connections may be open, and whose is closed for a new one."""

from __future__ import annotations

import contextlib
import socket
from functools import partial

import anyio
import pytest
from http_daemon import WAIT_S

from rag_mcp.server.http.connections import Patient, http_server
from rag_mcp.server.http.guard import Guard, say
from rag_mcp.server.http.process import listening

ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def hello(scope, receive, send):
    await say(send, 200, "hello")


def with_server(body) -> None:
    """Run ``body(port)`` in a thread, beside a server in this one."""

    async def run() -> None:
        listener = listening("127.0.0.1", 0)
        server = http_server(Guard(hello))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(server.serve, sockets=[listener]))
            try:
                await anyio.to_thread.run_sync(body, listener.getsockname()[1])
            finally:
                server.should_exit = True

    anyio.run(run)


def is_answered(connection: socket.socket) -> bool:
    connection.sendall(ASK)
    found = b""
    while not found.endswith(b"hello"):
        found += (part := connection.recv(4096))
        assert part
    return True


def is_closed(connection: socket.socket) -> bool:
    """Whether the server has closed it, once there is a word of it; False when there is none to come."""
    with contextlib.suppress(ConnectionResetError):
        return not connection.recv(4096)
    return True


@pytest.fixture
def limits(monkeypatch):
    monkeypatch.setattr(Patient, "most", 3)
    monkeypatch.setattr(Patient, "headers_s", WAIT_S)


def test_what_has_asked_nothing_for_the_longest_time_makes_room_for_a_new_connection(limits):
    def body(port: int) -> None:
        with contextlib.ExitStack() as stack:

            def connect() -> socket.socket:
                return stack.enter_context(socket.create_connection(("127.0.0.1", port), WAIT_S))

            silent, answered, later = connect(), connect(), connect()
            for connection in (answered, later):
                assert is_answered(connection)
            newest = connect()  # the fourth
            assert is_answered(newest)
            assert is_closed(silent)
            for connection in (later, answered):
                assert is_answered(connection)

    with_server(body)


def test_headers_that_do_not_come_close_their_connection_alone(monkeypatch):
    monkeypatch.setattr(Patient, "headers_s", 0.2)

    def body(port: int) -> None:
        for opening in (b"", b"GET / HT", ASK + b"GET / HT"):
            with socket.create_connection(("127.0.0.1", port), WAIT_S) as connection:
                connection.sendall(opening)
                while not is_closed(connection):
                    assert opening.startswith(ASK)
        with socket.create_connection(("127.0.0.1", port), WAIT_S) as connection:
            assert is_answered(connection)

    with_server(body)


def test_an_answer_is_sent_at_once_and_its_body_waits_for_no_acknowledgement(monkeypatch):
    at_once = []
    made = Patient.connection_made

    def noted(self, transport) -> None:
        made(self, transport)
        connection = transport.get_extra_info("socket")
        at_once.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(Patient, "connection_made", noted)

    def body(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port), WAIT_S) as connection:
            assert is_answered(connection)

    with_server(body)
    assert at_once and all(at_once)
