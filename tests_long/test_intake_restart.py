"""Tests of ingest jobs over the end of a process: left in good order, in the middle, or never quite received."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.taking_in import Tenants, request
from tests_long.test_intake_jobs import WHO, ended, until

from memforest.errors import StoreClosedError, StoreError, StoreWriteError
from memforest.server import jobs
from memforest.server.auth import Principal
from memforest.server.jobs import Intake, Job, JobRows


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "FLUSH_S", 0.002)
    monkeypatch.setattr(jobs, "LOOK_S", 0.002)
    monkeypatch.setattr(jobs, "TAKE_S", 0.01)
    monkeypatch.setattr(jobs, "owner_of", lambda path, _key: path.name.split("-")[0])


def state_of(folder: Path) -> list[str]:
    """Return the states of the stored jobs."""
    with closing(sqlite3.connect(folder / "server" / "jobs.sqlite")) as db:
        return [state for (state,) in db.execute("SELECT state FROM job")]


def left_in_the_middle(folder: Path, *, tenant: str | None = None, park: bool) -> tuple[Tenants, str]:
    """Begin a job of two users, and end the process in its middle."""
    access = Tenants(folder)

    async def main() -> str:
        intake = Intake(access.access())
        who = Principal(tenant=tenant)
        job = await intake.submit(who, [request("ana", "one", "a", "b"), request("bob", "two")])
        await until(lambda: access.taking(tenant).at_work == 2 and "running" in state_of(folder))
        if park:
            await intake.close()
        else:
            intake._rows.close()  # as the system does when a process ends
        return job.id

    return access, asyncio.run(main())


@pytest.mark.parametrize("tenant", [None, "a"])
@pytest.mark.parametrize("park", [True, False])
def test_a_job_that_a_process_left_is_finished_by_the_next_one(
    folder: Path, tenant: str | None, park: bool
) -> None:
    """A job that a process left is finished by the next one."""
    access, job_id = left_in_the_middle(folder, tenant=tenant, park=park)
    assert state_of(folder) == ["queued" if park else "running"]

    async def main() -> None:
        access.taking(tenant).go = asyncio.Event()
        access.taking(tenant).go.set()
        intake = Intake(access.access())
        await intake.start()
        who = Principal(tenant=tenant)
        job = await ended(intake, await intake.job(who, job_id), who)
        assert (job.state, job.done, job.chunks_done) == ("finished", 2, 3)
        await intake.close()

    asyncio.run(main())
    assert access.taking(tenant).made == {"ana": ["one"], "bob": ["two"]}


def test_a_write_that_is_under_way_when_the_server_ends_does_not_land_over_the_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that is under way when the server ends does not land over the end."""
    begun, go_on, change = threading.Event(), threading.Event(), JobRows.change

    def slow(rows: JobRows, *given: Any) -> list[Job]:
        if not begun.is_set():
            begun.set()
            assert go_on.wait(30)
        return change(rows, *given)

    monkeypatch.setattr(JobRows, "change", slow)

    async def main() -> None:
        intake = Intake(Tenants(folder).access())
        await intake.submit(WHO, [request("ana", "one")])
        await asyncio.to_thread(begun.wait, 30)
        ending = asyncio.create_task(intake.close())
        await asyncio.sleep(0.1)
        go_on.set()
        await ending

    asyncio.run(main())
    assert state_of(folder) == ["queued"]


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


def test_a_request_that_was_never_answered_is_no_job_and_may_be_sent_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was stored of its sessions stays, and the job of the second request makes memory of it."""

    def full(*_: object) -> None:
        raise StoreWriteError("the disk is full")

    async def main() -> None:
        access = Tenants(folder)
        intake = Intake(access.access())
        sent = [request("ana", "one"), request("bob", "two")]
        with monkeypatch.context() as patch:
            patch.setattr(JobRows, "add", full)
            with pytest.raises(StoreWriteError):
                await intake.submit(WHO, sent, idempotency_key="k")
        assert access.taking().left == {"ana": {"one": 1}, "bob": {"two": 1}}
        assert (await intake.jobs(WHO)).jobs == ()
        access.taking().go.set()
        job = await ended(intake, await intake.submit(WHO, sent, idempotency_key="k"))
        assert (job.state, job.done, job.refused) == ("finished", 2, ())
        await intake.close()

    asyncio.run(main())


def test_while_the_server_ends_nothing_is_taken_in_and_watchers_are_let_go(folder: Path) -> None:
    """While the server ends nothing is taken in and watchers are let go."""

    async def main() -> None:
        access = Tenants(folder)
        intake = Intake(access.access())
        job = await intake.submit(WHO, [request("ana", "one")])
        await until(lambda: access.taking().at_work)
        seen: list[bool] = []

        async def watch() -> None:
            seen.extend([one.ended async for one in await intake.watch(WHO, job.id)])

        watching = asyncio.create_task(watch())
        await until(lambda: intake.watchers)
        intake.refuse()
        with pytest.raises(StoreClosedError, match="stopping"):
            await intake.submit(WHO, [request("ana", "two")])
        await intake.close()
        await asyncio.wait_for(watching, 10)
        assert not any(seen)
        assert not access.taking().at_work

    asyncio.run(main())
    assert state_of(folder) == ["queued"]


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


def test_a_file_of_jobs_that_is_none_takes_no_jobs_and_is_left_as_it_is(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever asks is told, and the server ends in good order."""
    broken = folder / "server" / "jobs.sqlite"
    broken.parent.mkdir(parents=True)
    held = b"no database at all, however long one looks at it" * 100
    broken.write_bytes(held)

    async def main() -> None:
        access = Tenants(folder)
        intake = Intake(access.access())
        await intake.start()
        await until(lambda: "not worked on here" in caplog.text)
        for asked in (intake.submit(WHO, [request("ana", "one")]), intake.jobs(WHO), intake.job(WHO, "x")):
            with pytest.raises(StoreError):
                await asked
        assert not access.taking().left
        await intake.close()

    asyncio.run(main())
    assert broken.read_bytes() == held


def test_of_two_servers_one_works_on_the_jobs_and_the_other_when_that_has_ended(folder: Path) -> None:
    """Each accepts jobs, tells of all, and cancels them, whichever works on them."""

    async def main() -> None:
        access = Tenants(folder)
        first, second = Intake(access.access()), Intake(access.access())
        await second.start()
        job = await first.submit(WHO, [request("ana", "one")])
        await until(lambda: access.taking().at_work)
        watching = await second.watch(WHO, job.id)
        assert not (await anext(watching)).ended
        other = await second.submit(WHO, [request("bob", "two")])
        await until(lambda: access.taking().at_work == 2)
        assert (second._owned, (await first.job(WHO, other.id)).users) == (False, 1)
        assert (await second.cancel(WHO, other.id)).state == "cancelled"
        await until(lambda: access.taking().at_work == 1)
        await first.close()
        access.taking().go.set()
        assert [one.state async for one in watching][-1] == "finished"
        assert (await second.job(WHO, job.id)).state == "finished"
        await second.close()

    asyncio.run(main())
    assert state_of(folder) == ["finished", "cancelled"]
