"""What each system's scheduler has to be told to run a command again and again. Pure.

Every scheduler reads words in a way of its own, and several expand what looks like a variable: what is written here is
read back as the very words, or refused.
"""

from __future__ import annotations

import plistlib
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from xml.sax.saxutils import escape

from rag_mcp.errors import InvalidArgument
from rag_mcp.intervals import Interval

__all__ = [
    "Commands",
    "Job",
    "Scheduler",
    "check_words",
    "commands",
    "cron_lines",
    "files",
    "systemd_title",
    "systemd_word",
]

_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")
_PLAIN = re.compile(r"[A-Za-z0-9_/.,:=@+-]+")
_VARIABLE = re.compile(r"%[^%]+%")


class Scheduler(StrEnum):
    """SERVER is none of the system's: the server starts the ingest itself."""

    SYSTEMD = "systemd"
    CRON = "cron"
    LAUNCHD = "launchd"
    TASKS = "task-scheduler"
    SERVER = "server"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Job:
    """``label`` is letters, digits and hyphens; ``title`` is for people."""

    label: str
    title: str
    command: tuple[str, ...]
    every: Interval

    def check(self, scheduler: Scheduler) -> None:
        """Raises InvalidArgument for what a scheduler's file can't carry."""
        check_words(self.command)
        for word in self.command:
            if scheduler is Scheduler.TASKS and _VARIABLE.search(word):
                raise InvalidArgument("schedule", f"Task Scheduler would put a variable into {word!r}; rename it.")
        if not self.every.is_of_the_clock:
            raise InvalidArgument("every", f"{self.every} does not divide an hour or a day.", allowed=_TAKEN)


def check_words(words: Iterable[str]) -> None:
    """Raises InvalidArgument for a word that would not be one line."""
    for word in words:
        if _CONTROL.search(word):
            raise InvalidArgument("schedule", f"{word!r} has a character that no line of a scheduler can carry.")


_TAKEN = [str(each) for each in map(Interval, range(1, 24 * 60 + 1)) if each.is_of_the_clock]


@dataclass(frozen=True, slots=True)
class Commands:
    """What turns a job on once its files are there, and off before and after they go."""

    on: tuple[tuple[str, ...], ...] = ()
    off: tuple[tuple[str, ...], ...] = ()
    gone: tuple[tuple[str, ...], ...] = ()


def files(scheduler: Scheduler, job: Job, folder: Path) -> Mapping[Path, bytes]:
    """The job's own files below ``folder``, which is the scheduler's; none where it has none."""
    if scheduler is Scheduler.SYSTEMD:
        service, timer = _units(job)
        return {folder / f"{job.label}.service": service.encode(), folder / f"{job.label}.timer": timer.encode()}
    if scheduler is Scheduler.LAUNCHD:
        return {folder / f"{job.label}.plist": _property_list(job)}
    if scheduler is Scheduler.TASKS:
        return {folder / f"{job.label}.xml": _task(job).encode("utf-16")}
    return {}


def commands(scheduler: Scheduler, label: str, folder: Path, *, user: int = 0) -> Commands:
    if scheduler is Scheduler.SYSTEMD:
        control = "systemctl", "--user"
        timer = f"{label}.timer"
        return Commands(
            on=((*control, "daemon-reload"), (*control, "enable", timer), (*control, "restart", timer)),
            off=((*control, "disable", "--now", timer), (*control, "stop", f"{label}.service")),
            gone=((*control, "daemon-reload"),),
        )
    if scheduler is Scheduler.LAUNCHD:
        return Commands(
            on=(("launchctl", "bootstrap", f"gui/{user}", str(folder / f"{label}.plist")),),
            off=(("launchctl", "bootout", f"gui/{user}/{label}"),),
        )
    if scheduler is Scheduler.TASKS:
        return Commands(
            on=(("schtasks", "/Create", "/TN", label, "/XML", str(folder / f"{label}.xml"), "/F"),),
            off=(("schtasks", "/Delete", "/TN", label, "/F"),),
        )
    return Commands()


# --- cron ------------------------------------------------------------------------------------------------------------


def cron_lines(job: Job) -> tuple[str, str]:
    """The two lines of a crontab; both hold the label, by which they are found again."""
    hours, minutes = divmod(job.every.minutes, 60)
    when = f"*/{minutes} * * * *" if not hours else f"0 */{hours} * * *" if hours < 24 else "0 0 * * *"
    title = _CONTROL.sub(" ", job.title)
    return f"# {job.label}: {title}", f"{when} {' '.join(map(_cron_word, job.command))}"


def _cron_word(word: str) -> str:
    """Quoted for the shell. ``%`` ends a line of cron unless a backslash stands before it, which not every cron takes
    away: so it stands outside the quotes, where the shell does."""
    if _PLAIN.fullmatch(word):
        return word
    return "'" + word.replace("'", "'\\''").replace("%", "'\\%'") + "'"


# --- systemd ---------------------------------------------------------------------------------------------------------


def _units(job: Job) -> tuple[str, str]:
    title = systemd_title(job.title)
    program, *words = job.command
    # systemd puts no variable into the program's own path.
    line = " ".join((systemd_word(program), *(systemd_word(word).replace("$", "$$") for word in words)))
    service = f"[Unit]\nDescription={title}\n\n[Service]\nType=oneshot\nExecStart={line}\n"
    timer = (
        f"[Unit]\nDescription={title}\n\n[Timer]\nOnStartupSec=1min\nOnUnitInactiveSec={job.every.minutes}min\n\n"
        "[Install]\nWantedBy=timers.target\n"
    )
    return service, timer


def systemd_title(title: str) -> str:
    return _CONTROL.sub(" ", title).replace("%", "%%")


def systemd_word(word: str) -> str:
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'


# --- launchd, Task Scheduler -----------------------------------------------------------------------------------------


def _property_list(job: Job) -> bytes:
    return plistlib.dumps(
        {
            "Label": job.label,
            "ProgramArguments": list(job.command),
            "StartInterval": job.every.seconds,
            "RunAtLoad": True,
            "ProcessType": "Background",
        }
    )


def _task(job: Job) -> str:
    program, *words = job.command
    return f"""<?xml version="1.0" encoding="UTF-16"?>
<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo><Description>{escape(_CONTROL.sub(" ", job.title))}</Description></RegistrationInfo>
  <Triggers>
    <TimeTrigger>
      <Repetition><Interval>PT{job.every.minutes}M</Interval></Repetition>
      <StartBoundary>2026-01-01T00:00:00</StartBoundary>
    </TimeTrigger>
  </Triggers>
  <Principals>
    <Principal id="Author"><LogonType>InteractiveToken</LogonType><RunLevel>LeastPrivilege</RunLevel></Principal>
  </Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <StartWhenAvailable>true</StartWhenAvailable>
    <ExecutionTimeLimit>PT2H</ExecutionTimeLimit>
  </Settings>
  <Actions Context="Author">
    <Exec><Command>{escape(program)}</Command><Arguments>{escape(subprocess.list2cmdline(words))}</Arguments></Exec>
  </Actions>
</Task>
"""
