"""Writing a session part by part, so that other writers wait for none of its transactions long."""

from __future__ import annotations

import asyncio
import time

from memforest.concurrency import to_thread
from memforest.config import Config
from memforest.errors import SessionConflictError
from memforest.interval import to_ms
from memforest.memory.host import PAUSE_S
from memforest.memory.ingest.commit import CommittedSession, commit, superseded_texts
from memforest.memory.ingest.extract import ExtractedSession
from memforest.memory.timing import Timer
from memforest.memory.vectors import check_own
from memforest.store.db import Database
from memforest.store.digests import AGAIN
from memforest.systems.attached import Attached, Placings

PART_CELLS = 128
"""Most cells written in one transaction: about half a second's work."""


async def commit_in_parts(
    db: Database,
    config: Config,
    attached: Attached,
    work: ExtractedSession,
    timer: Timer,
) -> CommittedSession | SessionConflictError:
    """Commit the extracted chunks of a session in parts, and return what they added and superseded.

    After a crash between two parts the session is `received`, and `resume` goes on with the cells that are open.

    Args:
        db: the memory.
        config: for the clock.
        attached: the memory's indexes.
        work: the session.
        timer: of the write.

    Returns:
        An error if another writer has overwritten the session meanwhile.

    Raises:
        EmbedderMismatchError: if the memory was given another embedder meanwhile; the session stays `received`.
    """
    damaged = (f"{name} is damaged and its chunk is left; {AGAIN}" for name in work.stored.damaged.values())
    done = CommittedSession(work.reports, work.spent, work.embeds, dict.fromkeys(damaged))
    for at, part in enumerate(work.parts(PART_CELLS)):
        if at:
            await asyncio.sleep(PAUSE_S)
        try:
            await to_thread(_commit_part, db, config, attached, part, done, timer)
        except SessionConflictError as exc:
            return exc
    done.superseded = await to_thread(_superseded, db, work, done)
    return done


def _commit_part(
    db: Database,
    config: Config,
    attached: Attached,
    part: ExtractedSession,
    done: CommittedSession,
    timer: Timer,
) -> None:
    with db.write() as tx:
        if part.model is not None:
            check_own(tx, db.path, part.model)
        commit(tx, Placings(tx, attached), part, to_ms(config.clock()), done)
        written = time.perf_counter()
    timer.add("route.commit", written)


def _superseded(db: Database, work: ExtractedSession, done: CommittedSession) -> list[str]:
    if not done.states:
        return []
    with db.read() as tx:
        return superseded_texts(tx, done.states, work.stored.told.superseded)
