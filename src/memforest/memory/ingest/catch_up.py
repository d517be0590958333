"""Advancing indexes that lag behind the feed: after a crash, an error, or their addition; deferred ones after each write.

Each step is a transaction of its own, so that other writers wait for none of them long, and a crash loses no more
than the step that it ends.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from memforest.concurrency import to_thread
from memforest.memory.host import MemoryHost
from memforest.store import feed, indexes
from memforest.store.db import Database
from memforest.store.savepoint import IndexProblem, attempted, described, named
from memforest.systems.attached import Attached
from memforest.systems.base import Index


async def catch_up(
    host: MemoryHost, attached: Attached, names: Collection[str] | None = None, *, failed: bool = True
) -> list[str]:
    """Bring indexes up to the end of the feed; return which could not be, and why.

    Args:
        host: the memory.
        attached: its indexes.
        names: of these; None for all that are behind, or deferred. Those that cannot be used here are passed over.
        failed: also those that have failed before.

    Raises:
        StoreError: if the memory cannot be written.
    """
    problems: list[str] = []
    for index in await to_thread(_wanted, host.db, attached, names, failed):
        until, lost = await to_thread(_target, host.db, attached, index.name)
        if lost is not None:
            problems.append(lost)
        elif (error := await attempted(index.advance(host, until))) is not None:
            why = described(error)
            await host.write(partial(indexes.stop, name=index.name, reason=why))
            goes_on = "it stays behind, and resume() moves it on"
            problems.append(
                IndexProblem.of(
                    f"the index {index.name!r} {why}; {goes_on}",
                    f"the index {index.name!r} failed: {named(error)}; {goes_on}",
                )
            )
        elif await to_thread(_is_stopped, host.db, index.name):  # by what failed before, also elsewhere
            await host.write(partial(indexes.go_on, name=index.name))
    return problems


def _wanted(db: Database, attached: Attached, names: Collection[str] | None, failed: bool) -> list[Index]:
    with db.read() as tx:
        stopped = {row.name for row in indexes.rows(tx) if row.reason is not None}
        behind = attached.lagging(tx)
        return [
            index
            for index in attached.of(tx)
            if (
                index.name in behind or index.deferred or index.paced
                if names is None
                else index.name in names
            )
            and (failed or index.name not in stopped)
        ]


def _target(db: Database, attached: Attached, name: str) -> tuple[int, str | None]:
    """Return the end of the feed, and why an index cannot go on to it from where it stands."""
    with db.read() as tx:
        row = indexes.find(tx, name)
        return feed.position(tx), None if row is None else attached.lost(tx, row)


def _is_stopped(db: Database, name: str) -> bool:
    with db.read() as tx:
        row = indexes.find(tx, name)
        return row is not None and row.reason is not None
