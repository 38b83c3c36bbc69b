"""What set-up does to this machine: it runs the scheduler's commands, and reads and replaces files and the crontab."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from rag_mcp.config import environment
from rag_mcp.errors import ConfigError
from rag_mcp.server.hostfile import replace_file
from rag_mcp.setup.schedule import Scheduler
from rag_mcp.setup.shared import CRONTAB

__all__ = ["find_scheduler", "read_place", "run_all", "scheduler_folder", "write_place"]

_SECONDS = 60


def find_scheduler(platform: str) -> Scheduler:
    """The one this system has for a user, as far as it answers; ``platform`` as ``sys.platform`` has it."""
    if platform == "win32":
        return Scheduler.TASKS
    if platform == "darwin":
        return Scheduler.LAUNCHD
    if _run(("systemctl", "--user", "show-environment")).returncode == 0:
        return Scheduler.SYSTEMD
    return Scheduler.CRON if shutil.which("crontab") else Scheduler.SERVER


def scheduler_folder(scheduler: Scheduler, *, home: Path, env: Mapping[str, str], state: Path) -> Path:
    """Where the scheduler's own files of a user lie."""
    if scheduler is Scheduler.SYSTEMD:
        return Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "systemd" / "user"
    return home / "Library" / "LaunchAgents" if scheduler is Scheduler.LAUNCHD else state


def run_all(commands: Sequence[Sequence[str]], *, strict: bool = True) -> None:
    """Raises ConfigError at the first that fails, unless what it would undo may be undone already."""
    for each in commands:
        done = _run(each)
        if strict and done.returncode:
            raise ConfigError(f"{' '.join(each)} failed: {_said(done)}")


def read_place(place: str) -> bytes | None:
    """None where there is no such file, or no crontab. Raises ConfigError where that can't be told."""
    if place == CRONTAB:
        return _read_crontab()
    try:
        return Path(place).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{place} can't be read ({error.strerror}); nothing was changed there.") from error


def write_place(place: str, before: bytes | None, after: bytes | None) -> None:
    """Put ``after`` where ``before`` was read. Raises ConfigError; then it is as it was."""
    if before == after:
        return
    if place == CRONTAB:
        words = ("crontab", "-r") if after is None else ("crontab", "-")
        done = _run(words, given=after)
        if done.returncode:
            raise ConfigError(f"crontab took no change: {_said(done)}")
        return
    try:
        if after is not None:
            replace_file(Path(place), before or b"", after)
        elif before is not None:
            os.unlink(place)
    except OSError as error:
        raise ConfigError(f"{place} was left as it is ({error.strerror or error}).") from error


def _read_crontab() -> bytes | None:
    done = _run(("crontab", "-l"))
    if done.returncode == 0:
        return done.stdout
    if b"no crontab for" in done.stderr:
        return None
    raise ConfigError(f"The crontab can't be read, and was left as it is: {_said(done)}")


def _run(words: Sequence[str], given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    # Messages are looked at, so they are to be in one language.
    variables = {**environment(), "LC_ALL": "C"}
    try:
        return subprocess.run(
            words, input=given or b"", capture_output=True, timeout=_SECONDS, env=variables, check=False
        )
    except FileNotFoundError:
        return subprocess.CompletedProcess(words, 127, b"", b"there is no such command here")
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(words, 126, b"", str(error).encode())


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    text = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
    return f"{text} (exit code {done.returncode})" if text else f"exit code {done.returncode}"
