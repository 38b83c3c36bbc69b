"""A file that we and others write to: what it was before us, what we put in, and how it looks without one of us. Pure.

Taking out what was put in last is easy; what makes removal exact in any order is that the content before us is kept, and
the file is written anew from it with the entries that are left. Where others wrote to it meanwhile, our entries are cut
out of what they made of it, and that is the content before us from then on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from rag_mcp.server.hostfile import cut_server, put_server, servers_in
from rag_mcp.server.hosts import Host, section_of
from rag_mcp.server.registration import Registration, serves_the_same

__all__ = ["CRONTAB", "OWN", "Shared", "changed", "digest"]

# Forms; every other one is the name of a host.
CRONTAB, OWN = "crontab", "own"

Entry = Any  # a JSON value
Entries = Mapping[str, Entry]


@dataclass(frozen=True, slots=True)
class Shared:
    """``base`` is the content without us (None: no file), ``written`` the digest of what we made of it. ``entries``
    are ours, by the set-up each belongs to."""

    form: str
    base: bytes | None
    written: str
    entries: Entries = field(default_factory=dict)

    @classmethod
    def untouched(cls, form: str, content: bytes | None) -> Shared:
        return cls(form, content, digest(content))


def digest(content: bytes | None) -> str:
    return "" if content is None else hashlib.blake2b(content, digest_size=16).hexdigest()


def changed(shared: Shared, current: bytes | None, key: str, entry: Entry | None) -> tuple[Shared, bytes | None]:
    """With ``entry`` for the set-up ``key``, or without one: what to keep of the file, and what to write to it.

    Raises ValueError, RecursionError or KeyError where others have written something that can't be edited for certain.
    """
    form = _form(shared.form)
    base, entries = shared.base, dict(shared.entries)
    if digest(current) != shared.written:
        base, entries = form.cut(current, base, entries)
    if entry is None:
        entries.pop(key, None)
    else:
        entries[key] = entry
    content = base
    for each in entries.values():
        content = form.put(content, each)
    return replace(shared, base=base, written=digest(content), entries=entries), content


class _Form(Protocol):
    def put(self, content: bytes | None, entry: Entry) -> bytes: ...

    def cut(
        self, content: bytes | None, base: bytes | None, entries: dict[str, Entry]
    ) -> tuple[bytes | None, dict[str, Entry]]:
        """``content`` without ``entries``, and as what those are found in it that still are there."""
        ...


def _form(name: str) -> _Form:
    if name == CRONTAB:
        return _Crontab()
    return _Own() if name == OWN else _Servers(Host(name))


class _Own:
    """A file that nobody but us has a reason to write to: the entry is all there is in it."""

    def put(self, content: bytes | None, entry: Entry) -> bytes:
        return bytes.fromhex(entry)

    def cut(
        self, content: bytes | None, base: bytes | None, entries: dict[str, Entry]
    ) -> tuple[bytes | None, dict[str, Entry]]:
        return base, entries


class _Crontab:
    """An entry is a mark, which all its lines hold, and the lines."""

    def put(self, content: bytes | None, entry: Entry) -> bytes:
        before = content or b""
        if before and not before.endswith(b"\n"):
            before += b"\n"
        return before + b"".join(_raw(line) + b"\n" for line in entry["lines"])

    def cut(
        self, content: bytes | None, base: bytes | None, entries: dict[str, Entry]
    ) -> tuple[bytes | None, dict[str, Entry]]:
        rest = (content or b"").splitlines(keepends=True)
        kept = {}
        for key, entry in entries.items():
            ours = [line for line in rest if _raw(entry["mark"]) in line]
            rest = [line for line in rest if line not in ours]
            if ours:
                kept[key] = {**entry, "lines": [line.decode("utf-8", "surrogateescape").rstrip("\n") for line in ours]}
        return b"".join(rest) or (None if base is None else b""), kept


def _raw(line: str) -> bytes:
    return line.encode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class _Servers:
    """A host's file; an entry is a server with its name."""

    host: Host

    def put(self, content: bytes | None, entry: Entry) -> bytes:
        return put_server(self.host, content or b"", lambda _: Registration(entry["name"], entry["server"]))[1]

    def cut(
        self, content: bytes | None, base: bytes | None, entries: dict[str, Entry]
    ) -> tuple[bytes | None, dict[str, Entry]]:
        kept = {}
        before = servers_in(self.host, base or b"")
        for key, entry in entries.items():
            found = {} if content is None else servers_in(self.host, content)
            name = next((name for name in (entry["name"], *found) if self._is_ours(name, found, before, entry)), None)
            if name is None:
                continue
            kept[key] = {"name": name, "server": found[name]}
            content = self._without(content or b"", base or b"", name, before)
        return content, kept

    def _is_ours(self, name: str, found: Entries, before: Entries, entry: Entry) -> bool:
        known = name in found and (name == entry["name"] or name not in before)
        return known and serves_the_same(found[name], entry["server"])

    def _without(self, content: bytes, base: bytes, name: str, before: Entries) -> bytes:
        if name in before:
            return put_server(self.host, content, lambda _: Registration(name, before[name]))[1]
        stays = section_of(self.host).encode() in base
        return cut_server(self.host, content, name, section_stays=stays)
