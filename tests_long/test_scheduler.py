"""`Config.advance_every_s`: what is due in open memories is made when nothing is written; errors end nothing, and closing does."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, said
from tests_long.writing_double import Writer

from memforest import AsyncMemForest, Config, MemForest
from memforest.errors import ConfigError, StoreLockedError


class Slow:
    """A clock that is set, and a summariser of the same machine: a write makes no summary."""

    def __init__(self) -> None:
        self.now = datetime(2023, 5, 1, 10, 5, tzinfo=timezone.utc)
        self.writer = Writer()
        self.writer.remote = False

    def config(self, every_s: float = 0.01, *indexes: str) -> Config:
        """Return a configuration with a scheduler."""
        return fast_config(
            indexes=indexes or ("timem",),
            index_settings={"timem": {"pass_through": False}},
            summariser=self.writer,
            advance_every_s=every_s,
            clock=lambda: self.now,
        )

    def prompts(self) -> set[str]:
        """Return what was asked for since the last call."""
        return set(self.writer.counts())


@pytest.fixture(name="slow")
def _slow() -> Slow:
    return Slow()


def until(there: Callable[[], bool]) -> None:
    """Wait until something is so, for five seconds at most."""
    end = time.monotonic() + 5
    while not there():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.005)


def test_open_memories_are_advanced_and_closing_ends_it(folder: Path, slow: Slow) -> None:
    """By the clock, without a write; afterwards nothing is done any more, and the next call begins it again."""
    with MemForest(folder, slow.config()) as forest:
        forest.ingest_session("u", "s", said("I live in Oslo.", "It rains.", "I have a cat."), infer=False)
        until(lambda: forest.user("u").stats().indexes["timem"]["memories"] == {"written": 2, "waiting": 4})
        assert slow.prompts() == {"segment"}
        slow.now += timedelta(minutes=20)
        until(lambda: slow.prompts() == {"session"})
        forest.ingest_session(
            "u", "t", said("I moved to Bergen.", day=1) + said("It rains.", day=2), infer=False
        )
        until(lambda: "segment" in slow.prompts())
        forest.close()
        slow.prompts()
        slow.now += timedelta(days=90)
        time.sleep(0.06)
        assert not slow.writer.asked
        forest.user("u").stats()
        until(lambda: bool(slow.writer.asked))
        assert forest.user("u").verify().ok


@pytest.mark.parametrize("config", [(0.0, "timem"), (0.01, "memforest")], ids=str)
def test_it_is_off_unless_it_is_asked_for(folder: Path, slow: Slow, config: tuple[float, str]) -> None:
    """And looks at no memory without an index that has times of its own."""
    with MemForest(folder, slow.config(*config)) as forest:
        forest.ingest_session("u", "s", said("I live in Oslo.", "It rains.", "I have a cat."))
        time.sleep(0.05)
        assert not slow.writer.asked
        forest.flush()
        assert slow.writer.asked


def test_a_time_below_0_is_refused() -> None:
    """Before anything is opened."""
    assert Config().advance_every_s == 0
    with pytest.raises(ConfigError, match="advance_every_s"):
        Config(advance_every_s=-1)


def test_an_error_is_logged_and_ends_nothing(
    folder: Path, slow: Slow, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a file, or of code that is not ours, of which only the kind is: the next look is taken, and that at other memories."""
    from memforest.memory.memory import Memory

    looks: list[str] = []

    async def fail(self: Memory) -> list[str]:
        looks.append(self.user_id)
        raise (StoreLockedError("locked for long") if self.user_id == "a" else ValueError("a bug"))

    monkeypatch.setattr(Memory, "advance_due", fail)
    with caplog.at_level(logging.WARNING), MemForest(folder, slow.config()) as forest:
        for user in ("a", "b"):
            forest.ingest_session(user, "s", said("I live in Oslo."))
        until(lambda: min(looks.count("a"), looks.count("b")) > 2)
    assert "the memory of 'a' was not advanced: locked for long" in caplog.text
    assert "the memory of 'b' was not advanced: ValueError in test_scheduler, line " in caplog.text.replace(
        "tests_long.", ""
    )


def test_what_fails_is_not_tried_until_somebody_asks(folder: Path, slow: Slow) -> None:
    """Or until the memory has changed; `advance` tries again, and the looks after it."""
    slow.writer.fails = lambda one: "it is down"
    with MemForest(folder, slow.config()) as forest:
        forest.ingest_session("u", "s", said("I live in Oslo.", "It rains."), infer=False)
        until(lambda: bool(slow.writer.asked))
        time.sleep(0.05)
        slow.prompts()
        time.sleep(0.05)
        assert not slow.writer.asked
        slow.writer.fails = lambda one: None
        forest.user("u").advance()
        assert slow.prompts() == {"segment"}
        slow.now += timedelta(minutes=20)
        until(lambda: slow.prompts() == {"session"})


def test_it_runs_on_the_loop_of_an_async_forest(folder: Path, slow: Slow) -> None:
    """It ends with that loop, also when nobody has closed the forest, and begins on the next one."""
    forest = AsyncMemForest(folder, slow.config())

    async def work(day: int, *, close: bool) -> None:
        mine = asyncio.all_tasks()
        await forest.ingest_session("u", f"s{day}", said("I live in Oslo.", day=day), infer=False)
        slow.writer.asked.clear()
        slow.now += timedelta(days=1)
        await asyncio.to_thread(until, lambda: bool(slow.writer.asked))
        assert asyncio.all_tasks() > mine
        if close:
            await forest.close()
            assert asyncio.all_tasks() == mine

    asyncio.run(asyncio.wait_for(work(1, close=False), 5))
    asyncio.run(asyncio.wait_for(work(4, close=True), 5))
