"""The one thing that all front ends ask: who is this, may they, and with which memories."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

from memforest.access.principal import Principal
from memforest.forest.forest import AsyncMemForest


class Access(Protocol):
    """Decides on requests; every front end has one and asks nothing else."""

    async def identify(self, credential: str | None) -> Principal:
        """Return who makes a request.

        Args:
            credential: the key or token that came with it, without its scheme; None when none did.

        Raises:
            UnauthenticatedError: if there is none and one is needed, or it is unknown, expired or revoked.
        """
        ...

    async def count(self, principal: Principal) -> None:
        """Count a request against the limits.

        Raises:
            RateLimitError: if it is one too many.
        """
        ...

    def ingesting(self, principal: Principal) -> AbstractAsyncContextManager[None]:
        """Return a context in which the caller ingests; raises `RateLimitError` on entering when the tenant is at its bound."""
        ...

    def forest(self, principal: Principal) -> AbstractAsyncContextManager[AsyncMemForest]:
        """Return a context with the memories of the caller's tenant, which are not closed while it lasts."""
        ...

    def directory(self, principal: Principal) -> Path:
        """Return where the memories of the caller's tenant are."""
        ...

    async def close(self) -> None:
        """Close all memories that this has opened."""
        ...


class OpenAccess:
    """Everybody may do everything with one forest: for a server on loopback without keys, and for a host that decides itself.

    Args:
        forest: whose memories.
        owned: close it with this.
    """

    def __init__(self, forest: AsyncMemForest, *, owned: bool = False) -> None:
        self._forest = forest
        self._owned = owned

    async def identify(self, credential: str | None) -> Principal:
        """Return the one caller there is, whatever came with the request."""
        return Principal()

    async def count(self, principal: Principal) -> None:
        """Let every request pass."""

    @asynccontextmanager
    async def ingesting(self, principal: Principal) -> AsyncIterator[None]:
        """Let every ingest pass."""
        yield

    @asynccontextmanager
    async def forest(self, principal: Principal) -> AsyncIterator[AsyncMemForest]:
        """Give the one forest."""
        yield self._forest

    def directory(self, principal: Principal) -> Path:
        """Return the forest's directory."""
        return self._forest.directory

    @property
    def open_files(self) -> int:
        """Files that the open memories hold."""
        return self._forest._pool.open_files

    @property
    def cached_bytes(self) -> int:
        """Bytes of cached snapshots, about."""
        return self._forest._pool.cached_bytes

    async def close(self) -> None:
        """Close the forest, if it is this one's own."""
        if self._owned:
            await self._forest.close()
