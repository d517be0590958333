"""Bringing a forest up to date from the change log, without reading all of its trees again.

As `memforest.search.advance` does it with what was said: the nodes of the index that the change log names are read
and spliced into the columns. What comes out equals a forest that is read from nothing, which is tested on random
histories.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memforest.search.forest import CELL, FACT, INNER, NONE, TURNS, Forest, Inner
from memforest.search.load_forest import Nodes, adopt, embedded_ids, item_rows, read_nodes
from memforest.search.snapshot import Snapshot
from memforest.search.splice import Splice, as_array, read_again, rows_of, sorted_splice
from memforest.search.vectors import VectorTable
from memforest.store import forests as rows
from memforest.store.changes import Changes
from memforest.store.tx import Tx

Ints = NDArray[np.int64]

SHARE = 0.5
"""Of the nodes; when more than this has changed, reading all is as quick."""


class OldVectors(NamedTuple):
    """Vectors of the summaries of nodes with the given ids, as they were at a position of the change log."""

    position: int
    ids: Ints
    table: VectorTable


def advance_forest(tx: Tx, snapshot: Snapshot, old: Forest, changed: Changes) -> Forest | None:
    """Return a forest made from an older one and the changes since; None when reading it anew costs less."""
    read, trees = read_nodes(tx, old.owner, changed.node), rows.tree_rows(tx, old.owner, changed.tree)
    gone = rows_of(old.ids, as_array(changed.node))
    if max(len(read.ids), int(np.count_nonzero(gone >= 0))) > SHARE * len(old.ids):
        return None
    same = old.turns is snapshot.turns and old.facts is snapshot.facts
    if same and not (
        len(read.ids) or trees or (gone >= 0).any() or np.isin(old.tree_ids, as_array(changed.tree)).any()
    ):
        return old
    return _spliced(snapshot, old, read, trees, changed.node, changed.tree)


def _spliced(
    snapshot: Snapshot,
    old: Forest,
    read: Nodes,
    trees: list[rows.TreeRow],
    changed_nodes: Collection[int],
    changed_trees: Collection[int],
) -> Forest:
    """Return a forest with the changed rows taken out, and those that were read put in."""
    splice = sorted_splice(old.ids, changed_nodes, read.ids)
    take = splice.take
    ids = np.concatenate([old.ids, read.ids])[take]
    new_trees = as_array([tree.id for tree in trees])
    heads = sorted_splice(old.tree_ids, changed_trees, new_trees)
    tree_ids = np.concatenate([old.tree_ids, new_trees])[heads.take]
    kinds = [*old.tree_kind, *(tree.kind for tree in trees)]
    kind = np.concatenate([old.kind, read.kind])[take]
    item, item_end = _carried_items(snapshot, old)
    new_item, new_end = item_rows(snapshot, read.kind, read.first, read.last)
    parent, place = _spliced_parents(old, read, splice, ids)
    roots = rows_of(ids, as_array([tree.root or NONE for tree in trees]))
    scopes = as_array([tree.scope for tree in trees])
    inner = np.flatnonzero(kind == INNER)
    return Forest(
        owner=old.owner,
        ids=ids,
        tree=np.concatenate([heads.now[old.tree], rows_of(tree_ids, read.tree)])[take],
        level=np.concatenate([old.level, read.level])[take],
        parent=parent,
        place=place,
        kind=kind,
        item=np.concatenate([item, new_item])[take],
        item_end=np.concatenate([item_end, new_end])[take],
        inner=inner,
        stored=_spliced_stored(old, read, take[inner]),
        tree_ids=tree_ids,
        tree_kind=tuple(kinds[i] for i in heads.take.tolist()),
        tree_scope=np.concatenate([old.tree_scope, scopes])[heads.take],
        tree_root=np.concatenate([_renumbered(splice.now, old.tree_root), roots])[heads.take],
        turns=snapshot.turns,
        facts=snapshot.facts,
        summarised=np.union1d(_staying(splice.now, old.summarised), splice.read[read.summarised]),
    )


def _staying(now: Ints, old: Ints) -> Ints:
    """Return where rows stand now, without those that are gone."""
    stay = now[old]
    found: Ints = stay[stay >= 0]
    return found


def _carried_items(snapshot: Snapshot, old: Forest) -> tuple[Ints, Ints]:
    """Return what the leaves of an older forest stand for, in rows of the snapshot; `NONE` for what is gone."""
    item, end = old.item, old.item_end
    if not _begins_with(snapshot.facts.ids, old.facts.ids):
        item, leaves = item.copy(), np.flatnonzero(old.kind == FACT)
        item[leaves] = rows_of(snapshot.facts.ids, old.facts.ids)[old.item[leaves]]
    if not _begins_with(snapshot.turns.ids, old.turns.ids):
        item, end, leaves = item.copy(), end.copy(), np.flatnonzero((old.kind == CELL) | (old.kind == TURNS))
        turns = rows_of(snapshot.turns.ids, old.turns.ids)
        item[leaves] = turns[old.item[leaves]]
        end[leaves] = turns[old.item_end[leaves] - 1] + 1
    return item, end


def _begins_with(ids: Ints, old: Ints) -> bool:
    """Return whether rows have kept their numbers, as they do when what is new was said last."""
    return len(ids) >= len(old) and bool((ids[: len(old)] == old).all())


def _renumbered(now: Ints, values: Ints) -> Ints:
    """Return row numbers renumbered; `NONE` stays."""
    return (
        np.where(values >= 0, now[values], NONE) if len(now) else np.full(len(values), NONE, dtype=np.int64)
    )


def _spliced_parents(old: Forest, read: Nodes, splice: Splice, ids: Ints) -> tuple[Ints, Ints]:
    """Return the parent and the place of every node of a spliced forest.

    Of nodes that were read the children are read too; whoever is a child of another one is so still.
    """
    again = rows_of(old.ids, read.ids)
    stays = np.append(splice.now, NONE)  # the last one is for roots
    stays[again[again >= 0]] = NONE
    new_parent = np.where(again >= 0, stays[old.parent[again]], NONE)
    parent = np.concatenate([stays[old.parent], new_parent])[splice.take]
    place = np.concatenate([old.place, np.where(again >= 0, old.place[again], 0)])[splice.take]
    inner = np.flatnonzero(read.kind == INNER)
    adopt(parent, place, splice.read[inner], rows_of(ids, read.children), read.child_count[inner], old.owner)
    place[parent < 0] = 0
    return parent, place


def _spliced_stored(old: Forest, read: Nodes, take: Ints) -> Inner:
    """Return the stored columns of inner nodes; `take` has, for each, the old row or the old length + the row read."""
    place = np.full(len(old.ids) + len(read.ids), NONE, dtype=np.int64)
    place[old.inner] = np.arange(len(old.inner))
    new = len(old.ids) + np.flatnonzero(read.kind == INNER)
    place[new] = len(old.inner) + np.arange(len(new))
    return old.stored.taken(read.stored, place[take])


def advance_vectors(
    tx: Tx, snapshot: Snapshot, forest: Forest, old: OldVectors, changed: Changes
) -> VectorTable | None:
    """Return the vectors of summaries made from older ones; None when that is impossible, or costs more than reading."""
    if old.table.dimension != snapshot.dimension:
        return None
    had, before = old.table, old.ids
    ids, noted = embedded_ids(forest), as_array(changed.node)
    own = noted[rows_of(ids, noted) >= 0].tolist()
    if len(own) > SHARE * len(before):
        return None
    if not own and np.array_equal(before, ids):
        return had
    return read_again(tx, "node", had, rows_of(before, ids), ids, own)
