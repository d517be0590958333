"""What is wrong with an index is an error or a warning that names it; the memory itself stays whole and searchable."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each
from tests_long.dummy_index.index import Dummy, _Placing
from tests_long.worlds import dump, fast_config, file_of, make_sessions, rows, said

from memforest import ConfigError, InputError, MemForest, NotFoundError
from memforest.errors import IndexStateError, StoreWriteError
from memforest.forest import UserMemory
from memforest.store import feed
from memforest.store.tx import Tx
from memforest.systems import registry
from memforest.systems.base import Found, IndexProblem, Search

BOTH = ("memforest", "dummy")


@pytest.fixture
def use() -> Iterator[Callable[[type[Any] | None], None]]:
    """A function that registers a dummy index for the time of a test; None takes it away again."""

    def register(index: type[Any] | None) -> None:
        registry.unregister("dummy")
        if index is not None:
            registry.register(index)

    yield register
    registry.unregister("dummy")


Use = Callable[[type[Any] | None], None]


def grown(folder: Path, **settings: Any) -> MemForest:
    """Return a forest with some sessions of user "u"."""
    forest = MemForest(folder, fast_config(**settings))
    for name, turns in make_sessions(3, sessions=3):
        forest.ingest_session("u", name, turns)
    return forest


def change(folder: Path, sql: str) -> None:
    """Run a statement on the only file of a directory."""
    with sqlite3.connect(file_of(folder)) as conn:
        conn.execute(sql)
    conn.close()


def state(memory: UserMemory) -> dict[str, tuple[int, str | None]]:
    """Return lag and reason of the memory's indexes."""
    return {one.name: (one.lag, one.reason) for one in memory.indexes()}


def check_whole(memory: UserMemory, *wrong: str) -> None:
    """Check that a memory is searched, written and sound; problems are only with the indexes named."""
    assert memory.search("Where does Ana live?").evidence
    assert memory.search("Where does Ana live?", index="flat").evidence
    assert memory.add("I moved to Porto yesterday.", session_id="later").facts_inserted in (0, 1)
    assert {problem.index for problem in memory.verify()} <= set(wrong)


# -- names and settings ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "args", "error", "says"),
    [
        pytest.param(
            "add_index", ("nosuch",), ConfigError, "'nosuch' is unknown; known: .*memforest", id="add"
        ),
        pytest.param(
            "drop_index", ("nosuch",), NotFoundError, "no index 'nosuch'; it has: memforest", id="drop"
        ),
        pytest.param("add_index", (None,), InputError, "takes a text", id="add None"),
        pytest.param("drop_index", (7,), InputError, "takes a text", id="drop a number"),
        pytest.param(
            "add_index", ("memforest",), ConfigError, "has the index 'memforest' already", id="twice"
        ),
        pytest.param(
            "drop_index", ("memforest",), ConfigError, "'memforest' is the only index", id="the last one"
        ),
        pytest.param("add_index", ("flat", ["k"]), ConfigError, "the index 'flat' takes a", id="a list"),
        pytest.param(
            "add_index",
            ("flat", {"k": 1}),
            ConfigError,
            r"\[index.flat\] there is no setting k",
            id="a setting",
        ),
    ],
)
def test_a_wrong_name_is_refused(
    folder: Path, verb: str, args: tuple[Any, ...], error: type[Exception], says: str
) -> None:
    """The error says what there is, and nothing has changed."""
    with grown(folder) as forest:
        memory = forest.user("u")
        before = dump(file_of(folder)), state(memory)
        with pytest.raises(error, match=says):
            getattr(memory, verb)(*args)
        assert (dump(file_of(folder)), state(memory)) == before
        check_whole(memory)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"indexes": ("nosuch",)}, "'nosuch' is unknown"),
        ({"indexes": ("flat", "memforest", "flat")}, "none twice"),
        ({"indexes": ()}, "at least one name"),
        ({"index_settings": {"nosuch": {}}}, "'nosuch' is unknown"),
        ({"index_settings": {"memforest": {"wide": 1}}}, r"\[index.memforest\] there is no setting wide"),
    ],
)
def test_a_configuration_of_indexes_that_cannot_be_is_refused(
    folder: Path, settings: dict[str, Any], says: str
) -> None:
    """Before any memory is made with it."""
    with pytest.raises(ConfigError, match=says), MemForest(folder, fast_config(**settings)):
        pass
    assert not list(folder.iterdir())


