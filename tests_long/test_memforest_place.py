"""Where facts stand: in the trees of those whom they name, nowhere else, and the index's cursor says that they do."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import differences, dump, fast_config, file_of, make_sessions, rows, said

from memforest import MemForest
from memforest.store import facts as fact_rows
from memforest.store import indexes
from memforest.store import trees as tree_rows
from memforest.store.database import Database
from memforest.store.trees import SqliteArena, placements
from memforest.trees.attached import Attached, Placings
from memforest.trees.node import insert

SAME = "Melanie lives in Oslo."
STANDS = """SELECT e.key, f.text FROM leaf l JOIN tree t ON t.id = l.tree AND t.owner = 'memforest' AND t.kind = 'entity'
    JOIN fact f ON f.id = l.fact JOIN entity e ON e.id = t.scope"""
BEHIND = """SELECT i.name, (SELECT seq FROM sqlite_sequence WHERE name = 'feed') - i.cursor FROM index_ i"""


def alter(path: Path, *statements: str) -> None:
    """Change a file behind memforest's back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        for statement in statements:
            conn.execute(statement)


@pytest.mark.parametrize("embedder", ["hash", "none"])
def test_a_replaced_session_leaves_nothing_in_the_old_speakers_tree(folder: Path, embedder: str) -> None:
    """A fact that two have said stays with the other one, and goes from the tree of who says something else now."""
    config = fast_config() if embedder == "hash" else fast_config(embedder="none")
    with MemForest(folder, config) as forest:
        forest.ingest_session("u", "a", said(SAME, speaker="Ana"))
        forest.ingest_session("u", "b", said(SAME, speaker="Bob"))
        forest.ingest_session("u", "c", said("I sold a tent.", speaker="Ana"))
        assert set(rows(file_of(folder), STANDS)) >= {("ana", SAME), ("bob", SAME)}
        forest.ingest_session("u", "a", said("I paint houses.", speaker="Ana"), replace=True)
        assert [who for who, text in rows(file_of(folder), STANDS) if text == SAME] == ["bob"]
        assert forest.user("u").verify().ok


def test_verify_finds_a_leaf_too_many(folder: Path) -> None:
    """A fact that stands in the tree of somebody whom it does not name is a problem of that index, which `repair` mends."""
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("u", "a", said("I paint houses.", speaker="Ana"))
        forest.ingest_session("u", "b", said(SAME, speaker="Bob"))
        before = dump(file_of(folder))
        db = Database(file_of(folder))
        with db.write() as tx:
            ana = next(entity.row for entity in fact_rows.entities(tx) if entity.key == "ana")
            fact = next(one for one in fact_rows.iter_facts(tx) if one.text == SAME)
            head, arena = tree_rows.find_head(tx, "memforest", "entity", ana), SqliteArena(tx)
            assert head is not None
            start, end = fact.leaf_span
            head, _ = insert(
                arena,
                head,
                key=fact.leaf_key,
                start_ms=start,
                end_ms=end,
                item_kind="fact",
                item=fact.row,
            )
            tree_rows.put_head(tx, "memforest", "entity", ana, head)
            arena.flush()
        db.close()
        user = forest.user("u")
        (problem,) = user.verify().problems
        assert (problem.part, problem.index) == ("placement", "memforest")
        assert f"fact {fact.row} has a leaf in the tree of entity {ana}" in problem.message
        assert user.repair().ok
    assert differences(before, dump(file_of(folder))) == {}


def test_every_write_places_what_it_writes_and_moves_the_cursor(folder: Path) -> None:
    """After sessions, single turns, replacements and vectors that come later, no index lags and nothing lacks a leaf."""

    def placed() -> None:
        assert {lag for _, lag in rows(file_of(folder), BEHIND)} == {0}
        assert rows(file_of(folder), STANDS)
        assert forest.user("u").verify().problems == ()

    with MemForest(folder, fast_config(embedder="none")) as forest:
        for name, turns in make_sessions(5, sessions=3):
            forest.ingest_session("u", name, turns)
            placed()
    with MemForest(folder, fast_config()) as forest:
        forest.resume("u")
        placed()
        forest.user("u").add("I live in Oslo now.", session_id="live")
        placed()
        forest.ingest_session("u", "s1", said("All is new."), replace=True)
        placed()


def test_placing_and_moving_are_one_transaction(path: Path) -> None:
    """When the indexes have placed what a transaction wrote, their cursors stand behind it, before anything is committed."""
    db, attached = Database(path), Attached(fast_config())
    with db.write() as tx:
        placings, before = Placings(tx, attached), indexes.feed_position(tx)
        (fact, *_) = sorted(row.row for row in fact_rows.iter_facts(tx))
        leaves = placements(tx, "memforest", "fact", fact)
        placings.leave("fact", (fact,))
        assert leaves
        assert placements(tx, "memforest", "fact", fact) == []
        tx.execute("UPDATE fact SET said_ms = said_ms + 1 WHERE id = ?", (fact,))
        placings.close()
        assert [tree for tree, _ in placements(tx, "memforest", "fact", fact)] == [tree for tree, _ in leaves]
        assert indexes.feed_position(tx) > before
        assert {row.name: row.cursor for row in indexes.rows(tx)} == {"memforest": indexes.feed_position(tx)}
    db.close()


@pytest.fixture
def path(folder: Path) -> Path:
    """The file of a memory with a few sessions."""
    with MemForest(folder, fast_config()) as forest:
        for name, turns in make_sessions(7, sessions=5, most_turns=12):
            forest.ingest_session("u", name, turns)
        forest.user("u").flush()
    return file_of(folder)


@pytest.mark.timeout(30)
def test_a_cursor_behind_what_is_placed_costs_nothing_but_placing_again(path: Path) -> None:
    """A write that placed and did not move the cursor: `resume` places the same again, which changes no leaf."""
    before, leaves = dump(path), rows(path, "SELECT * FROM leaf")
    alter(path, "UPDATE index_ SET cursor = 1")
    with MemForest(path.parent, fast_config()) as forest:
        assert forest.user("u").verify().ok
        forest.resume("u")
        assert forest.user("u").verify().ok
    assert differences(before, dump(path)) == {}
    assert rows(path, "SELECT * FROM leaf") == leaves
    assert rows(path, BEHIND) == [("memforest", 0)]


@pytest.mark.timeout(30)
@pytest.mark.parametrize("moved", [True, False])
def test_a_cursor_past_what_is_not_placed_is_found(path: Path, moved: bool) -> None:
    """Where the cursor says that items are placed and they are not, `verify` names them; where it does not, they are to come."""
    before = dump(path)
    for table in ("derived_node_vector", "leaf", "node", "tree", "ix_memforest_active"):
        alter(path, "PRAGMA foreign_keys = on", f"DELETE FROM {table}")
    alter(path, "DELETE FROM ix_memforest_scene_member", "DELETE FROM ix_memforest_scene")
    if not moved:
        alter(path, "UPDATE index_ SET cursor = 0")
    with MemForest(path.parent, fast_config()) as forest:
        user = forest.user("u")
        problems = user.verify().problems
        assert {(one.part, one.index) for one in problems} == (
            {("placement", "memforest"), ("scene", "memforest")} if moved else set()
        )
        if moved:
            assert user.repair().ok
        else:
            forest.resume("u")
        assert user.verify().problems == ()
    assert differences(before, dump(path)) == {}
    assert rows(path, BEHIND) == [("memforest", 0)]
