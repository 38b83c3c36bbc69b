"""Tokens: a secret a caller holds, of which its digest and one access profile are kept.

The file is written by ``rag-mcp token`` and looked at before every call, so that a token that was removed is worth nothing
from then on. A file that can't be read for certain admits nobody.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import stat
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from rag_mcp.errors import ConfigError, InvalidArgument
from rag_mcp.stores.embedded.files import make_folder, read_json, write_text

__all__ = ["Token", "TokenFile", "TokenWatch", "default_place", "digest_of", "holder_of"]

logger = logging.getLogger(__name__)

_FORMAT = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LONGEST = 512  # characters of a presented secret; ours have 43
_LOCK_WAIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Token:
    """What is kept of a token. ``profile`` counts as RAG_MCP_CLIENT_PROFILE does; the secret is known to its holder alone."""

    name: str
    profile: str
    sha256: str
    created: str


def digest_of(secret: str) -> str:
    """A plain digest is enough: a secret of 256 random bits can't be guessed, however fast the guesses."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def holder_of(secret: str, tokens: Iterable[Token]) -> Token | None:
    """Whose secret it is. Each digest is compared whole, so that the time tells nothing of which one was near."""
    if not secret or len(secret) > _LONGEST:
        return None
    shown, found = digest_of(secret), None
    for token in tokens:
        if hmac.compare_digest(shown, token.sha256):
            found = token
    return found


def default_place(platform: str, home: Path, env: Mapping[str, str]) -> Path:
    """``tokens.json`` in the user's folder of settings; ``platform`` as ``sys.platform`` has it."""
    if platform == "win32":
        folder = Path(env.get("APPDATA") or home / "AppData" / "Roaming")
    elif platform == "darwin":
        folder = home / "Library" / "Application Support"
    else:
        folder = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
    return folder / "rag-mcp" / "tokens.json"


class TokenFile:
    """The file of tokens; one change at a time, whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> tuple[Token, ...]:
        """Empty without a file. Raises ConfigError for one that is damaged, or that others may write to."""
        try:
            status = os.stat(self.path)
            if sys.platform != "win32" and status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise ConfigError(f"Others may write to {self.path}, and so let themselves in: chmod 600 it.")
            return _parsed(read_json(self.path))
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(
                f"{self.path} can't be read as a file of tokens ({error}). Nobody is let in until it is repaired or removed."
            ) from error

    def add(self, profile: str, name: str | None = None) -> tuple[Token, str]:
        """A new token, and its secret, which is kept nowhere. Raises InvalidArgument for a name that is taken or no name."""
        if name is not None and not _NAME.fullmatch(name):
            raise InvalidArgument("name", "won't do: up to 64 letters, digits, '.', '-' and '_'.")
        secret = secrets.token_urlsafe(32)
        with self._changing():
            known = self.read()
            taken = {token.name for token in known}
            if name in taken:
                raise InvalidArgument("name", f"{name!r} is taken; remove that token first, or choose another name.")
            now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
            token = Token(name or _free_name(profile, taken), profile, digest_of(secret), now)
            self._write([*known, token])
        return token, secret

    def remove(self, name: str) -> Token:
        """Raises InvalidArgument naming the tokens there are."""
        with self._changing():
            known = self.read()
            gone = next((token for token in known if token.name == name), None)
            if gone is None:
                names = [token.name for token in known]
                raise InvalidArgument("name", f"there is no token {name!r}.", allowed=names)
            self._write([token for token in known if token is not gone])
        return gone

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        from filelock import FileLock, Timeout

        try:
            make_folder(self.path.parent)
            with FileLock(self.path.with_name(f".{self.path.name}.lock"), mode=0o600, timeout=_LOCK_WAIT_S):
                yield
        except Timeout:
            raise ConfigError(f"Another command is changing {self.path}; try again.") from None
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise ConfigError(f"{self.path} can't be written ({why}); name another file with --tokens.") from error

    def _write(self, tokens: Sequence[Token]) -> None:
        kept = {"format": _FORMAT, "tokens": [asdict(token) for token in tokens]}
        write_text(self.path, json.dumps(kept, indent=1) + "\n")


class TokenWatch:
    """The tokens as the file has them now; every method is thread-safe."""

    def __init__(self, file: TokenFile) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._seen: object = None
        self._tokens: tuple[Token, ...] = ()

    def current(self) -> tuple[Token, ...]:
        """None at all while the file is damaged, which the log says once."""
        with self._lock:
            seen = _signature(self._file.path)
            if seen != self._seen:
                self._tokens = self._read()
                self._seen = seen
            return self._tokens

    def holder(self, secret: str) -> Token | None:
        return holder_of(secret, self.current())

    def _read(self) -> tuple[Token, ...]:
        try:
            return self._file.read()
        except ConfigError as error:
            logger.error("%s", error)
            return ()


def _signature(path: Path) -> object:
    """Differs whenever the file was replaced or written to: each change makes a new file, and its time of change (ctime) is
    not at a writer's disposal."""
    try:
        status = os.stat(path)
    except OSError as error:
        return error.errno
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _free_name(profile: str, taken: set[str]) -> str:
    stem = re.sub(r"[^A-Za-z0-9]+", "-", profile).strip("-")[:48] or "token"
    names = (stem if number == 1 else f"{stem}-{number}" for number in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


def _parsed(data: object) -> tuple[Token, ...]:
    """Raises ValueError saying what is not as it was written."""
    if not isinstance(data, dict) or data.get("format") != _FORMAT or not isinstance(data.get("tokens"), list):
        raise ValueError("it is of no known format")
    tokens = tuple(map(_token, data["tokens"]))
    for kind, values in (("name", [t.name for t in tokens]), ("digest", [t.sha256 for t in tokens])):
        if len(set(values)) != len(values):
            raise ValueError(f"a {kind} stands twice")
    return tokens


def _token(entry: object) -> Token:
    if not isinstance(entry, dict) or set(entry) != {"name", "profile", "sha256", "created"}:
        raise ValueError("an entry has other fields than name, profile, sha256 and created")
    if not all(isinstance(value, str) for value in entry.values()) or not _DIGEST.fullmatch(entry["sha256"]):
        raise ValueError("an entry holds no digest")
    return Token(**entry)
