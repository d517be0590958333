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
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from memforest.concurrency import (
    READS,
    READS_OF_ONE,
    WRITES,
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

    def opened(self, *pools: MemoryPool) -> list[Memory]:
        """Return the open memories of some pools, or of all."""
        with self.lock:
            held = [one for pool in pools or self.pools for one in pool._held.values()]
        return [one.memory for one in held if one.memory is not None]

    def beyond(self) -> list[Memory]:
        """Take idle memories beyond the bounds out of their pools, least recently used first; return those to be closed."""
        with self.lock:
            idle = [
                (one.used, pool, user, one.memory)
                for pool in self.pools
                for user, one in pool._held.items()
                # nobody uses it and nothing is made for it
                if one.memory is not None and not one.users and not one.memory.at_work
            ]
            if not idle:
                return []
            held = [one for pool in self.pools for one in pool._held.values()]
            opened = [one.memory for one in held if one.memory is not None]
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
                del pool._held[user]
                closing.append(memory)
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


Absent = Literal["made", "refused", "empty"]
"""What becomes of a user without a memory: one is made, it is an error, or the empty memory of `NOBODY` is read."""


@dataclass(slots=True)
class _Held:
    """What a pool has of one user, while the memory is open or somebody uses it."""

    lanes: Lanes
    """Keep the memory's threads from taking those of others."""
    opening: Turns
    memory: Memory | None = None
    users: int = 0
    used: int = 0
    """When it was last used, by the count of uses."""


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
        self._held: dict[str, _Held] = {}
        self._shared = Turns(READS), Turns(WRITES)
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
        with self._use(user_id) as held, within(held.lanes):
            if (
                held.memory is not None and await held.memory.advance_due()
            ):  # why holds words that are in no log
                _log.warning("summaries of %s could not be made; stats() says why", cut(repr(user_id), 60))

    @contextmanager
    def _use(self, user_id: str) -> Iterator[_Held]:
        """Give what there is of a user for the block, in which the memory is not closed for the bounds."""
        with self._bounds.lock:
            if (held := self._held.get(user_id)) is None:
                reads, writes = self._shared
                patience_s = self.config.busy_timeout_s
                lanes = (Turns(READS_OF_ONE), reads), (Turns(WRITES_OF_ONE, patience_s), writes)
                held = self._held[user_id] = _Held(lanes, Turns(patience_s=patience_s))
            held.users += 1
            held.used = next(self._bounds.uses)
        try:
            yield held
        finally:
            with self._bounds.lock:
                held.users -= 1
                if not held.users and held.memory is None and self._held.get(user_id) is held:
                    del self._held[user_id]

    def exists(self, user_id: str) -> bool:
        """Return whether a user has a memory."""
        return has_memory(self.directory, check_id(user_id, "user_id"), self.key)

    @property
    def key(self) -> Key | None:
        """The key of the memories' files."""
        return Key.of(self.config.key)

    @property
    def opened(self) -> list[str]:
        """Ids of the users whose memories are open, the one used longest ago first."""
        with self._bounds.lock:
            found = [(one.used, user) for user, one in self._held.items() if one.memory is not None]
        return [user for _, user in sorted(found)]

    @asynccontextmanager
    async def open(
        self,
        user_id: str,
        absent: Absent = "made",
        *,
        label: str | None = None,
        check: Callable[[str], object] | None = None,
    ) -> AsyncIterator[Memory]:
        """Open a user's memory for the block; one in use is never closed.

        Args:
            user_id: whose memory.
            absent: what becomes of a user without a memory.
            label: a new display name of the user.
            check: called with the user's display name before a memory is made; if it raises, none is made.

        Raises:
            NotFoundError: if the user has no memory, and that is ``"refused"``.
        """
        check_id(user_id, "user_id")
        if self.config.advance_every_s and not self._advancing.at_work:
            self._advancing.begin(Budget())
        with self._use(user_id) as held, within(held.lanes):
            memory = held.memory if label is None else None
            if memory is None and absent != "made" and not await asyncio.to_thread(self.exists, user_id):
                if absent == "refused":
                    raise no_memory(user_id)
                empty = await asyncio.to_thread(self._empty)
                async with empty.open(NOBODY) as memory:
                    yield memory
                return
            if memory is None:
                memory = await self._opened(held, user_id, label, check)
            if closing := self._bounds.beyond():
                await close_all(closing)
            try:
                yield memory
            except (StoreReplacedError, EmbedderMismatchError):
                # The next call opens what is there now; whoever else is at work on this one gets an error too.
                with self._bounds.lock:
                    if held.memory is memory:
                        held.memory = None
                await to_thread(memory.close)
                raise

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
        if not await asyncio.to_thread(self.exists, user_id):
            raise no_memory(user_id)
        with self._use(user_id) as held, within(held.lanes):
            memory = await self._open_file(user_id, None, other_embedder=True)
            try:
                yield memory
            finally:
                await to_thread(memory.close)
                with self._bounds.lock:
                    idle = gives and held.users == 1
                    outdated, held.memory = (held.memory, None) if idle else (None, held.memory)
                if outdated is not None:
                    await outdated.end()

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
        with self._use(user_id) as held:
            await self._end(held)

    async def _end(self, held: _Held, *, finish: bool = True) -> None:
        """Close a memory, if it is open; see `Memory.end`."""
        with self._bounds.lock:
            memory, held.memory = held.memory, None
        if memory is not None:
            await memory.end(finish=finish)

    async def _opened(
        self, held: _Held, user_id: str, label: str | None, check: Callable[[str], object] | None
    ) -> Memory:
        """Return a memory that is opened now, unless another call does so just now.

        A file that is open twice would stay so until the memory is closed: SQLite closes none of several before the last.
        """
        async with held.opening.turn():
            if held.memory is not None and label is None:
                return held.memory
            if check is not None and not await to_thread(self.exists, user_id):
                await to_thread(check, label or label_of(user_id))
            made = await self._open_file(user_id, label)
            with self._bounds.lock:
                kept = held.memory = held.memory or made
                kept.label = made.label
        if kept is not made:
            await close_all([made])
        return kept

    async def remove(self, user_id: str, *, dry_run: bool = False) -> DeleteReceipt:
        """Delete the files of a user's memory, or count what is in them; what is under way on it here ends with an error.

        Raises:
            NotFoundError: if there is no file.
            ForeignStoreError: if it is another program's file, or another user's.
            StoreError: if a file cannot be deleted.
        """
        path = self.directory / file_name(check_id(user_id, "user_id"))
        with self._use(user_id) as held, within(held.lanes):
            async with held.opening.turn():
                if not await to_thread(path.exists):
                    raise NotFoundError(
                        f"user {cut(repr(user_id), 60)} has no memory; there is nothing to delete"
                    )
                if not dry_run:
                    await self._end(held, finish=False)
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
        for user_id in self.opened:
            await self.let_go(user_id)
        with self._bounds.lock:
            nobody, self._nobody = self._nobody, None
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
