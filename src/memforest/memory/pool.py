"""The memories of one directory: opened at first use, kept while in use, and closed beyond bounds when idle.

The bounds on open files (`Config.max_open_files`) and on cached snapshots (`Config.max_cache_mb`) hold over all pools that share
`Bounds`. The memory used longest ago goes first; one in use never does, so callers at work may exceed both while they work.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import shutil
import tempfile
import threading
import weakref
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

from memforest.concurrency import (
    READS_OF_ONE,
    WRITES_OF_ONE,
    Lanes,
    Turns,
    begins_anew_in_child,
    to_thread,
    within,
)
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
        self.uses = itertools.count()
        self.used: weakref.WeakKeyDictionary[Memory, int] = weakref.WeakKeyDictionary()
        """When each open memory was last used, by the count of uses."""

    def opened(self, *pools: MemoryPool) -> list[Memory]:
        """Return the open memories of some pools, or of all."""
        with self.lock:
            return [memory for pool in pools or self.pools for memory in pool._open.values()]

    def beyond(self) -> list[Memory]:
        """Take idle memories beyond the bounds out of their pools, least recently used first; return those to be closed."""
        with self.lock:
            idle = [
                (self.used[one], pool, user, one)
                for pool in self.pools
                for user, one in pool._open.items()
                if user not in pool._busy and not one.at_work  # nobody uses it and nothing is made for it
            ]
            if not idle:
                return []
            opened = [memory for pool in self.pools for memory in pool._open.values()]
            surplus = sum(memory.cached_bytes for memory in opened) - self._most_bytes
            too_many = sum(memory.open_files for memory in opened) - self._most_files
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
                closing.append(pool._open.pop(user))
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

NOBODY = "-"
"""User id of the one empty memory that all users without a memory are read from."""


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
        # Several event loops, each in a thread of its own, may use one pool: `Bounds.lock` guards what follows, and nothing is
        # awaited under it.
        self._own_steps = steps is None
        self._steps = choose_steps(config) if steps is None else steps
        self._bounds = bounds or Bounds(config)
        self._begin_anew()
        with self._bounds.lock:
            self._bounds.pools.add(self)
        begins_anew_in_child(self)

    def _begin_anew(self) -> None:
        self._open: OrderedDict[str, Memory] = OrderedDict()
        self._busy = Counter[str]()
        self._opening: weakref.WeakValueDictionary[str, Turns] = weakref.WeakValueDictionary()
        self._lanes: weakref.WeakValueDictionary[str, Lanes] = weakref.WeakValueDictionary()
        self._shared = Lanes.of_directory()
        self._advancing = Behind(self._advance_all)
        self._nobody: tuple[MemoryPool, weakref.finalize[..., MemoryPool]] | None = None

    async def _advance_all(self, _budget: Budget) -> None:
        """Advance the open memories by the calendar again and again, until stopped; what goes wrong in one ends nothing."""
        while True:
            await asyncio.sleep(self.config.advance_every_s)
            for user_id in self.opened:
                try:
                    error: Exception | None = await attempted(self._advance_open(user_id))
                except MemForestError as exc:
                    error = exc
                if error is not None:
                    why = error if isinstance(error, MemForestError) else named(error)
                    _log.warning("the memory of %s was not advanced: %s", cut(repr(user_id), 60), why)

    async def _advance_open(self, user_id: str) -> None:
        memory = self._take(user_id)
        if memory is not None:
            try:
                with within(self._lanes_of(user_id)):
                    if await memory.advance_due():  # why holds words that are in no log
                        _log.warning(
                            "summaries of %s could not be made; stats() says why", cut(repr(user_id), 60)
                        )
            finally:
                self._give_back(user_id)

    def _lanes_of(self, user_id: str) -> Lanes:
        """Return the lanes of a memory's threads, which keep it from taking the threads of others."""
        with self._bounds.lock:
            if (lanes := self._lanes.get(user_id)) is None:
                reads, writes = self._shared
                own = Turns(WRITES_OF_ONE, self.config.busy_timeout_s)
                lanes = self._lanes[user_id] = Lanes((Turns(READS_OF_ONE), reads), (own, writes))
            return lanes

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
        with self._bounds.lock:
            return list(self._open)

    @asynccontextmanager
    async def open(
        self, user_id: str, *, label: str | None = None, check: Callable[[str], object] | None = None
    ) -> AsyncIterator[Memory]:
        """Open a user's memory for the block, making it when there is none; one in use is never closed.

        Args:
            user_id: whose memory.
            label: a new display name of the user.
            check: called with the user's display name before a memory is made; if it raises, none is made.
        """
        check_id(user_id, "user_id")
        if self.config.advance_every_s and not self._advancing.at_work:
            self._advancing.begin(Budget())
        with within(self._lanes_of(user_id)):
            memory = self._take(user_id) if label is None else None
            surplus: list[Memory] = []
            if memory is None:
                memory, surplus = await self._opened(user_id, label, check)
            try:
                if closing := [*surplus, *self._bounds.beyond()]:
                    await close_all(closing)
                yield memory
            except (StoreReplacedError, EmbedderMismatchError):
                # The next call opens what is there now; whoever else is at work on this one gets an error too.
                with self._bounds.lock:
                    if self._open.get(user_id) is memory:
                        del self._open[user_id]
                await to_thread(memory.close)
                raise
            finally:
                self._give_back(user_id)

    @asynccontextmanager
    async def existing(self, user_id: str) -> AsyncIterator[Memory]:
        """Open a user's memory for the block.

        Raises:
            NotFoundError: if the user has no memory.
        """
        await self._require(user_id)
        async with self.open(user_id) as memory:
            yield memory

    @asynccontextmanager
    async def reading(self, user_id: str) -> AsyncIterator[Memory]:
        """Open a user's memory for the block to read it; for a user without one, an empty memory that is `NOBODY`'s."""
        if check_id(user_id, "user_id") in self._open or await to_thread(self.exists, user_id):
            async with self.open(user_id) as memory:
                yield memory
        else:
            empty = await to_thread(self._empty)
            async with empty.open(NOBODY) as memory:
                yield memory

    def _empty(self) -> MemoryPool:
        """Return a pool outside of the directory, for the one empty memory that all users without one are read from."""
        if (nobody := self._nobody) is None:
            folder = Path(tempfile.mkdtemp(prefix="memforest-"))
            made = MemoryPool(folder, self.config, bounds=self._bounds, steps=self._steps)
            found = made, weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            with self._bounds.lock:
                nobody = self._nobody = self._nobody or found
        return nobody[0]

    @asynccontextmanager
    async def apart(self, user_id: str, *, gives: bool = True) -> AsyncIterator[Memory]:
        """Open a memory for the block alone, with the configured embedder, whichever embedder the memory has.

        Args:
            user_id: whose memory.
            gives: the block may give the memory that embedder. The pool's own memory, if it is open, goes on meanwhile; it is
                closed behind that, and the next call opens it anew.

        Raises:
            NotFoundError: if the user has no memory.
        """
        await self._require(user_id)
        with within(self._lanes_of(user_id)):
            memory = await self._open_file(user_id, None, other_embedder=True)
            try:
                yield memory
            finally:
                await to_thread(memory.close)
                with self._bounds.lock:
                    idle = gives and user_id not in self._busy
                    outdated = self._open.pop(user_id, None) if idle else None
                if outdated is not None:
                    await outdated.end()

    async def _require(self, user_id: str) -> None:
        """Raise if a user has no memory."""
        if check_id(user_id, "user_id") not in self._open and not await to_thread(self.exists, user_id):
            raise no_memory(user_id)

    @asynccontextmanager
    async def filling(self, user_id: str) -> AsyncIterator[Memory]:
        """Open a memory for a block that fills it, and close it then, so that the next call opens it with what it has now.

        If the block raises, a memory that was made for it and holds nothing is deleted.
        """
        there = await to_thread(self.exists, user_id)
        path = self.directory / file_name(user_id)
        salted = await to_thread(salt_file(path).exists)
        try:
            async with self.open(user_id) as memory:
                yield memory
        except BaseException:
            if not there:
                await self.let_go(user_id)
                with suppress(StoreError):  # somebody else uses it now
                    await to_thread(discard_unwritten, path, self.key, salt=not salted)
            raise
        await self.let_go(user_id)

    async def let_go(self, user_id: str) -> None:
        """Close a user's memory, if it is open; the next call opens it again."""
        with self._bounds.lock:
            memory = self._open.pop(user_id, None)
        if memory is not None:
            await memory.end()

    async def _opened(
        self, user_id: str, label: str | None, check: Callable[[str], object] | None
    ) -> tuple[Memory, list[Memory]]:
        """Open a memory, in use from now on, unless another call does so just now; return it, and what is to be closed.

        A file that is open twice would stay so until the memory is closed: SQLite closes none of several before the last.
        """
        with self._bounds.lock:
            opening = self._opening.setdefault(user_id, Turns(patience_s=self.config.busy_timeout_s))
        async with opening.turn():
            memory = self._take(user_id) if label is None else None
            if memory is not None:
                return memory, []
            if check is not None and not await to_thread(self.exists, user_id):
                await to_thread(check, label or label_of(user_id))
            made = await self._open_file(user_id, label)
            kept = self._take(user_id, made) or made
            return kept, [] if kept is made else [made]

    async def remove(self, user_id: str, *, dry_run: bool = False) -> DeleteReceipt:
        """Delete the files of a user's memory, or count what is in them; what is under way on it here ends with an error.

        Raises:
            NotFoundError: if there is no file.
            ForeignStoreError: if it is another program's file, or another user's.
            StoreError: if a file cannot be deleted.
        """
        path = self.directory / file_name(check_id(user_id, "user_id"))
        with self._bounds.lock:
            opening = self._opening.setdefault(user_id, Turns(patience_s=self.config.busy_timeout_s))
        async with opening.turn():
            if not await to_thread(path.exists):
                raise NotFoundError(
                    f"user {cut(repr(user_id), 60)} has no memory; there is nothing to delete"
                )
            with self._bounds.lock:
                memory = None if dry_run else self._open.pop(user_id, None)
            with within(self._lanes_of(user_id)):
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

    def _take(self, user_id: str, made: Memory | None = None) -> Memory | None:
        """Return an open memory, in use from now on; else the one that was just made; None when there is neither."""
        with self._bounds.lock:
            memory = self._open.get(user_id)
            if memory is None and (memory := made) is not None:
                self._open[user_id] = memory
            if memory is not None:
                self._open.move_to_end(user_id)
                self._bounds.used[memory] = next(self._bounds.uses)
                self._busy[user_id] += 1
                if made is not None:
                    memory.label = made.label
            return memory

    def _give_back(self, user_id: str) -> None:
        with self._bounds.lock:
            self._busy[user_id] -= 1
            if not self._busy[user_id]:
                del self._busy[user_id]

    @property
    def open_files(self) -> int:
        """Files that the open memories hold, their logs included."""
        return sum(memory.open_files for memory in self._bounds.opened(self))

    @property
    def cached_bytes(self) -> int:
        """Bytes of the snapshots that the open memories keep, about."""
        return sum(memory.cached_bytes for memory in self._bounds.opened(self))

    async def close(self) -> None:
        """Close every open memory; each opens again at its next use."""
        await self._advancing.stop()
        with self._bounds.lock:
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

    def after_fork_in_child(self) -> None:
        """Open memories anew: the parent's connections are not for a child (see `memforest.store.database`)."""
        self._bounds.lock = threading.Lock()
        if self._nobody is not None:
            self._nobody[1].detach()  # its files are the parent's to delete
        self._begin_anew()
