"""What must hold of a tree, checked node by node. It reads the whole tree: for tests and `verify`.

Three contracts, of which an index declares one for each kind of its trees:

* **ordered**: a MemTree; the invariants are listed in `memforest.tree.memtree`.
* **partition**: children tile the span of ordinals of their parent, in order, without a gap or an overlap. Each leaf is one
  ordinal, and the root of T leaves spans [1, T + 1). It is what `memforest.tree.segment` keeps.
* **contained**: a child's interval lies within its parent's. Siblings may interleave, or must be disjoint.

Of every tree: nodes are of it and are reached once, a child's level is below its parent's, leaves and they alone have an
item, a node counts the leaves below it, dirty nodes have dirty ancestors. Only the levels of a MemTree are heights; the head's
height is the level of the root where the contract is not "contained".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from memforest.tree.node import Arena, Node, TreeHead

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
