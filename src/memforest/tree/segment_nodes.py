"""The nodes of a segment tree, one at a time or a part of a tree at once: what `memforest.tree.segment` is made of.

A leaf may be gone from the arena while the inner nodes still name it. It is read as None then, and counts as one ordinal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from memforest.tree.node import Arena, Key, Node, TreeHead

CUT_BYTES = 8  # of `Node.state`: how many leaves there were when the node was cut off, or made above such parts; else 0


@dataclass(frozen=True, slots=True)
class NewLeaf:
    """A leaf before it has a place: its key, its half-open interval in ms and the items it stands for."""

    key: Key
    start_ms: int
    end_ms: int
    item_kind: str
    item: int
    item_last: int | None = None


def own_state(node: Node) -> bytes:
    """Return what the index keeps in an inner node's `state`: empty if it kept nothing, or if it has to be made anew.

    `cut`, `truncate` and `remove` empty it where they change which leaves are below a node. `insert` and `beside` leave it as it was
    for the caller to bring up to date, in the nodes of `Grown.above`.
    """
    return b"" if node.state is None else node.state[CUT_BYTES:]


def with_own_state(node: Node, own: bytes) -> Node:
    """Set what the index keeps in an inner node's `state`, in place, and return the node; to `put` it is the caller's."""
    node.state = cut_at(node).to_bytes(CUT_BYTES, "little") + own
    return node


# Writing


def check_leaf(leaf: NewLeaf) -> None:
    """Refuse an empty interval with a ValueError."""
    if leaf.end_ms <= leaf.start_ms:
        raise ValueError(f"interval [{leaf.start_ms}, {leaf.end_ms}) is empty; a point in time is 1 ms long")


def write(arena: Arena, node: Node) -> None:
    """Put a node that says something else than before."""
    node.version += 1
    node.dirty = True
    arena.put(node)


def plant_leaf(arena: Arena, tree: int, leaf: NewLeaf) -> Node:
    """Write a new leaf and return it."""
    what = (leaf.item_kind, leaf.item, 0, True, leaf.item_last)
    node = Node(arena.new_id(), tree, 0, leaf.key, leaf.start_ms, leaf.end_ms, 1, (), *what)
    write(arena, node)
    return node


def plant_inner(arena: Arena, level: int, kids: Sequence[Node], low: int) -> Node:
    """Write a new inner node over `kids`, the first of which begins at `low`, and return it."""
    one = kids[0]
    node = Node(
        arena.new_id(), one.tree, level, one.key, one.start_ms, one.end_ms, 0, (), None, None, 0, True
    )
    adopt(arena, node, tuple(kid.id for kid in kids), kids, low)
    return node


def grow(arena: Arena, node: Node, leaf: Node) -> None:
    """Write an inner node that got one leaf more below it: cheaper than to ask all its children."""
    low = low_of(node)
    node.count += 1
    node.span = (low, low + node.count)
    node.start_ms = min(node.start_ms, leaf.start_ms)
    node.end_ms = max(node.end_ms, leaf.end_ms)
    write(arena, node)


def adopt(arena: Arena, node: Node, ids: tuple[int, ...], kids: Sequence[Node | None], low: int) -> None:
    """Write an inner node with these children, from ordinal `low` on; what the index kept in its state goes."""
    node.children = ids
    node.count = sum(size(kid) for kid in kids)
    node.span = (low, low + node.count)
    if known := [kid for kid in kids if kid is not None]:
        node.key = known[0].key
        node.start_ms = min(kid.start_ms for kid in known)
        node.end_ms = max(kid.end_ms for kid in known)
    if node.state is not None:
        with_own_state(node, b"")
    write(arena, node)


def refill(arena: Arena, node: Node, ids: tuple[int, ...]) -> tuple[int, ...]:
    """Give a node the children it is left with; return what comes in its place: itself, its one child, or nothing."""
    if len(ids) > 1:
        adopt(arena, node, ids, kids_of(arena, ids), low_of(node))
        return (node.id,)
    arena.drop(node.id)
    return ids


def crown(arena: Arena, head: TreeHead, top: tuple[int, ...]) -> TreeHead:
    """Return the head of the tree below `top`, one node or none; a root with one child gives way to it."""
    if not top:
        return TreeHead(head.tree, head.k)
    node = find(arena, top[0])
    while node is not None and len(node.children) == 1:
        arena.drop(node.id)
        top = node.children
        node = find(arena, top[0])
    return replace(head, root=top[0], height=0 if node is None else node.level)


def shift(arena: Arena, ids: Sequence[int], at: int, by: int) -> None:
    """Move the spans of what is at and below some nodes."""
    waiting = list(ids)
    while waiting:
        inner = [node for node in kids_of(arena, waiting) if node is not None and node.level]
        waiting = []
        for node in inner:
            low = low_of(node) + by
            node.span = (low, low + node.count)
            move_cut(node, at, by)
            arena.put(node)
            if node.level > 1:
                waiting += node.children


def drop_below(arena: Arena, ids: Sequence[int]) -> None:
    """Drop nodes and all below them that are there."""
    waiting = list(ids)
    while waiting:
        found = [node for node in kids_of(arena, waiting) if node is not None]
        waiting = [child for node in found for child in node.children]
        for node in found:
            arena.drop(node.id)


# Reading


def find(arena: Arena, node_id: int) -> Node | None:
    """Return a node; None if it is gone, which only a leaf may be."""
    try:
        return arena.get(node_id)
    except KeyError:
        return None


def kids_of(arena: Arena, ids: Sequence[int]) -> Sequence[Node | None]:
    """Return nodes in the order of `ids`, in one round trip if none is gone."""
    try:
        return arena.get_many(ids)
    except KeyError:
        return [find(arena, node_id) for node_id in ids]


def size(node: Node | None) -> int:
    """Return how many ordinals a node stands for: a leaf, also one that is gone, for one."""
    return 1 if node is None else node.count


def lower(node: Node, above: Node) -> Node:
    """Return a node that is below another by its level too; a damaged tree may go round in circles.

    Raises:
        ValueError: It is not.
    """
    if node.level >= above.level:
        raise ValueError(f"node {node.id} is below node {above.id}, and not by its level")
    return node


def low_of(node: Node) -> int:
    """Return the first ordinal of an inner node."""
    if node.span is None:
        raise ValueError(f"node {node.id} has no span of ordinals: tree {node.tree} is no segment tree")
    return node.span[0]


def cut_at(node: Node) -> int:
    """Return how many leaves there were when a node was cut off, or made as a root above the parts of a cut one; else 0."""
    return 0 if node.state is None else int.from_bytes(node.state[:CUT_BYTES], "little")


def move_cut(node: Node, at: int, by: int) -> None:
    """Keep the mark of a cut right when the ordinals from `at` on move; in place."""
    if (made := cut_at(node)) >= at:
        node.state = (made + by).to_bytes(CUT_BYTES, "little") + own_state(node)
