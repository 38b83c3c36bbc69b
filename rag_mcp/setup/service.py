"""What each system's manager of a user's services has to be told to keep one server running. Pure."""

from __future__ import annotations

import plistlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rag_mcp.setup.schedule import Commands, Scheduler, check_words, systemd_title, systemd_word

__all__ = ["MANAGERS", "Service", "service_commands", "service_file"]

MANAGERS = (Scheduler.SYSTEMD, Scheduler.LAUNCHD)

# A server that can't start, because another one has the store, is not tried again and again at once.
_AGAIN_S = 30


@dataclass(frozen=True, slots=True)
class Service:
    """``label`` is letters, digits and hyphens; ``title`` is for people."""

    label: str
    title: str
    command: tuple[str, ...]
    env: Mapping[str, str]

    def check(self) -> None:
        """Raises InvalidArgument for what a manager's file can't carry."""
        check_words((*self.command, *self.env.values()))


def service_file(manager: Scheduler, service: Service, folder: Path) -> tuple[Path, bytes]:
    """The service's own file below ``folder``, which is the manager's."""
    if manager is Scheduler.SYSTEMD:
        return folder / f"{service.label}.service", _unit(service).encode()
    return folder / f"{service.label}.plist", _property_list(service)


def service_commands(manager: Scheduler, label: str, folder: Path, *, user: int = 0) -> Commands:
    if manager is Scheduler.SYSTEMD:
        control, unit = ("systemctl", "--user"), f"{label}.service"
        return Commands(
            on=((*control, "daemon-reload"), (*control, "enable", unit), (*control, "restart", unit)),
            off=((*control, "disable", "--now", unit),),
            gone=((*control, "daemon-reload"),),
        )
    return Commands(
        on=(("launchctl", "bootstrap", f"gui/{user}", str(folder / f"{label}.plist")),),
        off=(("launchctl", "bootout", f"gui/{user}/{label}"),),
    )


def _unit(service: Service) -> str:
    program, *words = service.command
    line = " ".join((systemd_word(program), *(systemd_word(word).replace("$", "$$") for word in words)))
    # In a setting a dollar stands for itself.
    settings = "".join(f"Environment={systemd_word(f'{name}={value}')}\n" for name, value in service.env.items())
    return (
        f"[Unit]\nDescription={systemd_title(service.title)}\n\n"
        f"[Service]\nExecStart={line}\n{settings}Restart=on-failure\nRestartSec={_AGAIN_S}\nUMask=0077\n\n"
        "[Install]\nWantedBy=default.target\n"
    )


def _property_list(service: Service) -> bytes:
    return plistlib.dumps(
        {
            "Label": service.label,
            "ProgramArguments": list(service.command),
            "EnvironmentVariables": dict(service.env),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": _AGAIN_S,
            "Umask": 0o077,
        }
    )
