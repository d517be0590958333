"""Tests of the file of jobs: what is kept, what goes with a job, and several threads and processes at one file."""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from memforest.errors import StoreError
from memforest.server import job_rows as module
from memforest.server.job_rows import JobRow, JobRows, SessionRow


@pytest.fixture
def rows(folder: Path) -> Iterator[JobRows]:
    """A file of jobs that is not there yet."""
    made = JobRows(folder / "server" / "jobs.sqlite")
    yield made
    made.close()


def begin(rows: JobRows, job_id: str = "j", *, users: tuple[str, ...] = ("u",), **more: Any) -> JobRow:
    """Store a job with a session of each user, received."""
    sessions = [SessionRow(i, user, f"digest of {user}") for i, user in enumerate(users)]
    given: dict[str, Any] = {"owner": None, "budget": (None, None), "tenant": None, "key": None, **more}
    row, _ = rows.begin(job_id, sessions, now_ms=10, **given)
    rows.received(row.number, dict.fromkeys(range(len(users)), ("received", None)), turns=3, now_ms=11)
    return row


def found(rows: JobRows, job_id: str = "j") -> JobRow:
    """Return a job that there is."""
    row = rows.job(job_id)
    assert row is not None
    return row


def test_reading_makes_no_file(rows: JobRows) -> None:
    """Where there are no jobs there is no file, whatever is asked."""
    assert rows.job("j") is None
    assert rows.jobs(owner=None, before=None, limit=5) == []
    assert rows.unfinished() == (None, [])
    assert (rows.count_open(), rows.refused(1), rows.part_errors(1), rows.events(1, after=0)) == (
        0,
        [],
        [],
        [],
    )
    assert not rows.path.parent.exists()


def test_counts_are_over_the_sessions_of_a_job(rows: JobRows) -> None:
    """Chunks and sessions are summed; a repeated report changes nothing."""
    number = begin(rows, users=("u", "v")).number
    begin(rows, "other")
    for _ in range(2):
        rows.progress(
            number, {"digest of u": (2, 1, 4), "digest of v": (1, 0, 1)}, ["digest of v"], 0, now_ms=12
        )
    row = found(rows)
    assert (row.chunks, row.chunks_done, row.chunks_failed, row.done, row.received) == (5, 3, 1, 1, 2)
    other = found(rows, "other")
    assert (other.chunks, other.done) == (0, 0)


def test_chunks_read_before_a_restart_stay_counted(rows: JobRows) -> None:
    """A run that goes on counts from zero; what was counted before does not go down."""
    number = begin(rows).number
    rows.progress(number, {"digest of u": (3, 1, 5)}, [], 0, now_ms=12)
    rows.progress(number, {"digest of u": (0, 0, 2)}, [], 0, now_ms=13)
    row = found(rows)
    assert (row.chunks, row.chunks_done, row.chunks_failed) == (5, 3, 0)


def test_a_job_is_left_as_long_as_a_user_is(rows: JobRows) -> None:
    """Each user ends by itself, and an error is kept by its class."""
    number = begin(rows, users=("u", "v")).number
    assert rows.unfinished()[1][0][1] == ["u", "v"]
    assert rows.end_part(number, "u", error="ModelRefusedError", not_received="x") == 1
    assert rows.unfinished()[1][0][1] == ["v"]
    assert rows.end_part(number, "v", error=None, not_received="x") == 0
    assert rows.part_errors(number) == ["ModelRefusedError"]
    assert found(rows).done == 1


def test_a_job_ends_once(rows: JobRows) -> None:
    """Whoever comes second, cancelling or finishing, changes nothing and tells nothing."""
    number = begin(rows).number
    rows.end(number, "cancelled", {"state": "cancelled"}, error=None, now_ms=20)
    rows.end(number, "finished", {"state": "finished"}, error="X", now_ms=30)
    rows.set_state(number, "running", now_ms=40)
    row = found(rows)
    assert (row.state, row.error, row.ended_ms) == ("cancelled", None, 20)
    assert [kind for _, kind, _, _ in rows.events(number, after=0)] == ["finished"]


