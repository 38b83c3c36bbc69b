"""``rag-mcp`` as a process of its own, without the second of loading libraries: forked from one that has them loaded.

Orders come as JSON lines on stdin, and each is answered by one line with the child's exit status. Libraries are loaded
once, before the first fork; what a child does is what ``rag-mcp`` does, to the end of the interpreter.

    {"arguments": [...], "env": {...}, "cwd": ..., "timeout": 120, "out": ..., "err": ...}

A command whose very start is the matter (what it loads, its locale, its hash seed) belongs into ``support.run_cli``.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import Any

from support import cli_environment, run_cli

ROOT = Path(__file__).resolve().parents[1]


class CliProcess:
    """The other end: start it, give orders."""

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**cli_environment({}), "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests")))},
            encoding="utf-8",
        )

    def run(self, arguments: tuple[str, ...], env: dict[str, str], timeout: float) -> subprocess.CompletedProcess:
        assert self._process.stdin and self._process.stdout
        with tempfile.TemporaryDirectory() as folder, self._one_at_a_time:
            out, err = Path(folder, "out"), Path(folder, "err")
            order = {"arguments": arguments, "env": env, "cwd": os.getcwd(), "timeout": timeout}
            self._process.stdin.write(json.dumps({**order, "out": str(out), "err": str(err)}) + "\n")
            self._process.stdin.flush()
            code = int(self._process.stdout.readline())
            printed, said = out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8")
        if code == -signal.SIGALRM:
            raise subprocess.TimeoutExpired(list(arguments), timeout, printed, said)
        return subprocess.CompletedProcess(list(arguments), code, printed, said)

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


@cache
def _shared() -> CliProcess:
    process = CliProcess()
    atexit.register(process.close)
    return process


def forked_cli(
    *arguments: object, env: dict[str, str] | None = None, timeout: float = 120
) -> subprocess.CompletedProcess:
    """``run_cli``, sooner done; a process from the start where there is no fork."""
    if sys.platform == "win32":
        return run_cli(*arguments, env=env, timeout=timeout)
    return _shared().run(tuple(map(str, arguments)), cli_environment(env or {}), timeout)


def main() -> None:
    import chromadb.api.rust  # noqa: F401
    import tantivy  # noqa: F401

    import rag_mcp.cli.query
    import rag_mcp.cli.store
    import rag_mcp.ingest.run
    import rag_mcp.search.generation  # noqa: F401
    from rag_mcp.cli.app import main as run

    for line in sys.stdin:
        child = os.fork()
        if not child:
            become(json.loads(line))
            run()
            return
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def become(order: dict[str, Any]) -> None:
    """Put the ordered environment, folder, files and arguments in place of the server's."""
    for number, path, mode in (
        (0, os.devnull, os.O_RDONLY),
        (1, order["out"], os.O_WRONLY | os.O_CREAT),
        (2, order["err"], os.O_WRONLY | os.O_CREAT),
    ):
        opened = os.open(path, mode, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    sys.argv = ["rag-mcp", *order["arguments"]]
    signal.alarm(int(order["timeout"]))


if __name__ == "__main__":
    main()
