"""Access by keys and tokens: who asks, within which limits, with the memories of which tenant.

Each tenant has a directory of its own below the server's, opened at need and closed when idle. The name of the directory is made
of a hash of the tenant's exact name, as the file of a user is, so no name becomes a path, and two tenants have two directories on
any file system. The bounds of the configuration hold over all tenants together: a memory that was used longest ago is closed
first, whosever it is, and a tenant of whom nothing is open is let go.

Limits are counted in this process by `limits` (the extra ``[server]``); several server processes count apart.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
import unicodedata
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from memforest.config import Config
from memforest.errors import ConfigError, RateLimitError, UnauthenticatedError
from memforest.memory.forest import AsyncMemForest
from memforest.memory.together import Together
from memforest.server.auth import AccessSettings, Principal
from memforest.server.keys import PREFIX, KeyStore, KnownKeys
from memforest.server.tokens import Fetch, Issuer, looks_like_token
from memforest.store.directory import make_directory
from memforest.times import Clock

if TYPE_CHECKING:
    from limits import RateLimitItem


TENANTS = "tenants"
"""The directory of tenants below a server's."""
SLUG_CHARS = 24
DIGEST_BYTES = 20
"""More than of a user's file, whose contents say whose it is: a directory has only its name."""

_UNSAFE = re.compile(r"[^a-z0-9]+")


def directory_of(server: Path, tenant: str | None) -> Path:
    """Return the directory of a tenant's memories; for None it is the server's own directory.

    Example:
        >>> directory_of(Path("d"), "../../etc").parent.as_posix(), directory_of(Path("d"), None).as_posix()
        ('d/tenants', 'd')
    """
    if tenant is None:
        return server
    plain = unicodedata.normalize("NFKD", tenant).encode("ascii", "ignore").decode().lower()
    slug = _UNSAFE.sub("-", plain).strip("-")[:SLUG_CHARS].strip("-") or "tenant"
    return server / TENANTS / f"{slug}-{blake2b(tenant.encode(), digest_size=DIGEST_BYTES).hexdigest()}"


class Tenants:
    """The open memories of all tenants, lent out and closed when idle.

    Args:
        directory: the server's.
        config: of all tenants; None is `load_default_config()`.

    Raises:
        ConfigError: if it names no model that there is.
    """

    def __init__(self, directory: Path, config: Config | None = None) -> None:
        self._directory = directory
        self._together = Together(config)
        self._lock = threading.Lock()
        self._open: dict[str | None, AsyncMemForest] = {}
        self._uses: Counter[str | None] = Counter()
        self._made = False

    @property
    def config(self) -> Config:
        """The configuration of all memories."""
        return self._together.config

    @property
    def opened(self) -> int:
        """Number of tenants whose memories are open."""
        with self._lock:
            return len(self._open)

    @property
    def open_files(self) -> int:
        """Number of files that the open memories of all tenants hold."""
        return self._together.open_files

    @property
    def cached_bytes(self) -> int:
        """Approximate bytes of the cached snapshots of all tenants."""
        return self._together.cached_bytes

    def directory(self, tenant: str | None) -> Path:
        """Return the directory of a tenant's memories."""
        return directory_of(self._directory, tenant)

    @asynccontextmanager
    async def forest(self, tenant: str | None) -> AsyncIterator[AsyncMemForest]:
        """Yield the memories of a tenant, which stay open while the block lasts.

        Raises:
            StoreWriteError: if the directory of tenants cannot be made.
        """
        if tenant is not None and not self._made:
            for directory in (self._directory, self._directory / TENANTS):
                await asyncio.to_thread(make_directory, directory)
            self._made = True
        with self._lock:
            forest = self._open.get(tenant)
            if forest is None:
                forest = self._open[tenant] = self._together.forest(self.directory(tenant))
            self._uses[tenant] += 1
        try:
            yield forest
        finally:
            with self._lock:
                self._uses[tenant] -= 1
            await self._let_go()

    async def close(self) -> None:
        """Close everything; calls that are under way end with a `StoreClosedError`."""
        with self._lock:
            closing = list(self._open.values())
            self._open.clear()
        for forest in closing:
            await forest.close()
        await self._together.close()

    async def _let_go(self) -> None:
        """Close idle memories beyond the bounds, and forget tenants that have none open."""
        await self._together.trim()
        with self._lock:
            empty = [
                tenant
                for tenant, forest in self._open.items()
                if not self._uses[tenant] and not self._together.opened(forest)
            ]
            for tenant in empty:
                del self._uses[tenant]
            forests = [self._open.pop(tenant) for tenant in empty]
        for forest in forests:
            await forest.close()


SPARE_S = 0.001
"""Said beyond the end of a window, so that who waits as long as was said is let pass."""
SHARE_RETRY_S = 1.0


