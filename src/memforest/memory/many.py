"""Calls for many users: over all memories in turn, or for the sessions of many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from memforest.concurrency import all_of
from memforest.errors import MemForestError, SomeUsersFailedError
from memforest.memory.memory import Memory
from memforest.memory.pool import MemoryPool
from memforest.memory.verbs import count_upserted, described
from memforest.read.results import IngestResult
from memforest.spans import span, store_id
from memforest.store.directory import Survey, is_own_name, survey
from memforest.write.turns import SessionInput, read_turns, redacted

T = TypeVar("T")

Outcomes = dict[int, IngestResult | MemForestError]
"""Place of a request -> its result or error."""


async def for_all(
    operation: str,
    user_id: str | None,
    pool: MemoryPool,
    work: Callable[[Memory], Awaitable[Sequence[T] | None]],
    *,
    opened: bool = False,
    apart: bool = False,
) -> list[T]:
    """Do work on one user's memory, or on those of all users, one after the other, and return all that comes of it.

    One that fails does not stop the others.

    Args:
        operation: its name, for messages.
        user_id: whose; None for all.
        pool: opens their memories.
        work: what to do with an open memory.
        opened: all are only those whose memory is open.
        apart: open each memory apart, with the configured embedder.

    Raises:
        NotFoundError: if that user has no memory.
        SomeUsersFailedError: if it failed for some of all, or the user of a file named like a memory could not be read.
    """
    opening = pool.apart if apart else partial(pool.open, absent="refused")
    if user_id is not None:
        async with opening(user_id) as memory:
            return list(await work(memory) or ())
    results: list[T] = []
    found = (
        Survey(tuple(pool.opened)) if opened else await asyncio.to_thread(survey, pool.directory, pool.key)
    )
    errors: dict[str, MemForestError] = {}
    for user in found.users:
        try:
            async with opening(user) as memory:
                results += await work(memory) or ()
        except MemForestError as exc:
            errors[user] = exc
    # What somebody else keeps under another kind of name is none of ours to finish.
    files = {one.file: one.error for one in found.unreadable if is_own_name(one.file)}
    if errors or files:
        raise SomeUsersFailedError(operation, errors, files, results)
    return results


async def ingest_sessions(
    pool: MemoryPool,
    user_id: str,
    given: Mapping[int, SessionInput],
    results: Outcomes,
    options: Mapping[str, Any],
) -> None:
    """Ingest the sessions of one user, and put each one's result or error into `results` at its place."""

    def check(label: str) -> None:
        """Raise when no session of a new user can be stored; each one's error is its result."""
        problem = None
        for i, session in sessions.items():
            try:
                read_turns(session, pool.config, label)
                return
            except MemForestError as exc:
                problem = results[i] = exc
        if problem is not None:
            raise problem

    try:
        sessions = {i: await redacted(one, pool.config) for i, one in given.items()}
        with span(*described("ingest_parallel", "upsert_memory")) as current:
            current.set("gen_ai.memory.store.id", store_id(user_id))
            async with pool.open(user_id, check=check) as memory:
                found = await memory.ingest(list(sessions.values()), **options)
            count_upserted(current, found)
    except MemForestError as exc:
        for i in given:
            results.setdefault(i, exc)
    else:
        results.update(zip(given, found, strict=True))


async def bounded(most: int, jobs: Iterable[Awaitable[None]]) -> None:
    """Await jobs, at most so many at once; one that raises cancels the others."""
    gate = asyncio.Semaphore(most)

    async def run(job: Awaitable[None]) -> None:
        async with gate:
            await job

    await all_of(run(job) for job in jobs)
