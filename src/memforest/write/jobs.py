"""Running due jobs: one at a time, each under a lease, by the handler of its owner and kind."""

from __future__ import annotations

import os
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from typing import TypeVar

from memforest.concurrency import to_thread
from memforest.errors import BudgetError, MemForestError, ModelRefusedError, StoreError
from memforest.store import jobs
from memforest.store.database import Database
from memforest.store.jobs import Job, JobKind
from memforest.times import Clock, to_ms

T = TypeVar("T")

Handler = Callable[[Job], Awaitable[None]]
"""Does a job. It may be called for one job more than once, also after it has finished it: a process may die in between.

To write what it has made and finish the job together, it calls `memforest.store.jobs.finish` in its transaction and
rolls back on False; to hold a job longer than `LEASE_MS` it calls `renew`.
"""

Handlers = Mapping[JobKind, Handler]
"""(owner, kind) -> what does such jobs."""

LEASE_MS = 600_000
"""How long a job is held before others take it for abandoned."""

_NOT_THE_JOBS_FAULT = (BudgetError, ModelRefusedError)
"""Errors after which no other job would succeed either."""


async def run_due(db: Database, clock: Clock, handlers: Handlers, *, but: Collection[str] = ()) -> int:
    """Do the jobs that are due, those too that come due meanwhile, the longest due first; return how many were done.

    An error of memforest's is noted in the job, which waits for its next try. A job without a handler here stays, with a
    note, unless its owner is one of `but`, who do their jobs themselves.

    Raises:
        StoreError: if the memory cannot be written.
        Exception: what a handler raises that is no error of memforest's; it is noted in the job, and ends the run.
    """
    holder, kinds = f"{os.getpid()}-{secrets.token_hex(8)}", handlers.keys()
    if await to_thread(_any_open, db):
        await to_thread(_write, db, clock, jobs.note_unhandled, kinds, but=but)
    done = 0
    while (job := await to_thread(_take, db, clock, holder, kinds)) is not None:
        try:
            await handlers[job.owner, job.kind](job)
        except _NOT_THE_JOBS_FAULT as exc:
            await to_thread(_write, db, None, jobs.give_back, job, str(exc))
            return done
        except MemForestError as exc:
            await to_thread(_write, db, clock, jobs.fail, job, str(exc))
        except BaseException as exc:
            why = f"{type(exc).__name__}: {exc}"
            with suppress(StoreError):  # the lease ends by itself
                if isinstance(exc, Exception):
                    _write(db, clock, jobs.fail, job, why)
                else:  # cancelled or interrupted
                    _write(db, None, jobs.give_back, job, why)
            raise
        else:
            done += await to_thread(_write, db, None, jobs.finish, job)
    return done


def _take(db: Database, clock: Clock, holder: str, kinds: Collection[JobKind]) -> Job | None:
    return _write(db, clock, jobs.take, holder, kinds, lease_ms=LEASE_MS) if _any_open(db) else None


def _any_open(db: Database) -> bool:
    """Return whether any job is left: most memories have none, and need no write to find that out."""
    with db.read() as tx:
        return jobs.any_open(tx)


def _write(db: Database, clock: Clock | None, work: Callable[..., T], *args: object, **named: object) -> T:
    """Run a write of jobs in a transaction of its own; with a clock it gets the present as `now_ms`."""
    with db.write() as tx:
        if clock is not None:
            named["now_ms"] = to_ms(clock())
        return work(tx, *args, **named)