@each("name", ["Dummy", "two words", "a_b", "", "1st", 'x"; DROP TABLE turn; --'])
def test_an_index_has_a_plain_name(name: str) -> None:
    """It is a part of the names of its tables."""
    with pytest.raises(ConfigError):
        registry.register(type("Named", (Dummy,), {"name": name}))


def test_a_name_is_given_once(use: Use) -> None:
    """A second index of one name is refused; the same class again is not."""
    use(Dummy)
    registry.register(Dummy)
    with pytest.raises(ConfigError):
        registry.register(type("Other", (Dummy,), {}))


@pytest.mark.parametrize("stored", ['{"wide": 3}', '{"session_k": 3, "wide": 3}', "[]", "3", "{"])
def test_settings_of_another_version_in_the_file(folder: Path, stored: str) -> None:
    """The error names the index and what helps; what helps works, though it is the only index."""
    grown(folder).close()
    change(folder, f"UPDATE index_ SET settings = '{stored}'")
    with MemForest(folder, fast_config()) as forest:
        memory = forest.user("u")
        with pytest.raises(IndexStateError):
            memory.search("Where does Ana live?", index="memforest")
        [warning] = memory.search("Where does Ana live?").warnings
        assert "searched with 'flat'" in warning
        assert "'memforest'" in warning
        assert not memory.indexes()[0].usable
        check_whole(memory, "memforest")
        memory.add_index("memforest")
        assert memory.search("Where does Ana live?").index == "memforest"
        check_whole(memory)


# -- versions -------------------------------------------------------------------------------------


class Second(Dummy):
    """The next version, with one more table."""

    version = 2
    tables = (*Dummy.tables, lambda tx: tx.execute("CREATE TABLE ix_dummy_more (fact)"))


class Botched(Second):
    """A next version whose tables cannot be made."""

    tables = (*Dummy.tables, lambda tx: tx.execute("CREATE TABLE ix_dummy_place (fact)"))


def test_an_index_of_an_older_version_is_brought_up_to_date(folder: Path, use: Use) -> None:
    """When the memory is opened, and nothing of it is placed anew."""
    use(Dummy)
    grown(folder, indexes=BOTH).close()
    use(Second)
    with MemForest(folder, fast_config()) as forest:
        memory = forest.user("u")
        assert [one.version for one in memory.indexes()] == [2, 1]
        assert rows(file_of(folder), "SELECT count(*) FROM ix_dummy_more") == [(0,)]
        assert memory.search("Where?", index="dummy")
        check_whole(memory)


@pytest.mark.parametrize(
    ("first", "then", "says"),
    [
        pytest.param(Second, Dummy, r"newer version of it \(2, here it is 1\)", id="written by a newer one"),
        pytest.param(
            Dummy, Botched, "could not be brought to 2: it failed: OperationalError", id="cannot be upgraded"
        ),
    ],
)
def test_a_version_that_cannot_be_used(
    folder: Path, use: Use, first: type[Dummy], then: type[Dummy], says: str
) -> None:
    """The memory opens; the index is named, keeps what it has while nothing goes, and can be made anew or dropped."""
    use(first)
    grown(folder, indexes=BOTH).close()
    use(then)
    with MemForest(folder, fast_config()) as forest:
        memory = forest.user("u")
        with pytest.raises(IndexStateError, match=f"'dummy' .*{says}"):
            memory.search("Where?", index="dummy")
        assert [one for one in memory.verify() if one.index == "dummy" and "'dummy'" in one.message]
        leaves = rows(file_of(folder), "SELECT count(*) FROM ix_dummy_place")
        check_whole(memory, "dummy")
        assert rows(file_of(folder), "SELECT count(*) FROM ix_dummy_place") == leaves
        if then is Dummy:
            memory.add_index("dummy")
            assert state(memory)["dummy"] == (0, None)
        else:
            memory.drop_index("dummy")
        check_whole(memory)


# -- not installed --------------------------------------------------------------------------------


