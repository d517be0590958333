"""An operation over all users: one that fails does not keep it from the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from memforest.errors import MemForestError, SomeUsersFailedError
from memforest.forest.pool import MemoryPool
from memforest.memory.memory import Memory
from memforest.memory.open import Survey, is_own_name

__all__ = ["for_all"]


async def for_all(
    operation: str,
    found: Survey,
    pool: MemoryPool,
    verb: Callable[[Memory], Awaitable[object]],
    results: Sequence[Any] = (),
) -> None:
    """Run a verb on the memories of all users, one after the other.

    Args:
        operation: its name, for messages.
        found: who there is.
        pool: opens their memories.
        verb: what to do.
        results: what it has made so far, for the error.

    Raises:
        SomeUsersFailedError: if it failed for some, or the user of a file named like a memory could not be read.
    """
    errors: dict[str, MemForestError] = {}
    for user in found.users:
        try:
            await pool.known(user, verb)
        except MemForestError as exc:
            errors[user] = exc
    # What somebody else keeps under another kind of name is none of ours to finish.
    files = {one.file: one.error for one in found.unreadable if is_own_name(one.file)}
    if errors or files:
        raise SomeUsersFailedError(operation, errors, files, results)
