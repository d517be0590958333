"""Segment trees: what grows, what stays, and how the same tree comes back when leaves go."""

from __future__ import annotations

from copy import deepcopy
from random import Random

import pytest
from tests_long.segments import decisions, grow, leaf, leaf_at, levels

from memforest.nodes import DictArena, TreeHead
from memforest.trees import segment
from memforest.trees.node import Contract, check, outline
from memforest.trees.segment import NewLeaf


def test_inner_nodes_have_two_children_and_tile_their_stretch() -> None:
    """300 random sequences: a partition of [1, T], and 2T - 1 nodes at most."""
    for seed in range(300):
        picked = list(decisions(Random(seed), 60 if seed % 8 == 0 else 20))
        arena, head = grow(picked)
        assert len(arena.nodes) <= 2 * len(picked) - 1
        assert check(arena, head, Contract("partition", unary=False)) == []


def test_only_the_frontier_changes() -> None:
    """Every other node, leaves first, is as it was; what changed is marked, and one node at most is new beside the leaf."""
    for seed in range(40):
        arena, head = DictArena(), TreeHead(1, 0)
        for at, pick in enumerate(decisions(Random(seed), 40), 1):
            for node in arena.nodes.values():
                node.dirty = False
            before = deepcopy(arena.nodes)
            ends = segment.frontier(arena, head)
            arena.reads = arena.writes = 0
            level = None if pick is None or not head.height else pick % head.height + 1
            grown = segment.insert(arena, head, leaf(at), level, ends=ends)
            assert (arena.reads, arena.writes) == (0, 1 + len(grown.above))
            head, above = grown.head, {node.id for node in grown.above}
            assert [node.id for node in segment.frontier(arena, head)] == [
                grown.leaf.id,
                *(one.id for one in grown.above),
            ]
            assert len(arena.nodes) - len(before) <= 2
            assert {node.id for node in grown.closed} == {node.id for node in ends} - above
            for id_, old in before.items():
                assert id_ in above or arena.nodes[id_] == old
                assert id_ not in above or (arena.nodes[id_].version, arena.nodes[id_].dirty) == (
                    old.version + 1,
                    True,
                )


def test_a_virtual_level_makes_a_node_there() -> None:
    """Over the last leaf, and between two nodes."""
    assert outline(*levels(None, None, None, None)) == "[[[1 2] 3] 4]"
    assert outline(*levels(None, None, None, None, 1)) == "[[[1 2] 3] [4 5]]"
    arena, head = levels(None, None, None, None, 1, 2)
    assert outline(arena, head) == "[[[1 2] 3] [[4 5] 6]]"
    assert [node.level for node in segment.frontier(arena, head)] == [0, 2, 3]
    assert outline(*levels(None, None, 1, 1, 1)) == "[1 2 3 4 5]"


def picks(arena: DictArena, head: TreeHead) -> list[tuple[int, int]]:
    """Return the count and the level of each choice."""
    return [(node.count, level) for node, level in segment.choices(segment.frontier(arena, head))]


def test_there_is_one_choice_for_each_thing_that_is_said() -> None:
    """The lowest level of it; a leaf right below its parent is none."""
    for picked in ((), (None,)):
        assert picks(*levels(*picked)) == []
    assert picks(*levels(None, None)) == [(2, 1)]
    assert picks(*levels(None, None, None, None, None)) == [(1, 1), (5, 4)]
    assert picks(*levels(None, None, None, None, None, 1)) == [(2, 1), (6, 4)]


def test_a_leaf_is_found_by_its_ordinal() -> None:
    """And an ordinal that is not there is refused."""
    arena, head = levels(None, None, 1, None, 1, 2)
    assert [leaf_at(arena, head, at).item for at in range(1, 7)] == [1, 2, 3, 4, 5, 6]
    for at in (0, 7):
        with pytest.raises(ValueError, match=f"no leaf {at}"):
            leaf_at(arena, head, at)


def test_what_the_index_keeps_stays_until_leaves_go() -> None:
    """`insert` leaves it to the caller; a cut, and a leaf that goes, empty it where it is wrong; the cut is remembered."""
    arena, head = levels(None, None, 1, 1, None, 1)
    root = head.root or 0
    stretch = arena.nodes[root].children[0]
    for node in (arena.nodes[root], arena.nodes[stretch]):
        assert segment.own_state(node) == b""
        arena.put(segment.with_own_state(node, b"sums"))
    grown = segment.insert(arena, head, leaf(7), 1)
    assert [segment.own_state(node) for node in grown.above] == [b"", b"sums"]
    head = segment.remove(arena, grown.head, 6)
    assert [segment.own_state(arena.nodes[id_]) for id_ in (stretch, root)] == [b"sums", b""]
    arena.put(segment.with_own_state(arena.nodes[stretch], b"sums"))
    head = segment.truncate(arena, head, 4)
    assert (head.root, segment.own_state(arena.nodes[stretch])) == (stretch, b"sums")
    head = segment.cut(arena, head, stretch, 2)
    parts = [arena.nodes[id_] for id_ in arena.nodes[head.root or 0].children]
    assert [segment.own_state(node) for node in parts] == [b"", b""]
    arena.put(segment.with_own_state(parts[1], b"new"))
    assert outline(arena, head) == "[[1 2] [3 4]]"
    assert outline(arena, segment.truncate(arena, head, 3)) == "[1 2 3]"


def test_what_is_refused_changes_nothing() -> None:
    """A level that is not there, an empty interval, a cut that leaves too little, more leaves than there are."""
    arena, head = levels(None, None, 1, None, 1)
    before = deepcopy(arena.nodes)
    node, root = (one.id for one in segment.frontier(arena, head)[1:])
    first = arena.nodes[root].children[0]
    for level in (0, -1, 3):
        with pytest.raises(ValueError, match="has levels 1 to 2"):
            segment.insert(arena, head, leaf(6), level)
    empty = NewLeaf((6, ""), 5, 5, "turn", 6)
    with pytest.raises(ValueError, match="is empty"):
        segment.insert(arena, head, empty, 1)
    with pytest.raises(ValueError, match="is empty"):
        segment.beside(arena, head, 1, empty)
    for id_, at, says in (
        (node, 1, "2 or more"),
        (first, 1, "not an inner node of the frontier"),
        (999, 1, "999"),
    ):
        with pytest.raises(ValueError, match=says):
            segment.cut(arena, head, id_, at)
    for count in (-1, 6):
        with pytest.raises(ValueError, match="has 5"):
            segment.truncate(arena, head, count)
    for at in (0, 6):
        with pytest.raises(ValueError, match=f"no leaf {at}"):
            segment.remove(arena, head, at)
    with pytest.raises(ValueError, match="no leaf 6"):
        segment.beside(arena, head, 6, leaf(6))
    assert arena.nodes == before
