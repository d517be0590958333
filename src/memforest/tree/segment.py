"""A segment tree over what comes one after the other, which grows at its right edge. Pure: no I/O, no model, no clock.

    >>> from memforest.tree import DictArena, TreeHead, outline
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

Nothing is asked of a leaf but what `NewLeaf` says, and of a leaf that is gone from the arena nothing but its id: whatever
takes leaves out reads such a leaf as one ordinal without an interval. What is left of it in the arena is not this module's to
delete, and before a tree grows, its last leaf has to be there.

Source: SegTreeMem (arXiv 2606.04555), section 4 and Algorithm 1; levels there count from 1. Virtual levels, cuts and taking
leaves out are not in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from memforest.tree.node import Arena, Node, TreeHead
from memforest.tree.segment_nodes import (
    CUT_BYTES,
    NewLeaf,
    adopt,
    check_leaf,
    crown,
    cut_at,
    drop_below,
    find,
    grow,
    kids_of,
    low_of,
    lower,
    move_cut,
    own_state,
    plant_inner,
    plant_leaf,
    refill,
    shift,
    size,
    with_own_state,
    write,
)

__all__ = [
    "Choice",
    "Grown",
    "NewLeaf",
    "beside",
    "choices",
    "cut",
    "frontier",
    "insert",
    "leaf_at",
    "own_state",
    "remove",
    "truncate",
    "with_own_state",
]


@dataclass(frozen=True, slots=True)
class Choice:
    """A node of the frontier that a new leaf may be compared with, and the level that picking it means."""

    node: Node
    level: int


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


def choices(ends: Sequence[Node]) -> list[Choice]:
    """Return what the next leaf may be compared with, lowest first: one choice for each stretch that the frontier holds.

    Virtual levels of one stretch would say the same: the lowest of them is meant. Below two leaves there is no choice.
    """
    found: list[Choice] = []
    for node, above in zip(ends, [*ends, None][1:], strict=True):
        low = max(node.level, 1)
        high = node.level if above is None else above.level - 1
        if high < low:
            continue  # the last leaf, with its parent right above
        found.append(Choice(node, low))
    return found


def leaf_at(arena: Arena, head: TreeHead, at: int) -> Node:
    """Return the leaf at an ordinal.

    Raises:
        ValueError: There is no such ordinal.
        KeyError: The leaf is gone from the arena.
    """
    return arena.get(_descend(arena, head, at)[1])


# Growing at the right edge


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


# Taking leaves out, and in again


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
        left = _left_of(arena, *steps[depth - 1]) if alone else None
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


# The way to an ordinal


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


def _left_of(arena: Arena, parent: Node, place: int) -> Node | None:
    """Return the child in front of one, if there is one."""
    return find(arena, parent.children[place - 1]) if place else None


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
