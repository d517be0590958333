"""Running ingest jobs: received sessions become memory, user by user, in the background and within bounds.

`OnlyOne` decides which of several servers of one directory works on its jobs: whoever holds a lock that ends with its process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from hashlib import blake2b
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from memforest import errors
from memforest.endpoint import Budget
from memforest.errors import MemForestError
from memforest.memory.forest import AsyncMemForest
from memforest.progress import IngestProgress
from memforest.protection import Key
from memforest.server.auth import Access, Principal, place_of
from memforest.server.job_rows import NOT_RECEIVED, JobRow, JobRows
from memforest.store.directory import file_name, is_own_name, make_directory, memory_files, owner_of


def hash_of(user_id: str) -> str:
    """Return the hash that names a user in a job: the one at the end of the memory's file name.

    Example:
        >>> file_name("Alice Example").endswith(hash_of("Alice Example") + ".db"), len(hash_of("x"))
        (True, 20)
    """
    return _hash(file_name(user_id))


def _hash(name: str) -> str:
    return name.removesuffix(".db").rpartition("-")[2]


def digest_of(user_id: str, session_id: str) -> str:
    """Return the digest that names a session in a job."""
    whose = blake2b(user_id.encode(), digest_size=32, person=b"session").digest()  # of ids of any length
    return blake2b(session_id.encode(), digest_size=12, key=whose, person=b"session").hexdigest()


def user_of(directory: Path, found: str, key: Key | None) -> str | None:
    """Return the user id of a hash, read from the memory's file; None if that memory is gone.

    Raises:
        StoreError: if the file cannot be read.
    """
    for path in memory_files(directory):
        if is_own_name(path.name) and _hash(path.name) == found:
            return owner_of(path, key)
    return None


@dataclass(slots=True)
class LiveJob:
    """A job that has not ended."""

    number: int
    id: str
    digests: frozenset[str]
    budget: Budget | None = None
    state: str = "queued"
    chunks: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """Digest of a session -> chunks done, failed and in all; like the two that follow, what is not stored yet."""
    finished: set[str] = field(default_factory=set)
    refreshed: int = 0
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    flushing: asyncio.Task[None] | None = None
    storing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    def of(cls, row: JobRow, digests: frozenset[str]) -> LiveJob:
        """Return the live job of a stored one."""
        bounds = (row.max_calls, row.max_tokens)
        budget = None if bounds == (None, None) else Budget(*bounds)
        return cls(row.number, row.id, digests, budget)

    def notify(self) -> None:
        """Wake all watchers of the job."""
        woken, self.wake = self.wake, asyncio.Event()
        woken.set()


@dataclass(slots=True)
class JobRun:
    """The work under way on one user's received sessions, for one or more jobs."""

    jobs: set[int]
    work: asyncio.Future[object] | None = None
    refreshed: int = 0
    """Summaries that it has made."""


@dataclass(slots=True)
class TenantJobs:
    """The unfinished jobs of one tenant. Users are named by their hash."""

    who: Principal
    directory: Path
    rows: JobRows
    gate: asyncio.Semaphore
    jobs: dict[int, LiveJob] = field(default_factory=dict)
    users: dict[str, str] = field(default_factory=dict)
    """Hash -> user id, in this process's memory alone."""
    pending: dict[str, set[int]] = field(default_factory=dict)
    runs: dict[str, JobRun] = field(default_factory=dict)
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def forget(self, number: int) -> list[JobRun]:
        """Remove a job from the queue and from runs; return the runs that no job needs any more."""
        for waiting in self.pending.values():
            waiting.discard(number)
        idle = []
        for run in self.runs.values():
            if number in run.jobs:
                run.jobs.discard(number)
                if not run.jobs:
                    idle.append(run)
        return idle


