"""Several forests under one configuration, those of a server's tenants, and whether a forest can serve.

Each forest knows nothing of the others. What they share cannot be asked for anybody's words: how many files are open, how much is
cached, and the connections to the configured models.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from memforest.config import Config, load_default_config
from memforest.errors import NotFoundError, StoreError, StoreWriteError
from memforest.memory.forest import AsyncMemForest
from memforest.memory.open import embedder_of
from memforest.memory.pool import Bounds, MemoryPool, close_all
from memforest.ports import Embedder
from memforest.protection import Key
from memforest.reading.steps import choose_steps
from memforest.store.directory import is_own_name, owner_of


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
        return sum(one.open_files for one in self._bounds.opened())

    @property
    def cached_bytes(self) -> int:
        """Bytes of the snapshots that the open memories of all forests keep, about."""
        return sum(one.cached_bytes for one in self._bounds.opened())

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


WORD = "ready"
MOST_TRIED = 3
"""Memories that are tried: one that is damaged does not take the server from all others."""


class Readiness:
    """Tries what every request needs; keeps the embedder that it tries with."""

    def __init__(self) -> None:
        self._embedder: Embedder | None = None
        self._made = False

    async def check(self, forest: AsyncMemForest) -> None:
        """Open one of some of the forest's memories, or see that one can be made, and embed one word. Nothing is written.

        Raises:
            StoreError: if the directory or the memory cannot be used.
            ModelError: if the embedder cannot be used.
        """
        names = await asyncio.to_thread(_some, forest.directory)
        for tried, name in enumerate(names, 1):
            try:
                await forest.load(
                    await asyncio.to_thread(owner_of, forest.directory / name, Key.of(forest.config.key))
                )
                break
            except (StoreError, NotFoundError):  # it is damaged, in use elsewhere, or was deleted meanwhile
                if tried == len(names):
                    raise
        if not self._made:
            self._embedder, self._made = await asyncio.to_thread(embedder_of, forest.config), True
        if self._embedder is not None:
            await self._embedder.embed([WORD])


def _some(directory: Path) -> list[str]:
    """Return the files of some memories of a directory; none when there is none and one can be made.

    Raises:
        StoreError: if the directory cannot be listed, or holds no memory and none can be made.
    """
    try:
        with os.scandir(directory) as entries:
            found = list(islice((entry.name for entry in entries if is_own_name(entry.name)), MOST_TRIED))
    except FileNotFoundError:
        found = []
    except OSError as exc:
        raise StoreError(f"the directory of the memories cannot be listed: {exc.strerror}") from exc
    if not found:
        there = next(one for one in (directory, *directory.parents) if one.exists())
        if not os.access(there, os.W_OK | os.X_OK):
            raise StoreWriteError("the directory of the memories cannot be written")
    return found
