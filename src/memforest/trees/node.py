"""MemTrees: B+-trees whose leaves are items in time order, and which grow to the right; and what must hold of any tree.

    >>> from memforest.nodes import DictArena, TreeHead
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

What always holds of a tree of fan-out k >= 3:

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
root grows; it reads the root, at most k nodes per level on the way down, and k + 1 per split. Only `walk`, `leaves`,
`outline` and `check` read a whole tree. A call that refuses its arguments has written nothing. Each node is put at most
once per call, with its version one up. Two writers at once are the arena's transaction to prevent.

Source: the balance rules are those of B+-trees (Comer, "The Ubiquitous B-Tree", 1979).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter
from typing import Literal

from memforest.nodes import Arena, Key, Node, TreeHead

Step = tuple[Node, int]
"""One step of a descent: an inner node and the position of the child that was taken."""

_low_key = attrgetter("key")


def descend(arena: Arena, head: TreeHead, key: Key) -> tuple[list[Step], Node | None]:
    """Return the way to the last leaf at or before `key`, and that leaf.

    When `key` comes before every leaf it is the way to the first leaf. The empty tree gives ``([], None)``.
    """
    steps: list[Step] = []
    if head.root is None:
        return steps, None
    node = arena.get(head.root)
    while node.children:
        at = len(node.children) - 1
        child = arena.get(node.children[at])
        if at and key < child.key:
            kids = arena.get_many(node.children[:at])
            at = max(0, bisect_right(kids, key, key=_low_key) - 1)
            child = kids[at]
        steps.append((node, at))
        node = child
    return steps, node


def path(arena: Arena, head: TreeHead, key: Key) -> list[Node]:
    """Return the nodes from the root to the leaf of `key`, both included.

    Raises:
        KeyError: No leaf has this key.
    """
    steps, leaf = descend(arena, head, key)
    if leaf is None or leaf.key != key:
        raise KeyError(key)
    return [*(node for node, _ in steps), leaf]


def walk(arena: Arena, head: TreeHead, during: tuple[int, int] | None = None) -> Iterator[Node]:
    """Yield every node, a parent before its children and siblings in key order.

    With `during`, a half-open interval ``(start_ms, end_ms)``, only nodes that overlap it, and nothing
    below the others is read. The tree must not change meanwhile.
    """
    stack = [] if head.root is None else [arena.get(head.root)]
    while stack:
        node = stack.pop()
        if during is None or (node.start_ms < during[1] and during[0] < node.end_ms):
            yield node
            if node.children:
                stack.extend(reversed(arena.get_many(node.children)))


def leaves(arena: Arena, head: TreeHead, during: tuple[int, int] | None = None) -> Iterator[Node]:
    """Yield the leaves in key order; with `during`, those that overlap it (see `walk`)."""
    return (node for node in walk(arena, head, during) if node.level == 0)


def outline(arena: Arena, head: TreeHead) -> str:
    """Return the tree as nested brackets around the start times of its keys, such as ``[[1 2 3] [4]]``."""

    def draw(node: Node) -> str:
        if not node.children:
            return str(node.key[0])
        return "[" + " ".join(draw(kid) for kid in arena.get_many(node.children)) + "]"

    return "" if head.root is None else draw(arena.get(head.root))


@dataclass(frozen=True, slots=True)
class Contract:
    """What must hold of the trees of one kind, as an index declares it.

    * "ordered": a MemTree, with the invariants above.
    * "partition": children tile the span of ordinals of their parent, in order, without a gap or an overlap. Each leaf is
      one ordinal, and the root of T leaves spans [1, T + 1). It is what `memforest.trees.segment` keeps.
    * "contained": a child's interval lies within its parent's. Siblings may interleave, or must be disjoint.

    Of every tree: nodes are of it and are reached once, a child's level is below its parent's, leaves and they alone have
    an item, a node counts the leaves below it, dirty nodes have dirty ancestors. Only the levels of a MemTree are
    heights, and its head's height is the level of the root.

    `disjoint` says that the intervals of siblings must not overlap (contained only), `unary` that an inner node may have
    a single child (an ordered tree has rules of its own).
    """

    shape: Literal["ordered", "partition", "contained"]
    disjoint: bool = False
    unary: bool = True


ORDERED = Contract("ordered")


def check(arena: Arena, head: TreeHead, contract: Contract = ORDERED) -> list[str]:
    """Return everything that is wrong with a tree, as sentences; nothing when it keeps the contract.

    Never raises for a broken tree: a missing node is one of the problems. Nothing below a node that is reported to be at
    a wrong level is looked at: it may even be an ancestor.
    """
    ordered = contract.shape == "ordered"
    root = _get(arena, head.root)
    if root is None and head.root is not None:
        return [f"head: root {head.root} is missing"]
    if root is None:
        return [] if head.count == head.height == 0 else [f"head: no root, yet {head}"]
    problems: list[str] = []
    leaves: list[Node] = []
    seen = {root.id}
    waiting = [(root, True)]
    while waiting:
        node, spine = waiting.pop()
        problems += _itself(head, node)
        if node.level <= 0:
            leaves.append(node)
            continue
        kids, missing = _kids(arena, node, seen)
        problems += [*missing, *_above(node, kids)]
        problems += _ordered(head, node, kids, spine) if ordered else _within(head, contract, node, kids)
        below = [kid for kid in kids if (kid.level == node.level - 1 if ordered else kid.level < node.level)]
        waiting += [(kid, spine and kid.id == node.children[-1]) for kid in reversed(below)]
    if len(leaves) != head.count:
        problems.append(f"head: count {head.count}, but there are {len(leaves)} leaves")
    if ordered and root.level != head.height:
        problems.append(f"head: height {head.height}, but the root is at level {root.level}")
    for one, other in pairwise(leaves) if ordered else ():
        if one.key >= other.key:
            problems.append(f"leaf {other.id}: key {other.key!r} does not come after {one.key!r}")
    return problems


def _get(arena: Arena, node: int | None) -> Node | None:
    """Return a node; None if there is none."""
    try:
        return None if node is None else arena.get(node)
    except KeyError:
        return None


def _kids(arena: Arena, node: Node, seen: set[int]) -> tuple[list[Node], list[str]]:
    """Return a node's children that are there and were not reached before, and what is wrong with the others."""
    kids, problems = [], []
    for child in node.children:
        kid = _get(arena, child)
        if kid is None:
            problems.append(f"node {node.id}: child {child} is missing")
        elif child in seen:
            problems.append(f"node {node.id}: child {child} at level {kid.level} is reached twice")
        else:
            seen.add(child)
            kids.append(kid)
    return kids, problems


