"""Limits of requests, and of what a tenant has at once, counted in this process.

`limits` (the extra ``[server]``) reads the rates and decides; its own storage in memory starts a thread for nearly every
request and reads the system's clock, so counts are kept here: two numbers for each key and tenant, forgotten when they are
old. Several server processes count apart.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from memforest.access.principal import Principal
from memforest.access.settings import AccessSettings
from memforest.errors import ConfigError, RateLimitError

if TYPE_CHECKING:
    from limits import RateLimitItem

MOST_COUNTED = 100_000
"""Keys and tenants that are counted at once; of more, those seen longest ago are forgotten."""
SHARE_RETRY_S = 1.0


class Rates:
    """Counts requests of keys and tenants in windows that slide.

    Args:
        settings: with the rates.
        monotonic: says how late it is, in seconds.

    Raises:
        ConfigError: if a rate is set and `limits` is not installed.
    """

    def __init__(self, settings: AccessSettings, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._items: list[tuple[str, RateLimitItem]] = []
        self._lock = threading.Lock()
        if settings.key_rate is None and settings.tenant_rate is None:
            return
        try:
            from limits import parse
            from limits.strategies import SlidingWindowCounterRateLimiter

            from memforest.access.windows import Windows
        except ImportError:
            raise ConfigError(
                "limits of requests need the extra [server]: pip install 'memforest[server]'"
            ) from None
        self._windows = Windows(monotonic, MOST_COUNTED)
        self._limiter = SlidingWindowCounterRateLimiter(self._windows)
        for whose, rate in (("key", settings.key_rate), ("tenant", settings.tenant_rate)):
            if rate is not None:
                self._items.append((whose, parse(rate)))

    def count(self, principal: Principal) -> None:
        """Count a request; one that is refused counts nowhere.

        Raises:
            RateLimitError: if it is one too many; with the seconds until the next one is let pass.
        """
        names = {"key": _named(principal.tenant, principal.key), "tenant": _named(principal.tenant, "")}
        with self._lock:
            for whose, item in self._items:
                wait = self._windows.wait(item.key_for(whose, names[whose]), item.amount, item.get_expiry())
                if wait > 0:
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
