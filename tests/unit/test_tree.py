"""A MemTree against a sorted list: whatever happens to it, the invariants hold and nothing is lost."""

from __future__ import annotations

import copy
import math
import random
from bisect import insort
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.doubles.leaves import Leaf

from memforest.nodes import DictArena, Key, Node, TreeHead
from memforest.trees.node import check, delete, insert, leaves, outline, path, walk

FAN_OUTS = st.integers(3, 16)


class CopyingArena(DictArena):
    """Hands out and keeps copies, as a database would: a change that is not put is lost.

    `touched` holds the ids put since the last `forget`, in order; a put must raise the version by one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.touched: list[int] = []
        self.dropped: list[int] = []

    def get(self, node_id: int) -> Node:
        """Return a copy."""
        return copy.copy(super().get(node_id))

    def get_many(self, ids: Sequence[int]) -> list[Node]:
        """Return copies."""
        return [copy.copy(node) for node in super().get_many(ids)]

    def put(self, node: Node) -> None:
        """Keep a copy."""
        before = self.nodes[node.id].version if node.id in self.nodes else 0
        assert node.version == before + 1
        assert node.dirty
        self.touched.append(node.id)
        super().put(copy.copy(node))

    def drop(self, node_id: int) -> None:
        """Note it, and forget the node."""
        self.dropped.append(node_id)
        super().drop(node_id)

    def forget(self) -> None:
        """Start a new record of what was touched."""
        self.touched, self.dropped = [], []

    def refresh(self) -> None:
        """Mark everything clean, as a refresh of all derived artifacts would."""
        for node in self.nodes.values():
            node.dirty = False


def add(arena: DictArena, head: TreeHead, day: int, tie: str = "") -> TreeHead:
    """Insert a leaf of one unit of time."""
    grown, _ = insert(arena, head, key=(day, tie), start_ms=day, end_ms=day + 1, item_kind="fact", item=day)
    return grown


def planted(days: Sequence[int], k: int) -> tuple[CopyingArena, TreeHead]:
    """Return a tree with one leaf per day, inserted in the given order."""
    arena, head = CopyingArena(), TreeHead(1, k)
    for day in days:
        head = add(arena, head, day)
    return arena, head


def keys(arena: DictArena, head: TreeHead) -> list[Key]:
    """Return the keys of the leaves as the tree orders them."""
    return [leaf.key for leaf in leaves(arena, head)]


def least_height(count: int, k: int) -> int:
    """Return ceil(log_k count) in whole numbers."""
    return next(height for height in range(64) if k**height >= count)


# Any history

Op = tuple[str, int, int]
OPS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "insert", "insert", "append", "delete", "delete", "refresh"]),
        st.integers(0, 60),
        st.integers(1, 9),
    ),
    max_size=80,
)


class History:
    """A tree and the naive model of it: a sorted list of leaves."""

    def __init__(self, k: int) -> None:
        self.arena, self.head, self.model = CopyingArena(), TreeHead(7, k), list[Leaf]()

    def apply(self, op: Op) -> None:
        """Do one thing to the tree and to the model."""
        name, number, length = op
        self.arena.forget()
        if name in ("insert", "append"):
            self.insert(number if name == "insert" else 1000, length)
        elif name == "refresh":
            self.arena.refresh()
        elif self.model:
            at = number % len(self.model)
            leaf = self.model[at]
            del self.model[at]
            self.head = delete(self.arena, self.head, leaf.key)

    def insert(self, day: int, length: int) -> None:
        """Insert one leaf, and count what that wrote."""
        item = self.arena.writes
        leaf = Leaf((day, f"{item:06}"), day, day + length, "turn", item)
        insort(self.model, leaf)
        inner = sum(node.level > 0 for node in self.arena.nodes.values())
        height = self.head.height
        self.head, leaf_id = insert(self.arena, self.head, **leaf._asdict())
        new = sum(node.level > 0 for node in self.arena.nodes.values()) - inner
        assert self.arena.nodes[leaf_id].key == leaf.key
        assert len(self.arena.touched) <= 1 + height + new
        assert new <= height + 1

    def leaves(self) -> list[Leaf]:
        """Return what the tree holds, as the model would."""
        found = []
        for node in leaves(self.arena, self.head):
            assert node.item_kind is not None
            assert node.item is not None
            found.append(Leaf(node.key, node.start_ms, node.end_ms, node.item_kind, node.item))
        return found


@given(FAN_OUTS, OPS)
@settings(max_examples=120, deadline=None)
def test_any_history_keeps_every_invariant(k: int, ops: list[Op]) -> None:
    """After every step `check` finds nothing, no node is put twice or left over, and the leaves are the model's."""
    history = History(k)
    for op in ops:
        height = history.head.height
        history.apply(op)
        assert check(history.arena, history.head) == []
        assert history.leaves() == history.model
        arena = history.arena
        assert {node.id for node in walk(arena, history.head)} == set(arena.nodes)
        assert len(arena.touched) == len(set(arena.touched))
        if op[0] == "delete":
            assert len(arena.touched) + len(arena.dropped) <= 1 + 2 * height
        if history.head.height:
            assert history.head.count > ((k + 1) // 2) ** (history.head.height - 1)


@given(FAN_OUTS, OPS, st.integers(0, 60))
@settings(max_examples=100, deadline=None)
def test_only_the_path_becomes_dirty(k: int, ops: list[Op], day: int) -> None:
    """In a clean tree an insert dirties the nodes it wrote and no others."""
    history = History(k)
    for op in ops:
        history.apply(op)
    history.arena.refresh()
    history.arena.forget()
    history.insert(day, 1)
    assert {node.id for node in history.arena.nodes.values() if node.dirty} == set(history.arena.touched)
    assert len(history.arena.touched) <= 2 * history.head.height + 1


@given(FAN_OUTS, st.integers(1, 100), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_deleting_everything_in_any_order_leaves_nothing(k: int, count: int, rng: random.Random) -> None:
    """A tree can be emptied leaf by leaf, is sound at every step, and its arena is empty at the end."""
    days = list(range(count))
    rng.shuffle(days)
    arena, head = planted(days, k)
    rng.shuffle(days)
    for gone, day in enumerate(days, 1):
        height = head.height
        arena.forget()
        head = delete(arena, head, (day, ""))
        assert len(arena.touched) + len(arena.dropped) <= 1 + 2 * height
        assert check(arena, head) == []
        assert keys(arena, head) == sorted((day, "") for day in days[gone:])
    assert head == TreeHead(1, k)
    assert arena.nodes == {}


@pytest.mark.parametrize("k", [3, 8])
def test_a_tree_lives_on_after_being_emptied(k: int) -> None:
    """An emptied tree takes new leaves like a new one."""
    arena, head = planted(range(30), k)
    for day in range(30):
        head = delete(arena, head, (day, ""))
    for day in range(30):
        head = add(arena, head, day)
    assert check(arena, head) == []
    assert head.height == least_height(30, k)


# Ordered appends


@given(FAN_OUTS, st.integers(1, 400))
@settings(max_examples=80, deadline=None)
def test_ordered_appends_give_full_nodes_and_the_least_height(k: int, count: int) -> None:
    """Height is ceil(log_k N), and only nodes on the right spine have room."""
    arena, head = planted(range(count), k)
    assert check(arena, head) == []
    assert head.height == least_height(count, k)
    spine = {node.id for node in path(arena, head, (count - 1, ""))}
    for node in walk(arena, head):
        assert node.level == 0 or node.id in spine or len(node.children) == k


def test_an_append_leaves_the_full_node_beside_it_clean() -> None:
    """The right-edge split does not write the node that was full, so nothing of it is derived anew."""
    arena, head = planted([1, 2, 3], 3)
    full = head.root
    arena.refresh()
    arena.forget()
    head = add(arena, head, 4)
    assert outline(arena, head) == "[[1 2 3] [4]]"
    assert full not in arena.touched
    assert not arena.nodes[full or 0].dirty


def test_random_inserts_stay_near_the_least_height() -> None:
    """2,000 leaves in random order, in reverse, or before one far ahead: logarithmic in every case."""
    shuffled = list(range(2000))
    random.Random(5).shuffle(shuffled)
    for days in (shuffled, range(1999, -1, -1), [10**6, *range(1999)]):
        for k in (3, 8, 10):
            arena, head = planted(days, k)
            assert check(arena, head) == []
            assert head.height <= 1 + math.log(1999, (k + 1) // 2)


def test_appends_read_one_node_per_level() -> None:
    """An append that splits nothing reads the right spine only, however large the tree."""
    arena, head = planted(range(1001), 10)
    reads = arena.reads
    head = add(arena, head, 1001)
    assert arena.reads - reads == head.height + 1


# One step by hand


def test_the_smallest_trees() -> None:
    """Nothing, then a leaf that is the root, then an inner root over two leaves in key order."""
    arena, head = CopyingArena(), TreeHead(1, 3)
    assert (head.root, list(walk(arena, head)), outline(arena, head)) == (None, [], "")
    head = add(arena, head, 5)
    assert (head.height, head.count, outline(arena, head)) == (0, 1, "5")
    head = add(arena, head, 4)
    assert (head.height, head.count, outline(arena, head)) == (1, 2, "[4 5]")
    head = delete(arena, head, (4, ""))
    assert (head.height, head.count, outline(arena, head)) == (0, 1, "5")


def test_an_insert_inside_splits_in_halves_and_leaves_moved_children_alone() -> None:
    """Four of k = 3 become two and two; no leaf is written but the new one."""
    arena, head = planted([10, 20, 30, 40], 3)
    assert outline(arena, head) == "[[10 20 30] [40]]"
    arena.forget()
    head = add(arena, head, 15)
    assert outline(arena, head) == "[[10 15] [20 30] [40]]"
    assert [arena.nodes[i].level for i in arena.touched] == [0, 1, 1, 2]
    assert all(leaf.version == 1 for leaf in leaves(arena, head))


def test_a_delete_shares_with_a_full_sibling_and_joins_a_small_one() -> None:
    """Two nodes hold more than k children together, or else become one."""
    arena, head = planted(range(1, 11), 4)
    assert outline(arena, head) == "[[1 2 3 4] [5 6 7 8] [9 10]]"
    for day in (1, 2):
        head = delete(arena, head, (day, ""))
    head = delete(arena, head, (3, ""))
    assert outline(arena, head) == "[[4 5 6] [7 8] [9 10]]"
    head = delete(arena, head, (7, ""))
    assert outline(arena, head) == "[[4 5 6] [8 9 10]]"


def test_ties_keep_leaves_of_one_instant_in_order() -> None:
    """Equal times are ordered by the tie."""
    arena, head = CopyingArena(), TreeHead(1, 3)
    for tie in "dbaec":
        head = add(arena, head, 1, tie)
    assert [tie for _, tie in keys(arena, head)] == list("abcde")


# Finding


@given(FAN_OUTS, OPS, st.integers(0, 60), st.integers(1, 30))
@settings(max_examples=60, deadline=None)
def test_leaves_during_an_interval_are_those_that_overlap_it(
    k: int, ops: list[Op], start: int, length: int
) -> None:
    """Half-open on both sides, with hulls only to save reading."""
    history = History(k)
    for op in ops:
        history.apply(op)
    found = [leaf.key for leaf in leaves(history.arena, history.head, during=(start, start + length))]
    model = history.model
    assert found == [leaf.key for leaf in model if leaf.start_ms < start + length and start < leaf.end_ms]


def test_a_window_reads_only_what_overlaps() -> None:
    """Ten days of a thousand cost a few nodes."""
    arena, head = planted(range(1000), 10)
    reads = arena.reads
    assert len(list(leaves(arena, head, during=(500, 510)))) == 10
    assert arena.reads - reads <= 1 + 10 * head.height


# Refusals


@pytest.mark.parametrize("count", [0, 1, 12])
def test_a_refused_call_changes_nothing(count: int) -> None:
    """An absent key is a KeyError; a key that is there, or an empty interval, a ValueError."""
    arena, head = planted(range(count), 3)
    before = copy.deepcopy(arena.nodes)
    for verb in (delete, path):
        with pytest.raises(KeyError):
            verb(arena, head, (99, ""))
    with pytest.raises(ValueError, match="empty"):
        insert(arena, head, key=(50, ""), start_ms=5, end_ms=5, item_kind="fact", item=1)
    if count:
        with pytest.raises(ValueError, match="already"):
            add(arena, head, count - 1)
    assert arena.nodes == before


@pytest.mark.parametrize("k", [-1, 1, 2])
def test_a_fan_out_that_cannot_be_balanced_is_refused(k: int) -> None:
    """Below 3 there is no balance to keep; 0 is a tree that has none."""
    with pytest.raises(ValueError, match="at least 3"):
        insert(DictArena(), TreeHead(1, k), **Leaf((1, ""), 1, 2, "fact", 1)._asdict())
