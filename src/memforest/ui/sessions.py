"""Who is logged in: sessions of browsers, kept in this process, bounded in number and time, and the tokens of their forms."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from memforest.access import Principal
from memforest.errors import RateLimitError

MOST = 20
"""Most sessions of one key at once; one more ends that of it which was used least recently."""
MOST_OF_TENANT = 1_000
"""Most of a tenant's keys together; a key with further sessions ends its own alone, a key without one is refused."""
IDLE_S = 2 * 3600.0
"""A session that nobody used for so long has ended."""
LIFE_S = 12 * 3600.0
"""A session lasts no longer, however much it is used."""

RETRY_S = 60.0
_ID_BYTES = 32


@dataclass(slots=True)
class _Session:
    credential: str
    tenant: str | None
    key: str
    begun: float
    used: float


class Sessions:
    """Sessions by the id in their cookie. Ids are kept as digests: what is here is no way in.

    A restart ends them all. The credential that a session was begun with is kept, because whether it still holds is
    asked anew at each request.

    Args:
        clock: seconds that only grow.
        most: bound on how many there are of one key.
        most_of_tenant: and of all keys of a tenant.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        most: int = MOST,
        most_of_tenant: int = MOST_OF_TENANT,
    ) -> None:
        self._clock = clock
        self._most = most
        self._most_of_tenant = most_of_tenant
        self._secret = secrets.token_bytes(32)
        self._open: OrderedDict[bytes, _Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    @staticmethod
    def new_id() -> str:
        """Return a random id for a cookie: 256 bits."""
        return secrets.token_urlsafe(_ID_BYTES)

    def begin(self, credential: str, who: Principal) -> str:
        """Begin a session and return its id, which is a new one: whoever knew an id before knows none of this.

        Raises:
            RateLimitError: if the tenant's keys have as many as may be, and this one has none that could be ended.
        """
        made, now = self.new_id(), self._clock()
        for digest in [digest for digest, one in self._open.items() if self._has_ended(one, now)]:
            del self._open[digest]
        tenants = [(digest, one) for digest, one in self._open.items() if one.tenant == who.tenant]
        own = [digest for digest, one in tenants if one.key == who.key]
        if len(own) >= self._most or len(tenants) >= self._most_of_tenant:
            if not own:
                raise RateLimitError("too many sessions of this tenant are open", retry_after_s=RETRY_S)
            del self._open[own[0]]
        self._open[_digest(made)] = _Session(credential, who.tenant, who.key, now, now)
        return made

    def credential(self, session_id: str) -> str | None:
        """Return what a session was begun with; None if there is none, or it has ended."""
        key, now = _digest(session_id), self._clock()
        found = self._open.get(key)
        if found is None:
            return None
        if self._has_ended(found, now):
            del self._open[key]
            return None
        found.used = now
        self._open.move_to_end(key)
        return found.credential

    @staticmethod
    def _has_ended(one: _Session, now: float) -> bool:
        return now - one.used > IDLE_S or now - one.begun > LIFE_S

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