def test_an_index_that_is_not_installed_is_left_alone(folder: Path, use: Use) -> None:
    """What is written by a process that does not know it waits for one that does; `resume`, too, leaves it as it is."""
    use(Dummy)
    grown(folder, indexes=BOTH).close()
    use(None)
    with MemForest(folder, fast_config()) as forest:
        memory = forest.user("u")
        leaves = {one.name: one.leaves for one in memory.indexes()}
        forest.ingest_session("u", "new", said("I live in Oslo.", "I own a red bike."))
        forest.resume("u")
        memory.rebuild(scopes=True)
        dummy = memory.indexes()[0]
        assert (dummy.name, dummy.usable, dummy.leaves) == ("dummy", False, leaves["dummy"])
        assert dummy.lag
        assert [note for note in memory.verify().notes if "'dummy' is not installed here" in note]
        with pytest.raises(ConfigError):
            memory.search("Where?", index="dummy")
        check_whole(memory)
    use(Dummy)
    with MemForest(folder, fast_config()) as forest:
        forest.resume("u")
        assert state(forest.user("u"))["dummy"] == (0, None)
        check_whole(forest.user("u"))


def test_its_summaries_are_not_given_up(folder: Path, use: Use) -> None:
    """Nodes of an index that is not installed stay out of date: a refresh here does not take them for done."""
    use(Dummy)
    with MemForest(folder, fast_config(indexes=BOTH)) as forest:
        forest.ingest_session("u", "s", said("I live in Oslo.", "I own a red bike."), refresh=False)
    use(None)
    dirty = "SELECT count(*) FROM node JOIN tree t ON t.id = node.tree WHERE dirty AND owner = 'dummy'"
    with MemForest(folder, fast_config()) as forest:
        forest.resume("u")
        assert rows(file_of(folder), dirty) == [(1,)]
    use(Dummy)
    with MemForest(folder, fast_config()) as forest:
        forest.resume("u")
        assert rows(file_of(folder), dirty) == [(0,)]


def test_what_goes_is_gone_from_an_index_that_is_not_installed(folder: Path, use: Use) -> None:
    """It cannot be asked to take one session out, so it is emptied, says so, and is made anew where it is known."""
    use(Dummy)
    grown(folder, indexes=BOTH).close()
    use(None)
    with MemForest(folder, fast_config()) as forest:
        memory = forest.user("u")
        result = forest.ingest_session("u", "s0", said("It rains."), replace=True)
        assert [one for one in result.warnings if "'dummy'" in one and "emptied" in one]
        assert rows(file_of(folder), "SELECT * FROM ix_dummy_place") == []
        assert rows(file_of(folder), "SELECT id FROM tree WHERE owner = 'dummy'") == []
        check_whole(memory)
        memory.drop_index("memforest")  # the other one cannot be used: still searched
        assert "searched with 'flat'" in memory.search("Where?").warnings[0]
    use(Dummy)
    with MemForest(folder, fast_config()) as forest:
        forest.resume("u")
        memory = forest.user("u")
        assert memory.indexes()[0].leaves == memory.list(limit=1).total
        check_whole(memory)


# -- the place in the feed ------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["rebuild", "repair"])
@pytest.mark.parametrize(
    ("cursor", "says"), [(5, "is not kept any more"), (1_000_000, "there is not"), (-1, "there is not")]
)
def test_a_place_in_the_feed_that_is_lost(
    folder: Path, use: Use, monkeypatch: pytest.MonkeyPatch, caplog: Any, cursor: int, says: str, verb: str
) -> None:
    """A cursor behind a compacted feed, or beyond its end: queries, `resume` and `verify` name the index and what helps."""
    use(Dummy)
    monkeypatch.setattr(feed, "COMPACTED", 8)
    told = f"'dummy' stands at note {cursor} of the feed, which {says}; rebuild(index='dummy') makes it anew"
    with grown(folder, indexes=BOTH) as forest:
        forest.ingest_session("u", "s0", said("I live in Oslo."), replace=True)
        memory = forest.user("u")
        change(folder, f"UPDATE index_ SET cursor = {cursor} WHERE name = 'dummy'")
        assert told in memory.search("Where?", index="dummy").warnings[0]
        assert [told in problem.message for problem in memory.verify()] == [True]
        forest.resume("u")
        assert told in caplog.text
        if verb == "rebuild":
            memory.rebuild(index="dummy")
        else:
            assert memory.repair().ok
        assert state(memory)["dummy"] == (0, None)
        check_whole(memory)


