"""Tests of ingest jobs: received first, then made memory of in the background, told of by counts, cancelled, bounded."""

from __future__ import annotations

import asyncio
import stat
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.taking_in import Tenants, request

from memforest.endpoint import Budget
from memforest.errors import (
    IdempotencyError,
    InputError,
    ModelRefusedError,
    NotFoundError,
    RateLimitError,
    StoreLockedError,
    StoreWriteError,
)
from memforest.server import jobs
from memforest.server.auth import Principal
from memforest.server.jobs import Intake, IntakeBounds, JobView

WHO = Principal()
ANA = Principal(user="ana")
Job = Callable[[Tenants, Intake], Awaitable[None]]


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "FLUSH_S", 0.002)
    monkeypatch.setattr(jobs, "LOOK_S", 0.002)
    monkeypatch.setattr(jobs, "TAKE_S", 0.01)
    monkeypatch.setattr(jobs, "owner_of", lambda path, _key: path.name.split("-")[0])


def run(folder: Path, work: Job, bounds: IntakeBounds | None = None, **tenants: Any) -> None:
    """Run a test with ingest jobs, and end them."""

    async def main() -> None:
        access = Tenants(folder, **tenants)
        intake = Intake(access.access(), bounds)
        try:
            await work(access, intake)
        finally:
            await intake.close()

    asyncio.run(main())


async def ended(intake: Intake, job: JobView, who: Principal = WHO) -> JobView:
    """Wait until a job has ended."""
    while not (found := await intake.job(who, job.id)).ended:  # noqa: ASYNC110 - what others do is looked at
        await asyncio.sleep(0.005)
    return found


async def until(true: Callable[[], object]) -> None:
    """Wait until something is so."""
    while not true():  # noqa: ASYNC110 - what others do is looked at
        await asyncio.sleep(0.002)


def test_sessions_are_received_before_the_answer_and_memory_afterwards(folder: Path) -> None:
    """Sessions are received before the answer and memory afterwards."""

    async def work(access: Tenants, intake: Intake) -> None:
        taking = access.taking()
        sent = [request("ana", "one", "a", "b"), request("bob", "two", "c")]
        job = await intake.submit(WHO, sent)
        assert taking.left == {"ana": {"one": 2}, "bob": {"two": 1}}
        assert (job.sessions, job.received, job.done, job.turns, job.users) == (2, 2, 0, 3, 2)
        taking.go.set()
        found = await ended(intake, job)
        assert (found.state, found.done, found.chunks_done, found.chunks) == ("finished", 2, 3, 3)
        assert taking.made == {"ana": ["one"], "bob": ["two"]}
        assert found.ended_at is not None

    run(folder, work)


def test_a_watcher_gets_each_change_in_order_and_goes_on_behind_one(folder: Path) -> None:
    """Each is the whole job, so who looks late misses numbers and nothing else."""

    async def work(access: Tenants, intake: Intake) -> None:
        job = await intake.submit(WHO, [request("ana", "one", "a", "b")])
        watching = await intake.watch(WHO, job.id)
        first = await anext(watching)
        assert (first.turns, first.done, first.ended) == (2, 0, False)
        access.taking().go.set()
        rest = [one async for one in watching]
        numbers = [one.last_event for one in (first, *rest)]
        assert numbers == sorted(set(numbers))
        assert (rest[-1].state, rest[-1].chunks_done) == ("finished", 2)
        assert not any(one.ended for one in rest[:-1])
        again = [one async for one in await intake.watch(WHO, job.id, after=first.last_event)]
        assert again == rest[-1:]
        assert [one async for one in await intake.watch(WHO, job.id, after=numbers[-1])] == []

    run(folder, work)


