"""What is wrong with an index is an error or a warning that names it; the memory itself stays whole and searchable."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.dummy_index.index import Dummy, _Placing
from tests_long.worlds import dump, fast_config, file_of, make_sessions, rows, said

from memforest import ConfigError, InputError, MemForest, NotFoundError
from memforest.errors import StoreWriteError
from memforest.memory.blocking import UserMemory
from memforest.store import indexes
from memforest.trees import attached

BOTH = ("memforest", "dummy")


@pytest.fixture
def use() -> Iterator[Callable[[type[Any] | None], None]]:
    """A function that registers a dummy index for the time of a test; None takes it away again."""

    def register(index: type[Any] | None) -> None:
        attached.INDEXES.pop("dummy", None)
        if index is not None:
            attached.INDEXES[index.name] = index

    yield register
    attached.INDEXES.pop("dummy", None)


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


@pytest.mark.parametrize(
    ("verb", "args", "error", "says"),
    [
        pytest.param(
            "add_index", ("nosuch",), ConfigError, "'nosuch' is unknown; known: .*memforest", id="add"
        ),
        pytest.param(
            "drop_index", ("nosuch",), NotFoundError, "no index 'nosuch'; it has: memforest", id="drop"
        ),
        pytest.param("add_index", (None,), InputError, "give a text", id="add None"),
        pytest.param("drop_index", (7,), InputError, "give a text", id="drop a number"),
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


@pytest.mark.parametrize("verb", ["rebuild", "repair"])
@pytest.mark.parametrize(
    ("cursor", "says"), [(5, "is not kept any more"), (1_000_000, "there is not"), (-1, "there is not")]
)
def test_a_place_in_the_feed_that_is_lost(
    folder: Path, use: Use, monkeypatch: pytest.MonkeyPatch, caplog: Any, cursor: int, says: str, verb: str
) -> None:
    """A cursor behind a compacted feed, or beyond its end: queries, `resume` and `verify` name the index and what helps."""
    use(Dummy)
    monkeypatch.setattr(indexes, "COMPACTED", 8)
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
        memory.add("I moved to Porto yesterday.")
        forest.resume("u")
        assert memory.indexes()[0].leaves == memory.list(limit=1).total
        check_whole(memory)


def test_an_index_that_raises_fails_the_write(
    folder: Path, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole: nothing of it is stored, every index is as it was, and the next write goes on."""

    def boom(*_: Any) -> None:
        raise RuntimeError("boom")

    use(Dummy)
    with grown(folder, indexes=BOTH) as forest:
        memory = forest.user("u")
        before = memory.list().facts
        for step in ("leave", "place"):
            first = memory.sessions()[0].session_id
            with monkeypatch.context() as patch:
                patch.setattr(_Placing, step, boom)
                write: Callable[[], object] = partial(memory.delete, session_id=first)
                if step == "place":
                    write = partial(memory.add, "I moved to Porto yesterday.", infer=False)
                with pytest.raises(RuntimeError, match="boom"):
                    write()
            assert memory.list().facts == before
            assert state(memory) == {"dummy": (0, None), "memforest": (0, None)}
        forest.resume("u")
        memory.add("I moved to Porto yesterday.")
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
