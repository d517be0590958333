"""Writing a session part by part, so that other writers wait for none of its transactions long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from memforest.config import Config
from memforest.errors import SessionConflictError
from memforest.interval import to_ms
from memforest.memory.host import PAUSE_S
from memforest.memory.ingest.commit import Commit, Extracted, commit, superseded_texts
from memforest.store.db import Database
from memforest.systems.attached import Attached, Placings

__all__ = ["PART_CELLS", "PAUSE_S", "commit_in_parts"]

PART_CELLS = 128
"""Most cells written in one transaction: about half a second's work."""


async def commit_in_parts(
    db: Database, config: Config, attached: Attached, work: Extracted, timed: Callable[[str, float], None]
) -> Commit | SessionConflictError:
    """Commit the extracted chunks of a session in parts, and return what they added and superseded.

    After a crash between two parts the session is `received`, and `resume` goes on with the cells that are open.

    Args:
        db: the memory.
        config: for the clock.
        attached: the memory's indexes.
        work: the session.
        timed: is told a step and when it began (`time.perf_counter`).

    Returns:
        An error if another writer has overwritten the session meanwhile.
    """
    done = Commit()
    for at, part in enumerate(work.parts(PART_CELLS)):
        if at:
            await asyncio.sleep(PAUSE_S)
        try:
            await asyncio.to_thread(_commit_part, db, config, attached, part, done, timed)
        except SessionConflictError as exc:
            return exc
    done.superseded = await asyncio.to_thread(_superseded, db, done)
    return done


def _commit_part(
    db: Database,
    config: Config,
    attached: Attached,
    part: Extracted,
    done: Commit,
    timed: Callable[[str, float], None],
) -> None:
    with db.write() as tx:
        commit(tx, Placings(tx, attached), part, to_ms(config.clock()), done)
        ended = time.perf_counter()
    timed("route.commit", ended)


def _superseded(db: Database, done: Commit) -> list[str]:
    if not done.states:
        return []
    with db.read() as tx:
        return superseded_texts(tx, done.states)
