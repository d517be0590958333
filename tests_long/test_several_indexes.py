"""Two indexes with trees in one memory: each has its own, and neither notices the other."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.hand_made import DAY, Fact, Said, Tree, forests_read, hand_made, planted, searching
from tests_long.shelf import NAME, ShelfIndex
from tests_long.worlds import fast_config, file_of, make_sessions, rows

from memforest import Config, MemForest
from memforest.read.evidence import make_evidence
from memforest.read.results import QueryResult
from memforest.search.cache import (
    SnapshotCache,
    advance,
    carry_forests,
    embedded_forest,
    forest_bytes,
    forest_of,
)
from memforest.search.forest import CHUNK, FACT, TURNS, Forest, once_per_forest
from memforest.search.snapshot import load_snapshot
from memforest.store.database import Database
from memforest.store.derived import vectors_of_leaf
from memforest.store.evidence import turn_texts
from memforest.store.meta import bump, change_position, changes_since
from memforest.store.trees import leaf_texts, nodes_with_ids
from memforest.trees import attached
from memforest.trees.attached import Attached

QUESTIONS = ("Where does Ana live?", "Who works at Acme?", "What did Bob buy before he moved to Oslo?")
ROWS = {
    table: f"SELECT * FROM {table} x WHERE x.tree IN (SELECT id FROM tree WHERE owner = '{{}}') ORDER BY id"
    for table in ("node", "leaf")
}


@pytest.fixture(autouse=True)
def shelf() -> Iterator[None]:
    """The index of the tests is known."""
    attached.INDEXES[ShelfIndex.name] = ShelfIndex
    yield
    attached.INDEXES.pop(NAME, None)


def both(**more: Any) -> Config:
    """Return the configuration of a memory with both indexes."""
    return fast_config(indexes=("memforest", NAME), **more)


def talked(forest: MemForest, seed: int = 5) -> MemForest:
    """Say something, overwrite some of it, add a turn, and wait for the summaries."""
    for session_id, turns in make_sessions(seed, sessions=8, most_turns=12):
        forest.ingest_session("u", session_id, turns)
    forest.ingest_session("u", "s1", make_sessions(seed + 1, sessions=1)[0][1], replace=True)
    forest.user("u").add("I live in Oslo now.", session_id="live")
    forest.flush()
    return forest


def shown(found: QueryResult) -> list[tuple[str, float, tuple[str, ...]]]:
    """Return evidence as what must not change."""
    return [(one.text, one.score, one.path) for one in found.evidence]


def owned(folder: Path, owner: str) -> dict[str, list[Any]]:
    """Return the rows of an index's trees."""
    return {table: list(rows(file_of(folder), sql.format(owner))) for table, sql in ROWS.items()}


def test_another_index_changes_no_ranking_and_goes_without_a_trace(folder: Path) -> None:
    """Rankings, paths, trees and node counts of the forest are those of a memory without the other index."""
    with (
        talked(MemForest(folder / "one", fast_config())) as one,
        talked(MemForest(folder / "two", both())) as two,
    ):
        for question in QUESTIONS:
            assert shown(two.query("u", question, top_k=30)) == shown(one.query("u", question, top_k=30))
        alone, together = one.user("u").stats(), two.user("u").stats()
        assert together.trees["memforest"] == alone.trees["memforest"]
        assert set(together.trees[NAME]) == {"session", "month"}
        assert two.user("u").verify().problems == ()
        for question in QUESTIONS:
            assert two.query("u", question, index=NAME, top_k=30).evidence
    db = Database(file_of(folder / "two"))
    with db.write() as tx:
        Attached(both()).drop(tx, NAME)
    db.close()
    assert owned(folder / "two", NAME) == {"node": [], "leaf": []}
    (left,) = rows(
        file_of(folder / "two"), "SELECT count(*) FROM leaf WHERE tree NOT IN (SELECT id FROM tree)"
    )
    assert left[0] == 0
    assert [row[0] for row in rows(file_of(folder / "two"), "SELECT name FROM index_")] == ["memforest"]


