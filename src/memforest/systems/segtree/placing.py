"""What the index does inside the transactions of others: exchanges whose turns change or go leave the tree."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memforest.store import derived
from memforest.store.tx import Tx
from memforest.systems.base import Items, Placed
from memforest.systems.segtree import rows, vector_rows
from memforest.systems.segtree.grow import SegTree
from memforest.systems.segtree.receive import recut
from memforest.systems.segtree.rows import Exchange
from memforest.systems.segtree.settings import SegTreeSettings


class SegTreePlacing:
    """Takes exchanges out of the tree in a transaction that changes turns; see `memforest.systems.base.Placing`.

    Nothing is placed here: the index is deferred.
    """

    def __init__(self, tx: Tx, settings: SegTreeSettings) -> None:
        self._tx, self._settings = tx, settings
        self._tree = SegTree(tx, settings)
        self._left: dict[int, tuple[Exchange, tuple[int, ...]]] = {}
        """Exchanges that were announced, with their turns as they were."""
        self._vectors: dict[int, NDArray[np.float64] | None] = {}

    def leave(self, items: Items) -> None:
        """Mark what is above exchanges whose turns are about to change, and keep what they are compared by."""
        found = [one for one in rows.of_turns(self._tx, items.get("turn", ())) if one.id not in self._left]
        placed = [one for one in found if one.state == rows.PLACED]
        marked = [
            node
            for at in self._tree.ordinals([one.id for one in placed]).values()
            for node in self._tree.mark_above(at)
        ]
        if self._settings.reads_texts:  # else the next leaf could be placed by what is hidden now
            derived.drop_summaries(self._tx, sorted(set(marked)))
        of_text = self._settings.leaf_vector == "text"
        self._vectors |= vector_rows.leaf_vectors(self._tx, [one.id for one in placed], of_text=of_text)
        for one in found:
            self._left[one.id] = one, rows.turns_between(self._tx, one.session, one.first, one.last)

    def place(self, items: Items) -> None:
        """Place nothing: `advance` does."""

    def close(self) -> Placed:
        """Take those exchanges out of the tree whose turns are others now, cut what is left anew, and write everything back."""
        of_text = self._settings.leaf_vector == "text"  # what is as it was is told otherwise now
        changed = [
            one
            for one, turns in self._left.values()
            if of_text or rows.turns_between(self._tx, one.session, one.first, one.last) != turns
        ]
        if changed:
            recut(self._tx, self._tree, self._settings, {}, changed, self._vectors)
        return self._tree.close()
