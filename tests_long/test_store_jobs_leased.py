"""Jobs that their owner does itself: what is due, in order, leases by key, and keys that may be given anew."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from memforest.errors import InputError
from memforest.store import jobs
from memforest.store.connections import Connection
from memforest.store.database import Database, ensure_schema
from memforest.store.jobs import MOST_BACKOFF_MS, MOST_LEASE_MS, MOST_TRIES, DueJob, Job

NOW, MINUTE = 1_700_000_000_000, 60_000


def put(tx: Connection, key: str, due_ms: int = NOW, *, owner: str = "ix", kind: str = "day") -> None:
    """Add a job."""
    assert jobs.add(tx, owner, kind, key, due_ms=due_ms, payload={"of": key})


def keys(tx: Connection, *, now_ms: int = NOW, limit: int | None = None, force: bool = False) -> list[str]:
    """Return the keys of what is due."""
    return [one.key for one in jobs.due(tx, "ix", now_ms=now_ms, limit=limit, force=force)]


def lease(
    tx: Connection, *wanted: str, holder: str = "a", now_ms: int = NOW, force: bool = False
) -> list[Job]:
    """Lease jobs for a minute."""
    return jobs.lease(tx, "ix", wanted, holder, now_ms=now_ms, lease_ms=MINUTE, force=force)


def state(tx: Connection, key: str) -> tuple[object, ...]:
    """Return state, tries, holder and reason of a job."""
    row = tx.execute("SELECT state, tries, holder, reason FROM job WHERE key = ? AND owner = 'ix'", (key,))
    return tuple(row.fetchone())


def test_what_is_due_comes_in_order_and_nothing_is_leased(tx: Connection) -> None:
    """By due time, then as it was added; of one owner; what is done, given up or for later is not among it."""
    for key, due in (("c", NOW), ("a", NOW), ("b", NOW - 1), ("late", NOW + 1)):
        put(tx, key, due)
    put(tx, "x", owner="other")
    for key in ("done", "held"):
        put(tx, key, NOW - 9)
    done, _ = lease(tx, "done", "held")
    assert jobs.finish(tx, done)
    assert keys(tx) == ["b", "c", "a"]
    assert keys(tx, limit=2) == ["b", "c"]
    assert keys(tx, force=True) == ["b", "c", "a", "late"]
    assert jobs.due(tx, "ix", now_ms=NOW, limit=1) == [DueJob("b", "day", NOW - 1, {"of": "b"}, 0)]
    assert keys(tx, now_ms=NOW + MINUTE) == ["held", "b", "c", "a", "late"], "a lease that has ended is due"
    assert state(tx, "b") == ("waiting", 0, None, None)


def test_jobs_are_leased_by_their_keys(tx: Connection) -> None:
    """Those that can be taken, the longest due first; others, and those of another owner, are left as they are."""
    for key, due in (("a", NOW), ("b", NOW - 1), ("late", NOW + 1)):
        put(tx, key, due)
    put(tx, "x", owner="other")
    found = lease(tx, "a", "b", "late", "x", "nothing")
    assert [(one.key, one.tries, one.holder, one.payload) for one in found] == [
        ("b", 1, "a", {"of": "b"}),
        ("a", 1, "a", {"of": "a"}),
    ]
    assert lease(tx, "a", "b", holder="b") == []
    [late] = lease(tx, "late", "a", holder="b", force=True)
    assert (late.key, late.holder) == ("late", "b"), "not what another holds"
    [again] = lease(tx, "a", holder="b", now_ms=NOW + MINUTE)
    assert again.tries == 2
    assert not jobs.finish(tx, found[1])
    assert jobs.finish(tx, again)
    assert lease(tx, "a", force=True, now_ms=NOW + MOST_LEASE_MS) == [], "it is done"
    assert lease(tx) == []


def test_a_failed_job_is_due_again_when_its_wait_is_over_or_when_it_is_forced(tx: Connection) -> None:
    """A wait that another clock has noted counts as over."""
    put(tx, "a")
    [job] = lease(tx, "a")
    assert jobs.fail(tx, job, "no reply", now_ms=NOW)
    assert (keys(tx), lease(tx, "a")) == ([], [])
    assert keys(tx, force=True) == ["a"]
    assert keys(tx, now_ms=NOW - MOST_BACKOFF_MS) == ["a"]
    [again] = lease(tx, "a", force=True)
    assert again.tries == 2


def test_a_job_that_kills_its_holders_is_given_up(tx: Connection) -> None:
    """It is leased `MOST_TRIES` times, forced or not, and no more."""
    put(tx, "a")
    for n in range(MOST_TRIES):
        [job] = lease(tx, "a", now_ms=NOW + n * MINUTE, force=bool(n % 2))
        assert job.tries == n + 1
    end = NOW + MOST_TRIES * MINUTE
    assert lease(tx, "a", now_ms=end, force=True) == []
    assert state(tx, "a")[0] == "failed"
    assert keys(tx, now_ms=end, force=True) == []


@pytest.mark.parametrize("wrong", [0, -1, MOST_LEASE_MS + 1])
def test_a_lease_has_bounds(tx: Connection, wrong: int) -> None:
    """As that of `take`."""
    with pytest.raises(InputError, match="lease_ms"):
        jobs.lease(tx, "ix", ["a"], "h", now_ms=NOW, lease_ms=wrong)


def test_a_job_that_is_removed_may_be_given_anew(tx: Connection) -> None:
    """Whatever its state; who held it is too late."""
    for key in ("a", "b", "c"):
        put(tx, key)
    put(tx, "a", owner="other")
    held, done = lease(tx, "a", "b")
    assert jobs.finish(tx, done)
    assert jobs.remove(tx, "ix", ["a", "b", "nothing"]) == 2
    assert not jobs.finish(tx, held)
    assert keys(tx) == ["c"]
    put(tx, "a")
    assert keys(tx) == ["c", "a"]
    assert [one.key for one in jobs.due(tx, "other", now_ms=NOW)] == ["a"]
    assert jobs.remove(tx, "ix", []) == 0


def test_two_who_lease_the_same_keys_share_them(tmp_path: Path) -> None:
    """Each job is one holder's, whatever the threads do at once."""
    path = tmp_path / "a.db"
    db = Database(path)
    ensure_schema(db)
    names = [f"k{n}" for n in range(30)]
    with db.write() as tx:
        for name in names:
            jobs.add(tx, "ix", "day", name, due_ms=NOW)
    got: dict[str, list[str]] = {"a": [], "b": []}
    ready = threading.Barrier(2)

    def work(holder: str) -> None:
        own = Database(path)
        ready.wait()
        for first in range(0, 30, 3):
            with own.write() as tx:
                found = jobs.lease(tx, "ix", names[first : first + 3], holder, now_ms=NOW, lease_ms=MINUTE)
            got[holder] += [one.key for one in found]
        own.close()

    threads = [threading.Thread(target=work, args=(holder,)) for holder in got]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    db.close()
    assert sorted(got["a"] + got["b"]) == sorted(names)


def test_what_is_done_costs_a_look_nothing(tx: Connection) -> None:
    """Jobs that are done stay for ever: what is due is found among those that are open."""
    plan = " ".join(
        row[-1]
        for row in tx.execute(
            f"""EXPLAIN QUERY PLAN SELECT key FROM job WHERE state != 'done' AND +owner = 'ix'
                AND (({jobs.DUE}) OR ({jobs.EXPIRED})) ORDER BY due_ms, id LIMIT 5""",
            {"now": NOW, "most_lease": MOST_LEASE_MS, "most_backoff": MOST_BACKOFF_MS},
        )
    )
    assert "job_open" in plan


def test_nobody_misses_a_handler_of_those_who_do_their_jobs_themselves(tx: Connection) -> None:
    """A due job of theirs is not told that nothing does it, nor counted."""
    put(tx, "a")
    put(tx, "x", owner="other")
    assert jobs.note_unhandled(tx, (), now_ms=NOW, but={"ix"}) == 1
    assert state(tx, "a")[3] is None
    assert jobs.note_unhandled(tx, (), now_ms=NOW) == 2
    assert state(tx, "a")[3] == "nothing here does jobs of kind day of ix"
