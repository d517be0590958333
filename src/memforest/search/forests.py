"""The forests of a snapshot: read at first use, index by index, and brought up to date by what was written since.

A snapshot holds what was said; trees are views of that, and a query reads those of the index that it asks. A forest
is read in the transaction of the snapshot's state. The next snapshot begins with the forests of the one before, as
they were: at its first use, a forest reads the rows of its own trees that the change log names. What other indexes
write costs it nothing, and a forest that nobody asks for is neither read nor brought up to date.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from memforest.search.forest import CELL, FACT, INNER, NONE, TURNS, EmbeddedForest, Forest, Inner
from memforest.search.snapshot import Snapshot
from memforest.search.splice import Splice, as_array, read_again, rows_of, sorted_splice
from memforest.search.vectors import VectorTable
from memforest.store import derived, meta
from memforest.store import forests as rows
from memforest.store.changes import Changes, changes_since
from memforest.store.db import Tx

__all__ = ["carry_forests", "embedded_forest", "forest_bytes", "forest_of", "forests_read", "put_forest"]

T = TypeVar("T")
Ints = NDArray[np.int64]

BLOCK = 4096
"""Rows turned into columns at a time."""
SHARE = 0.5
"""Of the nodes; when more than this has changed, reading all is as quick."""


# -- which there are ------------------------------------------------------------------------------


class _Vectors(NamedTuple):
    """Vectors of the inner nodes with the given ids, as they were at a position of the change log."""

    position: int
    ids: Ints
    table: VectorTable


@dataclass(slots=True)
class _Kept:
    """What one snapshot has of one index: as it is now, and as it was at a position of the change log."""

    forest: Forest | None = None
    embedded: EmbeddedForest | None = None
    older_forest: tuple[int, Forest] | None = None
    older_vectors: _Vectors | None = None


@dataclass(slots=True)
class _Forests:
    """The forests of one snapshot by owner; one thread at a time makes one."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    of: dict[str, _Kept] = field(default_factory=dict)
    changes: dict[int, Changes | None] = field(default_factory=dict)
    """What has changed since a position of the change log, as forests and their vectors mostly ask for the same."""


_forests: WeakKeyDictionary[Snapshot, _Forests] = WeakKeyDictionary()


def forest_of(tx: Tx, snapshot: Snapshot, owner: str) -> Forest:
    """Return the trees of an index as they are in a snapshot.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory.
        owner: name of the index.

    Raises:
        ValueError: if the stored trees contradict each other, or the transaction is of another state.
    """

    def make(kept: _Kept) -> Forest:
        if kept.forest is None:
            older, kept.older_forest = kept.older_forest, None
            kept.forest = _advanced(tx, snapshot, older) or _loaded(tx, snapshot, owner)
        return kept.forest

    kept = _kept(snapshot, owner)
    return kept.forest or _made(tx, snapshot, kept, make)


def embedded_forest(tx: Tx, snapshot: Snapshot, owner: str) -> EmbeddedForest:
    """Return the trees of an index with the vectors of their inner nodes.

    These are read apart, as a search that does not browse needs none of them. Arguments and errors are those of
    `forest_of`.
    """
    forest = forest_of(tx, snapshot, owner)

    def make(kept: _Kept) -> EmbeddedForest:
        if kept.embedded is None:
            older, kept.older_vectors = kept.older_vectors, None
            table = _advanced_vectors(tx, snapshot, forest, older)
            kept.embedded = EmbeddedForest(
                forest, _loaded_vectors(tx, snapshot, forest) if table is None else table
            )
        return kept.embedded

    kept = _kept(snapshot, owner)
    return kept.embedded or _made(tx, snapshot, kept, make)


def put_forest(snapshot: Snapshot, found: EmbeddedForest) -> None:
    """Give a snapshot that is of no file the trees of an index."""
    kept = _kept(snapshot, found.forest.owner)
    kept.forest, kept.embedded = found.forest, found


def carry_forests(old: Snapshot, new: Snapshot) -> None:
    """Let a memory's next snapshot begin with the forests of the one before."""
    carried = _Forests()
    for owner, kept in dict(_of(old)).items():  # a copy: another thread may be adding to it
        forest, embedded = kept.forest, kept.embedded
        vectors = kept.older_vectors
        if embedded is not None:
            vectors = _Vectors(old.position, _inner_ids(embedded.forest), embedded.vectors)
        carried.of[owner] = _Kept(
            older_forest=kept.older_forest if forest is None else (old.position, forest),
            older_vectors=vectors,
        )
    _forests[new] = carried


