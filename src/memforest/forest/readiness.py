"""Whether a forest can serve: a memory opens, and a word gets its vector."""

from __future__ import annotations

import asyncio
import os
from itertools import islice
from pathlib import Path

from memforest.errors import NotFoundError, StoreError, StoreWriteError
from memforest.forest.forest import AsyncMemForest
from memforest.keys import Key
from memforest.memory.directory import is_own_name, owner_of
from memforest.memory.open import embedder_of
from memforest.models.base import Embedder

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
