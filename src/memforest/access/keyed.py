"""Access by keys and tokens: who it is, within which limits, with the memories of which tenant."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

from memforest.access.issuer import Issuer, looks_like_token
from memforest.access.issuer_keys import Fetch
from memforest.access.keys import PREFIX, KeyStore
from memforest.access.known import KnownKeys
from memforest.access.principal import Principal
from memforest.access.rates import Rates, Shares
from memforest.access.settings import AccessSettings
from memforest.access.tenants import Tenants
from memforest.clock import Clock
from memforest.config import Config
from memforest.errors import UnauthenticatedError
from memforest.forest.forest import AsyncMemForest

NEEDED = "this needs a key: send it as X-API-Key, or as Authorization: Bearer KEY"
REFUSED = "the key or token is unknown, expired or revoked"
"""One sentence for all of them: a stranger learns nothing of what there is."""
ANYBODY = Principal()
MOST_CREDENTIAL_CHARS = 16_384


class KeyedAccess:
    """Decides on the requests of a server: by keys, by tokens, within limits, a directory for each tenant.

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
        """Return whether everybody may do everything: on this machine alone, and no key was ever made.

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
        """Return a context with the memories of the caller's tenant, which are not closed while it lasts."""
        return self.tenants.forest(principal.tenant)

    def directory(self, principal: Principal) -> Path:
        """Return where the memories of the caller's tenant are."""
        return self.tenants.directory(principal.tenant)

    async def close(self) -> None:
        """Close all memories, and write when keys were last used."""
        try:
            await self._keys.close()
        finally:
            await self.tenants.close()


def steady(clock: Clock, monotonic: Callable[[], float]) -> Clock:
    """Return a clock that is never behind the time that has passed since it was made: set back, it makes nothing valid again.

    It follows a clock that is set forward, and back again from there; only behind where it would be without that it does not go.

    Args:
        clock: says what time it is.
        monotonic: says how much has passed, in seconds.
    """
    begun, since = clock(), monotonic()

    def now() -> datetime:
        return max(clock(), begun + timedelta(seconds=monotonic() - since))

    return now
