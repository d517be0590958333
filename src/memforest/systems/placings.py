"""What the indexes of a memory do inside a write transaction.

Whatever a transaction writes is noted in the feed by triggers. What is about to change or to go is announced to all
indexes first, while it is still stored; when everything is written, each index that is up to date places what was
noted, and its cursor moves to the end of the feed.

One that raises while it places stays where it was; one that raises when something goes, or that this process cannot use,
is emptied then, as it may hold what goes. Nothing else is lost, and `resume` moves the index on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

from memforest.store import feed, indexes
from memforest.store.feed import Kind
from memforest.store.indexes import IndexRow
from memforest.store.savepoint import attempt, described
from memforest.store.tx import Tx
from memforest.systems.base import MemoryIndex, Placed, Placing, following


class Attaching(Protocol):
    """The indexes of a memory, as far as a write asks for them; see `memforest.systems.attached.Attached`."""

    def usable(self, row: IndexRow) -> MemoryIndex | None:
        """Return the index of a row; None when this process cannot use it."""
        ...

    def clear(self, tx: Tx, name: str, reason: str | None = None) -> None:
        """Clear an index, and move its cursor to the start of the feed."""
        ...


class Placings:
    """What the indexes of a memory do inside one write transaction; made before anything is written in it.

    `problems` name the indexes that raised. With `later`, what is new is left to be placed from the feed.
    """

    def __init__(self, tx: Tx, attached: Attaching, *, later: bool = False) -> None:
        self._tx, self._attached, self._later = tx, attached, later
        self._start = feed.position(tx)
        self._rows = indexes.rows(tx)
        self._open: dict[str, Placing] = {}
        self._out: dict[str, str | None] = {}
        """Indexes that take no part any more, and what is to be said of them."""
        for row in self._rows:
            if row.cursor > self._start:  # the feed would grow up to it, and nobody would notice
                self._empty(row, f"stood at note {row.cursor} of the feed, which there is not")

    @property
    def problems(self) -> list[str]:
        """Which indexes raised, and why."""
        return [message for message in self._out.values() if message is not None]

    def leave(self, kind: Kind, items: Collection[int]) -> None:
        """Announce that items are about to change or to go, while they are still stored."""
        if not items:
            return
        for row in self._taking_part():
            index = self._attached.usable(row)
            if index is None:
                self._empty(row, "cannot be used here, and may hold what has changed or gone")
            elif kind in index.follows:
                self._run(row, index, lambda placing: placing.leave({kind: tuple(items)}), whole=False)

    def close(self) -> Placed:
        """Let the indexes place what was written, and return what they wrote; the last call of the transaction."""
        items, end = feed.read(self._tx, self._start)
        done = Placed()
        for row in self._taking_part():
            if (index := self._attached.usable(row)) is not None:
                done = done.plus(self._finish(row, index, items, end))
        feed.compact(self._tx)
        return done

    def _finish(self, row: IndexRow, index: MemoryIndex, items: feed.Items, end: int) -> Placed:
        closed: list[Placed] = []
        followed = following(index, items)
        current = row.cursor == self._start and not self._later and not (index.deferred and followed)

        def finish(placing: Placing) -> None:
            if current and followed:
                placing.place(followed)
            closed.append(placing.close())

        if (current and followed) or row.name in self._open:
            self._run(row, index, finish, whole=row.name not in self._open)
        if current and row.name not in self._out:
            indexes.move_from(self._tx, row.name, self._start, end)  # not if it was emptied meanwhile
        return closed[0] if closed else Placed()

    def _taking_part(self) -> list[IndexRow]:
        return [row for row in self._rows if row.name not in self._out]

    def _run(self, row: IndexRow, index: MemoryIndex, work: Callable[[Placing], Any], *, whole: bool) -> None:
        """Run an index's work in a savepoint.

        If it raises, the index stays as it was before the transaction where that is the `whole` of what it has done in
        it; else it is emptied, because what it keeps in memory of the rest is gone.
        """

        def run() -> None:
            if row.name not in self._open:
                self._open[row.name] = index.placing(self._tx)
            work(self._open[row.name])

        error = attempt(self._tx, run)
        if error is None:
            return
        if whole:
            self._out[row.name] = (
                f"the index {row.name!r} {described(error)}; it stays behind, and resume() moves it on"
            )
            indexes.stop(self._tx, row.name, described(error))
        else:
            self._empty(row, described(error))

    def _empty(self, row: IndexRow, why: str) -> None:
        self._out[row.name] = f"the index {row.name!r} {why}; it was emptied, and resume() makes it anew"
        self._attached.clear(self._tx, row.name, why)
