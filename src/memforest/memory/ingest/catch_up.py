"""Letting indexes that are behind place what they have not: after a crash, an error, or when one was added.

Each step is a transaction of its own, so that other writers wait for none of them long, and a crash loses no more
than the step that it ends.
"""

from __future__ import annotations

import asyncio

from memforest.errors import IndexStateError
from memforest.store import indexes, meta, savepoint
from memforest.store.db import Database
from memforest.systems.attached import Attached

__all__ = ["catch_up"]


async def catch_up(db: Database, attached: Attached, *, failed: bool = True) -> list[str]:
    """Bring every index up to the end of the feed; return which could not be, and why.

    Args:
        db: the memory.
        attached: its indexes.
        failed: also those that have failed before.

    Raises:
        StoreError: if the memory cannot be written.
    """
    problems = []
    for name in await asyncio.to_thread(_lagging, db, attached, failed):
        try:
            while await asyncio.to_thread(_step, db, attached, name):
                pass
        except (_IndexError, IndexStateError) as exc:
            problems.append(str(exc))
    return problems


class _IndexError(Exception):
    """An index raised; its own error is the cause."""


def _lagging(db: Database, attached: Attached, failed: bool) -> list[str]:
    with db.read() as tx:
        lag = attached.lagging(tx)
        return [row.name for row in indexes.rows(tx) if row.name in lag and (failed or row.reason is None)]


def _step(db: Database, attached: Attached, name: str) -> bool:
    """Place the next notes; return whether there are more."""
    with db.write() as tx:
        more: list[bool] = []
        error = savepoint.attempt(tx, lambda: more.append(attached.step(tx, name)))
        if error is not None:
            why = f"failed: {type(error).__name__}: {error}"
            attached.clear(tx, name, why)
        meta.bump(tx)
    if error is not None:
        raise _IndexError(f"the index {name!r} {why}") from error
    return more[0]
