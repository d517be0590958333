"""Random histories of segment trees: leaves come, nodes are cut, leaves go, and the tree is what it would have been."""

from __future__ import annotations

from random import Random

from tests_long.segments import Shape, decisions, leaf, leaf_at, shape, spans

from memforest.nodes import DictArena, TreeHead
from memforest.trees import segment
from memforest.trees.node import Contract, check, leaves


def lived(random: Random, *, cuts: float = 0.3) -> tuple[DictArena, TreeHead, list[Shape]]:
    """Return a tree of random decisions and random cuts, and what it was after each leaf and the cuts then."""
    arena, head = DictArena(), TreeHead(1, 0)
    was: list[Shape] = [()]
    for at, pick in enumerate(decisions(random, 30), 1):
        level = None if pick is None or not head.height else pick % head.height + 1
        head = segment.insert(arena, head, leaf(at, random), level).head
        while head.height and random.random() < cuts:
            node = random.choice(segment.frontier(arena, head)[1:])
            if len(node.children) >= 4:
                where = random.randint(2, len(node.children) - 2)
                head = segment.cut(arena, head, node.id, where)
        was.append(shape(arena, head))
    return arena, head, was


def sound(arena: DictArena, head: TreeHead) -> None:
    """Fail if the tree breaks its contract, or the arena has more nodes than the tree."""
    assert check(arena, head, Contract("partition", unary=False)) == []
    reached: list[int] = [] if head.root is None else [head.root]
    for id_ in reached:
        reached.extend(arena.nodes[id_].children)
    assert set(reached) == set(arena.nodes)


def test_the_tree_of_the_first_leaves_comes_back() -> None:
    """However often it is cut back: levels, spans, hulls and the cuts of then, and nothing else stays in the arena."""
    for seed in range(500):
        random = Random(seed)
        arena, head, was = lived(random)
        sound(arena, head)
        while head.count:
            count = random.randint(0, head.count)
            head = segment.truncate(arena, head, count)
            assert shape(arena, head) == was[count]
            sound(arena, head)


def test_what_is_cut_back_marks_what_says_something_else() -> None:
    """A node that lost a leaf below it is dirty and of a new version, with its ancestors; another is as it was."""
    for seed in range(150):
        random = Random(seed)
        arena, head, _ = lived(random)
        for node in arena.nodes.values():
            node.dirty = False
        below = {id_: said(arena, id_) for id_ in arena.nodes}
        versions = {id_: node.version for id_, node in arena.nodes.items()}
        head = segment.truncate(arena, head, random.randint(1, head.count))
        for id_, node in arena.nodes.items():
            assert node.dirty == (node.version > versions[id_])
            assert node.dirty or below[id_] == said(arena, id_)
            assert below[id_] != said(arena, id_) or not node.dirty


def said(arena: DictArena, id_: int) -> object:
    """Return the nested ids below a node: what its summary is made of."""
    return id_, [said(arena, child) for child in arena.nodes[id_].children]


def without(found: set[tuple[int, int]], at: int) -> set[tuple[int, int]]:
    """Return spans without an ordinal; those of one leaf are not told."""
    moved = {(low - (low > at), high - (high > at)) for low, high in found}
    return {(low, high) for low, high in moved if high - low > 1}


def changed(random: Random, arena: DictArena, head: TreeHead, order: list[int]) -> TreeHead:
    """Take a leaf out or put one in, and fail unless the spans are those of before with one ordinal less or more."""
    before = spans(arena)
    if head.count and random.random() < 0.5:
        at = random.randint(1, head.count)
        head = segment.remove(arena, head, at)
        order.pop(at - 1)
        assert spans(arena) == without(before, at)
        return head
    at = random.randint(0, head.count)
    grown = segment.beside(arena, head, at, leaf(100 + len(order), random))
    order.insert(at, grown.leaf.item or 0)
    assert without(spans(arena), at + 1) == {one for one in before if one[1] - one[0] > 1}
    assert leaf_at(arena, grown.head, at + 1).id == grown.leaf.id
    assert [one.id for one in grown.above] == way(arena, grown.head, grown.leaf.id)
    assert len(grown.closed) == (0 < at == head.count)
    return grown.head


def way(arena: DictArena, head: TreeHead, id_: int) -> list[int]:
    """Return the ids of the ancestors of a node, bottom-up."""
    found: list[int] = []
    while id_ != head.root:
        (id_,) = [node.id for node in arena.nodes.values() if id_ in node.children]
        found.append(id_)
    return found


def test_leaves_come_and_go_anywhere() -> None:
    """Their order is that of a list, the spans are those without the ordinal, and the tree stays sound."""
    for seed in range(200):
        random = Random(seed)
        arena, head, _ = lived(random, cuts=0.0)
        order = list(range(1, head.count + 1))
        for _ in range(10):
            head = changed(random, arena, head, order)
            sound(arena, head)
            assert [one.item for one in leaves(arena, head)] == order
            below = [(node, next(leaves(arena, TreeHead(1, 0, node.id)))) for node in arena.nodes.values()]
            assert all(node.key == first.key for node, first in below)


def test_a_tree_with_cuts_stays_sound_whatever_happens() -> None:
    """Leaves come and go, and then it is cut back and grows on."""
    for seed in range(200):
        random = Random(seed)
        arena, head, _ = lived(random, cuts=0.5)
        for at in range(20):
            which = random.randint(0, 3)
            if which == 0 and head.count:
                head = segment.remove(arena, head, random.randint(1, head.count))
            elif which == 1:
                head = segment.beside(arena, head, random.randint(0, head.count), leaf(at, random)).head
            elif which == 2:
                head = segment.truncate(arena, head, max(0, head.count - random.randint(0, 3)))
            else:
                level = random.randint(0, head.height) or None
                head = segment.insert(arena, head, leaf(at, random), level).head
            sound(arena, head)


def test_to_take_a_leaf_out_and_cut_back_before_it_is_to_cut_back() -> None:
    """So a leaf may go at once, and the tree may be made anew from its place later."""
    for seed in range(600):
        random = Random(seed)
        arena, head, was = lived(random)
        count = random.randint(0, head.count)
        for _ in range(random.randint(1, 4)):
            if head.count > count:
                head = segment.remove(arena, head, random.randint(count + 1, head.count))
        head = segment.truncate(arena, head, count)
        assert shape(arena, head) == was[count], seed
