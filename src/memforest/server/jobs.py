"""Ingest jobs for front ends: `Intake` accepts, reports, cancels, and resumes them after a restart.

A job's sessions are stored durably before it is acknowledged. What is left is that `resume` makes memory of them: user by
user, in the background and within bounds. The rows of jobs say how far that is. Of several servers of one directory one works
on the jobs, which it holds in memory and stores as they change; every answer and every event is read from the rows.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from memforest import errors
from memforest.endpoint import Budget
from memforest.errors import MemForestError
from memforest.plain import Listing, plain
from memforest.progress import IngestProgress
from memforest.protection import Key
from memforest.server.auth import Access, Principal, place_of
from memforest.server.job_rows import ENDED, EventKind, Job, JobEvent, JobPage, JobRows, JobView
from memforest.settings import Bound, Count, Settings, Whole
from memforest.store.directory import file_name, memory_files, owner_of
from memforest.times import Clock, system_clock, to_ms

MOST_SESSIONS = 1000


@dataclass(frozen=True, slots=True)
class IntakeBounds(Settings):
    """Bounds of ingest jobs."""

    most_sessions: Annotated[int, Bound(ge=1, le=MOST_SESSIONS)] = MOST_SESSIONS
    """Most sessions of one job."""
    most_open: Count = 100
    """Most jobs of a tenant that are unfinished at once."""
    most_kept: Whole = 1000
    """Most jobs of a tenant that stay known after their end."""
    keep_days: Annotated[float, Bound(gt=0)] = 7.0
    """How long they do."""
    most_running: Count = 4
    """Most users that are worked on at once."""
    most_of_tenant: Count = 2
    """Most users of one tenant that are worked on at once."""
    most_watchers: Count = 100
    """Most connections of a tenant that follow jobs."""


def hash_of(user_id: str) -> str:
    """Return the hash that names a user in a job: the one at the end of the memory's file name.

    Example:
        >>> file_name("Alice Example").endswith(hash_of("Alice Example") + ".db"), len(hash_of("x"))
        (True, 20)
    """
    return file_name(user_id).removesuffix(".db").rpartition("-")[2]


def user_of(directory: Path, found: str, key: Key | None) -> str:
    """Return the user id of a hash, read from the memory's file.

    Raises:
        NotFoundError: if that memory is gone.
        StoreError: if the file cannot be read.
    """
    for path in memory_files(directory):
        if path.name.endswith(f"-{found}.db") and (user_id := owner_of(path, key)):
            return user_id
    raise errors.NotFoundError("the user has no memory any more")


def digest_of(user_id: str, session_id: str) -> str:
    """Return the digest that names a session in a job."""
    return blake2b(f"{user_id}\0{session_id}".encode(), digest_size=12, person=b"session").hexdigest()


def key_digest(who: Principal, key: str) -> str:
    """Return a digest of an idempotency key, other for each tenant and each user that a caller is bound to."""
    text = json.dumps([who.tenant, who.user, key])
    return blake2b(text.encode(), digest_size=16, person=b"ingest").hexdigest()


def request_digest(digest: str, requests: Sequence[Mapping[str, Any]]) -> str:
    """Return a keyed digest of a request, which reveals nothing without the digest of its idempotency key."""
    text = json.dumps(plain(list(requests)), sort_keys=True)
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16, key=digest.encode()).hexdigest()


class Run(NamedTuple):
    """The work under way on one user's received sessions, for one or more jobs."""

    jobs: list[Job]
    work: asyncio.Task[object]


_log = logging.getLogger(__name__)

RECEIVES = 4
"""Requests that are received at once; each is a few writes to files."""
RECEIVE_S = 5.0
"""How long the end waits for what is being received, beyond what it waits for jobs."""
TAKE_S = 5.0
"""How often a server asks whether the one that works on the jobs has ended."""
LOOK_S = 0.25
"""How often a watcher looks at a job's row."""
FLUSH_S = 0.2
"""How long progress is gathered before it is stored."""
LOCKED_TRIES = 5
LOCKED_S = 2.0
CANCEL_S = 5.0
"""How long work that was cancelled is waited for."""


