"""The memories of one directory: opened at first use, kept while in use, within bounds when idle.

Two bounds hold over all of them, and over those of further pools that share them (`memforest.memory.pool`).


The bounds over the open memories of one pool, or of several that share them.

Two bounds hold over all of them: open files (`Config.max_open_files`) and bytes of cached snapshots
(`Config.max_cache_mb`). The memory used longest ago goes first, whichever pool it is in. One in use is never touched, so
callers at work may exceed both for as long as they work.


Advancing the open memories of a forest from time to time, so that windows close when nothing is written. Off by default.

It is a task on the event loop of the call that began it, and ends with it; the next call on another loop begins it there. It
does what a write would do behind it: what is due, and nothing that has failed and waits for somebody.

"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import shutil
import sys
import tempfile
import threading
import weakref
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import TypeVar

from memforest.concurrency import Lanes, Turns, to_thread, within
from memforest.config import Config
from memforest.endpoint import Budget
from memforest.errors import (
    EmbedderMismatchError,
    MemForestError,
    NotFoundError,
    StoreError,
    StoreReplacedError,
)
from memforest.memory.memory import Memory
from memforest.memory.open import label_of, open_memory
from memforest.protection import Key
from memforest.read.receipts import DeleteReceipt
from memforest.read.summaries import Behind
from memforest.reading.steps import Steps, choose_steps
from memforest.store.connections import attempted, named
from memforest.store.directory import file_name, has_memory
from memforest.store.files import salt_file
from memforest.store.upkeep import discard_unwritten
from memforest.text import cut
from memforest.write.delete import remove_memory
from memforest.write.turns import check_id


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


T = TypeVar("T")


def no_memory(user_id: str) -> NotFoundError:
    """Return the error of a user without a memory; also a server's for one that the caller may not know of."""
    return NotFoundError(
        f"user {cut(repr(user_id), 60)} has no memory yet; ingest a session or register_user() first"
    )


