"""The one thing that front ends ask about ingest jobs: take one in, tell of it, cancel it; known after a restart."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from memforest.access import Access, Principal
from memforest.clock import Clock, system_clock
from memforest.endpoint import Budget
from memforest.errors import (
    IdempotencyError,
    InputError,
    MemForestError,
    NotFoundError,
    RateLimitError,
    StoreClosedError,
    StoreError,
)
from memforest.intake.bounds import IntakeBounds
from memforest.intake.live import LiveJob, TenantJobs, hash_of
from memforest.intake.only import OnlyOne
from memforest.intake.requests import key_digest, request_digest, sessions_of, with_messages
from memforest.intake.rows import JobRows
from memforest.intake.running import Runner, counts
from memforest.intake.stored import JobRow, SessionRow
from memforest.intake.tenants import Tenants, background, job_files
from memforest.intake.threads import to_its_end
from memforest.intake.views import (
    ENDED,
    JobEvent,
    JobPage,
    JobView,
    cursor_of,
    ms_of,
    number_of,
    time_of,
    view_of,
)

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
    """Ingest jobs of all tenants. What is not done when the process ends, the next one goes on with.

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
        self._tenants = Tenants(access, most_of_tenant=self.bounds.most_of_tenant)
        self._watching: Counter[Path] = Counter()
        self._receives = asyncio.Semaphore(RECEIVES)
        self._taking: asyncio.Task[None] | None = None
        self._receiving: set[asyncio.Task[JobView]] = set()
        self._recovered: asyncio.Task[None] | None = None
        self._only = OnlyOne(access.directory(Principal()) / LOCK_FILE)
        self._draining = False

    # -- verbs ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Go on with the jobs that an earlier process left. Every verb does so before it begins."""
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
        """Receive sessions durably, and make memory of them in the background.

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
        self._check(requests)
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
        with self._tenants.use(who) as tenant:
            return await self._view(tenant, await self._row(tenant, who, job_id))

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
        before = None if cursor is None else number_of(cursor)
        owner = None if who.user is None else hash_of(who.user)
        with self._tenants.use(who) as tenant:
            rows = await asyncio.to_thread(tenant.rows.jobs, owner=owner, before=before, limit=limit + 1)
            views = [await self._view(tenant, row) for row in rows[:limit]]
        more = len(rows) > limit
        return JobPage(tuple(views), cursor_of(rows[limit - 1].number) if more else None)

    async def watch(self, who: Principal, job_id: str, after: int = 0) -> AsyncIterator[JobEvent]:
        """Return the events of a job behind one, as they come, to its end.

        Raises:
            NotFoundError: as `job`.
            RateLimitError: if too many connections of the tenant follow jobs.
        """
        await self.start()
        with self._tenants.use(who) as tenant:
            await self._row(tenant, who, job_id)
        if self._watching[tenant.directory] >= self.bounds.most_watchers:
            raise RateLimitError(
                f"{self.bounds.most_watchers} connections follow jobs already", retry_after_s=10.0
            )
        return self._events(who, job_id, after)

    async def cancel(self, who: Principal, job_id: str) -> JobView:
        """End a job where it stands; one that has ended stays as it is.

        What was received stays stored, and `resume` makes memory of it.

        Raises:
            NotFoundError: as `job`.
            StoreLockedError: if another server works on it.
        """
        await self.start()
        with self._tenants.use(who) as tenant:
            row = await self._row(tenant, who, job_id)
            if row.state not in ENDED:
                await self._only.require()
                live = tenant.jobs.get(row.number) or LiveJob.of(row, frozenset())
                for run in tenant.forget(row.number):
                    if run.work is not None:
                        run.work.cancel()
                await self._runner.end(tenant, live, "cancelled")
            return await self._view(tenant, await self._row(tenant, who, job_id))

    def counts(self) -> dict[str, int]:
        """Return state -> jobs: those queued and running now, and those that ended in this process."""
        now = Counter(job.state for tenant in self._tenants.all() for job in tenant.jobs.values())
        return {"queued": 0, "running": 0, **now, **self._runner.ended}

    @property
    def watchers(self) -> int:
        """Connections that follow jobs now."""
        return sum(self._watching.values())

    def refuse(self) -> None:
        """Take no more jobs in, and begin nothing more of those that there are."""
        self._draining = self._runner.parking = True

    async def close(self, *, within_s: float = 0.0) -> None:
        """Let what is under way end within so many seconds, and park the rest for the next start."""
        self.refuse()
        if self._taking is not None:
            self._taking.cancel()
        if self._recovered is not None:
            begun = {self._taking or self._recovered, self._recovered, *self._receiving}
            await asyncio.wait(begun, timeout=within_s + RECEIVE_S)
        until = time.monotonic() + within_s
        for tenant in self._tenants.all():
            try:
                await self._runner.park(tenant, within_s=max(until - time.monotonic(), 0.0))
            finally:
                with suppress(MemForestError):
                    await asyncio.to_thread(tenant.rows.close)
        self._tenants.clear()
        await asyncio.to_thread(self._only.give)

    # -- receiving --------------------------------------------------------------------------------

    def _check(self, requests: Sequence[Mapping[str, Any]]) -> None:
        if self._draining:
            raise StoreClosedError("the server is ending; send it again when it is back")
        if not 1 <= len(requests) <= self.bounds.most_sessions:
            raise InputError(f"{len(requests)} sessions; a request has 1 to {self.bounds.most_sessions}")

    def _received(self, work: asyncio.Task[JobView]) -> None:
        self._receiving.discard(work)
        if not work.cancelled():
            work.exception()  # whoever asked has it; one that has gone need not

    async def _receive(
        self,
        who: Principal,
        requests: Sequence[Mapping[str, Any]],
        budget: Budget | None,
        key: str | None,
    ) -> JobView:
        sessions, problems = sessions_of(who, requests)
        files = {one.file for one in sessions if one.file}
        owner = hash_of(who.user) if who.user is not None else (files.pop() if len(files) == 1 else None)
        async with self._receives:
            with self._tenants.use(who) as tenant:
                await self._make_room(tenant)
                row, new = await asyncio.to_thread(
                    tenant.rows.begin,
                    secrets.token_hex(16),
                    sessions,
                    now_ms=self._now_ms(),
                    owner=owner,
                    budget=(None, None) if budget is None else (budget.max_calls, budget.max_tokens),
                    tenant=who.tenant,
                    key=None
                    if key is None
                    else (made := key_digest(who, key), request_digest(made, requests)),
                )
                if new:
                    await self._store(tenant, who, row, sessions, requests, problems)
                elif key is not None and row.request != request_digest(key_digest(who, key), requests):
                    raise IdempotencyError(
                        "the idempotency key came with other sessions before; take another key"
                    )
                view = await self._view(tenant, await self._row(tenant, who, row.id))
        return with_messages(view, problems)

    async def _make_room(self, tenant: TenantJobs) -> None:
        before = self._clock() - timedelta(days=self.bounds.keep_days)
        if await asyncio.to_thread(tenant.rows.count_open) >= self.bounds.most_open:
            raise RateLimitError(f"{self.bounds.most_open} jobs are unfinished already", retry_after_s=5.0)
        await asyncio.to_thread(tenant.rows.delete_old, before_ms=ms_of(before), most=self.bounds.most_kept)

    async def _store(
        self,
        tenant: TenantJobs,
        who: Principal,
        row: JobRow,
        sessions: Sequence[SessionRow],
        requests: Sequence[Mapping[str, Any]],
        problems: dict[int, MemForestError],
    ) -> None:
        """Receive the sessions of a new job, and let its users be worked on."""
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
        """Tell that a job was received, and begin with it; nothing is done for one that was cancelled meanwhile."""
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

    # -- after a start ----------------------------------------------------------------------------

    async def _recover(self) -> None:
        paths = await asyncio.to_thread(job_files, self._access.directory(Principal()))
        try:
            if paths:
                await self._only.require()
        except StoreError as exc:
            _log.warning("ingest jobs are not worked on here, for now: %s", type(exc).__name__)
            self._taking = asyncio.create_task(self._recover_later())
            return
        for path in paths:
            try:
                await self._recover_tenant(path)
            except MemForestError as exc:
                _log.error("a tenant's jobs could not be read: %s", type(exc).__name__)

    async def _recover_later(self) -> None:
        await asyncio.sleep(TAKE_S)
        await self._recover()

    async def _recover_tenant(self, path: Path) -> None:
        rows = JobRows(path)
        try:
            name, found = await asyncio.to_thread(rows.unfinished)
        finally:
            await asyncio.to_thread(rows.close)
        who = background(name)
        if not found or self._access.directory(who) != path.parent.parent:
            return
        with self._tenants.use(who) as tenant:
            for row, files, digests in found:
                live = LiveJob.of(row, frozenset(digests))
                await to_its_end(tenant.rows.set_state, row.number, "queued", now_ms=self._now_ms())
                if files:
                    self._runner.add(tenant, live, files)
                else:
                    await self._runner.settle(tenant, live)

    # -- inside -----------------------------------------------------------------------------------

    async def _row(self, tenant: TenantJobs, who: Principal, job_id: str) -> JobRow:
        row = await asyncio.to_thread(tenant.rows.job, job_id)
        if row is None or (who.user is not None and row.owner != hash_of(who.user)):
            raise NotFoundError("there is no such job")
        return row

    async def _view(self, tenant: TenantJobs, row: JobRow) -> JobView:
        return view_of(row, await asyncio.to_thread(tenant.rows.refused, row.number))

    async def _events(self, who: Principal, job_id: str, after: int) -> AsyncIterator[JobEvent]:
        with self._tenants.use(who) as tenant:
            self._watching[tenant.directory] += 1
            try:
                while (row := await asyncio.to_thread(tenant.rows.job, job_id)) is not None:
                    live = tenant.jobs.get(row.number)
                    wake = asyncio.Event() if live is None else live.wake
                    found = await asyncio.to_thread(tenant.rows.events, row.number, after=after)
                    for number, kind, at_ms, data in found:
                        yield JobEvent(number, cast(Any, kind), time_of(at_ms), data)
                        after = number
                    if not found:
                        if row.state in ENDED or self._draining:
                            return
                        with suppress(asyncio.TimeoutError):
                            await asyncio.wait_for(wake.wait(), LOOK_S)
            finally:
                self._watching[tenant.directory] -= 1

    def _now_ms(self) -> int:
        return ms_of(self._clock())