def test_a_refused_session_is_told_by_its_place_and_the_others_go_on(folder: Path) -> None:
    """A refused session is told by its place and the others go on."""

    async def work(access: Tenants, intake: Intake) -> None:
        empty = {"user_id": "ana", "session_id": "empty", "turns": []}
        sent = [request("ana", "one"), empty, {"user_id": "", "session_id": "s", "turns": [1]}]
        job = await intake.submit(WHO, sent)
        assert [(one.place, one.error) for one in job.refused] == [(1, "InputError"), (2, "InputError")]
        assert job.refused[0].message == "the session has no turns"
        access.taking().go.set()
        found = await ended(intake, job)
        assert (found.state, found.done, found.received) == ("finished", 1, 1)
        assert "no turns" not in found.refused[0].message  # what the core said is kept nowhere

    run(folder, work)


def test_a_job_of_which_nothing_was_received_has_failed(folder: Path) -> None:
    """A job of which nothing was received has failed."""

    async def work(_access: Tenants, intake: Intake) -> None:
        job = await intake.submit(WHO, [{"user_id": "ana", "session_id": "s", "turns": []}])
        assert (job.state, job.error, job.received) == ("failed", "InputError", 0)
        assert [one async for one in await intake.watch(WHO, job.id)] == [await intake.job(WHO, job.id)]

    run(folder, work)


