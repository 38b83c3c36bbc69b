"""Every check of the project, in its own environment: format, lint, types, tests. ``.ci/run`` calls exactly this.

    python3 scripts/test.py                    everything
    python3 scripts/test.py --fast             without types and without the tests marked slow
    python3 scripts/test.py tests/ingest -x    all that is not --fast goes to pytest

Temporary folders lie in memory where the system offers room for them: half of the suite's time is waiting for the disk, whose
word no test needs. TMPDIR, where it is set, wins.

The first stage that fails ends the run, and its name is printed; the output ends with pytest's own summary otherwise.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from bootstrap import ROOT, SetupFailed, clean_environment, ensure, say

MEMORY = "/dev/shm"
ROOM = 2 << 30  # bytes; the suite leaves some 100 MB behind at a time


def environment():
    """The stages' environment, with temporary folders in memory if they may be, and programs run, there."""
    found = clean_environment()
    try:
        roomy = shutil.disk_usage(MEMORY).free >= ROOM and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
    except (AttributeError, OSError):
        return found
    return {"TMPDIR": MEMORY, **found} if roomy else found


def stages(arguments):
    """The stages in order, as (name, arguments for python -m)."""
    fast = "--fast" in arguments
    chosen = [argument for argument in arguments if argument != "--fast"]
    listed = [("format", ["ruff", "format", "--check", "."]), ("lint", ["ruff", "check", "."])]
    if not fast:
        listed.append(("types", ["mypy"]))
    # One process a processor, each file's tests in one of them; a few chosen tests are sooner done without.
    spread = [] if chosen else ["-n", "auto", "--dist", "loadfile"]
    return [*listed, ("tests", ["pytest", *spread, *(["-m", "not slow"] if fast else []), *chosen])]


def run(python, listed, call=subprocess.call) -> int:
    """Run the stages until one fails; the exit code is that stage's."""
    for name, command in listed:
        say(name)
        code = call([str(python), "-m", *command], cwd=str(ROOT), env=environment())
        if code:
            say(f"FAILED: {name} (exit code {code})")
            return code
    return 0


def main(arguments) -> int:
    try:
        return run(ensure(("dev", "documents")), stages(arguments))
    except SetupFailed as problem:
        say(f"FAILED: setup: {problem}")
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