def forest_bytes(snapshot: Snapshot) -> int:
    """Return the bytes of the forests that a snapshot has, about: those that are up to date, and older ones."""
    total = 0
    for kept in dict(_of(snapshot)).values():
        forest = kept.forest or (kept.older_forest and kept.older_forest[1])
        total += 0 if forest is None else forest.nbytes
        if kept.embedded is not None:
            total += kept.embedded.vectors.nbytes
        elif kept.older_vectors is not None:
            total += kept.older_vectors.ids.nbytes + kept.older_vectors.table.nbytes
    return total


def forests_read(snapshot: Snapshot) -> frozenset[str]:
    """Return the indexes whose forests are up to date in a snapshot; the others were not asked for."""
    return frozenset(owner for owner, kept in dict(_of(snapshot)).items() if kept.forest is not None)


def _of(snapshot: Snapshot) -> Mapping[str, _Kept]:
    found = _forests.get(snapshot)
    return {} if found is None else found.of


def _kept(snapshot: Snapshot, owner: str) -> _Kept:
    return _forests.setdefault(snapshot, _Forests()).of.setdefault(owner, _Kept())


def _made(tx: Tx, snapshot: Snapshot, kept: _Kept, make: Callable[[_Kept], T]) -> T:
    """Make something of a snapshot; other threads wait for it."""
    if meta.generation(tx) != snapshot.generation:
        raise ValueError(
            "trees are read in a transaction of the snapshot's state; begin one, and ask for both"
        )
    with _forests.setdefault(snapshot, _Forests()).lock:
        return make(kept)


def _inner_ids(forest: Forest) -> Ints:
    found: Ints = forest.ids[forest.inner]
    return found


# -- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Nodes:
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


def _read(tx: Tx, owner: str, only: Collection[int] | None = None) -> _Nodes:
    """Return the nodes of an index, all of them when `only` is None."""
    inner, packed, windows, states = _inner_columns(rows.inner_rows(tx, owner, only))
    leaf = _number_columns(rows.leaf_rows(tx, owner, only), len(rows.LeafRow._fields))
    ids = np.concatenate([inner[0], leaf[0]])
    order = np.argsort(ids, kind="stable")
    above, below = len(inner[0]), len(leaf[0])
    nothing, none = np.zeros(above, dtype=np.int64), np.zeros(below, dtype=np.int64)

    def both(of_inner: Ints, of_leaf: Ints) -> Ints:
        return np.concatenate([of_inner, of_leaf])[order]

    return _Nodes(
        ids=ids[order],
        tree=both(inner[1], leaf[1]),
        level=both(inner[2], none),
        kind=both(nothing, leaf[2] + 1).astype(np.int8),
        first=both(nothing, leaf[3]),
        last=both(nothing, leaf[4]),
        child_count=both(inner[3], none),
        children=packed,  # leaves have none, so the order of inner nodes is that of all
        stored=Inner(inner[4], inner[5], inner[6], inner[7], windows, states),
    )


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
) -> tuple[Ints, Ints, NDArray[np.object_], NDArray[np.object_]]:
    """Return the numbers of inner nodes as columns, the ids of their children, their windows and states."""
    numbers, children = [np.zeros((8, 0), dtype=np.int64)], [b""]
    windows: list[str | None] = []
    states: list[bytes | None] = []
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
            for id_, tree, level, packed, start, end, lo, hi, _, _ in block
        ]
        numbers.append(np.array(part, dtype=np.int64).T)
        children += [row.children for row in block]
        windows += [row.window for row in block]
        states += [row.state for row in block]
    packed = np.frombuffer(b"".join(children), dtype="<u4").astype(np.int64)
    return np.concatenate(numbers, axis=1), packed, _objects(windows), _objects(states)


def _objects(values: list[Any]) -> NDArray[np.object_]:
    found = np.empty(len(values), dtype=np.object_)
    found[:] = values
    return found


