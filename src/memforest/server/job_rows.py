"""Storage of a tenant's ingest jobs in ``server/jobs.sqlite``, and the views of them that callers get.

The file holds counts, states and digests; no text, user id or session id. Users are the hash that ends the name of their file,
so that a job finds them again; sessions are a digest. Of an error callers are shown the core's message where it names only what
they gave, else a sentence of ours.
"""

from __future__ import annotations

import base64
import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

from memforest import errors
from memforest.errors import InputError
from memforest.plain import Result
from memforest.store.connections import mapped_errors
from memforest.store.directory import make_directory
from memforest.store.files import make_own, refuse_link


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as it is stored, with the counts over its sessions."""

    number: int
    id: str
    owner: str | None
    state: str
    made_ms: int
    changed_ms: int
    ended_ms: int | None
    turns: int
    refreshed: int
    error: str | None
    max_calls: int | None
    max_tokens: int | None
    request: str | None
    users: int
    sessions: int
    received: int
    done: int
    chunks: int
    chunks_done: int
    chunks_failed: int
    last_event: int


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session of a job: its position in the request, its user and its digest; the last two are None if it was invalid."""

    place: int
    file: str | None
    digest: str | None
    state: str = "new"
    error: str | None = None


_PRAGMAS = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON;"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS tenant (name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS job (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, owner TEXT, state TEXT NOT NULL,
    made_ms INTEGER NOT NULL, changed_ms INTEGER NOT NULL, ended_ms INTEGER, turns INTEGER NOT NULL DEFAULT 0,
    refreshed INTEGER NOT NULL DEFAULT 0, error TEXT, max_calls INTEGER, max_tokens INTEGER, key TEXT, request TEXT);
