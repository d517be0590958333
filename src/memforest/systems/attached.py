"""The indexes that one memory has; what they do inside a write transaction is `memforest.systems.placings`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from memforest.config import Config
from memforest.errors import ConfigError, IndexStateError, NotFoundError
from memforest.refresh.requests import bounded
from memforest.store import feed, indexes, jobs, meta
from memforest.store import trees as tree_rows
from memforest.store.indexes import IndexRow
from memforest.store.savepoint import attempt, described
from memforest.store.tx import Tx
from memforest.systems.base import MemoryIndex, NodeWork
from memforest.systems.placings import Placings
from memforest.systems.registry import known, make_index, open_stored
from memforest.tables import kept_json
from memforest.tree import Node

__all__ = ["Attached", "Chosen", "Placings", "Sizes"]

Sizes = tuple[int, int, int]
"""Trees, inner nodes and leaves."""


class Chosen(NamedTuple):
    """The index that a query searches, how many notes of the feed it has not placed, and what is to be said of it."""

    found: MemoryIndex
    lag: int = 0
    warnings: tuple[str, ...] = ()


class Attached:
    """The indexes of a memory, as its file has them. Safe for any thread."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._made: dict[tuple[str, str, type[Any] | None], MemoryIndex] = {}
        self._sizes: tuple[int, dict[str, Sizes]] | None = None
        self._counts: dict[IndexRow, tuple[int, dict[str, Any]]] = {}

    def begin(self, tx: Tx) -> None:
        """Add the configured indexes to a new memory, and upgrade the tables of an older one's indexes."""
        rows = indexes.rows(tx)
        if not rows:
            for name in self._config.indexes:
                self.add(tx, name)
        for row in rows:
            if self._is_older(row):
                self._upgrade(tx, row)

    def is_behind(self, tx: Tx) -> bool:
        """Return whether `begin` would change the file."""
        rows = indexes.rows(tx)
        return not rows or any(self._is_older(row) for row in rows)

    def work(
        self, tx: Tx, nodes: Sequence[Node], inputs: Mapping[int, tuple[str, ...]], max_words: int
    ) -> tuple[list[NodeWork], frozenset[int]]:
        """Return how nodes are to be summarised, as their indexes say, and which nodes must be left as they are.

        Left are those of indexes that cannot be used here. A request without a bound of its own gets `max_words`.
        """
        owners = tree_rows.owners(tx, {node.tree for node in nodes})
        usable = {index.name: index for index in self.of(tx)}
        found: list[NodeWork] = []
        for name, index in usable.items():
            own = [node for node in nodes if owners[node.tree] == name]
            found += index.work(tx, own, inputs) if own else []
        left = frozenset(node.id for node in nodes if owners[node.tree] not in usable)
        return [bounded(one, max_words) for one in found], left

    # -- which there are ----------------------------------------------------------------------

    def of(self, tx: Tx) -> list[MemoryIndex]:
        """Return the memory's indexes, by name; one that cannot be used here is left out."""
        return [index for row in indexes.rows(tx) if (index := self.usable(row)) is not None]

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

    def get(self, tx: Tx, name: str, *, listed: bool = False) -> MemoryIndex:
        """Return one of the memory's indexes, or one that stores nothing, unless it must be `listed`.

        Raises:
            NotFoundError: if the memory does not have it; it names `add_index`.
            ConfigError: if there is no such index at all.
            IndexStateError: if it cannot be used as the file has it.
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

        Without a name the first of the configuration that can be used, else the first of the memory; if none of them
        can be, the baseline.
        """
        own = {row.name: row for row in indexes.rows(tx)}
        if name is not None:
            return self._chosen(tx, self.get(tx, name), own.get(name))
        for one in dict.fromkeys((*self._config.indexes, *own)):
            if one in own and (index := self.usable(own[one])) is not None:
                return self._chosen(tx, index, own[one])
        index = next(made for one in sorted(known()) if (made := make_index(one)).baseline)
        why = "; ".join(str(self.problem(row)) for row in own.values())
        return Chosen(index, 0, (f"searched with {index.name!r}: {why}",))

    def open(self, row: IndexRow) -> MemoryIndex:
        """Return the index of a row of the file.

        Raises:
            ConfigError: if this process does not know it.
            IndexStateError: if its tables or settings are of another version.
        """
        key = (row.name, row.settings, known().get(row.name))
        if key not in self._made:
            self._made[key] = open_stored(row.name, row.settings, self._config.index_settings.get(row.name))
        index = self._made[key]
        if row.version > index.version:
            raise IndexStateError(
                f"the index {row.name!r} was written by a newer version of it ({row.version}, here it is "
                f"{index.version}); upgrade memforest, or the package that it comes from"
            )
        if row.version < index.version:
            raise IndexStateError(
                f"the index {row.name!r} is of version {row.version} and could not be brought to {index.version}"
                f"{'' if row.reason is None else f': it {row.reason}'}; add_index({row.name!r}) makes it anew"
            )
        return index

    def usable(self, row: IndexRow) -> MemoryIndex | None:
        """Return the index of a row; None when this process cannot use it."""
        try:
            return self.open(row)
        except (ConfigError, IndexStateError):
            return None

    # -- coming and going ---------------------------------------------------------------------

    def add(self, tx: Tx, name: str, given: Any = None) -> None:
        """Add an index, whose cursor is the start of the feed; one that cannot be used is replaced.

        Args:
            tx: a write transaction.
            name: of an index.
            given: settings, laid over those of the configuration; they are kept in the file.

        Raises:
            ConfigError: if there is no such index, the memory has it already, or a setting cannot be.
            IndexStateError: if its tables cannot be made.
        """
        index = make_index(name, self._config.index_settings.get(name), given)
        row = indexes.find(tx, name)
        if row is not None and self.usable(row) is not None:
            raise ConfigError(
                f"this memory has the index {name!r} already; rebuild(index={name!r}) makes it anew"
            )
        _wipe(tx, name)  # also what is left of one that the memory no longer lists
        if (error := attempt(tx, lambda: [make(tx) for make in index.tables[: index.version]])) is not None:
            raise IndexStateError(
                f"the index {name!r} cannot make its tables: it {described(error)}"
            ) from error
        kept = kept_json(index.settings, given)
        indexes.add(tx, IndexRow(name, index.version, kept, 0, feed.compacted(tx), None))

    @staticmethod
    def drop(tx: Tx, name: str) -> None:
        """Delete an index with its trees and tables; also one that this process does not know.

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
        index = self.usable(row)
        if index is None or attempt(tx, lambda: index.clear(tx)) is not None:  # what every index has
            tree_rows.drop_trees(tx, name)
            indexes.empty_tables(tx, name)
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

    def counts(self, tx: Tx, row: IndexRow, index: MemoryIndex) -> dict[str, Any]:
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
        """Return which indexes cannot be used or lag behind and why, and what the others do not have."""
        found: list[str] = []
        lag = self.lagging(tx)
        for row in indexes.rows(tx):
            why, index = self.problem(row), self.usable(row)
            if index is None:
                found.append(f"{why}; what it has stays until something goes that it may hold")
            elif (lost := self.lost(tx, row)) is not None:
                found.append(lost)
            elif row.name in lag:
                found.append(_behind(row, lag[row.name]))
            elif (error := attempt(tx, lambda index=index: found.extend(index.notes(tx)))) is not None:  # type: ignore[misc]
                found.append(f"the index {row.name!r} {described(error)}")
        return found

    def _chosen(self, tx: Tx, index: MemoryIndex, row: IndexRow | None) -> Chosen:
        lag = 0 if row is None else self.lagging(tx).get(row.name, 0)
        if row is None or not lag:
            return Chosen(index)
        return Chosen(index, lag, (self.lost(tx, row) or _behind(row, lag),))

    def problem(self, row: IndexRow) -> str | None:
        """Return why an index cannot be used here; None when it can."""
        if row.name not in known():
            return f"the index {row.name!r} is not installed here"
        try:
            self.open(row)
        except (ConfigError, IndexStateError) as exc:
            return str(exc)
        return None

    @staticmethod
    def _is_older(row: IndexRow) -> bool:
        return row.name in known() and row.version < known()[row.name].version

    def _upgrade(self, tx: Tx, row: IndexRow) -> None:
        """Upgrade the tables of an index to the version of this process; a failure is an error that names the index."""
        kind, given = known()[row.name], self._config.index_settings.get(row.name)

        def steps() -> None:
            for make in kind.tables[row.version : kind.version]:
                make(tx)
            now = indexes.find(tx, row.name) or row  # a step may have changed its settings
            open_stored(row.name, now.settings, given)
            indexes.change(tx, row.name, version=kind.version, settings=now.settings)

        if (error := attempt(tx, steps)) is not None:
            indexes.stop(tx, row.name, described(error))


def _wipe(tx: Tx, name: str) -> None:
    """Delete an index's trees, jobs, tables and row."""
    tree_rows.drop_trees(tx, name)
    jobs.drop(tx, name)
    indexes.drop_tables(tx, name)
    indexes.remove(tx, name)


def _behind(row: IndexRow, lag: int) -> str:
    why = f" (it {row.reason})" if row.reason else ""
    return f"the index {row.name!r} has not placed the last {lag} change(s){why}; resume() does"
