from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from memforest import Config, MemForest
from memforest.errors import ConfigError
from memforest.testing import FrozenClock, HashEmbedder

NOON = datetime(2024, 6, 1, 12, tzinfo=timezone.utc)


def test_it_stands_still_until_it_is_moved() -> None:
    """Only `advance` and `set` change the time, which is always UTC."""
    clock = FrozenClock("2024-06-01T14:00:00+02:00")
    assert clock() == clock() == NOON
    assert clock().tzinfo is timezone.utc
    assert (
        clock.advance(days=1, hours=1, minutes=1, seconds=1)
        == clock()
        == NOON + timedelta(days=1, seconds=3661)
    )
    clock.set("2024-06-01T12:00:00Z")
    assert clock() == NOON


@pytest.mark.parametrize("at", ["noon", "2024-06-01T12:00:00", datetime(2024, 6, 1)])  # noqa: DTZ001
def test_a_time_without_a_zone_is_refused(at: str | datetime) -> None:
    """So is a text that is no time."""
    with pytest.raises(ConfigError, match="time"):
        FrozenClock(at)


def test_a_memory_goes_by_it(tmp_path: object) -> None:
    """What is added live is dated by the clock."""
    clock = FrozenClock(NOON)
    with MemForest(str(tmp_path), Config(embedder=HashEmbedder(), clock=clock)) as forest:
        memory = forest.user("nora")
        clock.advance(days=3)
        memory.add("I moved to Porto.")
        (found,) = memory.search("Where does Nora live?").evidence[:1]
    assert found.start == NOON + timedelta(days=3) or found.said == NOON + timedelta(days=3)
