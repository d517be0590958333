"""Finding things in a MemTree: down to a key, along the leaves, through the whole tree.

A descent reads one child per level while it keeps to the right edge, where new leaves usually go, and
the children of one node per level elsewhere. Only `walk`, `leaves` and `outline` can read a whole tree.


What must hold of a tree, checked node by node. It reads the whole tree: for tests and `verify`.

Three contracts, of which an index declares one for each kind of its trees:

* **ordered**: a MemTree; the invariants are listed in `memforest.trees.node`.
* **partition**: children tile the span of ordinals of their parent, in order, without a gap or an overlap. Each leaf is one
  ordinal, and the root of T leaves spans [1, T + 1). It is what `memforest.trees.segment` keeps.
* **contained**: a child's interval lies within its parent's. Siblings may interleave, or must be disjoint.

Of every tree: nodes are of it and are reached once, a child's level is below its parent's, leaves and they alone have an
item, a node counts the leaves below it, dirty nodes have dirty ancestors. Only the levels of a MemTree are heights; the head's
height is the level of the root where the contract is not "contained".


Changing a MemTree: a B+-tree whose leaves are items in time order, and which grows to the right.

    >>> from memforest.trees import DictArena, TreeHead, outline, path
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

What always holds (`memforest.trees.node` tests it), for a tree of fan-out k >= 3:

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

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter
from typing import Literal

from memforest.nodes import Arena, Key, Leaf, Node, TreeHead

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


_Family = Callable[[Node, Sequence[Node], bool], Iterator[str]]
"""Yields what is wrong between a node and its children; the flag says that the node is on the right spine."""


@dataclass(frozen=True, slots=True)
class Contract:
    """What must hold of the trees of one kind.

    `disjoint` says that the intervals of siblings must not overlap (contained only), `unary` that an inner node may have
    a single child (an ordered tree has rules of its own).
    """

    shape: Literal["ordered", "partition", "contained"]
    disjoint: bool = False
    unary: bool = True


ORDERED = Contract("ordered")


def check(arena: Arena, head: TreeHead, contract: Contract = ORDERED) -> list[str]:
    """Return everything that is wrong with a tree, as sentences; nothing when it keeps the contract.

    Never raises for a broken tree: a missing node is one of the problems.
    """
    if contract.shape == "ordered":
        return check_ordered(arena, head)
    if contract.shape == "partition":
        return check_partition(arena, head, unary=contract.unary)
    return check_contained(arena, head, disjoint=contract.disjoint, unary=contract.unary)


def check_ordered(arena: Arena, head: TreeHead) -> list[str]:
    """Return everything that is wrong with a MemTree; see `check`."""

    def family(node: Node, kids: Sequence[Node], spine: bool) -> Iterator[str]:
        floor = 1 if spine else (head.k + 1) // 2
        least = 2 if node.id == head.root else floor
        if not least <= len(node.children) <= head.k:
            yield f"node {node.id}: {len(node.children)} children, not {least} to {head.k}"
        yield from _steps(node, kids)
        if kids and node.key != kids[0].key:
            yield f"node {node.id}: low key {node.key!r}, but its first leaf has {kids[0].key!r}"
        if kids and (hull := _hull(kids)) != (node.start_ms, node.end_ms):
            yield f"node {node.id}: hull {(node.start_ms, node.end_ms)}, but its children have {hull}"

    problems, leaves = _read(arena, head, family, step=1)
    problems += _top(head, _root(arena, head))
    for one, other in pairwise(leaves):
        if one.key >= other.key:
            problems.append(f"leaf {other.id}: key {other.key!r} does not come after {one.key!r}")
    return problems


def check_partition(arena: Arena, head: TreeHead, *, unary: bool = True) -> list[str]:
    """Return everything that is wrong with a tree of spans; see `check`.

    A leaf needs no span of its own. Intervals lie within those above them.
    """

    def family(node: Node, kids: Sequence[Node], spine: bool) -> Iterator[str]:
        yield from _children(node, unary)
        yield from _within(node, kids)
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

    return _read(arena, head, family)[0]


def check_contained(arena: Arena, head: TreeHead, *, disjoint: bool = False, unary: bool = True) -> list[str]:
    """Return everything that is wrong with a tree of intervals; see `check`.

    With `disjoint`, the intervals of siblings must not overlap.
    """

    def family(node: Node, kids: Sequence[Node], spine: bool) -> Iterator[str]:
        yield from _children(node, unary)
        yield from _within(node, kids)
        if disjoint:
            for one, other in pairwise(sorted(kids, key=lambda kid: (kid.start_ms, kid.end_ms))):
                if other.start_ms < one.end_ms:
                    yield f"node {node.id}: its children {one.id} and {other.id} overlap"

    return _read(arena, head, family)[0]


# -- what holds of every tree ---------------------------------------------------------------------


def _root(arena: Arena, head: TreeHead) -> Node | None:
    try:
        return None if head.root is None else arena.get(head.root)
    except KeyError:
        return None


def _read(
    arena: Arena, head: TreeHead, family: _Family, step: int | None = None
) -> tuple[list[str], list[Node]]:
    """Return the problems of all nodes, and the leaves in the order of the children.

    Nothing below a node that is reported to be at a wrong level is looked at: it may even be an ancestor.

    Args:
        arena: where the nodes are.
        head: of the tree.
        family: the contract's own.
        step: levels from a node to its children; None for one or more.
    """
    root = _root(arena, head)
    if root is None:
        if head.root is not None:
            return [f"head: root {head.root} is missing"], []
        return ([] if head.count == head.height == 0 else [f"head: no root, yet {head}"]), []
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
        problems += [*missing, *_above(node, kids), *family(node, kids, spine)]
        below = [kid for kid in kids if (kid.level == node.level - step if step else kid.level < node.level)]
        waiting += [(kid, spine and kid.id == node.children[-1]) for kid in reversed(below)]
    if len(leaves) != head.count:
        problems.append(f"head: count {head.count}, but there are {len(leaves)} leaves")
    return problems, leaves


def _kids(arena: Arena, node: Node, seen: set[int]) -> tuple[list[Node], list[str]]:
    """Return a node's children that are there and were not reached before, and what is wrong with the others."""
    kids, problems = [], []
    for child in node.children:
        try:
            kid = arena.get(child)
        except KeyError:
            problems.append(f"node {node.id}: child {child} is missing")
            continue
        if child in seen:
            problems.append(f"node {node.id}: child {child} at level {kid.level} is reached twice")
            continue
        seen.add(child)
        kids.append(kid)
    return kids, problems


