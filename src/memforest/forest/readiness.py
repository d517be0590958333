"""Whether a forest can serve: a memory opens, and a word gets its vector."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from memforest.errors import StoreError, StoreWriteError
from memforest.forest.forest import AsyncMemForest
from memforest.keys import Key
from memforest.memory.directory import is_own_name, owner_of
from memforest.memory.open import embedder_of
from memforest.models.base import Embedder

__all__ = ["Readiness"]

WORD = "ready"


class Readiness:
    """Tries what every request needs; keeps the embedder that it tries with."""

    def __init__(self) -> None:
        self._embedder: Embedder | None = None
        self._made = False

    async def check(self, forest: AsyncMemForest) -> None:
        """Open one of the forest's memories, or see that one can be made, and embed one word. Nothing is written.

        Raises:
            StoreError: if the directory or the memory cannot be used.
            ModelError: if the embedder cannot be used.
        """
        user_id = await asyncio.to_thread(_somebody, forest.directory, Key.of(forest.config.key))
        if user_id is not None:
            await forest.load(user_id)
        if not self._made:
            self._embedder, self._made = await asyncio.to_thread(embedder_of, forest.config), True
        if self._embedder is not None:
            await self._embedder.embed([WORD])


def _somebody(directory: Path, key: Key | None) -> str | None:
    """Return the user of some memory of a directory, or None when there is none and one can be made."""
    try:
        with os.scandir(directory) as entries:
            names = (entry.name for entry in entries)
            found = next((name for name in names if is_own_name(name)), None)
    except FileNotFoundError:
        found = None
    except OSError as exc:
        raise StoreError(f"the directory of the memories cannot be listed: {exc.strerror}") from exc
    if found is not None:
        return owner_of(directory / found, key)
    there = next(one for one in (directory, *directory.parents) if one.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        raise StoreWriteError("the directory of the memories cannot be written")
    return None
