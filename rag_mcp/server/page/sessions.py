"""Who is signed in at the page: random ids, each bound to the token it was given for."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rag_mcp.server.http.tokens import Token, digest_of

__all__ = ["LIFE_S", "Sessions"]

LIFE_S = 8 * 60 * 60
_MOST = 1_000


@dataclass(frozen=True, slots=True)
class _Session:
    token_sha256: str
    until: float


class Sessions:
    """In this process's memory alone, so that a restart ends them all; of one thread. An id is kept as its digest: the time
    that finding it takes tells nothing of it."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, most: int = _MOST) -> None:
        self._clock = clock
        self._most = most
        self._sessions: dict[str, _Session] = {}

    def begin(self, token: Token) -> str:
        """A new id for the holder of ``token``; with too many, the oldest session ends."""
        now = self._clock()
        self._sessions = {name: each for name, each in self._sessions.items() if each.until > now}
        while len(self._sessions) >= self._most:
            del self._sessions[next(iter(self._sessions))]
        session = secrets.token_urlsafe(32)
        self._sessions[digest_of(session)] = _Session(token.sha256, now + LIFE_S)
        return session

    def holder(self, session: str, tokens: Iterable[Token]) -> Token | None:
        """Whose session it is, as the token is now. It ends with its time, and with its token among ``tokens``."""
        found = self._sessions.get(digest_of(session))
        if found is None:
            return None
        token = next((each for each in tokens if each.sha256 == found.token_sha256), None)
        if token is None or found.until <= self._clock():
            self.end(session)
            return None
        return token

    def end(self, session: str) -> None:
        self._sessions.pop(digest_of(session), None)
