"""Which server runs for a store: a lock that dies with its process, and beside it a note of where the server is found.

Both lie in the user's folder of state and not in the store: a store may be read-only or another user's, and one server
may serve several. Loads nothing beyond the standard library: the bridge starts with it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from rag_mcp.config import SETTINGS, Config
from rag_mcp.errors import ConfigError, ServerRunning
from rag_mcp.stores.embedded.place import corpora_of, store_root

__all__ = ["DEFAULT_PORT", "LOG", "PAGE_HOST", "Life", "Running", "life_of", "settings_digest", "state_folder"]

DEFAULT_PORT = 8377
PAGE_HOST = "rag-mcp.localhost"

LOG = "serve.log"  # the last words of one that was started on demand
_NOTE, _LOCK = "serve.json", "serve.lock"
_TAKE_S = 1.0  # somebody may just be looking whether it is held
_STEP_S = 0.02
# Of each caller, or of this process alone, or told by the store: they change no answer.
_NO_PART = frozenset({"profile", "log_level", "log_format", "scratch_dir", "corpus_root", "db_path", "refresh"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Where a server is found. ``key`` lets in who can read it: this user, who could open the store as well. ``page``
    tells whether it has one."""

    pid: int
    host: str
    port: int
    version: str
    settings: str
    key: str
    page: bool = False

    @property
    def url(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/mcp"

    @property
    def page_url(self) -> str:
        """Under a name of its own: cookies ignore ports, so those of 127.0.0.1 reach every server there. Browsers take it
        for this machine without asking anybody."""
        return f"http://{PAGE_HOST}:{self.port}/page"


@dataclass(frozen=True, slots=True)
class Life:
    """The folder where the one server of a store, or of several served together, leaves its traces."""

    folder: Path

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Be that server. Raises ServerRunning when there is one, ConfigError when the folder can't be written."""
        try:
            make_private(self.folder)
            descriptor = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        except OSError as error:
            raise ConfigError(
                f"{self.folder} can't be written ({error.strerror}): a server notes there where it is found. "
                "Set XDG_STATE_HOME to a folder of yours."
            ) from error
        try:
            self._take(descriptor)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.folder / _NOTE)  # of a server that was killed
            try:
                yield
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(self.folder / _NOTE)
        finally:
            os.close(descriptor)

    def _take(self, descriptor: int) -> None:
        until = time.monotonic() + _TAKE_S
        while not _locked(descriptor, exclusive=True):
            if time.monotonic() > until:
                there = self._note()
                where = f" (process {there.pid}, {there.url})" if there else ""
                raise ServerRunning(f"A server of this store is running already{where}. Stop it: rag-mcp serve --stop")
            time.sleep(_STEP_S)

    def announce(self, running: Running) -> None:
        """Say where the server is, once it can be reached there. The caller holds the lock."""
        from rag_mcp.stores.embedded.files import note_text

        note_text(self.folder / _NOTE, json.dumps(asdict(running)))

    def running(self) -> Running | None:
        """The server, if one runs: a note without its lock is a killed server's, and its port may be anybody's now."""
        return self._note() if self.is_held() else None

    def is_held(self) -> bool:
        try:
            descriptor = os.open(self.folder / _LOCK, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        except OSError:
            return False
        try:
            return not _locked(descriptor, exclusive=False)
        finally:
            os.close(descriptor)

    def stop(self, wait_s: float) -> Running | None:
        """Ask the server to end, and wait until it has; None when none runs. One that was about to start takes the lock
        as soon as it is free, and is asked too. Raises ServerRunning if one does not end."""
        first = self.running()
        if first is None:
            return None
        asked: set[int] = set()
        until = time.monotonic() + wait_s
        while self.is_held():
            there = self._note()
            if there is not None and there.pid not in asked:
                asked.add(there.pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(there.pid, signal.SIGTERM)
            if time.monotonic() > until:
                names = ", ".join(map(str, sorted(asked)))
                raise ServerRunning(f"Process {names} was told to end and has not after {wait_s:g} seconds.")
            time.sleep(_STEP_S)
        return first

    def forget(self) -> None:
        """Take away what the server left, unless one runs. Raises OSError."""
        if not self.is_held():
            for name in (_NOTE, LOG, _LOCK):
                (self.folder / name).unlink(missing_ok=True)

    def _note(self) -> Running | None:
        try:
            return Running(**json.loads((self.folder / _NOTE).read_bytes()))
        except (OSError, ValueError, TypeError):
            return None


def life_of(config: Config, env: Mapping[str, str]) -> Life:
    """Where the server of ``config``'s store, or stores, leaves its traces. Raises ConfigError without a store."""
    roots = sorted(os.path.realpath(store_root(each)) for each in corpora_of(config).values() or [config])
    name = hashlib.sha256(json.dumps(roots).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    try:
        home = Path.home()
    except RuntimeError as error:
        raise ConfigError("This user has no home folder: set HOME.") from error
    return Life(state_folder(sys.platform, home, env) / f"serve-{name}")


def state_folder(platform: str, home: Path, env: Mapping[str, str]) -> Path:
    """Where this user's programs keep what they note for themselves; ``platform`` as ``sys.platform`` has it."""
    if platform == "win32":
        folder = Path(env.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif platform == "darwin":
        folder = home / "Library" / "Application Support"
    else:
        folder = Path(env.get("XDG_STATE_HOME") or home / ".local" / "state")
    return folder / "rag-mcp"


def settings_digest(config: Config) -> str:
    """Two processes of one digest and profile give the same answers: store, policy, model and words are the same."""
    stores = {name: os.path.realpath(store_root(each)) for name, each in (corpora_of(config) or {"": config}).items()}
    known = {row.field: getattr(config, row.field) for row in SETTINGS.values() if row.for_server}
    told = {name: _spelt(value) for name, value in known.items() if name not in _NO_PART}
    told |= {"stores": stores, "policies": _spelt(config.policies)}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def _spelt(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _spelt(inner) for name, inner in value.items()}
    return os.path.realpath(value) if isinstance(value, Path) else value


def make_private(folder: Path) -> None:
    """Make ``folder``, its owner's alone; what is above it as the system has it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def _locked(descriptor: int, *, exclusive: bool) -> bool:
    """Try to take a lock that ends with the descriptor."""
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