if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class OnlyOne:
    """A file lock for any thread; the system releases it when the process ends.

    Args:
        path: of the file; it is made when the lock is taken for the first time, and stays.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._held: int | None = None

    def take(self) -> bool:
        """Try to take the lock; return whether this process holds it now.

        Raises:
            StoreWriteError: if the file cannot be made.
        """
        with self._lock:
            if self._held is not None:
                return True
            make_directory(self.path.parent)
            try:
                file = os.open(self.path, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o600)
            except OSError as exc:
                raise errors.StoreWriteError(
                    f"the lock of the ingest jobs cannot be made: {exc.strerror}"
                ) from exc
            try:
                if sys.platform == "win32":
                    msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
                else:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # another process has it
                os.close(file)
                return False
            self._held = file
            return True

    async def require(self) -> None:
        """Take the lock, or raise.

        Raises:
            StoreLockedError: if another server has it.
            StoreWriteError: as `take`.
        """
        if not await asyncio.to_thread(self.take):
            raise errors.StoreLockedError(
                "another server works on the ingest jobs of this directory; send it there"
            )

    def give(self) -> None:
        """Release the lock."""
        with self._lock:
            if self._held is not None:
                os.close(self._held)
                self._held = None


P = ParamSpec("P")
T = TypeVar("T")


async def to_its_end(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a thread, as `asyncio.to_thread` does, and wait for its end even when cancelled.

    A thread cannot be cancelled. Without this a write whose task was cancelled lands later, over what was written
    in between: a job that was parked would be stored as running again.

    Raises:
        CancelledError: after the thread's end, when the task was cancelled meanwhile.
    """
    work = asyncio.ensure_future(asyncio.to_thread(call, *args, **kwargs))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        work.exception()  # whoever asked is gone
        raise


_log = logging.getLogger(__name__)

FLUSH_S = 0.2
"""How long progress is gathered before it is stored and told."""
LOCKED_TRIES = 5
LOCKED_S = 2.0
CANCEL_S = 5.0
"""How long a run that was cancelled is waited for."""


