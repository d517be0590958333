"""Many users' memories in one directory: the verbs of a forest, and `user` for those of one memory.

Every write is durable when it returns. The blocking twin is `memforest.memory.blocking.MemForest`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial, reduce
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Le

from memforest.config import Config, load_default_config
from memforest.endpoint import Budget
from memforest.errors import ConfigError, InputError, MemForestError
from memforest.memory.importing import FileLike, ImportRequest, OnSession, import_files
from memforest.memory.many import Outcomes, bounded, for_all, ingest_sessions
from memforest.memory.memory import Memory
from memforest.memory.open import Progress, Recrypted, recrypt_all
from memforest.memory.options import TimeLike, check_forest, check_path, read_rebuild, read_time
from memforest.memory.pool import MemoryPool
from memforest.memory.transfer import backup_memory, merge_memories, restore_memory
from memforest.memory.user import AsyncUserMemory
from memforest.memory.verbs import check_options, takes_user_and_options_of, verb
from memforest.plain import Listing
from memforest.progress import OnProgress, Report, as_raised
from memforest.protection import Key, KeySetting
from memforest.read.receipts import BackupResult, DeleteReceipt, ForestMergeResult, ImportResult
from memforest.read.results import AskResult, FlushResult, IngestResult, QueryResult
from memforest.read.stored import UserPage
from memforest.settings import MAX_PAGE
from memforest.store.directory import Survey, make_directory, survey, survey_after
from memforest.text import cut
from memforest.times import shown
from memforest.trees.attached import check_indexes
from memforest.write.merge_plan import MergeOptions
from memforest.write.turns import SessionInput, check_id, messages_of, read_turns, redacted

_OF_ALL = ("refresh", "budget", "defer", "on_progress")
"""Options of `ingest_parallel` that hold for all of its requests."""

_log = logging.getLogger(__name__)


class AsyncMemForest:
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

    def user(self, user_id: str) -> AsyncUserMemory:
        """Return one user's memory, with the verbs for daily use; nothing is opened or made yet."""
        return AsyncUserMemory(self._pool, check_id(user_id, "user_id"))

    @verb("create_memory_store")
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
        if not load_existing and await self.has_user(user_id):
            raise InputError(
                f"user {cut(repr(user_id), 60)} has a memory already; leave load_existing=False out to open it, or give "
                "another id"
            )
        async with self._pool.open(user_id, label=display_name):
            pass

    @verb()
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

    @verb()
    async def users(
        self, *, limit: Annotated[int, Ge(1), Le(MAX_PAGE)] = 50, cursor: str | None = None
    ) -> UserPage:
        """Return a page of the ids of users, in the order of the names of their files. Nothing is written.

        Only the files of the page are opened, however many there are. No user is on two pages or on none while others come
        and go.

        Args:
            limit: most users on the page.
            cursor: `UserPage.next_cursor` of the page before.

        Raises:
            InputError: if the cursor is not one of this listing.
            StoreError: if the directory is none, or cannot be listed.
        """
        listing = Listing.of("users")
        key = listing.key(cursor, str)
        after = None if key is None else str(key[0])
        found, last = await asyncio.to_thread(survey_after, self.directory, after, limit, self._pool.key)
        return UserPage(found.users, None if last is None else listing.cursor((last,)), found.unreadable)

    @verb()
    async def survey(self) -> Survey:
        """Return the ids of all users, and the files among the memories whose user cannot be read, with the reasons.

        Raises:
            StoreError: if the directory is none, or cannot be listed.
        """
        return await asyncio.to_thread(survey, self.directory, self._pool.key)

    @verb()
    async def has_user(self, user_id: str) -> bool:
        """Return whether the user has a memory."""
        return await asyncio.to_thread(self._pool.exists, user_id)

    @verb("upsert_memory")
    async def ingest_session(
        self,
        user_id: str,
        session_id: str,
        turns: Any,
        *,
        timestamp: TimeLike | None = None,
        infer: bool = True,
        replace: bool = False,
        metadata: Mapping[str, Any] | None = None,
        refresh: bool | None = None,
        budget: Budget | None = None,
        idempotency_key: str | None = None,
        defer: bool = False,
        on_progress: OnProgress | None = None,
    ) -> IngestResult:
        """Store a session and make memory of it; durable when it returns.

        The same session again is a no-op, a longer version appends what is new, a different one is an
        error unless `replace`. An unknown user is registered.

        Args:
            user_id: whose memory.
            session_id: the session's id, unique in the memory.
            turns: mappings with ``role`` or ``speaker``, ``content`` or ``text``, ``timestamp`` and an
                optional ``id``; other keys are kept as metadata. Objects of LangChain, OpenAI's client or your own that
                hold the same are read alike.
            timestamp: the time of turns that have none of their own.
            infer: extract statements; False stores the turns as they are.
            replace: overwrite a stored session that differs.
            metadata: kept with the session.
            refresh: True makes all summaries that are out of date before it returns; False leaves them until they are
                read, or to `flush` or `resume`; None does what `Config.refresh` says.
            budget: what may be spent on models; `Config.ingest_budget` when not given. What it does not reach is
                named in the result and left to `resume`. Summaries that are made behind the write get what is left of it.
            idempotency_key: a name of this write, kept for as long as its session. A call that comes again with it writes
                nothing, finishes what was interrupted, and returns what the first one did; see `IngestResult.replayed`.
            defer: store the turns, durably and to be found by their words, and no more: `resume` makes memory of them, or
                the same session sent again without it. The result's `left` are the chunks to be read.
            on_progress: called with an `IngestProgress` as the turns are stored, chunks read, summaries made, and at the end;
                on the event loop of the call, which waits for it, and never while a transaction is open. It is a plain
                function and should be quick. What it raises ends the call; what was stored stays, and `resume` goes on.

        Raises:
            IdempotencyError: if the key was used for another request.
            InputError: if a turn is malformed (TimestampError: its time), or none has text, or an option is wrong, as
                ``defer`` together with ``refresh=True``; nothing was stored, and an unknown user stays unknown. A turn whose text is missing or cannot be text is refused alone: see
                `IngestResult.refused`.
            SessionConflictError: if the session is stored with other turns.
            StoreError: if the file cannot be written.
        """
        _check_deferring("ingest_session", defer, refresh)
        given = self._session(
            session_id,
            turns,
            timestamp=timestamp,
            infer=infer,
            replace=replace,
            metadata=metadata,
            idempotency_key=idempotency_key,
        )
        session = await redacted(given, self.config)

        def check(label: str) -> None:
            read_turns(session, self.config, label)

        async with self._pool.open(user_id, check=check) as memory:
            writing = memory.ingest(
                [session], refresh=refresh, budget=budget, on_progress=on_progress, defer=defer
            )
            [result] = await as_raised(writing)
        if isinstance(result, MemForestError):
            raise result
        return result

    def _session(
        self,
        session_id: str,
        turns: Any,
        *,
        timestamp: TimeLike | None = None,
        infer: bool = True,
        replace: bool = False,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> SessionInput:
        when = read_time(timestamp, self.config, "timestamp")
        return SessionInput(session_id, messages_of(turns), when, infer, replace, metadata, idempotency_key)

    async def ingest_parallel(
        self,
        requests: list[Any] | tuple[Any, ...],
        *,
        refresh: bool | None = None,
        budget: Budget | None = None,
        defer: bool = False,
        on_progress: OnProgress | None = None,
    ) -> list[IngestResult | MemForestError]:
        """Ingest many sessions and return their results in order; a failed one returns its error.

        Users are worked on in parallel. With a chat model the
        chunks of all sessions of a user are extracted together, and their statements judged together; without one
        the sessions of a user are written one after the other. What sessions share is part of the `usage` of the
        user's last one.

        Args:
            requests: mappings with the arguments of `ingest_session`, but for those that follow.
            refresh: True makes all summaries that are out of date at the end; False leaves them until they are read, or to
                `flush` or `resume`; None does what `Config.refresh` says.
            budget: what may be spent on models for each user; `Config.ingest_budget` when not given.
            defer: store all sessions, each in a short transaction of its own, and leave the rest to `resume`.
            on_progress: see `ingest_session`. A request that is refused before its memory is opened is in the results alone.

        Raises:
            InputError: if `requests` is no list of mappings, or an option is wrong.
        """
        how = {"refresh": refresh, "budget": budget, "defer": defer, "on_progress": on_progress}
        check_options("ingest_parallel", AsyncMemForest.ingest_parallel, {"requests": requests, **how})
        _check_deferring("ingest_parallel", defer, refresh)
        results: Outcomes = {}
        by_user: dict[str, dict[int, SessionInput]] = {}
        for i, request in enumerate(requests):
            try:
                _check_request("ingest_parallel", AsyncMemForest.ingest_session, request, _OF_ALL)
                given = {name: value for name, value in request.items() if name != "user_id"}
                by_user.setdefault(check_id(request["user_id"], "user_id"), {})[i] = self._session(**given)
            except MemForestError as exc:
                results[i] = exc
        jobs = (ingest_sessions(self._pool, user, given, results, how) for user, given in by_user.items())
        await as_raised(bounded(self._max_workers, jobs))
        return [results[i] for i in range(len(requests))]

    @verb()
    async def resume(
        self,
        user_id: str | None = None,
        *,
        budget: Budget | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[IngestResult]:
        """Finish what interrupted, failed or deferred writes left, for one user or for all.

        Sessions received but not ingested, chunks that failed or were left, missing vectors, missing
        summaries.

        Args:
            user_id: whose; None for all users.
            budget: what may be spent on models for each user; `Config.ingest_budget` when not given.
            on_progress: see `ingest_session`; what was received before is not told of again.

        Raises:
            SomeUsersFailedError: if it failed for some of all users. The others are done; their results are `.results`.
            NotFoundError: if the user has no memory.
        """
        resumes = partial(Memory.resume, budget=budget, on_progress=on_progress)
        return await as_raised(for_all("resume", user_id, self._pool, resumes))

    @verb("upsert_memory")
    async def import_file(
        self,
        user_id: str | None,
        file: FileLike | Sequence[FileLike],
        *,
        default_user: str | None = None,
        format: str | None = None,
        session_id: str | None = None,
        timestamp: TimeLike | None = None,
        display_name: str | None = None,
        day_first: bool | None = None,
        infer: bool = True,
        replace: bool = False,
        dry_run: bool = False,
        budget: Budget | None = None,
        on_session: OnSession | None = None,
        on_progress: OnProgress | None = None,
    ) -> ImportResult:
        """Read chat files of other programs into memories; every session is durable when it is counted.

        The formats are those of docs/formats.md, told by what is in a file. Files are read as streams, twice at least: first
        what they hold and whether it fits together, then session by session. A part that cannot be read is named in
        `ImportResult.problems` with its file and place, and everything else is stored. The same file again changes nothing; a
        longer one adds what is new.

        Args:
            user_id: whose memory; None for the users that the files name.
            file: a path, a file open for reading bytes (which is read into memory), or several of them.
            format: the name of the files' format, if it is not to be told by their content.
            session_id: names the files' only session, or a chat that is cut into days (``NAME/2024-05-01``).
            timestamp: the time of messages that have none, neither of their own nor of their session.
            display_name: who the user is: names what says only ``role: user``, and marks the turns of that participant as the user's.
            day_first: whether ``03/04/2024`` is 3 April; None is as `Config.day_first` says, else as the file proves.
            default_user: whose memory where the files do not say.
            infer: extract statements; False stores the turns as they are.
            replace: overwrite stored sessions that differ.
            dry_run: store nothing, and return what would be.
            budget: what may be spent on models for each user; `Config.ingest_budget` when not given.
            on_session: called after each session that was stored, or could not be; must not raise.
            on_progress: called with an `IngestProgress`: first, for each memory, with the turns that the files hold for it, then as
                by `ingest_session`.

        Raises:
            InputError: if a file cannot be read at all or its format or date order is not known, two files have one session, or
                nothing says whose memory it is. Nothing was stored.
            StoreError: if a file of a memory cannot be written; what was counted is stored.
        """
        request = ImportRequest.of(
            self.config,
            file,
            user_id,
            default_user=default_user,
            format=format,
            session_id=session_id,
            timestamp=timestamp,
            display_name=display_name,
            day_first=day_first,
            infer=infer,
            replace=replace,
            dry_run=dry_run,
            budget=budget,
            on_session=on_session,
            on_progress=on_progress,
        )
        return await as_raised(import_files(self._pool, request))

    @takes_user_and_options_of(AsyncUserMemory.search)
    async def query(self, user_id: str, question: str, **options: Any) -> QueryResult:
        """Return ranked evidence for a question, best first; the options are those of `AsyncUserMemory.search`.

        Of a user without a memory it is empty; no memory is made.
        """
        return await self.user(user_id).search(question, **options)

    @takes_user_and_options_of(AsyncUserMemory.search)
    async def ask(self, user_id: str, question: str, **options: Any) -> AskResult:
        """Answer a question from a user's memory, with citations, or abstain; the options are those of `AsyncUserMemory.search`."""
        return await self.user(user_id).ask(question, **options)

    async def query_parallel(
        self, requests: list[Any] | tuple[Any, ...]
    ) -> list[QueryResult | MemForestError]:
        """Answer many queries and return their results in order; a failed one returns its error.

        Args:
            requests: mappings with the arguments of `query`.
        """
        check_options("query_parallel", AsyncMemForest.query_parallel, {"requests": requests})
        results: dict[int, QueryResult | MemForestError] = {}

        async def one(i: int) -> None:
            try:
                _check_request("query_parallel", AsyncMemForest.query, requests[i])
                given = dict(requests[i])
                results[i] = await self.query(given.pop("user_id"), given.pop("question"), **given)
            except MemForestError as exc:
                results[i] = exc

        await bounded(self._max_workers, (one(i) for i in range(len(requests))))
        return [results[i] for i in range(len(requests))]

    @verb("delete_memory")
    async def delete_turn(self, user_id: str, session_id: str, turn_id: str) -> DeleteReceipt:
        """Delete one turn with everything that was made of it; see `AsyncUserMemory.delete`.

        Raises:
            NotFoundError: if there is no such user, session or turn.
            StoreError: if the file cannot be written.
        """
        return await self.user(user_id).delete(turn=(session_id, turn_id))

    @verb("delete_memory")
    async def delete_session(self, user_id: str, session_id: str) -> DeleteReceipt:
        """Delete a session with everything that was made of it; see `AsyncUserMemory.delete`.

        Raises:
            NotFoundError: if there is no such user or session.
            StoreError: if the file cannot be written.
        """
        return await self.user(user_id).delete(session_id=session_id)

    @verb("delete_memory_store")
    async def delete_user(self, user_id: str) -> DeleteReceipt:
        """Delete a user's memory: its files, whatever state they are in.

        Calls on it that are under way in this process end with a `StoreClosedError`; other processes that have it open
        get a `StoreReplacedError` at their next call. The user may be ingested anew at once.

        Raises:
            NotFoundError: if there is no file for the user.
            ForeignStoreError: if the file is another program's, or another user's.
            StoreError: if a file cannot be deleted.
        """
        return await self._pool.remove(user_id)

    @verb("upsert_memory")
    async def merge_user_forests(
        self,
        source_user_ids: Sequence[str],
        target_user_id: str,
        *,
        overwrite: bool = False,
        same_person: bool | None = None,
        dry_run: bool = False,
        refresh: bool | None = None,
        budget: Budget | None = None,
    ) -> ForestMergeResult:
        """Merge several users' memories into one, which is made if there is none; the others stay as they are.

        Args:
            source_user_ids: whose, merged in this order.
            target_user_id: into whose.
            overwrite: a session of the target that has the id of another one, with other turns, is replaced by it. In the
                paper's artifact the whole target is; here nothing goes that is not replaced.
            same_person: see `AsyncUserMemory.merge`, also for the others.
            dry_run: write nothing, and return what would be done.
            refresh: as in `ingest_session`.
            budget: what may be spent on models for each memory.

        Raises:
            InputError: if a user is named twice, or is the target, or it has to be said who is who.
            NotFoundError: if one of them has no memory; nothing was merged then.
        """
        wanted = [check_id(one, "source_user_ids") for one in source_user_ids]
        check_id(target_user_id, "target_user_id")
        if len(set(wanted)) < len(wanted) or not wanted:
            raise InputError("source_user_ids must name each user once, and at least one")
        options = MergeOptions(same_person, dry_run=dry_run, overwrite=overwrite, refresh=refresh)
        for one in wanted:  # who is not there stops the merge before it begins
            async with self._pool.open(one, "refused"):
                pass
        found = [
            await merge_memories(self._pool, target_user_id, self._pool, one, options, budget)
            for one in wanted
        ]
        return ForestMergeResult(target_user_id, tuple(found))

    @verb()
    async def backup(
        self, directory: str | Path, user_id: str | None = None, *, overwrite: bool = False
    ) -> list[BackupResult]:
        """Copy one user's memory, or those of all, into another directory, which then is one of memories too.

        Each is copied as `AsyncUserMemory.backup` does it, at a moment of its own.

        Args:
            directory: made when it does not exist, for its owner alone.
            user_id: whose; None for all users.
            overwrite: replace copies that are there.

        Raises:
            InputError: if the directory is that of the memories, or a copy is there already.
            NotFoundError: if the user has no memory.
            SomeUsersFailedError: if it failed for some of all users; the others are copied.
            StoreError: if the directory cannot be made.
        """
        check_path("backup", "directory", directory)
        folder = Path(directory)
        if await asyncio.to_thread(folder.resolve) == await asyncio.to_thread(self.directory.resolve):
            raise InputError(
                f"{str(folder)!r} is the directory of the memories; name another one for backups"
            )

        async def one(memory: Memory) -> list[BackupResult]:
            await asyncio.to_thread(make_directory, folder)
            return [await backup_memory(memory, folder / memory.db.path.name, overwrite=overwrite)]

        return await for_all("backup", user_id, self._pool, one)

    @verb()
    async def restore(self, source: str | Path) -> str:
        """Copy a backup into the directory as the memory of the user that it is of, and return the user's id.

        The backup is checked, and stays as it is. An encrypted one takes its key, and the salt of the memory: beside the
        backup, or in the directory under the backup's own name; it is put beside the memory.

        Args:
            source: a file that `backup` made.

        Raises:
            InputError: if there is no such file, or the user has a memory here: move it away first, or restore into another
                directory.
            StoreKeyError: if it is encrypted and the key or the salt is missing or another one; or there is a key and it is not.
            StoreError: if the file is no memory, is damaged, or cannot be copied.
        """
        check_path("restore", "source", source)
        return await restore_memory(Path(source), self._pool.directory, self._pool.key)

    @verb()
    async def flush(self, user_id: str | None = None, *, budget: Budget | None = None) -> FlushResult:
        """Wait for the summaries that are made behind writes, make those that are left, and return what all that did.

        Args:
            user_id: whose; None for all users.
            budget: what may be spent on models for each user; `Config.ingest_budget` when not given.

        Raises:
            SomeUsersFailedError: if it failed for some of all users; the others are done.
            NotFoundError: if the user has no memory.
        """

        async def one(memory: Memory) -> list[FlushResult]:
            return [await memory.flush(budget)]

        return reduce(FlushResult.beside, await for_all("flush", user_id, self._pool, one), FlushResult())

    @verb()
    async def rebuild(
        self,
        user_id: str | None = None,
        *,
        stale: bool = False,
        index: str | None = None,
        embedder: bool = False,
        progress: Report | None = None,
        budget: Budget | None = None,
    ) -> None:
        """Make what is derived anew, for one user or for all; see `AsyncUserMemory.rebuild`.

        Raises:
            SomeUsersFailedError: if it failed for some of all users; the others are done.
            NotFoundError: if the user has no memory.
        """
        what = read_rebuild(stale=stale, index=index, embedder=embedder, progress=progress)

        async def one(memory: Memory) -> None:
            await memory.rebuild(what, budget)

        await for_all("rebuild", user_id, self._pool, one, apart=embedder)

    @verb()
    async def save(self, user_id: str | None = None) -> None:
        """Fold the write-ahead log into the files, of one user or of all whose memory is open.

        Adds no durability: every ingest is durable already.

        Raises:
            SomeUsersFailedError: if it failed for some of all users; the others are done.
            NotFoundError: if the user has no memory.
        """
        await for_all("save", user_id, self._pool, Memory.checkpoint, opened=True)

    @verb()
    async def load(self, user_id: str | None = None) -> None:
        """Open a user's memory, or all of them, now instead of at first use.

        Raises:
            SomeUsersFailedError: if it failed for some of all users; the others are open.
            NotFoundError: if the user has no memory.
        """

        async def one(_memory: Memory) -> None:
            """Do nothing: it is open."""

        await for_all("load", user_id, self._pool, one)

    @verb()
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
        return await self._recrypt("encrypt", None, self._own_key(), user_id, progress)

    @verb()
    async def decrypt(self, user_id: str | None = None, *, progress: Progress | None = None) -> Recrypted:
        """Decrypt the memories that are encrypted with the key of the configuration; then use one without it.

        Args:
            user_id: whose; None for all users.
            progress: as for `encrypt`.

        Raises:
            ConfigError: as `encrypt`. Likewise the other errors.
        """
        return await self._recrypt("decrypt", self._own_key(), None, user_id, progress)

    @verb()
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
        new = Key.of(key)
        if new is None:
            raise ConfigError("rekey(key) takes a key, not None; `decrypt` removes the encryption")
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


def _check_deferring(public: str, defer: bool, refresh: bool | None) -> None:
    if defer and refresh:
        raise InputError(
            f"{public}: defer=True leaves the summaries to resume, so refresh=True does not go with it; leave one out"
        )


def _check_request(public: str, function: Any, request: object, but: Sequence[str] = ()) -> None:
    """Raise unless a request of a parallel call is a mapping with the arguments of a verb."""
    if not isinstance(request, Mapping):
        raise InputError(f"{public}: a request must be a mapping, not {shown(request)}")
    check_options(public, function, request, but)
