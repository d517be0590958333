"""The indexes that one memory has; what they do inside a write transaction is `memforest.systems.placings`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from memforest.config import Config
from memforest.errors import ConfigError, NotFoundError
from memforest.refresh.requests import bounded
from memforest.store import feed, indexes, jobs, meta
from memforest.store import trees as tree_rows
from memforest.store.indexes import IndexRow
from memforest.store.tx import Tx
from memforest.systems.base import Index, NodeWork
from memforest.systems.placings import Placings
from memforest.systems.registry import make_index
from memforest.tables import kept_json, with_kept
from memforest.tree import Node

__all__ = ["Attached", "Chosen", "Placings", "Sizes"]

Sizes = tuple[int, int, int]
"""Trees, inner nodes and leaves."""


class Chosen(NamedTuple):
    """The index that a query searches, how many notes of the feed it has not placed, and what is to be said of it."""

    found: Index
    lag: int = 0
    warnings: tuple[str, ...] = ()


class Attached:
    """The indexes of a memory, as its file has them. Safe for any thread."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._made: dict[tuple[str, str], Index] = {}
        self._sizes: tuple[int, dict[str, Sizes]] | None = None
        self._counts: dict[IndexRow, tuple[int, dict[str, Any]]] = {}

    def begin(self, tx: Tx) -> None:
        """Add the configured indexes to a new memory."""
        if not indexes.rows(tx):
            for name in self._config.indexes:
                self.add(tx, name)

    def work(
        self, tx: Tx, nodes: Sequence[Node], inputs: Mapping[int, tuple[str, ...]], max_words: int
    ) -> list[NodeWork]:
        """Return how nodes are to be summarised, as their indexes say; a request without a bound of its own gets `max_words`."""
        owners = tree_rows.owners(tx, {node.tree for node in nodes})
        found: list[NodeWork] = []
        for index in self.of(tx):
            own = [node for node in nodes if owners[node.tree] == index.name]
            found += index.work(tx, own, inputs) if own else []
        return [bounded(one, max_words) for one in found]

    # -- which there are ----------------------------------------------------------------------

    def of(self, tx: Tx) -> list[Index]:
        """Return the memory's indexes, by name."""
        return [self.open(row) for row in indexes.rows(tx)]

    def paced(self, tx: Tx) -> frozenset[str]:
        """Return the names of those whose summaries no refresh makes."""
        return frozenset(index.name for index in self.of(tx) if index.paced)

    def reopen(self, tx: Tx, nodes: Collection[int] | None = None) -> None:
        """Let paced indexes schedule what has been marked as out of date: some nodes, or everything that is."""
        for index in self.of(tx):
            if not index.paced:
                continue
            dirty = tree_rows.dirty_children(tx, owner=index.name)
            if own := [node for node in dirty if nodes is None or node in nodes]:
                index.reopen(tx, own)

    def get(self, tx: Tx, name: str, *, listed: bool = False) -> Index:
        """Return one of the memory's indexes, or one that stores nothing, unless it must be `listed`.

        Raises:
            NotFoundError: if the memory does not have it; it names `add_index`.
            ConfigError: if there is no such index at all.
        """
        row = indexes.find(tx, name)
        if row is not None:
            return self.open(row)
        index = make_index(name, self._config.index_settings.get(name))
        if listed or index.follows:  # else it has nothing of its own
            has = ", ".join(one.name for one in indexes.rows(tx))
            raise NotFoundError(
                f"this memory has no index {name!r}; add_index({name!r}) makes it; it has: {has}"
            )
        return index

    def choose(self, tx: Tx, name: str | None) -> Chosen:
        """Return the index that a query searches; errors are those of `get`.

        Without a name the first of the configuration that the memory has, else its first one.
        """
        own = {row.name: row for row in indexes.rows(tx)}
        if name is not None:
            return self._chosen(tx, self.get(tx, name), own.get(name))
        for one in (*self._config.indexes, *own):
            if one in own:
                return self._chosen(tx, self.open(own[one]), own[one])
        return Chosen(make_index("flat"))

    def open(self, row: IndexRow) -> Index:
        """Return the index of a row, with the settings that its file keeps, and those of the configuration for the others."""
        key = (row.name, row.settings)
        if key not in self._made:
            index = make_index(row.name, self._config.index_settings.get(row.name))
            self._made[key] = make_index(row.name, with_kept(row.name, index.settings, row.settings))
        return self._made[key]

    # -- coming and going ---------------------------------------------------------------------

    def add(self, tx: Tx, name: str, given: Any = None) -> None:
        """Add an index, whose cursor is the start of the feed.

        Args:
            tx: a write transaction.
            name: of an index.
            given: settings, laid over those of the configuration; they are kept in the file.

        Raises:
            ConfigError: if there is no such index, the memory has it already, or a setting cannot be.
        """
        index = make_index(name, self._config.index_settings.get(name), given)
        if indexes.find(tx, name) is not None:
            raise ConfigError(
                f"this memory has the index {name!r} already; rebuild(index={name!r}) makes it anew"
            )
        _wipe(tx, name)  # also what is left of one that the memory no longer lists
        index.make_tables(tx)
        indexes.add(tx, IndexRow(name, kept_json(index.settings, given), 0, feed.compacted(tx), None))

    @staticmethod
    def drop(tx: Tx, name: str) -> None:
        """Delete an index with its trees and tables.

        Raises:
            NotFoundError: if the memory does not have it.
            ConfigError: if it is the last one.
        """
        rows = indexes.rows(tx)
        if all(row.name != name for row in rows):
            has = ", ".join(row.name for row in rows)
            raise NotFoundError(f"this memory has no index {name!r}; it has: {has}")
        if len(rows) == 1:
            raise ConfigError(
                f"{name!r} is the only index of this memory, and without one it cannot be searched; "
                "add another one first"
            )
        _wipe(tx, name)

    @staticmethod
    def drop_strays(tx: Tx) -> list[str]:
        """Delete the trees and tables of indexes that the memory does not have, and return their names."""
        found = sorted(indexes.strays(tx))
        for name in found:
            _wipe(tx, name)
        return found

    def clear(self, tx: Tx, name: str, reason: str | None = None) -> None:
        """Clear an index, and move its cursor to the start of the feed.

        Of one that the memory does not have, the trees go.
        """
        row = indexes.find(tx, name)
        if row is None:
            tree_rows.drop_trees(tx, name)
            return
        self.open(row).clear(tx)
        jobs.drop(tx, name)
        indexes.restart(tx, name, feed.compacted(tx), reason)

    # -- how it stands ------------------------------------------------------------------------

    def sizes(self, tx: Tx) -> dict[str, Sizes]:
        """Return the numbers of trees, inner nodes and leaves of each index, counted once a state of the memory.

        Args:
            tx: a read transaction, in which nothing has changed that others do not see.
        """
        generation, known = meta.generation(tx), self._sizes
        if known is None or known[0] != generation:
            self._sizes = known = generation, tree_rows.sizes(tx)
        return known[1]

    def counts(self, tx: Tx, row: IndexRow, index: Index) -> dict[str, Any]:
        """Return what an index counts of itself, counted once a state of the memory.

        Args:
            tx: a read transaction, in which nothing has changed that others do not see.
            row: of the index.
            index: it.
        """
        generation, known = meta.generation(tx), self._counts.get(row)
        if known is None or known[0] != generation:
            known = generation, index.stats(tx)
            others = {one: kept for one, kept in self._counts.items() if kept[0] == generation}
            self._counts = {**others, row: known}
        return deepcopy(known[1])

    def lagging(self, tx: Tx) -> dict[str, int]:
        """Return how many notes of the feed each index that is behind has not placed."""
        end = feed.position(tx)
        return {
            row.name: feed.waiting(tx, 0 if row.cursor > end else row.cursor)
            for row in indexes.rows(tx)
            if row.cursor != end
        }

    @staticmethod
    def lost(tx: Tx, row: IndexRow) -> str | None:
        """Return why an index cannot go on from its cursor in the feed; None when it can."""
        end, gone = feed.position(tx), feed.compacted(tx)
        there = 0 <= row.cursor <= end and 0 <= row.began <= gone
        if there and (row.cursor >= gone or gone == row.began):
            return None
        what = "is not kept any more" if there else "there is not"
        return (
            f"the index {row.name!r} stands at note {row.cursor} of the feed, which {what}; "
            f"rebuild(index={row.name!r}) makes it anew"
        )

    def notes(self, tx: Tx) -> list[str]:
        """Return which indexes lag behind and why, and what the others do not have."""
        found: list[str] = []
        lag = self.lagging(tx)
        for row in indexes.rows(tx):
            if (lost := self.lost(tx, row)) is not None:
                found.append(lost)
            elif row.name in lag:
                found.append(_behind(row, lag[row.name]))
            else:
                found += self.open(row).notes(tx)
        return found

    def _chosen(self, tx: Tx, index: Index, row: IndexRow | None) -> Chosen:
        lag = 0 if row is None else self.lagging(tx).get(row.name, 0)
        if row is None or not lag:
            return Chosen(index)
        return Chosen(index, lag, (self.lost(tx, row) or _behind(row, lag),))


def _wipe(tx: Tx, name: str) -> None:
    """Delete an index's trees, jobs, tables and row."""
    tree_rows.drop_trees(tx, name)
    jobs.drop(tx, name)
    indexes.drop_tables(tx, name)
    indexes.remove(tx, name)


def _behind(row: IndexRow, lag: int) -> str:
    why = f" (it {row.reason})" if row.reason else ""
    return f"the index {row.name!r} has not placed the last {lag} change(s){why}; resume() does"