def test_leaves_of_every_kind_are_found_and_shown(folder: Path) -> None:
    """A turn is shown with the path to the chunk, run or fact that it was found at; `tree` shows what leaves say."""
    with talked(MemForest(folder, both())) as forest:
        user = forest.user("u")
        found = forest.query("u", "Where does Ana live?", index=NAME, top_k=100)
        assert {one.path[0].split(" ")[0] for one in found.evidence} == {"session", "month"}
        lengths = {len(one.path) for one in found.evidence}
        assert lengths == {3, 4}  # scope, then each level down to the leaf
        said = {turn for one in found.evidence for turn in one.text.split("\n")}
        views = [view for view in user.tree(depth=3) if view.index == NAME]
        assert all(view.title.endswith(f"({NAME})") for view in views)
        leaves = [leaf for view in views for leaf in _leaves(view)]
        assert all(leaf.summary for leaf in leaves)
        assert any(turn in leaf.summary for leaf in leaves for turn in said)
    with _reading(folder) as (tx, snapshot):
        assert set(forest_of(tx, snapshot, NAME).kind.tolist()) == {0, CHUNK, FACT, TURNS}


def test_a_search_without_trees_reads_none(folder: Path) -> None:
    """A flat query has no forest read, and a query of one index only that one; each counts in the cache's bytes."""
    talked(MemForest(folder, both())).close()
    db, cache = Database(file_of(folder)), SnapshotCache()
    index, request = attached.make_index("flat"), replace(searching(), vector=None)
    with db.read() as tx:
        snapshot = cache.get(tx)
        hits = list(index.search(tx, snapshot, request).hits)[:3]
        assert make_evidence(tx, snapshot, index, hits)
        assert forests_read(snapshot) == frozenset()
        before = cache.nbytes
        forest_of(tx, snapshot, NAME)
        assert forests_read(snapshot) == {NAME}
        assert cache.nbytes == before + forest_bytes(snapshot) > before
    db.close()


def test_arrays_have_what_is_stored(folder: Path) -> None:
    """Intervals, spans, levels, windows, states and items in a forest are those of the rows, leaf by leaf."""
    talked(MemForest(folder, both())).close()
    with _reading(folder) as (tx, snapshot):
        for owner in ("memforest", NAME):
            forest = forest_of(tx, snapshot, owner)
            stored = nodes_with_ids(tx, forest.ids.tolist())
            assert len(stored) == len(forest.ids) > 0
            start, end = forest.intervals
            for row, node in enumerate(stored[int(id_)] for id_ in forest.ids):
                assert (start[row], end[row], forest.level[row]) == (node.start_ms, node.end_ms, node.level)
                assert [int(forest.ids[kid]) for kid in forest.children[row]] == list(node.children)
            for at, row in enumerate(forest.inner.tolist()):
                node, inner = stored[int(forest.ids[row])], forest.stored
                assert (inner.span_lo[at], inner.span_hi[at]) == (node.span or (-1, -1))
                assert inner.window[at] == node.window
        assert {node.level for node in stored.values()} == {0, 2, 3, 7}
        assert any(node.window for node in stored.values())
        assert any(node.state for node in stored.values())


def test_what_another_index_writes_leaves_a_forest_as_it_is(folder: Path) -> None:
    """The arrays, and what was computed on them, are the very same; its own next write is seen."""
    talked(MemForest(folder, both())).close()
    made: list[str] = []

    @once_per_forest
    def count(forest: Forest) -> int:
        made.append(forest.owner)
        return len(made)

    db = Database(file_of(folder))
    with db.read() as tx:
        first = load_snapshot(tx)
        kept = {owner: embedded_forest(tx, first, owner) for owner in ("memforest", NAME)}
        count(kept["memforest"].forest)
    with db.write() as tx:
        tx.execute(f"UPDATE node SET window = 'x' WHERE tree IN (SELECT id FROM tree WHERE owner = '{NAME}')")
        tx.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")
    with db.read() as tx:
        second = advance(tx, first)
        assert second is not None
        assert (second.turns, second.facts) == (first.turns, first.facts)
        carry_forests(first, second)
        assert forests_read(second) == frozenset()
        own = embedded_forest(tx, second, "memforest")
        assert own.forest is kept["memforest"].forest
        assert own.vectors is kept["memforest"].vectors
        count(own.forest)
        assert made == ["memforest"]
        assert set(forest_of(tx, second, NAME).stored.window) == {"x"}
        assert forest_of(tx, second, NAME) is forest_of(tx, second, NAME)
        with pytest.raises(ValueError, match="snapshot's state"):
            forest_of(tx, first, "other")
    db.close()


