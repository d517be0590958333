"""The public surface: many users' memories in one directory. Every write is durable when it returns.

The blocking twin: `memforest.memory.blocking`.


The verbs of a forest that ask: one question, or many at once.

The verbs that encrypt the memories of a forest, decrypt them, or give them another key.

Several directories of memories under one configuration, bounds and models: those of a server's tenants.

Each is a forest of its own, which knows nothing of the others. What they share cannot be asked for anybody's words: how
many files are open, how much is cached, and the connections to the configured models.


Whether a forest can serve: a memory opens, and a word gets its vector.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from memforest.config import Config, load_default_config
from memforest.endpoint import Budget
from memforest.errors import (
    ConfigError,
    InputError,
    MemForestError,
    NotFoundError,
    StoreError,
    StoreWriteError,
)
from memforest.memory import options
from memforest.memory.importing import import_file
from memforest.memory.memory import Memory
from memforest.memory.moving import Backups, DeletesUsers, MergingForest
from memforest.memory.open import Progress, Recrypted, embedder_of, recrypt_all
from memforest.memory.options import (
    QueryOptions,
    check_flags,
    check_forest,
    check_function,
    read_budget,
    read_count,
    read_rebuild,
)
from memforest.memory.pool import Bounds, MemoryPool, close_all
from memforest.memory.spanned import spanned
from memforest.memory.user import AsyncUserMemory
from memforest.memory.writing import WritesMemories, for_all
from memforest.plain import Listing
from memforest.ports import Embedder
from memforest.protection import Key, KeySetting
from memforest.read.results import AskResult, FlushResult, QueryResult
from memforest.read.stored import UserPage
from memforest.reading.steps import choose_steps
from memforest.settings import MAX_PAGE
from memforest.store.directory import Survey, is_own_name, owner_of, survey, survey_after
from memforest.text import cut
from memforest.trees.attached import check_indexes
from memforest.write.turns import check_id

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from memforest.memory.options import RebuildOptions


class AsyncAsking:
    """What `AsyncMemForest` is asked."""

    _max_workers: int

    def user(self, user_id: str) -> AsyncUserMemory:
        """Return a handle on one user's memory."""
        raise NotImplementedError

    async def query(self, /, user_id: str, question: str, **options: Unpack[QueryOptions]) -> QueryResult:
        """Return ranked evidence for a question, best first; the same for the same state and arguments.

        Of a user without a memory it is empty, as what every other verb reads of one; no memory is made.

        Args:
            user_id: whose memory.
            question: in any language.
            **options: as follows, all optional.
            reference_date: what "now" and "last month" in the question are relative to; the clock's time
                when not given.
            as_of: keep what was so at that time; unknown validity counts from when it was said.
            during: keep what overlaps [start, end).
            said_by: what had been said by that time; what was said later is as if it were not there.
            known_at: what this memory held at that time; what was stored later is as if it were not there. `warnings` say how
                much of it has been deleted since.
            filters: search only what was said in turns that have all of this metadata, of their own, of their call of `add` or of
                their session; `warnings` name a key that none has.
            top_k: most evidence returned; `Config.top_k` when not given.
            max_tokens: budget for the texts of all evidence together, estimated.
            index: which of the memory's indexes to search: ``"memforest"``, ``"flat"`` for the baseline without trees,
                ``"facts"`` for facts by cosine alone, or one that was added; the first of `Config.indexes` that the
                memory has when not given. Several names are fused. `warnings` and ``trace["lag"]`` say how far one is
                behind.
            ranking: weights for this question; `Config.ranking` when not given.
            mode: how the recalled trees are browsed: ``"emb"``, ``"emb+planner"``, ``"llm"`` or
                ``"llm+planner"``; `Config.mode` when not given.
            budget: a `Budget` for model calls; `Config.query_budget` when not given. What it does not allow is
                done without a model, and `warnings` say so.
            explain: put into ``trace["explain"]`` the plan, the trees recalled, what filters and time
                order did, and for each evidence the named parts whose sum is its score, and its path.

        Raises:
            InputError: if the question is empty or an argument is out of range.
            ConfigError: if the mode needs a chat model and there is none, or an index is unknown or named twice.
            NotFoundError: if the memory does not have that index.
        """
        return await self.user(user_id).search(question, **options)

    async def query_parallel(
        self, requests: Sequence[Mapping[str, Any]]
    ) -> list[QueryResult | MemForestError]:
        """Answer many queries and return their results in order; a failed one returns its error.

        Args:
            requests: mappings with the arguments of `query`.
        """
        options.check_requests("query_parallel", requests)
        results: dict[int, QueryResult | MemForestError] = {}

        async def one(i: int) -> None:
            problem = options.request_problem(requests[i], ("user_id", "question"), None)
            results[i] = (
                await options.result_or_error(self.query(**requests[i])) if problem is None else problem
            )

        await options.run_bounded(self._max_workers, (one(i) for i in range(len(requests))))
        return [results[i] for i in range(len(requests))]

    async def ask(self, /, user_id: str, question: str, **options: Unpack[QueryOptions]) -> AskResult:
        """Answer a question from the best evidence, with citations, or abstain.

        Args:
            user_id: whose memory.
            question: in any language.
            **options: as for `query`.

        Raises:
            InputError: if the question is empty or an option is out of range.
            ConfigError: if the mode needs a chat model and there is none.
        """
        return await self.user(user_id).ask(question, **options)


