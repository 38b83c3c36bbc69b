"""The block that registers this server in an MCP host's configuration, and its careful merge into the host's file.

A host's file belongs to its user: it is copied before it is changed, replaced in one step, and left alone when it
can't be read for certain. Comments (VS Code, Zed) would not survive a rewrite, so a file that has them is not rewritten.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from rag_mcp.config import SETTINGS, Config
from rag_mcp.errors import ConfigError, InvalidArgument
from rag_mcp.places import written_out
from rag_mcp.server.registration import Block, Registration, default_names, register
from rag_mcp.stores.embedded.files import owners_only
from rag_mcp.stores.embedded.place import store_folder

__all__ = [
    "Host",
    "Place",
    "WriteResult",
    "client_block",
    "find_place",
    "parse_host",
    "planned",
    "render_block",
    "server_env",
    "write_config",
]


class Host(StrEnum):
    """The programs whose configuration is known; GENERIC prints the form most hosts share."""

    CLAUDE_DESKTOP = "claude-desktop"
    CLAUDE_CODE = "claude-code"
    CURSOR = "cursor"
    VSCODE = "vscode"
    ZED = "zed"
    CODEX = "codex"
    GENERIC = "generic"


# Where in the host's file servers are listed.
_SECTIONS = {Host.VSCODE: "servers", Host.ZED: "context_servers", Host.CODEX: "mcp_servers"}
_NAMES_ITS_TRANSPORT = frozenset({Host.CLAUDE_CODE, Host.VSCODE})


@dataclass(frozen=True, slots=True)
class Place:
    """The file a host reads; ``why`` says how it was chosen where that is not certain."""

    path: Path
    why: str = ""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """``backup`` is the copy of the file as it was; None when there was no file, or nothing had to change."""

    path: Path
    registration: Registration
    changed: bool
    backup: Path | None = None


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
    values = {name: getattr(served, each.field) for name, each in SETTINGS.items() if each.for_server}
    chosen = {name: value for name, value in values.items() if value != SETTINGS[name].default}
    named = {name: getattr(served, each.named) for name, each in SETTINGS.items() if each.named}
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
    return {_section(host): {name or next(default_names(env)): entry}}


def render_block(host: Host, block: Block) -> str:
    """``block`` as the host's file has it: TOML for Codex, JSON for the others; ends with a newline."""
    if host is Host.CODEX:
        return "\n".join(_toml(name, entry) for name, entry in block[_section(host)].items())
    return json.dumps(block, indent=2, ensure_ascii=False) + "\n"


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


def planned(
    path: Path, host: Host, block: Block, *, name: str | None = None, replace: bool = False
) -> tuple[Registration, bytes, bytes]:
    """What ``write_config`` would do: the entry, the file as it is, and the file as it is to be."""
    (entry,) = block[_section(host)].values()
    try:
        before = path.read_bytes() if path.exists() else b""
        mark, text, windows = _decoded(before)
        registration, merged = _merge(host, text, lambda servers: register(servers, entry, name=name, replace=replace))
    except (ValueError, RecursionError, OSError) as error:
        raise ConfigError(
            f"{path} was left as it is: it can't be changed safely ({error}). Paste the block in by hand."
        ) from error
    after = before if merged == text else mark + (merged.replace("\n", "\r\n") if windows else merged).encode("utf-8")
    return registration, before, after


def write_config(
    path: Path,
    host: Host,
    block: Block,
    *,
    name: str | None = None,
    replace: bool = False,
    now: datetime | None = None,
) -> WriteResult:
    """Merge ``block`` into the file at ``path``, which is made when missing and backed up when changed.

    The entry's name is ``name``, else the one its store already has there, else a free one after its folder; see
    ``register`` for what of an older entry stays. Other servers and the order of keys stay. Raises InvalidArgument for
    a ``name`` of another store unless ``replace``, and ConfigError when the file can't be read, parsed or replaced;
    then nothing is changed.
    """
    target = Path(os.path.realpath(path))  # a linked configuration stays a link
    registration, before, after = planned(target, host, block, name=name, replace=replace)
    if after == before:
        return WriteResult(path, registration, changed=False)
    try:
        backup = _back_up(target, now or datetime.now()) if target.exists() else None
        _replace(target, before, after)
    except OSError as error:
        raise ConfigError(f"{path} was left as it is: {error}. Paste the block in by hand.") from error
    return WriteResult(path, registration, changed=True, backup=backup)


def _section(host: Host) -> str:
    return _SECTIONS.get(host, "mcpServers")


# --- text in, text out -----------------------------------------------------------------------------------------------

_Register = Callable[[Block], Registration]