def test_a_forest_follows_what_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a write neither the forest nor its vectors are read as a whole again."""
    cache = SnapshotCache()
    with talked(MemForest(folder, both())) as forest:
        db = Database(file_of(folder))
        for step in range(2):
            with db.read() as tx:
                found = [embedded_forest(tx, cache.get(tx), owner) for owner in ("memforest", NAME)]
            for part in ("load_forest", "load_vectors"):
                monkeypatch.setattr(f"memforest.search.cache.{part}", None)
            forest.user("u").add(f"I bought a red car number {step}.", session_id="live")
        assert [one.forest.owner for one in found] == ["memforest", NAME]
        db.close()


def test_the_log_of_changes_reaches_as_far_as_with_one_index(folder: Path) -> None:
    """Every index writes nodes of its own, so that each has its share of what is kept."""
    talked(MemForest(folder, both())).close()
    db = Database(file_of(folder))
    with db.write() as tx:
        bump(tx, 10)
        assert change_position(tx) - tx.execute("SELECT min(seq) FROM change").fetchone()[0] < 20
        assert changes_since(tx, change_position(tx) - 20) is not None
    db.close()


def test_a_run_of_turns_has_their_texts_and_vectors(folder: Path) -> None:
    """A leaf of a run says its turns, a line each, and its vectors are theirs."""
    talked(MemForest(folder, both())).close()
    with _reading(folder) as (tx, snapshot):
        forest = forest_of(tx, snapshot, NAME)
        runs = np.flatnonzero((forest.kind == TURNS) & (forest.item_end - forest.item == 2))
        leaf, item = int(forest.ids[runs[0]]), int(forest.item[runs[0]])
        turns = turn_texts(tx, snapshot.turns.ids[item : item + 2].tolist())
        lines = [
            f"{turns[int(id_)].speaker}: {turns[int(id_)].text}"
            for id_ in snapshot.turns.ids[item : item + 2]
        ]
        assert leaf_texts(tx, nodes_with_ids(tx, [leaf]).values()) == {leaf: "\n".join(lines)}
        vectors = np.array(vectors_of_leaf(tx, leaf))
        assert np.array_equal(vectors, snapshot.turns.vectors[np.arange(item, item + 2)])


@pytest.mark.parametrize(
    "children", ["'AAAA'", "(SELECT children FROM node WHERE id = (SELECT min(id) FROM node))"]
)
def test_a_child_that_is_missing_or_another_nodes_is_refused(folder: Path, children: str) -> None:
    """A search follows children without looking, so what is no tree does not get into the arrays."""
    talked(MemForest(folder, fast_config())).close()
    sql = f"UPDATE node SET children = CAST({children} AS BLOB) WHERE id = (SELECT max(id) FROM node)"
    for _ in rows(file_of(folder), sql):
        pass
    with _reading(folder) as (tx, snapshot), pytest.raises(ValueError, match="missing, or is another's"):
        forest_of(tx, snapshot, "memforest")


DAMAGE = {
    "a gap in a span": "UPDATE node SET span_lo = span_lo + 1 WHERE id = (SELECT max(n.id) FROM node n JOIN tree t ON t.id = n.tree WHERE t.owner = '{}' AND n.level = 7)",
    "a leaf of nothing": "UPDATE leaf SET fact = NULL, chunk = NULL, turn = NULL WHERE id = (SELECT max(l.id) FROM leaf l JOIN tree t ON t.id = l.tree WHERE t.owner = '{}')",
    "a node of no tree": "UPDATE node SET children = x'' WHERE id = (SELECT max(n.id) FROM node n JOIN tree t ON t.id = n.tree WHERE t.owner = '{}')",
    "a level of a leaf": "UPDATE node SET level = 0 WHERE id = (SELECT max(n.id) FROM node n JOIN tree t ON t.id = n.tree WHERE t.owner = '{}')",
    "a lost root": "UPDATE tree SET root = NULL WHERE id = (SELECT max(id) FROM tree WHERE owner = '{}')",
    "a wrong count": "UPDATE tree SET count = count + 1 WHERE id = (SELECT max(id) FROM tree WHERE owner = '{}')",
}


@pytest.mark.parametrize(
    ("damage", "owner", "other"),
    [
        *((damage, NAME, "memforest") for damage in DAMAGE),
        *((damage, "memforest", NAME) for damage in DAMAGE if "span" not in damage),
    ],
)
def test_repair_makes_the_broken_index_anew_and_no_other(
    folder: Path, damage: str, owner: str, other: str
) -> None:
    """`verify` names the index; afterwards the other one has the same rows, ids and all."""
    talked(MemForest(folder, both())).close()
    before = owned(folder, other)
    for _ in rows(file_of(folder), DAMAGE[damage].format(owner)):
        pass
    with MemForest(folder, both()) as forest:
        user = forest.user("u")
        problems = user.verify().problems
        assert {problem.index for problem in problems} == {owner}
        user.repair()
        assert user.verify().problems == ()
        assert user.stats().trees[owner]
    assert owned(folder, other) == before


def test_trees_of_an_index_that_there_is_not_are_named_and_dropped(folder: Path) -> None:
    """They are of nobody, so that nobody would make them anew."""
    talked(MemForest(folder, both())).close()
    before = owned(folder, "memforest")
    for _ in rows(file_of(folder), f"DELETE FROM index_ WHERE name = '{NAME}'"):
        pass
    with MemForest(folder, fast_config()) as forest:
        problems = forest.user("u").verify().problems
        assert {problem.index for problem in problems} == {NAME}
        forest.user("u").repair()
        assert forest.user("u").verify().problems == ()
    assert owned(folder, NAME) == {"node": [], "leaf": []}
    assert owned(folder, "memforest") == before


def test_a_broken_forest_stops_its_own_index_alone(folder: Path) -> None:
    """A query of the other index goes on."""
    talked(MemForest(folder, both())).close()
    for _ in rows(file_of(folder), DAMAGE["a leaf of nothing"].format(NAME)):
        pass
    with MemForest(folder, both()) as forest:
        assert forest.query("u", QUESTIONS[0]).evidence
    with _reading(folder) as (tx, snapshot), pytest.raises(ValueError, match=NAME):
        forest_of(tx, snapshot, NAME)


def _leaves(view: Any) -> Iterator[Any]:
    if view.level == 0:
        yield view
    for child in view.children:
        yield from _leaves(child)


class _reading:
    """A read transaction with the snapshot of its state."""

    def __init__(self, folder: Path) -> None:
        self._db = Database(file_of(folder))
        self._read = self._db.read()

    def __enter__(self) -> Any:
        tx = self._read.__enter__()
        return tx, load_snapshot(tx)

    def __exit__(self, *exc: Any) -> None:
        self._read.__exit__(None, None, None)
        self._db.close()


def test_a_leaf_starts_and_ends_when_its_item_does() -> None:
    """Also a fact that ends where it begins, or before; see `memforest.store.trees`."""
    facts = [Fact((0,)), Fact((0,), start=3, end=5), Fact((0,), start=4, end=4), Fact((0,), start=6)]
    tree = Tree("entity", 1, tuple(("fact", at) for at in range(4)))
    start, end = planted(hand_made([Said("Ana", 2)], facts, [tree])).forest.intervals
    assert (start[:4] / DAY).tolist() == [2, 3, 4, 6]
    assert (end[:4] - start[:4]).tolist() == [1, 2 * DAY, 1, 1]
    assert np.all(end[4:] <= 0)  # nothing is stored of the inner node here
