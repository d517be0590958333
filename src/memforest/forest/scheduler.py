"""Advancing the open memories of a forest from time to time, so that windows close when nothing is written. Off by default.

It is a task on the event loop of the call that began it, and ends with it; the next call on another loop begins it there. It
does what a write would do behind it: what is due, and nothing that has failed and waits for somebody.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from memforest.endpoint import Budget
from memforest.errors import MemForestError
from memforest.memory.behind import Behind
from memforest.store.savepoint import attempted, named
from memforest.text import cut

_log = logging.getLogger(__name__)


class Scheduler:
    """Looks at the open memories again and again, until it is stopped.

    Args:
        every_s: seconds between the end of one look and the next; 0 for none at all.
        opened: names the users whose memories are open.
        advance: advances what one of them has, if it is still open.
    """

    def __init__(
        self, every_s: float, opened: Callable[[], list[str]], advance: Callable[[str], Awaitable[object]]
    ) -> None:
        self._every_s = every_s
        self._opened = opened
        self._advance = advance
        self._task = Behind(self._run)

    def begin(self) -> None:
        """Begin, on the event loop of the caller, unless it is under way or switched off."""
        if self._every_s and not self._task.at_work:
            self._task.begin(Budget())

    async def stop(self) -> None:
        """End what is under way, wherever it runs; it may be begun again."""
        await self._task.stop()

    async def _run(self, _budget: Budget) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            for user_id in self._opened():
                await self._look(user_id)

    async def _look(self, user_id: str) -> None:
        """Advance one memory; whatever goes wrong there ends nothing."""
        try:
            error: Exception | None = await attempted(self._advance(user_id))
        except MemForestError as exc:
            error = exc
        if error is not None:
            why = error if isinstance(error, MemForestError) else named(error)
            _log.warning("the memory of %s was not advanced: %s", cut(repr(user_id), 60), why)
