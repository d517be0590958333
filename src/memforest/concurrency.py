"""Awaiting several jobs at once, and worker threads of which no memory and no tenant takes those of the others."""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, ParamSpec, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from memforest.errors import StoreLockedError

P = ParamSpec("P")
T = TypeVar("T")

CORES = os.cpu_count() or 1
READS_OF_ONE = max(2, CORES)
"""Most threads that read one memory: more would wait for each other."""
READS = min(32, CORES + 4)
"""Most that read the memories of one directory."""
WRITES_OF_ONE = 2
"""Most that write to one memory: SQLite lets one of them write, and the next one waits for it."""
WRITES = 8
MOST_THREADS = max(64, 4 * READS)


class Ended(Exception):
    """Work in a thread ends because its caller was cancelled; nobody gets to see it."""


class PerLoop(Generic[T]):
    """One of something for each event loop, as those who wait for it belong to a loop.

    Args:
        make: makes it at the first use in a loop.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: WeakKeyDictionary[asyncio.AbstractEventLoop, T] = WeakKeyDictionary()

    def get(self) -> T:
        """Return that of the loop that runs."""
        loop = asyncio.get_running_loop()
        if (found := self._made.get(loop)) is None:
            found = self._made[loop] = self._make()
        return found


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


@dataclass(slots=True)
class _Waiting:
    loop: asyncio.AbstractEventLoop
    granted: Future[None]
    since: float = field(default_factory=time.monotonic)


class Turns:
    """Lets so many tasks of several event loops go on at once; the others wait, without a thread, in the order they came in.

    Args:
        most: at once.
        patience_s: how long one waits for another process's lock. When one that goes on meets such a lock for so long, those
            who have waited behind it for half of that get the same error: each of them would meet it anew.
    """

    def __init__(self, most: int = 1, patience_s: float = math.inf) -> None:
        self._lock = threading.Lock()
        self._free = most
        self._patience_s = patience_s
        self._waiting: deque[_Waiting] = deque()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[bool]:
        """Wait for a turn, and have it inside the block; yield whether it was waited for."""
        waited = await self.take()
        try:
            yield waited
        except StoreLockedError as exc:
            self._refuse(exc)
            raise
        finally:
            self.give_back()

    async def take(self) -> bool:
        """Wait for a turn, which is given back later; return whether it was waited for.

        Raises:
            StoreLockedError: if those before met the lock of another process.
        """
        with self._lock:
            if self._free:
                self._free -= 1
                return False
            mine = _Waiting(asyncio.get_running_loop(), Future())
            mine.granted.set_running_or_notify_cancel()  # no waiter cancels it for `give_back`
            self._waiting.append(mine)
        try:
            await asyncio.wrap_future(mine.granted)
        except asyncio.CancelledError:
            with self._lock:
                is_mine = mine.granted.done() and mine.granted.exception() is None
                if not is_mine and mine in self._waiting:
                    self._waiting.remove(mine)
            if is_mine:
                self.give_back()
            raise
        return True

    def give_back(self, done: Future[Any] | None = None) -> None:
        """Let the next one go on, and tell those who wait of the lock that the work of this turn has met."""
        error = None if done is None or done.cancelled() else done.exception()
        if isinstance(error, StoreLockedError):
            self._refuse(error)
        with self._lock:
            while self._waiting:
                after = self._waiting.popleft()
                if not after.loop.is_closed():  # else nobody waits there any more
                    after.granted.set_result(None)
                    return
            self._free += 1

    def _refuse(self, error: StoreLockedError) -> None:
        before = time.monotonic() - self._patience_s / 2
        with self._lock:
            while self._waiting and self._waiting[0].since <= before:
                self._waiting.popleft().granted.set_exception(StoreLockedError(str(error)))


Lanes = tuple[tuple[Turns, Turns], tuple[Turns, Turns]]
"""What reads of a memory, and what writes wait for before they have a thread: a turn of the memory, then one of its directory."""

_lanes: ContextVar[Lanes | None] = ContextVar("memforest.lanes", default=None)
_reads: ContextVar[bool] = ContextVar("memforest.reads", default=False)


@contextmanager
def having(variable: ContextVar[Any], value: T) -> Iterator[T]:
    """Set a context variable for the block, and for what is begun there."""
    before = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(before)


within = partial(having, _lanes)
"""Let what is awaited in the block, and begun there, have threads by the lanes of a memory."""
reading = partial(having, _reads, True)
"""Let it wait for nobody who writes: it only reads."""
writing = partial(having, _reads, False)
"""Let it wait with those who write, within a block of `reading`."""

_threads: ThreadPoolExecutor | None = None


class Forked(Protocol):
    """What holds locks, threads or connections that a forked child cannot use."""

    def after_fork_in_child(self) -> None:
        """Begin anew."""


_forked: WeakSet[Forked] = WeakSet()
_first_in_child: list[Callable[[], None]] = []


def first_in_child(call: Callable[[], None]) -> None:
    """Have a function called in every forked child before anything begins anew, and so drops what it held."""
    _first_in_child.append(call)


def begins_anew_in_child(one: Forked) -> None:
    """Have an object begin anew in every child that is forked while it lives."""
    _forked.add(one)


def _after_fork_in_child() -> None:
    global _threads
    _threads = None
    for call in _first_in_child:
        call()
    for one in members(_forked):
        one.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


async def to_thread(call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call in a worker thread, as `asyncio.to_thread`, when it is the turn of the memory that this is about.

    A thread that waits for a lock keeps its turn also when its caller is cancelled: it waits on.
    """
    global _threads
    lanes = _lanes.get()
    if lanes is None:
        return await asyncio.to_thread(call, *args, **kwargs)
    reads, writes = lanes
    taken: list[Turns] = []
    try:
        for one in reads if _reads.get() else writes:
            await one.take()
            taken.append(one)
        if _threads is None:
            _threads = ThreadPoolExecutor(MOST_THREADS, "memforest")
        job = _threads.submit(copy_context().run, partial(call, *args, **kwargs))
    except BaseException:
        for one in taken:
            one.give_back()
        raise
    for one in taken:
        job.add_done_callback(one.give_back)
    return await asyncio.wrap_future(job)


def _own_thread(call: Callable[[], T]) -> Future[T]:
    """Call in a thread of its own, and return what comes of it."""
    made: Future[T] = Future()
    context = copy_context()

    def run() -> None:
        made.set_running_or_notify_cancel()
        try:
            made.set_result(context.run(call))
        except BaseException as exc:  # noqa: BLE001 - whoever waits for the future gets it
            made.set_exception(exc)

    threading.Thread(target=run, name="memforest-own").start()
    return made


async def in_thread(work: Callable[[Callable[[], None]], T]) -> T:
    """Run long blocking work in a thread of its own, and end it when the caller is cancelled.

    Args:
        work: calls what it is given from time to time, which raises when it is to end.

    Raises:
        asyncio.CancelledError: when the caller was cancelled and the work has ended.
    """
    ended = threading.Event()

    def check() -> None:
        if ended.is_set():
            raise Ended

    job = asyncio.wrap_future(_own_thread(partial(work, check)))
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