CREATE UNIQUE INDEX IF NOT EXISTS job_key ON job (key) WHERE key IS NOT NULL;
CREATE INDEX IF NOT EXISTS job_owner ON job (owner, number);
CREATE INDEX IF NOT EXISTS job_ended ON job (ended_ms);
CREATE TABLE IF NOT EXISTS part (
    job INTEGER NOT NULL REFERENCES job ON DELETE CASCADE, file TEXT NOT NULL, state TEXT NOT NULL, error TEXT,
    PRIMARY KEY (job, file)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS session (
    job INTEGER NOT NULL REFERENCES job ON DELETE CASCADE, place INTEGER NOT NULL, file TEXT, digest TEXT,
    state TEXT NOT NULL, error TEXT, chunks INTEGER NOT NULL DEFAULT 0, chunks_done INTEGER NOT NULL DEFAULT 0,
    chunks_failed INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (job, place)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS event (
    job INTEGER NOT NULL REFERENCES job ON DELETE CASCADE, id INTEGER NOT NULL, kind TEXT NOT NULL,
    at_ms INTEGER NOT NULL, data TEXT NOT NULL, PRIMARY KEY (job, id)) WITHOUT ROWID;
"""
MOST_EVENTS = 1000
"""Events kept of a job; each tells the counts of the whole job, so that the oldest ones are not missed."""
WAIT_S = 10.0
OPEN = "('receiving', 'queued', 'running', 'parked')"


_JOB = """
SELECT number, id, owner, state, made_ms, changed_ms, ended_ms, turns, refreshed, error, max_calls, max_tokens, request,
    (SELECT count(*) FROM part WHERE job = number),
    (SELECT count(*) FROM session WHERE job = number),
    (SELECT count(*) FROM session s WHERE s.job = number AND s.state IN ('received', 'done')),
    (SELECT count(*) FROM session s WHERE s.job = number AND s.state = 'done'),
    (SELECT coalesce(sum(chunks), 0) FROM session WHERE job = number),
    (SELECT coalesce(sum(chunks_done), 0) FROM session WHERE job = number),
    (SELECT coalesce(sum(chunks_failed), 0) FROM session WHERE job = number),
    (SELECT coalesce(max(e.id), 0) FROM event e WHERE e.job = number)
FROM job
"""


class JobRows:
    """The file of one tenant's jobs, usable from any thread. It connects on use, so it may be closed at any time.

    Args:
        path: of the file; it is made at the first write.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def close(self) -> None:
        """Close the file; it opens again at its next use."""
        with self._lock, mapped_errors(self.path):
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _use(self, *, make: bool = False) -> Iterator[sqlite3.Connection | None]:
        """Yield the connection in a transaction; None if there is no file and none is to be made."""
        with self._lock, mapped_errors(self.path):
            if self._connection is None and (make or self.path.exists()):
                self._connection = self._connect()
            connection = self._connection
            if connection is None:
                yield None
                return
            connection.execute("BEGIN IMMEDIATE" if make else "BEGIN")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def _connect(self) -> sqlite3.Connection:
        # Those of the tenant, and of all tenants, are made here if nothing of the tenant is stored yet.
        home = self.path.parent.parent
        for directory in (home.parent, home, self.path.parent):
            make_directory(directory)
        refuse_link(self.path)
        make_own(self.path)
        connection = sqlite3.connect(self.path, timeout=WAIT_S, isolation_level=None, check_same_thread=False)
        try:
            connection.executescript(_PRAGMAS + _SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with self._use(make=True) as connection:
            assert connection is not None
            yield connection

    def begin(
        self,
        job_id: str,
        sessions: Sequence[SessionRow],
        *,
        now_ms: int,
        owner: str | None,
        budget: tuple[int | None, int | None],
        tenant: str | None,
        key: tuple[str, str] | None,
    ) -> tuple[JobRow, bool]:
        """Store a job before its sessions are received; return it, and whether it is new.

        With a `key`, the digests of an idempotency key and of the request, an earlier job of that key is returned.
        """
        with self._write() as tx:
            if tenant is not None and tx.execute("SELECT 1 FROM tenant").fetchone() is None:
                tx.execute("INSERT INTO tenant VALUES (?)", (tenant,))
            if key is not None:
                found = tx.execute(f"{_JOB} WHERE key = ?", (key[0],)).fetchone()
                if found is not None:
                    return JobRow(*found), False
            name, request = key or (None, None)
            values = (job_id, owner, "receiving", now_ms, now_ms, *budget, name, request)
            number = tx.execute(
                "INSERT INTO job (id, owner, state, made_ms, changed_ms, max_calls, max_tokens, key, request) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            ).lastrowid
            tx.executemany(
                "INSERT INTO session (job, place, file, digest, state, error) VALUES (?, ?, ?, ?, ?, ?)",
                [(number, one.place, one.file, one.digest, one.state, one.error) for one in sessions],
            )
            files = dict.fromkeys(one.file for one in sessions if one.file and one.state == "new")
            tx.executemany("INSERT INTO part VALUES (?, ?, 'queued', NULL)", [(number, one) for one in files])
            return JobRow(*tx.execute(f"{_JOB} WHERE number = ?", (number,)).fetchone()), True

    def received(
        self, number: int, states: Mapping[int, tuple[str, str | None]], *, turns: int, now_ms: int
    ) -> None:
        """Store the state and the error class of sessions of a job, by position."""
        with self._write() as tx:
            tx.executemany(
                "UPDATE session SET state = ?, error = ? WHERE job = ? AND place = ?",
                [(state, error, number, place) for place, (state, error) in states.items()],
            )
            tx.execute(
                "UPDATE part SET state = 'refused' WHERE job = ? AND file NOT IN "
                "(SELECT file FROM session WHERE job = ? AND state = 'received' AND file IS NOT NULL)",
                (number, number),
            )
            tx.execute(
                "UPDATE job SET turns = ?, state = 'queued', changed_ms = ? WHERE number = ? AND state = 'receiving'",
                (turns, now_ms, number),
            )

    def job(self, job_id: str) -> JobRow | None:
        """Return a job by its id, or None."""
        with self._use() as tx:
            found = tx and tx.execute(f"{_JOB} WHERE id = ?", (job_id,)).fetchone()
            return JobRow(*found) if found else None

    def jobs(self, *, owner: str | None, before: int | None, limit: int) -> list[JobRow]:
        """Return up to `limit` jobs, newest first, numbered below `before`; only those of `owner` if one is given."""
        last = 2**62 if before is None else before
        where, values = (
            ("number < ?", [last]) if owner is None else ("owner = ? AND number < ?", [owner, last])
        )
        with self._use() as tx:
            if tx is None:
                return []
            found = tx.execute(f"{_JOB} WHERE {where} ORDER BY number DESC LIMIT ?", (*values, limit))
            return [JobRow(*one) for one in found]

    def refused(self, number: int) -> list[SessionRow]:
        """Return the sessions of a job that were not stored, by position."""
        with self._use() as tx:
            if tx is None:
                return []
            found = tx.execute(
                "SELECT place, file, digest, state, error FROM session WHERE job = ? AND state = 'refused' ORDER BY place",
                (number,),
            )
            return [SessionRow(*one) for one in found]

    def unfinished(self) -> tuple[str | None, list[tuple[JobRow, list[str], list[str]]]]:
        """Return the tenant's name, and each unfinished job with its remaining users and the digests of its sessions."""
        with self._use() as tx:
            if tx is None:
                return None, []
            name = tx.execute("SELECT name FROM tenant").fetchone()
            rows = [JobRow(*one) for one in tx.execute(f"{_JOB} WHERE state IN {OPEN} ORDER BY number")]
            found = []
            for row in rows:
                files = tx.execute(
                    "SELECT file FROM part WHERE job = ? AND state IN ('queued', 'running') ORDER BY file",
                    (row.number,),
                )
                left = [file for (file,) in files]
                digests = tx.execute(
                    "SELECT digest FROM session WHERE job = ? AND state IN ('new', 'received')", (row.number,)
                )
                found.append((row, left, [digest for (digest,) in digests]))
            return (name[0] if name else None), found

    def count_open(self) -> int:
        """Return how many jobs have not ended."""
        with self._use() as tx:
            if tx is None:
                return 0
            return int(tx.execute(f"SELECT count(*) FROM job WHERE state IN {OPEN}").fetchone()[0])

    def set_state(self, number: int, state: str, *, now_ms: int) -> None:
        """Change the state of a job that has not ended."""
        with self._write() as tx:
            tx.execute(
                f"UPDATE job SET state = ?, changed_ms = ? WHERE number = ? AND state IN {OPEN}",
                (state, now_ms, number),
            )

    def end(
        self, number: int, state: str, data: Mapping[str, Any], *, error: str | None, now_ms: int
    ) -> None:
        """End a job that has not ended, with the event that says so in the same transaction."""
        with self._write() as tx:
            changed = tx.execute(
                "UPDATE job SET state = ?, error = ?, changed_ms = ?, ended_ms = ? "
                f"WHERE number = ? AND state IN {OPEN}",
                (state, error, now_ms, now_ms, number),
            )
            if changed.rowcount:
                _add_event(tx, number, "finished", data, now_ms)

    def delete_old(self, *, before_ms: int, most: int) -> None:
        """Delete jobs that ended before a time, and the oldest ended jobs beyond a number."""
        with self._write() as tx:
            tx.execute("DELETE FROM job WHERE ended_ms < ?", (before_ms,))
            tx.execute(
                "DELETE FROM job WHERE number IN (SELECT number FROM job WHERE ended_ms IS NOT NULL "
                "ORDER BY number DESC LIMIT -1 OFFSET ?)",
                (most,),
            )

    def progress(
        self,
        number: int,
        chunks: Mapping[str, tuple[int, int, int]],
        finished: Iterable[str],
        refreshed: int,
        *,
        now_ms: int,
    ) -> None:
        """Add progress: chunks done, failed and total by session digest, finished sessions, and summaries made."""
        with self._write() as tx:
            tx.executemany(
                "UPDATE session SET chunks_done = max(chunks_done, ?), chunks_failed = ?, chunks = max(chunks, ?) "
                "WHERE job = ? AND digest = ? AND state != 'refused'",
                [(done, failed, total, number, digest) for digest, (done, failed, total) in chunks.items()],
            )
            tx.executemany(
                "UPDATE session SET state = 'done' WHERE job = ? AND digest = ? AND state IN ('new', 'received')",
                [(number, digest) for digest in finished],
            )
            tx.execute(
                "UPDATE job SET refreshed = refreshed + ?, changed_ms = ? WHERE number = ?",
                (refreshed, now_ms, number),
            )

    def end_part(self, number: int, file: str, *, error: str | None, not_received: str) -> int:
        """Mark a user of a job as done or failed; return the number of users left.

        Sessions that may not have been received become refused ones; the others are done.
        """
        with self._write() as tx:
            tx.execute(
                "UPDATE part SET state = ?, error = ? WHERE job = ? AND file = ?",
                ("failed" if error else "finished", error, number, file),
            )
            tx.execute(
                "UPDATE session SET state = 'refused', error = ? WHERE job = ? AND file = ? AND state = 'new'",
                (not_received, number, file),
            )
            if error is None:
                tx.execute(
                    "UPDATE session SET state = 'done' WHERE job = ? AND file = ? AND state = 'received'",
                    (number, file),
                )
            left = tx.execute("SELECT count(*) FROM part WHERE job = ? AND state = 'queued'", (number,))
            return int(left.fetchone()[0])

    def part_errors(self, number: int) -> list[str]:
        """Return the error classes of the failed users of a job."""
        with self._use() as tx:
            if tx is None:
                return []
            found = tx.execute("SELECT error FROM part WHERE job = ? AND error IS NOT NULL", (number,))
            return [name for (name,) in found]

    def add_event(self, number: int, kind: str, data: Mapping[str, Any], *, at_ms: int) -> None:
        """Append an event to a job, and drop its oldest beyond the bound."""
        with self._write() as tx:
            _add_event(tx, number, kind, data, at_ms)

    def events(
        self, number: int, *, after: int, limit: int = 100
    ) -> list[tuple[int, str, int, dict[str, Any]]]:
        """Return the events of a job after an id: id, kind, time and data."""
        with self._use() as tx:
            if tx is None:
                return []
            found = tx.execute(
                "SELECT id, kind, at_ms, data FROM event WHERE job = ? AND id > ? ORDER BY id LIMIT ?",
                (number, after, limit),
            )
            return [(one, kind, at, json.loads(data)) for one, kind, at, data in found]


def _add_event(tx: sqlite3.Connection, number: int, kind: str, data: Mapping[str, Any], at_ms: int) -> None:
    tx.execute(
        "INSERT INTO event SELECT ?, coalesce(max(id), 0) + 1, ?, ?, ? FROM event WHERE job = ?",
        (number, kind, at_ms, json.dumps(data), number),
    )
    tx.execute(
        "DELETE FROM event WHERE job = ? AND kind != 'received' AND id <= "
        "(SELECT max(id) FROM event WHERE job = ?) - ?",
        (number, number, MOST_EVENTS),
    )


NOT_RECEIVED = "NotReceived"
"""In the place of an error's class: the server ended before it had received the session."""

_SENTENCES: dict[str, str] = {
    NOT_RECEIVED: "The server ended before it had received this session; send it again.",
    "InputError": "The session is malformed; nothing of it was stored.",
    "TimestampError": "A time of the session is missing, unreadable or out of range; nothing of it was stored.",
    "IdempotencyError": "The idempotency key came with another session before.",
    "SessionConflictError": "The session is stored with other turns; replace=true overwrites them.",
    "NotFoundError": "There is no such user.",
    "StoreLockedError": "Another process is writing to the memory; try again later.",
    "StoreWriteError": "The disk is full or cannot be written.",
    "ConfigError": "The server's configuration does not fit this memory.",
}
_KIN: tuple[tuple[type[errors.MemForestError], str], ...] = (
    (errors.StoreError, "The memory cannot be used at the moment; the server's log says why."),
    (
        errors.ModelError,
        "A model that the server needs cannot be used at the moment; the server's log says why.",
    ),
)
_SPEAKS = (errors.InputError, errors.NotFoundError)
"""Errors whose messages name only what came with the request."""


def sentence(name: str) -> str:
    """Return the message of an error class, without anything of the request.

    Args:
        name: of the class, or `NOT_RECEIVED`.

    Example:
        >>> sentence("StoreWriteError"), sentence("no such class") == sentence("MemForestError")
        ('The disk is full or cannot be written.', True)
    """
    if name in _SENTENCES:
        return _SENTENCES[name]
    kind = getattr(errors, name, None) if name in errors.__all__ else None
    for base, text in _KIN:
        if isinstance(kind, type) and issubclass(kind, base):
            return text
    return "The server failed; its log says why."


def told(error: errors.MemForestError) -> str:
    """Return an error's message if it is about the request, else its class's: other messages may name files and endpoints."""
    return str(error) if isinstance(error, _SPEAKS) else sentence(type(error).__name__)


JobState = Literal["receiving", "queued", "running", "parked", "finished", "failed", "cancelled"]
"""`parked`: its server ended before it did; the next one goes on with it."""

ENDED: frozenset[JobState] = frozenset(("finished", "failed", "cancelled"))
"""States in which nothing more happens to a job."""


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
    one that the budget left. `error` is the class of the error that ended the job.
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
    """An event of a job. `id` counts up from 1 within the job; `data` are counts of the whole job."""

    id: int
    kind: Literal["received", "extracted", "refreshed", "finished"]
    at: datetime
    data: Mapping[str, Any] = field(default_factory=dict)


def view_of(row: JobRow, refused: Sequence[SessionRow]) -> JobView:
    """Return the view of a stored job."""
    same: dict[str, Any] = {
        one.name: getattr(row, one.name) for one in fields(JobView) if hasattr(row, one.name)
    }
    return JobView(
        **same,
        made_at=time_of(row.made_ms),
        changed_at=time_of(row.changed_ms),
        ended_at=None if row.ended_ms is None else time_of(row.ended_ms),
        refused=tuple(RefusedSession(one.place, str(one.error), sentence(str(one.error))) for one in refused),
        message=None if row.error is None else sentence(row.error),
    )


def cursor_of(number: int) -> str:
    """Return the cursor of the page that follows a job."""
    return base64.urlsafe_b64encode(f"j{number}".encode()).decode().rstrip("=")


def number_of(cursor: str) -> int:
    """Return the number of the job that a cursor names.

    Raises:
        InputError: if the cursor is none.
    """
    try:
        text = base64.urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4)).decode()
        if text[:1] == "j" and text[1:].isascii() and text[1:].isdigit() and len(text) < 20:
            return int(text[1:])
    except ValueError:  # not base64, not ASCII, not UTF-8
        pass
    raise InputError("the cursor is none of this list; take `next_cursor` of a page, or none")


def ms_of(when: datetime) -> int:
    """Return a time in milliseconds, as it is stored."""
    return int(when.timestamp() * 1000)


def time_of(ms: int) -> datetime:
    """Return the time of stored milliseconds."""
    return datetime.fromtimestamp(ms / 1000, timezone.utc)
