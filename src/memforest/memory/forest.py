"""The memories of many users in one directory. `user` returns one memory; the other verbs concern several.

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

    One object serves event loops in several threads. Closing it ends all running calls with a `StoreClosedError`.

    Args:
        directory: where the files are. It is made at the first write, and only you can read it.
        config: see `Config`; None is `load_default_config()`.
        max_workers: how many sessions or queries `ingest_parallel` and `query_parallel` work on at once.

    Raises:
        ConfigError: if an argument is of the wrong type or out of range, or `config` names an unknown model.
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
        """Return one user's memory, with the verbs for daily use. Nothing is opened or made yet."""
        return AsyncUserMemory(self._pool, check_id(user_id, "user_id"))

    @verb("create_memory_store")
    async def register_user(
        self, user_id: str, *, display_name: str | None = None, load_existing: bool = True
    ) -> None:
        """Make a user's memory, or open an existing one.

        Args:
            user_id: any non-empty text; it never becomes a path.
            display_name: the speaker's name for turns with the role ``user``. Default: the id.
            load_existing: False is an error if the user has a memory. (In the paper's artifact, False begins an empty
                memory that replaces the stored one. Here nothing is overwritten.)

        Raises:
            InputError: if the id or the name is not a usable text, or `load_existing` is False and the user has a
                memory.
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

        If a file's user cannot be read (damaged, locked for long, another program's), a warning is logged. `survey`
        returns such files with the reason.

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

        Only the files of the page are opened. While users come and go, no other user is on two pages or missing.

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
        """Return the ids of all users, and the files whose user cannot be read, with the reasons.

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
        """Store a session and extract its facts. The session is durable when this returns.

        The same session again changes nothing. A longer version adds what is new. A different one is an error unless
        you give `replace`. An unknown user is registered.

        Args:
            user_id: the user whose memory it is.
            session_id: the session's id, unique in the memory.
            turns: mappings with ``role`` or ``speaker``, ``content`` or ``text``, ``timestamp`` and an
                optional ``id``. Other keys are stored as metadata. Message objects of LangChain, of OpenAI's client or
                of your own work too.
            timestamp: the time of turns without a time.
            infer: extract facts; False stores the turns only.
            replace: overwrite a stored session that differs.
            metadata: stored with the session.
            refresh: True makes all outdated summaries before it returns. False leaves them until they are read, or to
                `flush` or `resume`. None does what `Config.refresh` says.
            budget: what may be spent on models; `Config.ingest_budget` when not given. The result names what is left
                undone for `resume`. Summaries in the background get the rest of the budget.
            idempotency_key: a name of this write, kept as long as its session. A second call with it writes nothing
                new, finishes what was interrupted, and returns the first result. See `IngestResult.replayed`.
            defer: only store the turns. They are durable, and search finds them by their words. `resume` extracts
                their facts, or the same call without `defer`. The result's `left` are the chunks to be read.
            on_progress: called with an `IngestProgress` when turns are stored, chunks read and summaries made, and at
                the end. It must be a plain, quick function: the call waits for it, on its event loop. It is never
                called while a transaction is open. If it raises, the call ends; what was stored stays, and `resume`
                goes on.

        Raises:
            IdempotencyError: if the key was used for another request.
            InputError: if a turn is malformed (TimestampError: its time), none has text, or options do not fit
                together, as ``defer`` and ``refresh=True``. Nothing was stored, and an unknown user stays unknown. A
                turn without a usable text is only refused: see `IngestResult.refused`.
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
        """Ingest many sessions, and return their results in order. A failed one returns its error.

        Users are worked on in parallel. With a chat model, the chunks of all sessions of a user are extracted
        together, and their statements are judged together. Without one, the sessions of a user are written one after
        the other. Shared costs are in the `usage` of the user's last session.

        Args:
            requests: mappings with the arguments of `ingest_session`, except those below.
            refresh: True makes all outdated summaries at the end. False leaves them until they are read, or to `flush`
                or `resume`. None does what `Config.refresh` says.
            budget: what may be spent on models for each user; `Config.ingest_budget` when not given.
            defer: only store the sessions, each in a short transaction, and leave the rest to `resume`.
            on_progress: see `ingest_session`. A request that is refused before its memory is opened is not reported.

        Raises:
            InputError: if `requests` is not a list of mappings, or an option is wrong.
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

        It reads unread sessions and failed or left chunks, and makes missing vectors and summaries.

        Args:
            user_id: the user; None for all users.
            budget: what may be spent on models for each user; `Config.ingest_budget` when not given.
            on_progress: see `ingest_session`; turns that were stored before are not reported.

        Raises:
            SomeUsersFailedError: if it failed for some users. The others are done; their results are in `.results`.
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
        """Read chat files of other programs into memories. A session is durable when it is counted.

        docs/formats.md lists the formats; a file's content tells which one it is. Files are read as streams, at least
        twice: first to check them, then session by session. `ImportResult.problems` names each part that cannot be
        read; everything else is stored. The same file again changes nothing, and a longer one adds what is new.

        Args:
            user_id: the user whose memory it is; None for the users that the files name.
            file: a path, a file open for reading bytes (which is read into memory), or several of them.
            format: the name of the files' format. Default: found by their content.
            session_id: id of the files' only session, or of a chat that is cut into days (``NAME/2024-05-01``).
            timestamp: the time of messages that have none, and whose session has none.
            display_name: the user's name. Messages with only the role ``user`` get it, and turns of this participant
                count as the user's.
            day_first: whether ``03/04/2024`` is 3 April. None: as `Config.day_first` says, else as the file's other
                dates prove.
            default_user: the user, if the files do not name one.
            infer: extract facts; False stores the turns only.
            replace: overwrite stored sessions that differ.
            dry_run: store nothing, and return what would be stored.
            budget: what may be spent on models for each user; `Config.ingest_budget` when not given.
            on_session: called after each session, stored or not. It must not raise.
            on_progress: called with an `IngestProgress`: first, for each memory, with the number of its turns in the
                files, then as by `ingest_session`.

        Raises:
            InputError: if a file cannot be read, its format or date order is not known, two files have the same
                session, or no user is named. Nothing was stored.
            StoreError: if a memory's file cannot be written. The counted sessions are stored.
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
        """Return ranked evidence for a question, best first. The options are those of `AsyncUserMemory.search`.

        It is empty if the user has no memory. No memory is made.
        """
        return await self.user(user_id).search(question, **options)

    @takes_user_and_options_of(AsyncUserMemory.search)
    async def ask(self, user_id: str, question: str, **options: Any) -> AskResult:
        """Answer a question from a user's memory, with citations, or abstain; see `AsyncUserMemory.search`."""
        return await self.user(user_id).ask(question, **options)

    async def query_parallel(
        self, requests: list[Any] | tuple[Any, ...]
    ) -> list[QueryResult | MemForestError]:
        """Answer many queries, and return their results in order. A failed one returns its error.

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
        """Delete one turn and everything that was made of it; see `AsyncUserMemory.delete`.

        Raises:
            NotFoundError: if there is no such user, session or turn.
            StoreError: if the file cannot be written.
        """
        return await self.user(user_id).delete(turn=(session_id, turn_id))

    @verb("delete_memory")
    async def delete_session(self, user_id: str, session_id: str) -> DeleteReceipt:
        """Delete a session and everything that was made of it; see `AsyncUserMemory.delete`.

        Raises:
            NotFoundError: if there is no such user or session.
            StoreError: if the file cannot be written.
        """
        return await self.user(user_id).delete(session_id=session_id)

    @verb("delete_memory_store")
    async def delete_user(self, user_id: str) -> DeleteReceipt:
        """Delete a user's memory: its files, whatever state they are in.

        Running calls on it in this process end with a `StoreClosedError`. Other processes that have it open get a
        `StoreReplacedError` at their next call. You can add to the user's memory again at once.

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
        """Merge the memories of several users into one, which may be new. The others do not change.

        Args:
            source_user_ids: the users to merge, in this order.
            target_user_id: the user whose memory they go into.
            overwrite: replace a session of the target if another one has its id and other turns. (In the paper's
                artifact the whole target is replaced. Here nothing else is lost.)
            same_person: see `AsyncUserMemory.merge`, also for the others.
            dry_run: write nothing, and return what would be done.
            refresh: as in `ingest_session`.
            budget: what may be spent on models for each memory.

        Raises:
            InputError: if a user is named twice or is the target, or you must give `same_person`.
            NotFoundError: if one of them has no memory. Nothing was merged.
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
        """Copy one user's memory, or all, into another directory, which you can then open as a forest.

        Each copy is made as by `AsyncUserMemory.backup`, one after the other.

        Args:
            directory: made if it does not exist; only you can read it.
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
        """Copy a backup into the directory, as the memory of its user, and return the user's id.

        The backup is checked, and does not change. An encrypted one needs its key and its salt file. The salt file is
        beside the backup, or in the directory under the backup's name. A copy is put beside the memory.

        Args:
            source: a file that `backup` made.

        Raises:
            InputError: if the file does not exist, or the user has a memory here. Move that away first, or restore
                into another directory.
            StoreKeyError: if its key or salt is missing or wrong, or a key is given and it is not encrypted.
            StoreError: if the file is not a memory, is damaged, or cannot be copied.
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
        """Rebuild derived data, for one user or for all; see `AsyncUserMemory.rebuild`.

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
        """Fold the write-ahead log into the file of one user, or of all open memories.

        Writes are durable without it.

        Raises:
            SomeUsersFailedError: if it failed for some of all users; the others are done.
            NotFoundError: if the user has no memory.
        """
        await for_all("save", user_id, self._pool, Memory.checkpoint, opened=True)

    @verb()
    async def load(self, user_id: str | None = None) -> None:
        """Open one memory, or all, now instead of at the first use.

        Raises:
            SomeUsersFailedError: if it failed for some of all users; the others are open.
            NotFoundError: if the user has no memory.
        """

        async def one(_memory: Memory) -> None:
            """Do nothing: it is open."""

        await for_all("load", user_id, self._pool, one)

    @verb()
    async def encrypt(self, user_id: str | None = None, *, progress: Progress | None = None) -> Recrypted:
        """Encrypt the memories with the configured key, if they are not encrypted.

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
        """Decrypt the memories with the configured key. Then use a configuration without a key.

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
        """Change the key of the memories. Then use a configuration with the new key.

        The salts stay: an older backup still opens with the old key.

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
        """Close every open memory. Each opens again at its next use.

        Summaries that are made in the background stop, and the next refresh makes them. With
        ``Config(refresh="close")``, summaries of the open memories are made first.
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
