"""What the indexes of a memory do inside a write transaction.

Whatever a transaction writes is noted in the feed by triggers. What is about to change or to go is announced to all
indexes first, while it is still stored; when everything is written, each index that is up to date places what was
noted, and its cursor moves to the end of the feed. What an index raises undoes the transaction.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from memforest.store import feed, indexes
from memforest.store.feed import Kind
from memforest.store.indexes import IndexRow
from memforest.store.tx import Tx
from memforest.systems.base import Index, Placed, Placing, following


class Attaching(Protocol):
    """The indexes of a memory, as far as a write asks for them; see `memforest.systems.attached.Attached`."""

    def open(self, row: IndexRow) -> Index:
        """Return the index of a row."""
        ...

    def clear(self, tx: Tx, name: str, reason: str | None = None) -> None:
        """Clear an index, and move its cursor to the start of the feed."""
        ...


class Placings:
    """What the indexes of a memory do inside one write transaction; made before anything is written in it.

    With `later`, what is new is left to be placed from the feed.
    """

    def __init__(self, tx: Tx, attached: Attaching, *, later: bool = False) -> None:
        self._tx, self._later = tx, later
        self._start = feed.position(tx)
        self._open: dict[str, Placing] = {}
        self._indexes: list[tuple[IndexRow, Index]] = []
        for row in indexes.rows(tx):
            if row.cursor > self._start:  # the feed would grow up to it, and nobody would notice
                attached.clear(tx, row.name, f"stood at note {row.cursor} of the feed, which there is not")
            else:
                self._indexes.append((row, attached.open(row)))

    def leave(self, kind: Kind, items: Collection[int]) -> None:
        """Announce that items are about to change or to go, while they are still stored."""
        for _, index in self._indexes if items else ():
            if kind in index.follows:
                self._placing(index).leave({kind: tuple(items)})

    def close(self) -> Placed:
        """Let the indexes place what was written, and return what they wrote; the last call of the transaction."""
        items, end = feed.read(self._tx, self._start)
        done = Placed()
        for row, index in self._indexes:
            followed = following(index, items)
            current = row.cursor == self._start and not self._later and not (index.deferred and followed)
            if current and followed:
                self._placing(index).place(followed)
            if row.name in self._open:
                done = done.plus(self._open[row.name].close())
            if current:
                indexes.move_from(self._tx, row.name, self._start, end)
        feed.compact(self._tx)
        return done

    def _placing(self, index: Index) -> Placing:
        if index.name not in self._open:
            self._open[index.name] = index.placing(self._tx)
        return self._open[index.name]
