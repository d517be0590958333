"""Runs the calls of one step side by side; when one may not go on, none does."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

__all__ = ["together"]

T = TypeVar("T")


async def together(jobs: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results of all jobs, in order.

    How many calls are under way at once is up to `Calls`. If a job raises, or the caller is cancelled, the other jobs
    are cancelled and have ended when this does.

    Raises:
        ModelError: the first that a job raises.
    """
    tasks = [asyncio.ensure_future(job) for job in jobs]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        left = [task for task in tasks if not task.done()]
        for task in left:
            task.cancel()
        # The others may have failed for the same reason; their errors are looked at so that none is reported lost.
        await asyncio.gather(*tasks, return_exceptions=True)
