"""Jobs as rows: which is taken, to the millisecond, and what each verb writes into whose row."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests_long.stored import empty_memory, value

from memforest.errors import InputError
from memforest.store import jobs
from memforest.store.connections import Connection
from memforest.store.jobs import FIRST_BACKOFF_MS, MOST_BACKOFF_MS, MOST_LEASE_MS, MOST_NAMED, MOST_TRIES, Job

NOW, MINUTE = 1_700_000_000_000, 60_000
KINDS = frozenset({("ix", "close")})
ROW = "SELECT state, tries, holder, lease_until_ms, reason, due_ms FROM job WHERE key = ?"


def put(tx: Connection, key: str = "k", *, due_ms: int = NOW, kind: str = "close", owner: str = "ix") -> None:
    """Add a job."""
    assert jobs.add(tx, owner, kind, key, due_ms=due_ms)


def take(tx: Connection, holder: str = "a", *, now_ms: int = NOW, lease_ms: int = MINUTE) -> Job | None:
    """Lease the next job of the one kind."""
    return jobs.take(tx, holder, KINDS, now_ms=now_ms, lease_ms=lease_ms)


def held(tx: Connection, holder: str = "a", *, now_ms: int = NOW, lease_ms: int = MINUTE) -> Job:
    """Lease the next job, which there is."""
    job = take(tx, holder, now_ms=now_ms, lease_ms=lease_ms)
    assert job is not None
    return job


def row(tx: Connection, key: str = "k") -> tuple[Any, ...]:
    """Return state, tries, holder, end of the lease, reason and due time of a job."""
    return tuple(tx.execute(ROW, (key,)).fetchone())


@pytest.mark.parametrize("given", [None, {}, {"b": [1, None, 0.5], "a": {"ü": "\U0001f98a\x1f'"}}])
def test_a_payload_comes_back_as_it_was_given(tx: Connection, given: dict[str, Any] | None) -> None:
    """No payload is an empty one."""
    assert jobs.add(tx, "ix", "close", "k", due_ms=NOW, payload=given)
    job = held(tx)
    assert (job.payload, job.owner, job.kind, job.key) == (given or {}, "ix", "close", "k")
    assert (job.tries, job.holder) == (1, "a")
    assert row(tx) == ("leased", 1, "a", NOW + MINUTE, None, NOW)


@pytest.mark.parametrize("missing", ["owner", "kind", "key"])
def test_each_name_is_needed(tx: Connection, missing: str) -> None:
    """A job without one could be neither found nor told apart."""
    with pytest.raises(InputError):
        jobs.add(tx, *("" if name == missing else "x" for name in ("owner", "kind", "key")), due_ms=NOW)
    assert jobs.total(tx) == 0


@pytest.mark.parametrize("payload", [[1], {1, 2}, {"x": {1}}, {"x": float("inf")}, "text", 7])
def test_what_is_no_json_object_is_refused(tx: Connection, payload: Any) -> None:
    """The message names the job."""
    with pytest.raises(InputError):
        jobs.add(tx, "ix", "close", "k", due_ms=NOW, payload=payload)
    assert not jobs.any_open(tx)


def test_a_key_is_one_owners(tx: Connection) -> None:
    """Another owner may have the same; the same owner not, even for work of another kind."""
    put(tx)
    put(tx, owner="other")
    assert not jobs.add(tx, "ix", "merge", "k", due_ms=NOW)
    assert jobs.total(tx) == 2
    assert jobs.drop(tx, "ix") == 1
    assert tx.execute("SELECT owner FROM job").fetchall() == [("other",)]


def test_a_dropped_job_leaves_its_id_to_nobody(tx: Connection) -> None:
    """Who still holds it can finish no other."""
    put(tx)
    old = held(tx)
    jobs.drop(tx, "ix")
    put(tx)
    assert held(tx).row > old.row
    assert not jobs.finish(tx, old)


@pytest.mark.parametrize(("due_ms", "is_taken"), [(NOW, True), (NOW + 1, False), (-1, True)])
def test_a_job_may_be_begun_from_its_time_on(tx: Connection, due_ms: int, is_taken: bool) -> None:
    """And not a millisecond before."""
    put(tx, due_ms=due_ms)
    assert (jobs.count(tx, now_ms=NOW)[1] == due_ms) is is_taken
    assert (take(tx) is not None) is is_taken


def test_of_jobs_due_at_one_time_the_one_added_first_is_taken(tx: Connection) -> None:
    """And of others the one that has been due longest."""
    for key, due in (("b", NOW), ("c", NOW - 1), ("a", NOW)):
        put(tx, key, due_ms=due)
    assert [held(tx).key for _ in range(3)] == ["c", "b", "a"]
    assert take(tx) is None


def test_a_holder_gets_only_what_it_can_do(tx: Connection) -> None:
    """A kind is one owner's; who can do nothing gets nothing."""
    put(tx, "one", kind="merge")
    put(tx, "two", owner="other")
    put(tx, "three", due_ms=NOW)
    assert jobs.take(tx, "a", (), now_ms=NOW, lease_ms=1) is None
    both = {("other", "merge"), ("ix", "close")}
    found = jobs.take(tx, "a", both, now_ms=NOW, lease_ms=1)
    assert found is not None
    assert found.key == "three"
    assert jobs.take(tx, "a", both, now_ms=NOW, lease_ms=1) is None


