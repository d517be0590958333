"""What an index is told inside a write transaction and when it catches up, and what becomes of one that raises."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.told import ATTACHED, Told, added, opened, row_of, turn, verbs
from tests_long.worlds import fast_config, file_of, said

from memforest import MemForest
from memforest.store import facts as fact_rows
from memforest.store import indexes
from memforest.store.database import Database
from memforest.trees import attached
from memforest.trees import index as base
from memforest.trees.attached import Attached, Placings
from memforest.trees.index import Placed, place_next


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with one session and the memforest index."""
    folder = tmp_path_factory.mktemp("grown")
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("u", "s", said("I live in Oslo.", "I own a red bike.", "It rains."))
    return file_of(folder)


@pytest.fixture
def db(grown: Path, folder: Path) -> Iterator[Database]:
    """A copy of that file, opened; the index `told` is known."""
    with opened(Path(shutil.copy(grown, folder))) as made:
        yield made


def test_an_index_places_what_it_follows_and_nothing_else(db: Database) -> None:
    """In the order in which it was noted, in one call, closed at the end; the cursor is at the end of the feed."""
    with db.write() as tx:
        added(tx)
        placings = Placings(tx, ATTACHED)
        new = turn(tx)
        tx.execute("UPDATE entity SET kind = 'other'")  # noted, and not followed
        for fact in (2, 1, 2):
            tx.execute("UPDATE fact SET text = text || '!' WHERE id = ?", (fact,))
        done = placings.close()
        assert Told.log == [("begin", 2), ("place", {"turn": (new,), "fact": (1, 2)}), ("close", None)]
        assert (done.nodes, 3 in done.trees) == (7, True)
        assert row_of(tx).cursor == indexes.feed_position(tx) == row_of(tx, "memforest").cursor


def test_an_index_that_nothing_concerns_is_not_begun_and_keeps_up(db: Database) -> None:
    """One that follows nothing, and one that follows other kinds, stand at the end of the feed all the same."""
    with db.write() as tx:
        added(tx)
        added(tx, "flat")
        placings = Placings(tx, ATTACHED)
        tx.execute("UPDATE entity SET kind = 'other'")
        placings.close()
        assert verbs() == []
        assert {row_of(tx, name).cursor for name in ("told", "flat", "memforest")} == {
            indexes.feed_position(tx)
        }


def test_what_goes_is_announced_while_it_is_stored(db: Database) -> None:
    """To those who follow its kind, before it goes, within one placing that is closed once."""
    with db.write() as tx:
        added(tx)
        new = turn(tx)
        indexes.move(tx, "told", indexes.feed_position(tx))
        placings = Placings(tx, ATTACHED)
        placings.leave("turn", [new])
        placings.leave("chunk", [1])  # it does not follow chunks
        placings.leave("fact", [])  # nothing goes
        tx.execute("DELETE FROM turn WHERE id = ?", (new,))
        placings.close()
        assert Told.log == [
            ("begin", 2), ("leave", {"turn": ((new,), True)}), ("place", {"turn": (new,)}), ("close", None)
        ]  # fmt: skip


@pytest.mark.parametrize("why", ["behind", "deferred"])
def test_an_index_that_is_behind_is_told_only_what_goes(db: Database, why: str) -> None:
    """It places nothing out of turn, and its cursor stays where it is."""
    kind = type("Later", (Told,), {"deferred": True}) if why == "deferred" else Told
    attached.INDEXES.pop("told", None)
    attached.INDEXES["told"] = kind
    ATTACHED._made.clear()
    with db.write() as tx:
        added(tx, current=why == "deferred")
        cursor = row_of(tx).cursor
        first = Placings(tx, ATTACHED)
        new = turn(tx)
        assert first.close() == Placed()
        assert verbs() == []
        second = Placings(tx, ATTACHED)
        second.leave("turn", [new])
        second.close()
        assert verbs() == ["begin", "leave", "close"]
        assert row_of(tx).cursor == cursor < indexes.feed_position(tx)


def test_a_write_empties_an_index_beyond_the_feed(db: Database) -> None:
    """One note too far is enough; at the very end it stays as it is."""
    with db.write() as tx:
        added(tx)
        end = indexes.feed_position(tx)
        Placings(tx, ATTACHED)
        assert row_of(tx).cursor == end
        indexes.move(tx, "told", end + 1)
        Placings(tx, ATTACHED)
        assert f"stood at note {end + 1} of the feed, which there is not" in str(row_of(tx).reason)
        assert row_of(tx).cursor == 0


def test_an_index_catches_up_in_steps(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some notes a transaction, each once and up to the number asked for; then, and once dropped, there is nothing to do."""
    monkeypatch.setattr(base, "STEP", 2)
    with db.write() as tx:
        tx.execute("DELETE FROM feed")
        added(tx)
        start, new = indexes.feed_position(tx), [turn(tx) for _ in range(5)]
        index, until = ATTACHED.get(tx, "told"), start + 4
        assert [place_next(tx, index, until) for _ in range(3)] == [True, False, False]
        assert [what for verb, what in Told.log if verb == "place"] == [
            {"turn": tuple(new[:2])}, {"turn": tuple(new[2:4])}
        ]  # fmt: skip
        assert row_of(tx).cursor == until
        Attached.drop(tx, "told")
        assert not place_next(tx, index, until + 1)


def test_notes_that_concern_nobody_are_passed(db: Database) -> None:
    """The cursor moves over notes of other kinds, and the placing is closed without them."""
    with db.write() as tx:
        added(tx)
        tx.execute("UPDATE entity SET kind = 'other'")
        assert not place_next(tx, ATTACHED.get(tx, "told"), indexes.feed_position(tx))
        assert verbs() == ["begin", "close"]
        assert row_of(tx).cursor == indexes.feed_position(tx)


def test_facts_are_placed_as_they_are_written(folder: Path) -> None:
    """Through the whole write path: each turn and fact of a session once, and again what a longer one adds."""
    Told.log, Told.fails = [], set()
    attached.INDEXES[Told.name] = Told
    try:
        with MemForest(folder, fast_config(indexes=("flat", "told"))) as forest:
            turns = said("I live in Oslo.", "I own a red bike.", "Bob adopted two cats.")
            forest.ingest_session("u", "s", turns[:2])
            forest.ingest_session("u", "s", turns)
            forest.ingest_session("u", "s", turns)
            db = Database(file_of(folder))
            with db.read() as tx:
                stored = {"turn": {1, 2, 3}, "fact": {fact.row for fact in fact_rows.iter_facts(tx)}}
                seen = tx.execute("SELECT kind, item FROM ix_told_seen").fetchall()
            db.close()
            assert {kind: {item for k, item in seen if k == kind} for kind in stored} == stored
            turns_seen = [item for kind, item in seen if kind == "turn"]
            assert sorted(turns_seen) == [1, 2, 3]
    finally:
        attached.INDEXES.pop("told", None)
