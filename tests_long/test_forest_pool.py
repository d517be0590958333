"""Open memories of a forest: opened once, kept while in use, the one used longest ago closed first; batches of requests."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, said

from memforest import AsyncMemForest, MemForest
from memforest.errors import InputError, MemForestError, NotFoundError, SomeUsersFailedError
from memforest.memory.memory import Memory
from memforest.memory.pool import MemoryPool
from memforest.read.results import IngestResult, QueryResult

T = TypeVar("T")


async def use(
    pool: MemoryPool,
    user: str,
    verb: Callable[[Memory], Awaitable[T]],
    *,
    label: str | None = None,
    first: Callable[[str], object] | None = None,
) -> T:
    """Run a verb on a memory of the pool."""
    async with pool.open(user, label=label, check=first) as memory:
        return await verb(memory)


async def use_existing(pool: MemoryPool, user: str, verb: Callable[[Memory], Awaitable[T]]) -> T:
    """Run a verb on a memory that must exist."""
    async with pool.open(user, "refused") as memory:
        return await verb(memory)


async def nothing(memory: Memory) -> Memory:
    """Return the memory that is lent."""
    return memory


def run(folder: Path, work: Callable[[MemoryPool], Awaitable[None]], **settings: Any) -> None:
    """Run work with a pool of a directory and close it."""

    async def inside() -> None:
        pool = MemoryPool(folder, fast_config(**settings))
        try:
            await work(pool)
        finally:
            await pool.close()
        assert (pool.opened, pool.open_files, pool.cached_bytes) == ([], 0, 0)

    asyncio.run(inside())
    assert held(folder) in (0, None)


class Holding:
    """A verb that holds a memory until it is let go."""

    def __init__(self) -> None:
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def __call__(self, memory: Memory) -> int:
        """Wait, then use the memory."""
        self.begun.set()
        await self.go.wait()
        return memory.open_files


def held(folder: Path) -> int | None:
    """Return how many files of a directory this process has open; None where the system does not tell."""
    listing = Path("/proc/self/fd")
    if not listing.is_dir():
        return None
    return sum(str(folder) in os.path.realpath(path) for path in listing.iterdir())


def test_a_memory_is_opened_once_however_many_ask_for_it(folder: Path) -> None:
    """Also when they all come before it is open; the files that the pool counts are all that are open."""

    async def work(pool: MemoryPool) -> None:
        found = await asyncio.gather(*(use(pool, "u", nothing) for _ in range(6)))
        assert held(folder) in (pool.open_files, None)
        assert all(one is found[0] for one in found)
        assert pool.opened == ["u"]
        assert pool.open_files == found[0].open_files
        assert await use(pool, "u", nothing) is found[0]

    run(folder, work)


def test_an_opening_that_fails_fails_alone(folder: Path) -> None:
    """Those who wait for it open the memory themselves; one that is cancelled lets the next one in."""
    refusals = iter([True, False])

    def once(label: str) -> None:
        if next(refusals):
            raise InputError("not yet")

    async def work(pool: MemoryPool) -> None:
        found = await asyncio.gather(
            *(use(pool, "u", nothing, first=once) for _ in range(3)), return_exceptions=True
        )
        assert [type(one) for one in found] == [InputError, Memory, Memory]
        task = asyncio.create_task(use(pool, "v", nothing))
        other = asyncio.create_task(use(pool, "v", nothing))
        await asyncio.sleep(0)
        task.cancel()
        assert isinstance(await other, Memory)
        assert task.cancelled()
        assert held(folder) in (pool.open_files, None)

    run(folder, work)


def test_a_closed_pool_opens_again_at_the_next_use(folder: Path) -> None:
    """Closing is no end; what was said is there."""

    async def work(pool: MemoryPool) -> None:
        one = await use(pool, "u", nothing)
        await pool.close()
        assert pool.opened == []
        other = await use_existing(pool, "u", nothing)
        assert other is not one
        assert pool.opened == ["u"]

    run(folder, work)


def test_only_a_memory_that_is_there_is_known(folder: Path) -> None:
    """Looking makes none; the message shows the id, cut, and says what makes one."""

    async def work(pool: MemoryPool) -> None:
        for user in ("nobody", "x" * 500):
            with pytest.raises(NotFoundError) as caught:
                await use_existing(pool, user, nothing)
            assert len(str(caught.value)) < 200
            assert not pool.exists(user)
        for verb in (use_existing, use):
            with pytest.raises(InputError, match="user_id"):
                await verb(pool, "", nothing)

    run(folder, work)
    assert list(folder.iterdir()) == []


def test_what_comes_first_decides_whether_a_memory_is_made(folder: Path) -> None:
    """It is asked with the name of the user, before the file is made, and never where there is one."""
    asked: list[str] = []

    def refuse(label: str) -> None:
        asked.append(label)
        raise InputError("nothing to store")

    async def work(pool: MemoryPool) -> None:
        with pytest.raises(InputError):
            await use(pool, "u", nothing, first=refuse)
        with pytest.raises(InputError):
            await use(pool, "x" * 65, nothing, first=refuse)
        with pytest.raises(InputError):
            await use(pool, "u", nothing, label="Ana", first=refuse)
        assert (asked, pool.exists("u"), pool.opened) == (["u", "user", "Ana"], False, [])
        await use(pool, "u", nothing, first=asked.append)
        await use(pool, "u", nothing, first=refuse)
        await pool.close()
        await use(pool, "u", nothing, first=refuse)
        assert asked == ["u", "user", "Ana", "u"]

    run(folder, work)


def test_a_name_that_is_given_later_holds_at_once_and_for_good(folder: Path) -> None:
    """For the memory that is open already, and after it was closed; opening without one leaves it."""

    async def work(pool: MemoryPool) -> None:
        memory = await use(pool, "u", nothing)
        assert memory.label == "u"
        assert await use(pool, "u", nothing, label="Ana") is memory
        assert memory.label == "Ana"
        await pool.close()
        assert (await use(pool, "u", nothing)).label == "Ana"

    run(folder, work)


def each(folder: Path) -> int:
    """Return how many files a memory holds that was opened and not read."""
    found: list[int] = []

    async def work(pool: MemoryPool) -> None:
        await use(pool, "one", nothing)
        found.append(pool.open_files)

    run(folder, work)
    return found[0]


def test_the_memory_used_longest_ago_is_closed_first(folder: Path) -> None:
    """Used, not opened: one that was used again stays; as many stay as the bound has room for."""
    files = each(folder)

    async def work(pool: MemoryPool) -> None:
        for user in ("a", "b", "c"):
            await use(pool, user, nothing)
        assert (pool.opened, pool.open_files) == (["a", "b", "c"], 3 * files)
        await use(pool, "a", nothing)
        await use(pool, "d", nothing)
        assert pool.opened == ["c", "a", "d"]
        await use(pool, "c", nothing)
        await use(pool, "b", nothing)
        assert pool.opened == ["d", "c", "b"]
        assert pool.open_files == 3 * files

    run(folder, work, max_open_files=3 * files)


def test_a_memory_in_use_is_not_closed(folder: Path) -> None:
    """However many others are opened meanwhile, by one holder or by several; afterwards it goes like any other."""

    async def work(pool: MemoryPool) -> None:
        one, other = Holding(), Holding()
        tasks = [asyncio.create_task(use(pool, "held", holding)) for holding in (one, other)]
        await one.begun.wait()
        await other.begun.wait()
        for user in ("a", "b"):
            await use(pool, user, nothing)
            assert pool.opened == ["held", user]
        one.go.set()
        assert await tasks[0] > 0
        await use(pool, "c", nothing)
        assert pool.opened == ["held", "c"]
        other.go.set()
        assert await tasks[1] > 0
        await use(pool, "d", nothing)
        assert pool.opened == ["d"]

    run(folder, work, max_open_files=3)


def test_a_verb_that_fails_gives_its_memory_back(folder: Path) -> None:
    """So does one that is cancelled: the memory is idle then, and may be closed."""

    async def fails(memory: Memory) -> None:
        raise ZeroDivisionError

    async def work(pool: MemoryPool) -> None:
        with pytest.raises(ZeroDivisionError):
            await use(pool, "a", fails)
        holding = Holding()
        task = asyncio.create_task(use(pool, "b", holding))
        await holding.begun.wait()
        assert pool.opened == ["b"]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await use(pool, "c", nothing)
        assert pool.opened == ["c"]

    run(folder, work, max_open_files=3)


def test_what_was_read_longest_ago_is_dropped_first(folder: Path) -> None:
    """Snapshots go by the same order as files, and none while they fit; an answer is the same with and without."""
    config = fast_config(max_cache_mb=0)

    async def work() -> None:
        async with AsyncMemForest(folder, config) as forest:
            found = []
            for user in ("a", "b", "a"):
                await forest.ingest_session(user, "s", said("I live in Oslo."))
                found.append((await forest.query(user, "Where does Ana live?")).evidence)
            assert found[0] == found[1] == found[2]
        async with AsyncMemForest(folder, fast_config(max_cache_mb=1)) as forest:
            for user in ("a", "b"):
                await forest.query(user, "Where does Ana live?")
            stats = [(await forest.user(user).stats()).sessions for user in ("a", "b")]
            assert stats == [1, 1]

    asyncio.run(work())


def test_threads_with_loops_of_their_own_share_a_pool(folder: Path) -> None:
    """Each runs its own event loop; what they use at once is opened once and closed when all are done."""
    files = each(folder)
    pool, errors = MemoryPool(folder, fast_config(max_open_files=3)), []

    def thread(n: int) -> None:
        async def work() -> None:
            for i in range(6):
                await use(pool, f"user {(n + i) % 3}", nothing)

        try:
            asyncio.run(work())
        except MemForestError as exc:
            errors.append(exc)

    threads = [threading.Thread(target=thread, args=(n,)) for n in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert errors == []
    assert len(pool.opened) <= 3
    asyncio.run(use(pool, "last", nothing))
    assert (pool.opened, pool.open_files) == (["last"], files)
    asyncio.run(pool.close())


def request(user: str, session: str, *texts: str, **more: Any) -> dict[str, Any]:
    """Return a request of `ingest_parallel`."""
    return {"user_id": user, "session_id": session, "turns": said(*texts or ("I live in Oslo.",)), **more}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (None, "a mapping, not None"),
        (["u"], "a mapping, not"),
        ({}, "lacks 'user_id'"),
        ({"user_id": "u"}, "lacks 'session_id'"),
        ({"user_id": "u", "session_id": "s"}, "lacks 'turns'"),
        (request("u", "s", zoom=1, limit=2), "no option 'zoom'"),
        (request("u", "s", refresh=True), "no option 'refresh'"),
        (request("u", "s", budget=None), "no option 'budget'"),
        (request("", "s"), "user_id"),
        (request("a\0b", "s"), "user_id"),
        (request("u", "s", infer="no"), "infer"),
        (request("u", "s", replace=1), "replace"),
        (request("u", "s", timestamp="soon"), "timestamp.*soon"),
    ],
)
def test_a_bad_request_is_named_and_makes_nothing(folder: Path, bad: Any, message: str) -> None:
    """Its error stands in its place, and no file is made for its user."""
    with MemForest(folder, fast_config()) as forest:
        found = forest.ingest_parallel([bad])
        with pytest.raises(InputError, match=message):
            raise found[0]  # type: ignore[misc]
    assert list(folder.iterdir()) == []


def test_results_stand_in_the_order_of_requests(folder: Path) -> None:
    """Users come one after the other in the batch or mixed; sessions of one user are stored in their order."""
    requests = [request(user, f"s{n}", f"I bought {n + 2} tents.") for n, user in enumerate("abacabca")]
    with MemForest(folder, fast_config(), max_workers=2) as forest:
        found = forest.ingest_parallel(requests)
        assert [one.session_id for one in found if isinstance(one, IngestResult)] == [
            f"s{n}" for n in range(8)
        ]
        for user in "abc":
            expected = [one["session_id"] for one in requests if one["user_id"] == user]
            assert [one.session_id for one in forest.user(user).sessions()] == expected
        asked = [{"user_id": user, "question": f"tents {user}"} for user in "cab"]
        answers = forest.query_parallel(asked)
        assert [one.question for one in answers if isinstance(one, QueryResult)] == [
            "tents c",
            "tents a",
            "tents b",
        ]


def test_a_session_that_comes_twice_in_a_batch_grows(folder: Path) -> None:
    """Requests of a user are taken in their order."""
    requests = [request("u", "s", *["I live in Oslo.", "I work at Acme.", "Hi."][:n]) for n in (1, 3, 3)]
    with MemForest(folder, fast_config()) as forest:
        found = forest.ingest_parallel(requests)
        assert [one.turns_added for one in found if isinstance(one, IngestResult)] == [1, 2, 0]


def test_a_request_has_all_that_a_session_may_have(folder: Path) -> None:
    """Time, metadata, verbatim storage and replacement, each for its own session."""
    bare = [{"speaker": "Ana", "content": "I live in Oslo."}]
    with MemForest(folder, fast_config()) as forest:
        found = forest.ingest_parallel(
            [
                {"user_id": "u", "session_id": "dated", "turns": bare, "timestamp": "2023-05-02"},
                request("u", "verbatim", infer=False, metadata={"via": "mail"}),
                request("v", "s"),
            ]
        )
        assert all(isinstance(one, IngestResult) for one in found)
        (again,) = forest.ingest_parallel([request("v", "s", "I live in Rome.", replace=True)])
        assert isinstance(again, IngestResult)
        assert again.replaced
        dated, verbatim = sorted(forest.user("u").sessions(), key=lambda one: one.session_id)
        assert (dated.start.isoformat(), verbatim.metadata) == ("2023-05-02T00:00:00+00:00", {"via": "mail"})
        assert [one.text for one in forest.user("v").list()] == ["I live in Rome."]
        facts = {fact.sources[0].session_id: fact.statement for fact in forest.user("u").list()}
        assert facts == {"dated": 'Ana: "I live in Oslo."', "verbatim": "Ana: I live in Oslo."}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (7, "a mapping, not 7"),
        ({"question": "Where?"}, "lacks 'user_id'"),
        ({"user_id": "u"}, "lacks 'question'"),
        ({"user_id": "u", "question": "Where?", "zoom": 1}, "no option 'zoom'"),
        ({"user_id": "u", "question": "Where?", "top_k": 0}, "top_k=0"),
    ],
)
def test_a_bad_question_of_a_batch_is_named(folder: Path, bad: Any, message: str) -> None:
    """Those around it are answered."""
    good = {"user_id": "u", "question": "Where does Ana live?"}
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("u", "s", said("I live in Oslo."))
        one, wrong, other = forest.query_parallel([good, bad, good])
        assert isinstance(one, QueryResult)
        assert isinstance(other, QueryResult)
        assert one.evidence == other.evidence
        with pytest.raises(InputError, match=message):
            raise wrong  # type: ignore[misc]


def test_an_operation_over_all_names_who_failed_and_why(folder: Path) -> None:
    """The others are done; one user alone gets the error as it is, and somebody else's file is passed over."""
    with MemForest(folder, fast_config()) as forest:
        for user in ("a", "b", "c"):
            forest.ingest_session(user, "s", said("I live in Oslo."))
        (wrong,) = [path for path in folder.glob("*.db") if path.name.startswith("b-")]
    wrong.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    (folder / "notes-of-mine.db").write_bytes(b"hello")
    with MemForest(folder, fast_config()) as forest:
        with pytest.raises(SomeUsersFailedError) as caught:
            forest.resume()
        assert (list(caught.value.files), caught.value.errors) == ([wrong.name], {})
        assert wrong.name in str(caught.value)
        with pytest.raises(MemForestError):
            forest.resume("b")
        assert forest.resume("a") == []
        for verb in (forest.resume, forest.flush, forest.rebuild, forest.save, forest.load):
            with pytest.raises(NotFoundError, match="'nobody'"):
                verb("nobody")
        forest.save()  # of those that are open
        found = forest.survey()
        assert found.users == ("a", "c")
        assert {one.file for one in found.unreadable} == {wrong.name, "notes-of-mine.db"}


def test_a_long_list_of_failures_is_cut() -> None:
    """Ten reasons are told and the others counted; the error has all of them."""
    errors: dict[str, MemForestError] = {f"user {n}{'x' * 99}": NotFoundError(f"no {n}") for n in range(12)}
    ten = SomeUsersFailedError("load", dict(list(errors.items())[:10]), {}, [])
    assert "more" not in str(ten)
    twelve = SomeUsersFailedError("load", errors, {}, [1])
    assert str(twelve).startswith("load is done for all users but 12: user 'user 0xxx")
    assert str(twelve).endswith("; and 2 more, see .errors and .files")
    assert (len(twelve.errors), twelve.results, twelve.operation) == (12, [1], "load")
    assert "x" * 60 not in str(twelve)