def _decoded(before: bytes) -> tuple[bytes, str, bool]:
    """The file's byte order mark, its text with plain line ends, and whether they were those of Windows."""
    mark = b"\xef\xbb\xbf" if before.startswith(b"\xef\xbb\xbf") else b""
    text = before[len(mark) :].decode("utf-8")
    return mark, text.replace("\r\n", "\n"), "\r\n" in text


def _merge(host: Host, text: str, choose: _Register) -> tuple[Registration, str]:
    return _merged_toml(text, choose) if host is Host.CODEX else _merged_json(text, _section(host), choose)


def _merged_json(text: str, section: str, choose: _Register) -> tuple[Registration, str]:
    whole = json.loads(text, object_pairs_hook=_no_twins, parse_constant=_no_constant) if text.strip() else {}
    servers = _mapping(_mapping(whole, "the file").setdefault(section, {}), section)
    chosen = choose(servers)
    if servers.get(chosen.name) == chosen.entry:
        return chosen, text
    servers[chosen.name] = chosen.entry
    end = "\n" if text.endswith("\n") or not text else ""
    return chosen, json.dumps(whole, indent=_indent(text), ensure_ascii=False) + end


def _merged_toml(text: str, choose: _Register) -> tuple[Registration, str]:
    """Codex's file is edited as text, so that its comments stay, and the result is parsed to prove the edit."""
    whole = tomllib.loads(text)
    servers = _mapping(whole.get("mcp_servers", {}), "mcp_servers")
    chosen = choose(servers)
    if servers.get(chosen.name) == chosen.entry:
        return chosen, text
    kept = _without_tables(text, chosen.name).rstrip()
    merged = (kept + "\n\n" if kept else "") + _toml(chosen.name, chosen.entry)
    if tomllib.loads(merged) != whole | {"mcp_servers": servers | {chosen.name: chosen.entry}}:
        raise ValueError(f"the table mcp_servers.{chosen.name} is written in a form this program does not edit")
    return chosen, merged


def _mapping(value: object, what: str) -> Block:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is no table of names and values")
    return value


def _no_twins(pairs: list[tuple[str, Any]]) -> Block:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return mapping


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _indent(text: str) -> int | str:
    """The file's own indentation: that of its first indented line."""
    found = re.search(r"\n([ \t]+)\S", text)
    if found is None:
        return 2
    return "\t" if "\t" in found[1] else len(found[1])


def _without_tables(text: str, name: str) -> str:
    """``text`` without the tables of one server; a line in a multi-line string can look like a header, which the caller
    checks."""
    kept, ours = [], False
    for line in text.split("\n"):
        if line.lstrip().startswith("["):
            ours = _is_header_of(line, name)
        if not ours:
            kept.append(line)
    return "\n".join(kept)


def _is_header_of(line: str, name: str) -> bool:
    try:
        servers = tomllib.loads(line).get("mcp_servers")
    except tomllib.TOMLDecodeError:
        return False
    return isinstance(servers, dict) and name in servers


def _toml(name: str, entry: Block) -> str:
    table = f"mcp_servers.{_key(name)}"
    plain = {key: value for key, value in entry.items() if not isinstance(value, dict)}
    lines = [f"[{table}]", *(f"{_key(key)} = {_toml_value(value)}" for key, value in plain.items())]
    for key, inner in entry.items():
        if isinstance(inner, dict):
            lines += ["", f"[{table}.{_key(key)}]"]
            lines += [f"{_key(inside)} = {_toml_value(value)}" for inside, value in inner.items()]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml_value(name)


def _toml_value(value: object) -> str:
    """Raises ValueError for a value this small writer does not know, so that nothing is written wrong."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(_toml_value(item) for item in value)}]"
    if isinstance(value, str):
        # JSON's escapes are TOML's as well, but for DEL, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    raise ValueError(f"a {type(value).__name__} in the entry")


# --- files -----------------------------------------------------------------------------------------------------------


def _back_up(path: Path, now: datetime) -> Path:
    """Copy ``path`` beside itself under a name that is not taken, for its owner alone: it may hold other keys."""
    stem = f"{path.name}.{now:%Y%m%d-%H%M%S}"
    for number in range(1000):
        backup = path.with_name(f"{stem}{f'-{number}' if number else ''}.bak")
        try:
            with open(backup, "xb", opener=owners_only) as stream:
                stream.write(path.read_bytes())
        except FileExistsError:
            continue
        return backup
    raise FileExistsError(f"{path.parent} holds too many copies of {path.name}")


def _replace(path: Path, before: bytes, after: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "wb") as stream:
            stream.write(after)
            stream.flush()
            os.fsync(stream.fileno())
        if path.exists():
            os.chmod(name, stat.S_IMODE(path.stat().st_mode))
            if path.read_bytes() != before:
                raise OSError("another program changed it at the same moment")
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
