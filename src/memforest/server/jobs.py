"""Ingest jobs for front ends: `Intake` accepts, reports, cancels, and resumes them after a restart."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, cast

from memforest import errors
from memforest.endpoint import Budget
from memforest.errors import MemForestError
from memforest.plain import plain
from memforest.server import job_rows
from memforest.server.auth import Access, Principal
from memforest.server.job_rows import JobRow, JobRows, JobView, SessionRow
from memforest.server.job_runs import (
    LiveJob,
    OnlyOne,
    Runner,
    TenantJobs,
    counts,
    digest_of,
    hash_of,
    to_its_end,
)
from memforest.settings import Bound, Count, Settings, Whole
from memforest.times import Clock, system_clock
from memforest.write.turns import check_id

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


MOST_IDLE = 32
"""Tenants whose file of jobs stays open although nothing is under way there."""
_FILE = "server/jobs.sqlite"


def background(name: str | None) -> Principal:
    """Return the principal that runs a tenant's jobs in the background."""
    return Principal(tenant=name, key="ingest")


def job_files(root: Path) -> list[Path]:
    """Return the job files of a server's directory and of its tenants."""
    found = [root / _FILE, *sorted(root.glob(f"tenants/*/{_FILE}"))]
    return [path for path in found if path.is_file()]


_KEY_BYTES = 16


def sessions_of(
    who: Principal, requests: Sequence[Mapping[str, Any]]
) -> tuple[list[SessionRow], dict[int, MemForestError]]:
    """Return the sessions of a request as rows, and the errors of the invalid ones by position."""
    sessions: list[SessionRow] = []
    problems: dict[int, MemForestError] = {}
    for place, request in enumerate(requests):
        try:
            user_id = who.user_id(check_id(request.get("user_id"), "user_id"))
            session_id = check_id(request.get("session_id"), "session_id")
            sessions.append(SessionRow(place, hash_of(user_id), digest_of(user_id, session_id)))
        except MemForestError as exc:
            problems[place] = exc
            sessions.append(SessionRow(place, None, None, "refused", type(exc).__name__))
    return sessions, problems


def with_messages(view: JobView, problems: Mapping[int, MemForestError]) -> JobView:
    """Return a job with the core's messages on its refused sessions, which are not stored."""
    return replace(
        view,
        refused=tuple(
            replace(one, message=job_rows.told(problems[one.place])) if one.place in problems else one
            for one in view.refused
        ),
    )


def key_digest(who: Principal, key: str) -> str:
    """Return a digest of an idempotency key, other for each user that a caller is bound to."""
    return blake2b(f"{who.user}\0{key}".encode(), digest_size=_KEY_BYTES, person=b"ingest").hexdigest()


def request_digest(key: str, requests: Sequence[Mapping[str, Any]]) -> str:
    """Return a keyed digest of a request, which reveals nothing without its idempotency key."""
    text = json.dumps(plain(list(requests)), sort_keys=True)
    return blake2b(text.encode(errors="surrogatepass"), digest_size=_KEY_BYTES, key=key.encode()).hexdigest()


_log = logging.getLogger(__name__)

