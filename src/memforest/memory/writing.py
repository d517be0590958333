"""The verbs that write: sessions into memories, and what is said just now into one.

An operation over all users: one that fails does not keep it from the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from memforest.config import Config
from memforest.endpoint import Budget
from memforest.errors import MemForestError, SomeUsersFailedError
from memforest.memory import options as options_module
from memforest.memory.memory import Memory
from memforest.memory.options import TimeLike, check_flags, read_budget, read_time
from memforest.memory.pool import MemoryPool
from memforest.memory.spanned import spanned
from memforest.progress import OnProgress, as_raised
from memforest.read.results import IngestResult
from memforest.store.directory import Survey, is_own_name, survey
from memforest.times import floor_ms
from memforest.write.turns import SessionInput, messages_of, read_addition, read_arrival, redacted

Use = Callable[[str, Callable[[Memory], Awaitable[object]]], Awaitable[object]]


async def for_all(
    operation: str,
    user_id: str | None,
    pool: MemoryPool,
    verb: Callable[[Memory], Awaitable[object]],
    *,
    results: Sequence[Any] = (),
    opened: bool = False,
    use: Use | None = None,
) -> None:
    """Run a verb on one user's memory, or on those of all users, one after the other.

    Args:
        operation: its name, for messages.
        user_id: whose; None for all.
        pool: opens their memories.
        verb: what to do.
        results: what it has made so far, for the error.
        opened: all are only those whose memory is open.
        use: runs the verb on a user's memory; None is `MemoryPool.use_existing`.

    Raises:
        NotFoundError: if that user has no memory.
        SomeUsersFailedError: if it failed for some of all, or the user of a file named like a memory could not be read.
    """
    use = use or pool.use_existing
    if user_id is not None:
        await use(user_id, verb)
        return
    found = (
        Survey(tuple(pool.opened)) if opened else await asyncio.to_thread(survey, pool.directory, pool.key)
    )
    errors: dict[str, MemForestError] = {}
    for user in found.users:
        try:
            await use(user, verb)
        except MemForestError as exc:
            errors[user] = exc
    # What somebody else keeps under another kind of name is none of ours to finish.
    files = {one.file: one.error for one in found.unreadable if is_own_name(one.file)}
    if errors or files:
        raise SomeUsersFailedError(operation, errors, files, results)


class WritesMemories:
    """The verbs of a forest that write sessions, and finish what was begun."""

    config: Config
    _pool: MemoryPool
    _max_workers: int

    @spanned("upsert_memory")
    async def ingest_session(
        self,
        user_id: str,
        session_id: str,
        turns: Sequence[Any],
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
            IdempotencyError: if the key was given with another request before.
            InputError: if a turn is malformed (TimestampError: its time), or none has text, or an option is wrong, as
                ``defer`` together with ``refresh=True``; nothing was stored, and an unknown user stays unknown. A turn whose text is missing or cannot be text is refused alone: see
                `IngestResult.refused`.
            SessionConflictError: if the session is stored with other turns.
            StoreError: if the file cannot be written.
        """
        check_flags("ingest_session", infer=infer, replace=replace)
        options_module.check_deferring("ingest_session", defer, refresh)
        options_module.check_hook("ingest_session", on_progress)
        read_budget("ingest_session", budget)
        arrival = SessionInput(
            session_id,
            messages_of(turns),
            timestamp=read_time(timestamp, self.config, "timestamp"),
            infer=infer,
            replace=replace,
            metadata=metadata,
            idempotency_key=idempotency_key,
        )
        arrival = await redacted(arrival, self.config)
        using = self._pool.use(
            user_id,
            lambda memory: memory.ingest(
                [arrival], refresh=refresh, budget=budget, on_progress=on_progress, defer=defer
            ),
            first=lambda label: read_arrival(arrival, self.config, label),
        )
        [result] = await as_raised(using)
        if isinstance(result, MemForestError):
            raise result
        return result

    async def ingest_parallel(
        self,
        requests: Sequence[Mapping[str, Any]],
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
        options_module.check_requests("ingest_parallel", requests)
        options_module.check_deferring("ingest_parallel", defer, refresh)
        options_module.check_hook("ingest_parallel", on_progress)
        read_budget("ingest_parallel", budget)
        results: dict[int, IngestResult | MemForestError] = {}
        options: options_module.IngestOptions = {
            "refresh": refresh,
            "budget": budget,
            "on_progress": on_progress,
            "defer": defer,
        }
        jobs = options_module.ingest_jobs(requests, self._pool, results, options)
        await as_raised(options_module.run_bounded(self._max_workers, jobs))
        return [results[i] for i in range(len(requests))]

    @spanned()
    async def resume(
        self,
        user_id: str | None = None,
        *,
        budget: Budget | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[IngestResult]:
        """Finish what interrupted, failed or deferred writes left, for one user or for all.

        Sessions received but not ingested, chunks that failed or were left, missing vectors, indexes that are behind
        (one that cannot go on is named in the results or in the log) and their due jobs, summaries out of date.

        Args:
            user_id: whose; None for all users.
            budget: what may be spent on models for each user; `Config.ingest_budget` when not given.
            on_progress: see `ingest_session`; what was received before is not told of again.

        Raises:
            SomeUsersFailedError: if it failed for some of all users. The others are done; their results are `.results`.
            NotFoundError: if the user has no memory.
        """
        read_budget("resume", budget)
        options_module.check_hook("resume", on_progress)
        finished: list[IngestResult] = []

        async def one(memory: Memory) -> None:
            finished.extend(await memory.resume(budget, on_progress))

        await as_raised(for_all("resume", user_id, self._pool, one, results=finished))
        return finished


class AddsToMemory:
    """The verb of a handle on one user's memory that adds to it."""

    _pool: MemoryPool
    user_id: str

    @spanned("upsert_memory")
    async def add(
        self,
        content: Any,
        *,
        session_id: str | None = None,
        timestamp: TimeLike | None = None,
        infer: bool = True,
        metadata: Mapping[str, Any] | None = None,
        budget: Budget | None = None,
        idempotency_key: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> IngestResult:
        """Add something said just now: a text (by the user), a message, or a list of messages.

        What has no time of its own is stamped with the clock's and flagged so. A message that is in the session already, by
        its own ``id`` and what it says, is left out, whenever it is said to be said.

        Args:
            content: a text, a message or a list of messages, as for `AsyncMemForest.ingest_session`.
            session_id: appended to this session; when not given, to that of the day of `timestamp`, or of today.
            timestamp: the time of messages that have none.
            infer: False stores the text verbatim, without extraction.
            metadata: kept with each of the messages, beside what they have themselves; see `filters` of `search` and `list`.
            budget: what may be spent on models; `Config.ingest_budget` when not given.
            idempotency_key: a name of this write; a call that comes again with it writes nothing and returns what the first
                one did. See `AsyncMemForest.ingest_session`.
            on_progress: called with how far it has come; see `AsyncMemForest.ingest_session`.

        Raises:
            IdempotencyError: if the key was given with another request before.
            InputError: if a message is malformed, none has text, or one has the id of another message of the session;
                nothing was stored, and an unknown user stays unknown. One whose text is missing or cannot be text is refused alone: see `IngestResult.refused`.
            StoreError: if the file cannot be written.
        """
        check_flags("add", infer=infer)
        read_budget("add", budget)
        options_module.check_hook("add", on_progress)
        if isinstance(content, str):
            content = {"role": "user", "content": content}
        if isinstance(content, (bytes, Mapping)) or not isinstance(content, Sequence):
            content = [content]
        config = self._pool.config
        when = read_time(timestamp, config, "timestamp")
        given = SessionInput(
            session_id, messages_of(content), when, infer, metadata=metadata, idempotency_key=idempotency_key
        )
        new = await redacted(given, config)
        using = self._pool.use(
            self.user_id,
            lambda memory: memory.append(new, budget=budget, on_progress=on_progress),
            first=lambda label: read_addition(new, config, label, floor_ms(config.clock())),
        )
        return await as_raised(using)
