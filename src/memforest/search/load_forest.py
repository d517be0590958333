"""Reading the forest of an index from the store: columns of its trees and nodes, and the vectors of its summaries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest.search.forest import CELL, FACT, INNER, NONE, TURNS, Forest, Inner
from memforest.search.snapshot import Snapshot
from memforest.search.splice import as_array, rows_of
from memforest.search.vectors import VectorTable
from memforest.store import derived
from memforest.store import forests as rows
from memforest.store.tx import Tx

Ints = NDArray[np.int64]

BLOCK = 4096
"""Rows turned into columns at a time."""


def embedded_ids(forest: Forest) -> Ints:
    """Return the ids of the nodes that have summaries, in the order of their vectors."""
    found: Ints = forest.ids[forest.embedded]
    return found


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes by id as they are stored. `first` and `last` are ids: of the fact, or of the first and last turn."""

    ids: Ints
    tree: Ints
    level: Ints
    kind: NDArray[np.int8]
    first: Ints
    last: Ints
    child_count: Ints
    children: Ints
    """Ids of the children of all, one behind the other."""
    stored: Inner
    summarised: Ints
    """Places among these nodes of the leaves that have a summary of their own."""


def read_nodes(tx: Tx, owner: str, only: Collection[int] | None = None) -> Nodes:
    """Return the nodes of an index, all of them when `only` is None."""
    summarised: list[int] = []
    inner, packed, windows = _inner_columns(_inner(rows.inner_rows(tx, owner, only), summarised))
    leaf = _number_columns(rows.leaf_rows(tx, owner, only), len(rows.LeafRow._fields))
    ids = np.concatenate([inner[0], leaf[0]])
    order = np.argsort(ids, kind="stable")
    above, below = len(inner[0]), len(leaf[0])
    nothing, none = np.zeros(above, dtype=np.int64), np.zeros(below, dtype=np.int64)

    def both(of_inner: Ints, of_leaf: Ints) -> Ints:
        return np.concatenate([of_inner, of_leaf])[order]

    ids = ids[order]
    places = rows_of(ids, as_array(summarised))
    return Nodes(
        ids=ids,
        tree=both(inner[1], leaf[1]),
        level=both(inner[2], none),
        kind=both(nothing, leaf[2] + 1).astype(np.int8),
        first=both(nothing, leaf[3]),
        last=both(nothing, leaf[4]),
        child_count=both(inner[3], none),
        children=packed,  # leaves have none, so the order of inner nodes is that of all
        stored=Inner(inner[4], inner[5], inner[6], inner[7], windows),
        summarised=places[places >= 0],
    )


def _inner(found: Iterable[rows.InnerRow], leaves: list[int]) -> Iterator[rows.InnerRow]:
    """Yield the inner nodes of some rows, and put the ids of the others, which are leaves, into a list."""
    for row in found:
        if row.level:
            yield row
        else:
            leaves.append(row.id)


def _blocks(found: Iterable[Any]) -> Iterable[list[Any]]:
    source = iter(found)
    while block := list(islice(source, BLOCK)):
        yield block


def _number_columns(found: Iterable[tuple[int, ...]], width: int) -> Ints:
    """Return rows of whole numbers as columns, shape (width, rows)."""
    parts = [np.array(block, dtype=np.int64).T for block in _blocks(found)]
    return np.concatenate([np.zeros((width, 0), dtype=np.int64), *parts], axis=1)


def _inner_columns(
    found: Iterable[rows.InnerRow],
) -> tuple[Ints, Ints, NDArray[np.object_]]:
    """Return the numbers of inner nodes as columns, the ids of their children, and their windows."""
    numbers, children = [np.zeros((8, 0), dtype=np.int64)], [b""]
    windows: list[str | None] = []
    for block in _blocks(found):
        part = [
            (
                id_,
                tree,
                level,
                len(packed) // 4,
                start,
                end,
                NONE if lo is None else lo,
                NONE if hi is None else hi,
            )
            for id_, tree, level, packed, start, end, lo, hi, _ in block
        ]
        numbers.append(np.array(part, dtype=np.int64).T)
        children += [row.children for row in block]
        windows += [row.window for row in block]
    packed = np.frombuffer(b"".join(children), dtype="<u4").astype(np.int64)
    return np.concatenate(numbers, axis=1), packed, _objects(windows)


