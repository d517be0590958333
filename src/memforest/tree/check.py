"""What must hold of a MemTree, checked node by node. It reads the whole tree: for tests and `verify`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from memforest.tree.node import Arena, Node, TreeHead

__all__ = ["check"]


def check(arena: Arena, head: TreeHead) -> list[str]:
    """Return everything that is wrong with the tree, as sentences; nothing when it is sound.

    Never raises for a broken tree: a missing node is one of the problems. The invariants are listed in
    `memforest.tree.memtree`.
    """
    if head.root is None:
        return [] if head.count == head.height == 0 else [f"head: no root, yet {head}"]
    try:
        root = arena.get(head.root)
    except KeyError:
        return [f"head: root {head.root} is missing"]
    problems = []
    if root.level != head.height:
        problems.append(f"head: height {head.height}, but the root is at level {root.level}")
    found: list[Node] = []
    problems += _below(arena, head, root, True, found)
    if len(found) != head.count:
        problems.append(f"head: count {head.count}, but there are {len(found)} leaves")
    for one, other in pairwise(found):
        if one.key >= other.key:
            problems.append(f"leaf {other.id}: key {other.key!r} does not come after {one.key!r}")
    return problems


def _below(arena: Arena, head: TreeHead, node: Node, spine: bool, found: list[Node]) -> Iterator[str]:
    """Yield the problems of `node` and of all below it; append the leaves to `found`."""
    if node.tree != head.tree:
        yield f"node {node.id}: is of tree {node.tree}, not {head.tree}"
    if node.start_ms >= node.end_ms:
        yield f"node {node.id}: interval [{node.start_ms}, {node.end_ms}) is empty"
    if node.level == 0:
        found.append(node)
        if node.children or node.count != 1 or node.item_kind is None or node.item is None:
            yield f"leaf {node.id}: has children, another count than 1, or no payload"
        return
    if node.item_kind is not None or node.item is not None:
        yield f"node {node.id}: an inner node with a payload"
    yield from _fan_out(head, node, spine)
    kids = []
    for child in node.children:
        try:
            kids.append(arena.get(child))
        except KeyError:
            yield f"node {node.id}: child {child} is missing"
    yield from _against(node, kids)
    for kid in kids:
        if kid.level == node.level - 1:  # else it was reported, and may even be an ancestor
            yield from _below(arena, head, kid, spine and kid.id == node.children[-1], found)


def _fan_out(head: TreeHead, node: Node, spine: bool) -> Iterator[str]:
    """Yield when the node has too few or too many children for its place."""
    floor = 1 if spine else (head.k + 1) // 2
    least = 2 if node.id == head.root else floor
    if not least <= len(node.children) <= head.k:
        yield f"node {node.id}: {len(node.children)} children, not {least} to {head.k}"


def _against(node: Node, kids: Sequence[Node]) -> Iterator[str]:
    """Yield where the node disagrees with its children."""
    for kid in kids:
        if kid.level != node.level - 1:
            yield f"node {node.id}: at level {node.level}, but its child {kid.id} is at level {kid.level}"
        if kid.dirty and not node.dirty:
            yield f"node {node.id}: clean, but its child {kid.id} is dirty"
    if not kids:
        return
    if node.key != kids[0].key:
        yield f"node {node.id}: low key {node.key!r}, but its first leaf has {kids[0].key!r}"
    hull = min(kid.start_ms for kid in kids), max(kid.end_ms for kid in kids)
    if (node.start_ms, node.end_ms) != hull:
        yield f"node {node.id}: hull {(node.start_ms, node.end_ms)}, but its children have {hull}"
    if node.count != sum(kid.count for kid in kids):
        yield f"node {node.id}: count {node.count}, but its children have {sum(kid.count for kid in kids)}"
