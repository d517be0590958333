"""Changing a MemTree: a B+-tree whose leaves are items in time order, and which grows to the right.

    >>> from memforest.tree import DictArena, TreeHead, outline, path
    >>> arena, head = DictArena(), TreeHead(tree=1, k=3)
    >>> for day in range(1, 11):
    ...     head, _ = insert(arena, head, key=(day, ""), start_ms=day, end_ms=day + 1, item_kind="fact", item=day)
    >>> outline(arena, head)
    '[[[1 2 3] [4 5 6] [7 8 9]] [[10]]]'
    >>> head.height, [node.end_ms for node in path(arena, head, (5, ""))]
    (3, [11, 10, 7, 6])
    >>> for day in (2, 3, 10):
    ...     head = delete(arena, head, (day, ""))
    >>> outline(arena, head)
    '[[1 4] [5 6] [7 8 9]]'

What always holds (`memforest.tree.check` tests it), for a tree of fan-out k >= 3:

* The root of a tree with one leaf is that leaf; of a larger one, an inner node with 2..k children. The
  empty tree has no root. No inner node is ever empty, and all leaves are equally deep.
* An inner node has ceil(k/2)..k children, but 1..k on the **right spine** (the root's last child, that
  one's last child, …). New leaves mostly come last in time, so a full node that overflows at the right
  edge of the tree stays full and untouched, and a new node with the one new child is begun beside it.
  Everywhere else a node splits in halves. Either way what is left behind off the spine is full enough.
* Hence ordered appends fill every node off the spine and give height ceil(log_k N), the least possible,
  and after any history N > ceil(k/2) ** (height - 1): the first child of the root is off the spine.
* A node's hull, low key and leaf count are those of its children. Dirty nodes have dirty ancestors.

One insert writes the leaf, its `height` ancestors, one more node per split in halves and one more if the
root grows; it reads the root, at most k nodes per level on the way down, and k + 1 per split. Nothing
scans a tree. A call that refuses its arguments has written nothing. Each node is put at most once per
call, with its version one up.

It is not safe for two writers at once: that is the arena's transaction to prevent.

Source: the balance rules are those of B+-trees (Comer, "The Ubiquitous B-Tree", 1979).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from memforest.tree.node import Arena, Key, Leaf, Node, TreeHead
from memforest.tree.walk import Step, descend


def insert(
    arena: Arena, head: TreeHead, *, key: Key, start_ms: int, end_ms: int, item_kind: str, item: int
) -> tuple[TreeHead, int]:
    """Add a leaf at its place in key order and return the new head and the leaf's id.

    Raises:
        ValueError: The key is already in the tree, or the interval ``[start_ms, end_ms)`` is empty.
    """
    new = Leaf(key, start_ms, end_ms, item_kind, item)
    _check_interval(start_ms, end_ms)
    steps, near = descend(arena, head, key)
    if near is None:
        leaf = _plant(arena, head.tree, new)
        return replace(head, root=leaf.id, count=1), leaf.id
    if near.key == key:
        raise ValueError(f"key {key!r} is already in tree {head.tree}")
    leaf = _plant(arena, head.tree, new)
    after = int(near.key < key)  # 0 only when the leaf becomes the first of the tree
    edge = _spine_steps(steps) == len(steps)
    orphan: Node | None = leaf  # a node that no parent knows yet
    for node, at in reversed(steps):
        if orphan is None:
            _grow(arena, node, node.children, leaf)
        elif len(node.children) < head.k:
            _grow(arena, node, _with(node.children, at + after, orphan.id), leaf)
            orphan = None
        elif edge:
            orphan = _parent(arena, [orphan])
        else:
            orphan = _split(arena, node, at + after, orphan)
        after = 1  # an orphan inner node is the right part of the child that was taken
    if orphan is None:
        return replace(head, count=head.count + 1), leaf.id
    top = steps[0][0] if steps else near
    root = _parent(arena, sorted((top, orphan), key=lambda node: node.key))
    return replace(head, root=root.id, height=root.level, count=head.count + 1), leaf.id


def delete(arena: Arena, head: TreeHead, key: Key) -> TreeHead:
    """Remove the leaf of `key` and return the new head.

    A node off the right spine that is left with too few children joins its sibling, or shares evenly
    with it when one node cannot hold them all. A root with one child gives way to it; that child may
    be clean, so it is a change of ``head.root`` that tells of a new root, not a dirty mark.

    Raises:
        KeyError: No leaf has this key.
    """
    steps, leaf = _find(arena, head, key)
    spine = _spine_steps(steps)
    arena.drop(leaf.id)
    if not steps:
        return replace(head, root=None, count=0)
    lost: int | None = leaf.id  # the child that its parent has to forget
    for depth in range(len(steps) - 1, 0, -1):
        node = steps[depth][0]
        ids = _without(node.children, lost)
        lost = None
        if not ids:
            arena.drop(node.id)
            lost = node.id
        elif len(ids) < (head.k + 1) // 2 and depth > spine:
            lost = _rebalance(arena, head.k, steps[depth - 1], node, ids)
        else:
            _adopt(arena, node, arena.get_many(ids))
    root = steps[0][0]
    ids = _without(root.children, lost)
    if len(ids) > 1:
        _adopt(arena, root, arena.get_many(ids))
        return replace(head, count=head.count - 1)
    arena.drop(root.id)  # its one child has at least two of its own, or is a leaf
    return replace(head, root=ids[0], height=head.height - 1, count=head.count - 1)


def bulk_build(arena: Arena, tree: int, k: int, leaves: Iterable[Leaf]) -> TreeHead:
    """Build a tree from leaves in any order: the shape that inserting them in key order would give.

    Raises:
        ValueError: Two leaves have the same key, an interval is empty, or `k` is below 3.
    """
    head = TreeHead(tree, k)
    ordered = sorted(leaves, key=lambda leaf: leaf.key)
    for leaf in ordered:
        _check_interval(leaf.start_ms, leaf.end_ms)
    for one, other in pairwise(ordered):
        if one.key == other.key:
            raise ValueError(f"key {one.key!r} comes twice in tree {tree}")
    if not ordered:
        return head
    nodes = [_plant(arena, tree, leaf) for leaf in ordered]
    while len(nodes) > 1:
        nodes = [_parent(arena, nodes[i : i + k]) for i in range(0, len(nodes), k)]
    return replace(head, root=nodes[0].id, height=nodes[0].level, count=len(ordered))


# Writing one node


def _write(arena: Arena, node: Node) -> None:
    """Put a changed node; the only place that does."""
    node.version += 1
    node.dirty = True
    arena.put(node)


def _plant(arena: Arena, tree: int, leaf: Leaf) -> Node:
    """Write a new leaf and return it."""
    key, start_ms, end_ms, kind, item = leaf
    node = Node(arena.new_id(), tree, 0, key, start_ms, end_ms, 1, (), kind, item, 0, True)
    _write(arena, node)
    return node


def _parent(arena: Arena, kids: Sequence[Node]) -> Node:
    """Write a new inner node over `kids` and return it."""
    first = kids[0]
    node = Node(arena.new_id(), first.tree, first.level + 1, first.key, 0, 0, 0, (), None, None, 0, True)
    _adopt(arena, node, kids)
    return node


def _adopt(arena: Arena, node: Node, kids: Sequence[Node]) -> None:
    """Make `kids` the children of `node`, and write it with their low key, hull and count."""
    node.children = tuple([kid.id for kid in kids])
    node.key = kids[0].key
    node.start_ms = min([kid.start_ms for kid in kids])
    node.end_ms = max([kid.end_ms for kid in kids])
    node.count = sum([kid.count for kid in kids])
    _write(arena, node)


def _grow(arena: Arena, node: Node, ids: tuple[int, ...], leaf: Node) -> None:
    """Write an inner node that got one leaf more below it: cheaper than to ask all its children."""
    node.children = ids
    node.key = min(node.key, leaf.key)
    node.start_ms = min(node.start_ms, leaf.start_ms)
    node.end_ms = max(node.end_ms, leaf.end_ms)
    node.count += 1
    _write(arena, node)


# Keeping the balance


def _split(arena: Arena, node: Node, place: int, orphan: Node) -> Node:
    """Split the full `node`, to which `orphan` belongs at `place`; return the new right part, an orphan too."""
    kids = arena.get_many(_with(node.children, place, orphan.id))
    half = (len(kids) + 1) // 2  # the left part is the larger: what comes next mostly comes later
    _adopt(arena, node, kids[:half])
    return _parent(arena, kids[half:])


def _rebalance(arena: Arena, k: int, step: Step, node: Node, ids: tuple[int, ...]) -> int | None:
    """Join `node`, left with the too few children `ids`, with a sibling under the parent in `step`.

    Returns the id of the node that was dropped, or None when both remain and share the children.
    """
    parent, at = step
    if at + 1 < len(parent.children):
        left, right = node, arena.get(parent.children[at + 1])
        kids = arena.get_many(ids + right.children)
    else:
        left, right = arena.get(parent.children[at - 1]), node
        kids = arena.get_many(left.children + ids)
    if len(kids) <= k:
        _adopt(arena, left, kids)
        arena.drop(right.id)
        return right.id
    half = (len(kids) + 1) // 2
    _adopt(arena, left, kids[:half])
    _adopt(arena, right, kids[half:])
    return None


# Small parts


def _find(arena: Arena, head: TreeHead, key: Key) -> tuple[list[Step], Node]:
    """Descend to the leaf of `key`; KeyError when there is none."""
    steps, leaf = descend(arena, head, key)
    if leaf is None or leaf.key != key:
        raise KeyError(key)
    return steps, leaf


def _spine_steps(steps: Sequence[Step]) -> int:
    """Count the steps from the root that keep to the last child: how deep the way is on the right spine."""
    for depth, (node, at) in enumerate(steps):
        if at + 1 < len(node.children):
            return depth
    return len(steps)


def _with(ids: tuple[int, ...], place: int, new: int) -> tuple[int, ...]:
    return (*ids[:place], new, *ids[place:])


def _without(ids: tuple[int, ...], lost: int | None) -> tuple[int, ...]:
    return ids if lost is None else tuple([child for child in ids if child != lost])


def _check_interval(start_ms: int, end_ms: int) -> None:
    if end_ms <= start_ms:
        raise ValueError(f"interval [{start_ms}, {end_ms}) is empty; a point in time is 1 ms long")