class Encrypting:
    """A forest's verbs of this kind.

    A file is changed when nobody else has it open, whole or not at all; after an interruption the same call goes on. They
    need the extra ``[encrypted]``.
    """

    directory: Path
    config: Config
    _pool: MemoryPool

    @spanned()
    async def encrypt(self, user_id: str | None = None, *, progress: Progress | None = None) -> Recrypted:
        """Encrypt the memories that are not, with the key of the configuration.

        Args:
            user_id: whose; None for all users.
            progress: called with how many files are done, how many there are and the last one's name, in another thread.

        Raises:
            ConfigError: if no key is configured, or SQLCipher is not installed.
            StoreLockedError: if another forest or process has the user's memory open.
            StoreError: if the file cannot be changed; it is as it was.
            SomeUsersFailedError: if some of all files cannot be changed; the others are done.
            NotFoundError: if the user has no memory.
            InputError: if `progress` is no function.
        """
        check_function("encrypt", "progress", progress)
        return await self._recrypt("encrypt", None, self._own_key(), user_id, progress)

    @spanned()
    async def decrypt(self, user_id: str | None = None, *, progress: Progress | None = None) -> Recrypted:
        """Decrypt the memories that are encrypted with the key of the configuration; then use one without it.

        Args:
            user_id: whose; None for all users.
            progress: as for `encrypt`.

        Raises:
            ConfigError: as `encrypt`. Likewise the other errors.
        """
        check_function("decrypt", "progress", progress)
        return await self._recrypt("decrypt", self._own_key(), None, user_id, progress)

    @spanned()
    async def rekey(
        self, key: KeySetting, user_id: str | None = None, *, progress: Progress | None = None
    ) -> Recrypted:
        """Encrypt the memories with another key than that of the configuration; then use one with the new key.

        The salts stay, so a backup from before opens with the old key.

        Args:
            key: the new key; see `Config.key`.
            user_id: whose; None for all users.
            progress: as for `encrypt`.

        Raises:
            ConfigError: as `encrypt`, or if the new key is none. Likewise the other errors.
        """
        check_function("rekey", "progress", progress)
        new = Key.of(key)
        if new is None:
            raise ConfigError("rekey(key) takes a key, not None; `decrypt` takes the encryption away")
        return await self._recrypt("rekey", self._own_key(), new, user_id, progress)

    def _own_key(self) -> Key:
        key = Key.of(self.config.key)
        if key is None:
            raise ConfigError("no key is configured; set MEMFOREST_KEY, or Config(key=...)")
        return key

    async def _recrypt(
        self,
        operation: str,
        have: Key | None,
        want: Key | None,
        user_id: str | None,
        progress: Progress | None,
    ) -> Recrypted:
        """Do it in a worker thread; a call that is cancelled meanwhile waits for the file that is under way."""
        if user_id is not None:
            check_id(user_id, "user_id")
        await self._pool.close()
        stop = threading.Event()
        job = asyncio.ensure_future(
            asyncio.to_thread(
                recrypt_all,
                operation,
                self.directory,
                have,
                want,
                user_id=user_id,
                timeout_s=self.config.busy_timeout_s,
                progress=progress,
                stop=stop,
            )
        )
        try:
            return await asyncio.shield(job)
        except asyncio.CancelledError:
            stop.set()
            with suppress(MemForestError):
                await job
            raise


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
        await self._pool.use(user_id, options.only_open, label=display_name)

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
        await for_all("load", user_id, self._pool, options.only_open)

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


