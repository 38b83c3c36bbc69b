"""Which programs start this server, where each keeps its configuration, and the block that registers the server there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from rag_mcp.config import SETTINGS, Config
from rag_mcp.errors import InvalidArgument
from rag_mcp.places import written_out
from rag_mcp.server.registration import Block, default_names
from rag_mcp.stores.embedded.place import store_folder

__all__ = ["Host", "Place", "client_block", "find_place", "parse_host", "process_env", "section_of", "server_env"]


class Host(StrEnum):
    """The programs whose configuration is known; GENERIC prints the form most hosts share."""

    CLAUDE_DESKTOP = "claude-desktop"
    CLAUDE_CODE = "claude-code"
    CURSOR = "cursor"
    VSCODE = "vscode"
    ZED = "zed"
    CODEX = "codex"
    GENERIC = "generic"


_SECTIONS = {Host.VSCODE: "servers", Host.ZED: "context_servers", Host.CODEX: "mcp_servers"}
_NAMES_ITS_TRANSPORT = frozenset({Host.CLAUDE_CODE, Host.VSCODE})


@dataclass(frozen=True, slots=True)
class Place:
    """The file a host reads; ``why`` says how it was chosen where that is not certain."""

    path: Path
    why: str = ""


def parse_host(name: str) -> Host:
    """Raises InvalidArgument naming the hosts there are."""
    try:
        return Host(name)
    except ValueError as error:
        raise InvalidArgument("host", f"{name!r} is not known.", allowed=[host.value for host in Host]) from error


def server_env(config: Config) -> dict[str, str]:
    """The environment that gives another process this configuration, with absolute paths; defaults are left out.

    Raises ConfigError when no store is known.
    """
    served = config if config.roots else replace(config, db_path=store_folder(config))
    return process_env(served, {name for name, each in SETTINGS.items() if each.for_server})


def process_env(config: Config, wanted: Collection[str]) -> dict[str, str]:
    """Of the settings that are ``wanted`` those that are not at their default, as another process reads them: with
    absolute paths."""
    settings = {name: SETTINGS[name] for name in wanted}
    values = {name: getattr(config, each.field) for name, each in settings.items()}
    chosen = {name: value for name, value in values.items() if value != settings[name].default}
    named = {name: getattr(config, each.named) for name, each in settings.items() if each.named}
    chosen |= {name: written_out(paths) for name, paths in named.items() if paths}
    chosen = {name: chosen[name] for name in SETTINGS if name in chosen}
    return {name: str(value.absolute() if isinstance(value, Path) else value) for name, value in chosen.items()}


def client_block(
    host: Host, *, command: str, args: Sequence[str], env: Mapping[str, str], name: str | None = None
) -> Block:
    """The part of ``host``'s configuration that registers this server, from the file's top level down.

    Without a ``name`` it is called after its folder of documents.
    """
    entry: Block = {"type": "stdio"} if host in _NAMES_ITS_TRANSPORT else {}
    entry |= {"command": command, "args": list(args), "env": dict(env)}
    return {section_of(host): {name or next(default_names(env)): entry}}


def find_place(host: Host, *, platform: str, home: Path, env: Mapping[str, str]) -> Place:
    """Where ``host`` keeps the user's configuration; ``platform`` as ``sys.platform`` has it.

    Raises InvalidArgument for the generic host, which has no file, and where only the user can tell which file is read.
    """
    if host is Host.GENERIC:
        raise InvalidArgument("host", "generic has no file of its own; name a host, or paste the block by hand.")
    dotted = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
    settings = dotted
    if platform == "win32":
        settings = Path(env.get("APPDATA") or home / "AppData" / "Roaming")
    elif platform == "darwin":
        settings = home / "Library" / "Application Support"
    places = {
        Host.CLAUDE_DESKTOP: settings / "Claude" / "claude_desktop_config.json",
        Host.CLAUDE_CODE: Path(env.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json",
        Host.CURSOR: home / ".cursor" / "mcp.json",
        Host.VSCODE: settings / "Code" / "User" / "mcp.json",
        Host.ZED: (settings / "Zed" if platform == "win32" else dotted / "zed") / "settings.json",
        Host.CODEX: Path(env.get("CODEX_HOME") or home / ".codex") / "config.toml",
    }
    if host is Host.CLAUDE_DESKTOP and platform == "win32":
        local = Path(env.get("LOCALAPPDATA") or home / "AppData" / "Local")
        return _desktop_on_windows(places[host], _packaged_desktop(local))
    return Place(places[host])


def _packaged_desktop(local: Path) -> list[Path]:
    """Where packages (MSIX) of Claude Desktop keep their file, present or not: Windows gives each one an AppData of its
    own, which hides the ordinary one file by file."""
    try:
        names = sorted(entry.name for entry in (local / "Packages").iterdir() if entry.is_dir())
    except OSError:
        return []
    inside = Path("LocalCache", "Roaming", "Claude", "claude_desktop_config.json")
    return [local / "Packages" / name / inside for name in names if name.lower().startswith("claude_")]


def _desktop_on_windows(ordinary: Path, packaged: Sequence[Path]) -> Place:
    """Choose between the file of the ordinary installation and those of packages."""
    if not packaged:
        return Place(ordinary)
    present = [path for path in packaged if path.is_file()]
    if len(present) > 1 or (not present and len(packaged) > 1):
        shown = ", ".join(map(str, present or packaged))
        raise InvalidArgument("file", f"several packages of Claude Desktop are here; name the file to use: {shown}.")
    if not present and ordinary.is_file():
        # A new file in the package would hide this one, and the servers in it, from the packaged program.
        return Place(ordinary, f"the packaged Claude Desktop reads it while there is no {packaged[0]}")
    chosen = (present or packaged)[0]
    if ordinary.is_file():
        return Place(chosen, f"Claude Desktop is installed as a package, which does not read {ordinary}")
    return Place(chosen, "Claude Desktop is installed as a package, with a folder of its own")


def section_of(host: Host) -> str:
    """Where in the host's file servers are listed."""
    return _SECTIONS.get(host, "mcpServers")
