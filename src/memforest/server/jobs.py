"""Ingest jobs: `Intake` accepts sessions of many users, makes memory of them in the background, and tells how far it is.

The sessions of a job are stored durably in the memories before the job is, and the job before it is acknowledged. What is left
is that `resume` reads them, user by user and within bounds. A job is one row, which holds its whole state. Any server
of a directory accepts, shows and cancels jobs. The one that holds the lock works on them. When its process ends,
another takes the lock.

The file holds counts, states and digests: no text, user id or session id. Users are the hash that ends the name of their file.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import sqlite3
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from functools import partial, reduce
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

from memforest import errors
from memforest.endpoint import Budget
from memforest.errors import MemForestError
from memforest.plain import Listing, Result, plain
from memforest.progress import IngestProgress
from memforest.protection import Key
from memforest.server.auth import Access, Principal, place_of
from memforest.server.keys import make_file
from memforest.settings import Count, Settings
from memforest.store.connections import mapped_errors
from memforest.store.directory import file_name, memory_files, owner_of
from memforest.times import Clock, from_ms, system_clock, to_ms

P = ParamSpec("P")
T = TypeVar("T")
_log = logging.getLogger(__name__)

MOST_SESSIONS = 1000
"""Sessions of one job."""
KEEP_DAYS = 7
"""How long jobs stay known after their end."""
MOST_KEPT = 1000
"""Jobs of a tenant that stay known after their end."""
MOST_OF_TENANT = 2
"""Users of one tenant that are worked on at once."""
MOST_WATCHERS = 100
"""Connections of a tenant that follow jobs."""
RECEIVES = 4
"""Requests that are received at once; each is a few writes to files."""
TAKE_S = 2.0
"""How often a server looks for jobs that others have accepted, or left."""
LOOK_S = 0.25
"""How often a watcher looks at a job's row."""
FLUSH_S = 0.2
"""How long progress is gathered before it is stored."""
CANCEL_S = 5.0
"""How long work that was cancelled is waited for."""
WAIT_S = 10.0
"""How long a statement waits for another process."""

JobState = Literal["queued", "running", "finished", "failed", "cancelled"]
Chunks = tuple[int, int, int]
"""Chunks that were read, that failed, and in all."""
ENDED: frozenset[JobState] = frozenset(("finished", "failed", "cancelled"))
"""States in which nothing more happens to a job."""


@dataclass(frozen=True, slots=True)
class IntakeBounds(Settings):
    """Bounds of ingest jobs."""

    most_open: Count = 100
    """Most jobs of a tenant that are unfinished at once."""
    most_running: Count = 4
    """Most users that are worked on at once."""


@dataclass(frozen=True, slots=True, repr=False)
class RefusedSession(Result):
    """A session of the request that was not stored: its position, counted from 0, the error class, and the reason."""

    place: int
    error: str
    message: str


@dataclass(frozen=True, slots=True, repr=False)
class JobView(Result):
    """An ingest job. Counts are of the whole job so far.

    `sessions` came with the request, `received` of them are stored durably, `done` of them are memory. `turns` are those
    that were new. Chunks are pieces of sessions that are read one by one; a failed one is tried again by `resume`, as is
    one that the budget left. `error` is the class of the first error that keeps a user's sessions from becoming memory.
    """

    id: str
    state: JobState
    made_at: datetime
    changed_at: datetime
    ended_at: datetime | None = None
    users: int = 0
    sessions: int = 0
    received: int = 0
    done: int = 0
    turns: int = 0
    chunks: int = 0
    chunks_done: int = 0
    chunks_failed: int = 0
    refused: tuple[RefusedSession, ...] = ()
    error: str | None = None
    message: str | None = None
    last_event: int = 0
    """Id of its last event."""

    @property
    def ended(self) -> bool:
        """Whether the job has ended."""
        return self.state in ENDED


@dataclass(frozen=True, slots=True, repr=False)
class JobPage(Result):
    """A page of jobs, newest first; `next_cursor` is that of the next page, None on the last one."""

    jobs: tuple[JobView, ...]
    next_cursor: str | None = None