def _itself(head: TreeHead, node: Node) -> Iterator[str]:
    """Yield what is wrong with a node whatever is above and below it."""
    if node.tree != head.tree:
        yield f"node {node.id}: is of tree {node.tree}, not {head.tree}"
    if node.start_ms >= node.end_ms:
        yield f"node {node.id}: interval [{node.start_ms}, {node.end_ms}) is empty"
    if node.span is not None and (_span(node) is None or node.span[0] >= node.span[1]):
        yield f"node {node.id}: span {node.span} is empty"
    payload = node.item_kind is not None or node.item is not None
    if node.level > 0 and payload:
        yield f"node {node.id}: an inner node with a payload"
    if node.level <= 0 and (node.children or node.count != 1 or node.item_kind is None or node.item is None):
        yield f"leaf {node.id}: has children, another count than 1, or no payload"


def _above(node: Node, kids: Sequence[Node]) -> Iterator[str]:
    """Yield where a node disagrees with its children whatever the contract."""
    for kid in kids:
        if kid.level >= node.level:
            yield f"node {node.id}: at level {node.level}, but its child {kid.id} is at level {kid.level}"
        if kid.dirty and not node.dirty:
            yield f"node {node.id}: clean, but its child {kid.id} is dirty"
    if kids and node.count != sum(kid.count for kid in kids):
        yield f"node {node.id}: count {node.count}, but its children have {sum(kid.count for kid in kids)}"


