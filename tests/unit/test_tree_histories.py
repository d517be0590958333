"""What a MemTree is after many changes: whichever way it came to its leaves, and only as far as they were touched."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.doubles.leaves import Leaf
from tests.table import each

from memforest.nodes import DictArena, Node, TreeHead
from memforest.trees.node import check, delete, insert, leaves, outline, path, walk


class Shelf(DictArena):
    """Hands out copies and notes what is put: a change that is not put is lost, one that is put is seen."""

    def __init__(self) -> None:
        super().__init__()
        self.put_ids: list[int] = []

    def get(self, node_id: int) -> Node:
        """Return a copy."""
        return copy.copy(super().get(node_id))

    def get_many(self, ids: Sequence[int]) -> list[Node]:
        """Return copies."""
        return [copy.copy(node) for node in super().get_many(ids)]

    def put(self, node: Node) -> None:
        """Keep a copy, and note it."""
        self.put_ids.append(node.id)
        super().put(copy.copy(node))


def leaf(day: int, tie: str = "", length: int = 1) -> Leaf:
    """Return a leaf that begins on a day."""
    return Leaf((day, tie), day, day + length, "fact", day)


def planted(days: Sequence[int], k: int = 3, tree: int = 1) -> tuple[Shelf, TreeHead]:
    """Return a tree with a leaf a day, inserted in the order given."""
    arena, head = Shelf(), TreeHead(tree, k)
    for day in days:
        head, _ = insert(arena, head, **leaf(day)._asdict())
    return arena, head


def clean(arena: Shelf) -> None:
    """Mark every node clean, and forget what was put."""
    for node in arena.nodes.values():
        node.dirty = False
    arena.put_ids.clear()


@pytest.mark.parametrize("k", [3, 4])
def test_every_order_of_five_leaves_gives_them_in_time_order(k: int) -> None:
    """All 120: sound, complete, in order, and never taller than two inner levels."""
    for days in permutations(range(5)):
        arena, head = planted(days, k)
        assert check(arena, head) == []
        assert [node.item for node in leaves(arena, head)] == list(range(5))
        assert (head.count, head.tree) == (5, 1)
        assert head.height <= 2


@each("k", [3, 4, 5])
@each("count", [4, 9, 13, 17])
def test_every_leaf_can_be_taken_from_every_place(k: int, count: int) -> None:
    """One gone from a full tree: all others are there, in order, and what they say is what it was."""
    arena, head = planted(range(count), k)
    for gone in range(count):
        now = copy.deepcopy(arena)
        left = delete(now, head, (gone, ""))
        assert check(now, left) == []
        assert [node.item for node in leaves(now, left)] == [day for day in range(count) if day != gone]
        assert left.count == count - 1
        again, _ = insert(now, left, **leaf(gone)._asdict())
        assert check(now, again) == []
        assert [node.item for node in leaves(now, again)] == list(range(count))


DAYS = st.lists(st.integers(0, 200), min_size=1, max_size=60, unique=True)


@settings(max_examples=50)
@given(DAYS, st.integers(3, 6), st.randoms(use_true_random=False))
def test_inserts_and_deletes_in_any_mix_leave_the_same_leaves(
    days: list[int], k: int, rng: random.Random
) -> None:
    """Half of the leaves go again in between: what is left is what the tree of the others alone holds."""
    gone = set(rng.sample(days, len(days) // 2))
    arena, head = Shelf(), TreeHead(1, k)
    waiting = []
    for day in days:
        head, _ = insert(arena, head, **leaf(day, length=1 + day % 7)._asdict())
        waiting += [day] * (day in gone)
        if waiting and rng.random() < 0.5:
            head = delete(arena, head, (waiting.pop(rng.randrange(len(waiting))), ""))
    for day in waiting:
        head = delete(arena, head, (day, ""))
    other = Shelf()
    alone = TreeHead(1, k)
    for day in sorted(set(days) - gone):
        alone, _ = insert(other, alone, **leaf(day, length=1 + day % 7)._asdict())
    told = [(node.key, node.start_ms, node.end_ms, node.item_kind, node.item) for node in leaves(arena, head)]
    assert told == [(n.key, n.start_ms, n.end_ms, n.item_kind, n.item) for n in leaves(other, alone)]
    assert check(arena, head) == check(other, alone) == []
    assert head.count == alone.count


def test_two_trees_in_one_arena_share_nothing() -> None:
    """Nodes are of the tree they were made in, and one tree can go while the other stays."""
    arena, one = planted(range(20), 3, tree=1)
    two = TreeHead(2, 4)
    for day in range(100, 120):
        two, _ = insert(arena, two, **leaf(day)._asdict())
    assert {node.tree for node in walk(arena, one)} == {1}
    assert {node.tree for node in walk(arena, two)} == {2}
    for day in range(20):
        one = delete(arena, one, (day, ""))
    assert check(arena, two) == []
    assert {node.id for node in walk(arena, two)} == set(arena.nodes)


def test_ids_are_never_used_again() -> None:
    """What is derived from a node that is gone is never taken for that of a new one."""
    arena, head = planted(range(30))
    seen = set(arena.nodes)
    for day in range(15):
        head = delete(arena, head, (day, ""))
    kept = set(arena.nodes)
    for day in range(15):
        head, new = insert(arena, head, **leaf(day)._asdict())
        assert new not in seen
    assert not (set(arena.nodes) - kept) & seen


@settings(max_examples=50)
@given(DAYS, st.integers(0, 200), st.integers(3, 6))
def test_what_is_clean_after_a_change_says_what_it_said(days: list[int], day: int, k: int) -> None:
    """A node that an insert or a delete left clean has the leaves below it that it had: its summary still holds."""
    arena, head = planted(days, k)
    clean(arena)

    def below(now: TreeHead, node: Node) -> list[object]:
        whole = TreeHead(node.tree, k, node.id, node.level, node.count)
        return [one.key for one in leaves(arena, whole)] if now.root is not None else []

    before = {node.id: below(head, node) for node in walk(arena, head)}
    if day in days:
        head = delete(arena, head, (day, ""))
    else:
        head, _ = insert(arena, head, **leaf(day)._asdict())
    for node in walk(arena, head):
        if not node.dirty:
            assert before[node.id] == below(head, node)
        assert node.dirty == (node.id in arena.put_ids)


def test_the_arena_counts_nodes() -> None:
    """Reads one by one and together, and writes: what tests of costs stand on."""
    arena = DictArena()
    first, second = arena.new_id(), arena.new_id()
    for one in (first, second):
        arena.put(Node(one, 1, 0, (one, ""), 0, 1, 1, (), "fact", one, 1, True))
    assert (arena.get(second).id, [node.id for node in arena.get_many([second, first])]) == (2, [2, 1])
    arena.drop(first)
    assert (arena.reads, arena.writes) == (3, 2)
    for missing in (
        lambda: arena.get(first),
        lambda: arena.get_many([second, first]),
        lambda: arena.drop(first),
    ):
        with pytest.raises(KeyError):
            missing()
    assert arena.new_id() == 3


def test_a_path_leads_from_the_root_to_the_leaf() -> None:
    """Level by level, each node a child of the one above; one leaf alone is its own root."""
    arena, head = planted(range(30))
    for day in (0, 13, 29):
        way = path(arena, head, (day, ""))
        assert [node.level for node in way] == list(range(head.height, -1, -1))
        assert way[0].id == head.root
        assert all(node.id in above.children for above, node in pairwise(way))
        assert way[-1].item == day
    arena, head = planted([4])
    assert [node.id for node in path(arena, head, (4, ""))] == [head.root]


def test_a_walk_goes_down_before_it_goes_on() -> None:
    """A parent before its children, siblings in order; within a time, only what overlaps it."""
    arena, head = planted(range(1, 11))
    drawn = [node.key[0] if node.level == 0 else f"{node.level}:{node.key[0]}" for node in walk(arena, head)]
    assert drawn == ["3:1", "2:1", "1:1", 1, 2, 3, "1:4", 4, 5, 6, "1:7", 7, 8, 9, "2:10", "1:10", 10]
    during = [node.key[0] for node in walk(arena, head, during=(6, 8)) if node.level == 0]
    assert during == [6, 7]
    assert [node.level for node in walk(arena, head, during=(4, 5))] == [3, 2, 1, 0]
    assert list(walk(arena, head, during=(11, 99))) == list(walk(arena, head, during=(-9, 1))) == []


@settings(max_examples=50)
@given(DAYS, st.data())
def test_no_wrong_field_of_an_ordered_tree_goes_unnoticed(days: list[int], data: st.DataObject) -> None:
    """Any one number of any one node that differs by any amount is named; so is a head that disagrees."""
    arena, head = planted(sorted(days))
    clean(arena)
    node = arena.get(data.draw(st.sampled_from(sorted(arena.nodes))))
    by = data.draw(st.integers(-3, 3).filter(bool))
    changed: dict[str, Any] = {"tree": node.tree + by, "level": node.level + by, "count": node.count + by}
    if node.level:
        changed |= {"key": (node.key[0] + by, ""), "start_ms": node.start_ms + by, "end_ms": node.end_ms + by}
        changed |= {"children": node.children[::-1] if len(node.children) > 1 else (), "item": 1}
    elif node.id != head.root:
        changed |= {"dirty": True, "item": None, "item_kind": None, "children": (node.id,)}
    name = data.draw(st.sampled_from(sorted(changed)))
    arena.nodes[node.id] = replace(node, **{name: changed[name]})
    assert check(arena, head) != [], (name, outline(planted(sorted(days))[0], head))
    for wrong in (replace(head, count=head.count + by), replace(head, height=head.height + by)):
        assert check(planted(sorted(days))[0], wrong) != []
