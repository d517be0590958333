"""A paced index: its texts are made by `advance` alone, whatever else is made, shown or closed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.paced import Diary, Prompted
from tests.worlds import fast_config, said

from memforest import MemForest
from memforest.errors import InputError, TimestampError
from memforest.systems import registry
from memforest.systems.host import Host

TEXTS = [
    "I bought two tents in Oslo.",
    "The rain came at noon.",
    "We slept on the shore.",
    "A goose woke us.",
]


@pytest.fixture(autouse=True)
def diary() -> Iterator[None]:
    """The index is known."""
    registry.register(Diary)
    Diary.act = None
    Diary.reopened.clear()
    Diary.occasions.clear()
    yield
    registry.unregister("diary")


@pytest.fixture
def prompted() -> Prompted:
    """A summariser whose makers are by prompt."""
    return Prompted()


@pytest.fixture
def forest(folder: Path, prompted: Prompted) -> Iterator[MemForest]:
    """A forest with the paced index beside another one."""
    with MemForest(folder, fast_config(indexes=("diary", "memforest"), summariser=prompted)) as forest:
        yield forest


def ingest(forest: MemForest, day: int = 1, texts: Sequence[str] = TEXTS, **options: Any) -> Any:
    """Store a session."""
    return forest.ingest_session("u", f"s{day}", said(*texts, day=day), **options)


async def nothing(host: Host) -> None:
    """Make nothing."""


def test_an_index_is_told_why_it_is_advanced(forest: MemForest) -> None:
    """Behind a write; because somebody asked; or because what is not due yet is wanted too."""
    memory = forest.user("u")

    def told(did: Any) -> list[str]:
        found, Diary.occasions[:] = list(Diary.occasions), []
        return found

    assert told(ingest(forest)) == ["write"]
    assert told(memory.add("user: The goose came back.")) == ["write"]
    assert told(memory.advance()) == ["advance"]
    assert told(memory.advance(force=True)) == ["force"]
    assert set(told(forest.resume("u"))) == {"advance", "write"}
    assert told(memory.rebuild()) == ["advance"]
    memory.drop_index("diary")
    assert told(memory.add_index("diary")) == ["advance"]
    assert told(memory.delete(session_id="s1")) == ["write"]


def test_advance_refuses_what_is_no_time_or_flag(forest: MemForest) -> None:
    """And says what it is given."""
    ingest(forest)
    with pytest.raises(TimestampError, match="as_of"):
        forest.user("u").advance(as_of="yesterdayish")
    with pytest.raises(InputError, match="force"):
        forest.user("u").advance(force="no")  # type: ignore[arg-type]
