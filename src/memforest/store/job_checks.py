"""What is stored of jobs: how many, which were given up, and which cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, get_args

from memforest.interval import EARLIEST, LATEST, to_ms
from memforest.store.dialect import is_object
from memforest.store.jobs import DUE, EXPIRED, MOST_TRIES, REOPEN, JobState, times_at
from memforest.store.tx import Tx

MOST_NAMED = 10
"""Most jobs given up that are named at once."""


class FailedJob(NamedTuple):
    """A job that was given up, and the reason of the last failure."""

    owner: str
    kind: str
    key: str
    tries: int
    reason: str


class JobCounts(NamedTuple):
    """Counts of jobs by state; when the oldest that is due was; leases that ended; the first given up; how many are due."""

    states: dict[str, int]
    oldest_due_ms: int | None
    expired: int
    failed: tuple[FailedJob, ...]
    due: int


def total(tx: Tx) -> int:
    """Return how many jobs there are, those that are done included."""
    return int(tx.execute("SELECT count(*) FROM job").fetchone()[0])


def given_up(tx: Tx) -> tuple[FailedJob, ...]:
    """Return the first jobs that were given up."""
    rows = tx.execute(
        """SELECT owner, kind, key, tries, coalesce(reason, '') FROM job WHERE state = 'failed'
           ORDER BY id LIMIT ?""",
        (MOST_NAMED,),
    )
    return tuple(FailedJob(*row) for row in rows)


def count(tx: Tx, *, now_ms: int) -> JobCounts:
    """Return counts of all jobs, the oldest due time among those that wait, and the first that were given up."""
    states = dict(tx.execute("SELECT state, count(*) FROM job GROUP BY state ORDER BY state").fetchall())
    times = times_at(now_ms)
    oldest, due = tx.execute(f"SELECT min(due_ms), count(*) FROM job WHERE {DUE}", times).fetchone()
    expired = tx.execute(f"SELECT count(*) FROM job WHERE {EXPIRED}", times).fetchone()[0]
    return JobCounts(states, oldest, expired, given_up(tx), due)


_STATES = ", ".join(f"'{state}'" for state in get_args(JobState))
_HELD = "(holder IS NOT NULL AND holder != '' AND lease_until_ms IS NOT NULL)"
_RANGE = f"BETWEEN {to_ms(EARLIEST)} AND {to_ms(LATEST)}"
_WRONG: Sequence[tuple[str, str]] = (
    (f"state NOT IN ({_STATES})", "its state cannot be"),
    (f"state = 'leased' AND NOT {_HELD}", "it is leased, and to nobody or for ever"),
    ("state != 'leased' AND lease_until_ms IS NOT NULL", "it has a lease and is not leased"),
    ("state NOT IN ('leased', 'done') AND holder IS NOT NULL", "it has a holder and is not leased"),
    (f"tries NOT BETWEEN 0 AND {MOST_TRIES}", "it cannot have been tried so often"),
    ("state = 'failed' AND coalesce(reason, '') = ''", "it was given up without a reason"),
    (
        f"due_ms NOT {_RANGE} OR lease_until_ms NOT {_RANGE}",
        "its times lie outside the years 1 to 9999",
    ),
)  # fmt: skip
_LOST: Sequence[tuple[str, str]] = (
    (
        f"NOT {is_object('payload')}",
        "its payload cannot be read",
    ),
    ("owner = '' OR kind = '' OR key = ''", "it lacks an owner, a kind or a key"),
    (
        "id >= coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'next:job'), 1)",
        "its id is still to be given",
    ),
)


def job_problems(tx: Tx) -> list[str]:
    """Return what is wrong with invalid rows of jobs."""
    return [
        f"job {key!r} of {owner!r}: {message}"
        for condition, message in (*_WRONG, *_LOST)
        for owner, key in tx.execute(f"SELECT owner, key FROM job WHERE {condition} ORDER BY id")
    ]


def repair(tx: Tx, *, now_ms: int) -> tuple[int, int]:
    """Reset jobs with an invalid state, lease, tries or times, and delete those without a readable key or payload.

    No work is lost by that: a job may be done twice, and an owner adds again what it misses.

    Returns:
        How many wait anew, and how many were forgotten.
    """
    lost, wrong = (" OR ".join(f"({condition})" for condition, _ in each) for each in (_LOST, _WRONG))
    forgotten = tx.execute(f"DELETE FROM job WHERE {lost}").rowcount
    anew = tx.execute(f"{REOPEN}, tries = 0, due_ms = ? WHERE {wrong}", (now_ms,)).rowcount
    return anew, forgotten
