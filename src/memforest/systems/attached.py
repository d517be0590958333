"""The indexes that one memory has, and what each does inside a write transaction.

Whatever a transaction writes is noted in the feed by triggers. What is about to change or to go is announced to all
indexes first, while it is still stored; when everything is written, each index that is up to date places what was
noted, and its cursor moves to the end of the feed. An index that raises loses its trees and its place in the feed,
and nothing else is lost: the memory is written, searchable, and `resume` makes the index anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from memforest.config import Config
from memforest.errors import ConfigError, IndexStateError, NotFoundError
from memforest.store import feed, indexes, savepoint
from memforest.store import trees as tree_rows
from memforest.store.db import Tx
from memforest.store.feed import Kind
from memforest.store.indexes import IndexRow
from memforest.systems.base import MemoryIndex, NodeWork, Placed, Placing, place_next
from memforest.systems.combine import CombinedIndex
from memforest.systems.registry import known, make_index, open_stored
from memforest.tables import kept_json
from memforest.tree import Node

__all__ = ["Attached", "Placings"]


class Attached:
    """The indexes of a memory, as its file has them. Safe for any thread."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._made: dict[tuple[str, str, type[Any] | None], MemoryIndex] = {}

    def begin(self, tx: Tx) -> None:
        """Give a new memory the indexes of the configuration, and bring the tables of others up to date."""
        rows = indexes.rows(tx)
        if not rows:
            for name in self._config.indexes:
                self.add(tx, make_index(name, self._config.index_settings.get(name)))
        for row in rows:
            if self.known(row) is not None:
                self._upgrade(tx, row)

    def work(
        self, tx: Tx, nodes: Sequence[Node], inputs: Mapping[int, tuple[str, ...]], max_words: int
    ) -> list[NodeWork]:
        """Return how nodes are to be summarised, as their indexes say; a request without a bound gets `max_words`."""
        owners = tree_rows.owners(tx, {node.tree for node in nodes})
        indexes = {index.name: index for index in self.of(tx)}
        found: list[NodeWork] = []
        for name, index in indexes.items():
            own = [node for node in nodes if owners[node.tree] == name]
            found += index.work(tx, own, inputs) if own else []
        return [replace(one, request=replace(one.request, max_words=max_words)) for one in found]

    def is_behind(self, tx: Tx) -> bool:
        """Return whether `begin` has something to do."""
        rows = indexes.rows(tx)
        opened = [(row, index) for row in rows if (index := self.known(row)) is not None]
        return not rows or any(index.version != row.version for row, index in opened)

    def of(self, tx: Tx) -> list[MemoryIndex]:
        """Return the memory's indexes, by name; one that this process does not know is left out."""
        return [index for row in indexes.rows(tx) if (index := self.known(row)) is not None]

    def owners(self, tx: Tx) -> Mapping[str, MemoryIndex]:
        """Return the memory's indexes by name."""
        return {index.name: index for index in self.of(tx)}

    def get(self, tx: Tx, name: str) -> MemoryIndex:
        """Return one of the memory's indexes.

        Raises:
            NotFoundError: if the memory does not have it; it names `add_index`.
            ConfigError: if there is no such index at all.
        """
        row = indexes.find(tx, name)
        if row is None:
            index = make_index(name, self._config.index_settings.get(name))
            if not index.follows:  # it has nothing of its own
                return index
            has = ", ".join(one.name for one in indexes.rows(tx))
            raise NotFoundError(
                f"this memory has no index {name!r}; add_index({name!r}) makes it; it has: {has}"
            )
        return self.open(row)

    def search_by(self, tx: Tx, names: Sequence[str] | None) -> MemoryIndex:
        """Return the index that a query searches: the one of a name, several as one, or by default the memory's own.

        Raises:
            NotFoundError: if the memory does not have it.
            ConfigError: if there is no such index, or one is named twice.
            IndexStateError: if it cannot be used.
        """
        if names is None:
            return self.default(tx)
        found = [self.get(tx, name) for name in names]
        return found[0] if len(found) == 1 else CombinedIndex(found)

    def default(self, tx: Tx) -> MemoryIndex:
        """Return the index that a query searches: the first of the configuration that the memory has, else its first.

        Raises:
            IndexStateError: if none can be used.
        """
        own = {row.name: row for row in indexes.rows(tx)}
        for name in dict.fromkeys((*self._config.indexes, *own)):
            if name in own and (index := self.known(own[name])) is not None:
                return index
        raise IndexStateError(
            f"none of this memory's indexes is known here: {', '.join(own)}; add_index() makes one"
        )

    def open(self, row: IndexRow) -> MemoryIndex:
        """Return the index of a row of the file.

        Raises:
            ConfigError: if this process does not know it.
            IndexStateError: if its settings are of another version.
        """
        key = (row.name, row.settings, known().get(row.name))
        if key not in self._made:
            self._made[key] = open_stored(row.name, row.settings, self._config.index_settings.get(row.name))
        return self._made[key]

    def add(self, tx: Tx, index: MemoryIndex) -> None:
        """Give the memory an index, which places everything from the start of the feed.

        Raises:
            ConfigError: if it has it already.
        """
        if indexes.find(tx, index.name) is not None:
            raise ConfigError(f"this memory has the index {index.name!r} already")
        for make in index.tables:
            make(tx)
        # In a memory without a word there is nothing to catch up with.
        indexes.add(tx, IndexRow(index.name, index.version, kept_json(index.settings), 0, None))

    @staticmethod
    def drop(tx: Tx, name: str) -> None:
        """Take an index away, with its trees and tables; one that this process does not know too.

        Raises:
            NotFoundError: if the memory does not have it.
            ConfigError: if it is the last one.
        """
        rows = indexes.rows(tx)
        if all(row.name != name for row in rows):
            raise NotFoundError(
                f"this memory has no index {name!r}; it has: {', '.join(row.name for row in rows)}"
            )
        if len(rows) == 1:
            raise ConfigError(
                f"{name!r} is the only index of this memory, and without one it cannot be searched; "
                "add another one before"
            )
        tree_rows.drop_trees(tx, name)
        indexes.drop_tables(tx, name)
        indexes.remove(tx, name)

    def clear(self, tx: Tx, name: str, reason: str | None = None) -> None:
        """Empty an index, which then places everything from the start of the feed.

        Of one that the memory does not have, the trees go.
        """
        row = indexes.find(tx, name)
        if row is None:
            tree_rows.drop_trees(tx, name)
            return
        try:
            self.open(row).clear(tx)
        except (ConfigError, IndexStateError):  # unknown here: what every index has
            tree_rows.drop_trees(tx, name)
            indexes.empty_tables(tx, name)
        indexes.move(tx, name, 0, reason)

    def stats(self, tx: Tx) -> dict[str, dict[str, Any]]:
        """Return for each index its version, how many notes of the feed it lags behind and why, and what it counts."""
        lag = self.lagging(tx)
        return {
            row.name: {
                "version": row.version,
                "lag": lag.get(row.name, 0),
                "reason": row.reason,
                "trees": len(tree_rows.heads(tx, row.name)),
                **({} if (index := self.known(row)) is None else index.stats(tx)),
            }
            for row in indexes.rows(tx)
        }

    def notes(self, tx: Tx) -> list[str]:
        """Return which indexes lag behind and why, and what the others do not have."""
        found = []
        lag = self.lagging(tx)
        for row in indexes.rows(tx):
            index = self.known(row)
            if index is None:
                found.append(f"the index {row.name!r} is not installed here, and is left as it is")
            elif row.name in lag:
                why = f" ({row.reason})" if row.reason else ""
                found.append(
                    f"the index {row.name!r} has not placed {lag[row.name]} note(s) of the feed{why}; resume() does"
                )
            else:
                found += index.notes(tx)
        return found

    def unusable(self, tx: Tx) -> dict[str, str]:
        """Return the indexes that cannot be used as the file has them, and why."""
        found = {}
        for row in indexes.rows(tx):
            try:
                self.open(row)
            except IndexStateError as exc:
                found[row.name] = str(exc)
            except ConfigError:
                pass  # not installed here, which `notes` says
        return found

    def known(self, row: IndexRow) -> MemoryIndex | None:
        """Return the index of a row; None when this process does not know it or its settings."""
        try:
            return self.open(row)
        except (ConfigError, IndexStateError):
            return None

    def lagging(self, tx: Tx) -> dict[str, int]:
        """Return how many notes of the feed each index that is behind has not placed."""
        end = feed.position(tx)
        return {row.name: end - row.cursor for row in indexes.rows(tx) if row.cursor != end}

    def step(self, tx: Tx, name: str) -> bool:
        """Let an index place the next notes of the feed inside a write transaction; return whether more are left.

        Raises:
            IndexStateError: if it is not known here, or its cursor is in no place of the feed.
        """
        row = indexes.find(tx, name)
        return row is not None and place_next(tx, self.open(row))

    def _upgrade(self, tx: Tx, row: IndexRow) -> None:
        """Bring the tables of an index to the version of this process."""
        index = self.open(row)
        if row.version > index.version:
            raise IndexStateError(
                f"the index {row.name!r} was written by a newer version ({row.version}); upgrade memforest"
            )
        for make in index.tables[row.version : index.version]:
            make(tx)
        if row.version != index.version:
            indexes.change(tx, row.name, version=index.version, settings=kept_json(index.settings))


