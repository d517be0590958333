"""`check` sees every kind of damage: one broken field, one problem named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

from tests.doubles.leaves import Leaf
from tests.table import each

from memforest.nodes import DictArena, Node, TreeHead
from memforest.trees.node import Contract, check, insert, path


def sound() -> tuple[DictArena, TreeHead]:
    """Return ``[[[1 2 3] [4 5 6] [7 8 9]] [[10 11]]]``, all clean."""
    arena = DictArena()
    head = TreeHead(1, 3)
    for day in range(1, 12):
        head, _ = insert(arena, head, **Leaf((day, ""), day, day + 1, "fact", day)._asdict())
    for node in arena.nodes.values():
        node.dirty = False
    return arena, head


def test_a_sound_tree_has_no_problems() -> None:
    """Neither has the empty tree."""
    assert check(*sound()) == []
    assert check(DictArena(), TreeHead(1, 3)) == []


DAMAGE: dict[str, tuple[int, Callable[[Node], Node], str]] = {
    "another tree": (0, lambda node: replace(node, tree=2), "is of tree 2"),
    "empty interval": (0, lambda node: replace(node, end_ms=node.start_ms), "is empty"),
    "leaf with children": (0, lambda node: replace(node, children=(1,)), "has children"),
    "leaf count": (0, lambda node: replace(node, count=2), "another count"),
    "no payload": (0, lambda node: replace(node, item=None), "no payload"),
    "order": (0, lambda node: replace(node, key=(6, "x")), "does not come after"),
    "dirty below clean": (0, lambda node: replace(node, dirty=True), "clean, but its child"),
    "leaf depth": (0, lambda node: replace(node, level=1), "is at level 1"),
    "inner payload": (1, lambda node: replace(node, item=3), "inner node with a payload"),
    "low key": (1, lambda node: replace(node, key=(3, "")), "low key"),
    "hull": (1, lambda node: replace(node, end_ms=99), "hull"),
    "count": (1, lambda node: replace(node, count=4), "count 4"),
    "too few": (1, lambda node: replace(node, children=node.children[:1]), "1 children, not 2 to 3"),
    "none": (1, lambda node: replace(node, children=()), "0 children, not 2 to 3"),
    "too many": (1, lambda node: replace(node, children=(*node.children, 1, 2)), "5 children"),
    "missing child": (1, lambda node: replace(node, children=(*node.children[:2], 999)), "999 is missing"),
    "a cycle": (1, lambda node: replace(node, children=(*node.children[:2], node.id)), "at level 1"),
}


@each("name", DAMAGE)
def test_damage_to_one_node_is_named(name: str) -> None:
    """The leaf of day 5 or its parent, broken in one field."""
    level, damage, says = DAMAGE[name]
    arena, head = sound()
    node = path(arena, head, (5, ""))[-1 - level]
    arena.nodes[node.id] = damage(node)
    problems = check(arena, head)
    assert any(says in problem for problem in problems), problems


@each(
    ("head", "says"),
    [
        (TreeHead(1, 3, None, 1, 0), "no root"),
        (TreeHead(1, 3, 999, 3, 11), "root 999 is missing"),
        (replace(sound()[1], height=2), "height 2"),
        (replace(sound()[1], count=12), "count 12"),
        (replace(sound()[1], k=9), "children, not 5 to 9"),
    ],
)
def test_a_wrong_head_is_named(head: TreeHead, says: str) -> None:
    """The head has to agree with the tree it names."""
    problems = check(sound()[0], head)
    assert any(says in problem for problem in problems), problems


def test_one_child_is_right_on_the_spine_and_wrong_at_the_root() -> None:
    """Right-edge splits leave nodes with one child on the right spine; a root with one is never left."""
    arena = DictArena()
    head = TreeHead(1, 3)
    for day in range(4):
        head, _ = insert(arena, head, **Leaf((day, ""), day, day + 1, "fact", day)._asdict())
    assert check(arena, head) == []
    root = arena.get(head.root or 0)
    arena.nodes[root.id] = replace(root, children=root.children[1:])
    assert any("1 children, not 2 to 3" in problem for problem in check(arena, head))


CONTRACTS = {
    "partition": Contract("partition"),
    "partition, two children": Contract("partition", unary=False),
    "contained": Contract("contained"),
    "contained, disjoint": Contract("contained", disjoint=True),
}


def grown(random: Random) -> tuple[DictArena, TreeHead]:
    """Return a tree of a random shape that keeps every contract; levels skip numbers, and nodes may be unary."""
    arena = DictArena()
    unary = random.random() < 0.5

    def plant(at: int, size: int) -> Node:
        start, end = at * 10, (at + size) * 10
        node = Node(arena.new_id(), 1, 0, (start, ""), start, end, size, (), None, None, 1, False)
        if size == 1 and not (unary and random.random() < 0.3):
            node.item_kind, node.item = "fact", at
        else:
            cuts = {at, at + size, *(at + random.randint(1, size) for _ in range(2))}
            cuts |= set() if unary else {at + 1}
            below = [plant(low, high - low) for low, high in pairwise(sorted(cuts))]
            node.children, node.span = tuple(kid.id for kid in below), (at, at + size)
            node.level = random.randint(1, 3) + max(kid.level for kid in below)
        arena.put(node)
        return node

    root = plant(1, random.randint(2, 9))
    return arena, TreeHead(1, 0, root.id, root.level, root.count)


def sound_by_definition(arena: DictArena, head: TreeHead, contract: Contract) -> bool:
    """Return whether a tree keeps a contract, the slow and obvious way; whatever raises is not sound."""
    reached: list[int] = []

    def leaves(node: Node) -> int:
        reached.append(node.id)
        assert len(reached) <= len(arena.nodes)
        assert node.tree == head.tree
        assert node.start_ms < node.end_ms
        kids = [arena.nodes[child] for child in node.children]
        assert node.span is None or node.span[0] < node.span[1]
        if node.level == 0:
            assert not kids
            assert (node.count, node.item_kind is None, node.item is None) == (1, False, False)
            return 1
        assert (node.item_kind, node.item) == (None, None)
        assert len(kids) >= (1 if contract.unary else 2)
        assert all(kid.level < node.level for kid in kids)
        assert all(node.start_ms <= kid.start_ms and kid.end_ms <= node.end_ms for kid in kids)
        assert node.dirty or not any(kid.dirty for kid in kids)
        if contract.disjoint:
            assert not any(
                one is not other and one.start_ms < other.end_ms and other.start_ms < one.end_ms
                for one in kids
                for other in kids
            )
        if contract.shape == "partition":
            assert node.span is not None
            tiles: list[int] = []
            for kid in kids:
                low = tiles[-1] + 1 if tiles else node.span[0]
                tiles += range(*(kid.span or (low, low + 1 if kid.level == 0 else low)))
            assert tiles == list(range(*node.span))
        assert node.count == sum(leaves(kid) for kid in kids)
        return node.count

    try:
        root = arena.nodes[head.root or 0]
        assert contract.shape != "ordered" or root.level == head.height
        assert contract.shape == "contained" or not root.level or root.span == (1, head.count + 1)
        return leaves(root) == head.count and len(set(reached)) == len(reached)
    except (AssertionError, KeyError, TypeError, IndexError):
        return False


def damaged(random: Random, arena: DictArena) -> None:
    """Change one field of one node, to anything."""
    node = random.choice(list(arena.nodes.values()))
    low = random.randint(0, 9)
    changes: list[dict[str, Any]] = [
        {"tree": 2},
        {"level": random.randint(0, 12)},
        {"start_ms": random.randint(-10, 99)},
        {"end_ms": random.randint(-10, 99)},
        {"count": random.randint(0, 9)},
        {"span": (low, low + random.randint(-1, 5))},
        {"span": None},
        {"span": (low, None)},
        {"item": None, "item_kind": None},
        {"item": 5, "item_kind": "fact"},
        {"dirty": True},
        {"children": node.children[1:]},
        {"children": (*node.children, random.choice(list(arena.nodes)))},
        {"children": (*node.children, 999)},
        {"children": node.children[::-1]},
    ]
    arena.nodes[node.id] = replace(node, **random.choice(changes))


@each("name", CONTRACTS)
def test_a_contract_is_what_its_definition_says(name: str) -> None:
    """On random trees, sound and with random damage, the check finds something if and only if the definition does."""
    contract = CONTRACTS[name]
    seen = Counter[bool]()
    for seed in range(1500):
        random = Random(seed)
        arena, head = grown(random)
        for _ in range(random.choice((0, 1, 1, 2, 4))):
            damaged(random, arena)
        problems = check(arena, head, contract)
        assert (problems == []) == sound_by_definition(arena, head, contract), (seed, problems)
        seen[problems == []] += 1
    assert min(seen[True], seen[False]) > 100


def test_siblings_may_interleave_unless_they_must_not() -> None:
    """Two windows that overlap are contained in their parent, and are not disjoint."""
    arena = DictArena()
    for id_, start, end in ((1, 0, 6), (2, 4, 9)):
        arena.put(Node(id_, 1, 0, (start, ""), start, end, 1, (), "fact", id_, 1, False))
    arena.put(Node(3, 1, 5, (0, ""), 0, 10, 2, (1, 2), None, None, 1, False))
    head = TreeHead(1, 0, 3, 0, 2)
    assert check(arena, head, Contract("contained")) == []
    (problem,) = check(arena, head, Contract("contained", disjoint=True))
    assert "1 and 2 overlap" in problem


def test_spans_tile_without_gap_or_overlap() -> None:
    """The sentence says which, and where."""
    arena = DictArena()
    for id_ in (1, 2):
        arena.put(Node(id_, 1, 0, (id_, ""), 0, 5, 1, (), "turn", id_, 1, False, span=(id_, id_ + 1)))
    arena.put(Node(3, 1, 1, (0, ""), 0, 5, 2, (1, 2), None, None, 1, False, span=(1, 3)))
    head = TreeHead(1, 0, 3, 1, 2)
    assert check(arena, head, Contract("partition")) == []
    for low, says in ((3, "leaves a gap behind 2"), (1, "overlaps 2")):
        arena.nodes[2] = replace(arena.nodes[2], span=(low, 3 if low < 3 else 4))
        assert says in check(arena, head, Contract("partition"))[0]


def test_a_root_spans_all_leaves_from_one() -> None:
    """A tree whose spans are all one too far tiles well, and is wrong."""
    arena = DictArena()
    for id_ in (1, 2):
        arena.put(Node(id_, 1, 0, (id_, ""), 0, 5, 1, (), "turn", id_, 1, False))
    arena.put(Node(3, 1, 4, (0, ""), 0, 5, 2, (1, 2), None, None, 1, False, span=(2, 4)))
    (problem,) = check(arena, TreeHead(1, 0, 3, 4, 2), Contract("partition"))
    assert "is the root and spans [2, 4), not [1, 3)" in problem
    arena.nodes[3] = replace(arena.nodes[3], span=(1, 3))
    assert check(arena, TreeHead(1, 0, 3, 4, 2), Contract("partition")) == []


def test_a_chain_as_deep_as_can_be_is_checked() -> None:
    """Unary nodes, five thousand one below the other: no recursion, and nothing is wrong."""
    arena = DictArena()
    arena.put(Node(1, 1, 0, (0, ""), 0, 1, 1, (), "fact", 1, 1, False))
    for id_ in range(2, 5002):
        arena.put(Node(id_, 1, id_ - 1, (0, ""), 0, 1, 1, (id_ - 1,), None, None, 1, False))
    assert check(arena, TreeHead(1, 0, 5001, 5000, 1), Contract("contained")) == []
    (problem,) = [
        one
        for one in check(arena, TreeHead(1, 0, 5001, 5000, 1), Contract("contained", unary=False))
        if "node 9:" in one
    ]
    assert "1 children, not 2 or more" in problem
