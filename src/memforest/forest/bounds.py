"""The bounds over the open memories of one pool, or of several that share them.

Two bounds hold over all of them: open files (`Config.max_open_files`) and bytes of cached snapshots
(`Config.max_cache_mb`). The memory used longest ago goes first, whichever pool it is in. One in use is never touched, so
callers at work may exceed both for as long as they work.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import weakref
from collections.abc import Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from memforest.config import Config
from memforest.memory.memory import Memory

if TYPE_CHECKING:
    from memforest.forest.pool import MemoryPool


class Bounds:
    """How much the memories of some pools may keep open between calls.

    Args:
        config: with the bounds.
    """

    def __init__(self, config: Config) -> None:
        self.lock = threading.Lock()
        """Held while any of the pools is looked at or changed."""
        self.pools: weakref.WeakSet[MemoryPool] = weakref.WeakSet()
        self._most_files = config.max_open_files
        self._most_bytes = config.max_cache_mb * 1_000_000
        self._uses = itertools.count()
        self._used: weakref.WeakKeyDictionary[Memory, int] = weakref.WeakKeyDictionary()

    def touch(self, memory: Memory) -> None:
        """Record that a memory is used now; called under the lock."""
        self._used[memory] = next(self._uses)

    def beyond(self) -> list[Memory]:
        """Take idle memories beyond the bounds out of their pools, least recently used first; return those to be closed."""
        with self.lock:
            pools = list(self.pools)
            surplus = sum(pool.count_bytes() for pool in pools) - self._most_bytes
            too_many = sum(pool.count_files() for pool in pools) - self._most_files
            if surplus <= 0 and too_many <= 0:
                return []
            idle = [(self._used[one], pool, user, one) for pool in pools for user, one in pool.idle()]
            idle.sort(key=lambda each: each[0])
            for _, _, _, memory in idle:
                if surplus <= 0:
                    break
                surplus -= memory.drop_cache()
            closing = []
            for _, pool, user, memory in idle:
                if too_many <= 0:
                    break
                too_many -= memory.open_files
                closing.append(pool.give_up(user))
            return closing


async def close_all(memories: Iterable[Memory]) -> None:
    """Close memories that were taken out of their pools; all of them, also if the caller is cancelled meanwhile."""
    if closing := list(memories):
        await asyncio.to_thread(_close, closing)


def _close(memories: Iterable[Memory]) -> None:
    with ExitStack() as stack:
        for memory in memories:
            stack.callback(memory.close)