class Together:
    """Makes forests that stay within the bounds of one configuration together.

    Args:
        config: of all of them; None is `load_default_config()`.

    Raises:
        ConfigError: if it names no model that there is.
    """

    def __init__(self, config: Config | None = None) -> None:
        self.config = config or load_default_config()
        self._steps = choose_steps(self.config)
        self._bounds = Bounds(self.config)

    def forest(self, directory: Path) -> AsyncMemForest:
        """Return a forest of a directory; there should be one of each."""

        def pool() -> MemoryPool:
            return MemoryPool(directory, self.config, bounds=self._bounds, steps=self._steps)

        return _Member(directory, self.config, pool)

    def opened(self, forest: AsyncMemForest) -> bool:
        """Return whether a forest of this has memories open; closing one without takes nothing from anybody."""
        return bool(forest._pool.opened)

    async def trim(self) -> None:
        """Close what is idle beyond the bounds now, instead of at the next use of a memory."""
        await close_all(self._bounds.beyond())

    @property
    def open_files(self) -> int:
        """Files that the open memories of all forests hold, their logs included."""
        with self._bounds.lock:
            return sum(pool.count_files() for pool in self._bounds.pools)

    @property
    def cached_bytes(self) -> int:
        """Bytes of the snapshots that the open memories of all forests keep, about."""
        with self._bounds.lock:
            return sum(pool.count_bytes() for pool in self._bounds.pools)

    async def close(self) -> None:
        """Close the connections to the configured models; the forests are closed before, by who has them."""
        await self._steps.close()


class _Member(AsyncMemForest):
    """A forest whose pool shares bounds and models with others."""

    def __init__(self, directory: Path, config: Config, pool: Callable[[], MemoryPool]) -> None:
        self._make_pool = pool
        super().__init__(directory, config)

    def _new_pool(self) -> MemoryPool:
        return self._make_pool()


WORD = "ready"
MOST_TRIED = 3
"""Memories that are tried: one that is damaged does not take the server from all others."""


class Readiness:
    """Tries what every request needs; keeps the embedder that it tries with."""

    def __init__(self) -> None:
        self._embedder: Embedder | None = None
        self._made = False

    async def check(self, forest: AsyncMemForest) -> None:
        """Open one of some of the forest's memories, or see that one can be made, and embed one word. Nothing is written.

        Raises:
            StoreError: if the directory or the memory cannot be used.
            ModelError: if the embedder cannot be used.
        """
        names = await asyncio.to_thread(_some, forest.directory)
        for tried, name in enumerate(names, 1):
            try:
                await forest.load(
                    await asyncio.to_thread(owner_of, forest.directory / name, Key.of(forest.config.key))
                )
                break
            except (StoreError, NotFoundError):  # it is damaged, in use elsewhere, or was deleted meanwhile
                if tried == len(names):
                    raise
        if not self._made:
            self._embedder, self._made = await asyncio.to_thread(embedder_of, forest.config), True
        if self._embedder is not None:
            await self._embedder.embed([WORD])


def _some(directory: Path) -> list[str]:
    """Return the files of some memories of a directory; none when there is none and one can be made.

    Raises:
        StoreError: if the directory cannot be listed, or holds no memory and none can be made.
    """
    try:
        with os.scandir(directory) as entries:
            found = list(islice((entry.name for entry in entries if is_own_name(entry.name)), MOST_TRIED))
    except FileNotFoundError:
        found = []
    except OSError as exc:
        raise StoreError(f"the directory of the memories cannot be listed: {exc.strerror}") from exc
    if not found:
        there = next(one for one in (directory, *directory.parents) if one.exists())
        if not os.access(there, os.W_OK | os.X_OK):
            raise StoreWriteError("the directory of the memories cannot be written")
    return found
