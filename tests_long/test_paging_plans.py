"""A page reads what is on it: no statement goes through a whole table, and nothing reads the whole memory for it."""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, fast_folder, file_of, make_sessions

from memforest import MemForest
from memforest.memory.blocking import UserMemory
from memforest.search import cache
from memforest.store import facts
from memforest.store.connections import Connection, Tx


@pytest.fixture
def forest() -> Iterator[MemForest]:
    """A forest that was just opened, with a memory that nothing has been asked of."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as made:
        with MemForest(made, fast_config()) as forest:
            for name, turns in make_sessions(7, sessions=8):
                forest.ingest_session("u", name, turns, refresh=False)
        with MemForest(made, fast_config()) as forest:
            yield forest


PAGES: dict[str, Callable[[UserMemory], Any]] = {
    "facts": lambda memory: memory.list(limit=2, cursor=memory.list(limit=3).next_cursor),
    "of somebody": lambda memory: memory.list(
        limit=1, entity="Ana", cursor=memory.list(limit=1, entity="Ana").next_cursor
    ),
    "of a session": lambda memory: memory.list(limit=2, session_id=memory.sessions(limit=1)[0].session_id),
    "one fact": lambda memory: memory.get(memory.list(limit=1).facts[0].fact_id),
    "history": lambda memory: memory.history(memory.list(limit=1).facts[0].fact_id),
    "sessions": lambda memory: memory.sessions(limit=2, cursor=memory.sessions(limit=2).next_cursor),
    "turns": lambda memory: memory.turns(memory.sessions(limit=1)[0].session_id, limit=2),
}
FEW = (
    "json_each",
    "correction",
    "fact_hidden",
    "SCAN c",
    "SCAN p",
    "SCAN CONSTANT ROW",
    "origin",
    "SCAN o",
)
"""What is given to a statement, and what people have decided or merged."""
COUNTS = ("SCAN fact USING COVERING INDEX", "SCAN session USING COVERING INDEX")
"""How many there are in all is counted over the smallest index, without a row of the table."""


@pytest.mark.parametrize("page", sorted(PAGES))
def test_pages_are_read_by_index(forest: MemForest, monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    """Every statement looks up what it needs; the arrays of the whole memory are not made for it."""
    asked: dict[str, Any] = {}
    execute = Connection.execute

    def record(self: Connection, sql: str, args: Any = (), /) -> Any:
        asked.setdefault(sql, args)
        return execute(self, sql, args)

    def load(*_: Any, **__: Any) -> Any:
        raise AssertionError("the whole memory was read")

    memory = forest.user("u")
    assert memory.stats().facts > 10
    monkeypatch.setattr(cache, "load_snapshot", load)
    with monkeypatch.context() as patched:
        patched.setattr(Connection, "execute", record)
        assert PAGES[page](memory)
    found = []
    with closing(sqlite3.connect(file_of(Path(forest._async.directory)))) as db:
        for sql, args in asked.items():
            if sql.lstrip().upper().startswith(("SELECT", "WITH")):
                plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", args)]
                found += [
                    (one, sql)
                    for one in plan
                    if one.startswith("SCAN")
                    and not any(w in one for w in FEW)
                    and not one.startswith(COUNTS)
                ]
    assert len(asked) > 4
    assert found == []


def test_what_sets_scenes_apart_is_read_of_all_facts_once(
    forest: MemForest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not again until something is written; then it is."""
    read: list[Tx] = []
    found = facts.facts_with_ids

    def count(tx: Tx, ids: Any) -> Any:
        read.append(tx)
        return found(tx, ids)

    monkeypatch.setattr(facts, "facts_with_ids", count)
    memory = forest.user("u")
    before = {view.title for view in memory.tree(depth=0)}
    assert any(title.startswith("scene ") and ": " in title for title in before)
    assert {view.title for view in memory.tree(depth=0)} == before
    assert len(read) == 1
    forest.ingest_session("u", "new", make_sessions(8, sessions=1)[0][1])
    read.clear()
    memory.tree(depth=0)
    assert read


def test_the_arrays_would_be_seen(forest: MemForest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test above forbids is how the whole memory is read: a page of another time does so."""

    def load(*_: Any, **__: Any) -> Any:
        raise AssertionError("the whole memory was read")

    monkeypatch.setattr(cache, "load_snapshot", load)
    with pytest.raises(AssertionError, match="the whole memory was read"):
        forest.user("u").list(as_of="2024-01-01")