class Intake:
    """The ingest jobs of all tenants. The next process resumes what this one leaves undone.

    Args:
        access: decides where the memories of a tenant are, and how many ingests it may have.
        bounds: see `IntakeBounds`.
        clock: for the times of jobs.
    """

    def __init__(
        self, access: Access, bounds: IntakeBounds | None = None, *, clock: Clock = system_clock
    ) -> None:
        self.bounds = bounds or IntakeBounds()
        most = self.bounds.most_of_tenant
        self._access = access
        self._clock = clock
        self._rows = JobRows(access.directory(Principal()) / "server")
        self._live: dict[str, Job] = {}
        self._workers: dict[tuple[str | None, str], asyncio.Task[None]] = {}
        self._runs: dict[tuple[str | None, str], Run] = {}
        self._gate = asyncio.Semaphore(self.bounds.most_running)
        self._gates: defaultdict[str | None, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(most))
        self._receives = asyncio.Semaphore(RECEIVES)
        self._receiving: dict[str, asyncio.Task[JobView]] = {}
        self._saving = asyncio.Lock()
        self._owning = asyncio.Lock()
        self._owned = False
        self._taking: asyncio.Task[None] | None = None
        self._ended: Counter[str] = Counter()
        self._watching: Counter[str | None] = Counter()
        self._draining = False

    async def start(self) -> None:
        """Resume the jobs that an earlier process left. Every method calls this first."""
        if self._taking is None:
            self._taking = asyncio.create_task(self._take())

    async def submit(
        self,
        who: Principal,
        requests: Sequence[Mapping[str, Any]],
        *,
        budget: Budget | None = None,
        idempotency_key: str | None = None,
    ) -> JobView:
        """Store sessions durably, and process them in the background.

        A session that cannot be stored is refused alone; `JobView.refused` names its place and the reason. Where an error is
        raised there is no job, and the same request may be sent again.

        Args:
            who: asks.
            requests: as for `AsyncMemForest.ingest_parallel`.
            budget: what may be spent on models for each user.
            idempotency_key: a name of this request: sent again with the same sessions it returns the job that there is.

        Raises:
            InputError: if there are no sessions, or too many.
            IdempotencyError: if the key came with other sessions before.
            RateLimitError: if too many jobs of the tenant are unfinished.
            StoreClosedError: if the server is ending.
            StoreLockedError: if another server works on the jobs of the directory.
            StoreError: if the file of jobs cannot be written.
        """
        await self.start()
        if self._draining:
            raise errors.StoreClosedError("the server is ending; send it again when it is back")
        if not 1 <= len(requests) <= self.bounds.most_sessions:
            raise errors.InputError(f"{len(requests)} sessions; send 1 to {self.bounds.most_sessions}")
        await self._own()
        job = Job(secrets.token_hex(16), who.tenant, _owner(who), self._now_ms(), len(requests))
        if budget is not None:
            job.budget = (budget.max_calls, budget.max_tokens)
        if idempotency_key is not None:
            job.key = key_digest(who, idempotency_key)
            job.request = request_digest(job.key, requests)
        name = job.key or job.id
        while (earlier := self._receiving.get(name)) is not None:
            await asyncio.wait({earlier})
        work = self._receiving[name] = asyncio.create_task(self._receive(who, job, requests))
        work.add_done_callback(lambda _: self._receiving.pop(name))
        return await asyncio.shield(work)  # a client that hangs up leaves nothing half received

    async def job(self, who: Principal, job_id: str) -> JobView:
        """Return a job.

        Raises:
            NotFoundError: if there is none, or it is not for the caller to see.
        """
        return (await self._row(who, job_id)).view()

    async def jobs(self, who: Principal, *, limit: int = 50, cursor: str | None = None) -> JobPage:
        """Return the jobs that the caller may see, the newest first.

        Args:
            who: asks.
            limit: most of them.
            cursor: `JobPage.next_cursor` of the page before.

        Raises:
            InputError: if the cursor is none.
        """
        await self.start()
        listing = Listing.of("jobs")
        key = listing.key(cursor, int)
        before = 2**62 if key is None else int(key[0])
        found = await asyncio.to_thread(self._rows.page, who.tenant, _owner(who), before, limit + 1)
        following = listing.cursor((found[limit - 1].number,)) if len(found) > limit else None
        return JobPage(tuple(one.view() for one in found[:limit]), following)

    async def watch(self, who: Principal, job_id: str, after: int = 0) -> AsyncIterator[JobEvent]:
        """Yield the events of a job after an id, as they come, until it ends. Of events of one kind the last one is kept.

        Raises:
            NotFoundError: as `job`.
            RateLimitError: if too many connections of the tenant follow jobs.
        """
        await self._row(who, job_id)
        if self._watching[who.tenant] >= self.bounds.most_watchers:
            raise errors.RateLimitError(
                f"{self.bounds.most_watchers} connections follow jobs already", retry_after_s=10.0
            )
        return self._events(who, job_id, after)

    async def cancel(self, who: Principal, job_id: str) -> JobView:
        """Cancel a job; one that has ended stays as it is.

        What was received stays stored, and `resume` makes memory of it.

        Raises:
            NotFoundError: as `job`.
            StoreLockedError: if another server works on it.
        """
        if (await self._row(who, job_id)).state not in ENDED:
            await self._own()
            job = self._live.get(job_id)
            if job is not None and job.ended_ms is None:
                job.end("cancelled", self._now_ms())
                for run in self._runs.values():
                    if all(one.ended_ms is not None for one in run.jobs):
                        run.work.cancel()
                await self._save(job)
        return await self.job(who, job_id)

    def counts(self) -> dict[str, int]:
        """Return the number of jobs by state: queued and running now, and ended in this process."""
        found = Counter({"queued": 0, "running": 0, **self._ended})
        # One that has ended is live until it is stored.
        found.update(job.state for job in self._live.values())
        return found

    @property
    def watchers(self) -> int:
        """Number of connections that follow jobs now."""
        return sum(self._watching.values())

    def refuse(self) -> None:
        """Refuse new jobs, and begin no more work on the present ones."""
        self._draining = True

    async def close(self, *, within_s: float = 0.0) -> None:
        """Wait some seconds for work under way, and leave the rest for the next start."""
        self.refuse()
        if self._taking is not None:
            self._taking.cancel()
        if self._receiving:
            await asyncio.wait(self._receiving.values(), timeout=within_s + RECEIVE_S)
        for wait_s in (within_s, CANCEL_S):
            if self._workers:
                _, late = await asyncio.wait(self._workers.values(), timeout=wait_s)
                for task in late:
                    task.cancel()
        for job in [one for one in self._live.values() if one.left and one.ended_ms is None]:
            job.state = "queued"
            with suppress(errors.StoreError):  # the next start goes on with it all the same
                await self._save(job)
        self._live.clear()
        with suppress(MemForestError):
            await asyncio.to_thread(self._rows.close)

    async def _take(self) -> None:
        """Take the jobs that there are as soon as no other server works on them."""
        while not self._owned:
            try:
                if await asyncio.to_thread(self._rows.unfinished):
                    await self._own()
            except errors.StoreError as exc:
                _log.warning("ingest jobs are not worked on here, for now: %s", type(exc).__name__)
            await asyncio.sleep(TAKE_S)

    async def _own(self) -> None:
        """Become the server that works on the jobs, and go on with those that there are.

        Raises:
            StoreLockedError: if another one is that.
            StoreError: if the file of jobs or its lock cannot be used.
        """
        async with self._owning:
            if self._owned:
                return
            await asyncio.to_thread(self._rows.own)
            for job in await asyncio.to_thread(self._rows.unfinished):
                job.state = "queued"
                self._live[job.id] = job
                self._work_on(job)
            self._owned = True

    async def _receive(self, who: Principal, job: Job, requests: Sequence[Mapping[str, Any]]) -> JobView:
        """Store the sessions of a new job and then the job, and begin to work on it."""
        async with self._receives:
            found = None if job.key is None else await asyncio.to_thread(self._rows.keyed, job.key)
            if found is not None and found.request != job.request:
                raise errors.IdempotencyError("the idempotency key came with other sessions; take another")
            if found is not None:
                return found.view()
            if len(self._open(who.tenant)) >= self.bounds.most_open:
                raise errors.RateLimitError(
                    f"{self.bounds.most_open} jobs are unfinished already", retry_after_s=5.0
                )
            self._live[job.id] = job
            try:
                before = to_ms(self._clock() - timedelta(days=self.bounds.keep_days))
                await asyncio.to_thread(self._rows.delete_old, who.tenant, before, self.bounds.most_kept)
                problems = await self._store(who, job, requests)
                if not job.left:
                    job.error = job.refused[0][1]
                    job.end("failed", self._now_ms())
                await self._save(job, "received")
            except BaseException:
                self._live.pop(job.id, None)
                raise
        self._work_on(job)
        return job.view(problems)

    async def _store(
        self, who: Principal, job: Job, requests: Sequence[Mapping[str, Any]]
    ) -> dict[int, MemForestError]:
        """Store the sessions of a job, count them in it, and return the errors of the others by position."""
        problems: dict[int, MemForestError] = {}
        for place, request in enumerate(requests):
            try:
                who.user_id(request.get("user_id", ""))
            except errors.NotFoundError as exc:
                problems[place] = exc
        places = [place for place in range(len(requests)) if place not in problems]
        async with self._access.forest(who) as forest:
            results = await forest.ingest_parallel([requests[place] for place in places], defer=True)
        for place, result in zip(places, results, strict=True):
            if isinstance(result, MemForestError):
                problems[place] = result
                continue
            user_id, session_id = (requests[place][name] for name in ("user_id", "session_id"))
            user = hash_of(user_id)
            job.names[user] = user_id
            job.left.setdefault(user, []).append(digest_of(user_id, session_id))
            job.turns += result.turns_added
        job.users, job.received = len(job.left), len(requests) - len(problems)
        job.refused = [(place, type(problems[place]).__name__) for place in sorted(problems)]
        if len({str(one.get("user_id")) for one in requests}) == 1 and job.left:
            [job.owner] = job.left
        return problems

    def _open(self, tenant: str | None) -> list[Job]:
        """Return the jobs of a tenant that have not ended."""
        return [one for one in self._live.values() if one.tenant == tenant and one.ended_ms is None]

    def _work_on(self, job: Job) -> None:
        """See that each user of a job that is not done is worked on."""
        for user in job.left:
            at = (job.tenant, user)
            if job.ended_ms is None and at not in self._workers and not self._draining:
                self._workers[at] = asyncio.create_task(self._work(*at))

    def _waiting(self, tenant: str | None, user: str) -> list[Job]:
        """Return the jobs that wait for a user; none when the server ends."""
        return [] if self._draining else [job for job in self._open(tenant) if user in job.left]

    async def _work(self, tenant: str | None, user: str) -> None:
        """Work on one user, once at a time, while a job waits for them."""
        try:
            while self._waiting(tenant, user):  # noqa: ASYNC110 - a turn is work
                await asyncio.sleep(await self._turn(tenant, user))
        except errors.StoreError as exc:  # the file of jobs fails: the next start goes on with them
            _log.error("jobs are left for the next start: %s", type(exc).__name__)
        finally:
            del self._workers[tenant, user]

    async def _turn(self, tenant: str | None, user: str) -> float:
        """Work on one user once if there is room; return the seconds after which to try again."""
        async with self._gates[tenant], self._gate:
            jobs = self._waiting(tenant, user)
            if not jobs:
                return 0.0
            work = asyncio.create_task(self._resume(tenant, user, jobs))
            self._runs[tenant, user] = Run(jobs, work)
            try:
                while not work.done():
                    await asyncio.wait({work}, timeout=FLUSH_S)
                    for job in [one for one in jobs if one.news]:
                        await self._save(job)
            finally:
                work.cancel()
                await asyncio.wait({work}, timeout=CANCEL_S)
                del self._runs[tenant, user]
        error = None if work.cancelled() else work.exception()
        if isinstance(error, errors.RateLimitError):
            return min(max(error.retry_after_s, 0.05), 5.0)
        if error is not None:
            _log.warning("the ingest of a user ended with %s at %s", type(error).__name__, place_of(error))
            if not isinstance(error, MemForestError):
                error = MemForestError()  # what another says may hold anything
        for job in [one for one in jobs if one.ended_ms is None]:  # others were cancelled meanwhile
            job.finish_user(user, error)
            if not job.left:
                job.end("failed" if job.error else "finished", self._now_ms())
            await self._save(job)
        return 0.0

    async def _resume(self, tenant: str | None, user: str, jobs: Sequence[Job]) -> object:
        """Make memory of what was received for a user, and count it in the jobs that wait for it."""
        who = Principal(tenant=tenant, key="ingest")
        async with self._access.ingesting(who), self._access.forest(who) as forest:
            for job in [one for one in jobs if one.state == "queued"]:
                job.state = "running"
                await self._save(job)
            names = [job.names[user] for job in jobs if user in job.names]
            key = Key.of(forest.config.key)
            user_id = names[0] if names else await asyncio.to_thread(user_of, forest.directory, user, key)
            refreshed = [job.refreshed for job in jobs]

            def on_progress(step: IngestProgress) -> None:
                for job, before in zip(jobs, refreshed, strict=True):
                    if job.ended_ms is None and step.session_id is not None:
                        job.note(user, digest_of(user_id, step.session_id), step)
                    elif step.stage == "refreshed" and before + step.done > job.refreshed:
                        job.refreshed = before + step.done
                        job.news.add("refreshed")

            for tries_left in reversed(range(LOCKED_TRIES)):
                try:
                    return await forest.resume(user_id, budget=_budget(jobs), on_progress=on_progress)
                except errors.StoreLockedError:
                    if not tries_left:
                        raise
                    await asyncio.sleep(LOCKED_S)
        return None

    async def _save(self, job: Job, *news: EventKind) -> None:
        """Store a job as it is, with the events that tell of its news.

        One is stored after the other, also when the caller is cancelled: no earlier state lands over a later one.
        """
        job.news.update(news)

        async def store() -> None:
            async with self._saving:
                job.tell(self._now_ms())
                await asyncio.to_thread(self._rows.save, job.row())
                if job.ended_ms is not None and self._live.pop(job.id, None) is not None:
                    self._ended[job.state] += 1

        await asyncio.shield(asyncio.create_task(store()))

    async def _row(self, who: Principal, job_id: str) -> Job:
        await self.start()
        job = await asyncio.to_thread(self._rows.job, who.tenant, _owner(who), job_id)
        if job is None:
            raise errors.NotFoundError("there is no such job")
        return job

    async def _events(self, who: Principal, job_id: str, after: int) -> AsyncIterator[JobEvent]:
        self._watching[who.tenant] += 1
        try:
            while True:
                job = await self._row(who, job_id)
                for event in job.events_after(after):
                    yield event
                    after = event.id
                if job.state in ENDED or self._draining:
                    return
                await asyncio.sleep(LOOK_S)
        finally:
            self._watching[who.tenant] -= 1

    def _now_ms(self) -> int:
        return to_ms(self._clock())


def _owner(who: Principal) -> str | None:
    """Return the hash of the only user that a caller sees; None for one who sees all of the tenant."""
    return None if who.user is None else hash_of(who.user)


def _budget(jobs: Sequence[Job]) -> Budget | None:
    """Return the budget of all jobs of a run together; None for the configuration's."""
    given = [Budget(*job.budget) for job in jobs if job.budget is not None]
    return reduce(Budget.plus, given) if len(given) == len(jobs) else None
