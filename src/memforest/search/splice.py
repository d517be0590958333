"""Splices: a table of rows made from an older one and rows read, and the renumbering that follows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memforest.search.vectors import VectorTable
from memforest.store import derived
from memforest.store.tx import Tx

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Splice:
    """A table made from an older one: `take` has, per row, the old row, or the old length + the row read."""

    take: Ints
    old: int
    now: Ints
    """Old row -> row now, -1 when it is gone; a row that was read again keeps its identity by its id."""

    @property
    def read(self) -> Ints:
        """Rows that were read."""
        return np.flatnonzero(self.take >= self.old)

    @property
    def source(self) -> Ints:
        """Row -> old row of the same id, -1 for a new one."""
        found = np.full(len(self.take), -1, dtype=np.int64)
        kept = np.flatnonzero(self.now >= 0)
        found[self.now[kept]] = kept
        return found


def rows_of(ids: Ints, wanted: Ints) -> Ints:
    """Return the row of each wanted id in a column of ids in any order, -1 where it is missing."""
    if not len(ids) or not len(wanted):
        return np.full(len(wanted), -1, dtype=np.int64)
    if (ids[1:] > ids[:-1]).all():
        found = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
        return np.where(ids[found] == wanted, found, -1)
    order = np.argsort(ids, kind="stable")
    at = np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)
    found = order[at]
    return np.where(ids[found] == wanted, found, -1)


def spliced(old_ids: Ints, kept: Ints, read_ids: Ints, at: Ints) -> Splice:
    """Return the splice of read rows into the kept ones, each before the kept row at its place in `at`."""
    take = np.insert(kept, at, len(old_ids) + np.arange(len(read_ids)))
    now = np.full(len(old_ids), -1, dtype=np.int64)
    stays = take < len(old_ids)
    now[take[stays]] = np.flatnonzero(stays)
    again = rows_of(old_ids, read_ids)
    read = np.flatnonzero(~stays)
    order = np.empty(len(read_ids), dtype=np.int64)
    order[take[read] - len(old_ids)] = read
    now[again[again >= 0]] = order[again >= 0]
    return Splice(take, len(old_ids), now)


def sorted_splice(old_ids: Ints, gone: Collection[int], read_ids: Ints) -> Splice:
    """Return the splice of a table that is in the order of its ids."""
    out = rows_of(old_ids, as_array(gone))
    kept = np.delete(np.arange(len(old_ids)), out[out >= 0])
    return spliced(old_ids, kept, read_ids, np.searchsorted(old_ids[kept], read_ids))


def as_array(values: Collection[int]) -> Ints:
    """Return whole numbers as an array."""
    return np.fromiter(values, dtype=np.int64, count=len(values))


def spliced_vectors(
    tx: Tx, kind: derived.ItemKind, table: VectorTable, splice: Splice, ids: Ints, changed: Collection[int]
) -> VectorTable:
    """Return the vectors of a spliced table: those of changed items are read, the others stay where they are."""
    if not changed:
        return table
    return read_again(tx, kind, table, splice.source, ids, changed)


def read_again(
    tx: Tx, kind: derived.ItemKind, table: VectorTable, source: Ints, ids: Ints, changed: Collection[int]
) -> VectorTable:
    """Return the vectors of the items with the given ids.

    Args:
        tx: a read transaction.
        kind: of the items.
        table: the vectors that there were.
        source: for each item its row in that table, -1 for none.
        ids: of the items.
        changed: items whose vectors are read instead.
    """
    at = rows_of(ids, as_array(changed))
    source[at[at >= 0]] = -1
    items, found = [np.zeros(0, dtype=np.int64)], [np.zeros((0, table.dimension), dtype=np.float32)]
    for block, vectors in derived.vector_blocks(tx, kind, changed):
        items.append(block)
        found.append(vectors)
    at = rows_of(ids, np.concatenate(items))
    return table.changed(source, at[at >= 0], np.concatenate(found)[at >= 0])
