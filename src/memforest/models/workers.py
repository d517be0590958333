"""Worker threads for model runs: they keep the event loop free, and share the cores fairly between calls.

A call has at most one small group of items per worker in flight, so a query does not wait behind a whole ingest.
Cancelling a call stops it after the groups in flight. A forked child starts with threads and a lock of its own.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from memforest.errors import ConfigError

T = TypeVar("T")
R = TypeVar("R")

_GROUP = 4
"""Most items per hand-over to a worker: a few tens of ms, so that waiting and cancelling stay short."""


class Workers:
    """A few threads, started when first used.

    Args:
        count: threads at once, at least 1; the default is 2, or 1 on a single core.
        name: prefix of the threads' names.

    Raises:
        ConfigError: if the count is below 1.
    """

    def __init__(self, count: int | None, name: str) -> None:
        self.count = min(2, os.cpu_count() or 1) if count is None else count
        if self.count < 1:
            raise ConfigError(f"workers must be at least 1, got {count!r}")
        self._name = name
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        _alive.add(self)

    async def run(
        self, work: Callable[[Sequence[T]], R], items: Sequence[T], done: Callable[[R], object]
    ) -> None:
        """Run all items, a lane per worker, all lanes taking groups from one queue.

        Args:
            work: runs a group in a thread.
            items: in the order in which they are begun.
            done: gets the result of each group, on the event loop.
        """
        queue = iter(items)
        # A question and its variant run side by side, not one behind the other in one group.
        size = min(_GROUP, -(-len(items) // self.count))
        lanes = [asyncio.ensure_future(self._drain(work, queue, size, done)) for _ in range(self.count)]
        try:
            await asyncio.gather(*lanes)
        finally:
            # After a failure the other lanes must not go on behind the caller's back.
            for lane in lanes:
                lane.cancel()

    async def _drain(
        self, work: Callable[[Sequence[T]], R], queue: Iterator[T], size: int, done: Callable[[R], object]
    ) -> None:
        while group := list(islice(queue, size)):
            done(await asyncio.wrap_future(self._submit(work, group)))

    def _submit(self, work: Callable[[Sequence[T]], R], group: Sequence[T]) -> Future[R]:
        # Under the lock, so that close() cannot shut the threads down in between.
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.count, thread_name_prefix=self._name)
            return self._threads.submit(work, group)

    def close(self) -> None:
        """Give the threads back when what they do is done; a later `run` starts them again."""
        with self._lock:
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False)

    def _after_fork_in_child(self) -> None:
        # Threads do not cross a fork, and the lock may be held by one that is gone.
        self._lock = threading.Lock()
        self._threads = None


_alive: weakref.WeakSet[Workers] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for workers in list(_alive):
        workers._after_fork_in_child()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_after_fork_in_child)
