"""Several jobs at once: results in order, and no job goes on behind the caller's back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from weakref import WeakSet

import pytest

from memforest.concurrency import all_of, members


class Job:
    """A job that ends when it is let, and says how it ended."""

    def __init__(self) -> None:
        self.go, self.ended = asyncio.Event(), ""

    async def run(self, result: object = None) -> object:
        """Return or raise the result once `go` is set."""
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # it has something to tidy up
            self.ended = "cancelled"
            raise
        self.ended = "done"
        if isinstance(result, BaseException):
            raise result
        return result


def run(work: Callable[[], Awaitable[None]]) -> None:
    """Run a test's coroutine."""

    async def inside() -> None:
        await work()

    asyncio.run(inside())


def test_results_are_in_the_order_of_the_jobs() -> None:
    """However they end."""

    async def work() -> None:
        jobs = [Job() for _ in range(4)]
        task = asyncio.create_task(all_of(job.run(at) for at, job in enumerate(jobs)))
        for at in (2, 0, 3, 1):
            await asyncio.sleep(0)
            jobs[at].go.set()
        assert await task == [0, 1, 2, 3]

    run(work)


def test_no_jobs_have_no_results() -> None:
    """And nothing is waited for."""

    async def work() -> None:
        assert await all_of(()) == []

    run(work)


@pytest.mark.parametrize("error", [ValueError("no"), asyncio.CancelledError()])
def test_when_one_raises_the_others_have_ended(error: BaseException) -> None:
    """They are cancelled, and their ends waited for, before the error comes out."""

    async def work() -> None:
        jobs = [Job() for _ in range(3)]
        jobs[1].go.set()
        with pytest.raises(type(error)):
            await all_of(job.run(error if at == 1 else at) for at, job in enumerate(jobs))
        assert [job.ended for job in jobs] == ["cancelled", "done", "cancelled"]

    run(work)


def test_a_caller_that_is_cancelled_leaves_no_job() -> None:
    """A budget of time ends a wave of calls with what they cost."""

    async def work() -> None:
        jobs = [Job() for _ in range(3)]
        task = asyncio.create_task(all_of(job.run() for job in jobs))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [job.ended for job in jobs] == ["cancelled"] * 3
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(work)


def test_members_are_listed_while_others_come() -> None:
    """Of a set that grows in another thread; a plain list of it raises."""

    class Thing:
        pass

    found: WeakSet[Thing] = WeakSet()
    kept: list[Thing] = []
    ended = threading.Event()

    def fill() -> None:
        while not ended.is_set() and len(kept) < 50_000:
            kept.append(Thing())
            found.add(kept[-1])

    thread = threading.Thread(target=fill)
    thread.start()
    try:
        for _ in range(200):
            assert len(members(found)) <= len(kept) + 1
    finally:
        ended.set()
        thread.join()