def _item_rows(snapshot: Snapshot, kind: NDArray[np.int8], first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Return `Forest.item` and `Forest.item_end` of nodes whose items are given by id."""
    item, end = np.full((2, len(kind)), NONE, dtype=np.int64)
    runs, facts = np.flatnonzero((kind == CELL) | (kind == TURNS)), np.flatnonzero(kind == FACT)
    item[facts] = rows_of(snapshot.facts.ids, first[facts])
    item[runs] = rows_of(snapshot.turns.ids, first[runs])
    end[runs] = rows_of(snapshot.turns.ids, last[runs]) + 1
    return item, end


def _adopt(parent: Ints, place: Ints, above: Ints, children: Ints, counts: Ints, owner: str) -> None:
    """Set, in place, the parents of children and which child each is.

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


def _loaded(tx: Tx, snapshot: Snapshot, owner: str) -> Forest:
    """Read all of an index's trees."""
    nodes, trees = _read(tx, owner), rows.tree_rows(tx, owner)
    tree_ids = as_array([tree.id for tree in trees])
    inner = np.flatnonzero(nodes.kind == INNER)
    parent, place = np.full(len(nodes.ids), NONE, dtype=np.int64), np.zeros(len(nodes.ids), dtype=np.int64)
    _adopt(parent, place, inner, rows_of(nodes.ids, nodes.children), nodes.child_count[inner], owner)
    item, item_end = _item_rows(snapshot, nodes.kind, nodes.first, nodes.last)
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
    )


def _loaded_vectors(tx: Tx, snapshot: Snapshot, forest: Forest) -> VectorTable:
    ids = _inner_ids(forest)
    table, only = VectorTable.blank(len(ids), snapshot.dimension), ids.tolist()
    for start in range(0, len(only), BLOCK):
        for items, vectors in derived.vector_blocks(tx, "node", only[start : start + BLOCK]):
            table.fill(rows_of(ids, items), vectors)
    return table


# -- bringing up to date --------------------------------------------------------------------------


def _changes(tx: Tx, snapshot: Snapshot, older: tuple[Any, ...] | None) -> Changes | None:
    """Return what has changed since something was made; None when there is none, or it is not known any more."""
    if older is None:
        return None
    known = _forests.setdefault(snapshot, _Forests()).changes
    if older[0] not in known:
        known[older[0]] = changes_since(tx, older[0])
    return known[older[0]]


def _advanced(tx: Tx, snapshot: Snapshot, older: tuple[int, Forest] | None) -> Forest | None:
    """Return a forest made from an older one by what has changed; None when that cannot be done, or would not pay."""
    changed = _changes(tx, snapshot, older)
    if older is None or changed is None:
        return None
    old = older[1]
    read, trees = _read(tx, old.owner, changed.node), rows.tree_rows(tx, old.owner, changed.tree)
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
    read: _Nodes,
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
    new_item, new_end = _item_rows(snapshot, read.kind, read.first, read.last)
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
    )


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


def _spliced_parents(old: Forest, read: _Nodes, splice: Splice, ids: Ints) -> tuple[Ints, Ints]:
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
    _adopt(parent, place, splice.read[inner], rows_of(ids, read.children), read.child_count[inner], old.owner)
    place[parent < 0] = 0
    return parent, place


def _spliced_stored(old: Forest, read: _Nodes, take: Ints) -> Inner:
    """Return what is stored of inner nodes; `take` has the old row, or the old length + the row read, of each."""
    place = np.full(len(old.ids) + len(read.ids), NONE, dtype=np.int64)
    place[old.inner] = np.arange(len(old.inner))
    new = len(old.ids) + np.flatnonzero(read.kind == INNER)
    place[new] = len(old.inner) + np.arange(len(new))
    return old.stored.taken(read.stored, place[take])


def _advanced_vectors(
    tx: Tx, snapshot: Snapshot, forest: Forest, older: _Vectors | None
) -> VectorTable | None:
    """Return the vectors of inner nodes made from older ones; None when that cannot be done, or would not pay."""
    changed = _changes(tx, snapshot, older)
    if older is None or changed is None or older.table.dimension != snapshot.dimension:
        return None
    had, before = older.table, older.ids
    ids, noted = _inner_ids(forest), as_array(changed.node)
    own = noted[rows_of(ids, noted) >= 0].tolist()
    if len(own) > SHARE * len(before):
        return None
    if not own and np.array_equal(before, ids):
        return had
    return read_again(tx, "node", had, rows_of(before, ids), ids, own)