def _top(head: TreeHead, root: Node | None) -> Iterator[str]:
    """Yield where the head disagrees with the level of its root."""
    if root is not None and root.level != head.height:
        yield f"head: height {head.height}, but the root is at level {root.level}"


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


# -- parts of contracts ---------------------------------------------------------------------------


def _steps(node: Node, kids: Sequence[Node]) -> Iterator[str]:
    for kid in kids:
        if kid.level < node.level - 1:
            yield f"node {node.id}: at level {node.level}, but its child {kid.id} is at level {kid.level}"


def _children(node: Node, unary: bool) -> Iterator[str]:
    least = 1 if unary else 2
    if len(node.children) < least:
        yield f"node {node.id}: {len(node.children)} children, not {least} or more"


def _within(node: Node, kids: Sequence[Node]) -> Iterator[str]:
    for kid in kids:
        if kid.start_ms < node.start_ms or kid.end_ms > node.end_ms:
            outside = f"[{kid.start_ms}, {kid.end_ms})"
            yield (
                f"node {node.id}: interval [{node.start_ms}, {node.end_ms}), "
                f"but its child {kid.id} has {outside}"
            )


def _hull(kids: Sequence[Node]) -> tuple[int, int]:
    return min(kid.start_ms for kid in kids), max(kid.end_ms for kid in kids)


def _span(node: Node) -> tuple[int, int] | None:
    """Return a node's span, None when it has none or half of one."""
    span: Sequence[int | None] = node.span or ()
    if len(span) != 2 or None in span:
        return None
    return node.span


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