def test_the_feed_does_not_grow_up_to_a_lost_place(folder: Path, use: Use) -> None:
    """An index beyond the end of the feed would look current one day, and lack what was written till then: a write empties it."""
    use(Dummy)
    with grown(folder, indexes=BOTH) as forest:
        memory = forest.user("u")
        change(folder, "UPDATE index_ SET cursor = cursor + 1 WHERE name = 'dummy'")
        result = memory.add("I moved to Porto yesterday.")
        assert [one for one in result.warnings if "'dummy' stood at note" in one]
        forest.resume("u")
        assert memory.indexes()[0].leaves == memory.list(limit=1).total
        check_whole(memory)


# -- an index that raises -------------------------------------------------------------------------


def boom(*_: Any) -> Any:
    """Raise what no code of ours does."""
    raise RuntimeError("boom")


def wrong_sql(self: Any, *_: Any) -> Any:
    """Make a mistake in SQL, with a statement under way that holds a table."""
    rows = self.tx.execute("SELECT * FROM ix_dummy_place")
    rows.fetchone()
    self.tx.execute("INSERT INTO nosuch VALUES (1)")


def no_file(*_: Any) -> Any:
    """Look for a file of one's own that is not there."""
    Path("/nonexistent/words.txt").read_text()


def twice(self: Any, *_: Any) -> Any:
    """Write a row that is there."""
    for _at in range(2):
        self.tx.execute("INSERT INTO ix_dummy_place VALUES (999999, 1)")


@pytest.mark.parametrize("mistake", [boom, wrong_sql, no_file, twice])
@pytest.mark.parametrize("step", ["place", "close"])
def test_an_index_that_raises_while_it_places(
    folder: Path, use: Use, monkeypatch: pytest.MonkeyPatch, step: str, mistake: Any
) -> None:
    """The session is written; the index stays as it was and lags, with a reason, till `resume` finds it mended."""
    use(Dummy)
    with grown(folder, indexes=BOTH) as forest:
        memory = forest.user("u")
        before = memory.indexes()[0].leaves
        with monkeypatch.context() as patch:
            patch.setattr(_Placing, step, mistake)
            result = forest.ingest_session("u", "new", said("I live in Oslo.", "I own a red bike."))
            assert result.facts_inserted == 2
            assert [one for one in result.warnings if "'dummy' failed: " in one and "resume()" in one]
            lag, reason = state(memory)["dummy"]
            assert lag
            assert reason is not None
            assert memory.indexes()[0].leaves == before
            assert [one for one in memory.search("Where?", index="dummy").warnings if reason in one]
            forest.resume("u")
            assert state(memory)["dummy"][0] == lag
            with pytest.raises(IndexStateError):
                memory.rebuild(index="dummy")
            check_whole(memory)
        forest.resume("u")
        assert state(memory)["dummy"] == (0, None)
        assert memory.indexes()[0].leaves == memory.list(limit=1).total
        check_whole(memory)


@pytest.mark.parametrize("mistake", [boom, wrong_sql])
def test_an_index_that_raises_when_something_goes(
    folder: Path, use: Use, monkeypatch: pytest.MonkeyPatch, mistake: Any
) -> None:
    """It is emptied, so that nothing stays in it of what went, and made anew by `resume`."""
    use(Dummy)
    with grown(folder, indexes=BOTH) as forest:
        memory = forest.user("u")
        with monkeypatch.context() as patch:
            patch.setattr(_Placing, "leave", mistake)
            result = forest.ingest_session("u", "s0", said("It rains."), replace=True)
            assert [one for one in result.warnings if "'dummy' failed" in one and "emptied" in one]
            assert result.replaced
            check_whole(memory)
        forest.resume("u")
        assert state(memory)["dummy"] == (0, None)
        assert memory.indexes()[0].leaves == memory.list(limit=1).total
        check_whole(memory)