RECEIVES = 4
"""Requests that are received at once; each is a few writes to files."""
RECEIVE_S = 5.0
"""How long the end waits for what is being received, beyond what it waits for jobs."""
LOCK_FILE = "server/jobs.lock"
TAKE_S = 5.0
"""How often a server asks whether the one that works on the jobs has ended."""
LOOK_S = 5.0
"""How often a watcher looks by itself, for what another process has changed."""


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
        self._access = access
        self._clock = clock
        self._runner = Runner(access, most_running=self.bounds.most_running, now_ms=self._now_ms)
        self._known: OrderedDict[Path, TenantJobs] = OrderedDict()
        self._inside: Counter[Path] = Counter()
        self._watching: Counter[Path] = Counter()
        self._receives = asyncio.Semaphore(RECEIVES)
        self._taking: asyncio.Task[None] | None = None
        self._receiving: set[asyncio.Task[JobView]] = set()
        self._recovered: asyncio.Task[None] | None = None
        self._only = OnlyOne(access.directory(Principal()) / LOCK_FILE)
        self._draining = False

    async def start(self) -> None:
        """Resume the jobs that an earlier process left. Every method calls this first."""
        if self._recovered is None:
            self._recovered = asyncio.create_task(self._recover())
        await asyncio.shield(self._recovered)

    async def submit(
        self,
        who: Principal,
        requests: Sequence[Mapping[str, Any]],
        *,
        budget: Budget | None = None,
        idempotency_key: str | None = None,
    ) -> JobView:
        """Store sessions durably, and process them in the background.

        A session that cannot be stored is refused alone; `JobView.refused` names its place and the reason.

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
            raise errors.InputError(
                f"{len(requests)} sessions; a request has 1 to {self.bounds.most_sessions}"
            )
        await self._only.require()
        work = asyncio.create_task(self._receive(who, requests, budget, idempotency_key))
        self._receiving.add(work)
        work.add_done_callback(self._received)
        return await asyncio.shield(work)  # a client that hangs up leaves nothing half received

    async def job(self, who: Principal, job_id: str) -> JobView:
        """Return a job.

        Raises:
            NotFoundError: if there is none, or it is not for the caller to see.
        """
        await self.start()
        with self._tenant(who) as tenant:
            return await self._view(tenant, await self._row(tenant, who, job_id))

    async def jobs(self, who: Principal, *, limit: int = 50, cursor: str | None = None) -> job_rows.JobPage:
        """Return the jobs that the caller may see, the newest first.

        Args:
            who: asks.
            limit: most of them.
            cursor: `JobPage.next_cursor` of the page before.

        Raises:
            InputError: if the cursor is none.
        """
        await self.start()
        before = None if cursor is None else job_rows.number_of(cursor)
        owner = None if who.user is None else hash_of(who.user)
        with self._tenant(who) as tenant:
            rows = await asyncio.to_thread(tenant.rows.jobs, owner=owner, before=before, limit=limit + 1)
            views = [await self._view(tenant, row) for row in rows[:limit]]
        more = len(rows) > limit
        return job_rows.JobPage(tuple(views), job_rows.cursor_of(rows[limit - 1].number) if more else None)

    async def watch(self, who: Principal, job_id: str, after: int = 0) -> AsyncIterator[job_rows.JobEvent]:
        """Yield the events of a job after an id, as they come, until it ends.

        Raises:
            NotFoundError: as `job`.
            RateLimitError: if too many connections of the tenant follow jobs.
        """
        await self.start()
        with self._tenant(who) as tenant:
            await self._row(tenant, who, job_id)
        if self._watching[tenant.directory] >= self.bounds.most_watchers:
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
        await self.start()
        with self._tenant(who) as tenant:
            row = await self._row(tenant, who, job_id)
            if row.state not in job_rows.ENDED:
                await self._only.require()
                live = tenant.jobs.get(row.number) or LiveJob.of(row, frozenset())
                for run in tenant.forget(row.number):
                    if run.work is not None:
                        run.work.cancel()
                await self._runner.end(tenant, live, "cancelled")
            return await self._view(tenant, await self._row(tenant, who, job_id))

    def counts(self) -> dict[str, int]:
        """Return the number of jobs by state: queued and running now, and ended in this process."""
        now = Counter(job.state for tenant in list(self._known.values()) for job in tenant.jobs.values())
        return {"queued": 0, "running": 0, **now, **self._runner.ended}

    @property
    def watchers(self) -> int:
        """Number of connections that follow jobs now."""
        return sum(self._watching.values())

    def refuse(self) -> None:
        """Refuse new jobs, and begin no more work on the present ones."""
        self._draining = self._runner.parking = True

    async def close(self, *, within_s: float = 0.0) -> None:
        """Wait some seconds for work under way, and leave the rest for the next start."""
        self.refuse()
        if self._taking is not None:
            self._taking.cancel()
        if self._recovered is not None:
            begun = {self._taking or self._recovered, self._recovered, *self._receiving}
            await asyncio.wait(begun, timeout=within_s + RECEIVE_S)
        until = time.monotonic() + within_s
        for tenant in list(self._known.values()):
            try:
                await self._runner.park(tenant, within_s=max(until - time.monotonic(), 0.0))
            finally:
                with suppress(MemForestError):
                    await asyncio.to_thread(tenant.rows.close)
        self._known.clear()
        await asyncio.to_thread(self._only.give)

    def _received(self, work: asyncio.Task[JobView]) -> None:
        self._receiving.discard(work)
        if not work.cancelled():
            work.exception()  # whoever asked has it; one that has gone need not

    async def _receive(
        self, who: Principal, requests: Sequence[Mapping[str, Any]], budget: Budget | None, key: str | None
    ) -> JobView:
        sessions, problems = sessions_of(who, requests)
        files = {one.file for one in sessions if one.file}
        owner = hash_of(who.user) if who.user is not None else (files.pop() if len(files) == 1 else None)
        name = None if key is None else key_digest(who, key)
        digests = None if name is None else (name, request_digest(name, requests))
        async with self._receives:
            with self._tenant(who) as tenant:
                before = self._clock() - timedelta(days=self.bounds.keep_days)
                if await asyncio.to_thread(tenant.rows.count_open) >= self.bounds.most_open:
                    raise errors.RateLimitError(
                        f"{self.bounds.most_open} jobs are unfinished already", retry_after_s=5.0
                    )
                most = self.bounds.most_kept
                await asyncio.to_thread(tenant.rows.delete_old, before_ms=job_rows.ms_of(before), most=most)
                row, new = await asyncio.to_thread(
                    tenant.rows.begin,
                    secrets.token_hex(16),
                    sessions,
                    now_ms=self._now_ms(),
                    owner=owner,
                    budget=(None, None) if budget is None else (budget.max_calls, budget.max_tokens),
                    tenant=who.tenant,
                    key=digests,
                )
                if new:
                    await self._store(tenant, who, row, sessions, requests, problems)
                elif digests is not None and row.request != digests[1]:
                    raise errors.IdempotencyError(
                        "the idempotency key came with other sessions before; take another key"
                    )
                view = await self._view(tenant, await self._row(tenant, who, row.id))
        return with_messages(view, problems)

    async def _store(
        self,
        tenant: TenantJobs,
        who: Principal,
        row: JobRow,
        sessions: Sequence[SessionRow],
        requests: Sequence[Mapping[str, Any]],
        problems: dict[int, MemForestError],
    ) -> None:
        """Store the sessions of a new job, and queue its users."""
        places = [one.place for one in sessions if one.state == "new"]
        try:
            async with self._access.forest(who) as forest:
                results = await forest.ingest_parallel([requests[place] for place in places], defer=True)
        except BaseException as exc:
            await self._runner.end(tenant, LiveJob.of(row, frozenset()), "failed", type(exc).__name__)
            raise
        turns = 0
        states: dict[int, tuple[str, str | None]] = {}
        for place, result in zip(places, results, strict=True):
            if isinstance(result, MemForestError):
                problems[place] = result
                states[place] = ("refused", type(result).__name__)
            else:
                turns += result.turns_added
                states[place] = ("received", None)
        await asyncio.to_thread(tenant.rows.received, row.number, states, turns=turns, now_ms=self._now_ms())
        kept = [one for one in sessions if states.get(one.place, ("",))[0] == "received"]
        tenant.users.update({one.file: str(requests[one.place]["user_id"]) for one in kept if one.file})
        await self._begin(tenant, row, kept)

    async def _begin(self, tenant: TenantJobs, row: JobRow, kept: Sequence[SessionRow]) -> None:
        """Record that a job was received, and start it unless it was cancelled meanwhile."""
        now = await asyncio.to_thread(tenant.rows.job, row.id)
        if now is None or now.state != "queued":
            return
        data = {"turns": now.turns, **counts(now)}
        await asyncio.to_thread(tenant.rows.add_event, row.number, "received", data, at_ms=self._now_ms())
        live = LiveJob.of(row, frozenset(one.digest for one in kept if one.digest))
        if not kept:
            refused = await asyncio.to_thread(tenant.rows.refused, row.number)
            await self._runner.end(tenant, live, "failed", refused[0].error if refused else None)
        elif self._draining:
            await asyncio.to_thread(tenant.rows.set_state, row.number, "parked", now_ms=self._now_ms())
        else:
            self._runner.add(tenant, live, list(dict.fromkeys(one.file for one in kept if one.file)))

    async def _recover(self, after_s: float = 0.0) -> None:
        await asyncio.sleep(after_s)
        paths = await asyncio.to_thread(job_files, self._access.directory(Principal()))
        try:
            if paths:
                await self._only.require()
        except errors.StoreError as exc:
            _log.warning("ingest jobs are not worked on here, for now: %s", type(exc).__name__)
            self._taking = asyncio.create_task(self._recover(TAKE_S))
            return
        for path in paths:
            try:
                await self._recover_tenant(path)
            except MemForestError as exc:
                _log.error("a tenant's jobs could not be read: %s", type(exc).__name__)

    async def _recover_tenant(self, path: Path) -> None:
        rows = JobRows(path)
        try:
            name, found = await asyncio.to_thread(rows.unfinished)
        finally:
            await asyncio.to_thread(rows.close)
        who = background(name)
        if not found or self._access.directory(who) != path.parent.parent:
            return
        with self._tenant(who) as tenant:
            for row, files, digests in found:
                live = LiveJob.of(row, frozenset(digests))
                await to_its_end(tenant.rows.set_state, row.number, "queued", now_ms=self._now_ms())
                if files:
                    self._runner.add(tenant, live, files)
                else:
                    await self._runner.settle(tenant, live)

    @contextmanager
    def _tenant(self, who: Principal) -> Iterator[TenantJobs]:
        """Yield the jobs of the caller's tenant, kept open while in use; some idle tenants' files stay open too."""
        directory = self._access.directory(who)
        tenant = self._known.get(directory)
        if tenant is None:
            rows, gate = JobRows(directory / _FILE), asyncio.Semaphore(self.bounds.most_of_tenant)
            tenant = self._known[directory] = TenantJobs(background(who.tenant), directory, rows, gate)
        self._known.move_to_end(directory)
        self._inside[directory] += 1
        try:
            yield tenant
        finally:
            self._inside[directory] -= 1
            surplus = len(self._known) - MOST_IDLE
            for path, one in list(self._known.items()):
                if surplus > 0 and not (self._inside[path] or one.jobs or one.tasks):
                    one.rows.close()
                    del self._known[path], self._inside[path]
                    surplus -= 1

    async def _row(self, tenant: TenantJobs, who: Principal, job_id: str) -> JobRow:
        row = await asyncio.to_thread(tenant.rows.job, job_id)
        if row is None or (who.user is not None and row.owner != hash_of(who.user)):
            raise errors.NotFoundError("there is no such job")
        return row

    async def _view(self, tenant: TenantJobs, row: JobRow) -> JobView:
        return job_rows.view_of(row, await asyncio.to_thread(tenant.rows.refused, row.number))

    async def _events(self, who: Principal, job_id: str, after: int) -> AsyncIterator[job_rows.JobEvent]:
        with self._tenant(who) as tenant:
            self._watching[tenant.directory] += 1
            try:
                while (row := await asyncio.to_thread(tenant.rows.job, job_id)) is not None:
                    live = tenant.jobs.get(row.number)
                    wake = asyncio.Event() if live is None else live.wake
                    found = await asyncio.to_thread(tenant.rows.events, row.number, after=after)
                    for number, kind, at_ms, data in found:
                        yield job_rows.JobEvent(number, cast(Any, kind), job_rows.time_of(at_ms), data)
                        after = number
                    if not found:
                        if row.state in job_rows.ENDED or self._draining:
                            return
                        with suppress(asyncio.TimeoutError):
                            await asyncio.wait_for(wake.wait(), LOOK_S)
            finally:
                self._watching[tenant.directory] -= 1

    def _now_ms(self) -> int:
        return job_rows.ms_of(self._clock())
