"""What snapshots and forests are made of: short lists, codes, intervals, and what is computed on them once."""

from __future__ import annotations

import gc
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.table import each
from tests_long.arrays import assert_equal, assert_same, contents
from tests_long.hand_made import Fact, Said, Tree, hand_made, planted, put_forest
from tests_long.stored import chunk_of, empty_memory, leaf, plant, put_fact, put_session, say, value

from memforest.nodes import Node
from memforest.search.cache import (
    SnapshotCache,
    carry_forests,
    embedded_forest,
    forest_bytes,
    forest_of,
)
from memforest.search.forest import CHUNK, FACT, INNER, NONE, TURNS, Forest, once_per_forest
from memforest.search.lexical import bm25, read_postings
from memforest.search.snapshot import (
    OPEN,
    Delta,
    Lists,
    Snapshot,
    as_array,
    by_appearance,
    carry_over,
    count_bytes,
    dated_turns,
    load_snapshot,
    once_per_snapshot,
    ranges,
    share_all,
)
from memforest.search.vectors import VectorTable
from memforest.store import derived, meta, trees
from memforest.store.connections import Connection
from memforest.store.database import Database, ensure_schema
from memforest.store.trees import SqliteArena, put_head


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(-5, 5), max_size=4), max_size=8))
def test_short_lists_come_back_one_by_one(lists: list[list[int]]) -> None:
    """Empty ones in between too; with their lengths and whose each value is."""
    made = Lists.of(lists)
    assert [made[row] for row in range(len(made))] == [tuple(one) for one in lists]
    assert made.counts.tolist() == [len(one) for one in lists]
    assert made.owners.tolist() == [row for row, one in enumerate(lists) for _ in one]
    assert made.nbytes == 8 * (len(lists) + sum(map(len, lists)))


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), max_size=8))
def test_ranges_stand_one_behind_the_other(pairs: list[tuple[int, int]]) -> None:
    """Empty ones take no room."""
    starts, ends = as_array([start for start, _ in pairs]), as_array([start + n for start, n in pairs])
    assert ranges(starts, ends).tolist() == [i for start, n in pairs for i in range(start, start + n)]


@settings(max_examples=30)
@given(st.lists(st.sampled_from("abcde"), max_size=12), st.permutations("abcde"))
def test_codes_are_numbered_by_who_appears_first(said: list[str], names: list[str]) -> None:
    """Whatever the codes were before; names that do not appear are left out."""
    codes, found = by_appearance(as_array([names.index(one) for one in said]), names)
    assert found == tuple(dict.fromkeys(said))
    assert [found[code] for code in codes.tolist()] == said


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=8), st.tuples(*[st.booleans()] * 3))
def test_a_turn_is_dated_when_it_supports_a_fact_that_states_a_time(
    pairs: list[tuple[int, int]], stated: tuple[bool, ...]
) -> None:
    """One of several is enough."""
    found = dated_turns(5, np.array(pairs, dtype=np.int64).reshape(-1, 2), np.array(stated))
    assert found.tolist() == [any(stated[fact] for fact, of in pairs if of == turn) for turn in range(5)]


def small() -> Snapshot:
    """Return a snapshot of four turns and three facts; ids are 101 and 201 onwards."""
    turns = [Said("Ana", 1), Said("Bob", 1.5), Said("Ana", 2, session=2), Said("Cleo", 9, session=2)]
    return hand_made(turns, [Fact((0, 1)), Fact((2,), start=3, end=5), Fact((1, 3), start=4)])


def test_rows_are_found_by_id() -> None:
    """Of facts in the order in which they are asked for, without those that are not there."""
    snapshot = small()
    assert snapshot.rows_of_facts([203, 200, 201, 204, 201, 999]) == (2, 0, 0)
    assert snapshot.rows_of_facts([]) == ()
    assert snapshot.turn_row == {101: 0, 102: 1, 103: 2, 104: 3}
    assert snapshot.fact_row == {201: 0, 202: 1, 203: 2}
    assert [snapshot.turns_of_fact[row] for row in range(3)] == [(0, 1), (2,), (1, 3)]