class MemoryPool:
    """Opens and keeps memories by user id.

    Args:
        directory: where their files are.
        config: see `Config`.
        bounds: shared with other pools; None for bounds of its own.
        steps: shared with other pools, and closed by whoever made them; None for those of the configuration.
    """

    def __init__(
        self, directory: Path, config: Config, *, bounds: Bounds | None = None, steps: Steps | None = None
    ) -> None:
        self.directory = directory
        self.config = config
        self._own_steps = steps is None
        self._steps = choose_steps(config) if steps is None else steps
        self._bounds = bounds or Bounds(config)
        self._open: OrderedDict[str, Memory] = OrderedDict()
        self._busy: dict[str, int] = {}
        self._opening: weakref.WeakValueDictionary[str, Turns] = weakref.WeakValueDictionary()
        self._lanes: weakref.WeakValueDictionary[str, Lanes] = weakref.WeakValueDictionary()
        self._shared = Lanes.of_directory()
        self._scheduler = self._new_scheduler()
        self._nobody: tuple[MemoryPool, weakref.finalize[..., MemoryPool]] | None = None
        with self._lock:
            self._bounds.pools.add(self)
        _alive.add(self)

    @property
    def _lock(self) -> threading.Lock:
        # Several event loops, each in a thread of its own, may use one pool. Nothing is awaited under the lock.
        return self._bounds.lock

    def _new_scheduler(self) -> Scheduler:
        return Scheduler(self.config.advance_every_s, lambda: self.opened, self._advance_open)

    def _at(self, user_id: str) -> AbstractContextManager[None]:
        """Let what is done in the block for a user's memory take no threads of others."""
        patience_s = self.config.busy_timeout_s
        with self._lock:
            lanes = self._lanes.get(user_id) or Lanes.of_memory(self._shared, patience_s)
            self._lanes[user_id] = lanes
        return within(lanes)

    async def _advance_open(self, user_id: str) -> None:
        """Let a memory do what is due by the calendar, if it is open."""
        memory = self._take(user_id)
        if memory is not None:
            try:
                with self._at(user_id):
                    await memory.advance_paced()
            finally:
                self._give_back(user_id)

    def exists(self, user_id: str) -> bool:
        """Return whether a user has a memory."""
        return has_memory(self.directory, check_id(user_id, "user_id"), self.key)

    @property
    def key(self) -> Key | None:
        """The key of the memories' files."""
        return Key.of(self.config.key)

    @property
    def opened(self) -> list[str]:
        """Ids of the users whose memories are open."""
        with self._lock:
            return list(self._open)

    async def use_existing(self, user_id: str, verb: Callable[[Memory], Awaitable[T]]) -> T:
        """Run a verb on a memory that must exist.

        Raises:
            NotFoundError: if the user has no memory.
        """
        await self._require(user_id)
        return await self.use(user_id, verb)

    async def read(self, user_id: str, verb: Callable[[Memory], Awaitable[T]], nothing: T | None = None) -> T:
        """Run a verb that only reads; for a user without a memory on an empty one, or return `nothing` if it asks for a name."""
        if self._is_open(user_id) or await asyncio.to_thread(self.exists, user_id):
            return await self.use(user_id, verb)
        empty = await asyncio.to_thread(self._empty)
        try:
            return await empty.use("-", verb)
        except NotFoundError:
            if nothing is None:
                raise
            return nothing

    def _empty(self) -> MemoryPool:
        """Return a pool outside of the directory, for the one empty memory that all users without one are read from."""
        if (nobody := self._nobody) is None:
            folder = Path(tempfile.mkdtemp(prefix="memforest-"))
            made = MemoryPool(folder, self.config, bounds=self._bounds, steps=self._steps)
            found = made, weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            with self._lock:
                nobody = self._nobody = self._nobody or found
        return nobody[0]

    async def use_apart(
        self, user_id: str, verb: Callable[[Memory], Awaitable[T]], *, gives: bool = True
    ) -> T:
        """Run a verb on a memory opened for it alone, with the configured embedder, whichever the memory has.

        Args:
            user_id: whose memory.
            verb: an async function of the memory.
            gives: the verb may give the memory that embedder. The pool's own, if it is open, goes on meanwhile; it is
                closed behind that, and the next call opens it anew.

        Raises:
            NotFoundError: if the user has no memory.
        """
        await self._require(user_id)
        with self._at(user_id):
            return await self._use_apart(user_id, verb, gives)

    async def _use_apart(self, user_id: str, verb: Callable[[Memory], Awaitable[T]], gives: bool) -> T:
        memory = await self._open_file(user_id, None, other_embedder=True)
        try:
            return await verb(memory)
        finally:
            await to_thread(memory.close)
            with self._lock:
                idle = gives and user_id not in self._busy
                outdated = self._open.pop(user_id, None) if idle else None
            if outdated is not None:
                await outdated.end()

    async def _require(self, user_id: str) -> None:
        """Raise if a user has no memory."""
        if not self._is_open(user_id) and not await to_thread(self.exists, user_id):
            raise no_memory(user_id)

    async def use(
        self,
        user_id: str,
        verb: Callable[[Memory], Awaitable[T]],
        *,
        label: str | None = None,
        first: Callable[[str], object] | None = None,
    ) -> T:
        """Run a verb on a memory, opening or making it when needed; one in use is never closed.

        Args:
            user_id: whose memory.
            verb: an async function of the memory.
            label: a new display name of the user.
            first: called with the user's display name before a memory is made; if it raises, none is made.
        """
        check_id(user_id, "user_id")
        self._scheduler.begin()
        with self._at(user_id):
            return await self._use(user_id, verb, label, first)

    async def _use(
        self,
        user_id: str,
        verb: Callable[[Memory], Awaitable[T]],
        label: str | None,
        first: Callable[[str], object] | None,
    ) -> T:
        memory = self._take(user_id) if label is None else None
        surplus: list[Memory] = []
        if memory is None:
            memory, surplus = await self._opened(user_id, label, first)
        try:
            await close_all([*surplus, *self._bounds.beyond()])
            return await verb(memory)
        except (StoreReplacedError, EmbedderMismatchError):
            # The next call opens what is there now; whoever else is at work on this one gets an error too.
            self._forget(user_id, memory)
            await to_thread(memory.close)
            raise
        finally:
            self._give_back(user_id)

    async def use_new(self, user_id: str, verb: Callable[[Memory], Awaitable[T]]) -> T:
        """Run a verb that fills a memory, and close it then, so that the next call opens it with what it has now.

        If the verb raises, a memory that was made for it and holds nothing is deleted.
        """
        there = await to_thread(self.exists, user_id)
        path = self.directory / file_name(user_id)
        salted = await to_thread(salt_file(path).exists)
        try:
            result = await self.use(user_id, verb)
        except BaseException:
            if not there:
                await self.let_go(user_id)
                with suppress(StoreError):  # somebody else uses it now
                    await to_thread(discard_unwritten, path, self.key, salt=not salted)
            raise
        await self.let_go(user_id)
        return result

    async def let_go(self, user_id: str) -> None:
        """Close a user's memory, if it is open; the next call opens it again."""
        with self._lock:
            memory = self._open.pop(user_id, None)
        if memory is not None:
            await memory.end()

    async def _opened(
        self, user_id: str, label: str | None, first: Callable[[str], object] | None
    ) -> tuple[Memory, list[Memory]]:
        """Open a memory, in use from now on, unless another call does so just now; return it, and what is to be closed.

        A file that is open twice would stay so until the memory is closed: SQLite closes none of several before the last.
        """
        with self._lock:
            opening = self._opening.setdefault(user_id, Turns(patience_s=self.config.busy_timeout_s))
        async with opening.turn():
            memory = self._take(user_id) if label is None else None
            if memory is not None:
                return memory, []
            if first is not None and not await to_thread(self.exists, user_id):
                await to_thread(first, label or label_of(user_id))
            return self._keep(user_id, await self._open_file(user_id, label))

    async def remove(self, user_id: str, *, dry_run: bool = False) -> DeleteReceipt:
        """Delete the files of a user's memory, or count what is in them; what is under way on it here ends with an error.

        Raises:
            NotFoundError: if there is no file.
            ForeignStoreError: if it is another program's file, or another user's.
            StoreError: if a file cannot be deleted.
        """
        path = self.directory / file_name(check_id(user_id, "user_id"))
        with self._lock:
            opening = self._opening.setdefault(user_id, Turns(patience_s=self.config.busy_timeout_s))
        async with opening.turn():
            if not await to_thread(path.exists):
                raise NotFoundError(
                    f"user {cut(repr(user_id), 60)} has no memory; there is nothing to delete"
                )
            with self._lock:
                memory = None if dry_run else self._open.pop(user_id, None)
            with self._at(user_id):
                if memory is not None:
                    await memory.end(finish=False)
                wait = self.config.busy_timeout_s
                return await to_thread(
                    remove_memory, path, user_id, busy_timeout_s=wait, key=self.key, dry_run=dry_run
                )

    async def _open_file(self, user_id: str, label: str | None, *, other_embedder: bool = False) -> Memory:
        """Open a user's file; a call that is cancelled meanwhile waits until it is open and closes it."""
        job = asyncio.ensure_future(
            to_thread(
                open_memory,
                self.directory,
                user_id,
                self.config,
                self._steps,
                label=label,
                other_embedder=other_embedder,
            )
        )
        try:
            return await asyncio.shield(job)
        except asyncio.CancelledError:
            with suppress(MemForestError):  # it was not opened
                await to_thread((await job).close)
            raise

    def _is_open(self, user_id: str) -> bool:
        with self._lock:
            return check_id(user_id, "user_id") in self._open

    def _take(self, user_id: str) -> Memory | None:
        """Return an open memory, in use from now on; None when it is not open."""
        with self._lock:
            memory = self._open.get(user_id)
            if memory is not None:
                self._in_use(user_id)
            return memory

    def _keep(self, user_id: str, memory: Memory) -> tuple[Memory, list[Memory]]:
        """Add an opened memory, unless another call has opened it meanwhile; return the one in use, and those to be closed."""
        with self._lock:
            have = self._open.setdefault(user_id, memory)
            have.label = memory.label
            self._in_use(user_id)
            return have, [] if have is memory else [memory]

    def _forget(self, user_id: str, memory: Memory) -> None:
        """Remove a memory from the pool, unless another one has taken its place already."""
        with self._lock:
            if self._open.get(user_id) is memory:
                del self._open[user_id]

    def _in_use(self, user_id: str) -> None:
        self._open.move_to_end(user_id)
        self._bounds.touch(self._open[user_id])
        self._busy[user_id] = self._busy.get(user_id, 0) + 1

    def _give_back(self, user_id: str) -> None:
        with self._lock:
            self._busy[user_id] -= 1
            if not self._busy[user_id]:
                del self._busy[user_id]

    def idle(self) -> list[tuple[str, Memory]]:
        """Return the open memories that nobody uses and nothing is made for, with their users; called under the lock."""
        return [(user, one) for user, one in self._open.items() if user not in self._busy and not one.at_work]

    def give_up(self, user_id: str) -> Memory:
        """Take an open memory out of the pool, to be closed; called under the lock."""
        return self._open.pop(user_id)

    @property
    def open_files(self) -> int:
        """Files that the open memories hold, their logs included."""
        with self._lock:
            return self.count_files()

    @property
    def cached_bytes(self) -> int:
        """Bytes of the snapshots that the open memories keep, about."""
        with self._lock:
            return self.count_bytes()

    def count_files(self) -> int:
        """Return `open_files`; called under the lock."""
        return sum(memory.open_files for memory in self._open.values())

    def count_bytes(self) -> int:
        """Return `cached_bytes`; called under the lock."""
        return sum(memory.cached_bytes for memory in self._open.values())

    async def close(self) -> None:
        """Close every open memory; each opens again at its next use."""
        await self._scheduler.stop()
        with self._lock:
            closing = list(self._open.values())
            self._open.clear()
            nobody, self._nobody = self._nobody, None
        for memory in closing:
            await memory.end()
        if nobody is not None:
            await nobody[0].close()
            await asyncio.to_thread(nobody[1])
        if self._own_steps:
            await self._steps.close()

    def _after_fork_in_child(self) -> None:
        # The parent's connections are not for us (see `memforest.store.database`); memories are opened anew.
        self._bounds.lock = threading.Lock()
        self._open = OrderedDict()
        self._busy = {}
        self._opening, self._lanes = weakref.WeakValueDictionary(), weakref.WeakValueDictionary()
        self._shared = Lanes.of_directory()
        self._scheduler = self._new_scheduler()
        if self._nobody is not None:
            self._nobody[1].detach()  # its files are the parent's to delete
            self._nobody = None


_alive: weakref.WeakSet[MemoryPool] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for pool in list(_alive):
        pool._after_fork_in_child()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_after_fork_in_child)
