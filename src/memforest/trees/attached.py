"""The indexes that one memory has, their settings, and what they do inside a write transaction."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict
from typing import Any, NamedTuple

from memforest.config import Config
from memforest.errors import ConfigError, CorruptStoreError, NotFoundError
from memforest.nodes import Node
from memforest.settings import INDEX_SETTINGS, kept_json, read_index_settings, with_kept
from memforest.store import indexes, jobs, meta, trees
from memforest.store.connections import Tx
from memforest.store.indexes import IndexRow, Kind
from memforest.trees.flat import FactsIndex, FlatIndex
from memforest.trees.hmem import HMemIndex
from memforest.trees.index import Index, Placed, Placing
from memforest.trees.memforest import MemForestIndex
from memforest.trees.refresh import NodeWork, bounded
from memforest.trees.segtree import SegTreeIndex
from memforest.trees.timem import TiMemIndex

INDEXES: dict[str, type[Index]] = {
    "facts": FactsIndex,
    "flat": FlatIndex,
    "hmem": HMemIndex,
    "memforest": MemForestIndex,
    "segtree": SegTreeIndex,
    "timem": TiMemIndex,
}
"""The class of every index by name."""

INDEX_SETTINGS.update({name: kind.Settings for name, kind in INDEXES.items()})


def make_index(name: str, *settings: Any) -> Index:
    """Return the index with that name.

    Args:
        name: of an index.
        settings: objects or mappings, each laid over those before it; None says nothing.

    Raises:
        ConfigError: if there is none, or a setting is unknown or cannot be.
    """
    found = INDEXES.get(name)
    if found is None:
        raise ConfigError(f"index={name!r} is unknown; known: {', '.join(INDEXES)}")
    made: Any = None
    for given in settings or (None,):
        made = read_index_settings(name, found.Settings, given, made)
    return found(made)


def check_indexes(config: Config) -> None:
    """Raise for unknown indexes and for wrong settings of known ones; no file is opened.

    Raises:
        ConfigError: if there is one; it names the index.
    """
    for name in (*config.indexes, *config.index_settings):
        make_index(name, config.index_settings.get(name))


Sizes = tuple[int, int, int]
"""Trees, inner nodes and leaves."""


class Chosen(NamedTuple):
    """The index that a query searches, how many notes of the feed it has not placed, and warnings about that."""

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
        """Ask the indexes of nodes how to summarise these; a request without a bound of its own gets `max_words`."""
        owners = trees.owners(tx, {node.tree for node in nodes})
        found: list[NodeWork] = []
        for index in self.of(tx):
            own = [node for node in nodes if owners[node.tree] == index.name]
            found += index.work(tx, own, inputs) if own else []
        return [bounded(one, max_words) for one in found]

    def of(self, tx: Tx) -> list[Index]:
        """Return the memory's indexes, by name."""
        return [self.open(row) for row in indexes.rows(tx)]

    def paced(self, tx: Tx) -> frozenset[str]:
        """Return the names of the indexes whose summaries no refresh makes."""
        return frozenset(row.name for row in indexes.rows(tx) if self.open(row).paced)

    def reopen(self, tx: Tx, nodes: Collection[int] | None = None) -> None:
        """Let paced indexes schedule what has been marked as out of date: some nodes, or everything that is."""
        for index in self.of(tx):
            if not index.paced:
                continue
            dirty = trees.dirty_children(tx, owner=index.name)
            if own := [node for node in dirty if nodes is None or node in nodes]:
                index.reopen(tx, own)

    def get(self, tx: Tx, name: str, *, listed: bool = False) -> Index:
        """Return an index of the memory, or one that stores nothing unless it must be `listed`.

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
        if name is None:
            name = next((one for one in (*self._config.indexes, *own) if one in own), None)
        if name is None:
            return Chosen(make_index("flat"))
        index, row = self.get(tx, name), own.get(name)
        lag = 0 if row is None else self.lagging(tx).get(name, 0)
        if row is None or not lag:
            return Chosen(index)
        return Chosen(index, lag, (self.lost(tx, row) or _behind(row, lag),))

    def open(self, row: IndexRow) -> Index:
        """Return the index of a row, with the settings kept in the file, and the configured ones for the rest.

        Raises:
            CorruptStoreError: if the settings in the file cannot be read.
        """
        key = (row.name, row.settings)
        if key not in self._made:
            index = make_index(row.name, self._config.index_settings.get(row.name))
            try:
                kept = with_kept(row.name, index.settings, row.settings)
            except (ValueError, RecursionError) as exc:  # ConfigError is one, and so is an error of JSON
                raise CorruptStoreError(
                    f"the settings of the index {row.name!r} in the file cannot be read: {exc}; drop_index({row.name!r}) "
                    f"and add_index({row.name!r}) make it anew"
                ) from exc
            self._made[key] = make_index(row.name, kept)
        return self._made[key]

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
        indexes.add(tx, IndexRow(name, kept_json(index.settings, given), 0, indexes.compacted(tx), None))

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
            trees.drop_trees(tx, name)
            return
        self.open(row).clear(tx)
        jobs.drop(tx, name)
        indexes.restart(tx, name, indexes.compacted(tx), reason)

    def sizes(self, tx: Tx) -> dict[str, Sizes]:
        """Return how many trees, inner nodes and leaves each index has; counted once for each state of the memory.

        Args:
            tx: a read transaction, in which nothing has changed that others do not see.
        """
        generation, known = meta.generation(tx), self._sizes
        if known is None or known[0] != generation:
            self._sizes = known = generation, trees.sizes(tx)
        return known[1]

    def counts(self, tx: Tx, row: IndexRow, index: Index) -> dict[str, Any]:
        """Return the counts of an index; counted once for each state of the memory.

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
        end = indexes.feed_position(tx)
        return {
            row.name: indexes.waiting(tx, 0 if row.cursor > end else row.cursor)
            for row in indexes.rows(tx)
            if row.cursor != end
        }

    @staticmethod
    def lost(tx: Tx, row: IndexRow) -> str | None:
        """Return why an index cannot go on from its cursor in the feed; None when it can."""
        end, gone = indexes.feed_position(tx), indexes.compacted(tx)
        there = 0 <= row.cursor <= end and 0 <= row.began <= gone
        if there and (row.cursor >= gone or gone == row.began):
            return None
        what = "is not kept any more" if there else "there is not"
        return (
            f"the index {row.name!r} stands at note {row.cursor} of the feed, which {what}; "
            f"rebuild(index={row.name!r}) makes it anew"
        )

    def notes(self, tx: Tx) -> list[str]:
        """Return warnings: which indexes lag behind and why, and what the others lack."""
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


