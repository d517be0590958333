"""An operation over all users: one that fails does not keep it from the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from memforest.errors import MemForestError, SomeUsersFailedError
from memforest.forest.pool import MemoryPool
from memforest.memory.directory import Survey, is_own_name, survey
from memforest.memory.memory import Memory

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
