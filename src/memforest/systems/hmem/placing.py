"""What the index does inside the transactions of others: what told of events that change or go is not told any more."""

from __future__ import annotations

from memforest.store import derived
from memforest.store import trees as tree_rows
from memforest.store.tx import Tx
from memforest.systems.base import Items, Placed
from memforest.systems.hmem import rows
from memforest.systems.hmem.event_rows import KINDS
from memforest.systems.hmem.grow import OWNER
from memforest.systems.hmem.levels import EVENT
from memforest.systems.hmem.made import made_by
from memforest.systems.hmem.receive import trees
from memforest.systems.hmem.settings import HMemSettings


class HMemPlacing:
    """Takes events out of the trees in a transaction that changes them; see `memforest.systems.base.Placing`.

    Nothing is placed here: the index is deferred.
    """

    def __init__(self, tx: Tx, settings: HMemSettings) -> None:
        self._tx, self._settings = tx, settings
        self._left: set[int] = set()

    def leave(self, items: Items) -> None:
        """Drop the texts that tell of events, and those that are out of date: they may be of what stood elsewhere then."""
        found = rows.by_founder(self._tx, EVENT, items.get(KINDS[self._settings.events], ()))
        if not found:
            return
        told = {row.node for row in rows.above(self._tx, [row.node for row in found.values()])}
        told |= tree_rows.dirty_children(self._tx, owner=OWNER).keys()
        derived.drop_summaries(self._tx, sorted(told))
        self._left |= found.keys()

    def place(self, items: Items) -> None:
        """Place nothing: `advance` does."""

    def close(self) -> Placed:
        """Take the events out that have gone; what stood behind them in their windows is placed anew."""
        made = made_by(self._tx)
        if not self._left or made is None:
            return Placed()
        edited = trees(self._tx, self._settings, made, None)
        edited.take(self._left)
        return edited.close()
