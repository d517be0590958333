"""Who is logged in: sessions of browsers, kept in this process, bounded in number and time, and the tokens of their forms."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["IDLE_S", "LIFE_S", "MOST", "Sessions"]

MOST = 1_000
"""Most sessions at once; one more ends the one that was used least recently."""
IDLE_S = 2 * 3600.0
"""A session that nobody used for so long has ended."""
LIFE_S = 12 * 3600.0
"""A session lasts no longer, however much it is used."""

_ID_BYTES = 32


@dataclass(slots=True)
class _Session:
    credential: str
    begun: float
    used: float


class Sessions:
    """Sessions by the id in their cookie. Ids are kept as digests: what is here is no way in.

    A restart ends them all. The credential that a session was begun with is kept, because whether it still holds is
    asked anew at each request.

    Args:
        clock: seconds that only grow.
        most: bound on how many there are.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = MOST) -> None:
        self._clock = clock
        self._most = most
        self._secret = secrets.token_bytes(32)
        self._open: OrderedDict[bytes, _Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    @staticmethod
    def new_id() -> str:
        """Return a random id for a cookie: 256 bits."""
        return secrets.token_urlsafe(_ID_BYTES)

    def begin(self, credential: str) -> str:
        """Begin a session and return its id, which is a new one: whoever knew an id before knows none of this."""
        made, now = self.new_id(), self._clock()
        self._open[_digest(made)] = _Session(credential, now, now)
        while len(self._open) > self._most:
            self._open.popitem(last=False)
        return made

    def credential(self, session_id: str) -> str | None:
        """Return what a session was begun with; None if there is none, or it has ended."""
        key, now = _digest(session_id), self._clock()
        found = self._open.get(key)
        if found is None:
            return None
        if now - found.used > IDLE_S or now - found.begun > LIFE_S:
            del self._open[key]
            return None
        found.used = now
        self._open.move_to_end(key)
        return found.credential

    def end(self, session_id: str) -> None:
        """End a session, if there is one."""
        self._open.pop(_digest(session_id), None)

    def token(self, session_id: str) -> str:
        """Return the token that forms of this session carry; nobody who does not see the page can know it."""
        return hmac.new(self._secret, session_id.encode(), hashlib.sha256).hexdigest()

    def is_token(self, session_id: str, given: str) -> bool:
        """Return whether a form came with the token of its session, in constant time."""
        return hmac.compare_digest(self.token(session_id).encode(), given.encode("utf-8", "replace"))


def _digest(session_id: str) -> bytes:
    return hashlib.sha256(session_id.encode("utf-8", "replace")).digest()
