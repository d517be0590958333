"""Storage of ingest jobs in ``server/jobs.sqlite``, one row a job, and the views of them that callers get.

The file holds counts, states and digests; no text, user id or session id. Users are the hash that ends the name of their file,
so that a job finds them again; sessions are a digest. One process changes it, which holds a lock that ends with it. Of an
error callers are shown the core's message where it names only what they gave, else a sentence of ours.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from memforest import errors
from memforest.plain import Result
from memforest.progress import IngestProgress
from memforest.server.keys import make_file
from memforest.store.connections import mapped_errors
from memforest.times import from_ms


def sentence(name: str) -> str:
    """Return the message of an error class by its name, without anything of the request.

    Example:
        >>> sentence("NotFoundError"), sentence("no such class") == sentence("MemForestError")
        ('There is no such user, session, fact or entity.', True)
    """
    kind = getattr(errors, name) if name in errors.__all__ else errors.MemForestError
    if kind is errors.MemForestError:
        return "The server failed; its log says why."
    return (kind.__doc__ or kind.__name__).strip().split("\n")[0]


def told(error: errors.MemForestError) -> str:
    """Return an error's message if it is about the request, else its class's: other messages may name files and endpoints."""
    speaks = isinstance(error, (errors.InputError, errors.NotFoundError))
    return str(error) if speaks else sentence(type(error).__name__)


JobState = Literal["queued", "running", "finished", "failed", "cancelled"]

ENDED: frozenset[JobState] = frozenset(("finished", "failed", "cancelled"))
"""States in which nothing more happens to a job."""

EventKind = Literal["received", "extracted", "refreshed", "finished"]


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
    refreshed: int = 0
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


@dataclass(frozen=True, slots=True, repr=False)
class JobEvent(Result):
    """An event of a job. `id` counts up within the job; `data` are counts of the whole job, as they are when it is read."""

    id: int
    kind: EventKind
    at: datetime
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Job:
    """An ingest job as it is stored. Users are named by their hash, sessions by their digest."""

    id: str
    tenant: str | None
    owner: str | None
    """The only user that it is about."""
    made_ms: int
    sessions: int
    changed_ms: int = 0
    ended_ms: int | None = None
    state: JobState = "queued"
    error: str | None = None
    key: str | None = None
    request: str | None = None
    """Digests of the idempotency key and of what came with it."""
    budget: tuple[int | None, int | None] | None = None
    """Most calls and tokens for each user; None is the configuration's."""
    users: int = 0
    received: int = 0
    done: int = 0
    turns: int = 0
    refreshed: int = 0
    refused: list[tuple[int, str]] = field(default_factory=list)
    """Position and error class of the sessions that were not stored."""
    left: dict[str, list[str]] = field(default_factory=dict)
    """User -> the sessions that are not memory yet; a user goes when the work for them has ended."""
    chunks: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """Session -> chunks done, failed and in all."""
    events: dict[EventKind, tuple[int, int]] = field(default_factory=dict)
    """Kind -> id and time of the last event of that kind; as each tells the whole job, earlier ones are not missed."""
    number: int = 0
    """Of its row; this and what follows is not part of it."""
    names: dict[str, str] = field(default_factory=dict)
    """User -> user id, in this process's memory alone."""
    news: set[EventKind] = field(default_factory=set)
    """Kinds of the events that the next store tells."""

    @property
    def last_event(self) -> int:
        """Id of its last event."""
        return max((one for one, _ in self.events.values()), default=0)

    def note(self, user: str, digest: str, step: IngestProgress) -> None:
        """Count what the core tells of a session of a user, if it is one of the job's that are left."""
        if digest not in self.left[user]:
            return
        if step.stage == "extracted":  # of the chunks that were left when the run began
            known = max(step.total, self.chunks.get(digest, (0, 0, 0))[2])
            self.chunks[digest] = (known - step.total + step.done, step.failed, known)
        elif step.stage == "finished" and not step.failed:
            self.done += self.left[user].count(digest)
            self.left[user] = [one for one in self.left[user] if one != digest]
        self.news.add("extracted")

    def finish_user(self, user: str, error: errors.MemForestError | None) -> None:
        """Note that the work for a user has ended: with an error, or with memory of all of their sessions."""
        sessions = self.left.pop(user)
        if error is None:
            self.done += len(sessions)
        else:
            self.error = self.error or type(error).__name__

    def end(self, state: JobState, now_ms: int) -> None:
        """End the job."""
        self.state, self.ended_ms = state, now_ms
        self.news.add("finished")

    def tell(self, now_ms: int) -> None:
        """Number the events that are news."""
        self.changed_ms = now_ms
        for kind in ("received", "extracted", "refreshed", "finished"):
            if kind in self.news:
                self.events[kind] = (self.last_event + 1, now_ms)
        self.news.clear()

    def view(self, problems: Mapping[int, errors.MemForestError] | None = None) -> JobView:
        """Return what callers see.

        Args:
            problems: errors of refused sessions by position, which are known to the sender alone and not stored.
        """
        known = problems or {}
        refused = (
            RefusedSession(place, name, told(known[place]) if place in known else sentence(name))
            for place, name in self.refused
        )
        return JobView(
            self.id,
            made_at=from_ms(self.made_ms),
            changed_at=from_ms(self.changed_ms),
            ended_at=None if self.ended_ms is None else from_ms(self.ended_ms),
            refused=tuple(refused),
            message=None if self.error is None else sentence(self.error),
            last_event=self.last_event,
            **self.counts(),
        )

    def counts(self) -> dict[str, Any]:
        """Return how far the job is: its state, the error that it met, and counts of the whole job."""
        names = ("state", "error", "users", "sessions", "received", "done", "turns", "refreshed")
        done, failed, chunks = (sum(one[at] for one in self.chunks.values()) for at in range(3))
        same = {name: getattr(self, name) for name in names}
        return {**same, "chunks": chunks, "chunks_done": done, "chunks_failed": failed}

    def row(self) -> tuple[object, ...]:
        """Return the row of the job as it is now."""
        data = json.dumps({name: getattr(self, name) for name in _STORED})
        return (self.id, self.tenant, self.owner, self.key, self.ended_ms, data)

    def events_after(self, last: int) -> Iterator[JobEvent]:
        """Yield the events after an id."""
        for kind, (number, at_ms) in sorted(self.events.items(), key=lambda one: one[1]):
            if number > last:
                yield JobEvent(number, kind, from_ms(at_ms), self.counts())


