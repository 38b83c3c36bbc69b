"""A process that runs ingests in forked children which kill themselves at a named moment, as a power cut would.

Orders come as JSON lines on stdin, and each is answered by one line with the child's exit status. Libraries are loaded
once, before the first fork.

    {"corpus": ..., "db": ..., "log": ..., "kill": "staged" | "module:Class.function" | null, "at": 1, "recent": 1024,
     "options": {}}

``kill`` is a step of the pipeline or a function; the child dies the ``at``-th time it gets there. Every text given to
the embedder is appended to ``log``. With ``recent`` 0 every change is folded into the vector index.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli_process import load_libraries

from rag_mcp.stores.embedded.recent import RECENT_ROWS

ROOT = Path(__file__).resolve().parents[1]
SLICE = 3


class FaultProcess:
    """The other end: start it, give orders."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            encoding="utf-8",
        )

    def ingest(
        self,
        corpus: Path,
        db: Path,
        log: Path,
        *,
        kill: str | None = None,
        at: int = 1,
        recent: int = RECENT_ROWS,
        **options: object,
    ) -> int:
        """Exit status: 0 done, -9 killed."""
        assert self._process.stdin and self._process.stdout
        order = {"corpus": str(corpus), "db": str(db), "log": str(log), "kill": kill, "at": at, "recent": recent}
        order["options"] = options
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


def main() -> None:
    load_libraries()
    for line in sys.stdin:
        child = os.fork()
        if not child:
            run(json.loads(line))
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def run(order: dict[str, Any]) -> None:
    from rag_mcp.config import Config
    from rag_mcp.ingest import collect, context, publish
    from rag_mcp.ingest.options import IngestOptions
    from rag_mcp.ingest.run import run_ingest
    from rag_mcp.stores.embedded import write

    try:
        publish._EMBED_SLICE = SLICE
        write.RECENT_ROWS = order["recent"]
        collect._CACHE_RATIO = collect._CACHE_SLACK = 0  # old vectors are dropped by every run that publishes
        opened = context.open_embedder
        context.open_embedder = lambda *args, **kwargs: Logging(opened(*args, **kwargs), Path(order["log"]))
        die = countdown(order["at"])
        kill = order["kill"] or ""
        if ":" in kill:
            module, _, name = kill.partition(":")
            owner, _, function = name.rpartition(".")
            found = importlib.import_module(module)
            setattr(getattr(found, owner) if owner else found, function, lambda *args, **kwargs: die())
        config = Config.load({}, corpus_root=Path(order["corpus"]), db_path=Path(order["db"]), embedder="hash")
        run_ingest(config, IngestOptions(**order["options"]), on_step=lambda step: step == kill and die())
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def countdown(times: int) -> Callable[[], None]:
    left = times

    def die() -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    return die


class Logging:
    """The embedder, with every text it is given on record."""

    def __init__(self, inner: Any, log: Path) -> None:
        self._inner = inner
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def embed_documents(self, texts: list[str], **options: Any) -> Any:
        with self._log.open("a", encoding="utf-8") as stream:
            stream.writelines(json.dumps(text) + "\n" for text in texts)
        return self._inner.embed_documents(texts, **options)


if __name__ == "__main__":
    main()
