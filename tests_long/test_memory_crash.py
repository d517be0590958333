"""A process that is killed at any write loses nothing that it had acknowledged, and shows no half session."""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.crashing import Call, Crasher
from tests_long.worlds import (
    PAPER,
    differences,
    dump,
    eager_config,
    fast_folder,
    file_of,
    make_history,
    make_sessions,
    rows,
    summaries,
)

from memforest import MemForest
from memforest.errors import NotFoundError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks, and kills with a signal")


@pytest.fixture(scope="module")
def crasher() -> Iterator[Crasher]:
    """One crashing process for all tests here."""
    made = Crasher()
    yield made
    made.close()


@pytest.fixture
def folder() -> Iterator[str]:
    """An empty directory, in memory where there is one."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as made:
        yield made


def history(seed: int) -> list[Call]:
    """Return calls that store, grow, repeat and overwrite sessions."""
    return make_history(seed, make_sessions(seed, sessions=2, short_forms=False))


def turn_texts(calls: list[Call]) -> dict[str, list[list[str]]]:
    """Return session -> the texts of every version of it that was ever handed in."""
    found: dict[str, list[list[str]]] = {}
    for session_id, turns, _ in calls:
        found.setdefault(session_id, []).append([turn["content"] for turn in turns])
    return found


def check_before_resume(forest: MemForest, path: Path, calls: list[Call], acknowledged: int) -> None:
    """Check what a query may see of an interrupted write: whole versions of sessions, and what was acknowledged."""
    versions = turn_texts(calls)
    stored: dict[str, list[str]] = {}
    for session_id, _, text in rows(
        path, "SELECT session_id, ordinal, text FROM turn t JOIN session s ON s.id = t.session"
    ):
        stored.setdefault(session_id, []).append(text)
    for session_id, texts in stored.items():
        assert texts in versions[session_id], "a half-written session is visible"
    for session_id, turns, _ in calls[:acknowledged]:
        later = [[t["content"] for t in c[1]] for c in calls[: acknowledged + 1] if c[0] == session_id]
        assert stored[session_id] in later[later.index([t["content"] for t in turns]) :], (
            "an acknowledged turn is lost"
        )
    try:
        result = forest.query("u", "Where does Ana live?", top_k=100)
    except NotFoundError:
        assert not acknowledged
        return
    shown = {turn for texts in stored.values() for turn in texts}
    assert {evidence.quote for evidence in result.evidence} <= shown


def survive(crasher: Crasher, calls: list[Call], at: int, moment: str, whole: Path, **settings: Any) -> None:
    """Kill at one write, look, resume, make the calls again that were not acknowledged, and compare."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        ended, _, acknowledged = crasher.run(folder, calls, at, moment, **settings)
        assert ended == signal.SIGKILL
        with MemForest(folder, eager_config(**settings)) as forest:
            if forest.has_user("u"):
                path = file_of(Path(folder))
                forest.register_user("u")
                check_before_resume(forest, path, calls, acknowledged)
                forest.resume("u")
                report = forest.user("u").verify()
                assert report.ok, report.problems
                assert forest.user("u").stats().dirty_nodes == 0
                assert {status for _, status in rows(path, "SELECT id, status FROM session")} <= {"ingested"}
            for session_id, turns, replace in calls[acknowledged:]:
                forest.ingest_session("u", session_id, turns, replace=replace)
            assert forest.user("u").verify().ok
        path = file_of(Path(folder))
        assert differences(dump(whole), dump(path)) == {}
        made, expected = summaries(path), summaries(whole)
        assert {k: made[k] for k in made.keys() & expected.keys()} == {
            k: expected[k] for k in made.keys() & expected.keys()
        }


def survive_all(crasher: Crasher, folder: str, seed: int, most: int, **settings: Any) -> None:
    """Survive a kill at so many writes of a history, drawn by chance."""
    calls = history(seed)
    ended, writes, acknowledged = crasher.run(folder, calls, at=-1, **settings)
    assert (ended, acknowledged) == (0, len(calls))
    points = [(at, moment) for at in range(writes) for moment in ("before", "after")]
    for at, moment in Random(seed).sample(points, min(most, len(points))):
        survive(crasher, calls, at, moment, file_of(Path(folder)), **settings)


@pytest.mark.timeout(300)
def test_killed_at_any_write(crasher: Crasher, folder: str, soak_seed: int) -> None:
    """Every acknowledged turn is there, `resume` completes, and the end equals an uninterrupted run."""
    # Every point in `make test-long`, some in the default run.
    survive_all(crasher, folder, soak_seed, 5 if soak_seed < 3 else sys.maxsize)


@pytest.mark.timeout(300)
def test_killed_in_the_paper_s_form(crasher: Crasher, folder: str) -> None:
    """So it is where chunks have summaries of their own, and nodes of scenes vectors."""
    survive_all(crasher, folder, 1, 4, index_settings=PAPER)


def test_killed_twice(crasher: Crasher, folder: str) -> None:
    """A second crash, in the run after the first, changes nothing of that."""
    calls = history(7)
    with tempfile.TemporaryDirectory(dir=fast_folder()) as other:
        crasher.run(other, calls, at=-1)
        whole = dump(file_of(Path(other)))
    for at in (9, 4):
        crasher.run(folder, calls, at, "before")
    with MemForest(folder, eager_config()) as forest:
        forest.resume()
        for session_id, turns in make_sessions(7, sessions=2, short_forms=False):
            forest.ingest_session("u", session_id, turns, replace=True)
        assert forest.user("u").verify().ok
    assert differences(whole, dump(file_of(Path(folder)))) == {}
