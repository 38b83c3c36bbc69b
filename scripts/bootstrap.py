"""The project's own virtual environment: made when missing, brought in step when its inputs change, else left alone.

Standard library only, and no syntax newer than Python 3.8, so that an old interpreter gets a message, not a traceback.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = "rag_mcp-stamp.json"
OLDEST = (3, 11)
CONSTRAINTS = "requirements.txt"
INPUTS = ("pyproject.toml", CONSTRAINTS, "rag_mcp/__init__.py")
# Another environment's settings would be followed by the child in place of its own.
FOREIGN = ("PYTHONPATH", "PYTHONHOME", "__PYVENV_LAUNCHER__", "VIRTUAL_ENV", "PIP_USER", "PIP_TARGET", "PIP_PREFIX")


class SetupFailed(Exception):
    """The environment can't be made; the text says what to do."""


def ensure(extras=(), *, folder: Path = VENV, root: Path = ROOT) -> Path:
    """Return the interpreter of an environment that has the project and ``extras`` at the pinned versions.

    Quick when nothing changed since the last call. Raises SetupFailed.
    """
    check_python()
    python = interpreter(folder)
    wanted = fingerprint(root)
    stamp = read_stamp(folder)
    known = set(stamp.get("extras", ()))
    if stamp.get("fingerprint") == wanted and known.issuperset(extras) and _runs(python):
        return python
    if not _runs(python) or not _has_pip(python):
        say(f"Making {folder.name} with Python {sys.version.split()[0]}")
        _make(folder)
    (folder / STAMP).unlink(missing_ok=True)
    names = sorted(known.union(extras))
    say("Installing rag_mcp and what it needs (a few minutes the first time)")
    _install(python, root, names)
    text = json.dumps({"fingerprint": wanted, "extras": names})
    (folder / STAMP).write_text(text, encoding="utf-8")
    return python


def check_python(version=sys.version_info) -> None:
    """Raises SetupFailed when this interpreter is too old, naming a newer one if one is on PATH."""
    if tuple(version[:2]) >= OLDEST:
        return
    newer = next((name for name in ("python3.13", "python3.12", "python3.11") if shutil.which(name)), None)
    hint = f"run this script with {newer}" if newer else "install one from https://www.python.org/downloads/"
    raise SetupFailed(f"Python {OLDEST[0]}.{OLDEST[1]} or newer is needed, this is {version[0]}.{version[1]}: {hint}.")


def interpreter(folder: Path) -> Path:
    """Where the environment in ``folder`` keeps its Python on this system."""
    return folder / "Scripts" / "python.exe" if os.name == "nt" else folder / "bin" / "python"


def fingerprint(root: Path) -> str:
    """Changes whenever the installed packages might have to: the declared and pinned versions, the place, the Python."""
    digest = hashlib.sha256(f"{sys.version}|{sys.base_prefix}|{root}".encode())
    for name in INPUTS:
        digest.update(b"\0" + (root / name).read_bytes())
    return digest.hexdigest()


def read_stamp(folder: Path) -> dict:
    """What the last complete installation left; empty when there is none or it can't be read."""
    try:
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def clean_environment() -> dict:
    """This process's environment without what would lead a virtual environment's Python, or rag_mcp, astray."""
    kept = os.environ.items()
    return {name: value for name, value in kept if name not in FOREIGN and not name.startswith("RAG_MCP_")}


def say(text: str) -> None:
    """A progress line, on stderr so that a caller's output stays its own."""
    print(f"-- {text}", file=sys.stderr, flush=True)


def _runs(python: Path) -> bool:
    """Whether the environment works and is of this Python's version."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run(
            [str(python), "-c", code], env=clean_environment(), capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and done.stdout.strip() == f"{sys.version_info[0]}.{sys.version_info[1]}"


def _has_pip(python: Path) -> bool:
    command = [str(python), "-m", "pip", "--version"]
    return subprocess.run(command, env=clean_environment(), capture_output=True, check=False).returncode == 0


def _make(folder: Path) -> None:
    if folder.exists() and not (folder / "pyvenv.cfg").exists() and any(folder.iterdir()):
        raise SetupFailed(f"{folder} is there and is no virtual environment; move it away and run this again.")
    try:
        venv.EnvBuilder(with_pip=True, clear=True, symlinks=os.name != "nt").create(str(folder))
    except (OSError, subprocess.CalledProcessError, SystemExit) as error:
        raise SetupFailed(
            f"{folder} could not be made ({error}). On Debian or Ubuntu the package python3-venv is needed; "
            "on Windows close the programs that use the folder."
        ) from error


def _install(python: Path, root: Path, extras: list) -> None:
    target = f"{root}[{','.join(extras)}]" if extras else str(root)
    command = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-input"]
    command += ["--constraint", str(root / CONSTRAINTS), "--editable", target]
    done = subprocess.run(command, cwd=str(root), env=clean_environment(), check=False)
    if done.returncode:
        raise SetupFailed(
            "pip could not install the packages; its own message stands above. Packages are fetched from the network "
            "(or from the index that `pip config list` names), and about 600 MB of disk are needed."
        )
