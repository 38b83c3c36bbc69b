"""Bring a store in step with its folder, for schedulers: one line a run in a log file that does not grow for ever.

    python3 scripts/reingest.py CORPUS --db DB [--log FILE] [-- more options of rag-mcp ingest]

Exit codes are those of ``rag-mcp ingest`` (0 done, 1 failed, 2 usage, 4 files left out with --strict), but for 3: that
another run is at work is what a frequent schedule meets now and then, and no failure. A run over --timeout ends with 1.
Meant for the interpreter that rag_mcp is installed in; another one hands over to the project's own environment.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import logging.handlers
import os
import re
import subprocess
import sys
import time
from pathlib import Path

COMMAND_LINE = "from rag_mcp.cli import main; main()"
LOCKED = 3
FAILED = 1
COUNTS = (
    ("seen", "files_seen"),
    ("ingested", "files_ingested"),
    ("deleted", "files_deleted"),
    ("skipped", "files_skipped"),
    ("chunks_added", "chunks_added"),
    ("chunks_deleted", "chunks_deleted"),
    ("embedded", "chunks_embedded"),
    ("store", "store_count"),
    ("generation", "generation"),
)


def main(arguments) -> int:
    options = parse(arguments)
    options.log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    code, output, errors = ingest(options)
    write(options, line(code, time.monotonic() - started, output, errors))
    if errors.strip():
        print(errors.strip(), file=sys.stderr)
    return 0 if code == LOCKED else code


def parse(arguments):
    ours, _, more = partition(arguments)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=place, help="folder of documents")
    parser.add_argument("--db", type=place, required=True, help="folder of the store")
    parser.add_argument("--log", type=place, help="log file (default: the store's path with .log added)")
    parser.add_argument("--log-bytes", type=int, default=1_000_000, metavar="N", help="size at which it is rotated")
    parser.add_argument("--log-keep", type=int, default=3, metavar="N", help="rotated files to keep")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="stop a run that takes longer")
    options = parser.parse_args(ours)
    options.db = options.db.absolute()
    options.log = options.log or options.db.with_name(options.db.name + ".log")
    options.more = more
    return options


def place(text: str) -> Path:
    """The path that it stands for: schedulers start programs without a shell."""
    path = text if os.path.lexists(text) else os.path.expandvars(os.path.expanduser(text))
    if not path or path.startswith("~") or (re.search(r"[$%]\w|[$][{]", path) and not os.path.lexists(path)):
        raise argparse.ArgumentTypeError(f"{text!r} has a name that stands for nothing here; write the path out")
    return Path(path)


def partition(arguments):
    """What stands before, at and after the first ``--``."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:at], arguments[at : at + 1], arguments[at + 1 :]


class PrivateLog(logging.handlers.RotatingFileHandler):
    """Names of files stand in it, so it is its owner's alone."""

    def _open(self):
        return open(self.baseFilename, self.mode, encoding=self.encoding, opener=owners_only)


def owners_only(path, flags):
    return os.open(path, flags, 0o600)


def write(options, text: str) -> None:
    """Append to the log, which is rotated when it would grow over its size."""
    handler = PrivateLog(options.log, maxBytes=options.log_bytes, backupCount=options.log_keep, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)sZ %(message)s", datefmt="%Y-%m-%dT%H:%M:%S"))
    handler.formatter.converter = time.gmtime
    handler.handle(logging.makeLogRecord({"msg": "%s", "args": (text,), "levelno": logging.INFO}))
    handler.close()


def ingest(options):
    """Run the command line; its exit code, stdout and stderr."""
    command = [interpreter(), "-c", COMMAND_LINE, "ingest", str(options.corpus.absolute()), "--db", str(options.db)]
    # Without this flag a scheduled task on Windows opens a window at every run.
    quiet = subprocess.CREATE_NO_WINDOW if sys.platform == "win32" else 0
    try:
        done = subprocess.run(
            [*command, "--json", *options.more],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=options.timeout,
            creationflags=quiet,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return FAILED, "", f"stopped after {options.timeout:g} s (--timeout); the store serves what it had"
    return done.returncode, done.stdout, done.stderr


def interpreter() -> str:
    """This one when it has what rag_mcp needs, else that of the project's environment."""
    own = Path(__file__).resolve().parent.parent / ".venv"
    python = own / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if importlib.util.find_spec("chromadb") is None and python.exists():
        return str(python)
    return sys.executable


def line(code: int, seconds: float, output: str, errors: str) -> str:
    """One run in one line of name=value pairs."""
    parts = [f"exit={code}", f"seconds={seconds:.2f}"]
    try:
        summary = json.loads(output)
        parts += [f"{name}={summary[key]}" for name, key in COUNTS if key in summary]
    except ValueError:
        pass
    if code == LOCKED:
        parts.append("note=another run is at work")
    elif code and errors.strip():
        parts.append(f"error={' '.join(errors.split())[-500:]}")
    return " ".join(parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
