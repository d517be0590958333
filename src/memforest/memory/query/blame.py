"""Turning errors that an index's code raises during a query into errors that name the index."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeVar

from memforest.errors import CorruptStoreError, IndexStateError, MemForestError, StoreError
from memforest.store.db import Database
from memforest.store.savepoint import attempted, described
from memforest.systems.base import MemoryIndex

__all__ = ["asked_of", "blame"]

T = TypeVar("T")


def blame(db: Database, index: MemoryIndex, error: Exception) -> NoReturn:
    """Raise an index's error as one that names the index; raise the file's damage instead where that explains it.

    Raises:
        CorruptStoreError: if the memory is damaged.
        IndexStateError: if it is not. Errors of ours are raised as they are.
    """
    if isinstance(error, MemForestError):
        raise error
    try:
        db.explain(error)
    except CorruptStoreError:
        raise
    except (StoreError, type(error)):
        pass
    told = f"the index {index.name!r} {described(error)}; query(index=...) searches another one"
    raise IndexStateError(told) from error


async def asked_of(db: Database, index: MemoryIndex, work: Callable[[], Awaitable[T]]) -> T:
    """Await what an index does outside of transactions.

    Raises:
        as `blame`.
    """
    done: list[T] = []

    async def run() -> None:
        done.append(await work())

    if (error := await attempted(run())) is not None:
        await asyncio.to_thread(blame, db, index, error)
    return done[0]
