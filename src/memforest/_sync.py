"""The bridge from blocking code to the async implementation: one background event loop per process.

It is started at the first call, made again in a forked child, works inside a running loop (the caller's
thread blocks, its loop is not touched), and is stopped at interpreter exit within `STOP_TIMEOUT_S`. Ctrl-C
in the waiting thread cancels the task and waits for it to wind up.

"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import importlib
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, wait
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from memforest import spans

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")

STOP_TIMEOUT_S = 5.0
"""How long exit, or Ctrl-C, waits for cancelled tasks."""


class _Portal:
    """A daemon thread that runs an event loop."""

    def __init__(self) -> None:
        # These are imported when they are first needed, as by `numpy.unique`. A process that another thread forks
        # meanwhile would have a child in which that module is locked for ever.
        for name in ("numpy.ma", "pydantic.dataclasses", "pydantic._internal._serializers", "memforest.data", "snowballstemmer"):  # fmt: skip
            importlib.import_module(name)
        spans.prepare()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._serve, name="memforest-portal", daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        """Run the loop until it is stopped.

        What a task raises to end the process comes out of the loop as well. The task keeps it for its caller, and the
        calls of other threads go on.
        """
        asyncio.set_event_loop(self.loop)
        while True:
            try:
                self.loop.run_forever()
            except (SystemExit, KeyboardInterrupt):
                continue
            return

    def stop(self) -> None:
        """Cancel every task, then stop the loop; bounded in time."""
        if self.loop.is_closed() or not self.thread.is_alive():
            return
        asyncio.run_coroutine_threadsafe(_wind_up(), self.loop)
        self.thread.join(STOP_TIMEOUT_S)
        if not self.thread.is_alive():
            self.loop.close()


async def _wind_up() -> None:
    """Cancel what runs on this loop, give it time to end, and stop the loop."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=STOP_TIMEOUT_S / 2)
    loop = asyncio.get_running_loop()
    with contextlib.suppress(asyncio.TimeoutError):
        # Connections to models live as long as the loop, see `memforest.models.openai_client`.
        await asyncio.wait_for(loop.shutdown_asyncgens(), STOP_TIMEOUT_S / 4)
    loop.call_soon(loop.stop)


_lock = threading.Lock()
_portal: _Portal | None = None


def _forget() -> None:
    """Start anew in a forked child: the parent's thread does not exist there."""
    global _portal, _lock
    _portal, _lock = None, threading.Lock()


def _stop() -> None:
    if _portal is not None:
        _portal.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
atexit.register(_stop)


def run(coroutine: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine to its end on the portal's loop and return its result.

    Raises:
        RuntimeError: if called on the portal's own loop, where waiting would wait for ever.
        KeyboardInterrupt: on Ctrl-C, after the task was cancelled.
    """
    global _portal
    with _lock:
        if _portal is None or not _portal.thread.is_alive():
            _portal = _Portal()
        portal = _portal
    if threading.current_thread() is portal.thread:
        coroutine.close()
        raise RuntimeError(
            "a blocking memforest call was made inside memforest's own loop; use the async classes"
        )
    future: Future[R] = Future()
    task: list[asyncio.Task[R]] = []

    def begin() -> None:
        task.append(portal.loop.create_task(coroutine))
        task[0].add_done_callback(settle)

    def settle(done: asyncio.Task[R]) -> None:
        if done.cancelled():
            future.set_exception(CancelledError("memforest was stopped while this call was running"))
        elif (error := done.exception()) is not None:
            future.set_exception(error)
        else:
            future.set_result(done.result())

    portal.loop.call_soon_threadsafe(begin)
    try:
        return future.result()
    except KeyboardInterrupt:
        # Not future.cancel(): that would end the wait below before the task has rolled back what it has open.
        portal.loop.call_soon_threadsafe(lambda: task[0].cancel())
        wait([future], STOP_TIMEOUT_S)
        raise


def blocking(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], R]:
    """Make the blocking twin of an async method: same arguments, same docstring, one implementation."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return run(method(self._async, *args, **kwargs))

    return call
