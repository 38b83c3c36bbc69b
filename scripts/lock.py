"""Write requirements.txt anew from pyproject.toml: exact versions for every supported Python and system.

Needs ``uv`` (``pip install uv``). Versions that still fit are kept; ``--upgrade`` takes the newest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from bootstrap import CONSTRAINTS, ROOT, clean_environment, say

COMMAND = ["pip", "compile", "--universal", "--python-version", "3.11", "--all-extras", "pyproject.toml"]
# The file is for everyone: where this machine gets its packages from is nobody's business.
SILENT = ["--no-emit-index-url", "--no-emit-find-links", "--no-config", "--quiet"]


def main(arguments) -> int:
    beside = os.path.join(os.path.dirname(sys.executable), "uv")
    uv = shutil.which("uv") or shutil.which(beside)
    if uv is None:
        say("uv is needed to resolve versions: pip install uv")
        return 2
    environment = {**clean_environment(), "UV_CUSTOM_COMPILE_COMMAND": "python3 scripts/lock.py"}
    command = [uv, *COMMAND, *SILENT, *arguments, "--output-file", CONSTRAINTS]
    return subprocess.call(command, cwd=str(ROOT), env=environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