@dataclass(slots=True)
class Job:
    """The row of an ingest job. Users are named by their hash."""

    id: str
    tenant: str | None
    owner: str | None
    """The only user that it is about."""
    made_ms: int
    sessions: int
    key: str | None = None
    request: str | None = None
    """Digests of the idempotency key and of what came with it."""
    state: JobState = "queued"
    changed_ms: int = 0
    ended_ms: int | None = None
    last_event: int = 0
    """Counts up each time that the row changes."""
    error: str | None = None
    budget: tuple[int | None, int | None] | None = None
    """Most calls and tokens for each user; None is the configuration's."""
    users: int = 0
    received: int = 0
    done: int = 0
    turns: int = 0
    refused: list[tuple[int, str]] = field(default_factory=list)
    """Position and error class of the sessions that were not stored."""
    left: dict[str, int] = field(default_factory=dict)
    """User -> sessions that are not memory yet; a user goes when the work for them has ended."""
    chunks: dict[str, Chunks] = field(default_factory=dict)
    """User -> chunks of the latest work on them."""
    number: int = 0
    """Of its row."""

    def note(self, user: str, finished: int, chunks: Chunks) -> bool:
        """Note how many more sessions of a user are memory, and how many chunks were read; return whether that is news."""
        before = (self.state, self.done, list(self.chunks.get(user, ())))
        finished = min(finished, self.left[user])
        self.state, self.done, self.chunks[user] = "running", self.done + finished, chunks
        self.left[user] -= finished
        return before != (self.state, self.done, list(chunks))

    def finish_user(self, user: str, error: MemForestError | None) -> bool:
        """Note that the work for a user has ended: with an error, or with memory of all of their sessions."""
        sessions = self.left.pop(user)
        if error is None:
            self.done += sessions
        else:
            self.error = self.error or type(error).__name__
        if not self.left:
            self.state = "failed" if self.error else "finished"
        return True

    def stop(self, state: Literal["queued", "cancelled"]) -> bool:
        """Leave the job for later, or for good; return whether that is news."""
        before, self.state = self.state, state
        return before != state

    def view(self, problems: Mapping[int, MemForestError] | None = None) -> JobView:
        """Return what callers see.

        Args:
            problems: errors of refused sessions by position, which are known to the sender alone and not stored.
        """
        known = problems or {}
        done, failed, chunks = summed(self.chunks)
        same = ("id", "state", "error", "users", "sessions", "received", "done", "turns", "last_event")
        return JobView(
            **{name: getattr(self, name) for name in same},
            made_at=from_ms(self.made_ms),
            changed_at=from_ms(self.changed_ms),
            ended_at=None if self.ended_ms is None else from_ms(self.ended_ms),
            chunks=chunks,
            chunks_done=done,
            chunks_failed=failed,
            refused=tuple(
                RefusedSession(place, name, told(known[place]) if place in known else sentence(name))
                for place, name in self.refused
            ),
            message=None if self.error is None else sentence(self.error),
        )


@dataclass(slots=True)
class Progress:
    """How far the work on a user is: chunks of each session, and sessions that are memory since the last look."""

    chunks: dict[str, Chunks] = field(default_factory=dict)
    finished: int = 0
    begun: bool = False

    def take(self, step: IngestProgress) -> None:
        """Take in what `resume` tells."""
        if step.session_id is not None and step.stage == "extracted":
            self.chunks[step.session_id] = (step.done, step.failed, step.total)
        self.finished += step.session_id is not None and step.stage == "finished" and not step.failed


def summed(chunks: Mapping[str, Chunks]) -> Chunks:
    """Return the chunks of all users or sessions."""
    done, failed, total = (sum(one[at] for one in chunks.values()) for at in range(3))
    return done, failed, total


def sentence(name: str) -> str:
    """Return the message of an error class by its name, without anything of the request.

    Example:
        >>> sentence("NotFoundError"), sentence("no such class") == sentence("MemForestError")
        ('There is no such user, session, fact or entity.', True)
    """
    kind = getattr(errors, name) if name in errors.__all__ else MemForestError
    if kind is MemForestError:
        return "The server failed; its log says why."
    return (kind.__doc__ or kind.__name__).strip().split("\n")[0]


