"""`check` sees every kind of damage: one broken field, one problem named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from memforest.tree import DictArena, Leaf, Node, TreeHead, bulk_build, check, path


def sound() -> tuple[DictArena, TreeHead]:
    """Return ``[[[1 2 3] [4 5 6] [7 8 9]] [[10 11]]]``, all clean."""
    arena = DictArena()
    head = bulk_build(arena, 1, 3, [Leaf((day, ""), day, day + 1, "fact", day) for day in range(1, 12)])
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


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_to_one_node_is_named(name: str) -> None:
    """The leaf of day 5 or its parent, broken in one field."""
    level, damage, says = DAMAGE[name]
    arena, head = sound()
    node = path(arena, head, (5, ""))[-1 - level]
    arena.nodes[node.id] = damage(node)
    problems = check(arena, head)
    assert any(says in problem for problem in problems), problems


@pytest.mark.parametrize(
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
    head = bulk_build(arena, 1, 3, [Leaf((day, ""), day, day + 1, "fact", day) for day in range(4)])
    assert check(arena, head) == []
    root = arena.get(head.root or 0)
    arena.nodes[root.id] = replace(root, children=root.children[1:])
    assert any("1 children, not 2 to 3" in problem for problem in check(arena, head))
