"""Finding things in a MemTree: down to a key, along the leaves, through the whole tree.

A descent reads one child per level while it keeps to the right edge, where new leaves usually go, and
the children of one node per level elsewhere. Only `walk`, `leaves` and `outline` can read a whole tree.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter

from memforest.tree.node import Arena, Key, Node, TreeHead

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
