"""A merge that is killed at any write: no half session, and merging again ends as if nothing had happened."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.crashing import Crasher
from tests_long.worlds import differences, dump, eager_config, fast_folder, make_sessions, rows

from memforest import MemForest
from memforest.store.directory import file_name

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks and kills")


@pytest.fixture(scope="module")
def crasher() -> Iterator[Crasher]:
    """The process that forks and kills."""
    made = Crasher()
    yield made
    made.close()


@pytest.fixture
def before() -> Iterator[Path]:
    """A directory with the memories of "a" and "b", who both have a session "s1", and a larger one "whole"."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        with MemForest(folder, eager_config()) as forest:
            for user, seed in (("a", 21), ("b", 22)):
                for session_id, turns in make_sessions(seed, sessions=4, most_turns=6):
                    forest.ingest_session(
                        user, session_id if session_id == "s1" else f"{user}-{session_id}", turns
                    )
        yield Path(folder)


def check_sessions(path: Path, source: Path) -> None:
    """Every session that is there from the other memory is there whole."""
    of = """SELECT s.session_id, (SELECT count(*) FROM turn WHERE session = s.id), (SELECT count(*) FROM chunk WHERE
        session = s.id), (SELECT count(*) FROM occurrence o JOIN chunk c ON c.id = o.chunk WHERE c.session = s.id) FROM session s"""
    whole = {row[0]: row[1:] for row in rows(source, of)}
    for session_id, *counts in rows(path, of):
        name = session_id.partition("~")[0]
        if name in whole and not session_id.startswith("a-") and (name != "s1" or "~" in session_id):
            assert tuple(counts) == whole[name]


@pytest.mark.timeout(300)
def test_a_merge_killed_at_any_write_leaves_whole_sessions_and_can_be_made_again(
    crasher: Crasher, before: Path, soak_seed: int
) -> None:
    """Before and after commits; `resume`, or merging again, leads to what an uninterrupted merge gives."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        shutil.copytree(before, folder, dirs_exist_ok=True)
        ended, writes = crasher.merge(folder, "b", "a", turns=4)
        assert (ended, writes > 4) == (0, True)
        whole = dump(Path(folder) / file_name("a"))
    points = [(at, moment) for at in range(writes) for moment in ("before", "after")]
    for at, moment in Random(soak_seed).sample(points, min(6 if soak_seed < 3 else 1_000, len(points))):
        with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
            shutil.copytree(before, folder, dirs_exist_ok=True)
            path = Path(folder) / file_name("a")
            ended, _ = crasher.merge(folder, "b", "a", turns=4, at=at, moment=moment)
            assert ended == signal.SIGKILL
            with MemForest(folder, eager_config()) as forest:
                check_sessions(path, Path(folder) / file_name("b"))
                forest.user("a").search("Where does Ana live?")
                forest.resume("a")
                report = forest.user("a").verify()
                assert report.ok, report.problems
                forest.user("a").merge("b")
                assert forest.user("a").verify().ok
            found = dump(path)
        assert differences(whole, found) == {}