def test_what_is_computed_once_is_carried_or_made_anew() -> None:
    """Carried where something was said, shared where nothing was, made anew where neither can be."""
    made: list[str] = []
    plain = once_per_snapshot(lambda snapshot: made.append("plain") or len(made))  # type: ignore[func-returns-value]
    carried = once_per_snapshot(lambda _: ["made"], lambda _, delta, old: [*old, str(len(delta.turns))])
    old, new, same = small(), small(), small()
    assert (plain(old), plain(old), carried(old)) == (1, 1, ["made"])
    nothing = np.zeros(0, dtype=np.int64)
    carry_over(old, new, Delta(nothing, np.arange(4), nothing, frozenset()))
    share_all(old, same)
    assert (carried(new), carried(same)) == (["made", "4"], ["made"])
    assert carried(same) is carried(old)
    assert (plain(same), plain(new)) == (1, 2)
    unasked = small()
    carry_over(small(), unasked, Delta(nothing, nothing, nothing, frozenset()))
    assert carried(unasked) == ["made"]


def test_large_results_count_as_bytes_of_the_snapshot() -> None:
    """Those of one that differs in nothing too, until it is gone."""
    old, new = small(), small()
    before = old.nbytes
    count_bytes(old, 500)
    count_bytes(old, 70)
    share_all(old, new)
    assert (old.nbytes, new.nbytes) == (before + 570, before + 570)
    assert small().nbytes == before


def test_a_memory_of_nothing_is_a_snapshot_of_nothing(tx: Connection) -> None:
    """And so are its forests, its words and what is asked of them."""
    snapshot = load_snapshot(tx)
    assert (snapshot.dimension, snapshot.speakers, snapshot.states, snapshot.sessions) == (0, (), (), ())
    assert (len(snapshot.turns.ids), len(snapshot.facts.ids), len(snapshot.mentions)) == (0, 0, 0)
    found = embedded_forest(tx, snapshot, "ix")
    assert (len(found.forest.ids), found.forest.roots.tolist(), len(found.vectors)) == (0, [], 0)
    assert bm25(tx, snapshot, "turn", ["a"]).tolist() == []
    postings = read_postings(tx, "turn")
    assert (len(postings.items), len(postings.counts), postings.terms) == (0, 0, {})


def test_columns_are_what_was_stored(tx: Connection) -> None:
    """Turns by their session's time, facts by id, each with its length and its vector, or zeros."""
    _, late = put_session(tx, "late", ["So?", "Yes? No."], at_ms=900)
    _, early = put_session(tx, "early", ["Hi.", "\u061f"], at_ms=100)
    facts_ = [put_fact(tx, "f1", said_ms=900, tie="a"), put_fact(tx, "f0f", start_ms=-7, end_ms=3, said_ms=1, tie="b"),
              put_fact(tx, "a" * 20, start_ms=5, tie="c")]  # fmt: skip
    say(tx, facts_[1], late[1], late[0])
    say(tx, facts_[0], early[0])
    for item, tokens in ((late[0], ["so"]), (early[0], ["a", "b", "a"])):
        derived.put_words(tx, "turn", item, tokens)
    derived.put_vectors(tx, "turn", [(late[1], b"d", np.array([0, 1], dtype=np.float32))])
    found = load_snapshot(tx)
    turns, facts = found.turns, found.facts
    assert turns.ids.tolist() == [*early, *late]
    assert turns.length.tolist() == [3, 0, 1, 0]
    assert turns.asks.tolist() == [False, True, True, True]
    assert turns.asks_last.tolist() == [False, True, True, False]
    assert (turns.previous.tolist(), turns.following.tolist()) == ([-1, 0, -1, 2], [1, -1, 3, -1])
    assert turns.dated.tolist() == [False, False, True, True]
    assert turns.vectors.rows.tolist() == [[0, 0]] * 3 + [[0, 1]]
    assert (facts.start_ms.tolist(), facts.end_ms.tolist()) == ([900, -7, 5], [OPEN, 3, OPEN])
    assert (facts.stated.tolist(), facts.said_ms.tolist()) == ([False, True, True], [900, 1, 0])
    assert facts.key.tolist() == [0xF1, 0xF0F, int("a" * 15, 16)]
    assert facts.pairs.tolist() == [[0, 0], [1, 2], [1, 3]]


@pytest.fixture
def db(folder: Path) -> Any:
    """A file with one session."""
    with closing(Database(folder / "m.db")) as made:
        ensure_schema(made)
        with made.write() as tx:
            put_session(tx, "s", ["Hi."])
        yield made


