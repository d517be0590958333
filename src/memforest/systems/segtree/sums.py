"""The sums of leaf vectors by which the nodes of the tree are compared, as its nodes keep them.

They stand in a node's own state (`memforest.tree.segment.own_state`): of nodes of the frontier exactly, in float64; of others
as a unit vector of half precision, by which neighbours are compared when the node above them is cut.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from memforest.store.packing import NUMBER
from memforest.store.trees import SqliteArena
from memforest.store.tx import Tx
from memforest.systems.segtree import rows, vector_rows
from memforest.systems.segtree.settings import SegTreeSettings
from memforest.tree import Node
from memforest.tree.segment import own_state, with_own_state

_SUM, _UNIT = b"s", b"u"
"""What stands in front of a node's own state: of an exact sum, or of a unit vector of half precision."""

Vector = NDArray[np.float64]


class Sums:
    """The sums of nodes inside one write transaction; `write` puts those of the frontier back."""

    def __init__(self, tx: Tx, arena: SqliteArena, settings: SegTreeSettings) -> None:
        self._tx, self._arena = tx, arena
        self._of_text = settings.leaf_vector == "text"
        self._cuts = settings.fan_out_max > 0
        self._known: dict[int, Vector | None] = {}
        """Of nodes of the frontier, as far as they were read or have changed; None where it is not known."""

    def of(self, node: Node) -> Vector | None:
        """Return the sum of the leaves below a node of the frontier; None where it is not known."""
        if node.id not in self._known:
            stored = own_state(node)
            self._known[node.id] = np.frombuffer(stored[1:], dtype="<f8") if stored[:1] == _SUM else None
        return self._known[node.id]

    def has(self, node: Node) -> bool:
        """Return whether the sum of a node was read or kept in this transaction."""
        return node.id in self._known

    def keep(self, node: Node, total: Vector | None) -> None:
        """Keep the sum of a node of the frontier, or that it is not known."""
        self._known[node.id] = total

    def forget(self) -> None:
        """Forget all sums that are not written."""
        self._known.clear()

    def close(self, node: Node, total: Vector | None) -> None:
        """Write of a node that is no end any more what its neighbours are compared with."""
        self._known.pop(node.id, None)
        kept = b""
        if total is not None and self._cuts:
            length = float(np.sqrt((total * total).sum()))
            kept = _UNIT + (total / length if length else total).astype(NUMBER).tobytes()
        self._arena.put(with_own_state(node, kept))

    def write(self, ends: Iterable[Node]) -> None:
        """Write the sums of the inner nodes of the frontier that have changed."""
        for node in ends:
            kept = self.of(node)
            state = b"" if kept is None else _SUM + kept.astype("<f8").tobytes()
            if state != own_state(node):
                self._arena.put(with_own_state(node, state))

    def neighbours(self, kids: Sequence[Node]) -> list[Vector | None]:
        """Return what neighbouring children are compared by; None where it is not known."""
        leaves = self.leaf_vectors(kids)
        found: list[Vector | None] = []
        for kid in kids:
            if not kid.level:
                found.append(leaves.get(kid.id))
            elif kid.id in self._known:
                found.append(self._known[kid.id])
            else:
                kept = own_state(kid)
                unit = np.frombuffer(kept[1:], dtype=NUMBER).astype(np.float64)
                found.append(unit if kept[:1] == _UNIT else None)
        return found

    def total(self, nodes: Sequence[Node]) -> Vector | None:
        """Return the exact sum of all leaves below some nodes, read one by one; None if a vector is missing."""
        leaves: list[Node] = []
        stack = list(nodes)
        while stack:
            inner = [one for one in stack if one.level]
            leaves += [one for one in stack if not one.level]
            try:
                stack = self._arena.get_many([child for one in inner for child in one.children])
            except KeyError:  # a leaf has gone with its turn
                return None
            if stack and max(one.level for one in stack) >= max(one.level for one in inner):
                return None  # no tree
        found = self.leaf_vectors(leaves)
        return None if len(found) < len(leaves) or not leaves else np.sum(list(found.values()), axis=0)

    def leaf_vectors(self, nodes: Sequence[Node]) -> dict[int, Vector]:
        """Return the vectors of leaves by the id of their node, those that there are."""
        turns = {node.item or 0: node.id for node in nodes if not node.level}
        exchanges = {one: turns[turn] for one, turn in rows.beginning_with(self._tx, turns).items()}
        found = vector_rows.leaf_vectors(self._tx, exchanges, of_text=self._of_text)
        return {exchanges[one]: vector for one, vector in found.items()}

    def of_exchanges(self, exchanges: Collection[int], gone: Mapping[int, Vector | None]) -> Vector | None:
        """Return the sum of the vectors of exchanges; None if one of them is not known.

        Args:
            exchanges: each once.
            gone: vectors of those whose turns are not stored any more.
        """
        stored = [one for one in exchanges if one not in gone]
        found = vector_rows.leaf_vectors(self._tx, stored, of_text=self._of_text)
        vectors = [*found.values(), *(known for one in exchanges if (known := gone.get(one)) is not None)]
        return np.sum(vectors, axis=0) if len(vectors) == len(exchanges) else None
