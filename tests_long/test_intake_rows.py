"""Tests of the file of jobs: what is kept, what goes with a job, and several threads and processes at one file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from memforest.errors import StoreError, StoreLockedError
from memforest.server.jobs import Job, JobRows
from memforest.times import from_ms, system_clock


@pytest.fixture
def rows(folder: Path) -> Iterator[JobRows]:
    """A file of jobs that is not there yet."""
    made = JobRows(folder / "server", system_clock)
    yield made
    made.close()


def begin(rows: JobRows, job_id: str = "j", *, ended_ms: int | None = None, **more: Any) -> Job:
    """Store a job."""
    given: dict[str, Any] = {"tenant": None, "owner": None, **more}
    job = Job(job_id, made_ms=10, sessions=1, turns=3, **given)
    rows._clock = lambda: from_ms(ended_ms or 10)
    job.state = "queued" if ended_ms is None else "finished"
    return rows.add(job)


def found(rows: JobRows, job_id: str = "j") -> Job:
    """Return a job that there is."""
    job = rows.job(None, None, job_id)
    assert job is not None
    return job


def test_reading_makes_no_file(rows: JobRows) -> None:
    """Where there are no jobs there is no file, whatever is asked."""
    assert rows.job(None, None, "j") is rows.keyed("k") is None
    assert rows.page(None, None, 99, 5) == rows.unfinished() == []
    rows.delete_old(None, 1, 0)
    assert not rows.path.parent.exists()


def test_a_job_comes_back_as_it_was_stored(rows: JobRows) -> None:
    """Each change is an event; the last one holds."""
    job = begin(rows, budget=(3, None), left={"u": 2}, key="k", request="r", refused=[(1, "InputError")])
    assert found(rows).view() == job.view()
    assert found(rows).last_event == 1
    [changed] = rows.change(lambda one: one.id == "j", lambda one: one.note("u", 1, (1, 0, 2)))
    again = found(rows)
    assert again.view() == changed.view()
    assert (again.last_event, again.left, again.state) == (2, {"u": 1}, "running")
    rows.change(lambda _: True, lambda one: one.note("u", 0, (1, 0, 2)))
    assert found(rows).last_event == 2, "what is no news is no event"


def test_a_job_that_has_ended_is_not_changed(rows: JobRows) -> None:
    """Whoever was at work on it when it was cancelled learns of it."""
    begin(rows, left={"u": 1})
    assert rows.change(lambda _: True, lambda one: one.stop("cancelled"))
    assert rows.change(lambda _: True, lambda one: one.note("u", 1, (1, 0, 1))) == []
    assert (found(rows).state, found(rows).done, found(rows).ended_ms) == ("cancelled", 0, 10)
    assert rows.counts() == {"cancelled": 1}


def test_what_fails_in_a_change_changes_nothing(rows: JobRows) -> None:
    """All of it or nothing."""
    begin(rows, "one", left={"u": 1})
    begin(rows, "two")
    with pytest.raises(KeyError):
        rows.change(lambda _: True, lambda one: one.finish_user("u", None))
    assert [one.state for one in rows.unfinished()] == ["queued", "queued"]


def test_what_is_old_goes_and_what_is_unfinished_stays(rows: JobRows) -> None:
    """A job that has not ended is never too old, and the number of those that are kept is each tenant's own."""
    for number in range(3):
        begin(rows, f"t{number}", tenant="t", ended_ms=2000)
        begin(rows, f"j{number}", ended_ms=2000)
    begin(rows, "old", tenant="t", ended_ms=100)
    begin(rows, "open")
    rows.delete_old(None, 1000, 1)
    assert [one.id for one in rows.page(None, None, 99, 9)] == ["open", "j2"]
    assert [one.id for one in rows.page("t", None, 99, 9)] == ["t2", "t1", "t0"]
    assert [one.id for one in rows.unfinished()] == ["open"]


def test_pages_of_one_user_and_of_all(rows: JobRows) -> None:
    """An owner sees their own, a tenant its own; a page begins before the number of the last one."""
    for i in range(4):
        begin(rows, f"j{i}", owner="u" if i % 2 else "v")
    begin(rows, "other", tenant="t", owner="u")
    assert [one.id for one in rows.page(None, None, 99, 3)] == ["j3", "j2", "j1"]
    assert [one.id for one in rows.page(None, "u", 99, 9)] == ["j3", "j1"]
    last = found(rows, "j3").number
    assert [one.id for one in rows.page(None, "u", last, 9)] == ["j1"]
    assert rows.job(None, "u", "j0") is rows.job(None, "u", "other") is None


def test_a_key_is_that_of_one_job(rows: JobRows) -> None:
    """Another job with the key is not stored, and the first one is returned."""
    begin(rows, "one", key="k", request="r")
    assert rows.keyed("other") is None
    assert begin(rows, "two", key="k").id == "one"
    assert rows.job(None, None, "two") is None
    job = rows.keyed("k")
    assert job is not None
    assert (job.id, job.request) == ("one", "r")


def test_one_process_has_the_lock_until_it_is_closed(rows: JobRows) -> None:
    """Whoever has it may take it again; others are told, and read."""
    second = JobRows(rows.path.parent, system_clock)
    rows.own()
    rows.own()
    begin(rows)
    with pytest.raises(StoreLockedError, match="by another process"):
        second.own()
    assert found(second).turns == 3
    rows.close()
    second.own()
    with pytest.raises(StoreLockedError):
        rows.own()
    second.close()


def test_an_id_is_bound_and_never_part_of_a_statement(rows: JobRows) -> None:
    """What looks like SQL is an id like any other."""
    begin(rows, "'; DROP TABLE job; --")
    assert found(rows, "'; DROP TABLE job; --").turns == 3
    assert rows.job(None, None, "' OR 1=1 --") is None


def test_the_file_may_be_closed_at_any_time(rows: JobRows) -> None:
    """It opens again at its next use, and leaves no log behind when it is closed."""
    begin(rows)
    rows.close()
    rows.close()
    assert [one.name for one in rows.path.parent.iterdir()] == ["jobs.sqlite"]
    assert found(rows).turns == 3


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
    rows = JobRows(path.parent, system_clock)
    with pytest.raises(StoreError):
        begin(rows)
    rows.close()


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")
def test_directories_that_the_first_job_makes_are_their_owners_alone(folder: Path) -> None:
    """Names of directories and files say whose they are: nobody else lists them, whichever part of the server makes them."""
    rows = JobRows(folder / "memories" / "server", system_clock)
    try:
        begin(rows)
    finally:
        rows.close()
    for made in (rows.path.parent, rows.path.parents[1]):
        assert made.stat().st_mode & 0o777 == 0o700, made.name


def test_a_file_of_jobs_that_is_a_link_is_refused(folder: Path) -> None:
    """What is written there would be written elsewhere."""
    elsewhere = folder / "elsewhere"
    (folder / "server").mkdir()
    (folder / "server" / "jobs.sqlite").symlink_to(elsewhere)
    with pytest.raises(StoreError):
        begin(JobRows(folder / "server", system_clock))
    assert not elsewhere.exists()