@pytest.mark.parametrize("lease_ms", [0, -1, MOST_LEASE_MS + 1])
def test_a_lease_is_some_time_and_no_longer_than_allowed(tx: Connection, lease_ms: int) -> None:
    """None is taken for another one; the longest is allowed."""
    put(tx)
    with pytest.raises(InputError, match=f"lease_ms={lease_ms}: give 1 to {MOST_LEASE_MS}"):
        take(tx, lease_ms=lease_ms)
    assert row(tx)[:2] == ("waiting", 0)
    held(tx, lease_ms=MOST_LEASE_MS)
    assert row(tx)[3] == NOW + MOST_LEASE_MS


@pytest.mark.parametrize(
    ("until", "over"), [(1, False), (0, True), (MOST_LEASE_MS, False), (MOST_LEASE_MS + 1, True)]
)
def test_a_lease_ends_at_its_time_or_when_it_is_too_far_ahead(tx: Connection, until: int, over: bool) -> None:
    """A clock that has gone back would else hold the job for ever; the longest lease that can be given holds."""
    put(tx)
    held(tx)
    tx.execute("UPDATE job SET lease_until_ms = ?", (NOW + until,))
    assert jobs.count(tx, now_ms=NOW)[2] == over
    assert (take(tx, "b") is not None) is over


@pytest.mark.parametrize(
    ("ahead", "tries", "is_taken"),
    [(MOST_BACKOFF_MS, 1, False), (MOST_BACKOFF_MS + 1, 1, True), (MOST_BACKOFF_MS + 1, 0, False), (MOST_BACKOFF_MS + 1, 3, True)],
)  # fmt: skip
def test_a_further_try_waits_no_longer_than_the_longest_wait(
    tx: Connection, ahead: int, tries: int, is_taken: bool
) -> None:
    """A first one may be due in a year."""
    put(tx, due_ms=NOW + ahead)
    tx.execute("UPDATE job SET tries = ?", (tries,))
    assert (take(tx) is not None) is is_taken


@pytest.mark.parametrize("tries", [MOST_TRIES - 1, MOST_TRIES])
def test_the_last_lease_that_ends_gives_the_job_up(tx: Connection, tries: int) -> None:
    """One before it is tried again; of a lease that has not ended nothing is said."""
    put(tx)
    held(tx, "p1", lease_ms=5)
    tx.execute("UPDATE job SET tries = ?", (tries,))
    assert take(tx, "b", now_ms=NOW + 4) is None
    assert row(tx)[:3] == ("leased", tries, "p1")
    found = take(tx, "b", now_ms=NOW + 5)
    if tries < MOST_TRIES:
        assert found is not None
        assert found.tries == MOST_TRIES
    else:
        assert found is None
        assert row(tx) == ("failed", 8, None, None, "begun 8 times and never finished, last by p1", NOW)


