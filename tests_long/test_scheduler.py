"""`Config.advance_every_s`: what is due in open memories is made when nothing is written; errors end nothing, and closing does."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.paced import Diary, Prompted
from tests_long.worlds import fast_config, said

from memforest import AsyncMemForest, Config, MemForest
from memforest.errors import ConfigError, StoreLockedError
from memforest.trees import attached
from memforest.trees.index import Host


@pytest.fixture(autouse=True)
def diary() -> Iterator[None]:
    """The index is known."""
    attached.INDEXES[Diary.name] = Diary
    Diary.act = None
    Diary.occasions.clear()
    yield
    attached.INDEXES.pop("diary", None)


def config(every_s: float = 0.01, *indexes: str) -> Config:
    """Return a configuration with a scheduler."""
    return fast_config(indexes=indexes or ("diary",), summariser=Prompted(), advance_every_s=every_s)


def until(there: Callable[[], bool]) -> None:
    """Wait until something is so, for five seconds at most."""
    end = time.monotonic() + 5
    while not there():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.005)


def test_open_memories_are_advanced_and_closing_ends_it(folder: Path) -> None:
    """As behind a write, without one; afterwards nothing is done any more, and the next call begins it again."""
    with MemForest(folder, config()) as forest:
        forest.ingest_session("u", "s", said("I live in Oslo."))
        Diary.occasions.clear()
        until(lambda: len(Diary.occasions) > 2)
        assert set(Diary.occasions) == {"timer"}
        forest.close()
        Diary.occasions.clear()
        time.sleep(0.06)
        assert Diary.occasions == []
        forest.user("u").stats()
        until(lambda: len(Diary.occasions) > 1)


def test_it_is_off_unless_it_is_asked_for(folder: Path) -> None:
    """And looks at no memory without an index that has times of its own."""
    with MemForest(folder, config(0)) as forest:
        forest.ingest_session("u", "s", said("I live in Oslo."))
        Diary.occasions.clear()
        time.sleep(0.05)
        assert Diary.occasions == []
    assert Config().advance_every_s == 0
    with pytest.raises(ConfigError, match="advance_every_s"):
        Config(advance_every_s=-1)


def test_an_error_is_logged_and_ends_nothing(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a file, or of code that is not ours, of which only the kind is: the next look is taken, and that at other memories."""
    from memforest.memory.memory import Memory

    looks: list[str] = []

    async def fail(self: Memory) -> list[str]:
        looks.append(self.user_id)
        raise (StoreLockedError("locked for long") if self.user_id == "a" else ValueError("a bug"))

    monkeypatch.setattr(Memory, "advance_paced", fail)
    with caplog.at_level(logging.WARNING), MemForest(folder, config()) as forest:
        for user in ("a", "b"):
            forest.ingest_session(user, "s", said("I live in Oslo."))
        until(lambda: min(looks.count("a"), looks.count("b")) > 2)
    assert "the memory of 'a' was not advanced: locked for long" in caplog.text
    assert "the memory of 'b' was not advanced: ValueError in test_scheduler, line " in caplog.text.replace(
        "tests_long.", ""
    )


def test_an_index_that_raises_is_not_tried_until_somebody_asks(folder: Path) -> None:
    """It stays behind, as after a write; `advance` moves it on, and the looks with it."""

    async def fail(host: Host) -> None:
        raise ValueError("no window")

    with MemForest(folder, config()) as forest:
        forest.ingest_session("u", "s", said("I live in Oslo."))
        Diary.act = fail
        until(lambda: Diary.act is None)
        until(lambda: "no window" in str(forest.user("u").indexes()[0].reason))
        Diary.occasions.clear()
        time.sleep(0.05)
        assert Diary.occasions == []
        forest.user("u").advance()
        until(lambda: "timer" in Diary.occasions)


def test_it_runs_on_the_loop_of_an_async_forest(folder: Path) -> None:
    """It ends with that loop, also when nobody has closed the forest, and begins on the next one."""
    forest = AsyncMemForest(folder, config())

    async def work(*, close: bool) -> None:
        mine = asyncio.all_tasks()
        await forest.ingest_session("u", "s", said("I live in Oslo."))
        for _ in range(3):
            seen = asyncio.Event()

            async def note(host: Host, seen: asyncio.Event = seen) -> None:
                seen.set()

            Diary.act = note
            await seen.wait()
        assert asyncio.all_tasks() > mine
        if close:
            await forest.close()
            assert asyncio.all_tasks() == mine

    asyncio.run(asyncio.wait_for(work(close=False), 5))
    asyncio.run(asyncio.wait_for(work(close=True), 5))