def told(error: MemForestError) -> str:
    """Return an error's message if it is about the request, else its class's: other messages may name files and endpoints."""
    speaks = isinstance(error, (errors.InputError, errors.NotFoundError))
    return str(error) if speaks else sentence(type(error).__name__)


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
    raise errors.NotFoundError("the user's memory was deleted")


def key_digest(who: Principal, key: str) -> str:
    """Return a digest of an idempotency key, other for each tenant and each user that a caller is bound to."""
    text = json.dumps([who.tenant, who.user, key])
    return blake2b(text.encode(), digest_size=16, person=b"ingest").hexdigest()


def request_digest(digest: str, requests: Sequence[Mapping[str, Any]]) -> str:
    """Return a keyed digest of a request, which reveals nothing without the digest of its idempotency key."""
    text = json.dumps(plain(list(requests)), sort_keys=True)
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16, key=digest.encode()).hexdigest()


_SCHEMA = """
PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON;
CREATE TABLE IF NOT EXISTS job (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, tenant TEXT, owner TEXT, key TEXT UNIQUE,
    state TEXT NOT NULL, ended_ms INTEGER, data TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS job_tenant ON job (tenant, number);
CREATE INDEX IF NOT EXISTS job_ended ON job (ended_ms);
"""
_SEEN = "tenant IS ? AND (? IS NULL OR owner = ?)"
_DATA = [one.name for one in fields(Job) if one.name != "number"]


class JobRows:
    """The file of a server's jobs, for one thread at a time. It connects on use, so it may be closed at any time.

    Args:
        directory: of the file and its lock; both are made when they are needed first.
        clock: for the times of changes.

    Raises:
        StoreError: by every method, if the file cannot be read or written.
    """

    def __init__(self, directory: Path, clock: Clock) -> None:
        self.path = directory / "jobs.sqlite"
        self._clock = clock
        self._lock_path = directory / "jobs.lock"
        self._connection: sqlite3.Connection | None = None
        self._held: sqlite3.Connection | None = None

    def own(self) -> None:
        """Become the one process that works on the jobs, until `close` or its end.

        Raises:
            StoreLockedError: if another process is that.
        """
        with mapped_errors(self._lock_path):
            if self._held is None:
                self._held = _connect(self._lock_path, "BEGIN EXCLUSIVE", 0.0)

    def close(self) -> None:
        """Close the file and release the lock; the file opens again at its next use."""
        with mapped_errors(self.path):
            for connection in (self._connection, self._held):
                if connection is not None:
                    connection.close()
            self._connection = self._held = None

    def add(self, job: Job) -> Job:
        """Store a new job, and return it, or the one that has its idempotency key already."""
        self._stamp(job)
        values = (job.id, job.tenant, job.owner, job.key, job.state, job.ended_ms, _data(job))
        self._run(
            "INSERT INTO job (id, tenant, owner, key, state, ended_ms, data) VALUES (?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (key) DO NOTHING",
            *values,
            make=True,
        )
        return (None if job.key is None else self.keyed(job.key)) or job

    def change(self, which: Callable[[Job], bool], how: Callable[[Job], bool]) -> list[Job]:
        """Change those jobs that have not ended and are meant, in one transaction, and return them.

        Args:
            which: says whether a job is meant.
            how: changes a job, and says whether it did.
        """
        with mapped_errors(self.path):
            self._run("BEGIN IMMEDIATE")
            try:
                found = [job for job in self.unfinished() if which(job)]
                for job in filter(how, found):
                    self._stamp(job)
                    self._run(
                        "UPDATE job SET state = ?, ended_ms = ?, data = ? WHERE number = ?",
                        *(job.state, job.ended_ms, _data(job), job.number),
                    )
            except BaseException:
                self._run("ROLLBACK")
                raise
            self._run("COMMIT")
            return found

    def _stamp(self, job: Job) -> None:
        job.changed_ms, job.last_event = to_ms(self._clock()), job.last_event + 1
        job.ended_ms = job.changed_ms if job.state in ENDED else None

    def job(self, tenant: str | None, owner: str | None, job_id: str) -> Job | None:
        """Return a job of a tenant, or None; with `owner`, only one that is about that user alone."""
        return next(iter(self._jobs(f"{_SEEN} AND id = ?", tenant, owner, owner, job_id)), None)

    def keyed(self, key: str) -> Job | None:
        """Return the job of an idempotency key, by its digest, or None."""
        return next(iter(self._jobs("key = ?", key)), None)

    def page(self, tenant: str | None, owner: str | None, before: int, limit: int) -> list[Job]:
        """Return up to `limit` jobs of a tenant, newest first, numbered below `before`; with `owner`, of that user alone."""
        where = f"{_SEEN} AND number < ? ORDER BY number DESC LIMIT ?"
        return self._jobs(where, tenant, owner, owner, before, limit)

    def unfinished(self) -> list[Job]:
        """Return the jobs of all tenants that have not ended, oldest first."""
        return self._jobs("ended_ms IS NULL ORDER BY number")

    def counts(self) -> dict[str, int]:
        """Return the number of jobs of each state."""
        return dict(self._run("SELECT state, count(*) FROM job GROUP BY state"))

    def delete_old(self, tenant: str | None, before_ms: int, most: int) -> None:
        """Delete jobs that ended before a time, and the oldest ended ones of a tenant beyond a number."""
        self._run(
            "DELETE FROM job WHERE ended_ms < ? OR number IN (SELECT number FROM job WHERE tenant IS ? "
            "AND ended_ms IS NOT NULL ORDER BY number DESC LIMIT -1 OFFSET ?)",
            *(before_ms, tenant, most),
        )

    def _jobs(self, where: str, *values: object) -> list[Job]:
        found = self._run(f"SELECT number, data FROM job WHERE {where}", *values)
        return [Job(number=number, **json.loads(data)) for number, data in found]

    def _run(self, sql: str, *values: object, make: bool = False) -> list[Any]:
        """Run a statement; where there is no file it finds nothing, unless one is to be made."""
        with mapped_errors(self.path):
            if self._connection is None and (make or self.path.exists()):
                self._connection = _connect(self.path, _SCHEMA, WAIT_S)
            return [] if self._connection is None else self._connection.execute(sql, values).fetchall()