def test_a_lease_that_ended_is_given_up_by_whoever_looks(tx: Connection) -> None:
    """Even one that can do nothing; jobs beside it are as they were."""
    put(tx)
    put(tx, "waits")
    held(tx)
    tx.execute("UPDATE job SET tries = 8 WHERE state = 'leased'")
    assert jobs.take(tx, "b", (), now_ms=NOW + MINUTE, lease_ms=1) is None
    assert [row(tx, key)[0] for key in ("k", "waits")] == ["failed", "waiting"]


def test_who_does_not_hold_a_job_can_do_nothing_with_it(tx: Connection) -> None:
    """Another holder, another try or another row: each is too late, and writes nothing."""
    put(tx)
    put(tx, "other")
    job = held(tx)
    before = row(tx)
    for wrong in (job._replace(holder="b"), job._replace(tries=2), job._replace(row=job.row + 1)):
        assert not jobs.finish(tx, wrong)
        assert not jobs.fail(tx, wrong, "no", now_ms=NOW)
        assert not jobs.give_back(tx, wrong, "no")
    assert row(tx) == before
    assert row(tx, "other") == ("waiting", 0, None, None, None, NOW)


def test_a_finished_job_is_finished_for_whoever_did_it_alone(tx: Connection) -> None:
    """Twice is once, for the same holder and try; it forgets why a try before failed."""
    put(tx)
    jobs.fail(tx, held(tx), "away", now_ms=NOW)
    job = held(tx, "b", now_ms=NOW + FIRST_BACKOFF_MS)
    assert row(tx)[4] == "away"
    assert jobs.finish(tx, job)
    assert row(tx)[:5] == ("done", 2, "b", None, None)
    assert jobs.finish(tx, job)
    assert not jobs.finish(tx, job._replace(holder="c"))
    assert not jobs.finish(tx, job._replace(tries=1))
    assert not jobs.fail(tx, job, "no", now_ms=NOW)
    assert row(tx)[:5] == ("done", 2, "b", None, None)
    assert not jobs.any_open(tx)


@pytest.mark.parametrize("tries", range(1, MOST_TRIES + 1))
def test_each_failure_waits_twice_as_long_as_the_one_before(tx: Connection, tries: int) -> None:
    """From half a minute up to an hour; the last one is for good."""
    put(tx)
    tx.execute("UPDATE job SET tries = ?", (tries - 1,))
    assert jobs.fail(tx, held(tx), "away", now_ms=NOW + 9)
    due = NOW + 9 + min(30_000 * 2 ** (tries - 1), 3_600_000)
    state = "failed" if tries == MOST_TRIES else "waiting"
    assert row(tx) == (state, tries, None, None, "away", due)


def test_a_job_given_back_has_not_been_tried(tx: Connection) -> None:
    """It is due as before, whoever looks next; long reasons are cut, as those of failures."""
    put(tx)
    assert jobs.give_back(tx, held(tx), "ü" * 501)
    assert row(tx) == ("waiting", 0, None, None, "ü" * 500, NOW)
    job = held(tx, "b")
    assert job.tries == 1
    assert jobs.fail(tx, job, "ü" * 501, now_ms=NOW)
    assert row(tx)[4] == "ü" * 500


def test_again_begins_a_job_anew_in_whatever_state_it_is(tx: Connection) -> None:
    """From its first try, at the new time, without a reason; another owner's of that name is left."""
    put(tx)
    put(tx, owner="other")
    for state in ("waiting", "leased", "done", "failed"):
        tx.execute(
            "UPDATE job SET state = ?, tries = 5, reason = 'x', holder = 'h', lease_until_ms = 9 WHERE owner = 'ix'",
            (state,),
        )
        assert jobs.again(tx, "ix", "k", due_ms=NOW + 7)
        assert tx.execute(f"{ROW} AND owner = 'ix'", ("k",)).fetchone() == (
            "waiting", 0, None, None, None, NOW + 7,
        )  # fmt: skip
    assert tx.execute(f"{ROW} AND owner = 'other'", ("k",)).fetchone()[5] == NOW
    assert not jobs.again(tx, "ix", "l", due_ms=NOW)


