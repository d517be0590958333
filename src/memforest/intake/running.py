"""Making memory of what was received, user by user, in the background and within bounds."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from memforest.access import Access
from memforest.endpoint import Budget
from memforest.errors import MemForestError, NotFoundError, RateLimitError, StoreError, StoreLockedError
from memforest.forest.forest import AsyncMemForest
from memforest.intake.live import LiveJob, Run, TenantJobs, digest_of, user_of
from memforest.intake.stored import JobRow
from memforest.intake.threads import to_its_end
from memforest.intake.told import NOT_RECEIVED
from memforest.keys import Key
from memforest.memory.progress import IngestProgress

_log = logging.getLogger(__name__)

FLUSH_S = 0.2
"""How long progress is gathered before it is stored and told."""
LOCKED_TRIES = 5
LOCKED_S = 2.0
CANCEL_S = 5.0
"""How long a run that was cancelled is waited for."""


class Runner:
    """Runs jobs. A user is worked on once at a time, for all jobs that wait for them then.

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

    # -- what is to be done -----------------------------------------------------------------------

    def add(self, tenant: TenantJobs, job: LiveJob, files: list[str]) -> None:
        """Let a job's users be worked on."""
        tenant.jobs[job.number] = job
        for file in files:
            tenant.pending.setdefault(file, set()).add(job.number)
            if file not in tenant.tasks:
                tenant.tasks[file] = asyncio.create_task(self._work(tenant, file))

    async def _work(self, tenant: TenantJobs, file: str) -> None:
        """Work on one user for as long as a job waits for them."""
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
        """Work on one user once, when there is room; return after how many seconds to try again if there is none."""
        async with tenant.gate, self._gate:
            try:
                async with self._access.ingesting(tenant.who), self._access.forest(tenant.who) as forest:
                    jobs = tenant.pending.pop(file, set())
                    if not jobs or self.parking:
                        tenant.pending[file] = jobs
                        return 0.0
                    await self._run(tenant, file, Run(jobs), forest)
            except RateLimitError as exc:
                return min(max(exc.retry_after_s, 0.05), 5.0)
            except StoreError as exc:
                if not (jobs := tenant.pending.pop(file, set())):
                    raise  # the file of jobs fails
                for number in jobs & tenant.jobs.keys():  # the memories cannot be had at all
                    await self._end_part(tenant, tenant.jobs[number], file, exc)
        return 0.0

    async def _run(self, tenant: TenantJobs, file: str, run: Run, forest: AsyncMemForest) -> None:
        """Make memory of what was received of one user, and store what became of it in the jobs."""
        tenant.runs[file] = run
        try:
            for number in list(run.jobs):
                await self._set_running(tenant, number)
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

    async def _set_running(self, tenant: TenantJobs, number: int) -> None:
        job = tenant.jobs.get(number)
        if job is not None and job.state != "running":
            job.state = "running"
            await to_its_end(tenant.rows.set_state, job.number, "running", now_ms=self._now_ms())

    async def _resume(
        self, tenant: TenantJobs, file: str, run: Run, forest: AsyncMemForest
    ) -> MemForestError | None:
        """Finish what was received of a user; return the error that it ended with."""
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
            if isinstance(error, StoreLockedError) and (tries := tries + 1) < LOCKED_TRIES:
                await asyncio.sleep(LOCKED_S)
                continue
            if error is not None:
                _log.warning("the ingest of a user ended with %s%s", type(error).__name__, _where(error))
            return error if error is None or isinstance(error, MemForestError) else MemForestError()

    async def _finish(self, tenant: TenantJobs, file: str, run: Run, forest: AsyncMemForest) -> object:
        user_id = tenant.users.get(file)
        if user_id is None:
            user_id = await asyncio.to_thread(user_of, forest.directory, file, Key.of(forest.config.key))
        if user_id is None:
            raise NotFoundError("the user has no memory any more")
        user = tenant.users[file] = user_id

        def on_progress(told: IngestProgress) -> None:
            self._note(tenant, run, user, told)

        return await forest.resume(user_id, budget=_budget(tenant, run), on_progress=on_progress)

    # -- progress ---------------------------------------------------------------------------------

    def _note(self, tenant: TenantJobs, run: Run, user_id: str, told: IngestProgress) -> None:
        """Gather what the core tells of a user; called on the event loop, so nothing is stored here."""
        digest = None if told.session_id is None else digest_of(user_id, told.session_id)
        made = 0
        if told.stage == "refreshed":  # counted from the beginning of the run
            made, run.refreshed = max(told.done - run.refreshed, 0), told.done
            if not made:
                return
        for number in run.jobs:
            job = tenant.jobs[number]
            if digest is not None and digest not in job.digests:
                continue  # a session of another write
            if told.stage == "extracted" and digest is not None:
                job.chunks[digest] = (told.done, told.failed, told.total)
            elif told.stage == "finished" and digest is not None and not told.failed:
                job.finished.add(digest)
            elif told.stage == "refreshed":
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
        """Store the progress that was gathered, and tell who watches."""
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

    # -- ends -------------------------------------------------------------------------------------

    async def _end_part(
        self, tenant: TenantJobs, job: LiveJob, file: str, error: MemForestError | None
    ) -> None:
        await self.flush(tenant, job)
        name = None if error is None else type(error).__name__
        left = await to_its_end(tenant.rows.end_part, job.number, file, error=name, not_received=NOT_RECEIVED)
        if not left:
            await self.settle(tenant, job)

    async def settle(self, tenant: TenantJobs, job: LiveJob) -> None:
        """End a job of which no user is left."""
        errors = await asyncio.to_thread(tenant.rows.part_errors, job.number)
        await self.end(tenant, job, "failed" if errors else "finished", errors[0] if errors else None)

    async def end(self, tenant: TenantJobs, job: LiveJob, state: str, error: str | None = None) -> None:
        """End a job, and tell who watches."""
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
        """Let what is under way end, or leave it after so many seconds; nothing else is begun. For the next start."""
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
            except StoreError as exc:  # the next start goes on with it all the same
                _log.warning("a job was not parked: %s", type(exc).__name__)
            job.state = "parked"
            job.notify()
        tenant.jobs.clear()


def counts(row: JobRow) -> dict[str, Any]:
    """Return the counts of a job that its events tell."""
    names = ("sessions", "received", "done", "chunks", "chunks_done", "chunks_failed")
    return {name: getattr(row, name) for name in names}


def _budget(tenant: TenantJobs, run: Run) -> Budget | None:
    """Return what the jobs of a run may spend together; None is what the configuration says."""
    budgets = [tenant.jobs[number].budget for number in run.jobs]
    given = [one for one in budgets if one is not None]
    if len(given) < len(budgets) or not given:
        return None
    whole = given[0]
    for one in given[1:]:
        whole = whole.plus(one)
    return whole


def _where(error: BaseException) -> str:
    """Return the function in which an error that is none of ours was raised: its message may hold anything."""
    if isinstance(error, MemForestError) or error.__traceback__ is None:
        return ""
    last = error.__traceback__
    while last.tb_next is not None:
        last = last.tb_next
    return f" in {last.tb_frame.f_code.co_name}, line {last.tb_lineno}"
