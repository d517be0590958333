"""Due work: a key is given once, a lease is one holder's, and what fails says why."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests_long.worlds import fast_config, file_of, said

from memforest import MemForest
from memforest.cli import main
from memforest.errors import BudgetError, InputError, ModelUnavailableError
from memforest.memory.memory import Memory
from memforest.memory.open import open_memory
from memforest.reading.steps import choose_steps
from memforest.store import jobs
from memforest.store.database import Database, ensure_schema
from memforest.store.jobs import MOST_BACKOFF_MS, MOST_LEASE_MS, MOST_TRIES, Job
from memforest.testing import FrozenClock
from memforest.times import from_ms, to_ms
from memforest.write.jobs import Handlers, run_due

CLOCK = FrozenClock("2024-06-01T12:00:00+00:00")
NOW = to_ms(CLOCK())
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
CLOSE = frozenset({("timem", "close")})


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    """An empty database with its schema."""
    made = Database(tmp_path / "a.db")
    ensure_schema(made)
    yield made
    made.close()


def put(db: Database, key: str = "month 2024-05", *, due_ms: int = NOW, kind: str = "close") -> bool:
    """Add a job of one index."""
    with db.write() as tx:
        return jobs.add(tx, "timem", kind, key, due_ms=due_ms, payload={"months": [5], "of": "Ána"})


def take(db: Database, holder: str = "a", *, now_ms: int = NOW, lease_ms: int = 10 * MINUTE) -> Job | None:
    """Lease the next job."""
    with db.write() as tx:
        return jobs.take(tx, holder, CLOSE, now_ms=now_ms, lease_ms=lease_ms)


def taken(db: Database, holder: str = "a", *, now_ms: int = NOW) -> Job:
    """Lease the next job, which there is."""
    job = take(db, holder, now_ms=now_ms)
    assert job is not None
    return job


def row(db: Database) -> tuple[object, ...]:
    """Return state, tries, holder and reason of the only job."""
    with db.read() as tx:
        [found] = tx.execute("SELECT state, tries, holder, reason FROM job").fetchall()
    return tuple(found)


def test_the_same_key_again_changes_nothing(db: Database) -> None:
    """Waiting, leased, done or given up: a key names its work once, among those of one owner."""
    assert put(db)
    assert not put(db, due_ms=NOW + DAY)
    job = taken(db)
    assert (job.key, job.payload, job.tries) == ("month 2024-05", {"months": [5], "of": "Ána"}, 1)
    assert not put(db)
    with db.write() as tx:
        assert jobs.finish(tx, job)
        assert jobs.finish(tx, job)  # twice is once
    assert not put(db)
    assert take(db, now_ms=NOW + DAY) is None
    with db.write() as tx:
        assert jobs.add(tx, "hmem", "close", "month 2024-05", due_ms=NOW)
        assert jobs.drop(tx, "timem") == 1
        assert jobs.total(tx) == 1


def test_work_whose_sources_changed_is_done_again(db: Database) -> None:
    """Whoever held it is too late: what was made is of the old sources."""
    put(db)
    old = taken(db)
    with db.write() as tx:
        assert jobs.again(tx, "timem", "month 2024-05", due_ms=NOW)
        assert not jobs.finish(tx, old)
    new = taken(db, "b")
    with db.write() as tx:
        assert jobs.finish(tx, new)
        assert not jobs.finish(tx, old)


@pytest.mark.parametrize(
    "wrong", [{"key": ""}, {"kind": ""}, {"payload": {"x": float("nan")}}, {"payload": {"x": b""}}]
)
def test_a_job_that_cannot_be_is_refused(db: Database, wrong: dict[str, object]) -> None:
    """Without a name, or with what is no JSON."""
    given = {"owner": "timem", "kind": "close", "key": "k", "due_ms": NOW, **wrong}
    with pytest.raises(InputError), db.write() as tx:
        jobs.add(tx, **given)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        take(db, lease_ms=MOST_LEASE_MS + 1)


def test_two_connections_never_hold_one_job(db: Database, tmp_path: Path) -> None:
    """Two threads with a connection each empty one queue: every job is taken once, the longest due first."""
    for n in range(40):
        put(db, f"day {n:02d}", due_ms=NOW - n)
    got: dict[str, list[str]] = {"a": [], "b": []}
    ready = threading.Barrier(2)

    def work(holder: str) -> None:
        own = Database(tmp_path / "a.db")
        ready.wait()
        while (job := take(own, holder)) is not None:
            got[holder].append(job.key)
        own.close()

    threads = [threading.Thread(target=work, args=(holder,)) for holder in got]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got["a"] + got["b"]) == [f"day {n:02d}" for n in range(40)]
    assert all(keys == sorted(keys, reverse=True) for keys in got.values())


def test_the_lease_of_a_process_that_died_ends(db: Database) -> None:
    """Till then nobody else takes the job; after it another does, and the first is too late for everything."""
    put(db)
    dead = taken(db, "dead")
    assert take(db, "b", now_ms=NOW + 10 * MINUTE - 1) is None
    alive = taken(db, "b", now_ms=NOW + 10 * MINUTE)
    assert (alive.row, alive.tries) == (dead.row, 2)
    with db.write() as tx:
        assert not jobs.finish(tx, dead)
        assert not jobs.fail(tx, dead, "late", now_ms=NOW)
        assert not jobs.give_back(tx, dead, "late")
    assert take(db, "c", now_ms=NOW + 11 * MINUTE) is None
    assert row(db) == ("leased", 2, "b", None)


def test_a_job_that_kills_its_processes_is_given_up(db: Database) -> None:
    """What is begun and never finished counts as tried, so that it cannot go on for ever."""
    put(db)
    for n in range(MOST_TRIES):
        assert taken(db, f"p{n}", now_ms=NOW + n * HOUR).tries == n + 1
    assert take(db, now_ms=NOW + MOST_TRIES * HOUR) is None
    assert row(db) == ("failed", MOST_TRIES, None, "begun 8 times and never finished, last by p7")


def test_a_clock_that_goes_back_holds_nothing_up(db: Database) -> None:
    """A lease and a wait that were noted by a clock a year ahead end at once; a job for later stays for later."""
    put(db)
    put(db, "later", due_ms=NOW + 9 * DAY)
    ahead = NOW + 365 * DAY
    first = taken(db, "ahead", now_ms=ahead)
    assert first.key == "month 2024-05"
    again = taken(db, "b", now_ms=NOW)
    assert again.row == first.row
    with db.write() as tx:
        assert not jobs.finish(tx, first)
        assert jobs.fail(tx, again, "away", now_ms=ahead)
    assert taken(db, "c", now_ms=NOW).row == first.row
    assert take(db, "d", now_ms=NOW) is None


def test_a_failure_waits_twice_as_long_each_time_and_then_is_final(db: Database) -> None:
    """The reason is kept; one more try is given by hand."""
    put(db)
    now, waits = NOW, []
    for n in range(MOST_TRIES):
        job = taken(db, now_ms=now)
        with db.write() as tx:
            assert jobs.fail(tx, job, f"no reply {n}", now_ms=now)
        begun = now
        while n < MOST_TRIES - 1 and take_is_early(db, now):
            now += 15_000
        waits.append((now - begun) // 1000)
    assert waits == [30, 60, 120, 240, 480, 960, 1920, 0]
    assert take(db, now_ms=now + MOST_BACKOFF_MS) is None
    assert row(db) == ("failed", MOST_TRIES, None, "no reply 7")
    with db.write() as tx:
        assert jobs.retry_failed(tx, {("timem", "merge")}, now_ms=now) == 0
        assert jobs.retry_failed(tx, CLOSE, now_ms=now) == 1
    last = taken(db, now_ms=now)
    with db.write() as tx:
        jobs.fail(tx, last, "x" * 9000, now_ms=now)
        [(_, _, key, tries, reason)] = jobs.given_up(tx)
    assert (key, tries, len(reason)) == ("month 2024-05", MOST_TRIES, 500)


def take_is_early(db: Database, now_ms: int) -> bool:
    """Return whether nothing can be taken yet, without taking it."""
    with db.read() as tx:
        return jobs.count(tx, now_ms=now_ms)[1] is None


def test_the_counts_say_what_is_left(db: Database) -> None:
    """By state; the oldest due time, not that of a job for later; leases that ended."""
    for n in range(4):
        put(db, f"day {n}", due_ms=NOW + n * HOUR)
    taken(db)
    with db.read() as tx:
        found = jobs.count(tx, now_ms=NOW + 90 * MINUTE)
        assert jobs.count(tx, now_ms=NOW)[2] == 0
    assert found == ({"leased": 1, "waiting": 3}, NOW + HOUR, 1, (), 1)


def run(db: Database, handlers: Handlers) -> int:
    """Run what is due, and return how many jobs were done."""
    return asyncio.run(run_due(db, CLOCK, handlers))


def test_due_jobs_run_through_their_handlers(db: Database) -> None:
    """Also those that a job adds; an error of one is its own, and what nothing here does waits and says so."""
    did: list[str] = []

    async def close(job: Job) -> None:
        did.append(job.key)
        if job.key == "bad":
            raise ModelUnavailableError("the model is away")
        if job.key == "day 1":
            put(db, "week 1")

    put(db, "bad", due_ms=NOW - 1)
    put(db, "day 1")
    put(db, "day 2", due_ms=NOW + 1)
    put(db, "merge", kind="merge")
    assert run(db, {("timem", "close"): close}) == 2
    assert did == ["bad", "day 1", "week 1"]
    with db.read() as tx:
        left = dict(tx.execute("SELECT key, reason FROM job WHERE state = 'waiting'").fetchall())
    assert left == {
        "bad": "the model is away",
        "day 2": None,
        "merge": "nothing here does jobs of kind merge of timem",
    }


def test_a_handler_finishes_its_job_with_what_it_writes(db: Database) -> None:
    """The result and the job's end are one transaction; the runner's own end changes nothing then."""

    async def close(job: Job) -> None:
        with db.write() as tx:
            tx.execute("INSERT INTO meta VALUES ('closed', ?)", (job.key,))
            assert jobs.finish(tx, job)

    put(db)
    assert run(db, {("timem", "close"): close}) == 1
    assert row(db)[0] == "done"


@pytest.mark.parametrize(
    ("error", "state", "tries"),
    [(BudgetError("used up"), "waiting", 0), (RuntimeError("a bug"), "waiting", 1), (KeyboardInterrupt("^C"), "waiting", 0)],
)  # fmt: skip
def test_what_ends_a_run_is_said_in_the_job(
    db: Database, error: BaseException, state: str, tries: int
) -> None:
    """A budget and Ctrl-C are no fault of the job; a bug of a handler is, and is raised."""

    async def close(_job: Job) -> None:
        raise error

    put(db)
    put(db, "another", due_ms=NOW + 1)
    if isinstance(error, BudgetError):
        assert run(db, {("timem", "close"): close}) == 0
    else:
        with pytest.raises(type(error)):
            run(db, {("timem", "close"): close})
    with db.read() as tx:
        found = tx.execute("SELECT state, tries, reason FROM job WHERE key != 'another'").fetchone()
    assert found[:2] == (state, tries)
    assert str(error) in found[2]


def test_resume_runs_what_is_due_and_stats_and_verify_show_it(folder: Path) -> None:
    """A job given up is tried once more by `resume`, which is how one says that the cause is mended."""
    config = fast_config(clock=CLOCK)
    with MemForest(folder, config) as forest:
        forest.ingest_session("u", "s", said("I live in Oslo."))
        user = forest.user("u")
        assert user.stats().jobs.states == {}
    did: list[str] = []

    async def close(job: Job) -> None:
        did.append(job.key)

    memory = reopened(folder, {})
    with memory.db.write() as tx:
        jobs.add(tx, "timem", "close", "day 1", due_ms=NOW)
        jobs.add(tx, "timem", "merge", "day 2", due_ms=NOW - DAY)
        tx.execute(
            "UPDATE job SET state = 'failed', tries = 8, reason = 'no \x1b[31m reply' WHERE key = 'day 1'"
        )
    memory.close()
    with MemForest(folder, config) as forest:
        stats = forest.user("u").stats().jobs
        assert (stats.states, stats.oldest_due, stats.expired) == (
            {"failed": 1, "waiting": 1},
            from_ms(NOW - DAY),
            0,
        )
        [failed] = stats.failed
        assert (failed.owner, failed.kind, failed.key, failed.tries) == ("timem", "close", "day 1", 8)
        report = forest.user("u").verify()
        assert report.ok
        assert report.checked["jobs"] == 2
        assert "job 'day 1' of 'timem' was given up after 8 tries: no" in report.notes[-1]
        for command in (["stats"], ["doctor"]):
            shown = CliRunner().invoke(main, [*command, "--dir", str(folder), "--user", "u"]).output
            words = " ".join(shown.split())
            assert "1 failed, 1 waiting, 1 due since 2024-05-31 12:00 UTC" in words
            assert "gave up close day 1 of timem after 8 tries: no" in words
            assert "\x1b[31m reply" not in shown
    resumed = reopened(folder, {("timem", "close"): close})
    asyncio.run(resumed.resume())
    resumed.close()
    assert did == ["day 1"]
    with MemForest(folder, config) as forest:
        assert forest.user("u").stats().jobs.states == {"done": 1, "waiting": 1}


def reopened(folder: Path, handlers: Handlers) -> Memory:
    """Open a memory with handlers of jobs."""
    config = fast_config(clock=CLOCK)
    memory = open_memory(folder, "u", config, choose_steps(config))
    memory.handlers = handlers
    return memory


@pytest.mark.parametrize(
    "change",
    [
        "state = 'resting'", "state = 'leased'", "holder = 'x'", "lease_until_ms = 5", "tries = 99", "tries = -1",
        "due_ms = 4611686018427387904", "state = 'failed'", "payload = '[1]'", "payload = '{'", "key = ''", "owner = ''",
        "id = 500",
    ],
)  # fmt: skip
def test_a_job_that_cannot_be_is_found_and_mended(folder: Path, change: str) -> None:
    """It waits anew, or is forgotten where it cannot be told what it was; the memory is not touched otherwise."""
    with MemForest(folder, fast_config(clock=CLOCK)) as forest:
        forest.ingest_session("u", "s", said("I live in Oslo."))
    path = file_of(folder)
    own = Database(path)
    put(own)
    own.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute("PRAGMA ignore_check_constraints = on")
        conn.execute(f"UPDATE job SET {change}")
    with MemForest(folder, fast_config(clock=CLOCK)) as forest:
        assert {problem.part for problem in forest.user("u").verify().problems} == {"job"}
        assert forest.query("u", "Where?").evidence
        report = forest.user("u").repair()
        assert report.ok
        assert any("wait anew" in did for did in report.did)
        assert forest.user("u").stats().jobs.states in ({"waiting": 1}, {})
