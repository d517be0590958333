"""An import that is killed at any of its writes, or at any time: all of it is there, or nothing and it can be done again."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.crashing import Crasher
from tests_long.worlds import differences, dump, eager_config, file_of, make_sessions, summaries

from memforest import MemForest

LONG = "MEMFOREST_SOAK_SEEDS" in os.environ

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks")


@pytest.fixture
def crasher() -> Iterator[Crasher]:
    """The process that forks and kills."""
    made = Crasher()
    yield made
    made.close()


@pytest.fixture
def made(folder: Path) -> Path:
    """A memory, closed, with its export beside it: `x.jsonl`."""
    with MemForest(folder / "a", eager_config()) as forest:
        for name, turns in make_sessions(7, sessions=6, most_turns=12):
            forest.ingest_session("u", name, turns)
        forest.user("u").export(folder / "x.jsonl")
    return file_of(folder / "a")


def finished(folder: Path, source: Path) -> bool:
    """Do what is to be done after a crash, and return whether the import had stored what it reads."""
    with MemForest(folder, eager_config()) as forest:
        stored = forest.has_user("u") and bool(forest.user("u").sessions())
        if stored:
            forest.resume("u")
        else:
            forest.user("u").import_(source)
        assert forest.flush().nodes_refreshed == 0  # their vectors are not carried
        assert forest.user("u").verify().problems == ()
    return stored


def test_an_import_that_dies_at_a_write_is_whole_or_not_there(
    folder: Path, made: Path, crasher: Crasher
) -> None:
    """Just before each of its commits and behind the last; in the end there is always the same memory.

    Behind a commit the file is what it is before the next one.
    """
    stored: list[bool] = []

    def dies(at: int, moment: str) -> bool:
        target = folder / f"{moment}{at}"
        if crasher.take_in(str(target), str(folder / "x.jsonl"), at, moment)[0] != signal.SIGKILL:
            return False
        stored.append(finished(target, folder / "x.jsonl"))
        assert differences(dump(made), dump(file_of(target))) == {}
        assert summaries(made) == summaries(file_of(target))
        return True

    writes = next(at for at in count() if not dies(at, "before"))
    assert dies(writes - 1, "after")
    assert writes >= 5
    assert stored == sorted(stored)  # from one write on it is there
    assert set(stored) == {False, True}


@pytest.mark.soak
def test_an_import_that_dies_at_any_time_is_whole_or_not_there(
    folder: Path, made: Path, crasher: Crasher
) -> None:
    """In the middle of its one transaction too."""
    for at in range(0, 12, 1 if LONG else 2):
        target = folder / f"b{at}"
        crasher.take_in(str(target), str(folder / "x.jsonl"), -1, within_s=0.02 * at)
        finished(target, folder / "x.jsonl")
        assert differences(dump(made), dump(file_of(target))) == {}
