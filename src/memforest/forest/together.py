"""Several directories of memories under one configuration, bounds and models: those of a server's tenants.

Each is a forest of its own, which knows nothing of the others. What they share cannot be asked for anybody's words: how
many files are open, how much is cached, and the connections to the configured models.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from memforest.config import Config
from memforest.default_config import load_default_config
from memforest.forest.bounds import Bounds, close_all
from memforest.forest.forest import AsyncMemForest
from memforest.forest.pool import MemoryPool
from memforest.steps.choose import choose_steps


class Together:
    """Makes forests that stay within the bounds of one configuration together.

    Args:
        config: of all of them; None is `load_default_config()`.

    Raises:
        ConfigError: if it names no model that there is.
    """

    def __init__(self, config: Config | None = None) -> None:
        self.config = config or load_default_config()
        self._steps = choose_steps(self.config)
        self._bounds = Bounds(self.config)

    def forest(self, directory: Path) -> AsyncMemForest:
        """Return a forest of a directory; there should be one of each."""

        def pool() -> MemoryPool:
            return MemoryPool(directory, self.config, bounds=self._bounds, steps=self._steps)

        return _Member(directory, self.config, pool)

    def opened(self, forest: AsyncMemForest) -> bool:
        """Return whether a forest of this has memories open; closing one without takes nothing from anybody."""
        return bool(forest._pool.opened)

    async def trim(self) -> None:
        """Close what is idle beyond the bounds now, instead of at the next use of a memory."""
        await close_all(self._bounds.beyond())

    @property
    def open_files(self) -> int:
        """Files that the open memories of all forests hold, their logs included."""
        with self._bounds.lock:
            return sum(pool.count_files() for pool in self._bounds.pools)

    @property
    def cached_bytes(self) -> int:
        """Bytes of the snapshots that the open memories of all forests keep, about."""
        with self._bounds.lock:
            return sum(pool.count_bytes() for pool in self._bounds.pools)

    async def close(self) -> None:
        """Close the connections to the configured models; the forests are closed before, by who has them."""
        await self._steps.close()


class _Member(AsyncMemForest):
    """A forest whose pool shares bounds and models with others."""

    def __init__(self, directory: Path, config: Config, pool: Callable[[], MemoryPool]) -> None:
        self._make_pool = pool
        super().__init__(directory, config)

    def _new_pool(self) -> MemoryPool:
        return self._make_pool()
