"""The life of a memory with several indexes: whatever happens to it, it ends like one made from scratch of the same sessions.

Few lives by default; `make test-long` runs more.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.crashing import Crasher
from tests_long.living import written
from tests_long.shelf import ShelfIndex
from tests_long.worlds import differences, dump, eager_config, fast_folder, file_of, make_sessions, summaries

from memforest import Config, ConfigError, MemForest, NotFoundError
from memforest.memory.blocking import UserMemory
from memforest.trees import attached

LONG = "MEMFOREST_SOAK_SEEDS" in os.environ
NAMES = ("memforest", "segtree", "timem", "hmem", "flat", "shelf")
SESSIONS = ("s0", "s1", "s2")
VERSIONS = [dict(make_sessions(seed, sessions=3, most_turns=5, short_forms=False)) for seed in (11, 12, 13)]
"""What each session may say; of each version any beginning."""
QUESTIONS = ("Where does Ana live?", "Who works at Acme?", "What did Bob buy before he moved to Oslo?")
DAMAGES = {
    "lost summaries": "DELETE FROM artifact WHERE rowid % 2",
    "torn texts": "UPDATE artifact SET text = x'ff00' WHERE rowid % 3 = 0",
    "vectors of no length": "UPDATE artifact SET vector = zeroblob(64) WHERE vector IS NOT NULL",
    "digests of nothing": "UPDATE artifact SET digest = x'00' WHERE rowid = (SELECT max(rowid) FROM artifact)",
}
SAID = (
    "I moved to Oslo last week.",
    "I bought a red bike in Davis yesterday.",
    "Bob works at Globex.",
    "Thanks, great!",
)


def configured(names: tuple[str, ...] = ("memforest",), **more: Any) -> Config:
    """Return the configuration of a memory that begins with these indexes."""
    return eager_config(indexes=names, **more)


def shown(memory: UserMemory, index: str) -> list[list[tuple[str, str, float]]]:
    """Return what an index finds for each of the questions."""
    results = (memory.search(question, index=index, top_k=100).evidence for question in QUESTIONS)
    return [[(one.text, one.quote, round(one.score, 6)) for one in evidence] for evidence in results]


def contents(path: Path) -> dict[str, Any]:
    """Return what a memory holds, with the trees of every index and what was made of them."""
    return {**dump(path), "summaries": summaries(path)}


class Life(RuleBasedStateMachine):
    """What may happen to one memory; `spoken` is what its sessions hold now, `names` are its indexes."""

    def __init__(self) -> None:
        super().__init__()
        self.closing = ExitStack()
        self.folder = Path(self.closing.enter_context(tempfile.TemporaryDirectory(dir=fast_folder())))
        self.spoken: dict[str, list[dict[str, Any]]] = {}
        self.names = {"memforest"}
        self.forest = MemForest(self.folder, configured())

    @property
    def memory(self) -> UserMemory:
        """The memory that lives."""
        return self.forest.user("u")

    @property
    def path(self) -> Path:
        """Its file."""
        return file_of(self.folder)

    def sql(self, statement: str) -> None:
        """Change the file behind the memory's back."""
        self.forest.close()
        with sqlite3.connect(self.path) as conn:
            conn.execute(statement)
        conn.close()
        self.forest = MemForest(self.folder, configured())

    def turns(self, session: str, version: int, length: int) -> list[dict[str, Any]]:
        """Return the beginning of a version of a session, at least one turn."""
        return VERSIONS[version][session][:length]

    def replaces(self, session: str, turns: list[dict[str, Any]]) -> bool:
        """Return whether turns are no continuation of what the session holds."""
        had = self.spoken.get(session, [])
        return turns[: len(had)] != had

    @initialize(version=st.integers(0, 2))
    def begin(self, version: int) -> None:
        """Say a first session."""
        self.speak("s0", version, 3)

    @rule(session=st.sampled_from(SESSIONS), version=st.integers(0, 2), length=st.integers(1, 5))
    def speak(self, session: str, version: int, length: int) -> None:
        """Store a session, let it grow, or overwrite it."""
        turns = self.turns(session, version, length)
        self.forest.ingest_session("u", session, turns, replace=self.replaces(session, turns))
        self.spoken[session] = turns

    @rule(session=st.sampled_from(SESSIONS), text=st.sampled_from(SAID))
    def append(self, session: str, text: str) -> None:
        """Add one turn to a session, or begin one with it."""
        had = self.spoken.get(session, [])
        at = had[-1]["timestamp"] if had else "2023-05-05T10:00:00+00:00"
        turn = {"speaker": "Ana", "content": text, "timestamp": at}
        self.memory.add(turn, session_id=session)
        self.spoken[session] = [*had, turn]

    @rule(name=st.sampled_from(NAMES))
    def add_index(self, name: str) -> None:
        """Add an index; one that is there already is refused."""
        if name in self.names:
            with pytest.raises(ConfigError, match="already"):
                self.memory.add_index(name)
            return
        assert self.memory.add_index(name).name == name
        self.names.add(name)

    @rule(name=st.sampled_from(NAMES))
    def drop_index(self, name: str) -> None:
        """Drop an index; the last one, and one that is not there, are refused."""
        if name in self.names and len(self.names) > 1:
            self.memory.drop_index(name)
            self.names.remove(name)
        else:
            with pytest.raises((ConfigError, NotFoundError)):
                self.memory.drop_index(name)

    @rule(data=st.data(), everything=st.booleans())
    def rebuild(self, data: st.DataObject, *, everything: bool) -> None:
        """Make one index anew, or all."""
        if everything:
            self.memory.rebuild()
        else:
            self.memory.rebuild(index=data.draw(st.sampled_from(sorted(self.names))))

    @rule()
    def resume(self) -> None:
        """When summaries are made there is nothing left to do, and nothing is done."""
        written(self.forest)
        before = contents(self.path)
        assert self.forest.resume("u") == []
        assert contents(self.path) == before

    @rule(damage=st.sampled_from(sorted(DAMAGES)))
    def repair(self, damage: str) -> None:
        """Damage what was made, and repair it: all is made again as it was."""
        written(self.forest)
        before = contents(self.path)
        self.sql(DAMAGES[damage])
        assert self.memory.repair().left == ()
        written(self.forest)
        assert differences(before, contents(self.path)) == {}

    @precondition(lambda self: bool(CRASHER))
    @rule(
        session=st.sampled_from(SESSIONS),
        version=st.integers(0, 2),
        at=st.integers(0, 5),
        before=st.booleans(),
    )
    def crash(self, session: str, version: int, at: int, *, before: bool) -> None:
        """Kill a process at one of the writes of an ingest, resume, and ingest again what it had not acknowledged."""
        turns = self.turns(session, version, 5)
        replace = self.replaces(session, turns)
        self.forest.close()
        moment = "before" if before else "after"
        ended, _, done = CRASHER[0].run(str(self.folder), [(session, turns, replace)], at, moment)
        assert ended in (0, signal.SIGKILL)
        self.forest = MemForest(self.folder, configured())
        self.forest.resume("u")
        self.check()
        if not done:
            self.forest.ingest_session("u", session, turns, replace=replace)
        self.spoken[session] = turns

    @invariant()
    def check(self) -> None:
        """The memory is sound, and has its indexes."""
        if not self.spoken:
            return
        report = self.memory.verify()
        assert report.ok, report.problems
        assert {one.name for one in self.memory.indexes()} == self.names

    def teardown(self) -> None:
        """Compare with a memory made from scratch, and let everything go."""
        try:
            if self.spoken:
                self.compare()
        finally:
            self.forest.close()
            self.closing.close()

    def compare(self) -> None:
        """The same sessions, stored one after the other with the same indexes, make the same memory."""
        fresh = Path(self.closing.enter_context(tempfile.TemporaryDirectory(dir=fast_folder())))
        with MemForest(fresh, configured(tuple(sorted(self.names)))) as forest:
            for session, turns in self.spoken.items():
                forest.ingest_session("u", session, turns)
            for one in (forest, self.forest):
                written(one)
            assert differences(contents(file_of(fresh)), contents(self.path)) == {}
            for name in self.names:
                assert shown(self.memory, name) == shown(forest.user("u"), name)


CRASHER: list[Crasher] = []


@pytest.fixture(scope="module", autouse=True)
def ours() -> Iterator[None]:
    """The shelf is known, and there is a process that forks and kills."""
    if sys.platform != "win32":
        CRASHER.append(Crasher())
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(attached.INDEXES, "shelf", ShelfIndex)
        yield
    while CRASHER:
        CRASHER.pop().close()


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_any_life_ends_like_a_memory_from_scratch() -> None:
    """Sound after every step, and in the end the same contents, trees, summaries and evidence."""
    run_state_machine_as_test(
        Life,
        settings=settings(
            max_examples=60 if LONG else 4,
            stateful_step_count=10,
            deadline=None,
            phases=(Phase.explicit, Phase.reuse, Phase.generate),  # to shrink a life takes minutes
            suppress_health_check=list(HealthCheck),
        ),
    )