class Runner:
    """The background runner of jobs. It works on a user once at a time, for all jobs that wait for that user.

    Args:
        access: bounds the ingests of a tenant, and has its memories.
        most_running: users that are worked on at once, of all tenants.
        now_ms: the clock.
    """

    def __init__(self, access: Access, *, most_running: int, now_ms: Callable[[], int]) -> None:
        self._access = access
        self._gate = asyncio.Semaphore(most_running)
        self._now_ms = now_ms
        self.ended: Counter[str] = Counter()
        """State -> jobs that ended in it, in this process."""
        self.parking = False

    def add(self, tenant: TenantJobs, job: LiveJob, files: list[str]) -> None:
        """Queue a job's users."""
        tenant.jobs[job.number] = job
        for file in files:
            tenant.pending.setdefault(file, set()).add(job.number)
            if file not in tenant.tasks:
                tenant.tasks[file] = asyncio.create_task(self._work(tenant, file))

    async def _work(self, tenant: TenantJobs, file: str) -> None:
        """Work on one user while a job waits for them."""
        try:
            while tenant.pending.get(file) and not self.parking:
                wait_s = await self._turn(tenant, file)
                if wait_s:
                    await asyncio.sleep(wait_s)
        except MemForestError as exc:  # the file of jobs fails: the next start goes on with them
            _log.error("jobs are left for the next start: %s", type(exc).__name__)
        finally:
            tenant.tasks.pop(file, None)
            if not tenant.pending.get(file):
                tenant.pending.pop(file, None)
                tenant.users.pop(file, None)

    async def _turn(self, tenant: TenantJobs, file: str) -> float:
        """Work on one user once if there is room; otherwise return the seconds after which to try again."""
        async with tenant.gate, self._gate:
            try:
                async with self._access.ingesting(tenant.who), self._access.forest(tenant.who) as forest:
                    jobs = tenant.pending.pop(file, set())
                    if not jobs or self.parking:
                        tenant.pending[file] = jobs
                        return 0.0
                    await self._run(tenant, file, JobRun(jobs), forest)
            except errors.RateLimitError as exc:
                return min(max(exc.retry_after_s, 0.05), 5.0)
            except errors.StoreError as exc:
                if not (jobs := tenant.pending.pop(file, set())):
                    raise  # the file of jobs fails
                for number in jobs & tenant.jobs.keys():  # the memories cannot be had at all
                    await self._end_part(tenant, tenant.jobs[number], file, exc)
        return 0.0

    async def _run(self, tenant: TenantJobs, file: str, run: JobRun, forest: AsyncMemForest) -> None:
        """Process one user's received sessions, and store the outcome in the jobs."""
        tenant.runs[file] = run
        try:
            for number in list(run.jobs):
                job = tenant.jobs.get(number)
                if job is not None and job.state != "running":
                    job.state = "running"
                    await to_its_end(tenant.rows.set_state, number, "running", now_ms=self._now_ms())
            error = await self._resume(tenant, file, run, forest)
        except asyncio.CancelledError:
            tenant.pending.setdefault(file, set()).update(run.jobs)
            raise
        finally:
            del tenant.runs[file]
        for number in list(run.jobs):
            job = tenant.jobs.get(number)  # it may have been cancelled meanwhile
            if job is not None:
                await self._end_part(tenant, job, file, error)

    async def _resume(
        self, tenant: TenantJobs, file: str, run: JobRun, forest: AsyncMemForest
    ) -> MemForestError | None:
        """Process a user's received sessions; return the error that ended it, if any."""
        tries = 0
        while True:
            work = run.work = asyncio.ensure_future(self._finish(tenant, file, run, forest))
            try:
                await asyncio.wait({work})
            finally:
                if not work.done():
                    work.cancel()
                    await asyncio.wait({work}, timeout=CANCEL_S)
                if work.done() and not work.cancelled():
                    work.exception()  # read, also when this run is cancelled at the same moment
            if work.cancelled():  # by `cancel`: no job waits for it
                return None
            error = work.exception()
            if isinstance(error, errors.StoreLockedError) and (tries := tries + 1) < LOCKED_TRIES:
                await asyncio.sleep(LOCKED_S)
                continue
            if error is not None:
                # The message of an error that is none of ours may hold anything.
                place = "" if isinstance(error, MemForestError) else f" at {place_of(error)}"
                _log.warning("the ingest of a user ended with %s%s", type(error).__name__, place)
            return error if error is None or isinstance(error, MemForestError) else MemForestError()

    async def _finish(self, tenant: TenantJobs, file: str, run: JobRun, forest: AsyncMemForest) -> object:
        user_id = tenant.users.get(file)
        if user_id is None:
            user_id = await asyncio.to_thread(user_of, forest.directory, file, Key.of(forest.config.key))
        if user_id is None:
            raise errors.NotFoundError("the user has no memory any more")
        user = tenant.users[file] = user_id

        def on_progress(step: IngestProgress) -> None:
            self._note(tenant, run, user, step)

        return await forest.resume(user_id, budget=_budget(tenant, run), on_progress=on_progress)

    def _note(self, tenant: TenantJobs, run: JobRun, user_id: str, step: IngestProgress) -> None:
        """Collect the core's progress for a user; runs on the event loop, so it stores nothing."""
        digest = None if step.session_id is None else digest_of(user_id, step.session_id)
        made = 0
        if step.stage == "refreshed":  # counted from the beginning of the run
            made, run.refreshed = max(step.done - run.refreshed, 0), step.done
            if not made:
                return
        for number in run.jobs:
            job = tenant.jobs[number]
            if digest is not None and digest not in job.digests:
                continue  # a session of another write
            if step.stage == "extracted" and digest is not None:
                job.chunks[digest] = (step.done, step.failed, step.total)
            elif step.stage == "finished" and digest is not None and not step.failed:
                job.finished.add(digest)
            elif step.stage == "refreshed":
                job.refreshed += made
            else:
                continue
            if job.flushing is None:
                job.flushing = asyncio.create_task(self._flush_soon(tenant, job))

    async def _flush_soon(self, tenant: TenantJobs, job: LiveJob) -> None:
        try:
            await asyncio.sleep(FLUSH_S)
            job.flushing = None
            await self.flush(tenant, job)
        except MemForestError as exc:
            _log.warning("progress of a job was not stored: %s", type(exc).__name__)

    async def flush(self, tenant: TenantJobs, job: LiveJob) -> None:
        """Store the collected progress, and notify watchers."""
        async with job.storing:
            chunks, finished, refreshed = job.chunks, job.finished, job.refreshed
            if not (chunks or finished or refreshed):
                return
            job.chunks, job.finished, job.refreshed = {}, set(), 0
            await to_its_end(self._store, tenant, job.number, job.id, chunks, finished, refreshed)
            job.notify()

    def _store(
        self,
        tenant: TenantJobs,
        number: int,
        job_id: str,
        chunks: Mapping[str, tuple[int, int, int]],
        finished: set[str],
        refreshed: int,
    ) -> None:
        now_ms = self._now_ms()
        tenant.rows.progress(number, chunks, finished, refreshed, now_ms=now_ms)
        row = tenant.rows.job(job_id)
        if row is None:
            return
        if chunks or finished:
            tenant.rows.add_event(number, "extracted", counts(row), at_ms=now_ms)
        if refreshed:
            tenant.rows.add_event(number, "refreshed", {"refreshed": row.refreshed}, at_ms=now_ms)

    async def _end_part(
        self, tenant: TenantJobs, job: LiveJob, file: str, error: MemForestError | None
    ) -> None:
        await self.flush(tenant, job)
        name = None if error is None else type(error).__name__
        left = await to_its_end(tenant.rows.end_part, job.number, file, error=name, not_received=NOT_RECEIVED)
        if not left:
            await self.settle(tenant, job)

    async def settle(self, tenant: TenantJobs, job: LiveJob) -> None:
        """End a job that has no user left."""
        failures = await asyncio.to_thread(tenant.rows.part_errors, job.number)
        await self.end(tenant, job, "failed" if failures else "finished", failures[0] if failures else None)

    async def end(self, tenant: TenantJobs, job: LiveJob, state: str, error: str | None = None) -> None:
        """End a job, and notify its watchers."""
        if job.flushing is not None:
            job.flushing.cancel()
            job.flushing = None
        await self.flush(tenant, job)
        await to_its_end(self._store_end, tenant, job, state, error)
        job.state = state
        tenant.jobs.pop(job.number, None)
        self.ended[state] += 1
        job.notify()

    def _store_end(self, tenant: TenantJobs, job: LiveJob, state: str, error: str | None) -> None:
        now_ms = self._now_ms()
        row = tenant.rows.job(job.id)
        if row is not None:
            data = {"state": state, **counts(row), "refreshed": row.refreshed, "error": error}
            tenant.rows.end(job.number, state, data, error=error, now_ms=now_ms)

    async def park(self, tenant: TenantJobs, *, within_s: float) -> None:
        """Wait some seconds for work under way, and begin nothing else; the next start goes on with the rest."""
        self.parking = True
        for file, task in list(tenant.tasks.items()):
            if file not in tenant.runs:
                task.cancel()
        tasks = set(tenant.tasks.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=within_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=CANCEL_S)
        for job in list(tenant.jobs.values()):
            if job.flushing is not None:
                job.flushing.cancel()
                job.flushing = None
            try:
                await self.flush(tenant, job)
                await to_its_end(tenant.rows.set_state, job.number, "parked", now_ms=self._now_ms())
            except errors.StoreError as exc:  # the next start goes on with it all the same
                _log.warning("a job was not parked: %s", type(exc).__name__)
            job.state = "parked"
            job.notify()
        tenant.jobs.clear()


def counts(row: JobRow) -> dict[str, Any]:
    """Return the counts of a job for its events."""
    names = ("sessions", "received", "done", "chunks", "chunks_done", "chunks_failed")
    return {name: getattr(row, name) for name in names}


def _budget(tenant: TenantJobs, run: JobRun) -> Budget | None:
    """Return the budget of all jobs of a run together; None for the configuration's."""
    budgets = [tenant.jobs[number].budget for number in run.jobs]
    given = [one for one in budgets if one is not None]
    return reduce(Budget.plus, given) if given and len(given) == len(budgets) else None