def test_an_index_that_raises_behind_what_it_let_go(
    folder: Path, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has in memory of a session that went is lost with the transaction's end: it is emptied too."""
    use(Dummy)
    with grown(folder, indexes=BOTH) as forest:
        memory = forest.user("u")
        with monkeypatch.context() as patch:
            patch.setattr(_Placing, "close", boom)
            result = forest.ingest_session("u", "s0", said("It rains."), replace=True)
            assert [one for one in result.warnings if "'dummy' failed" in one and "emptied" in one]
        check_whole(memory)
        forest.resume("u")
        assert memory.indexes()[0].leaves == memory.list(limit=1).total
        check_whole(memory)


def late(self: Any, tx: Tx, snapshot: Any, request: Search) -> Found:
    """Raise when the first hit is asked for."""
    return Found(iter(boom, None))


def refused(self: Any, tx: Tx, snapshot: Any, request: Search) -> Found:
    """Read a table that there is not."""
    return Found(tx.execute("SELECT * FROM boom"))


@pytest.mark.parametrize("search", [boom, late, refused])
def test_an_index_that_raises_in_a_search(folder: Path, use: Use, search: Any) -> None:
    """The error names it; others are searched as ever."""
    use(type("Broken", (Dummy,), {"search": search}))
    with grown(folder, indexes=BOTH) as forest:
        memory = forest.user("u")
        with pytest.raises(IndexStateError):
            memory.search("Where?", index="dummy")
        with pytest.raises(IndexStateError, match="'dummy'"):
            memory.ask("Where?", index="dummy")
        check_whole(memory)


@pytest.mark.parametrize("error", [RuntimeError, KeyError, sqlite3.OperationalError])
def test_an_index_that_raises_in_its_check(folder: Path, use: Use, error: type[Exception]) -> None:
    """`verify` names it as a problem, and finds everything else; so do `stats` and `indexes` what they are told."""

    class Broken(Dummy):
        def check(self, tx: Tx) -> list[IndexProblem]:
            raise error("boom")

        def stats(self, tx: Tx) -> dict[str, Any]:
            raise error("boom")

        def notes(self, tx: Tx) -> list[str]:
            raise error("boom")

    use(Broken)
    with grown(folder, indexes=BOTH) as forest:
        memory = forest.user("u")
        report = memory.verify()
        assert [(one.index, "boom" in one.message) for one in report] == [("dummy", True)]
        assert [note for note in report.notes if "'dummy' failed" in note]
        dummy = memory.indexes()[0]
        assert (dummy.leaves, "boom" in str(dummy.reason)) == (memory.list(limit=1).total, True)
        assert memory.stats().indexes["dummy"]["trees"] == 1
        check_whole(memory, "dummy")


def test_an_index_whose_tables_cannot_be_made(folder: Path, use: Use) -> None:
    """It is not added, and nothing of it stays."""
    use(type("Broken", (Dummy,), {"tables": (*Dummy.tables, boom), "version": 2}))
    with grown(folder) as forest:
        memory = forest.user("u")
        with pytest.raises(IndexStateError):
            memory.add_index("dummy")
        assert list(state(memory)) == ["memforest"]
        assert rows(file_of(folder), "SELECT name FROM sqlite_master WHERE name LIKE '%dummy%'") == []
        check_whole(memory)


def test_an_index_that_raises_when_it_is_emptied(folder: Path, use: Use) -> None:
    """Its trees and the rows of its tables go all the same."""
    use(type("Broken", (Dummy,), {"clear": boom}))
    with grown(folder, indexes=BOTH) as forest:
        memory = forest.user("u")
        memory.rebuild(index="dummy")
        assert state(memory)["dummy"] == (0, None)
        check_whole(memory)


def test_what_an_index_has_left_is_found_and_taken_away(folder: Path, use: Use) -> None:
    """Trees and tables of an index that the memory does not have are a problem, and `repair` drops them."""
    use(Dummy)
    with grown(folder, indexes=BOTH) as forest:
        memory = forest.user("u")
        change(folder, "DELETE FROM index_ WHERE name = 'dummy'")
        told = ["'dummy' that the memory does not have" in one.message for one in memory.verify()]
        assert (told, all(told)) == ([True, True], True)  # its tree, its table
        report = memory.repair()
        assert report.ok
        assert "dropped what was left of the index 'dummy'" in report.did[0]
        assert rows(file_of(folder), "SELECT name FROM sqlite_master WHERE name LIKE '%dummy%'") == []
        memory.add_index("dummy")
        check_whole(memory)


def test_errors_of_the_file_are_not_taken_for_those_of_an_index(
    folder: Path, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full while an index places fails the write, as it does everywhere, and empties no index."""

    def full(*_: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    use(Dummy)
    with grown(folder, indexes=BOTH) as forest:
        memory = forest.user("u")
        with monkeypatch.context() as patch:
            patch.setattr(_Placing, "place", full)
            with pytest.raises(StoreWriteError, match="full"):
                memory.add("I moved to Porto yesterday.")
        assert state(memory) == {"dummy": (0, None), "memforest": (0, None)}
        forest.resume("u")
        assert memory.indexes()[0].leaves == memory.list(limit=1).total
        check_whole(memory)
