"""An index that is added while processes are killed, and by several processes at once: nothing is lost or doubled.

Sizes are small by default; `make test-long` runs the long ones.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.crashing import Crasher
from tests_long.dummy_index.index import Dummy
from tests_long.worlds import dump, fast_config, fast_folder, file_of, make_sessions, rows

from memforest import AsyncMemForest, MemForest
from memforest.errors import MemForestError
from memforest.store import indexes
from memforest.store.connections import Tx
from memforest.store.indexes import Items
from memforest.trees import attached, index
from memforest.trees.index import Host

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks, and kills with a signal")

LONG = "MEMFOREST_SOAK_SEEDS" in os.environ
FACTS, KILLS, STEP = (10_000, 50, 512) if LONG else (300, 4, 16)


@pytest.fixture(scope="module")
def crasher() -> Iterator[Crasher]:
    """One crashing process for all tests here."""
    made = Crasher()
    yield made
    made.close()


@pytest.fixture
def dummy() -> Iterator[None]:
    """The dummy index is known."""
    attached.INDEXES[Dummy.name] = Dummy
    yield
    attached.INDEXES.pop("dummy", None)


def own(path: Path) -> list[tuple[Any, ...]]:
    """Return the facts of the dummy index's leaves, in the order of their numbers."""
    sql = """SELECT l.fact FROM leaf l JOIN tree t ON t.id = l.tree AND t.owner = 'dummy'
             JOIN ix_dummy_place p ON p.fact = l.fact AND p.leaf = l.id ORDER BY l.fact"""
    return rows(path, sql)


def left(path: Path) -> list[str]:
    """Return where in a file there is anything of the dummy index."""
    found = {
        "table": "SELECT 1 FROM sqlite_master WHERE name LIKE '%dummy%'",
        "setting": "SELECT 1 FROM meta WHERE key LIKE '%dummy%'",
        "row": "SELECT 1 FROM index_ WHERE name = 'dummy'",
        "tree": "SELECT 1 FROM tree WHERE owner NOT IN (SELECT name FROM index_)",
        "node": "SELECT 1 FROM node WHERE tree NOT IN (SELECT id FROM tree)",
        "leaf": "SELECT 1 FROM leaf WHERE tree NOT IN (SELECT id FROM tree)",
        "summary": "SELECT 1 FROM derived_summary WHERE node NOT IN (SELECT id FROM node)",
        "vector": "SELECT 1 FROM derived_node_vector WHERE item NOT IN (SELECT id FROM node)",
    }
    return [part for part, sql in found.items() if rows(path, sql)]


@pytest.mark.soak
@pytest.mark.timeout(3000)
@pytest.mark.usefixtures("dummy")
def test_an_index_that_is_killed_on_the_way(crasher: Crasher, folder: Path) -> None:
    """Killed at any moment of being added, resumed and made anew, it is sound each time, complete in the end, and goes whole."""
    turns = [
        {
            "speaker": "Ana",
            "content": f"Note {n} is about thing {n % 97}.",
            "timestamp": 1_600_000_000 + 3600 * n,
        }
        for n in range(FACTS)
    ]
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("u", "s", turns, infer=False)
        forest.resume("u")
        assert forest.user("u").list(limit=1).total == FACTS
    path = file_of(folder)
    before = dump(path)
    random = Random(5)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=fast_folder()) as copy:
        shutil.copy(path, copy)
        assert crasher.index(copy, step=STEP)[0] == 0
    whole_s = time.perf_counter() - started
    kills = 0
    while kills < KILLS:
        ended, _ = crasher.index(str(folder), step=STEP, within_s=random.uniform(0.03, 0.9 * whole_s))
        kills += ended == signal.SIGKILL
        assert ended in (0, signal.SIGKILL)
        with MemForest(folder, fast_config()) as forest:
            report = forest.user("u").verify()
            assert report.ok, report.problems[:3]
            assert forest.query("u", "What is note 7 about?").evidence
    with MemForest(folder, fast_config()) as forest:
        memory = forest.user("u")
        if all(one.name != "dummy" for one in memory.indexes()):
            memory.add_index("dummy")
        forest.resume("u")
        [made, _] = memory.indexes()
        assert (made.lag, made.leaves, memory.stats().dirty_nodes) == (0, FACTS, 0)
        assert len(own(path)) == FACTS
        assert memory.verify().ok
        memory.drop_index("dummy")
        assert memory.verify().ok
    assert left(path) == []
    assert dump(path) == before


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("dummy")
def test_killed_at_any_write_of_an_advance(crasher: Crasher, folder: Path) -> None:
    """Before any commit of it and behind the last: the memory is sound, `resume` goes on, and the end is that of a whole run."""
    with MemForest(folder, fast_config()) as forest:
        for name, turns in make_sessions(5, sessions=2, most_turns=4):
            forest.ingest_session("u", name, turns)
        forest.resume("u")
    path = file_of(folder)
    with tempfile.TemporaryDirectory(dir=fast_folder()) as copy:
        shutil.copy(path, copy)
        ended, writes = crasher.index(copy, step=4)
        assert (ended, writes > 4) == (0, True)
        whole, leaves = dump(file_of(Path(copy))), own(file_of(Path(copy)))
    last = writes - 1
    for at in range(writes):
        # Behind a commit the file is what it is before the next one.
        for moment in ("before", "after") if LONG or at == last else ("before",):
            with tempfile.TemporaryDirectory(dir=fast_folder()) as copy:
                shutil.copy(path, copy)
                assert crasher.index(copy, step=4, at=at, moment=moment)[0] == signal.SIGKILL
                with MemForest(copy, fast_config()) as forest:
                    memory = forest.user("u")
                    assert memory.verify().ok
                    assert memory.search("Where does Ana live?").evidence
                    if all(one.name != "dummy" for one in memory.indexes()):
                        memory.add_index("dummy")
                    forest.resume("u")
                    assert memory.verify().ok
                    assert [one.lag for one in memory.indexes()] == [0, 0]
                assert (dump(file_of(Path(copy))), own(file_of(Path(copy)))) == (whole, leaves)


