"""What the index does inside the transactions of others: what told of turns that change or go is not told any more."""

from __future__ import annotations

from collections.abc import Collection

from memforest.store import derived
from memforest.store.tx import Tx
from memforest.systems.base import Items, Placed
from memforest.systems.timem import rows, turn_rows
from memforest.systems.timem.history import by_rules, reopened
from memforest.systems.timem.receive import edit
from memforest.systems.timem.settings import TiMemSettings


class TiMemPlacing:
    """Takes segments out of the tree in a transaction that changes turns; see `memforest.systems.base.Placing`.

    Nothing is placed here: the index is deferred.
    """

    def __init__(self, tx: Tx, settings: TiMemSettings) -> None:
        self._tx, self._settings = tx, settings
        self._left: dict[int, set[int]] = {}
        self._told: set[int] = set()

    def leave(self, items: Items) -> None:
        """Drop the texts that turns or facts are in, and those that were written after one of them."""
        size = 2 * self._settings.segment
        turns: Collection[int] = items.get("turn", ())
        facts = items.get("fact", ())
        if facts and by_rules(self._tx):  # a model is not shown statements
            turns = {*turns, *turn_rows.supporting(self._tx, facts)}
        groups, _ = turn_rows.groups_of(self._tx, turns, size)
        if not groups:
            return
        found = {row.node for row in rows.holding(self._tx, turns, size)}
        told = reopened(self._tx, self._settings, found, gone=True)
        told |= set(rows.dirty_texts(self._tx))  # they may be of what stood elsewhere then
        derived.drop_summaries(self._tx, sorted(told))
        self._told |= told
        for session, parts in groups.items():
            self._left.setdefault(session, set()).update(parts)

    def place(self, items: Items) -> None:
        """Place nothing: `advance` does."""

    def close(self) -> Placed:
        """Cut the segments anew of which turns have gone, and have written again what was dropped."""
        if not self._left:
            return Placed()
        return edit(self._tx, self._settings, self._left, self._told)
