"""Background work of one memory: one task at a time, over all event loops.

The task belongs to the event loop of the write that began it, and ends with it. Nothing is lost then: what is left to do
stands in the file as dirty marks, and the next refresh goes on from there.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial

from memforest.endpoint import Budget
from memforest.store.savepoint import named

LOOK_AGAIN_S = 1.0
QUIET_S = 0.1
"""Seconds without a write after which what is left is made behind it: sessions that come one after the other touch the
same trees, whose summaries are then made once."""
MOST_WAIT_S = 30.0
"""Longest that writes which do not end hold that up."""

_log = logging.getLogger(__name__)


def _promise() -> Future[None]:
    """Return a future that no waiter can cancel for the others."""
    made: Future[None] = Future()
    made.set_running_or_notify_cancel()
    return made


async def _until(ended: Future[None]) -> None:
    """Wait until a task ends, at most `LOOK_AGAIN_S`: a task whose loop was closed never ends."""
    await asyncio.wait({asyncio.ensure_future(asyncio.wrap_future(ended))}, timeout=LOOK_AGAIN_S)


class Writes:
    """The writes that are under way: what they leave out of date is not made while they go on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writing = 0
        self._hurried = 0
        self._quiet_since = 0.0

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Say that a write is under way."""
        with self._lock:
            self._writing += 1
        try:
            yield
        finally:
            with self._lock:
                self._writing -= 1
                self._quiet_since = time.monotonic()

    @contextmanager
    def hurried(self) -> Iterator[None]:
        """Say that somebody waits for what is made behind the writes."""
        with self._lock:
            self._hurried += 1
        try:
            yield
        finally:
            with self._lock:
                self._hurried -= 1

    async def wait_until_quiet(self) -> None:
        """Wait until no write has been under way for `QUIET_S`, for `MOST_WAIT_S` at most, or until somebody waits."""
        deadline = time.monotonic() + MOST_WAIT_S
        while not self._hurried and (now := time.monotonic()) < deadline:
            if not self._writing and now - self._quiet_since >= QUIET_S:
                return
            await asyncio.sleep(QUIET_S)


class Behind:
    """Runs a job in the background when there is something to do; several requests are one run.

    Args:
        job: is given what may be spent: all that was allowed since the run before.
    """

    def __init__(self, job: Callable[[Budget], Awaitable[object]]) -> None:
        self._job = job
        self._lock = threading.Lock()
        self._waiting: Budget | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = _promise()
        self._run_ended = _promise()
        self._run_ended.set_result(None)
        self._error: BaseException | None = None

    @property
    def at_work(self) -> bool:
        """Whether a run is under way."""
        with self._lock:
            return self._runs()

    def _runs(self) -> bool:
        return self._task is not None and self._loop is not None and not self._loop.is_closed()

    def begin(self, budget: Budget) -> None:
        """Start the job on this event loop; if it is running, let it run once more when it has ended."""
        with self._lock:
            self._waiting = budget if self._waiting is None else self._waiting.plus(budget)
            if not self._runs():
                self._loop, self._ended = asyncio.get_running_loop(), _promise()
                self._task = self._loop.create_task(self._run())
                self._task.add_done_callback(partial(self._note_end, self._ended))

    async def _run(self) -> None:
        while (budget := self._next()) is not None:
            try:
                await self._job(budget)
            finally:
                self._run_ended.set_result(None)

    def _next(self) -> Budget | None:
        """Return what the next run may spend; None ends the task."""
        with self._lock:
            budget, self._waiting = self._waiting, None
            if budget is None:
                self._task = None
            else:
                self._run_ended = _promise()
            return budget

    def _note_end(self, ended: Future[None], task: asyncio.Task[None]) -> None:
        """Record how a task ended, and wake those who wait for it."""
        with self._lock:
            if self._task is task:
                self._task, self._waiting = None, None
            if not task.cancelled() and (error := task.exception()) is not None:
                self._error = error
                _log.error("work behind a write failed: %s", named(error))
        ended.set_result(None)

    async def present(self) -> None:
        """Wait until the run that is under way has ended, however it ends; not for those that follow."""
        with self._lock:
            run = self._run_ended
        while self.at_work and not run.done():
            await _until(run)

    async def wait(self) -> bool:
        """Wait until nothing is under way; return whether something was.

        Raises:
            Exception: what ended the task, if that was no error that the job deals with.
        """
        waited = False
        while self.at_work:
            waited = True
            await _until(self._ended)
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return waited

    async def stop(self) -> None:
        """Cancel the task and wait until it has ended."""
        with self._lock:
            task, loop, ended = self._task, self._loop, self._ended
            runs = self._runs()
        if runs and task is not None and loop is not None:
            with suppress(RuntimeError):  # the loop was closed just now
                loop.call_soon_threadsafe(task.cancel)
            while self.at_work and not ended.done():
                await _until(ended)
