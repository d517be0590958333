"""An index can be added to a memory later, dropped, made anew, and lag: the verbs, and what they say."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.dummy_index.index import Dummy
from tests_long.worlds import dump, fast_config, file_of, make_sessions, rows, said

from memforest import ConfigError, InputError, MemForest, NotFoundError
from memforest.memory.blocking import UserMemory
from memforest.store import indexes
from memforest.store.connections import Tx
from memforest.store.indexes import Items
from memforest.trees import attached
from memforest.trees import index as base
from memforest.trees.index import Host


class Deferred(Dummy):
    """The same, placed by `advance` alone."""

    deferred = True


class Sure(Deferred):
    """Reads notes in one transaction and places them in another, as one that asks a model would."""

    async def advance(self, host: Host, until: int) -> None:
        """Place what the feed has noted, once."""

        def notes(tx: Tx) -> tuple[int, Items, int]:
            row = indexes.find(tx, self.name)
            assert row is not None
            return row.cursor, *indexes.read(tx, row.cursor, 8, until)

        def place(tx: Tx) -> bool:
            if not indexes.move_from(tx, self.name, cursor, upto):
                return False
            placing = self.placing(tx)
            placing.place(items)
            placing.close()
            return True

        while True:
            cursor, items, upto = await host.read(lambda tx, _: notes(tx))
            if cursor >= until:
                return
            await host.write(place)


@pytest.fixture
def use() -> Iterator[Callable[[type[Any]], None]]:
    """A function that registers an index for the time of a test."""
    names: list[str] = []

    def register(index: type[Any]) -> None:
        attached.INDEXES.pop(index.name, None)
        attached.INDEXES[index.name] = index
        names.append(index.name)

    yield register
    for name in names:
        attached.INDEXES.pop(name, None)


def grown(folder: Path, **settings: Any) -> MemForest:
    """Return a forest with some sessions of user "u"."""
    forest = MemForest(folder, fast_config(**settings))
    for name, turns in make_sessions(3, sessions=3):
        forest.ingest_session("u", name, turns)
    return forest


def traces(path: Path) -> list[str]:
    """Return where in a file there is anything of the dummy index."""
    own = {
        "tables": "SELECT name FROM sqlite_master WHERE name LIKE '%dummy%'",
        "settings": "SELECT key FROM meta WHERE key LIKE '%dummy%'",
        "row": "SELECT name FROM index_ WHERE name = 'dummy'",
        "trees": "SELECT id FROM tree WHERE owner = 'dummy'",
        "nodes": "SELECT id FROM node WHERE tree NOT IN (SELECT id FROM tree WHERE owner != 'dummy')",
        "leaves": "SELECT id FROM leaf WHERE tree NOT IN (SELECT id FROM tree WHERE owner != 'dummy')",
        "summaries": "SELECT node FROM derived_summary WHERE node NOT IN (SELECT id FROM node)",
        "vectors": "SELECT item FROM derived_node_vector WHERE item NOT IN (SELECT id FROM node)",
    }
    return [part for part, sql in own.items() if rows(path, sql)]


def indexed(memory: UserMemory) -> dict[str, tuple[int, int, str | None]]:
    """Return leaves, lag and reason of the memory's indexes."""
    return {one.name: (one.leaves, one.lag, one.reason) for one in memory.indexes()}


def test_an_index_is_added_to_what_was_said_before(folder: Path, use: Callable[[type[Any]], None]) -> None:
    """`add_index` places everything, makes the summaries, and returns what is there; later writes go on with it."""
    use(Dummy)
    with grown(folder) as forest:
        memory = forest.user("u")
        before = memory.list(limit=1).total
        made = memory.add_index("dummy")
        assert (made.name, made.lag, made.reason) == ("dummy", 0, None)
        assert (made.trees, made.leaves) == (1, before)
        assert made.nodes > 0
        memory.add("I moved to Porto yesterday.")
        assert indexed(memory)["dummy"] == (memory.list(limit=1).total, 0, None)
        assert memory.list(limit=1).total > before
        assert memory.verify().ok