def _objects(values: list[Any]) -> NDArray[np.object_]:
    found = np.empty(len(values), dtype=np.object_)
    found[:] = values
    return found


def item_rows(snapshot: Snapshot, kind: NDArray[np.int8], first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Return `Forest.item` and `Forest.item_end` of nodes whose items are given by id."""
    item, end = np.full((2, len(kind)), NONE, dtype=np.int64)
    runs, facts = np.flatnonzero((kind == CELL) | (kind == TURNS)), np.flatnonzero(kind == FACT)
    item[facts] = rows_of(snapshot.facts.ids, first[facts])
    item[runs] = rows_of(snapshot.turns.ids, first[runs])
    end[runs] = rows_of(snapshot.turns.ids, last[runs]) + 1
    return item, end


def adopt(parent: Ints, place: Ints, above: Ints, children: Ints, counts: Ints, owner: str) -> None:
    """Set, in place, each child's parent and its position among the children.

    Args:
        parent: of every node; `NONE` for those that get one.
        place: of every node.
        above: the rows of inner nodes.
        children: the rows of the children of all of them, one node's behind the other's.
        counts: how many children each has.
        owner: name of the index.
    """
    parents = np.count_nonzero(parent >= 0)
    if len(children) and int(children.min()) >= 0:
        parent[children] = np.repeat(above, counts)
        place[children] = np.arange(len(children)) - np.repeat(np.cumsum(counts) - counts, counts)
    if np.count_nonzero(parent >= 0) != parents + len(children):
        raise ValueError(
            f"a tree of the index {owner!r} has a node whose child is missing, or is another's too"
        )


def load_forest(tx: Tx, snapshot: Snapshot, owner: str) -> Forest:
    """Read all of an index's trees."""
    nodes, trees = read_nodes(tx, owner), rows.tree_rows(tx, owner)
    tree_ids = as_array([tree.id for tree in trees])
    inner = np.flatnonzero(nodes.kind == INNER)
    parent, place = np.full(len(nodes.ids), NONE, dtype=np.int64), np.zeros(len(nodes.ids), dtype=np.int64)
    adopt(parent, place, inner, rows_of(nodes.ids, nodes.children), nodes.child_count[inner], owner)
    item, item_end = item_rows(snapshot, nodes.kind, nodes.first, nodes.last)
    return Forest(
        owner=owner,
        ids=nodes.ids,
        tree=rows_of(tree_ids, nodes.tree),
        level=nodes.level,
        parent=parent,
        place=place,
        kind=nodes.kind,
        item=item,
        item_end=item_end,
        inner=inner,
        stored=nodes.stored,
        tree_ids=tree_ids,
        tree_kind=tuple(tree.kind for tree in trees),
        tree_scope=as_array([tree.scope for tree in trees]),
        tree_root=rows_of(nodes.ids, as_array([tree.root or NONE for tree in trees])),
        turns=snapshot.turns,
        facts=snapshot.facts,
        summarised=nodes.summarised,
    )


def load_vectors(tx: Tx, snapshot: Snapshot, forest: Forest) -> VectorTable:
    """Read the vectors of all summaries of a forest; zeros for those that have none."""
    ids = embedded_ids(forest)
    table, only = VectorTable.blank(len(ids), snapshot.dimension), ids.tolist()
    for start in range(0, len(only), BLOCK):
        for items, vectors in derived.vector_blocks(tx, "node", only[start : start + BLOCK]):
            table.fill(rows_of(ids, items), vectors)
    return table
