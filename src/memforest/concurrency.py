"""Awaiting several jobs at once, so that none goes on behind the caller's back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar
from weakref import WeakSet

__all__ = ["Ended", "all_of", "in_thread", "members"]

T = TypeVar("T")


class Ended(Exception):
    """Work in a thread ends because its caller was cancelled; nobody gets to see it."""


async def all_of(jobs: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results of all jobs, in order.

    When one raises, or the caller is cancelled, the others are cancelled and waited for first.
    """
    tasks = [asyncio.ensure_future(job) for job in jobs]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def in_thread(work: Callable[[Callable[[], None]], T]) -> T:
    """Run long blocking work in a worker thread, and end it when the caller is cancelled.

    Args:
        work: calls what it is given from time to time, which raises when it is to end.

    Raises:
        asyncio.CancelledError: when the caller was cancelled and the work has ended.
    """
    ended = threading.Event()

    def check() -> None:
        if ended.is_set():
            raise Ended

    job = asyncio.ensure_future(asyncio.to_thread(work, check))
    try:
        return await asyncio.shield(job)
    except asyncio.CancelledError:
        ended.set()
        await asyncio.wait([job])
        job.exception()  # it is the caller's end that counts
        raise


def members(found: WeakSet[T]) -> list[T]:
    """Return what is in a set to which another thread may be adding; without a lock, which a forked child could not open."""
    while True:
        try:
            return list(found)
        except RuntimeError:  # it has grown meanwhile
            continue
