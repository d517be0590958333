"""What is told of ingest jobs: counts, states and reasons; never a text, a user or a session."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal, cast

from memforest.errors import InputError
from memforest.intake.stored import JobRow, SessionRow
from memforest.intake.told import sentence
from memforest.memory.plain import Result

JobState = Literal["receiving", "queued", "running", "parked", "finished", "failed", "cancelled"]
"""`parked`: its server ended before it did; the next one goes on with it."""

JOB_STATES: tuple[JobState, ...] = (
    "receiving",
    "queued",
    "running",
    "parked",
    "finished",
    "failed",
    "cancelled",
)
ENDED: frozenset[JobState] = frozenset(("finished", "failed", "cancelled"))
"""States in which nothing more happens to a job."""


@dataclass(frozen=True, slots=True, repr=False)
class RefusedSession(Result):
    """A session of the request that was not stored: its place there, counted from 0, the error's class, and why."""

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
        """Whether nothing more happens to it."""
        return self.state in ENDED


@dataclass(frozen=True, slots=True, repr=False)
class JobPage(Result):
    """Some jobs, the newest first; `next_cursor` leads to the ones before them, None when there are none."""

    jobs: tuple[JobView, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class JobEvent(Result):
    """One thing that happened to a job. `id` counts up from 1 within the job; `data` are counts of the whole job."""

    id: int
    kind: Literal["received", "extracted", "refreshed", "finished"]
    at: datetime
    data: Mapping[str, Any] = field(default_factory=dict)


def view_of(row: JobRow, refused: Sequence[SessionRow]) -> JobView:
    """Return a job as it is stored."""
    return JobView(
        row.id,
        cast(JobState, row.state),
        time_of(row.made_ms),
        time_of(row.changed_ms),
        None if row.ended_ms is None else time_of(row.ended_ms),
        row.users,
        row.sessions,
        row.received,
        row.done,
        row.turns,
        row.chunks,
        row.chunks_done,
        row.chunks_failed,
        row.refreshed,
        tuple(RefusedSession(one.place, str(one.error), sentence(str(one.error))) for one in refused),
        row.error,
        None if row.error is None else sentence(row.error),
        row.last_event,
    )


def cursor_of(number: int) -> str:
    """Return the cursor of the page behind a job."""
    return base64.urlsafe_b64encode(f"j{number}".encode()).decode().rstrip("=")


def number_of(cursor: str) -> int:
    """Return the job behind which a page begins.

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
    """Return a time as it is stored: in milliseconds."""
    return int(when.timestamp() * 1000)


def time_of(ms: int) -> datetime:
    """Return a stored time."""
    return datetime.fromtimestamp(ms / 1000, timezone.utc)