def _data(job: Job) -> str:
    return json.dumps({name: getattr(job, name) for name in _DATA})


def _connect(path: Path, script: str, wait_s: float) -> sqlite3.Connection:
    """Return a connection to a file that is its owner's alone, after a script."""
    make_file(path)
    connection = sqlite3.connect(path, timeout=wait_s, isolation_level=None, check_same_thread=False)
    try:
        connection.executescript(script)
    except BaseException:
        connection.close()
        raise
    return connection


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
        self._rows = JobRows(access.directory(Principal()) / "server", clock)
        self._gate = asyncio.Semaphore(self.bounds.most_running)
        self._gates: defaultdict[str | None, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(MOST_OF_TENANT)
        )
        self._receives = asyncio.Semaphore(RECEIVES)
        self._thread = ThreadPoolExecutor(1, "memforest-jobs")
        """Reads and writes the rows, one call after the other: nothing that was begun lands after the end."""
        self._working: asyncio.Task[None] | None = None
        self._users: dict[tuple[str | None, str], asyncio.Task[None]] = {}
        self._came = asyncio.Event()
        self._watching: Counter[str | None] = Counter()
        self._owned = self._draining = False

    async def start(self) -> None:
        """Go on with the jobs that an earlier process left. Every method calls this first."""
        if self._working is None:
            self._working = asyncio.create_task(self._work())

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
            StoreError: if the file of jobs cannot be written.
        """
        await self.start()
        if self._draining:
            raise errors.StoreClosedError("the server is stopping; send the request again when it is back")
        if not 1 <= len(requests) <= MOST_SESSIONS:
            raise errors.InputError(f"the request has {len(requests)} sessions; send 1 to {MOST_SESSIONS}")
        job = Job(secrets.token_hex(16), who.tenant, _owner(who), to_ms(self._clock()), len(requests))
        if budget is not None:
            job.budget = (budget.max_calls, budget.max_tokens)
        found = None
        async with self._receives:
            if idempotency_key is not None:
                job.key = key_digest(who, idempotency_key)
                job.request = request_digest(job.key, requests)
                found = await self._run(self._rows.keyed, job.key)
            problems: dict[int, MemForestError] = {}
            if found is None:
                await self._make_room(who.tenant)
                problems = await self._store(who, job, requests)
                found = await self._run(self._rows.add, job)
        if found.request != job.request:
            raise errors.IdempotencyError("the idempotency key was used with other sessions; use another")
        self._came.set()
        return found.view(problems if found is job else None)

    async def job(self, who: Principal, job_id: str) -> JobView:
        """Return a job.

        Raises:
            NotFoundError: if there is none, or it is not for the caller to see.
        """
        await self.start()
        job = await self._run(self._rows.job, who.tenant, _owner(who), job_id)
        if job is None:
            raise errors.NotFoundError("there is no such job")
        return job.view()

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
        found = await self._run(self._rows.page, who.tenant, _owner(who), before, limit + 1)
        following = listing.cursor((found[limit - 1].number,)) if len(found) > limit else None
        return JobPage(tuple(one.view() for one in found[:limit]), following)

    async def watch(self, who: Principal, job_id: str, after: int = 0) -> AsyncIterator[JobView]:
        """Yield a job each time that it has changed since an event, until it has ended; what came between two looks is one change.

        Raises:
            NotFoundError: as `job`.
            RateLimitError: if too many connections of the tenant follow jobs.
        """
        await self.job(who, job_id)
        if self._watching[who.tenant] >= MOST_WATCHERS:
            raise errors.RateLimitError(
                f"{MOST_WATCHERS} connections follow jobs already, the most at once", retry_after_s=10.0
            )
        return self._changes(who, job_id, after)

    async def _changes(self, who: Principal, job_id: str, after: int) -> AsyncIterator[JobView]:
        self._watching[who.tenant] += 1
        try:
            while True:
                job = await self.job(who, job_id)
                if job.last_event > after:
                    after = job.last_event
                    yield job
                if job.ended or self._draining:
                    return
                await asyncio.sleep(LOOK_S)
        finally:
            self._watching[who.tenant] -= 1

    async def cancel(self, who: Principal, job_id: str) -> JobView:
        """Cancel a job; one that has ended stays as it is.

        What was received stays stored, and `resume` makes memory of it.

        Raises:
            NotFoundError: as `job`.
        """
        await self.job(who, job_id)
        await self._change([job_id], lambda job: job.stop("cancelled"))
        return await self.job(who, job_id)

    def counts(self) -> dict[str, int]:
        """Return the number of jobs by state."""
        return {"queued": 0, "running": 0, **self._thread.submit(self._rows.counts).result()}

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
        if self._working is not None:
            self._working.cancel()
        for wait_s in (within_s, CANCEL_S):
            if self._users:
                _, late = await asyncio.wait(self._users.values(), timeout=wait_s)
                for task in late:
                    task.cancel()
        with suppress(MemForestError):  # the next start goes on with them all the same
            if self._owned:
                await self._run(self._rows.change, lambda _: True, lambda job: job.stop("queued"))
        with suppress(MemForestError):
            await self._run(self._rows.close)

    async def _make_room(self, tenant: str | None) -> None:
        """Forget jobs that ended long ago.

        Raises:
            RateLimitError: if too many jobs of the tenant are unfinished.
        """
        before = to_ms(self._clock() - timedelta(days=KEEP_DAYS))
        await self._run(self._rows.delete_old, tenant, before, MOST_KEPT)
        most = self.bounds.most_open
        unfinished = await self._run(self._rows.unfinished)
        if sum(one.tenant == tenant for one in unfinished) >= most:
            raise errors.RateLimitError(f"{most} jobs are unfinished, the most at once", retry_after_s=5.0)

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
            user = hash_of(requests[place]["user_id"])
            job.left[user] = job.left.get(user, 0) + 1
            job.turns += result.turns_added
        job.users, job.received = len(job.left), len(requests) - len(problems)
        job.refused = [(place, type(problems[place]).__name__) for place in sorted(problems)]
        if not job.left:
            job.state, job.error = "failed", job.refused[0][1]
        elif len({str(one.get("user_id")) for one in requests}) == 1:
            [job.owner] = job.left
        return problems

    async def _work(self) -> None:
        """See that each user of a job is worked on, as long as no other server does that."""
        told_of: type[MemForestError] | None = None
        while not self._draining:
            self._came.clear()
            try:
                jobs = await self._run(self._rows.unfinished)
                if jobs and not self._owned:
                    await self._run(self._rows.own)
                    self._owned = True
                for at in [(job.tenant, user) for job in jobs for user in job.left]:
                    if at not in self._users:
                        self._users[at] = asyncio.create_task(self._read(*at))
            except errors.StoreLockedError:
                pass  # another server works on them
            except errors.StoreError as exc:
                if type(exc) is not told_of:
                    _log.warning("ingest jobs are not worked on here, for now: %s", type(exc).__name__)
                told_of = type(exc)
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._came.wait(), TAKE_S)

    async def _read(self, tenant: str | None, user: str) -> None:
        """Make memory of what was received for a user; what cannot be done now is left to a later look at the jobs."""
        try:
            async with self._gates[tenant], self._gate:
                jobs = await self._run(self._rows.unfinished)
                jobs = [one for one in jobs if one.tenant == tenant and user in one.left]
                if jobs and not self._draining:
                    await self._read_for(jobs, user)
            self._came.set()
        except errors.RateLimitError as exc:
            await asyncio.sleep(min(max(exc.retry_after_s, 0.05), 5.0))
            self._came.set()
        except errors.StoreError as exc:
            _log.warning("jobs are left for later: %s", type(exc).__name__)
        finally:
            del self._users[tenant, user]

    async def _read_for(self, jobs: Sequence[Job], user: str) -> None:
        """Make memory of what was received for a user, and note in the jobs that wait for it how far that is.

        Raises:
            RateLimitError: if the tenant has too many ingests.
            StoreLockedError: if another process writes to the memory.
            StoreError: if the file of jobs cannot be read or written.
        """
        names, progress = [one.id for one in jobs], Progress()
        work = asyncio.create_task(self._resume(jobs, user, progress))
        try:
            over = False
            while not over:  # the last look is behind the end of the work
                over = bool((await asyncio.wait({work}, timeout=FLUSH_S))[0])
                if not progress.begun:
                    continue
                finished, progress.finished = progress.finished, 0
                chunks = summed(progress.chunks)
                if not await self._change(names, lambda job: job.note(user, finished, chunks)):  # noqa: B023
                    return  # all of them were cancelled
        finally:
            work.cancel()
            await asyncio.wait({work}, timeout=CANCEL_S)
        error = work.exception()
        if isinstance(error, (errors.RateLimitError, errors.StoreLockedError)):
            raise error
        if error is not None:
            _log.warning("the ingest of a user ended with %s at %s", type(error).__name__, place_of(error))
            if not isinstance(error, MemForestError):
                error = MemForestError()  # what another says may hold anything
        await self._change(names, lambda job: job.finish_user(user, error))

    async def _resume(self, jobs: Sequence[Job], user: str, progress: Progress) -> None:
        who = Principal(tenant=jobs[0].tenant, key="ingest")
        async with self._access.ingesting(who), self._access.forest(who) as forest:
            key = Key.of(forest.config.key)
            user_id = await asyncio.to_thread(user_of, forest.directory, user, key)
            given = [Budget(*job.budget) for job in jobs if job.budget is not None]
            budget = reduce(Budget.plus, given) if len(given) == len(jobs) else None
            progress.begun = True
            await forest.resume(user_id, budget=budget, on_progress=progress.take)

    async def _run(self, call: Callable[P, T], /, *args: P.args, **more: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(call, *args, **more))

    async def _change(self, names: Collection[str], how: Callable[[Job], bool]) -> list[Job]:
        return await self._run(self._rows.change, lambda job: job.id in names, how)


def _owner(who: Principal) -> str | None:
    """Return the hash of the only user that a caller sees; None for one who sees all of the tenant."""
    return None if who.user is None else hash_of(who.user)
