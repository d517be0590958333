"""A segment tree over what comes one after the other, which grows at its right edge. Pure: no I/O, no model, no clock.

    >>> from memforest.nodes import DictArena, TreeHead
    >>> from memforest.trees.node import outline
    >>> arena, head = DictArena(), TreeHead(tree=1, k=0)
    >>> for at, level in enumerate((None, None, 1, None, 1, 2), 1):
    ...     head = insert(arena, head, NewLeaf((at, ""), at, at + 1, "turn", at), level).head
    >>> outline(arena, head)
    '[[1 2 3] [4 5] 6]'

Leaves have **ordinals** from 1 in the order of arrival. An inner node stands for an unbroken stretch of them, its half-open
`span`, which its children tile in order. The nodes that end with the last leaf are the **frontier**, one on each level from the
leaf (level 0) to the root; only they change when a leaf is added. The caller says to which of them the new leaf belongs:

* level n: the new leaf becomes the last child of the frontier's node of level n;
* None: it belongs to none of them, and a new root goes above the old root and the new leaf.

**Virtual levels**: an inner node has two children at least. A stretch of one child is not stored, and the levels
between a node and its parent stay choices all the same: picking one makes a node there, over the child and the new leaf. The
paper stores the one-child nodes: the spans are the same, and T leaves may need T(T + 1) / 2 nodes instead of 2T - 1.

`insert` writes the new leaf, the nodes of the frontier that end with it and at most one new node.
It reads the frontier, and nothing if that is passed as `ends`. Leaves never move. A call that refuses its arguments has written
nothing. It is not safe for two writers at once: that is the arena's transaction to prevent.

A leaf may be gone from the arena while the inner nodes still name it: it is read as None then, and counts as one ordinal
without an interval. Before a tree grows, its last leaf has to be there.

Source: SegTreeMem (arXiv 2606.04555), section 4 and Algorithm 1; levels there count from 1. Virtual levels, cuts and taking
leaves out are not in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from memforest.nodes import Arena, Key, Node, TreeHead

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


@dataclass(frozen=True, slots=True)
class Grown:
    """A tree that has one leaf more.

    `above` are the inner nodes over the new leaf, bottom-up; after `insert` the next frontier is ``(leaf, *above)``.
    `closed` are nodes of the frontier before, bottom-up, that no longer end with the last leaf.
    """

    head: TreeHead
    leaf: Node
    above: tuple[Node, ...]
    closed: tuple[Node, ...]


def frontier(arena: Arena, head: TreeHead) -> list[Node]:
    """Return the nodes that end with the last leaf, from that leaf up to the root; nothing of the empty tree."""
    ends: list[Node] = []
    at = head.root
    while at is not None:
        node = arena.get(at)
        ends.append(lower(node, ends[-1]) if ends else node)
        at = node.children[-1] if node.children else None
    return ends[::-1]


def choices(ends: Sequence[Node]) -> list[tuple[Node, int]]:
    """Return the nodes of the frontier that a new leaf may be compared with, lowest first, each with the level it means.

    There is one choice for each stretch that the frontier holds.

    Virtual levels of one stretch would say the same: the lowest of them is meant. Below two leaves there is no choice.
    """
    found: list[tuple[Node, int]] = []
    for node, above in zip(ends, [*ends, None][1:], strict=True):
        low = max(node.level, 1)
        high = node.level if above is None else above.level - 1
        if high < low:
            continue  # the last leaf, with its parent right above
        found.append((node, low))
    return found


def insert(
    arena: Arena,
    head: TreeHead,
    leaf: NewLeaf,
    level: int | None,
    *,
    ends: Sequence[Node] | None = None,
) -> Grown:
    """Add the next leaf below the frontier's node of a level, or below a new root.

    Args:
        arena: where the nodes are.
        head: of the tree.
        leaf: what comes next.
        level: 1 to ``head.height``, or None for a new root. The first leaf needs no level and the second always makes a
            root of level 1: it is ignored then.
        ends: the frontier, if at hand; else it is read.

    Raises:
        ValueError: There is no such level, or the interval is empty.
    """
    check_leaf(leaf)
    if head.count < 2:
        level = None
    elif level is not None and not 1 <= level <= head.height:
        raise ValueError(
            f"no level {level}: tree {head.tree} has levels 1 to {head.height}, or None for a new root"
        )
    if ends is None:
        ends = frontier(arena, head)
    place = len(ends) if level is None else next(i for i, node in enumerate(ends) if node.level >= level)
    new = plant_leaf(arena, head.tree, leaf)
    grown = replace(head, count=head.count + 1)
    if not ends:
        return Grown(replace(grown, root=new.id), new, (), ())
    goal = head.height + 1 if level is None else level
    above = list(ends[place:])
    if above and above[0].level == goal:
        above[0].children += (new.id,)
        made: list[Node] = []
    else:
        below = ends[place - 1]
        made = [plant_inner(arena, goal, (below, new), low_of(below) if below.level else head.count)]
        if above:
            above[0].children = (*above[0].children[:-1], made[0].id)
    for node in above:
        grow(arena, node, new)
    above = [*made, *above]
    grown = replace(grown, root=above[-1].id, height=above[-1].level)
    return Grown(grown, new, tuple(above), tuple(ends[:place]))


def cut(
    arena: Arena,
    head: TreeHead,
    node_id: int,
    at: int,
    *,
    ends: Sequence[Node] | None = None,
) -> TreeHead:
    """Cut a node of the frontier: its children from index `at` on become a node of the same level, right behind it.

    Both have the same parent; a cut root gets a new root above. The new node remembers how many leaves there were, so
    that `truncate` to fewer undoes the cut: cut a node right behind the insert that filled it. A new root remembers it
    too: `cut_at` tells it from one that was made above a leaf of its own.

    Raises:
        ValueError: The node is not an inner node of the frontier, or a part would have less than two children.
    """
    if ends is None:
        ends = frontier(arena, head)
    place = next((i for i, node in enumerate(ends) if node.id == node_id and node.level), None)
    if place is None:
        raise ValueError(f"node {node_id} is not an inner node of the frontier of tree {head.tree}")
    node, above = ends[place], ends[place + 1 :]
    if not 2 <= at <= len(node.children) - 2:
        raise ValueError(
            f"cut of node {node_id} at {at}: each part of its {len(node.children)} children needs 2 or more"
        )
    ids, kids, low = node.children, kids_of(arena, node.children), low_of(node)
    adopt(arena, node, ids[:at], kids[:at], low)
    part = replace(node, id=arena.new_id(), version=0, state=head.count.to_bytes(CUT_BYTES, "little"))
    adopt(arena, part, ids[at:], kids[at:], low + node.count)
    if not above:
        root = plant_inner(arena, node.level + 1, (node, part), low)
        root.state = part.state
        arena.put(root)
        return replace(head, root=root.id, height=root.level)
    above[0].children += (part.id,)
    for one in above:
        write(arena, one)
    return head


def truncate(arena: Arena, head: TreeHead, count: int) -> TreeHead:
    """Return to the tree as it was when it had its first `count` leaves; 0 is the empty tree.

    Cuts made since are undone: those of nodes that were cut off when there were more than `count` leaves. Writes what is
    dropped and the frontier of then; reads these and the children of the latter.

    Raises:
        ValueError: There are less than `count` leaves, or `count` is negative.
    """
    if not 0 <= count <= head.count:
        raise ValueError(f"no first {count} leaves: tree {head.tree} has {head.count}")
    if head.root is None:
        return head
    if not count:
        drop_below(arena, (head.root,))
        return TreeHead(head.tree, head.k)
    # The way to the last leaf that stays: nodes, the children each keeps, and whether it says something else.
    steps: list[tuple[Node, tuple[int, ...], bool]] = []
    node, joined = find(arena, head.root), False
    while node is not None and node.level:
        touched = joined or low_of(node) + node.count - 1 > count
        keep, joined = _keep(arena, node, count)
        steps.append((node, keep, touched or joined))
        node = find(arena, keep[-1])
    rest, changed = (steps[-1][1][-1:] if steps else (head.root,)), False
    for node, keep, touched in reversed(steps):
        changed = changed or touched
        rest = refill(arena, node, keep[:-1] + rest) if changed else (node.id,)
    return crown(arena, replace(head, count=count), rest)


def remove(arena: Arena, head: TreeHead, at: int) -> TreeHead:
    """Take out the leaf at an ordinal; the others keep their places, and the ordinals behind it become one less.

    A part that was cut off and has one child left joins what it was cut from. So to take out a leaf and then to `truncate`
    before it is to truncate, unless a later cut of their parent went between the two.

    Raises:
        ValueError: There is no such ordinal.
    """
    steps, leaf = _descend(arena, head, at)
    drop_below(arena, (leaf,))
    rest: tuple[int, ...] = ()  # what comes in the place of the child on the way
    for depth in reversed(range(len(steps))):
        node, place = steps[depth]
        shift(arena, node.children[place + 1 :], at + 1, -1)
        move_cut(node, at + 1, -1)  # a cut right behind this leaf is still younger than the one before it
        keep = node.children[:place] + rest + node.children[place + 1 :]
        alone = depth > 0 and len(keep) == 1 and cut_at(node) > 0
        above, at_above = steps[depth - 1]
        left = find(arena, above.children[at_above - 1]) if alone and at_above else None
        if left is not None and left.level == node.level:
            refill(arena, left, left.children + keep)
            keep = ()
        rest = refill(arena, node, keep)
    return crown(arena, replace(head, count=head.count - 1), rest)


def beside(arena: Arena, head: TreeHead, at: int, leaf: NewLeaf) -> Grown:
    """Add a leaf right behind the leaf at an ordinal, below the same parent; 0 is in front of the first.

    The ordinals behind it become one more. `Grown.closed` is the old last leaf if that is no longer the last.

    Raises:
        ValueError: There is no such ordinal, or the interval is empty.
    """
    check_leaf(leaf)
    if head.count < 2 and at in (0, head.count):
        return _beside_one(arena, head, at, leaf)
    steps, near = _descend(arena, head, max(at, 1))
    closed = tuple(one for one in (find(arena, near),) if one is not None and at == head.count)
    new = plant_leaf(arena, head.tree, leaf)
    above: list[Node] = []
    for node, place in reversed(steps):
        shift(arena, node.children[place + 1 :], at + 1, 1)
        move_cut(node, at + 1, 1)
        if not above:
            place += at > 0
            node.children = (*node.children[:place], new.id, *node.children[place:])
        if not at:
            node.key = new.key
        grow(arena, node, new)
        above.append(node)
    return Grown(replace(head, count=head.count + 1), new, tuple(above), closed)


def _beside_one(arena: Arena, head: TreeHead, at: int, leaf: NewLeaf) -> Grown:
    """Add a leaf to a tree of none or one."""
    grown = insert(arena, head, leaf, None)
    if at or not head.count:
        return grown
    root = grown.above[0]
    root.children = root.children[::-1]
    root.key = leaf.key
    arena.put(root)
    return replace(grown, closed=())


def _descend(arena: Arena, head: TreeHead, at: int) -> tuple[list[tuple[Node, int]], int]:
    """Return the inner nodes from the root to the leaf at an ordinal, each with the place of the child taken, and the leaf's id."""
    if head.root is None or not 1 <= at <= head.count:
        raise ValueError(f"no leaf {at}: tree {head.tree} has leaves 1 to {head.count}")
    steps: list[tuple[Node, int]] = []
    node, leaf = find(arena, head.root), head.root
    while node is not None and node.level:
        low, place = low_of(node), 0
        kids = kids_of(arena, node.children)
        while low + size(kids[place]) <= at:
            low += size(kids[place])
            place += 1
        steps.append((node, place))
        leaf, kid = node.children[place], kids[place]
        node = None if kid is None else lower(kid, node)
    return steps, leaf


def _keep(arena: Arena, node: Node, count: int) -> tuple[tuple[int, ...], bool]:
    """Drop the children that begin behind `count`, and undo the cut of the last that stays if it is younger.

    Returns the children that stay, and whether the last of them has more of its own than before.
    """
    kids = kids_of(arena, node.children)
    starts = list(accumulate([low_of(node), *(size(kid) for kid in kids[:-1])]))
    most = keep = sum(start <= count for start in starts)
    drop_below(arena, node.children[keep:])
    while keep > 1:
        left, last = kids[keep - 2], kids[keep - 1]
        if left is None or last is None or left.level != last.level or cut_at(last) <= count:
            break
        left.children += last.children
        left.count += last.count
        arena.put(left)
        arena.drop(last.id)
        keep -= 1
    return node.children[:keep], keep < most