def test_one_more_try_is_one(tx: Connection) -> None:
    """Of what was given up, of the kinds that can be done, due now and with its reason; then it is given up again."""
    for key, kind in (("k", "close"), ("l", "merge"), ("m", "close")):
        put(tx, key, kind=kind)
    tx.execute("UPDATE job SET state = 'failed', tries = 8, reason = 'away', holder = 'x' WHERE key != 'm'")
    assert jobs.retry_failed(tx, KINDS, now_ms=NOW + 5) == 1
    assert row(tx) == ("waiting", MOST_TRIES - 1, None, None, "away", NOW + 5)
    assert (row(tx, "l")[0], row(tx, "m")[:2]) == ("failed", ("waiting", 0))
    held(tx, now_ms=NOW)  # m
    assert jobs.fail(tx, held(tx, now_ms=NOW + 5), "still", now_ms=NOW)
    assert row(tx)[:2] == ("failed", MOST_TRIES)


def test_what_nothing_here_does_says_so_and_waits(tx: Connection) -> None:
    """When it is due, and unless it has a reason of its own already; it can be taken where somebody does it."""
    put(tx, "k", kind="merge")
    put(tx, "later", kind="merge", due_ms=NOW + 1)
    put(tx, "failed before", kind="merge")
    put(tx, "mine")
    tx.execute("UPDATE job SET reason = 'away' WHERE key = 'failed before'")
    assert jobs.note_unhandled(tx, KINDS, now_ms=NOW) == 2
    assert jobs.note_unhandled(tx, KINDS, now_ms=NOW) == 2
    reasons = dict(tx.execute("SELECT key, reason FROM job").fetchall())
    told = "nothing here does jobs of kind merge of ix"
    assert reasons == {"k": told, "later": None, "failed before": "away", "mine": None}
    assert jobs.note_unhandled(tx, (), now_ms=NOW) == 3
    assert row(tx)[:2] == ("waiting", 0)


@pytest.mark.parametrize(
    ("state", "expected"), [("waiting", True), ("leased", True), ("done", False), ("failed", False)]
)
def test_a_job_is_open_till_it_is_done_or_given_up(tx: Connection, state: str, expected: bool) -> None:
    """None is open where there is none."""
    assert not jobs.any_open(tx)
    put(tx)
    tx.execute("UPDATE job SET state = ?", (state,))
    assert jobs.any_open(tx) is expected
    assert jobs.total(tx) == 1


def test_the_first_jobs_that_were_given_up_are_named(tx: Connection) -> None:
    """Those added first, and no more than a few; one without a reason is named too."""
    for n in range(MOST_NAMED + 2):
        put(tx, f"k{n:02}")
    tx.execute("UPDATE job SET state = 'failed', tries = 8 WHERE key != 'k00'")
    found = jobs.given_up(tx)
    assert [key for _, _, key, *_ in found] == [f"k{n:02}" for n in range(1, MOST_NAMED + 1)]
    assert found[0] == ("ix", "close", "k01", 8, "")
    assert jobs.count(tx, now_ms=NOW) == ({"failed": MOST_NAMED + 1, "waiting": 1}, NOW, 0, found, 1)


HELD = "state = 'leased', holder = 'a', lease_until_ms = 5"
CORRECT = [
    "tries = 8", "tries = 0", HELD, "state = 'done', holder = 'a'", "state = 'done'", "state = 'failed', reason = 'x'",
    "due_ms = -62135596800000", "due_ms = 253402300799999", "payload = '{\"a\": 1}'", "reason = 'x'",
]  # fmt: skip
WRONG = [
    ("state = 'Done'", "its state cannot be"),
    ("state = 'leased', lease_until_ms = 5", "leased, and to nobody"),
    ("state = 'leased', holder = '', lease_until_ms = 5", "leased, and to nobody"),
    ("state = 'leased', holder = 'a'", "or for ever"),
    ("lease_until_ms = 5", "has a lease and is not leased"),
    ("state = 'done', lease_until_ms = 5", "has a lease and is not leased"),
    ("holder = 'a'", "has a holder and is not leased"),
    ("state = 'failed', reason = 'x', holder = 'a'", "has a holder and is not leased"),
    ("tries = 9", "tried so often"),
    ("tries = -1", "tried so often"),
    ("state = 'failed'", "given up without a reason"),
    ("state = 'failed', reason = ''", "given up without a reason"),
    ("due_ms = -62135596800001", "outside the years"),
    (f"{HELD.replace('5', '253402300800001')}", "outside the years"),
]
LOST = [
    ("payload = '[]'", "payload cannot be read"),
    ("payload = ''", "payload cannot be read"),
    ("payload = 'null'", "payload cannot be read"),
    ("kind = ''", "lacks an owner, a kind or a key"),
    ("id = 50", "its id is still to be given"),
]