def write(db: Database, name: str) -> None:
    """Store one more session."""
    with db.write() as tx:
        put_session(tx, name, ["Ho."])
        meta.bump(tx)


def test_readers_of_one_state_share_one_snapshot(db: Database) -> None:
    """It is the same object until something was written; who still reads the older one keeps it."""
    cache = SnapshotCache()
    assert (cache.nbytes, cache.drop()) == (0, 0)
    with db.read() as one, db.read() as two:
        first = cache.get(one)
        assert cache.get(two) is first
    write(db, "t")
    with db.read() as tx:
        second = cache.get(tx)
        assert second is not first
        assert_equal(second, load_snapshot(tx))
    assert len(first.turns.ids) == 1
    assert cache.nbytes == second.nbytes
    assert cache.drop() == second.nbytes
    assert cache.nbytes == 0


def test_a_reader_that_began_earlier_is_brought_to_the_newest_state(db: Database) -> None:
    """It would else make an older snapshot in the place of a newer one."""
    cache = SnapshotCache()
    with db.read() as early:
        assert early.execute("SELECT count(*) FROM session").fetchone() == (1,)
        write(db, "t")
        with db.read() as late:
            newest = cache.get(late)
        assert cache.get(early) is newest
        assert early.execute("SELECT count(*) FROM session").fetchone() == (2,)


def test_many_readers_at_once_make_one_snapshot(db: Database) -> None:
    """The first makes it, the others wait for it."""
    cache, found, ready = SnapshotCache(), list[Snapshot](), threading.Barrier(6)

    def read() -> None:
        with db.read() as tx:
            ready.wait()
            found.append(cache.get(tx))

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert len({id(one) for one in found}) == 1


def test_forests_count_as_bytes_and_go_with_their_snapshot(db: Database) -> None:
    """Whether they are up to date, or are carried over and nobody has asked for them yet."""
    with db.write() as tx:
        plant(tx, [put_fact(tx, f"f{n}", said_ms=n) for n in range(9)])
        meta.bump(tx)
    cache = SnapshotCache()
    with db.read() as tx:
        kept = cache.get(tx)
        assert (forest_bytes(kept), cache.nbytes) == (0, kept.nbytes)
        shape = forest_of(tx, kept, "ix").nbytes
        assert forest_bytes(kept) == shape > 0
        assert forest_of(tx, kept, "ix") is forest_of(tx, kept, "ix")
        table = embedded_forest(tx, kept, "ix").vectors
        assert forest_bytes(kept) == shape + table.nbytes == cache.nbytes - kept.nbytes
    write(db, "t")
    with db.read() as tx:
        now = cache.get(tx)
        assert now is not kept
        carried = forest_bytes(now)
        assert carried == shape + table.nbytes + 8 * len(table)
        assert embedded_forest(tx, now, "ix").forest.ids.tolist() == forest_of(tx, now, "ix").ids.tolist()


def test_trees_are_read_in_the_state_of_their_snapshot(db: Database) -> None:
    """In another one their leaves would stand for other rows."""
    with db.read() as tx:
        old = load_snapshot(tx)
    write(db, "t")
    with db.read() as tx, pytest.raises(ValueError, match="in a transaction of the snapshot's state"):
        forest_of(tx, old, "ix")