def test_an_index_leaves_nothing_behind(folder: Path, use: Callable[[type[Any]], None]) -> None:
    """Dropped, it leaves no table, row, setting, tree, node, leaf, summary or vector, and the others as they were."""
    use(Dummy)
    with grown(folder) as forest:
        memory = forest.user("u")
        before = dump(file_of(folder))
        memory.add_index("dummy")
        assert traces(file_of(folder)) == ["tables", "settings", "row", "trees", "nodes", "leaves"]
        memory.drop_index("dummy")
        assert traces(file_of(folder)) == []
        assert dump(file_of(folder)) == before
        assert memory.verify().ok
        with pytest.raises(NotFoundError, match=r"add_index\('dummy'\)"):
            memory.search("Who moved?", index="dummy")


def test_names_that_begin_alike_are_two_indexes(folder: Path, use: Callable[[type[Any]], None]) -> None:
    """Dropping "dum" takes nothing of "dummy"."""
    use(Dummy)
    use(
        type(
            "Dum",
            (Dummy,),
            {"name": "dum", "follows": frozenset(), "make_tables": staticmethod(lambda tx: None)},
        )
    )
    with grown(folder) as forest:
        memory = forest.user("u")
        memory.add_index("dummy")
        memory.add_index("dum")
        memory.drop_index("dum")
        assert memory.verify().ok
        assert memory.search("Where?", index="dummy")


def test_a_full_text_table_of_an_index_goes_with_it(folder: Path, use: Callable[[type[Any]], None]) -> None:
    """What SQLite keeps for a virtual table is not taken for tables of the index."""

    class Words(Dummy):
        @staticmethod
        def make_tables(tx: Tx) -> None:
            """Make a full-text table too."""
            Dummy.make_tables(tx)
            tx.execute("CREATE VIRTUAL TABLE ix_dummy_words USING fts5 (text)")

    use(Words)
    with grown(folder) as forest:
        memory = forest.user("u")
        memory.add_index("dummy")
        memory.rebuild(index="dummy")
        assert memory.verify().ok
        memory.drop_index("dummy")
        assert traces(file_of(folder)) == []


def test_one_index_is_made_anew(folder: Path, use: Callable[[type[Any]], None]) -> None:
    """`rebuild(index=)` places that one from the start, and touches no tree of another."""
    use(Dummy)
    with grown(folder) as forest:
        memory = forest.user("u")
        memory.add_index("dummy")
        others = rows(file_of(folder), "SELECT * FROM tree WHERE owner != 'dummy'")
        before = rows(file_of(folder), "SELECT id FROM tree WHERE owner = 'dummy'")
        whole = indexed(memory)
        memory.rebuild(index="dummy")
        assert indexed(memory) == whole
        assert rows(file_of(folder), "SELECT id FROM tree WHERE owner = 'dummy'") != before
        assert rows(file_of(folder), "SELECT * FROM tree WHERE owner != 'dummy'") == others
        for wrong in ("scopes", "stale"):
            with pytest.raises(InputError):
                memory.rebuild(index="dummy", scopes=wrong == "scopes", stale=wrong == "stale")
        memory.drop_index("dummy")
        for gone in ("dummy", "flat"):  # a query may name flat all the same
            with pytest.raises(NotFoundError, match=f"add_index\\('{gone}'\\)"):
                memory.rebuild(index=gone)