class Placings:
    """What the indexes of a memory do inside one write transaction; made before anything is written in it.

    Whatever a transaction writes is noted in the feed by triggers. What is about to change or to go is announced to all
    indexes first, while it is still stored; when everything is written, each index that is up to date places what was
    noted, and its cursor moves to the end of the feed. What an index raises undoes the transaction. With `later`, what
    is new is left to be placed from the feed.
    """

    def __init__(self, tx: Tx, attached: Attached, *, later: bool = False) -> None:
        self._tx, self._later = tx, later
        self._start = indexes.feed_position(tx)
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
                placing = self._open.get(index.name) or index.placing(self._tx)
                self._open[index.name] = placing
                placing.leave({kind: tuple(items)})

    def close(self, before: Placed | None = None) -> Placed:
        """Let the indexes place what was written, and return what they wrote; the last call of the transaction.

        With `before`, what earlier transactions wrote is counted in.
        """
        items, end = indexes.read(self._tx, self._start)
        nodes, changed = (0, frozenset[int]()) if before is None else (before.nodes, before.trees)
        for row, index in self._indexes:
            followed = {kind: rows for kind, rows in items.items() if kind in index.follows}
            current = row.cursor == self._start and not self._later and not (index.deferred and followed)
            placing = self._open.get(index.name)
            if current and followed:
                placing = placing or index.placing(self._tx)
                placing.place(followed)
            if placing is not None:
                placed = placing.close()
                nodes, changed = nodes + placed.nodes, changed | placed.trees
            if current:
                indexes.move_from(self._tx, row.name, self._start, end)
        indexes.compact(self._tx)
        return Placed(nodes, changed)


def _wipe(tx: Tx, name: str) -> None:
    """Delete an index's trees, jobs, tables and row."""
    trees.drop_trees(tx, name)
    jobs.drop(tx, name)
    indexes.drop_tables(tx, name)
    indexes.remove(tx, name)


def _behind(row: IndexRow, lag: int) -> str:
    why = f" (it {row.reason})" if row.reason else ""
    return f"the index {row.name!r} has not placed the last {lag} change(s){why}; resume() does"


def changed_settings(config: Config, row: IndexRow, index: Index) -> dict[str, tuple[Any, Any]]:
    """Return the kept settings that the configuration gives another value: name -> (the memory's, the configured).

    What the configuration does not name is as the memory has it.
    """
    given = config.index_settings.get(row.name)
    if given is None:
        return {}
    wanted, own, stored = (
        asdict(make_index(row.name, given).settings),
        asdict(index.settings),
        json.loads(row.settings),
    )
    named = given if isinstance(given, Mapping) else wanted
    kept = set(index.settings.KEPT) | stored.keys()
    return {
        name: (own[name], wanted[name])
        for name in named
        if name in kept and _as_kept(own[name]) != _as_kept(wanted[name])
    }


def _as_kept(value: Any) -> str:
    """Return a setting as the file keeps it: a tuple and a list are the same there."""
    return json.dumps(value, sort_keys=True, default=str)


def adopt_settings(tx: Tx, config: Config, attached: Attached, name: str) -> None:
    """Let a memory keep the configured settings of an index from now on; the index is to be cleared then."""
    row = indexes.find(tx, name)
    if row is None:
        return
    if changed := changed_settings(config, row, attached.open(row)):
        kept = {**json.loads(row.settings), **{key: new for key, (_, new) in changed.items()}}
        text = json.dumps(kept, sort_keys=True, ensure_ascii=False)
        indexes.change(tx, name, text)


def outdated(tx: Tx, config: Config, attached: Attached) -> dict[str, str]:
    """Return the indexes that would be made differently now, by name, with the reason."""
    found: dict[str, str] = {}
    for row in indexes.rows(tx):
        index = attached.open(row)
        why = [
            f"{key} is {old!r}, and {new!r} is set"
            for key, (old, new) in changed_settings(config, row, index).items()
        ]
        if (said := index.outdated(tx)) is not None:
            why.append(said)
        if why:
            found[row.name] = "; ".join(why)
    return found