@pytest.mark.parametrize("count", [0, 4])
def test_a_request_with_too_few_or_too_many_sessions_is_refused(
    folder: Path, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request with too few or too many sessions is refused."""
    monkeypatch.setattr(jobs, "MOST_SESSIONS", 3)

    async def work(_access: Tenants, intake: Intake) -> None:
        with pytest.raises(InputError):
            await intake.submit(WHO, [request("ana", f"s{i}") for i in range(count)])
        assert (await intake.jobs(WHO)).jobs == ()

    run(folder, work)


def test_nothing_of_users_sessions_and_texts_is_in_the_file_of_jobs(folder: Path) -> None:
    """Nothing of users sessions and texts is in the file of jobs."""

    async def work(access: Tenants, intake: Intake) -> None:
        access.taking().go.set()
        sent = [
            request("zebedee", "wardrobe", "marmalade"),
            {"user_id": "zebedee", "session_id": "wardrobe", "turns": []},
        ]
        await ended(intake, await intake.submit(WHO, sent, idempotency_key="periwinkle"))
        held = b"".join(path.read_bytes() for path in (folder / "server").iterdir())
        assert b"InputError" in held
        for word in (b"zebedee", b"wardrobe", b"marmalade", b"periwinkle", b"no turns"):
            assert word not in held

    run(folder, work)


def test_the_file_of_jobs_is_its_owners_alone_and_made_by_the_first_job(folder: Path) -> None:
    """The file of jobs is its owners alone and made by the first job."""

    async def work(_access: Tenants, intake: Intake) -> None:
        assert (await intake.jobs(WHO)).jobs == ()
        with pytest.raises(NotFoundError):
            await intake.job(WHO, "none")
        assert not (folder / "server").exists()
        await intake.submit(WHO, [request("ana", "one")])
        assert stat.S_IMODE((folder / "server").stat().st_mode) == 0o700
        modes = {stat.S_IMODE(one.stat().st_mode) for one in (folder / "server").iterdir()}
        assert modes == {0o600}

    run(folder, work)


def test_jobs_of_other_tenants_and_users_are_as_absent(folder: Path) -> None:
    """Jobs of other tenants and users are as absent."""

    async def work(access: Tenants, intake: Intake) -> None:
        for name in (None, "a", "b"):
            access.taking(name).go.set()
        mine = await intake.submit(Principal(tenant="a"), [request("ana", "one")])
        both = await intake.submit(Principal(tenant="a"), [request("ana", "two"), request("bob", "two")])
        for who in (WHO, Principal(tenant="b"), Principal(tenant="a", user="bob")):
            for verb in (intake.job, intake.cancel, intake.watch):
                with pytest.raises(NotFoundError) as wrong:
                    await verb(who, mine.id)
                assert str(wrong.value) == "there is no such job"
            assert (await intake.jobs(who)).jobs == ()
        ana = Principal(tenant="a", user="ana")
        assert [one.id for one in (await intake.jobs(ana)).jobs] == [mine.id]
        with pytest.raises(NotFoundError):
            await intake.job(ana, both.id)

    run(folder, work)


def test_a_key_of_one_user_sends_sessions_of_that_user_alone(folder: Path) -> None:
    """A key of one user sends sessions of that user alone."""

    async def work(access: Tenants, intake: Intake) -> None:
        access.taking().go.set()
        job = await intake.submit(ANA, [request("bob", "one"), request("ana", "two")])
        assert [(one.place, one.error) for one in job.refused] == [(0, "NotFoundError")]
        found = await ended(intake, job, ANA)
        assert (found.received, access.taking().made) == (1, {"ana": ["two"]})

    run(folder, work)


def test_pages_of_jobs_hold_each_once_while_others_are_added(folder: Path) -> None:
    """Pages of jobs hold each once while others are added."""

    async def work(_access: Tenants, intake: Intake) -> None:
        made = [(await intake.submit(WHO, [request("ana", f"s{i}")])).id for i in range(5)]
        first = await intake.jobs(WHO, limit=2)
        await intake.submit(WHO, [request("ana", "later")])
        second = await intake.jobs(WHO, limit=2, cursor=first.next_cursor)
        third = await intake.jobs(WHO, limit=2, cursor=second.next_cursor)
        seen = [one.id for page in (first, second, third) for one in page.jobs]
        assert seen == made[::-1]
        assert third.next_cursor is None

    run(folder, work)


@pytest.mark.parametrize("cursor", ["", "x", "eDE", "ä", "aj" * 40, "ai0x", "\ud800"])
def test_a_cursor_that_is_none_is_refused(folder: Path, cursor: str) -> None:
    """A cursor that is none is refused."""

    async def work(_access: Tenants, intake: Intake) -> None:
        with pytest.raises(InputError, match="cursor"):
            await intake.jobs(WHO, cursor=cursor)

    run(folder, work)


def test_a_cancelled_job_ends_at_once_and_what_was_received_stays(folder: Path) -> None:
    """A cancelled job ends at once and what was received stays."""

    async def work(access: Tenants, intake: Intake) -> None:
        taking = access.taking()
        job = await intake.submit(WHO, [request("ana", "one"), request("bob", "two")])
        await until(lambda: taking.at_work == 2)
        found = await intake.cancel(WHO, job.id)
        assert (found.state, found.done) == ("cancelled", 0)
        await until(lambda: not taking.at_work)
        assert taking.left == {"ana": {"one": 1}, "bob": {"two": 1}}
        taking.go.set()
        assert (await intake.cancel(WHO, job.id)).state == "cancelled"
        later = await ended(intake, await intake.submit(WHO, [request("ana", "three")]))
        assert later.state == "finished"
        assert taking.made == {"ana": ["one", "three"]}  # nobody has come back for bob
        assert (await intake.job(WHO, job.id)).state == "cancelled"

    run(folder, work)


def test_cancelling_one_of_two_jobs_of_a_user_leaves_the_other(folder: Path) -> None:
    """Cancelling one of two jobs of a user leaves the other."""

    async def work(access: Tenants, intake: Intake) -> None:
        taking = access.taking()
        one = await intake.submit(WHO, [request("ana", "one")])
        await until(lambda: taking.at_work)
        two = await intake.submit(WHO, [request("ana", "two")])
        await intake.cancel(WHO, one.id)
        taking.go.set()
        assert (await ended(intake, two)).state == "finished"
        assert taking.most_at_work == 1  # a user is worked on once at a time

    run(folder, work)


def test_a_model_that_refuses_fails_the_job_with_its_class_alone(folder: Path) -> None:
    """A model that refuses fails the job with its class alone."""

    async def work(access: Tenants, intake: Intake) -> None:
        taking = access.taking()
        taking.errors["ana"] = [ModelRefusedError("http://secret.example/v1 says 401")]
        taking.go.set()
        found = await ended(intake, await intake.submit(WHO, [request("ana", "one"), request("bob", "two")]))
        assert (found.state, found.error, found.done) == ("failed", "ModelRefusedError", 1)
        assert "secret" not in str(found.to_dict())
        assert taking.made == {"bob": ["two"]}

    run(folder, work)


def test_an_error_that_nobody_expected_fails_the_job_and_the_next_one_runs(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An error that nobody expected fails the job and the next one runs."""

    async def work(access: Tenants, intake: Intake) -> None:
        taking = access.taking()
        taking.errors["ana"] = [ZeroDivisionError("what was said")]
        taking.go.set()
        first = await ended(intake, await intake.submit(WHO, [request("ana", "one")]))
        assert (first.state, first.error) == ("failed", "MemForestError")
        assert (await ended(intake, await intake.submit(WHO, [request("ana", "two")]))).state == "finished"

    run(folder, work)
    assert "ZeroDivisionError at memforest." in caplog.text
    assert "what was said" not in caplog.text


def test_a_memory_that_another_process_writes_is_tried_again(folder: Path) -> None:
    """A memory that another process writes is tried again."""

    async def work(access: Tenants, intake: Intake) -> None:
        taking = access.taking()
        taking.errors["ana"] = [StoreLockedError("busy"), StoreLockedError("busy")]
        taking.go.set()
        assert (await ended(intake, await intake.submit(WHO, [request("ana", "one")]))).state == "finished"
        assert taking.resumed == ["ana"] * 3

    run(folder, work)


def test_a_job_that_cannot_be_received_is_none_and_its_sender_knows_why(folder: Path) -> None:
    """The same request, with its idempotency key, may be sent again."""

    def full() -> None:
        raise StoreWriteError("the disk is full")

    async def work(access: Tenants, intake: Intake) -> None:
        access.taking().ingest = full
        with pytest.raises(StoreWriteError):
            await intake.submit(WHO, [request("ana", "one")], idempotency_key="k")
        assert (await intake.jobs(WHO)).jobs == ()
        assert set(intake.counts().values()) == {0}
        access.taking().ingest = lambda: None
        access.taking().go.set()
        job = await intake.submit(WHO, [request("ana", "one")], idempotency_key="k")
        assert (await ended(intake, job)).state == "finished"

    run(folder, work, IntakeBounds(most_open=1))


def test_memories_that_cannot_be_had_fail_the_job(folder: Path) -> None:
    """Where a tenant's forest cannot be opened any more, the job says so instead of waiting for ever."""

    async def work(access: Tenants, intake: Intake) -> None:
        async with access.ingesting(WHO):  # it waits here
            job = await intake.submit(WHO, [request("ana", "one"), request("bob", "one")])
            access.broken = StoreWriteError("no directory any more")
        found = await ended(intake, job)
        assert (found.state, found.error, found.done) == ("failed", "StoreWriteError", 0)

    run(folder, work, most=1)


def test_jobs_are_left_as_well_as_their_file_allows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full when the server ends does not keep it from ending."""

    def full(*_: Any, **_more: Any) -> None:
        raise StoreWriteError("the disk is full")

    async def work(access: Tenants, intake: Intake) -> None:
        await intake.submit(WHO, [request("ana", "one")])
        await until(lambda: access.taking().at_work)
        monkeypatch.setattr("memforest.server.jobs.JobRows.change", full)
        await intake.close()
        assert not access.taking().at_work

    run(folder, work)


def test_users_are_worked_on_within_the_bounds_of_tenant_and_server(folder: Path) -> None:
    """Users are worked on within the bounds of tenant and server."""

    async def work(access: Tenants, intake: Intake) -> None:
        sent_jobs = []
        for name in ("a", "b", "c"):
            sent = [request(f"u{i}", "one") for i in range(5)]
            sent_jobs.append((Principal(tenant=name), await intake.submit(Principal(tenant=name), sent)))
        takings = [access.taking(name) for name in ("a", "b", "c")]
        await until(lambda: sum(one.at_work for one in takings) == 3)
        await asyncio.sleep(0.02)
        assert sum(one.at_work for one in takings) == 3
        assert max(one.at_work for one in takings) <= 2
        for one in takings:
            one.go.set()
        for who, job in sent_jobs:
            assert (await ended(intake, job, who)).done == 5
        assert max(one.most_at_work for one in takings) <= 2

    run(folder, work, IntakeBounds(most_running=3))


def test_a_tenant_at_its_bound_of_ingests_waits_and_then_goes_on(folder: Path) -> None:
    """A tenant at its bound of ingests waits and then goes on."""

    async def work(access: Tenants, intake: Intake) -> None:
        access.taking().go.set()
        async with access.ingesting(WHO):
            job = await intake.submit(WHO, [request("ana", "one")])
            await asyncio.sleep(0.1)
            assert (await intake.job(WHO, job.id)).state == "queued"
        assert (await ended(intake, job)).state == "finished"

    run(folder, work, most=1)


def test_too_many_unfinished_jobs_are_refused_with_the_time_to_come_back(folder: Path) -> None:
    """Too many unfinished jobs are refused with the time to come back."""

    async def work(access: Tenants, intake: Intake) -> None:
        one = await intake.submit(WHO, [request("ana", "one")])
        await intake.submit(WHO, [request("ana", "two")])
        with pytest.raises(RateLimitError) as wrong:
            await intake.submit(WHO, [request("ana", "three")])
        assert wrong.value.retry_after_s > 0
        await intake.submit(Principal(tenant="other"), [request("ana", "three")])
        access.taking().go.set()
        await ended(intake, one)
        await intake.submit(WHO, [request("ana", "three")])

    run(folder, work, IntakeBounds(most_open=2))


def test_the_same_idempotency_key_is_the_same_job(folder: Path) -> None:
    """The same idempotency key is the same job."""

    async def work(_access: Tenants, intake: Intake) -> None:
        sent = [request("ana", "one")]
        one = await intake.submit(WHO, sent, idempotency_key="k")
        two = await intake.submit(WHO, sent, idempotency_key="k")
        assert one.id == two.id
        assert (await intake.submit(WHO, sent)).id != one.id
        assert (await intake.submit(ANA, sent, idempotency_key="k")).id != one.id
        with pytest.raises(IdempotencyError):
            await intake.submit(WHO, [request("ana", "one", "other words")], idempotency_key="k")

    run(folder, work)


def test_a_budget_is_given_to_the_run_and_that_of_two_jobs_is_their_sum(folder: Path) -> None:
    """A budget is given to the run and that of two jobs is their sum."""

    async def work(access: Tenants, intake: Intake) -> None:
        taking = access.taking()
        await intake.submit(WHO, [request("ana", "one")], budget=Budget(3, None))
        await until(lambda: taking.at_work)
        two = await intake.submit(WHO, [request("ana", "two")], budget=Budget(3, 10))
        three = await intake.submit(WHO, [request("ana", "three")], budget=Budget(4, 20))
        taking.go.set()
        await ended(intake, two)
        await ended(intake, three)
        assert taking.budgets == [Budget(3, None), Budget(7, 30)]

    run(folder, work)


def test_jobs_that_ended_long_ago_are_forgotten(folder: Path) -> None:
    """Jobs that ended long ago are forgotten."""
    now = [datetime(2026, 3, 1, tzinfo=timezone.utc)]

    async def main() -> None:
        access = Tenants(folder)
        access.taking().go.set()
        intake = Intake(access.access(), clock=lambda: now[0])
        old = await intake.submit(WHO, [request("ana", "one")])
        await ended(intake, old)
        now[0] += timedelta(days=6)
        young = await intake.submit(WHO, [request("ana", "two")])
        await ended(intake, young)
        now[0] += timedelta(days=2)
        await intake.submit(WHO, [request("ana", "three")])
        assert old.id not in [one.id for one in (await intake.jobs(WHO)).jobs]
        assert (await intake.job(WHO, young.id)).state == "finished"
        await intake.close()

    asyncio.run(main())


def test_of_ended_jobs_so_many_are_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ended jobs so many are kept."""
    monkeypatch.setattr(jobs, "MOST_KEPT", 2)

    async def work(access: Tenants, intake: Intake) -> None:
        access.taking().go.set()
        for i in range(5):
            await ended(intake, await intake.submit(WHO, [request("ana", f"s{i}")]))
        assert len((await intake.jobs(WHO)).jobs) == 3  # two that had ended, and the last

    run(folder, work)