def test_a_memory_that_was_compacted_takes_a_new_index(
    folder: Path, use: Callable[[type[Any]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notes of what is gone are missing in its feed; an index that begins later needs none of them, in however many steps."""
    use(Dummy)
    monkeypatch.setattr(indexes, "COMPACTED", 8)
    monkeypatch.setattr(base, "STEP", 3)
    with grown(folder) as forest:
        forest.ingest_session("u", "s0", said("I live in Oslo."), replace=True)
        memory = forest.user("u")
        assert rows(file_of(folder), "SELECT value FROM meta WHERE key = 'feed_compacted' AND value > 0")
        memory.add_index("dummy")
        assert indexed(memory)["dummy"] == (memory.list(limit=1).total, 0, None)
        memory.rebuild(scopes=True)
        assert memory.verify().ok
        assert not any(one.lag for one in memory.indexes())


def test_the_feed_does_not_grow_with_what_is_gone(
    folder: Path, use: Callable[[type[Any]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that is overwritten again and again leaves notes of what is stored, and some of the last writes."""
    monkeypatch.setattr(indexes, "COMPACTED", 32)
    with MemForest(folder, fast_config()) as forest:
        for number in range(20):
            turns = said(f"I live in city number {number}.", f"I own {number} bikes.")
            forest.ingest_session("u", "s", turns, replace=True)
        assert rows(file_of(folder), "SELECT count(*) < 80 FROM feed") == [(1,)]
        assert forest.user("u").verify().ok


def test_results_say_how_far_an_index_is_behind(folder: Path, use: Callable[[type[Any]], None]) -> None:
    """A lagging index is searched as far as it is; the result warns and counts, and `resume` moves it on."""
    use(Deferred)
    with grown(folder) as forest:
        memory = forest.user("u")
        memory.add_index("dummy")
        assert memory.search("Where?", index="dummy").trace["lag"] == 0
        lag = rows(file_of(folder), "SELECT count(*) FROM feed")[0][0]
        with sqlite3.connect(file_of(folder)) as conn:  # as after a crash of an add
            conn.execute("UPDATE index_ SET cursor = 0, began = 0 WHERE name = 'dummy'")
        result = memory.search("Where?", index="dummy")
        assert result.evidence
        assert result.trace["lag"] == lag == memory.stats().indexes["dummy"]["lag"]
        assert [one for one in result.warnings if f"'dummy' has not placed the last {lag}" in one]
        assert not memory.search("Where?").warnings
        assert [one for one in memory.verify().notes if "'dummy'" in one]
        forest.resume("u")
        assert indexed(memory)["dummy"][1] == 0


@pytest.mark.parametrize("kind", [Deferred, Sure])
def test_a_deferred_index_is_placed_behind_each_write(
    folder: Path, use: Callable[[type[Any]], None], kind: type[Dummy]
) -> None:
    """It is no part of the commit, and up to date when the call returns; what goes is taken out at once."""
    use(kind)
    with grown(folder, indexes=("memforest", "dummy")) as forest:
        memory = forest.user("u")
        assert indexed(memory)["dummy"] == (memory.list(limit=1).total, 0, None)
        forest.ingest_session("u", "s0", said("I live in Oslo."), replace=True)
        assert indexed(memory)["dummy"] == (memory.list(limit=1).total, 0, None)
        assert memory.verify().ok


def test_advance_tells_an_index_the_time(folder: Path, use: Callable[[type[Any]], None]) -> None:
    """`advance(as_of=)` is the present that a deferred index closes its windows by; without it the clock's is."""
    told = []

    class Clocked(Deferred):
        async def advance(self, host: Host, until: int) -> None:
            told.append(host.now.year)
            await super().advance(host, until)

    use(Clocked)
    with grown(folder, indexes=("memforest", "dummy")) as forest:
        memory = forest.user("u")
        told.clear()
        [dummy, _] = memory.advance(as_of="2031-01-01T00:00:00Z")
        memory.advance()
        assert (dummy.name, dummy.lag, told) == ("dummy", 0, [2031, 2024])


def test_a_deferred_index_that_raises_fails_no_ingest(folder: Path, use: Callable[[type[Any]], None]) -> None:
    """The session is written; a warning names the index, the reason is kept, and `resume` tries again."""
    away = [True]

    class Away(Deferred):
        async def advance(self, host: Host, until: int) -> None:
            if away[0]:
                raise RuntimeError("the model is away")
            await super().advance(host, until)

    use(Away)
    with MemForest(folder, fast_config(indexes=("memforest", "dummy"))) as forest:
        memory = forest.user("u")
        result = forest.ingest_session("u", "s", said("I live in Oslo."))
        assert result.facts_inserted
        assert [one for one in result.warnings if "'dummy'" in one and "the model is away" in one]
        assert indexed(memory)["dummy"][2] == "failed: RuntimeError: the model is away"
        assert memory.verify().ok
        away[0] = False
        forest.resume("u")
        assert indexed(memory)["dummy"] == (1, 0, None)


def test_resume_logs_what_it_cannot_say_in_results(
    folder: Path, use: Callable[[type[Any]], None], caplog: pytest.LogCaptureFixture
) -> None:
    """With no session to finish there is no result that could carry the warning."""

    class Broken(Deferred):
        async def advance(self, host: Host, until: int) -> None:
            raise RuntimeError("boom")

    use(Broken)
    with grown(folder, indexes=("memforest", "dummy")) as forest:
        assert forest.resume("u") == []
        assert [one for one in caplog.messages if "'dummy' failed: RuntimeError in " in one]
        assert "boom" not in caplog.text  # what it says may be what somebody said


def test_settings_given_with_an_index_are_kept(folder: Path) -> None:
    """They are in the file, over those of the configuration, whoever opens it; unknown ones are refused."""
    config = fast_config(indexes=("flat",), index_settings={"memforest": {"entity_k": 5}})
    with MemForest(folder, config) as forest:
        forest.ingest_session("u", "s", said("I live in Oslo."))
        memory = forest.user("u")
        with pytest.raises(ConfigError):
            memory.add_index("memforest", {"wide": 3})
        made = memory.add_index("memforest", {"active_min_facts": 7, "session_k": 4})
        assert (made.settings["active_min_facts"], made.settings["entity_k"]) == (7, 5)
    with MemForest(folder, fast_config()) as forest:
        [_, kept] = forest.user("u").indexes()
        assert (kept.settings["active_min_facts"], kept.settings["session_k"], kept.settings["entity_k"]) == (
            7,
            4,
            5,
        )


def test_a_memory_needs_no_trees(folder: Path) -> None:
    """`Config.indexes` chooses; a memory with the flat index alone has no tree, and finds."""
    with grown(folder, indexes=("flat",)) as forest:
        memory = forest.user("u")
        assert (memory.stats().trees, memory.stats().nodes) == ({}, 0)
        assert [one.name for one in memory.indexes()] == ["flat"]
        found = memory.search("Where does Ana live?")
        assert found.evidence
        assert found.index == "flat"
        assert memory.verify().ok


def test_an_index_that_lags_forgets_what_goes(folder: Path) -> None:
    """Entities that are known too little after a session went have no tree when the index has caught up, as in a new memory."""
    tom = said("Tom bought a canoe.", "Tom painted the house.")
    one, two = said("Tom broke his wrist.", day=2), said("It rains.", day=2)
    for name, lags in (("whole", False), ("lagging", True)):
        with MemForest(folder / name, fast_config()) as forest:
            forest.ingest_session("u", "a", tom)
            forest.ingest_session("u", "b", one)
            if lags:
                with sqlite3.connect(file_of(folder / name)) as conn:
                    conn.execute("UPDATE index_ SET cursor = cursor - 1")
            forest.ingest_session("u", "b", two, replace=True)
            forest.resume("u")
            assert forest.user("u").verify().ok
    assert dump(file_of(folder / "lagging")) == dump(file_of(folder / "whole"))


def test_placing_again_changes_nothing(folder: Path, use: Callable[[type[Any]], None]) -> None:
    """A cursor that is put back places the same items once more: no leaf comes twice."""
    use(Dummy)
    with grown(folder, indexes=("memforest", "dummy")) as forest:
        forest.resume("u")
        before = dump(file_of(folder)), indexed(forest.user("u"))
        with sqlite3.connect(file_of(folder)) as conn:
            conn.execute("UPDATE index_ SET cursor = 0, began = 0")
        forest.resume("u")
        assert (dump(file_of(folder)), indexed(forest.user("u"))) == before


def test_an_index_that_was_overtaken_places_nothing(folder: Path, use: Callable[[type[Any]], None]) -> None:
    """Who has read notes, and is slower than another process, is told so when it moves the cursor, and leaves them."""
    overtaken: list[bool] = []

    class Slower(Deferred):
        async def advance(self, host: Host, until: int) -> None:
            def cursor(tx: Tx) -> int:
                row = indexes.find(tx, self.name)
                assert row is not None
                return row.cursor

            before = await host.read(lambda tx, _: cursor(tx))
            await super().advance(host, until)  # as another process would meanwhile
            overtaken.append(not await host.write(lambda tx: indexes.move_from(tx, self.name, before, until)))

    use(Slower)
    with grown(folder, indexes=("memforest", "dummy")) as forest:
        memory = forest.user("u")
        assert overtaken
        assert all(overtaken)
        assert indexed(memory)["dummy"] == (memory.list(limit=1).total, 0, None)