class Rates:
    """Limits on requests of keys and tenants, counted in sliding windows.

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
        """Count a request; a refused one is not counted.

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
    """A bound for each tenant on concurrent ingests, downloads or bytes of bodies; no tenant uses another's share.

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
        """Take an amount, to be given back later.

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
        """Give back an amount that was taken."""
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
    """Return a name that is unique to a tenant and a key: it starts with the tenant's length."""
    return f"-{key}" if tenant is None else f"{len(tenant)}:{tenant}{key}"


NEEDED = "this needs a key: send it as X-API-Key, or as Authorization: Bearer KEY"
REFUSED = "the key or token is unknown, expired or revoked"
"""One sentence for all of them: a stranger learns nothing of what there is."""
ANYBODY = Principal()
MOST_CREDENTIAL_CHARS = 16_384


class KeyedAccess:
    """Access by keys and tokens, within limits, with a directory for each tenant.

    Args:
        directory: the server's: keys are in ``server/``, tenants in ``tenants/``, and the memories of nobody's tenant
            directly in it.
        config: of all memories; None is `load_default_config()`.
        settings: limits, and whose tokens are taken.
        loopback: whether only this machine reaches the server. Then, as long as no key was ever made and there is no issuer,
            everybody may do everything, without limits.
        monotonic: says how old things are, in seconds.
        fetch: reads documents of the issuer; by HTTP when not given.

    Raises:
        ConfigError: if a setting needs an extra that is not installed, or `config` names no model that there is.
    """

    def __init__(
        self,
        directory: str | Path,
        config: Config | None = None,
        settings: AccessSettings | None = None,
        *,
        loopback: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
        fetch: Fetch | None = None,
    ) -> None:
        self.settings = settings or AccessSettings()
        self.tenants = Tenants(Path(directory), config)
        self._loopback = loopback
        clock = steady(self.tenants.config.clock, monotonic)
        self._keys = KnownKeys(KeyStore(Path(directory), clock), clock, monotonic)
        given = self.settings.issuer
        self._issuer = None if given is None else Issuer(given, clock, monotonic, fetch)
        self._rates = Rates(self.settings)
        self._ingests = Shares(self.settings.ingests_per_tenant, "ingests")

    async def identify(self, credential: str | None) -> Principal:
        """Return who makes a request.

        Args:
            credential: the key or token that came with it, without its scheme; None when none did.

        Raises:
            UnauthenticatedError: if there is none and one is needed, or it is unknown, expired or revoked.
            IssuerUnavailableError: if it is a token, and the issuer's keys are not to be had.
            StoreError: if the keys cannot be read. Nobody is let in then.
        """
        found = None
        if credential and len(credential) <= MOST_CREDENTIAL_CHARS:
            if self._issuer is not None and looks_like_token(credential):
                found = await self._issuer.find(credential)
            else:
                found = await self._keys.find(credential)
        if found is not None:
            return found
        # A key that is ours and does not hold is refused also where none is needed: its memories are elsewhere.
        if not (credential or "").startswith(PREFIX) and await self.is_open():
            return ANYBODY
        raise UnauthenticatedError(REFUSED if credential else NEEDED)

    async def is_open(self) -> bool:
        """Return whether no key is needed: the server is reachable from this machine alone and no key was ever made.

        Raises:
            StoreError: if the keys cannot be read.
        """
        return self._loopback and self._issuer is None and not await self._keys.ever()

    async def count(self, principal: Principal) -> None:
        """Count a request against the limits of its key and of its tenant.

        Raises:
            RateLimitError: if it is one too many.
        """
        if principal != ANYBODY:
            self._rates.count(principal)

    @asynccontextmanager
    async def ingesting(self, principal: Principal) -> AsyncIterator[None]:
        """Count an ingest for as long as the block lasts.

        Raises:
            RateLimitError: on entering, if as many of the tenant are under way as may be.
        """
        if principal == ANYBODY:
            yield
            return
        with self._ingests.one(principal.tenant):
            yield

    def forest(self, principal: Principal) -> AbstractAsyncContextManager[AsyncMemForest]:
        """Return a context with the memories of the caller's tenant, which stay open while it lasts."""
        return self.tenants.forest(principal.tenant)

    def directory(self, principal: Principal) -> Path:
        """Return the directory of the memories of the caller's tenant."""
        return self.tenants.directory(principal.tenant)

    async def close(self) -> None:
        """Close all memories, and store the times when keys were last used."""
        try:
            await self._keys.close()
        finally:
            await self.tenants.close()


def steady(clock: Clock, monotonic: Callable[[], float]) -> Clock:
    """Return a clock that does not go back when the system's clock is set back, so that nothing expired is valid again.

    It follows a clock that is set forward and back again, but never falls behind the time that has passed.

    Args:
        clock: says what time it is.
        monotonic: says how much has passed, in seconds.
    """
    begun, since = clock(), monotonic()

    def now() -> datetime:
        return max(clock(), begun + timedelta(seconds=monotonic() - since))

    return now
