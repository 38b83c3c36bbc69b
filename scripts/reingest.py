"""Bring a store in step with its folder, for schedulers: ``rag-mcp ingest --log`` from a clone, whichever Python runs this.

    python3 scripts/reingest.py CORPUS --db DB [--log FILE] [-- more options of rag-mcp ingest]

Exit codes are those of that command: 0 done or another run at work, 1 failed, 2 usage, 4 files left out with --strict.
Where the package is installed ``rag-mcp setup`` makes a schedule without this script.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(arguments) -> int:
    # Without this flag a scheduled task on Windows opens a window at every run.
    quiet = subprocess.CREATE_NO_WINDOW if sys.platform == "win32" else 0
    done = subprocess.run(
        command(parse(arguments)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, creationflags=quiet, check=False
    )
    return done.returncode


def parse(arguments):
    at = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=place, help="folder of documents")
    parser.add_argument("--db", type=place, required=True, help="folder of the store")
    parser.add_argument("--log", type=place, help="log file (default: the store's path with .log added)")
    parser.add_argument("--log-bytes", default="1000000", metavar="N", help="size at which it is set aside")
    parser.add_argument("--log-keep", default="3", metavar="N", help="files set aside to keep")
    parser.add_argument("--timeout", metavar="SECONDS", help="stop a run that takes longer")
    options = parser.parse_args(arguments[:at])
    options.log = options.log or options.db.with_name(options.db.name + ".log")
    options.more = arguments[at + 1 :]
    return options


def place(text: str) -> Path:
    """The path that it stands for: schedulers start programs without a shell."""
    path = text if os.path.lexists(text) else os.path.expandvars(os.path.expanduser(text))
    if not path or path.startswith("~") or (re.search(r"[$%]\w|[$][{]", path) and not os.path.lexists(path)):
        raise argparse.ArgumentTypeError(f"{text!r} has a name that stands for nothing here; write the path out")
    return Path(path).absolute()


def command(options):
    # The clone's own package, installed or not, and from whichever folder the scheduler starts this.
    start = [
        interpreter(),
        "-P",
        "-c",
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from rag_mcp.cli import main; main()",
    ]
    words = ["ingest", options.corpus, "--db", options.db, "--log", options.log]
    words += ["--log-bytes", options.log_bytes, "--log-keep", options.log_keep]
    words += ["--timeout", options.timeout] if options.timeout else []
    return [str(word) for word in (*start, *words, *options.more)]


def interpreter() -> str:
    """This one when it has what rag_mcp needs, else that of the project's environment."""
    python = ROOT / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if importlib.util.find_spec("chromadb") is None and python.exists():
        return str(python)
    return sys.executable


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