@pytest.mark.usefixtures("dummy")
def test_killed_at_any_write_of_a_rebuild(crasher: Crasher, folder: Path) -> None:
    """An index that was whole is emptied and placed again in steps: sound at each of them, and whole again at the end."""
    with MemForest(folder, fast_config(indexes=("memforest", "dummy"))) as forest:
        for name, turns in make_sessions(5, sessions=2, most_turns=3):
            forest.ingest_session("u", name, turns)
        forest.flush()
    path = file_of(folder)
    whole, leaves = dump(path), own(path)
    with tempfile.TemporaryDirectory(dir=fast_folder()) as copy:
        shutil.copy(path, copy)
        ended, writes = crasher.index(copy, step=8)
        assert (ended, writes > 2) == (0, True)
        assert (dump(file_of(Path(copy))), own(file_of(Path(copy)))) == (whole, leaves)
    for at in range(writes):
        with tempfile.TemporaryDirectory(dir=fast_folder()) as copy:
            shutil.copy(path, copy)
            assert (
                crasher.index(copy, step=8, at=at, moment="before" if at % 2 else "after")[0]
                == signal.SIGKILL
            )
            with MemForest(copy, fast_config()) as forest:
                memory = forest.user("u")
                assert memory.verify().ok
                assert memory.search("Where does Ana live?").evidence
                forest.resume("u")
                assert memory.verify().ok
            assert (dump(file_of(Path(copy))), own(file_of(Path(copy)))) == (whole, leaves)


@pytest.mark.usefixtures("dummy")
def test_killed_at_any_write_of_a_drop(crasher: Crasher, folder: Path) -> None:
    """It is wholly there, or nothing of it is; dropped again, or added again, the memory is as it should be."""
    with MemForest(folder, fast_config()) as forest:
        for name, turns in make_sessions(5, sessions=2, most_turns=3):
            forest.ingest_session("u", name, turns)
        forest.flush()
        without = dump(file_of(folder))
        forest.user("u").add_index("dummy")
        forest.flush()
    path = file_of(folder)
    leaves, ends = own(path), set()
    for at, moment in ((0, "before"), (0, "after"), (1, "before")):
        with tempfile.TemporaryDirectory(dir=fast_folder()) as copy:
            shutil.copy(path, copy)
            crasher.index(copy, step=8, at=at, moment=moment, drop=True)
            there = left(file_of(Path(copy))) != []
            ends.add(there)
            with MemForest(copy, fast_config()) as forest:
                memory = forest.user("u")
                assert memory.verify().ok
                assert ("dummy" in {one.name for one in memory.indexes()}) == there
                if there:
                    assert own(file_of(Path(copy))) == leaves
                    memory.drop_index("dummy")
                assert left(file_of(Path(copy))) == []
                assert dump(file_of(Path(copy))) == without
                memory.add_index("dummy")
                assert own(file_of(Path(copy))) == leaves
    assert ends == {True, False}


