"""``rag-mcp`` as a process of its own, without the seconds of loading libraries: forked from one that has them loaded.

``warm_command()`` stands for ``python -m rag_mcp`` wherever a command is started, and ``warm_command(script)`` for
``python script``; tests/cli_client.py is what is started then. What the command does is what ``rag-mcp`` does, to the end
of the interpreter. Where the very start is the matter (what is loaded, the locale, the hash seed, limits and permissions
set for the process), use ``COLD``, which is Python itself.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

from support import cli_environment

ROOT = Path(__file__).resolve().parents[1]
CLIENT = Path(__file__).with_name("cli_client.py")
COLD = [sys.executable, "-m", "rag_mcp"]
# What an ingest or a question loads when it gets there.
LATE = ("chromadb.api.rust", "chromadb.telemetry.product.posthog", "filelock", "markdown_it", "tantivy", "tomllib")


def warm_command(script: Path | None = None) -> list[str]:
    """The beginning of a command line that ends with arguments of ``rag-mcp``, or of a script."""
    if sys.platform == "win32":  # no fork
        return [*COLD] if script is None else [sys.executable, str(script)]
    return [sys.executable, "-I", "-S", str(CLIENT), _server(), str(script or "rag-mcp")]


def forked_cli(
    *arguments: object, env: dict[str, str] | None = None, timeout: float = 120
) -> subprocess.CompletedProcess:
    """``rag-mcp`` with no RAG_MCP_* variable but those given, and the hash embedder unless another is given."""
    return subprocess.run(
        [*warm_command(), *map(str, arguments)],
        env=cli_environment(env or {}),
        capture_output=True,
        encoding="utf-8",
        timeout=timeout,
        stdin=subprocess.DEVNULL,
    )


def cli_json(*arguments: object, **options: object) -> dict[str, object]:
    done = forked_cli(*arguments, "--json", **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@cache
def _server() -> str:
    """The socket of this process's server, which ends with it."""
    folder = tempfile.TemporaryDirectory(prefix="cli-")  # the name of a socket must be short
    path = str(Path(folder.name, "socket"))
    process = subprocess.Popen(
        [sys.executable, __file__, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**cli_environment({}), "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests")))},
    )
    assert process.stdin and process.stdout
    assert process.stdout.read() == b"ready"

    def close() -> None:
        process.communicate(timeout=30)
        folder.cleanup()

    atexit.register(close)
    return path


# --- the server ------------------------------------------------------------------------------------------------------


def load_libraries() -> None:
    """Import all that a command may need, so that what is forked has it."""
    import rag_mcp

    names = [module.name for module in pkgutil.walk_packages(rag_mcp.__path__, "rag_mcp.")]
    for name in (*LATE, *names):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a child copies no page of its parent's


def main(path: str) -> None:
    load_libraries()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    os.write(1, b"ready")
    os.dup2(2, 1)  # the reader of stdout sees its end
    events = selectors.DefaultSelector()
    events.register(0, selectors.EVENT_READ)
    events.register(listener, selectors.EVENT_READ)
    while serve(listener, events):
        pass


def serve(listener: socket.socket, events: selectors.BaseSelector) -> bool:
    """Handle what happened; whether to go on: not when the tests have ended."""
    for key, _ in events.select():
        if key.fd == 0:
            return False
        if key.fileobj is listener:
            start(listener.accept()[0], events)
        elif key.fd in events.get_map():  # its command's end was not handled just before
            follow(key.data, key.fd, events)
    return True


def start(client: socket.socket, events: selectors.BaseSelector) -> None:
    head, files, _, _ = socket.recv_fds(client, 8, 3)
    order = b""
    while len(order) < int.from_bytes(head, "big"):
        order += client.recv(1 << 20)
    ended, held = os.pipe()  # ``held`` is closed when the child ends, however it does
    child = os.fork()
    if not child:
        client.close()
        os.close(ended)
        leave(events)
        become(order, files)
    os.close(held)
    for number in files:
        os.close(number)
    running = SimpleNamespace(child=child, client=client, ended=ended)
    events.register(client, selectors.EVENT_READ, running)
    events.register(ended, selectors.EVENT_READ, running)


def follow(running: SimpleNamespace, number: int, events: selectors.BaseSelector) -> None:
    """Pass on what the client says to the child, or the child's end to the client."""
    if number == running.ended:
        _, status = os.waitpid(running.child, 0)
        with contextlib.suppress(OSError):
            running.client.send(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
        for opened in (running.client, running.ended):
            with contextlib.suppress(KeyError):
                events.unregister(opened)
        running.client.close()
        os.close(running.ended)
        return
    said = running.client.recv(1)
    os.kill(running.child, said[0] if said else signal.SIGKILL)
    if not said:
        events.unregister(running.client)


def leave(events: selectors.BaseSelector) -> None:
    """In a child: close what is the server's."""
    for key in list(events.get_map().values()):
        if isinstance(key.fileobj, socket.socket):
            key.fileobj.close()
        elif key.fd:
            os.close(key.fd)
    events.close()


def become(order: bytes, files: list[int]) -> NoReturn:
    """Be the command, with its folder, environment, arguments and files."""
    for number, given in enumerate(files):
        os.dup2(given, number)
        os.close(given)
    folder, count, *rest = order.split(b"\0")
    arguments, environment = rest[: int(count)], rest[int(count) :]
    os.chdir(folder)
    os.environb.clear()
    os.environb.update(entry.split(b"=", 1) for entry in environment)
    time.tzset()
    sys.argv = [os.fsdecode(argument) for argument in arguments]
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    if sys.argv[0] != "rag-mcp":
        runpy.run_path(sys.argv[0], run_name="__main__")
        sys.exit()
    from rag_mcp.__main__ import main as run

    sys.exit(run())


if __name__ == "__main__":
    main(sys.argv[1])