_STORED = [one.name for one in fields(Job) if one.name not in ("number", "names", "news")]
_SCHEMA = """
PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON;
CREATE TABLE IF NOT EXISTS job (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, tenant TEXT, owner TEXT, key TEXT UNIQUE,
    ended_ms INTEGER, data TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS job_tenant ON job (tenant, number);
CREATE INDEX IF NOT EXISTS job_ended ON job (ended_ms);
"""
_SEEN = "tenant IS ? AND (? IS NULL OR owner = ?)"
WAIT_S = 10.0


class JobRows:
    """The file of a server's jobs, usable from any thread. It connects on use, so it may be closed at any time.

    Args:
        directory: of the file and its lock; both are made when they are needed first.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / "jobs.sqlite"
        self._lock_path = directory / "jobs.lock"
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._held: sqlite3.Connection | None = None

    def own(self) -> None:
        """Become the one process that works on the jobs, until `close` or its end.

        Raises:
            StoreLockedError: if another process is that.
            StoreError: if the lock cannot be made.
        """
        with self._lock, mapped_errors(self._lock_path):
            if self._held is None:
                self._held = _connect(self._lock_path, "BEGIN EXCLUSIVE", 0.0)

    def close(self) -> None:
        """Close the file and release the lock; the file opens again at its next use."""
        with self._lock, mapped_errors(self.path):
            for connection in (self._connection, self._held):
                if connection is not None:
                    connection.close()
            self._connection = self._held = None

    def save(self, row: tuple[object, ...]) -> None:
        """Store `Job.row` in the place of the one that there is.

        Raises:
            StoreError: if it cannot be stored.
        """
        self._run(
            "INSERT INTO job (id, tenant, owner, key, ended_ms, data) VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET ended_ms = excluded.ended_ms, data = excluded.data",
            row,
            make=True,
        )

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

    def delete_old(self, tenant: str | None, before_ms: int, most: int) -> None:
        """Delete jobs that ended before a time, and the oldest ended ones of a tenant beyond a number."""
        self._run(
            "DELETE FROM job WHERE ended_ms < ? OR number IN (SELECT number FROM job WHERE tenant IS ? "
            "AND ended_ms IS NOT NULL ORDER BY number DESC LIMIT -1 OFFSET ?)",
            (before_ms, tenant, most),
        )

    def _jobs(self, where: str, *values: object) -> list[Job]:
        found = self._run(f"SELECT number, data FROM job WHERE {where}", values)
        return [Job(number=number, **json.loads(data)) for number, data in found]

    def _run(self, sql: str, values: tuple[object, ...], *, make: bool = False) -> list[Any]:
        """Run a statement; where there is no file it finds nothing, unless one is to be made."""
        with self._lock, mapped_errors(self.path):
            if self._connection is None and (make or self.path.exists()):
                self._connection = _connect(self.path, _SCHEMA, WAIT_S)
            return [] if self._connection is None else self._connection.execute(sql, values).fetchall()


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