def _ordered(head: TreeHead, node: Node, kids: Sequence[Node], spine: bool) -> Iterator[str]:
    """Yield where a node of a MemTree disagrees with its children; `spine` says that it is on the right spine."""
    least = 2 if node.id == head.root else 1 if spine else (head.k + 1) // 2
    if not least <= len(node.children) <= head.k:
        yield f"node {node.id}: {len(node.children)} children, not {least} to {head.k}"
    for kid in kids:
        if kid.level < node.level - 1:
            yield f"node {node.id}: at level {node.level}, but its child {kid.id} is at level {kid.level}"
    if kids and node.key != kids[0].key:
        yield f"node {node.id}: low key {node.key!r}, but its first leaf has {kids[0].key!r}"
    hull = min((kid.start_ms for kid in kids), default=0), max((kid.end_ms for kid in kids), default=0)
    if kids and hull != (node.start_ms, node.end_ms):
        yield f"node {node.id}: hull {(node.start_ms, node.end_ms)}, but its children have {hull}"


def _within(head: TreeHead, contract: Contract, node: Node, kids: Sequence[Node]) -> Iterator[str]:
    """Yield where a node of another tree disagrees with its children: their number, intervals and spans."""
    least = 1 if contract.unary else 2
    if len(node.children) < least:
        yield f"node {node.id}: {len(node.children)} children, not {least} or more"
    for kid in kids:
        if kid.start_ms < node.start_ms or kid.end_ms > node.end_ms:
            outside = f"[{kid.start_ms}, {kid.end_ms})"
            yield (
                f"node {node.id}: interval [{node.start_ms}, {node.end_ms}), "
                f"but its child {kid.id} has {outside}"
            )
    if contract.shape == "partition":
        yield from _tiled(head, node, kids)
    elif contract.disjoint:
        for one, other in pairwise(sorted(kids, key=lambda kid: (kid.start_ms, kid.end_ms))):
            if other.start_ms < one.end_ms:
                yield f"node {node.id}: its children {one.id} and {other.id} overlap"


def _tiled(head: TreeHead, node: Node, kids: Sequence[Node]) -> Iterator[str]:
    """Yield where the spans of children do not tile that of their parent. A leaf needs no span of its own."""
    span = _span(node)
    if span is None:
        yield f"node {node.id}: has no span of ordinals"
        return
    if node.id == head.root and span != (1, 1 + head.count):
        yield f"node {node.id}: is the root and spans [{span[0]}, {span[1]}), not [1, {1 + head.count})"
    at = span[0]
    for kid in kids:
        # A leaf without a span is one ordinal; an inner node without one is reported for itself.
        low, high = _span(kid) or (at, at + (kid.level == 0))
        if low != at:
            what = "leaves a gap behind" if low > at else "overlaps"
            yield f"node {node.id}: the span of its child {kid.id} begins at {low} and {what} {at}"
        at = high
    if at != span[1]:
        yield f"node {node.id}: spans [{span[0]}, {span[1]}), but its children end at {at}"


def _span(node: Node) -> tuple[int, int] | None:
    """Return a node's span, None when it has none or half of one."""
    span: Sequence[int | None] = node.span or ()
    return node.span if len(span) == 2 and None not in span else None


