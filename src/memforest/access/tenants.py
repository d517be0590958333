"""Tenants: each has a directory of its own below the server's, opened at need and closed when idle.

The name of the directory is made of a hash of the tenant's exact name, as the file of a user is, so no name becomes a path,
and two tenants have two directories on any file system. The bounds of the configuration hold over all tenants together: a
memory that was used longest ago is closed first, whosever it is, and a tenant of whom nothing is open is let go.
"""

from __future__ import annotations

import asyncio
import re
import threading
import unicodedata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from memforest.config import Config
from memforest.forest.forest import AsyncMemForest
from memforest.forest.together import Together
from memforest.memory.directory import make_directory

TENANTS = "tenants"
"""The directory of tenants below a server's."""
SLUG_CHARS = 24
DIGEST_BYTES = 20
"""More than of a user's file, whose contents say whose it is: a directory has only its name."""

_UNSAFE = re.compile(r"[^a-z0-9]+")


def directory_of(server: Path, tenant: str | None) -> Path:
    """Return where the memories of a tenant are; of None, who is nobody's tenant, in the server's directory itself.

    Example:
        >>> directory_of(Path("d"), "../../etc").parent.as_posix(), directory_of(Path("d"), None).as_posix()
        ('d/tenants', 'd')
    """
    if tenant is None:
        return server
    plain = unicodedata.normalize("NFKD", tenant).encode("ascii", "ignore").decode().lower()
    slug = _UNSAFE.sub("-", plain).strip("-")[:SLUG_CHARS].strip("-") or "tenant"
    return server / TENANTS / f"{slug}-{blake2b(tenant.encode(), digest_size=DIGEST_BYTES).hexdigest()}"


@dataclass(slots=True)
class _Open:
    forest: AsyncMemForest
    users: int = 0


class Tenants:
    """Lends the memories of tenants.

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
        self._open: dict[str | None, _Open] = {}
        self._made = False

    @property
    def config(self) -> Config:
        """The configuration of all of them."""
        return self._together.config

    @property
    def opened(self) -> int:
        """How many tenants are open."""
        with self._lock:
            return len(self._open)

    @property
    def open_files(self) -> int:
        """Files that the open memories of all tenants hold."""
        return self._together.open_files

    @property
    def cached_bytes(self) -> int:
        """Bytes of cached snapshots of all tenants, about."""
        return self._together.cached_bytes

    def directory(self, tenant: str | None) -> Path:
        """Return where the memories of a tenant are."""
        return directory_of(self._directory, tenant)

    @asynccontextmanager
    async def forest(self, tenant: str | None) -> AsyncIterator[AsyncMemForest]:
        """Give the memories of a tenant, which are not closed while the block lasts.

        Raises:
            StoreWriteError: if the directory of tenants cannot be made.
        """
        if tenant is not None and not self._made:
            await asyncio.to_thread(self._make)
        with self._lock:
            entry = self._open.get(tenant)
            if entry is None:
                entry = _Open(self._together.forest(self.directory(tenant)))
                self._open[tenant] = entry
            entry.users += 1
        try:
            yield entry.forest
        finally:
            with self._lock:
                entry.users -= 1
            await self._let_go()

    async def close(self) -> None:
        """Close everything; what is under way ends with a `StoreClosedError`."""
        with self._lock:
            closing = [entry.forest for entry in self._open.values()]
            self._open.clear()
        for forest in closing:
            await forest.close()
        await self._together.close()

    async def _let_go(self) -> None:
        """Close what is idle beyond the bounds, and forget the tenants of whom nothing is open."""
        await self._together.trim()
        with self._lock:
            empty = [
                tenant
                for tenant, entry in self._open.items()
                if not entry.users and not self._together.opened(entry.forest)
            ]
            forests = [self._open.pop(tenant).forest for tenant in empty]
        for forest in forests:
            await forest.close()

    def _make(self) -> None:
        make_directory(self._directory)
        make_directory(self._directory / TENANTS)
        self._made = True
