"""What a MemTree is made of: nodes, the head that names the root, and the port to where nodes live.

Nodes name their children by id and nothing names its parent: moving a child to another parent leaves
the child's row as it is, and a node's ancestors are found by descending to it with its key.

"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

Key = tuple[int, str]
"""What orders the leaves: ``(start in ms since the epoch, tie)``. The tie makes it unique in its tree."""


@dataclass(slots=True)
class Node:
    """One node: a leaf with a payload (level 0), or an inner node with children (level 1 and up).

    A node is changed in place and then `put`; what an arena handed out is not safe to keep across writes.
    """

    id: int
    tree: int
    level: int
    """0 for a leaf; one more than its children for an inner node."""
    key: Key
    """A leaf's own key; an inner node's low key, which is the key of the first leaf below it."""
    start_ms: int
    end_ms: int
    """The half-open interval of a leaf, the hull of the children's for an inner node. Never empty."""
    count: int
    """Leaves at or below this node; 1 for a leaf."""
    children: tuple[int, ...]
    """Ids in key order; empty for a leaf."""
    item_kind: str | None
    item: int | None
    """A leaf's payload; both are None for an inner node."""
    version: int
    """Grows by one whenever the node, or anything below it, is written."""
    dirty: bool
    """What is derived from this node is out of date. A dirty node's ancestors are all dirty."""
    item_last: int | None = None
    """The last item of a leaf that stands for a run of them, from `item` on; None for a single one."""
    span: tuple[int, int] | None = None
    """A half-open interval of ordinals, in trees that count what they hold."""
    window: str | None = None
    """The key of the calendar window that the node stands for."""
    state: bytes | None = None
    """What placing below this node needs to know, in the words of the index."""


class Arena(Protocol):
    """Where the nodes of any number of trees live, such as a dict or a table."""

    def get(self, node_id: int) -> Node:
        """Return the node.

        Raises:
            KeyError: There is no such node.
        """
        ...

    def get_many(self, ids: Sequence[int]) -> list[Node]:
        """Return the nodes in the order of `ids`; one round trip where that matters.

        Raises:
            KeyError: One of them does not exist.
        """
        ...

    def new_id(self) -> int:
        """Return an id that no node has or had."""
        ...

    def put(self, node: Node) -> None:
        """Insert the node, or replace the one of the same id."""
        ...

    def drop(self, node_id: int) -> None:
        """Remove the node.

        Raises:
            KeyError: There is no such node.
        """
        ...


@dataclass(frozen=True, slots=True)
class TreeHead:
    """The one thing to remember of a tree between two calls; ``TreeHead(tree, k)`` is the empty tree.

    `k` is the largest fan-out and a constant of the tree; 0 for a tree that has none, which is no MemTree. `height` is the number of inner levels: 0 while
    the tree is empty or the root is its only leaf, so the root's level is the height. `count` is the
    number of leaves. A fan-out of 2 is refused: a node that splits then leaves a part with one child, so that
    inserts in an unlucky order would make a chain as tall as the tree is large.

    """

    tree: int
    k: int
    root: int | None = None
    height: int = 0
    count: int = 0


class DictArena:
    """The reference arena: nodes in a dict, with `reads` and `writes` counted in nodes."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.reads = self.writes = 0
        self._last_id = 0

    def get(self, node_id: int) -> Node:
        """Return the node itself, not a copy."""
        self.reads += 1
        return self.nodes[node_id]

    def get_many(self, ids: Sequence[int]) -> list[Node]:
        """Return the nodes themselves, in the order of `ids`."""
        self.reads += len(ids)
        nodes = self.nodes
        return [nodes[node_id] for node_id in ids]

    def new_id(self) -> int:
        """Return 1, then 2, and so on."""
        self._last_id += 1
        return self._last_id

    def put(self, node: Node) -> None:
        """Keep the node."""
        self.writes += 1
        self.nodes[node.id] = node

    def drop(self, node_id: int) -> None:
        """Forget the node."""
        del self.nodes[node_id]