@pytest.mark.parametrize("change", CORRECT)
def test_a_job_as_it_may_be_is_left_alone(tx: Connection, change: str) -> None:
    """Every state at its bounds: nothing is named, and nothing changed by a repair."""
    put(tx)
    tx.execute(f"UPDATE job SET {change}")
    before = tx.execute("SELECT * FROM job").fetchall()
    assert jobs.job_problems(tx) == []
    assert jobs.repair(tx, now_ms=NOW) == (0, 0)
    assert tx.execute("SELECT * FROM job").fetchall() == before


@pytest.mark.parametrize(("change", "message"), [*WRONG, *LOST])
def test_a_job_that_cannot_be_is_named_and_mended(tx: Connection, change: str, message: str) -> None:
    """What says what it was waits anew from its first try, due now; what does not is forgotten; others stay."""
    put(tx, "other", due_ms=1)
    put(tx)
    tx.execute(f"UPDATE job SET {change} WHERE key = 'k'")
    [problem] = jobs.job_problems(tx)
    assert problem.startswith("job 'k' of 'ix': ")
    assert message in problem
    lost = (change, message) in LOST
    assert jobs.repair(tx, now_ms=NOW) == ((0, 1) if lost else (1, 0))
    assert jobs.job_problems(tx) == []
    assert row(tx, "other") == ("waiting", 0, None, None, None, 1)
    if not lost:
        assert (row(tx)[:4], row(tx)[5]) == (("waiting", 0, None, None), NOW)
        assert held(tx, now_ms=NOW).key == "other"
        assert held(tx, now_ms=NOW).key == "k"


def test_a_job_in_a_memory_that_never_gave_an_id_is_named(tx: Connection) -> None:
    """The counter is missing: the job's id would be given again."""
    put(tx)
    tx.execute("DELETE FROM meta WHERE key = 'next:job'")
    assert jobs.job_problems(tx) == ["job 'k' of 'ix': its id is still to be given"]


ACTS = st.sampled_from(["take a", "take b", "finish", "fail", "give back", "late", "wait", "back", "retry"])


@settings(max_examples=40)
@given(st.lists(ACTS, max_size=25))
def test_whatever_happens_a_job_is_one_holders_and_its_row_can_be(acts: list[str]) -> None:
    """A model by hand: who holds the job, and how often it was begun; no more than the holder writes."""
    tx = empty_memory()
    put(tx)
    now, holds, old, begun = NOW, None, None, 0
    for act in acts:
        if act.startswith("take"):
            expired = holds is not None and not now < row(tx)[3] <= now + MOST_LEASE_MS
            found = take(tx, act[-1], now_ms=now)
            assert found is None or holds is None or expired
            if found is not None:
                old, holds, begun = holds or old, found, begun + 1
            elif expired:
                old, holds = holds, None
        elif act == "late" and old is not None and (holds is None or old[-2:] != holds[-2:]):
            assert not jobs.fail(tx, old, "late", now_ms=now)
            assert not jobs.give_back(tx, old, "late")
        elif act == "retry":
            jobs.retry_failed(tx, KINDS, now_ms=now)
        elif act in ("wait", "back"):
            now += 2 * MINUTE if act == "wait" else -5 * MOST_LEASE_MS
        elif holds is not None and act != "late":
            verb: Any = {"finish": jobs.finish, "give back": jobs.give_back, "fail": jobs.fail}[act]
            more: dict[str, Any] = {} if act == "finish" else {"reason": "x"}
            assert verb(tx, holds, **more, **({"now_ms": now} if act == "fail" else {}))
            old, holds = holds, None
        assert jobs.job_problems(tx) == []
        assert value(tx, "SELECT count(*) FROM job WHERE state = 'leased'") == (holds is not None)
        assert value(tx, "SELECT tries FROM job") <= min(begun, MOST_TRIES)
    tx.close()
