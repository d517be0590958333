"""The public surface: many users' memories in one directory. Every write is durable when it returns.

The blocking twin: `memforest.forest.blocking`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from memforest.config import Config
from memforest.default_config import load_default_config
from memforest.endpoint import Budget
from memforest.errors import InputError
from memforest.forest import requests as calls
from memforest.forest.asking import AsyncAsking
from memforest.forest.deleting import DeletesUsers
from memforest.forest.encrypting import Encrypting
from memforest.forest.everybody import for_all
from memforest.forest.handle import AsyncUserMemory
from memforest.forest.import_verbs import import_file
from memforest.forest.merging import MergingForest
from memforest.forest.options import (
    check_flags,
    check_forest,
    read_budget,
    read_count,
    read_rebuild,
)
from memforest.forest.pool import MemoryPool
from memforest.forest.spanned import spanned
from memforest.forest.transfer import Backups
from memforest.forest.writing import WritesMemories
from memforest.limits import MAX_PAGE
from memforest.memory.cursors import Listing
from memforest.memory.directory import Survey, survey, survey_after
from memforest.memory.ingest.turns import check_id
from memforest.memory.inspect.paged import UserPage
from memforest.memory.memory import Memory
from memforest.memory.results import FlushResult
from memforest.systems.registry import check_indexes
from memforest.text import cut

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from memforest.forest.options import RebuildOptions

T = TypeVar("T")

_log = logging.getLogger(__name__)


class AsyncMemForest(AsyncAsking, Backups, DeletesUsers, Encrypting, MergingForest, WritesMemories):
    """Memories of many users, one SQLite file each, in one directory.

    One object serves event loops in several threads, at once or one after the other. Closing it ends the calls under
    way in all of them with a `StoreClosedError`.

    Args:
        directory: where the files are; made at the first write, for its owner alone.
        config: see `Config`; None is `load_default_config()`.
        max_workers: most sessions that `ingest_parallel` and `query_parallel` work on at once.

    Raises:
        ConfigError: if an argument is of the wrong type or out of range, or `config` names no model that there is.
    """

    def __init__(
        self,
        directory: str | Path,
        config: Config | None = None,
        *,
        max_workers: int = 8,
    ) -> None:
        self.directory = Path(check_forest(directory, config, max_workers))
        self.config = config or load_default_config()
        check_indexes(self.config)
        self._max_workers = max_workers
        self._pool = self._new_pool()

    def _new_pool(self) -> MemoryPool:
        return MemoryPool(self.directory, self.config)

    # -- users --------------------------------------------------------------------------------

    @spanned("create_memory_store")
    async def register_user(
        self, user_id: str, *, display_name: str | None = None, load_existing: bool = True
    ) -> None:
        """Make a user's memory, or open it when there is one.

        Args:
            user_id: any non-empty text; it never becomes a path.
            display_name: who an unnamed ``user`` turn is; the id when not given.
            load_existing: whether there may be one already. In the paper's artifact False begins an empty memory that
                replaces the stored one when it is saved; here nothing is overwritten.

        Raises:
            InputError: if the id or the name is no usable text, or there is a memory and `load_existing` is False.
            StoreError: if the file cannot be used.
        """
        if display_name is not None:
            check_id(display_name, "display_name")
        check_flags("register_user", load_existing=load_existing)
        if not load_existing and await self.has_user(user_id):
            raise InputError(
                f"user {cut(repr(user_id), 60)} has a memory already; leave load_existing=False out to open it, or give "
                "another id"
            )
        await self._pool.use(user_id, calls.only_open, label=display_name)

    @spanned()
    async def list_users(self) -> list[str]:
        """Return the ids of all users, sorted. Nothing is written.

        Of a file whose user cannot be read (damaged, locked for long, another program's) a warning is logged;
        `survey` returns it with the reason.

        Raises:
            StoreError: if the directory is none, or cannot be listed.
        """
        found = await self.survey()
        for one in found.unreadable:
            _log.warning("passed over %s: %s", one.file, one.error)
        return list(found.users)

    @spanned()
    async def users(self, *, limit: int = 50, cursor: str | None = None) -> UserPage:
        """Return a page of the ids of users, in the order of the names of their files. Nothing is written.

        Only the files of the page are opened, however many there are. No user is on two pages or on none while others come
        and go.

        Args:
            limit: most users on the page, 1 to 1000.
            cursor: `UserPage.next_cursor` of the page before.

        Raises:
            InputError: if `limit` is out of range, or the cursor is none of this listing.
            StoreError: if the directory is none, or cannot be listed.
        """
        read_count("limit", limit, None, 1, MAX_PAGE)
        listing = Listing.of("users")
        key = listing.key(cursor, str)
        after = None if key is None else str(key[0])
        found, last = await asyncio.to_thread(survey_after, self.directory, after, limit, self._pool.key)
        return UserPage(found.users, None if last is None else listing.cursor((last,)), found.unreadable)

    @spanned()
    async def survey(self) -> Survey:
        """Return the ids of all users, and the files among the memories whose user cannot be read, with the reasons.

        Raises:
            StoreError: if the directory is none, or cannot be listed.
        """
        return await asyncio.to_thread(survey, self.directory, self._pool.key)

    @spanned()
    async def has_user(self, user_id: str) -> bool:
        """Return whether the user has a memory."""
        return await asyncio.to_thread(self._pool.exists, user_id)

    def user(self, user_id: str) -> AsyncUserMemory:
        """Return a handle on one user's memory, with the verbs for daily use."""
        return AsyncUserMemory(self._pool, check_id(user_id, "user_id"))

    # -- writing ------------------------------------------------------------------------------

    import_file = import_file

    @spanned()
    async def flush(self, user_id: str | None = None, *, budget: Budget | None = None) -> FlushResult:
        """Wait for the summaries that are made behind writes, make those that are left, and return what all that did.

        Args:
            user_id: whose; None for all users.
            budget: what may be spent on models for each user; `Config.ingest_budget` when not given.

        Raises:
            SomeUsersFailedError: if it failed for some of all users; the others are done.
            NotFoundError: if the user has no memory.
        """
        read_budget("flush", budget)
        did: list[FlushResult] = []

        async def one(memory: Memory) -> None:
            did.append(await memory.flush(budget))

        await for_all("flush", user_id, self._pool, one, results=did)
        return reduce(FlushResult.beside, did, FlushResult())

    @spanned()
    async def rebuild(
        self,
        user_id: str | None = None,
        *,
        budget: Budget | None = None,
        **options: Unpack[RebuildOptions],
    ) -> None:
        """Make what is derived anew, for one user or for all; see `AsyncUserMemory.rebuild`.

        Raises:
            SomeUsersFailedError: if it failed for some of all users; the others are done.
            NotFoundError: if the user has no memory.
        """
        what = read_rebuild(**options)
        read_budget("rebuild", budget)

        def work(memory: Memory) -> Awaitable[object]:
            return memory.rebuild(what, budget)

        use = self._pool.use_apart if what.embedder else None
        await for_all("rebuild", user_id, self._pool, work, use=use)

    @spanned()
    async def save(self, user_id: str | None = None) -> None:
        """Fold the write-ahead log into the files, of one user or of all whose memory is open.

        Adds no durability: every ingest is durable already.

        Raises:
            SomeUsersFailedError: if it failed for some of all users; the others are done.
            NotFoundError: if the user has no memory.
        """
        await for_all("save", user_id, self._pool, Memory.checkpoint, opened=True)

    @spanned()
    async def load(self, user_id: str | None = None) -> None:
        """Open a user's memory, or all of them, now instead of at first use.

        Raises:
            SomeUsersFailedError: if it failed for some of all users; the others are open.
            NotFoundError: if the user has no memory.
        """
        await for_all("load", user_id, self._pool, calls.only_open)

    # -- inside -------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close every open memory; each opens again at its next use.

        Summaries that are being made behind writes are left where they stand, for the next refresh; with
        ``Config(refresh="close")`` those of the open memories are made first.
        """
        await self._pool.close()

    async def __aenter__(self) -> AsyncMemForest:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()