def test_events_beyond_the_bound_go_but_for_the_first(rows: JobRows, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids go on counting, so that Last-Event-ID stays true."""
    monkeypatch.setattr(module, "MOST_EVENTS", 3)
    number = begin(rows).number
    rows.add_event(number, "received", {}, at_ms=1)
    for i in range(9):
        rows.add_event(number, "extracted", {"n": i}, at_ms=i)
    assert [one for one, *_ in rows.events(number, after=0)] == [1, 8, 9, 10]
    assert [one for one, *_ in rows.events(number, after=8)] == [9, 10]
    assert [one for one, *_ in rows.events(number, after=0, limit=2)] == [1, 8]


def test_what_is_old_goes_whole_and_what_is_unfinished_stays(rows: JobRows) -> None:
    """Sessions, users and events go with their job; a job that has not ended is never too old."""
    number = begin(rows, "old").number
    rows.add_event(number, "received", {}, at_ms=1)
    rows.end(number, "finished", {}, error=None, now_ms=100)
    begin(rows, "open")
    rows.delete_old(before_ms=1000, most=0)
    assert rows.job("old") is None
    assert found(rows, "open").state == "queued"
    rows.close()
    with closing(sqlite3.connect(rows.path)) as db:
        for table in ("part", "session", "event"):
            assert db.execute(f"SELECT count(*) FROM {table} WHERE job = ?", (number,)).fetchone() == (0,)


def test_pages_of_one_user_and_of_all(rows: JobRows) -> None:
    """An owner sees their own; a page begins before the number of the last one."""
    for i in range(4):
        begin(rows, f"j{i}", owner="u" if i % 2 else "v")
    assert [one.id for one in rows.jobs(owner=None, before=None, limit=3)] == ["j3", "j2", "j1"]
    assert [one.id for one in rows.jobs(owner="u", before=None, limit=9)] == ["j3", "j1"]
    last = found(rows, "j3").number
    assert [one.id for one in rows.jobs(owner="u", before=last, limit=9)] == ["j1"]


def test_a_key_is_that_of_one_job(rows: JobRows) -> None:
    """The second request with a key gets the job of the first."""
    begin(rows, "one", key=("k", "request"))
    row, new = rows.begin(
        "two", [], now_ms=1, owner=None, budget=(None, None), tenant=None, key=("k", "other")
    )
    assert (row.id, new, row.request) == ("one", False, "request")


def test_an_id_is_bound_and_never_part_of_a_statement(rows: JobRows) -> None:
    """What looks like SQL is an id like any other."""
    begin(rows, "'; DROP TABLE job; --")
    assert found(rows, "'; DROP TABLE job; --").turns == 3
    assert rows.job("' OR 1=1 --") is None


def test_the_file_may_be_closed_at_any_time(rows: JobRows) -> None:
    """It opens again at its next use, and leaves no log behind when it is closed."""
    begin(rows)
    rows.close()
    rows.close()
    assert [one.name for one in rows.path.parent.iterdir()] == ["jobs.sqlite"]
    assert found(rows).turns == 3


def test_threads_and_a_second_process_write_side_by_side(rows: JobRows) -> None:
    """No event is lost or counted twice."""
    number = begin(rows).number
    second = JobRows(rows.path)

    def tell(to: JobRows) -> None:
        for _ in range(10):
            to.add_event(number, "extracted", {}, at_ms=1)

    threads = [threading.Thread(target=tell, args=(to,)) for to in (rows, rows, second)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    second.close()
    assert [one for one, *_ in rows.events(number, after=0)] == list(range(1, 31))


@pytest.mark.parametrize("place", ["garbage", "a directory", "no directory"])
def test_a_file_that_cannot_be_used_is_an_error_of_ours(folder: Path, place: str) -> None:
    """What is wrong with the file comes as `StoreError`, and leaves nothing open."""
    path = folder / "server" / "jobs.sqlite"
    if place == "garbage":
        path.parent.mkdir()
        path.write_bytes(b"no database, however long one looks " * 200)
    elif place == "a directory":
        path.mkdir(parents=True)
    else:
        path.parent.write_text("a file")
    rows = JobRows(path)
    with pytest.raises(StoreError):
        begin(rows)
    rows.close()


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")
def test_a_tenant_whose_first_request_is_a_job_is_its_owners_alone(folder: Path) -> None:
    """Names of directories and files say whose they are: nobody else lists them, whichever part of the server makes them."""
    rows = JobRows(folder / "tenants" / "t-1" / "server" / "jobs.sqlite")
    try:
        begin(rows)
    finally:
        rows.close()
    for made in (rows.path.parent, *list(rows.path.parents)[1:3]):
        assert made.stat().st_mode & 0o777 == 0o700, made.name


def test_a_file_of_jobs_that_is_a_link_is_refused(folder: Path) -> None:
    """What is written there would be written elsewhere."""
    elsewhere = folder / "elsewhere"
    (folder / "server").mkdir()
    (folder / "server" / "jobs.sqlite").symlink_to(elsewhere)
    with pytest.raises(StoreError):
        begin(JobRows(folder / "server" / "jobs.sqlite"))
    assert not elsewhere.exists()
