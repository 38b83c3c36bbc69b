"""A host's file: how an entry is put into it, and cut out of it, without breaking it.

The file belongs to its user: it is copied before it is changed, replaced in one step, and left alone when it can't be
read for certain. Comments (VS Code, Zed) would not survive a rewrite, so a file that has them is not rewritten.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from rag_mcp.errors import ConfigError
from rag_mcp.server.hosts import Host, section_of
from rag_mcp.server.registration import Block, Registration, register
from rag_mcp.stores.embedded.files import owners_only

__all__ = [
    "WriteResult",
    "cut_server",
    "planned",
    "put_server",
    "render_block",
    "replace_file",
    "servers_in",
    "write_config",
]

_JSON = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class WriteResult:
    """``backup`` is the copy of the file as it was; None when there was no file, or nothing had to change."""

    path: Path
    registration: Registration
    changed: bool
    backup: Path | None = None


def render_block(host: Host, block: Block) -> str:
    """``block`` as the host's file has it: TOML for Codex, JSON for the others; ends with a newline."""
    if host is Host.CODEX:
        return "\n".join(_toml(name, entry) for name, entry in block[section_of(host)].items())
    return json.dumps(block, indent=2, ensure_ascii=False) + "\n"


def planned(
    path: Path, host: Host, block: Block, *, name: str | None = None, replace: bool = False
) -> tuple[Registration, bytes, bytes]:
    """What ``write_config`` would do: the entry, the file as it is to be, and the file as it is."""
    (entry,) = block[section_of(host)].values()
    try:
        before = path.read_bytes() if path.exists() else b""
        choose = partial(register, entry=entry, name=name, replace=replace)
        return *put_server(host, before, choose), before
    except (ValueError, RecursionError, OSError) as error:
        raise ConfigError(
            f"{path} was left as it is: it can't be changed safely ({error}). Paste the block in by hand."
        ) from error


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
    registration, after, before = planned(target, host, block, name=name, replace=replace)
    if after == before:
        return WriteResult(path, registration, changed=False)
    try:
        backup = _back_up(target, now or datetime.now()) if target.exists() else None
        replace_file(target, before, after)
    except OSError as error:
        raise ConfigError(f"{path} was left as it is: {error}. Paste the block in by hand.") from error
    return WriteResult(path, registration, changed=True, backup=backup)


# --- text in, text out -----------------------------------------------------------------------------------------------

Choose = Callable[[Block], Registration]


def put_server(host: Host, content: bytes, choose: Choose) -> tuple[Registration, bytes]:
    """``content`` of the host's file with the entry that ``choose`` makes of the servers it has; equal bytes where it
    has the entry already. Raises ValueError or RecursionError where that can't be done for certain."""
    mark, text, windows = _decoded(content)
    merge = _merged_toml if host is Host.CODEX else partial(_merged_json, section=section_of(host))
    registration, merged = merge(text, choose)
    return registration, content if merged == text else _encoded(mark, merged, windows)


def cut_server(host: Host, content: bytes, name: str, *, section_stays: bool = True) -> bytes:
    """``content`` without one server; all else stays as it is written. A section that is empty then goes too, unless
    it ``section_stays``. Raises as ``put_server`` does, and KeyError where there is no such server."""
    mark, text, windows = _decoded(content)
    section = section_of(host)
    expected = _whole(host, text)
    del expected[section][name]
    bare = not (expected[section] or section_stays)
    if bare:
        del expected[section]
    cut = _without_tables(text, name).rstrip() + "\n" if host is Host.CODEX else _cut_json(text, section, name, bare)
    if {section: {}, **_whole(host, cut)} != {section: {}, **expected}:
        raise ValueError(f"the entry {name} is written in a form this program does not edit")
    return _encoded(mark, cut if cut.strip() else "", windows)


def servers_in(host: Host, content: bytes) -> Block:
    """The servers of the file. Raises as ``put_server`` does."""
    section = section_of(host)
    return _mapping(_whole(host, _decoded(content)[1]).get(section, {}), section)


def _whole(host: Host, text: str) -> Block:
    if host is Host.CODEX:
        return tomllib.loads(text)
    whole = json.loads(text, object_pairs_hook=_no_twins, parse_constant=_no_constant) if text.strip() else {}
    return _mapping(whole, "the file")


def _decoded(before: bytes) -> tuple[bytes, str, bool]:
    """The file's byte order mark, its text with plain line ends, and whether they were those of Windows."""
    mark = b"\xef\xbb\xbf" if before.startswith(b"\xef\xbb\xbf") else b""
    text = before[len(mark) :].decode("utf-8")
    return mark, text.replace("\r\n", "\n"), "\r\n" in text


def _encoded(mark: bytes, text: str, windows: bool) -> bytes:
    return mark + (text.replace("\n", "\r\n") if windows else text).encode("utf-8")


def _merged_json(text: str, choose: Choose, *, section: str) -> tuple[Registration, str]:
    whole = _whole(Host.GENERIC, text)
    servers = _mapping(whole.setdefault(section, {}), section)
    chosen = choose(servers)
    if servers.get(chosen.name) == chosen.entry:
        return chosen, text
    servers[chosen.name] = chosen.entry
    end = "\n" if text.endswith("\n") or not text else ""
    return chosen, json.dumps(whole, indent=_indent(text), ensure_ascii=False) + end


def _cut_json(text: str, section: str, name: str, bare: bool) -> str:
    start = _after_blank(text, 0)
    if bare:
        return _without_member(text, start, section)
    at = next(value for key, _, value, _ in _members(text, start) if key == section)
    return _without_member(text, at, name)


def _without_member(text: str, start: int, name: str) -> str:
    """``text`` without one member of the object that begins at ``start``, and without the comma that set it apart."""
    members = list(_members(text, start))
    number = next(number for number, (key, *_) in enumerate(members) if key == name)
    _, begin, _, end = members[number]
    if number:
        begin = members[number - 1][3]
    elif len(members) > 1:
        end = members[1][1]
    else:
        begin, end = start + 1, _after_blank(text, end)
    return text[:begin] + text[end:]


def _members(text: str, start: int) -> Iterator[tuple[str, int, int, int]]:
    """Name, and where name and value begin and the value ends, of each member of an object in sound JSON."""
    at = _after_blank(text, start + 1)
    while text[at] != "}":
        name, end = _JSON.raw_decode(text, at)
        value = _after_blank(text, _after_blank(text, end) + 1)
        _, end = _JSON.raw_decode(text, value)
        yield name, at, value, end
        at = _after_blank(text, end)
        if text[at] == ",":
            at = _after_blank(text, at + 1)


def _after_blank(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def _merged_toml(text: str, choose: Choose) -> tuple[Registration, str]:
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
    """``text`` without the tables of one server, but with the comments behind them, which speak of what follows; a line
    in a multi-line string can look like a header, which the caller checks."""
    kept: list[str] = []
    behind: list[str] = []
    ours = False
    for line in text.split("\n"):
        if line.lstrip().startswith("["):
            ours = _is_header_of(line, name)
        elif ours and line.lstrip()[:1] in ("", "#"):
            behind.append(line)
            continue
        if not ours:
            kept += behind[bool(kept and behind and not (kept[-1] or behind[0])) :]
            kept.append(line)
        behind = []
    return "\n".join(kept + behind)


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


def replace_file(path: Path, before: bytes, after: bytes) -> None:
    """Write ``after`` where ``before`` is; a new file is its owner's alone. Raises OSError, also where something else is."""
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