class Slow(Dummy):
    """Reads notes in one transaction and places them in another, as one that asks a model would."""

    deferred = True

    async def advance(self, host: Host, until: int) -> None:
        """Place what the feed has noted, if nobody else has meanwhile."""

        def read(tx: Tx) -> tuple[int, Items, int]:
            row = indexes.find(tx, self.name)
            assert row is not None
            return row.cursor, *indexes.read(tx, row.cursor, 8, until)

        def place(tx: Tx, cursor: int, items: Items, upto: int) -> None:
            if indexes.move_from(tx, self.name, cursor, upto):
                tx.executemany("INSERT INTO ix_dummy_seen (note) VALUES (?)", [(upto,)])
                placing = self.placing(tx)
                placing.place(items)
                placing.close()

        while (found := await host.read(lambda tx, _: read(tx)))[0] < until:
            await asyncio.sleep(0)
            await host.write(lambda tx, found=found: place(tx, *found))  # type: ignore[misc]

    @staticmethod
    def make_tables(tx: Tx) -> None:
        """Make a table of what was seen too."""
        Dummy.make_tables(tx)
        tx.execute("CREATE TABLE ix_dummy_seen (note)")


def bring(kind: type[Dummy], verb: str, folder: str, gate: Any, answers: Any) -> None:
    """Add or advance the index in this process, at the same moment as others."""
    attached.INDEXES[kind.name] = kind
    index.STEP = 4

    async def run() -> str:
        async with AsyncMemForest(folder, fast_config()) as forest:
            await forest.load("u")
            gate.wait()
            try:
                if verb == "add":
                    await forest.user("u").add_index("dummy")
                else:
                    await forest.user("u").advance()
            except MemForestError as exc:
                return f"{type(exc).__name__}: {exc}"
            return "done"

    answers.put(asyncio.run(run()))


def at_once(kind: type[Dummy], verb: str, folder: Path, count: int) -> list[str]:
    """Return what so many processes answer, sorted."""
    spawn = multiprocessing.get_context("spawn")
    gate, answers = spawn.Barrier(count), spawn.Queue()
    made = [spawn.Process(target=bring, args=(kind, verb, str(folder), gate, answers)) for _ in range(count)]
    for process in made:
        process.start()
    found = sorted(answers.get(timeout=120) for _ in made)
    for process in made:
        process.join()
    return found


@pytest.mark.timeout(200)
@pytest.mark.usefixtures("dummy")
def test_two_processes_add_one_index(folder: Path) -> None:
    """One wins; the other is told that the memory has it, and nothing is placed twice."""
    with MemForest(folder, fast_config()) as forest:
        for name, turns in make_sessions(3, sessions=3):
            forest.ingest_session("u", name, turns)
    refused, done = at_once(Dummy, "add", folder, 2)
    assert (done, refused[:11]) == ("done", "ConfigError")
    assert "has the index 'dummy' already" in refused
    with MemForest(folder, fast_config()) as forest:
        memory = forest.user("u")
        assert memory.verify().ok
        assert memory.indexes()[0].leaves == memory.list(limit=1).total == len(own(file_of(folder)))


@pytest.mark.timeout(200)
@pytest.mark.parametrize("kind", [Dummy, Slow])
def test_two_processes_advance_one_index(folder: Path, kind: type[Dummy]) -> None:
    """Whoever is quicker places a note, and nobody places it again; none is lost."""
    attached.INDEXES[kind.name] = kind
    try:
        with MemForest(folder, fast_config(indexes=("memforest", "dummy"))) as forest:
            for name, turns in make_sessions(3, sessions=3):
                forest.ingest_session("u", name, turns)
            memory = forest.user("u")
            memory.drop_index("dummy")
        with MemForest(folder, fast_config()) as forest:
            memory = forest.user("u")
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(kind, "advance", _nothing)
                memory.add_index("dummy")
            assert memory.indexes()[0].leaves == 0
        assert at_once(kind, "advance", folder, 2) == ["done", "done"]
        with MemForest(folder, fast_config()) as forest:
            memory = forest.user("u")
            assert memory.verify().ok
            assert [one.lag for one in memory.indexes()] == [0, 0]
            assert memory.indexes()[0].leaves == memory.list(limit=1).total == len(own(file_of(folder)))
        if kind is Slow:
            seen = rows(file_of(folder), "SELECT note FROM ix_dummy_seen")
            assert len(seen) == len(set(seen)) > 1
    finally:
        attached.INDEXES.pop("dummy", None)


async def _nothing(*_: Any) -> None:
    """Advance not at all."""
