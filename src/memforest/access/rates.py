"""Limits of requests and of ingests, counted in this process.

`limits` (the extra ``[server]``) reads the rates and decides; its own storage in memory starts a thread for nearly every
request and reads the system's clock, so counts are kept here: two numbers for each key and tenant, forgotten when they are
old. Several server processes count apart.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from memforest.access.principal import Principal
from memforest.access.settings import AccessSettings
from memforest.errors import ConfigError, RateLimitError

if TYPE_CHECKING:
    from limits import RateLimitItem

__all__ = ["Ingests", "Rates"]

MOST_COUNTED = 100_000
"""Keys and tenants that are counted at once; of more, those seen longest ago are forgotten."""
INGEST_RETRY_S = 1.0


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


class Ingests:
    """Bounds how many ingests of a tenant are under way.

    Args:
        most: of each.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._under_way: Counter[str | None] = Counter()

    @asynccontextmanager
    async def one(self, tenant: str | None) -> AsyncIterator[None]:
        """Count an ingest for as long as the block lasts.

        Raises:
            RateLimitError: on entering, if as many are under way as may be.
        """
        with self._lock:
            if self._under_way[tenant] >= self._most:
                raise RateLimitError(
                    f"{self._most} ingests of this tenant are under way, which is the most; try again when one is done",
                    retry_after_s=INGEST_RETRY_S,
                )
            self._under_way[tenant] += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way[tenant] -= 1
                if not self._under_way[tenant]:
                    del self._under_way[tenant]


def _named(tenant: str | None, key: str) -> str:
    """Return a name that no other tenant and key have: the length says where the tenant ends."""
    return f"-{key}" if tenant is None else f"{len(tenant)}:{tenant}{key}"
