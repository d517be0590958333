"""Segment trees of random decisions, and what there is to compare of them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from memforest.nodes import Arena, DictArena, Node, TreeHead
from memforest.trees import segment
from memforest.trees.segment import NewLeaf

Shape = tuple[object, ...]
Spans = set[tuple[int, int]]


def leaf(at: int, random: Random | None = None) -> NewLeaf:
    """Return a leaf with an interval that says nothing of its place."""
    start = random.randint(0, 50) if random else at
    return NewLeaf((at, ""), start, start + 9, "turn", at, at + 1)


def decisions(random: Random, most: int = 60) -> Iterator[int | None]:
    """Yield up to `most` levels to pick, each as a share of the height; None for none of them."""
    none = random.random()
    for _ in range(random.randint(1, most)):
        yield None if random.random() < none else random.randint(0, 10**6)


def grow(picked: list[int | None]) -> tuple[DictArena, TreeHead]:
    """Return the tree of decisions, from the leaf up."""
    arena, head = DictArena(), TreeHead(1, 0)
    ends: list[Node] = []
    for at, pick in enumerate(picked, 1):
        level = None if pick is None or not head.height else pick % head.height + 1
        grown = segment.insert(arena, head, leaf(at), level, ends=ends)
        head, ends = grown.head, [grown.leaf, *grown.above]
    return arena, head


def levels(*picked: int | None) -> tuple[DictArena, TreeHead]:
    """Return the tree of levels that are picked as they are."""
    arena, head = DictArena(), TreeHead(1, 0)
    for at, level in enumerate(picked, 1):
        head = segment.insert(arena, head, leaf(at), level).head
    return arena, head


def spans(arena: DictArena) -> Spans:
    """Return the stretches of two leaves or more."""
    found = {node.span for node in arena.nodes.values() if node.level and node.count > 1}
    return {span for span in found if span is not None}


def shape(arena: Arena, head: TreeHead) -> Shape:
    """Return all that makes a tree, but for ids, versions and marks."""

    def of(node: Node) -> Shape:
        kids = tuple(of(arena.get(child)) for child in node.children)
        cut_at = (node.state or bytes(8))[:8]
        hull = (node.key, node.start_ms, node.end_ms)
        return (node.level, node.span, node.count, node.item, hull, cut_at, kids)

    return () if head.root is None else (head.height, head.count, of(arena.get(head.root)))


def leaf_at(arena: Arena, head: TreeHead, at: int) -> Node:
    """Return the leaf at an ordinal.

    Raises:
        ValueError: There is no such ordinal.
        KeyError: The leaf is gone from the arena.
    """
    return arena.get(segment._descend(arena, head, at)[1])