class Placings:
    """What the indexes of a memory do inside one write transaction; made before anything is written in it.

    `problems` name the indexes that raised, and say why.
    """

    def __init__(self, tx: Tx, attached: Attached) -> None:
        self._tx = tx
        self._attached = attached
        self._start = feed.position(tx)
        self._rows = indexes.rows(tx)
        self._open: dict[str, Placing] = {}
        self._failed: dict[str, str] = {}

    @property
    def problems(self) -> list[str]:
        """Which indexes raised, and why."""
        return [f"the index {name!r} {why}; resume() makes it anew" for name, why in self._failed.items()]

    def leave(self, kind: Kind, items: Collection[int]) -> None:
        """Announce that items are about to change or to go, while they are still stored."""
        if items:
            for row in self._rows:
                self._guarded(row, lambda placing: placing.leave({kind: tuple(items)}))

    def close(self) -> Placed:
        """Let the indexes place what was written, and return what they wrote; the last call of the transaction."""
        items, end = feed.read(self._tx, self._start)
        done = Placed()
        for row in self._rows:
            done = done.plus(self._finish(row, items, end))
        feed.compact(self._tx)
        return done

    def _finish(self, row: IndexRow, items: feed.Items, end: int) -> Placed:
        closed: list[Placed] = []

        def finish(placing: Placing, index: MemoryIndex, current: bool) -> None:
            followed = {kind: found for kind, found in items.items() if kind in index.follows}
            if current and followed:
                placing.place(followed)
            closed.append(placing.close())

        current = row.cursor == self._start and row.name not in self._failed
        if row.name in self._failed:
            return Placed()
        index = self._index(row)
        if index is None:
            return Placed()
        current = current and not index.deferred
        if current or row.name in self._open:
            self._guarded(row, lambda placing: finish(placing, index, current))
        if current and row.name not in self._failed:
            indexes.move(self._tx, row.name, end)
        return closed[0] if closed else Placed()

    def _index(self, row: IndexRow) -> MemoryIndex | None:
        try:
            return self._attached.open(row)
        except (ConfigError, IndexStateError) as exc:
            self._fail(row, str(exc))
            return None

    def _guarded(self, row: IndexRow, work: Callable[[Placing], Any]) -> None:
        """Run an index's work in a savepoint; one that raises is emptied."""
        if row.name in self._failed:
            return
        index = self._index(row)
        if index is None:
            return

        def run() -> None:
            if row.name not in self._open:
                self._open[row.name] = index.placing(self._tx)
            work(self._open[row.name])

        if (error := savepoint.attempt(self._tx, run)) is not None:
            self._fail(row, f"failed: {type(error).__name__}: {error}")

    def _fail(self, row: IndexRow, why: str) -> None:
        self._failed[row.name] = why
        self._attached.clear(self._tx, row.name, why)
