"""Tests of ingest jobs over the end of a process: parked, left in the middle, or never quite received."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.taking_in import Tenants, request
from tests_long.test_intake_jobs import WHO, ended, until

from memforest.errors import StoreClosedError
from memforest.server import job_runs
from memforest.server.auth import Principal
from memforest.server.job_rows import JobRows
from memforest.server.jobs import Intake


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_runs, "FLUSH_S", 0.0)
    monkeypatch.setattr(job_runs, "owner_of", lambda path, _key: path.name.split("-")[0])


def state_of(folder: Path) -> list[str]:
    """Return the states of the stored jobs."""
    with closing(sqlite3.connect(folder / "server" / "jobs.sqlite")) as db:
        return [state for (state,) in db.execute("SELECT state FROM job ORDER BY number")]


def left_in_the_middle(folder: Path, *, tenant: str | None = None, park: bool) -> tuple[Tenants, str]:
    """Begin a job of two users, and end the process in its middle."""
    access = Tenants(folder)

    async def main() -> str:
        intake = Intake(access.access())
        who = Principal(tenant=tenant)
        job = await intake.submit(who, [request("ana", "one", "a", "b"), request("bob", "two")])
        await until(lambda: access.taking(tenant).at_work)
        if park:
            await intake.close()
        else:
            intake._only.give()  # as the system does when a process ends
        return job.id

    return access, asyncio.run(main())


@pytest.mark.parametrize("tenant", [None, "a"])
@pytest.mark.parametrize("park", [True, False])
def test_a_job_that_a_process_left_is_finished_by_the_next_one(
    folder: Path, tenant: str | None, park: bool
) -> None:
    """A job that a process left is finished by the next one."""
    access, job_id = left_in_the_middle(folder, tenant=tenant, park=park)
    where = access.directory(Principal(tenant=tenant))
    assert state_of(where) == ["parked" if park else "running"]

    async def main() -> None:
        access.taking(tenant).go = asyncio.Event()
        access.taking(tenant).go.set()
        intake = Intake(access.access())
        await intake.start()
        who = Principal(tenant=tenant)
        job = await ended(intake, await intake.job(who, job_id), who)
        assert (job.state, job.done, job.chunks_done) == ("finished", 2, 3)
        kinds = [one.kind async for one in await intake.watch(who, job_id)]
        assert (kinds[0], kinds[-1]) == ("received", "finished")
        await intake.close()

    asyncio.run(main())
    assert access.taking(tenant).made == {"ana": ["one"], "bob": ["two"]}


def test_a_write_that_is_under_way_when_the_server_ends_does_not_land_over_the_parking(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that is under way when the server ends does not land over the parking."""
    begun, go_on, store = threading.Event(), threading.Event(), JobRows.set_state

    def slow(rows: JobRows, number: int, state: str, *, now_ms: int) -> None:
        if state == "running":
            begun.set()
            assert go_on.wait(30)
        store(rows, number, state, now_ms=now_ms)

    monkeypatch.setattr(JobRows, "set_state", slow)

    async def main() -> None:
        intake = Intake(Tenants(folder).access())
        await intake.submit(WHO, [request("ana", "one")])
        await asyncio.to_thread(begun.wait, 30)
        ending = asyncio.create_task(intake.close())
        await asyncio.sleep(0.1)
        assert not ending.done()
        go_on.set()
        await ending

    asyncio.run(main())
    assert state_of(folder) == ["parked"]


def test_a_user_who_was_deleted_meanwhile_fails_the_job_and_not_the_others(folder: Path) -> None:
    """A user who was deleted meanwhile fails the job and not the others."""
    access, job_id = left_in_the_middle(folder, park=True)
    for path in folder.glob("bob-*"):
        path.unlink()

    async def main() -> None:
        access.taking().go = asyncio.Event()
        access.taking().go.set()
        intake = Intake(access.access())
        job = await ended(intake, await intake.job(WHO, job_id))
        assert (job.state, job.error, job.done) == ("failed", "NotFoundError", 1)
        await intake.close()

    asyncio.run(main())


def test_a_job_of_which_the_answer_was_never_sent_says_what_was_not_received(folder: Path) -> None:
    """A job of which the answer was never sent says what was not received."""
    access, job_id = left_in_the_middle(folder, park=True)
    with closing(sqlite3.connect(folder / "server" / "jobs.sqlite")) as db, db:
        db.execute("UPDATE job SET state = 'receiving'")
        db.execute("UPDATE session SET state = 'new'")
    del access.taking().left["bob"]["two"]  # the process ended before this one

    async def main() -> None:
        access.taking().go = asyncio.Event()
        access.taking().go.set()
        intake = Intake(access.access())
        job = await ended(intake, await intake.job(WHO, job_id))
        assert (job.state, job.done) == ("finished", 1)
        assert [(one.place, one.error) for one in job.refused] == [(1, "NotReceived")]
        assert "send it again" in job.refused[0].message
        await intake.close()

    asyncio.run(main())


def test_while_the_server_ends_nothing_is_taken_in_and_watchers_are_let_go(folder: Path) -> None:
    """While the server ends nothing is taken in and watchers are let go."""

    async def main() -> None:
        access = Tenants(folder)
        intake = Intake(access.access())
        job = await intake.submit(WHO, [request("ana", "one")])
        await until(lambda: access.taking().at_work)
        seen: list[str] = []

        async def watch() -> None:
            seen.extend([one.kind async for one in await intake.watch(WHO, job.id)])

        watching = asyncio.create_task(watch())
        await until(lambda: intake.watchers)
        intake.refuse()
        with pytest.raises(StoreClosedError, match="ending"):
            await intake.submit(WHO, [request("ana", "two")])
        await intake.close()
        await asyncio.wait_for(watching, 10)
        assert seen == ["received"]
        assert not access.taking().at_work

    asyncio.run(main())
    assert state_of(folder) == ["parked"]


def test_what_is_under_way_may_end_before_the_server_does(folder: Path) -> None:
    """What is under way may end before the server does."""

    async def main() -> None:
        access = Tenants(folder)
        intake = Intake(access.access())
        await intake.submit(WHO, [request("ana", "one")])
        await until(lambda: access.taking().at_work)
        ending = asyncio.create_task(intake.close(within_s=30))
        await asyncio.sleep(0.02)
        access.taking().go.set()
        await ending
        assert access.taking().made == {"ana": ["one"]}

    asyncio.run(main())
    assert state_of(folder) == ["finished"]


def test_a_file_of_jobs_that_is_none_stops_nobody_else(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file of jobs that is none stops nobody else."""
    access, job_id = left_in_the_middle(folder, park=True)
    broken = folder / "tenants" / "t-b" / "server" / "jobs.sqlite"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"no database at all, however long one looks at it" * 100)

    async def main() -> None:
        access.taking().go = asyncio.Event()
        access.taking().go.set()
        intake = Intake(access.access())
        assert (await ended(intake, await intake.job(WHO, job_id))).state == "finished"
        await intake.close()

    asyncio.run(main())
    assert "could not be read" in caplog.text


def test_a_file_of_jobs_in_a_directory_of_another_name_is_left_alone(folder: Path) -> None:
    """A file of jobs in a directory of another name is left alone."""
    access, _ = left_in_the_middle(folder, tenant="a", park=True)
    moved = folder / "tenants" / "t-elsewhere"
    (folder / "tenants" / "t-a").rename(moved)

    async def main() -> None:
        intake = Intake(access.access())
        await intake.start()
        assert intake.counts()["queued"] == 0
        await intake.close()

    asyncio.run(main())
    assert state_of(moved) == ["parked"]