def grove() -> Snapshot:
    """Return a snapshot with two trees of inner nodes, one of a leaf alone, and an index of its own."""
    turns = [Said("Ana", day, session=1 + day // 3) for day in range(6)]
    facts_ = [Fact((0,)), Fact((2,), start=3, end=5), Fact((4,), start=9)]
    return hand_made(
        turns, facts_,
        [Tree("session", 1, ((("turns", 0, 1), ("turns", 1, 3)), (("turns", 3, 6),))), Tree("entity", 1, (("fact", 0), ("fact", 1))),
         Tree("entity", 2, ("fact", 2))],
    )  # fmt: skip


def test_a_forest_knows_its_shape() -> None:
    """Children in order, ways from the root, roots with and without a node above leaves."""
    found = planted(grove())
    forest = found.forest
    assert forest.roots.tolist() == [5, 8, 9]
    assert [forest.children[row] for row in (5, 2, 4, 8, 0, 9)] == [(2, 4), (0, 1), (3,), (6, 7), (), ()]
    assert [forest.path(row) for row in (1, 4, 5, 9)] == [[5, 2, 1], [5, 4], [5], [9]]
    assert forest.of_kind("entity").tolist() == [False, True, True]
    assert found.embedded_roots.tolist() == [5, 8]
    assert replace(forest, tree_root=as_array([5, NONE, 9])).roots.tolist() == [5, 9]


def test_children_stand_in_their_place_whatever_their_rows() -> None:
    """The rows of a forest are by id, and a node that was split off has a higher one than its right neighbour."""
    forest = planted(grove()).forest
    turned = replace(forest, place=np.where(forest.parent == 5, 1 - forest.place, forest.place))
    assert turned.children[5] == (4, 2)


def test_nodes_are_compared_by_their_own_vectors() -> None:
    """Roots alone, or any inner nodes in any order."""
    snapshot = grove()
    forest = planted(snapshot).forest
    table = VectorTable.of(np.eye(4, dtype=np.float32)[[0, 1, 2, 3]])
    found = replace(planted(snapshot), vectors=table)
    assert forest.inner.tolist() == [2, 4, 5, 8]
    vector = np.array([0.1, 0.2, 0.3, 0.4], dtype=np.float32)
    assert found.cosines_at(as_array([8, 2, 2]), vector).tolist() == pytest.approx([0.4, 0.1, 0.1])
    assert found.root_cosines(vector).tolist() == pytest.approx([0.3, 0.4])


WRONG: list[tuple[dict[str, tuple[int, int]], str]] = [
    ({"level": (2, 2)}, "child is not below it"), ({"level": (0, 1)}, "child is not below it"), ({"parent": (5, 0)}, "child is not below it"),
    ({"tree": (3, NONE)}, "that is missing"), ({"item": (6, NONE)}, "that is missing"), ({"item": (0, NONE)}, "that is missing"),
    ({"item_end": (0, 0)}, "that is missing"),
]  # fmt: skip


@each(("change", "message"), WRONG)
def test_what_is_no_forest_is_refused(change: dict[str, tuple[int, int]], message: str) -> None:
    """A search would go round in circles, or read rows that are not there."""
    forest = planted(grove()).forest
    columns = {}
    for name, (row, wrong) in change.items():
        columns[name] = getattr(forest, name).copy()
        columns[name][row] = wrong
    with pytest.raises(ValueError, match=message) as caught:
        replace(forest, **columns)
    assert "'memforest'" in str(caught.value)
    assert replace(forest, item_end=np.where(forest.kind == FACT, NONE, forest.item_end)).roots.size == 3


def test_what_is_made_of_a_forest_is_kept_as_long_as_the_forest() -> None:
    """Once for each, and with the arguments of the first call."""
    made: list[int] = []

    @once_per_forest
    def count(forest: Forest, add: int) -> int:
        made.append(add)
        return len(forest.ids) + add

    snapshot = grove()
    forest = planted(snapshot).forest
    assert (count(forest, 1), count(forest, 1), made) == (11, 11, [1])
    other = planted(grove()).forest
    assert (count(other, 2), made) == (12, [1, 2])
    del other
    gc.collect()
    assert count(planted(snapshot).forest, 1) == 11


def node(tx: Connection, tree: int, id_: int, children: tuple[int, ...], **values: Any) -> None:
    """Store an inner node."""
    arena = SqliteArena(tx)
    made = Node(id_, tree, 1, (0, ""), -5, 7, 1, children, None, None, 1, True)
    arena.put(replace(made, **values))
    arena.flush()


def test_the_arrays_of_a_forest_have_what_is_stored(tx: Connection) -> None:
    """What a node does not have is told apart from 0; a tree without leaves has no root."""
    heads = [plant(tx, [], scope=scope, k=0) for scope in (7, 8)]
    kids = [leaf(tx, heads[0].tree, "fact", put_fact(tx, f"f{n}", tie=str(n))) for n in range(3)]
    node(tx, heads[0].tree, 900, (kids[2], kids[0]), span=(0, 2), window="2024-05")
    node(tx, heads[0].tree, 901, (900, kids[1]), level=5)
    put_head(tx, "ix", "entity", 7, replace(heads[0], root=901))
    forest = forest_of(tx, load_snapshot(tx), "ix")
    assert forest.ids.tolist() == [*kids, 900, 901]
    assert (forest.parent.tolist(), forest.place.tolist()) == ([3, 4, 3, 4, NONE], [1, 1, 0, 0, 0])
    assert (forest.level.tolist(), forest.inner.tolist()) == ([0, 0, 0, 1, 5], [3, 4])
    assert (forest.item.tolist(), forest.item_end.tolist()) == ([0, 1, 2, NONE, NONE], [NONE] * 5)
    stored = forest.stored
    assert (stored.span_lo.tolist(), stored.span_hi.tolist()) == ([0, NONE], [2, NONE])
    assert stored.window.tolist() == ["2024-05", None]
    assert (stored.start_ms.tolist(), stored.end_ms.tolist()) == ([-5, -5], [7, 7])
    assert (forest.tree_root.tolist(), forest.roots.tolist(), forest.tree_scope.tolist()) == (
        [4, NONE],
        [4],
        [7, 8],
    )
    assert forest.nbytes > stored.nbytes > 0


@pytest.mark.parametrize("children", [(1, 99), (1, 2, 2), (1, 900)])
def test_a_child_that_is_not_there_or_is_anothers_too_is_refused(
    tx: Connection, children: tuple[int, ...]
) -> None:
    """The index is named."""
    head = plant(tx, [], k=0)
    kids = [leaf(tx, head.tree, "fact", put_fact(tx, f"f{n}")) for n in range(2)]
    assert kids == [1, 65]
    node(tx, head.tree, 900, (1,))
    node(tx, head.tree, 901, children, level=2)
    with pytest.raises(
        ValueError, match="of the index 'ix' has a node whose child is missing, or is another's too"
    ):
        forest_of(tx, load_snapshot(tx), "ix")


STATED = st.tuples(st.none() | st.integers(-3, 3), st.none() | st.integers(-3, 3), st.integers(-3, 3))


@settings(max_examples=20)
@given(st.lists(STATED, min_size=1, max_size=4), st.lists(st.integers(-3, 3), min_size=4, max_size=4))
def test_a_leaf_of_a_forest_stands_where_it_does_in_the_file(
    stated: list[tuple[int | None, int | None, int]], said: list[int]
) -> None:
    """Facts of any times, chunks and runs whose turns go back and forth."""
    with closing(empty_memory()) as tx:
        _, turns = put_session(tx, texts=list("abcd"), chunk=3)
        for turn, at in zip(turns, said, strict=True):
            tx.execute("UPDATE turn SET said_ms = ? WHERE id = ?", (at, turn))
        rows = [
            put_fact(
                tx, f"f{n}", start_ms=start, end_ms=None if start is None else end, said_ms=at, tie=str(n)
            )
            for n, (start, end, at) in enumerate(stated)
        ]
        head = plant(tx, rows)
        leaf(tx, head.tree, "chunk", chunk_of(tx, turns[0]))
        leaf(tx, head.tree, "turn", turns[1], turns[3])
        leaf(tx, head.tree, "turn", turns[2])
        forest = forest_of(tx, load_snapshot(tx), "ix")
        start_ms, end_ms = (column.tolist() for column in forest.intervals)
        told = {
            row: (start_ms[n], end_ms[n])
            for n, row in enumerate(forest.ids.tolist())
            if forest.kind[n] != INNER
        }
        stored = trees.nodes_with_ids(tx, list(told))
        assert told == {row: (node.start_ms, node.end_ms) for row, node in stored.items()}
        assert set(forest.kind.tolist()) - {INNER} == {CHUNK, FACT, TURNS}
        assert len(told) == value(tx, "SELECT count(*) FROM leaf")


def test_a_forest_that_was_put_by_hand_is_not_read(tx: Connection) -> None:
    """Nor is one that is carried over from a snapshot that has none."""
    snapshot = grove()
    put_forest(snapshot, planted(snapshot))
    assert forest_of(tx, snapshot, "memforest") is planted(snapshot).forest
    assert embedded_forest(tx, snapshot, "memforest") is planted(snapshot)
    new = load_snapshot(tx)
    carry_forests(small(), new)
    assert forest_of(tx, new, "ix").ids.tolist() == []
    assert_same(contents(new), contents(load_snapshot(tx)))
