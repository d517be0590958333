"""The indexes that one memory has, and their settings."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict
from typing import Any

from memforest.config import Config
from memforest.errors import ConfigError, CorruptStoreError, IndexStateError, NotFoundError
from memforest.search.cache import forest_of
from memforest.search.snapshot import Snapshot
from memforest.settings import INDEX_SETTINGS, kept_json, read_index_settings, with_kept
from memforest.store import artifacts, meta
from memforest.store.connections import Tx
from memforest.store.meta import IndexRow
from memforest.trees.flat import FactsIndex, FlatIndex
from memforest.trees.hmem import HMemIndex
from memforest.trees.index import Index
from memforest.trees.memforest import MemForestIndex
from memforest.trees.segtree import SegTreeIndex
from memforest.trees.timem import TiMemIndex

STORED_NOTHING = frozenset({"flat", "facts"})
"""Indexes without trees: any memory can be searched by them."""

_KINDS: Sequence[type[Index]] = (FactsIndex, FlatIndex, HMemIndex, MemForestIndex, SegTreeIndex, TiMemIndex)
INDEXES: dict[str, type[Index]] = {kind.name: kind for kind in _KINDS}
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
        raise ConfigError(f"unknown index {name!r}; known: {', '.join(INDEXES)}")
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


class Attached:
    """The indexes of a memory, as its file has them. Safe for any thread."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._made: dict[tuple[str, str], Index] = {}
        self._counts: dict[IndexRow, tuple[object, dict[str, Any]]] = {}

    def begin(self, tx: Tx) -> None:
        """Add the configured indexes to a new memory."""
        if not meta.index_rows(tx):
            for name in self._config.indexes:
                self.add(tx, name)

    def of(self, tx: Tx) -> list[Index]:
        """Return the memory's indexes, by name."""
        return [self.open(row) for row in meta.index_rows(tx)]

    def get(self, rows: Sequence[IndexRow], name: str, *, listed: bool = False) -> Index:
        """Return an index of the memory, which has those of some rows; or one that stores nothing, unless it must be `listed`.

        Raises:
            NotFoundError: if the memory does not have it; it names `add_index`.
            ConfigError: if there is no such index at all.
        """
        own = {row.name: row for row in rows}
        if name in own:
            return self.open(own[name])
        index = make_index(name, self._config.index_settings.get(name))
        if listed or name not in STORED_NOTHING:  # else it has nothing of its own
            raise NotFoundError(
                f"this memory has no index {name!r}; add_index({name!r}) makes it; it has: {', '.join(own)}"
            )
        return index

    def choose(self, rows: Sequence[IndexRow], name: str | None) -> Index:
        """Return the index that a query searches; errors are those of `get`.

        Args:
            rows: of the memory's indexes.
            name: the one asked for; None for the first that is configured and that the memory has.
        """
        if name is not None:
            return self.get(rows, name)
        own = {row.name: row for row in rows}
        chosen = next((one for one in (*self._config.indexes, *own) if one in own), None)
        return make_index("flat") if chosen is None else self.open(own[chosen])

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
                    f"and add_index({row.name!r}) make it again"
                ) from exc
            self._made[key] = make_index(row.name, kept)
        return self._made[key]

    def add(self, tx: Tx, name: str, given: Any = None) -> None:
        """Add an index.

        Raises:
            ConfigError: if the name is unknown, the settings are wrong, or the memory has it already.
        """
        index = make_index(name, self._config.index_settings.get(name), given)
        if any(row.name == name for row in meta.index_rows(tx)):
            raise ConfigError(f"this memory has the index {name!r} already")
        meta.put_index(tx, IndexRow(name, kept_json(index.settings, given)))

    @staticmethod
    def drop(tx: Tx, name: str) -> None:
        """Remove an index; its summaries are swept by the caller.

        Raises:
            NotFoundError: the memory has no such index.
            ConfigError: if it is the only one.
        """
        rows = meta.index_rows(tx)
        if all(row.name != name for row in rows):
            has = ", ".join(row.name for row in rows)
            raise NotFoundError(f"this memory has no index {name!r}; it has: {has}")
        if len(rows) == 1:
            raise ConfigError(
                f"{name!r} is the only index of this memory, and a memory needs one for searches; "
                "add another one first"
            )
        meta.remove_index(tx, name)

    def counts(self, tx: Tx, snapshot: Snapshot, row: IndexRow) -> dict[str, Any]:
        """Return the counts of an index, with its trees, their kinds, inner nodes and leaves; counted once for each state of the memory."""
        state, known = (snapshot.generation, artifacts.state(tx)), self._counts.get(row)
        if known is None or known[0] != state:
            known = state, _counted(tx, snapshot, self.open(row))
            others = {one: kept for one, kept in self._counts.items() if kept[0] == state}
            self._counts = {**others, row: known}
        return deepcopy(known[1])

    def notes(self, tx: Tx) -> list[str]:
        """Return what the indexes lack, and why."""
        return [note for index in self.of(tx) for note in index.notes(tx)]


def _counted(tx: Tx, snapshot: Snapshot, index: Index) -> dict[str, Any]:
    try:
        forest = forest_of(tx, snapshot, index)
    except IndexStateError as exc:
        return {"trees": 0, "nodes": 0, "leaves": 0, "kinds": {}, "failed": str(exc)}
    inner = len(forest.inner)
    counts = {"trees": len(forest.tree_kind), "nodes": inner, "leaves": len(forest) - inner}
    return {**counts, "kinds": dict(sorted(Counter(forest.tree_kind).items())), **index.stats(tx, snapshot)}


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
    """Let a memory keep the configured settings of an index from now on."""
    row = next((one for one in meta.index_rows(tx) if one.name == name), None)
    if row is None:
        return
    if changed := changed_settings(config, row, attached.open(row)):
        kept = {**json.loads(row.settings), **{key: new for key, (_, new) in changed.items()}}
        text = json.dumps(kept, sort_keys=True, ensure_ascii=False)
        meta.put_index(tx, IndexRow(name, text))


def outdated(tx: Tx, config: Config, attached: Attached) -> dict[str, str]:
    """Return the indexes that have other settings than are configured, by name, with the difference."""
    found: dict[str, str] = {}
    for row in meta.index_rows(tx):
        changed = changed_settings(config, row, attached.open(row))
        why = [f"{key} is {old!r}, and {new!r} is set" for key, (old, new) in changed.items()]
        if why:
            found[row.name] = "; ".join(why)
    return found