def insert(
    arena: Arena, head: TreeHead, *, key: Key, start_ms: int, end_ms: int, item_kind: str, item: int
) -> tuple[TreeHead, int]:
    """Add a leaf at its place in key order and return the new head and the leaf's id.

    Raises:
        ValueError: The key is already in the tree, the interval ``[start_ms, end_ms)`` is empty, or `k` is below 3.
    """
    if head.k < 3:
        raise ValueError(f"fan-out k must be at least 3, not {head.k}: 2 cannot be kept balanced")
    if end_ms <= start_ms:
        raise ValueError(f"interval [{start_ms}, {end_ms}) is empty; a point in time is 1 ms long")
    steps, near = descend(arena, head, key)
    if near is not None and near.key == key:
        raise ValueError(f"key {key!r} is already in tree {head.tree}")
    leaf = Node(arena.new_id(), head.tree, 0, key, start_ms, end_ms, 1, (), item_kind, item, 1, True)
    arena.put(leaf)
    if near is None:
        return replace(head, root=leaf.id, count=1), leaf.id
    after = int(near.key < key)  # 0 only when the leaf becomes the first of the tree
    edge = all(at + 1 == len(node.children) for node, at in steps)  # it comes last of all
    orphan: Node | None = leaf  # a node that no parent knows yet
    for node, at in reversed(steps):
        ids, place = node.children, at + after
        if orphan is not None:
            ids = (*ids[:place], orphan.id, *ids[place:])
        after = 1  # an orphan inner node is the right part of the child that was taken
        if orphan is None or len(ids) <= head.k:
            # It got one leaf more below it, which is cheaper to add than to ask all its children.
            node.children = ids
            node.key = min(node.key, key)
            node.start_ms = min(node.start_ms, start_ms)
            node.end_ms = max(node.end_ms, end_ms)
            node.count += 1
            node.version += 1
            node.dirty = True
            arena.put(node)
            orphan = None
        elif edge:
            orphan = _parent(arena, [orphan])
        else:
            kids = arena.get_many(ids)
            half = (len(kids) + 1) // 2  # the left part is the larger: what comes next mostly comes later
            _adopt(arena, node, kids[:half])
            orphan = _parent(arena, kids[half:])
    if orphan is None:
        return replace(head, count=head.count + 1), leaf.id
    top = steps[0][0] if steps else near
    root = _parent(arena, sorted((top, orphan), key=_low_key))
    return replace(head, root=root.id, height=root.level, count=head.count + 1), leaf.id


def delete(arena: Arena, head: TreeHead, key: Key) -> TreeHead:
    """Remove the leaf of `key` and return the new head.

    A node off the right spine that is left with too few children joins its sibling, or shares evenly
    with it when one node cannot hold them all. A root with one child gives way to it; that child may
    be clean, so it is a change of ``head.root`` that tells of a new root, not a dirty mark.

    Raises:
        KeyError: No leaf has this key.
    """
    steps, leaf = descend(arena, head, key)
    if leaf is None or leaf.key != key:
        raise KeyError(key)
    off = (depth for depth, (node, at) in enumerate(steps) if at + 1 < len(node.children))
    spine = next(off, len(steps))  # how deep the way keeps to the last child
    arena.drop(leaf.id)
    if not steps:
        return replace(head, root=None, count=0)
    lost: int | None = leaf.id  # the child that its parent has to forget
    for depth in range(len(steps) - 1, 0, -1):
        node = steps[depth][0]
        ids = tuple([child for child in node.children if child != lost])
        lost = None
        if not ids:
            arena.drop(node.id)
            lost = node.id
        elif len(ids) < (head.k + 1) // 2 and depth > spine:
            lost = _rebalance(arena, head.k, steps[depth - 1], node, ids)
        else:
            _adopt(arena, node, arena.get_many(ids))
    root = steps[0][0]
    ids = tuple([child for child in root.children if child != lost])
    if len(ids) > 1:
        _adopt(arena, root, arena.get_many(ids))
        return replace(head, count=head.count - 1)
    arena.drop(root.id)  # its one child has at least two of its own, or is a leaf
    return replace(head, root=ids[0], height=head.height - 1, count=head.count - 1)


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
    node.version += 1
    node.dirty = True
    arena.put(node)


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
