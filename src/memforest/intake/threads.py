"""Work in a thread that is waited for also when the one who asked for it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def to_its_end(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call in a thread, as `asyncio.to_thread`, and return no sooner than the thread has ended.

    A thread cannot be cancelled. Without this a write whose task was cancelled lands later, over what was written
    in between: a job that was parked would be stored as running again.

    Raises:
        CancelledError: after the thread's end, when the task was cancelled meanwhile.
    """
    work = asyncio.ensure_future(asyncio.to_thread(call, *args, **kwargs))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        work.exception()  # whoever asked is gone
        raise
