"""Limits of requests, and of what a tenant has at once, counted in this process by `limits` (the extra ``[server]``).

Several server processes count apart.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from memforest.access.principal import Principal
from memforest.access.settings import AccessSettings
from memforest.errors import ConfigError, RateLimitError

if TYPE_CHECKING:
    from limits import RateLimitItem

SPARE_S = 0.001
"""Said beyond the end of a window, so that who waits as long as was said is let pass."""
SHARE_RETRY_S = 1.0


class Rates:
    """Counts requests of keys and tenants in windows that move.

    Args:
        settings: with the rates.

    Raises:
        ConfigError: if a rate is set and `limits` is not installed.
    """

    def __init__(self, settings: AccessSettings) -> None:
        rates = {"key": settings.key_rate, "tenant": settings.tenant_rate}
        self._items: list[tuple[str, RateLimitItem]] = []
        self._lock = threading.Lock()
        if not any(rates.values()):
            return
        try:
            from limits import parse
            from limits.storage import MemoryStorage
            from limits.strategies import MovingWindowRateLimiter
        except ImportError:
            raise ConfigError(
                "limits of requests need the extra [server]: pip install 'memforest[server]'"
            ) from None
        self._limiter = MovingWindowRateLimiter(MemoryStorage())
        self._items = [(whose, parse(rate)) for whose, rate in rates.items() if rate is not None]

    def count(self, principal: Principal) -> None:
        """Count a request; one that is refused counts nowhere.

        Raises:
            RateLimitError: if it is one too many; with the seconds until the next one is let pass.
        """
        names = {"key": _named(principal.tenant, principal.key), "tenant": _named(principal.tenant, "")}
        with self._lock:
            for whose, item in self._items:
                if self._limiter.test(item, whose, names[whose]):
                    continue
                ends = self._limiter.get_window_stats(item, whose, names[whose]).reset_time
                wait = max(0.0, ends - time.time()) + SPARE_S  # noqa: TID251 - the clock of `limits`
                raise RateLimitError(
                    f"more than {item.amount} requests of this {whose} in {item.get_expiry()} s; "
                    f"try again in {wait:.1f} s",
                    retry_after_s=wait,
                )
            for whose, item in self._items:
                self._limiter.hit(item, whose, names[whose])


class Shares:
    """Bounds what each tenant has of something at once: ingests, downloads, bytes of bodies. Nobody has another's share.

    Args:
        most: of each tenant.
        what: names it in the message.
    """

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self._lock = threading.Lock()
        self._taken: Counter[str | None] = Counter()

    def take(self, tenant: str | None, count: int = 1) -> None:
        """Take some more, to be given back.

        Raises:
            RateLimitError: if that is more than may be; nothing is taken then.
        """
        with self._lock:
            if self._taken[tenant] + count > self._most:
                raise RateLimitError(
                    f"{self._most:,} {self._what} of this tenant at once are the most; try again when some have ended",
                    retry_after_s=SHARE_RETRY_S,
                )
            self._taken[tenant] += count

    def give_back(self, tenant: str | None, count: int = 1) -> None:
        """Give back what was taken."""
        with self._lock:
            self._taken[tenant] -= count
            if not self._taken[tenant]:
                del self._taken[tenant]

    @contextmanager
    def one(self, tenant: str | None) -> Iterator[None]:
        """Take one for as long as the block lasts.

        Raises:
            RateLimitError: on entering, if there are as many as may be.
        """
        self.take(tenant)
        try:
            yield
        finally:
            self.give_back(tenant)


def _named(tenant: str | None, key: str) -> str:
    """Return a name that no other tenant and key have: the length says where the tenant ends."""
    return f"-{key}" if tenant is None else f"{len(tenant)}:{tenant}{key}"
