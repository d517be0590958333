"""Jobs as rows: work that an owner (an index) is to do later, once, in the first process that takes it.

A job is `waiting` until it is due, `leased` to a holder while it is worked on, then `done`, or `failed` once it has been
tried `MOST_TRIES` times. Its key is given once: adding it again changes nothing, in whatever state the job is.

A lease ends at a time of the injected clock, so that the work of a process that has died is taken by another. The row
names the holder, and each taking raises `tries`: only the holder of the lease can finish a job, fail it or give it back
(compare-and-set on both), and a holder that comes too late gets False.

A clock may go back. A lease that would last longer than `MOST_LEASE_MS`, and a further try that would wait longer than
`MOST_BACKOFF_MS`, were noted by another time and count as over.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from memforest.errors import InputError
from memforest.store import meta
from memforest.store.connections import AMONG, AMONG_IDS, Tx, is_object
from memforest.times import EARLIEST, LATEST, to_ms

JobState = Literal["waiting", "leased", "done", "failed"]

JobKind = tuple[str, str]
"""(owner, kind) of a job, by which what does it is found."""

MOST_TRIES = 8
"""Times that a job is begun before it is given up; the waits between them add up to an hour."""
MOST_LEASE_MS = 3_600_000
"""Longest lease."""
FIRST_BACKOFF_MS = 30_000
"""Wait after the first failure; it doubles with each."""
MOST_BACKOFF_MS = 3_600_000
"""Longest wait after a failure."""
MOST_REASON_CHARS = 500

_COLUMNS = "id, owner, key, kind, payload, tries, holder"
EXPIRED = "state = 'leased' AND (lease_until_ms <= :now OR lease_until_ms > :now + :most_lease)"
DUE = "state = 'waiting' AND (due_ms <= :now OR (tries > 0 AND due_ms > :now + :most_backoff))"
REOPEN = "UPDATE job SET state = 'waiting', holder = NULL, lease_until_ms = NULL"
_MINE = "id = ? AND state = 'leased' AND holder = ? AND tries = ?"


class Job(NamedTuple):
    """A job as its holder sees it. `tries` counts this one; `payload` is what it was added with."""

    row: int
    owner: str
    key: str
    kind: str
    payload: Mapping[str, Any]
    tries: int
    holder: str


class DueJob(NamedTuple):
    """A job of an owner as it waits: since when it is due, what it was added with, and how often it has been begun."""

    key: str
    kind: str
    due_ms: int
    payload: Mapping[str, Any]
    tries: int


def add(
    tx: Tx, owner: str, kind: str, key: str, *, due_ms: int, payload: Mapping[str, Any] | None = None
) -> bool:
    """Add a job, unless the owner has had one with that key; return whether it is new.

    Args:
        tx: a write transaction.
        owner: whose work it is: the name of an index.
        kind: what is to be done, of what the owner knows.
        key: names the piece of work among all of the owner's: "month 2024-02".
        due_ms: when it may be begun, milliseconds.
        payload: what is needed to do it, plain JSON values.

    Raises:
        InputError: if owner, kind or key is empty, or the payload is no JSON object.
    """
    if not (owner and kind and key):
        raise InputError("a job needs an owner, a kind and a key; none may be empty")
    try:
        text = json.dumps(dict(payload or {}), ensure_ascii=False, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as exc:
        raise InputError(f"the payload of job {key!r} is no plain JSON: {exc}") from exc
    if tx.execute("SELECT 1 FROM job WHERE owner = ? AND key = ?", (owner, key)).fetchone():
        return False
    tx.execute(
        """INSERT INTO job (id, owner, key, kind, payload, due_ms, state, tries)
           VALUES (?, ?, ?, ?, ?, ?, 'waiting', 0)""",
        (meta.take_ids(tx, "job"), owner, key, kind, text, due_ms),
    )
    return True


def again(tx: Tx, owner: str, key: str, *, due_ms: int) -> bool:
    """Reset a job to its first try, and return whether there is one.

    Who holds it now is too late to finish it: what it was made from has changed.
    """
    done = tx.execute(
        f"{REOPEN}, tries = 0, reason = NULL, due_ms = ? WHERE owner = ? AND key = ?", (due_ms, owner, key)
    )
    return done.rowcount == 1


def owners(tx: Tx) -> set[str]:
    """Return the owners that have jobs."""
    return set(tx.column("SELECT DISTINCT owner FROM job"))


def remove(tx: Tx, owner: str, keys: Collection[str]) -> int:
    """Delete some jobs of an owner, whatever their state, so that their keys may be given anew; return how many.

    Who holds one is too late to finish it.
    """
    done = tx.execute(f"DELETE FROM job WHERE owner = ? AND key {AMONG}", (owner, tx.ids(keys)))
    return done.rowcount


def drop(tx: Tx, owner: str) -> int:
    """Delete all jobs of an owner, their keys included, and return how many."""
    return tx.execute("DELETE FROM job WHERE owner = ?", (owner,)).rowcount


def take(tx: Tx, holder: str, kinds: Collection[JobKind], *, now_ms: int, lease_ms: int) -> Job | None:
    """Lease the job that has been due longest, of the kinds that the holder can do; None when there is none.

    A job whose lease has ended is taken too, or given up if it was its last try.

    Args:
        tx: a write transaction.
        holder: a name that no other process or thread uses.
        kinds: of which jobs.
        now_ms: the injected clock's time.
        lease_ms: how long the job is the holder's, at most `MOST_LEASE_MS`.

    Raises:
        InputError: if the lease is too long, or no time at all.
    """
    until = _until(now_ms, lease_ms)
    _give_up(tx, now_ms)
    times = times_at(now_ms)
    among, named = _among(kinds)
    rows = tx.execute(
        f"""UPDATE job SET state = 'leased', holder = :holder, lease_until_ms = :until, tries = tries + 1
            WHERE id = (SELECT id FROM job WHERE (({DUE}) OR ({EXPIRED})) AND {among}
                        ORDER BY due_ms, id LIMIT 1) RETURNING {_COLUMNS}""",
        {**times, **named, "holder": holder, "until": until},
    ).fetchall()
    return _job(rows[0]) if rows else None


def due(tx: Tx, owner: str, *, now_ms: int, limit: int | None = None, force: bool = False) -> list[DueJob]:
    """Return the jobs of an owner that can be leased, those that have been due longest first; nothing is leased.

    Args:
        tx: a transaction.
        owner: whose jobs.
        now_ms: the injected clock's time.
        limit: most jobs; None for all.
        force: also those that wait and are not due yet.
    """
    rows = tx.execute(
        f"""SELECT key, kind, due_ms, payload, tries FROM job
            WHERE state != 'done' AND +owner = :owner AND {_open(force)} ORDER BY due_ms, id LIMIT :limit""",
        {**times_at(now_ms), "owner": owner, "limit": -1 if limit is None else limit},
    )
    return [DueJob(key, kind, ms, json.loads(payload), tries) for key, kind, ms, payload, tries in rows]


def lease(
    tx: Tx,
    owner: str,
    keys: Collection[str],
    holder: str,
    *,
    now_ms: int,
    lease_ms: int,
    force: bool = False,
) -> list[Job]:
    """Lease those of an owner's jobs with these keys that nobody else holds, and return them, the longest due first.

    Otherwise as `take`. With `force` also those that are not due yet.

    Raises:
        InputError: if the lease is too long, or no time at all.
    """
    until = _until(now_ms, lease_ms)
    _give_up(tx, now_ms)
    rows = tx.execute(
        f"""UPDATE job SET state = 'leased', holder = :holder, lease_until_ms = :until, tries = tries + 1
            WHERE owner = :owner AND key {AMONG_IDS} AND tries < :most_tries AND {_open(force)}
            RETURNING {_COLUMNS}, due_ms""",
        {
            **times_at(now_ms),
            "holder": holder,
            "until": until,
            "owner": owner,
            "ids": tx.ids(keys),
            "most_tries": MOST_TRIES,
        },
    ).fetchall()
    return [_job(row[:-1]) for row in sorted(rows, key=lambda row: (row[-1], row[0]))]


def _open(force: bool) -> str:
    """Return the condition that a job can be leased."""
    return f"((state = 'waiting') OR ({EXPIRED}))" if force else f"(({DUE}) OR ({EXPIRED}))"


def _give_up(tx: Tx, now_ms: int) -> None:
    """Give up the jobs whose last lease has ended."""
    tx.execute(
        f"""UPDATE job SET state = 'failed', holder = NULL, lease_until_ms = NULL,
            reason = 'begun ' || tries || ' times and never finished, last by ' || holder
            WHERE state != 'done' AND {EXPIRED} AND tries >= :most_tries""",
        {**times_at(now_ms), "most_tries": MOST_TRIES},
    )


def _job(row: Sequence[Any]) -> Job:
    found, owner, key, kind, payload, tries, holder = row
    return Job(found, owner, key, kind, json.loads(payload), tries, holder)


def finish(tx: Tx, job: Job) -> bool:
    """Mark a job as done; return False if it is not the holder's any more. Twice is the same as once.

    In the transaction that writes what the job has made, the two land together; on False, roll it back.
    """
    done = tx.execute(
        f"UPDATE job SET state = 'done', lease_until_ms = NULL, reason = NULL WHERE {_MINE}",
        (job.row, job.holder, job.tries),
    )
    if done.rowcount == 1:
        return True
    same = tx.execute(
        "SELECT 1 FROM job WHERE id = ? AND state = 'done' AND holder = ? AND tries = ?",
        (job.row, job.holder, job.tries),
    )
    return same.fetchone() is not None


def fail(tx: Tx, job: Job, reason: str, *, now_ms: int) -> bool:
    """Record a failure: the job waits, twice as long each time, or is given up after `MOST_TRIES` tries.

    Returns:
        False if the job is not the holder's any more.
    """
    wait = min(FIRST_BACKOFF_MS << (job.tries - 1), MOST_BACKOFF_MS)
    state = "failed" if job.tries >= MOST_TRIES else "waiting"
    done = tx.execute(
        f"""UPDATE job SET state = ?, holder = NULL, lease_until_ms = NULL, due_ms = ?, reason = ?
            WHERE {_MINE}""",
        (state, now_ms + wait, reason[:MOST_REASON_CHARS], job.row, job.holder, job.tries),
    )
    return done.rowcount == 1


def give_back(tx: Tx, job: Job, reason: str) -> bool:
    """End a lease as if the job had not been begun, for a reason that is not the job's.

    Returns:
        False if the job is not the holder's any more.
    """
    done = tx.execute(
        f"{REOPEN}, tries = tries - 1, reason = ? WHERE {_MINE}",
        (reason[:MOST_REASON_CHARS], job.row, job.holder, job.tries),
    )
    return done.rowcount == 1


def retry_failed(tx: Tx, kinds: Collection[JobKind], *, now_ms: int) -> int:
    """Grant one more try to jobs of some kinds that were given up, reasons kept, and return how many."""
    among, named = _among(kinds)
    return tx.execute(
        f"{REOPEN}, tries = :tries, due_ms = :now WHERE state = 'failed' AND {among}",
        {"tries": MOST_TRIES - 1, "now": now_ms, **named},
    ).rowcount


def note_unhandled(tx: Tx, kinds: Collection[JobKind], *, now_ms: int, but: Collection[str] = ()) -> int:
    """Record in each due job of other kinds that it has no handler here; return how many those are.

    One that has failed before keeps that reason. The owners in `but` do their jobs themselves.
    """
    among, named = _among(kinds)
    among = f"({among} OR owner {AMONG_IDS})"
    values = {**times_at(now_ms), **named, "ids": tx.ids(but)}
    tx.execute(
        f"""UPDATE job SET reason = 'nothing here does jobs of kind ' || kind || ' of ' || owner
            WHERE {DUE} AND NOT {among} AND reason IS NULL""",
        values,
    )
    found = tx.execute(f"SELECT count(*) FROM job WHERE {DUE} AND NOT {among}", values)
    return int(found.fetchone()[0])


def _until(now_ms: int, lease_ms: int) -> int:
    if not 0 < lease_ms <= MOST_LEASE_MS:
        raise InputError(f"lease_ms={lease_ms}: give 1 to {MOST_LEASE_MS}")
    return now_ms + lease_ms


def times_at(now_ms: int) -> dict[str, Any]:
    """Return the values of `DUE` and `EXPIRED`."""
    return {"now": now_ms, "most_lease": MOST_LEASE_MS, "most_backoff": MOST_BACKOFF_MS}


def _among(kinds: Collection[JobKind]) -> tuple[str, dict[str, Any]]:
    """Return the condition that a job is of one of the kinds, and its values."""
    if not kinds:
        return "0", {}
    pairs = list(enumerate(sorted(kinds)))
    rows = ", ".join(f"(:owner{n}, :kind{n})" for n, _ in pairs)
    named = {f"{part}{n}": pair[i] for n, pair in pairs for i, part in enumerate(("owner", "kind"))}
    return f"(owner, kind) IN (VALUES {rows})", named


def any_open(tx: Tx) -> bool:
    """Return whether there is a job that waits or is leased."""
    return tx.execute("SELECT 1 FROM job WHERE state IN ('waiting', 'leased') LIMIT 1").fetchone() is not None


MOST_NAMED = 10
"""Most jobs given up that are named at once."""


def total(tx: Tx) -> int:
    """Return how many jobs there are, those that are done included."""
    return int(tx.execute("SELECT count(*) FROM job").fetchone()[0])


def given_up(tx: Tx) -> tuple[tuple[str, str, str, int, str], ...]:
    """Return (owner, kind, key, tries, reason of the last failure) of the first jobs that were given up."""
    rows = tx.execute(
        """SELECT owner, kind, key, tries, coalesce(reason, '') FROM job WHERE state = 'failed'
           ORDER BY id LIMIT ?""",
        (MOST_NAMED,),
    )
    return tuple(rows)


def count(
    tx: Tx, *, now_ms: int
) -> tuple[dict[str, int], int | None, int, tuple[tuple[str, str, str, int, str], ...], int]:
    """Return the counts by state, the oldest due time in ms, the ended leases, the first jobs given up, and how many are due."""
    states = tx.pairs("SELECT state, count(*) FROM job GROUP BY state ORDER BY state")
    times = times_at(now_ms)
    oldest, due = tx.execute(f"SELECT min(due_ms), count(*) FROM job WHERE {DUE}", times).fetchone()
    expired = tx.execute(f"SELECT count(*) FROM job WHERE {EXPIRED}", times).fetchone()[0]
    return states, oldest, expired, given_up(tx), due


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
    """Return a message for each invalid row of a job."""
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


# The first condition is that of the index of jobs that are not done, and `+` keeps the one of owners from being taken.
_FAILED = "state != 'done' AND (state = 'failed' OR (state = 'waiting' AND tries > 0 AND reason IS NOT NULL))"


def hurry(tx: Tx, owner: str, *, now_ms: int) -> int:
    """Make the jobs of an owner due now that have failed, also those that were given up; return how many. Reasons are kept."""
    return tx.execute(
        f"""{REOPEN}, tries = min(tries, :tries), due_ms = min(due_ms, :now) WHERE +owner = :owner AND {_FAILED}""",
        {"tries": MOST_TRIES - 1, "now": now_ms, "owner": owner},
    ).rowcount


def failures(tx: Tx, owner: str) -> list[DueJob]:
    """Return the jobs of an owner that have failed and are not done, also those that were given up, with the reason for a payload."""
    rows = tx.execute(
        f"""SELECT key, kind, due_ms, reason, tries FROM job
            WHERE +owner = ? AND {_FAILED} ORDER BY due_ms, id""",
        (owner,),
    )
    return [DueJob(key, kind, ms, {"reason": reason}, tries) for key, kind, ms, reason, tries in rows]
