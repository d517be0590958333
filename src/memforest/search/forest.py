"""The trees of one index as arrays, as they were in one snapshot: shape, times, spans, and what leaves stand for.

Rows of turns and facts are those of the snapshot that it was made for. What was computed on a forest is kept with it
(`once_per_forest`). `load_forest` reads one from the store; `memforest.search.cache` brings it up to date; `forest_without`
makes that of an earlier moment: the whole one without the leaves of what was not held then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, wraps
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from memforest.search.flow import Ascent, sums_below
from memforest.search.scores import Scores, cosines, stable_order
from memforest.search.snapshot import BLOCK, OPEN, Facts, Lists, Snapshot, Turns, as_array, blocks, rows_of
from memforest.search.vectors import VectorTable
from memforest.store import derived, indexes
from memforest.store.connections import Tx
from memforest.store.indexes import LEAF_KINDS

P = ParamSpec("P")
T = TypeVar("T")
Ints = NDArray[np.int64]

INNER, CHUNK, FACT, TURNS = range(len(LEAF_KINDS) + 1)
"""What stands in `Forest.kind`: an inner node, or a leaf of a chunk, a fact, a run of turns."""

NONE = -1
"""A row or an ordinal that there is not."""


@dataclass(frozen=True, slots=True)
class Inner:
    """The stored attributes of inner nodes, beside their place in the tree: columns with a row for each node."""

    start_ms: Ints
    end_ms: Ints
    span_lo: Ints
    """First ordinal of the span, `NONE` for a node without one."""
    span_hi: Ints
    window: NDArray[np.object_]
    """The key of a calendar window, or None."""

    def taken(self, more: Inner, take: Ints) -> Inner:
        """Return the rows of this table and of another one behind it, in the order of `take`."""
        columns = ((getattr(self, one.name), getattr(more, one.name)) for one in fields(self))
        return Inner(*(np.concatenate(pair)[take] for pair in columns))

    @property
    def nbytes(self) -> int:
        """Bytes of the columns and of what their objects are."""
        columns = [getattr(self, one.name) for one in fields(self)]
        held = (value for value in self.window if value is not None)
        return sum(int(column.nbytes) for column in columns) + sum(sys.getsizeof(value) for value in held)


@dataclass(frozen=True, eq=False)
class Forest:
    """All nodes of an index's trees as columns, by id. Immutable, compared by identity, shared by readers.

    `item` is the row of a leaf's fact, or of the first turn of its run; `NONE` for inner nodes.

    Raises:
        ValueError: if this is no forest: searches follow it without looking, and would go round in circles.
    """

    owner: str
    """Name of the index."""
    ids: Ints
    tree: Ints
    """Row of the node's tree."""
    level: Ints
    """0 for leaves. A child's is below its parent's, and need not be the next."""
    parent: Ints
    """Row, or `NONE` at a root."""
    place: Ints
    """Which child of its parent it is, from 0; 0 at a root."""
    kind: NDArray[np.int8]
    """`INNER`, `CHUNK`, `FACT` or `TURNS`."""
    item: Ints
    item_end: Ints
    """One past the last turn row of a leaf of turns."""
    inner: Ints
    """The rows of inner nodes, ascending."""
    stored: Inner
    """Of the inner nodes, a row each."""
    tree_ids: Ints
    tree_kind: tuple[str, ...]
    tree_scope: Ints
    tree_root: Ints
    """Row of each tree's root, `NONE` for a tree without leaves."""
    turns: Turns
    facts: Facts
    """Those that rows of items mean."""
    summarised: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """The rows of the leaves that have a summary of their own, ascending."""
    torn: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """The rows of the nodes beneath which something is left out, ascending, in a forest of an earlier moment: what their
    summaries tell was not all held then."""

    def __post_init__(self) -> None:
        """Raise if a child's level is not below its parent's, or a leaf has no item."""
        leaves, runs = self.kind != INNER, (self.kind == CHUNK) | (self.kind == TURNS)
        if len(self.ids) and ((self.level >= self.level[self.parent]) & (self.parent >= 0)).any():
            raise ValueError(f"a tree of the index {self.owner!r} has a node whose child is not below it")
        if ((self.tree < 0) | (leaves & (self.item < 0)) | (runs & (self.item_end < 1))).any():
            raise ValueError(
                f"a node of the index {self.owner!r} is of a tree, or a leaf of an item, that is missing"
            )

    @property
    def roots(self) -> Ints:
        """The rows of all roots, by tree."""
        return self.tree_root[self.tree_root >= 0]

    @cached_property
    def embedded(self) -> Ints:
        """The rows of the nodes that have summaries, and vectors of these, ascending: inner nodes, and `summarised`."""
        return np.union1d(self.inner, self.summarised) if len(self.summarised) else self.inner

    def of_kind(self, kind: str) -> NDArray[np.bool_]:
        """Return which trees are of a kind, shape (trees,)."""
        return np.array([one == kind for one in self.tree_kind], dtype=np.bool_)

    @cached_property
    def intervals(self) -> tuple[Ints, Ints]:
        """Start and end of every node, half-open, ms: of inner nodes as stored, of leaves those of their items.

        A leaf's is what `memforest.store.trees` makes of its item.
        """
        start, end = np.zeros((2, len(self.ids)), dtype=np.int64)
        start[self.inner], end[self.inner] = self.stored.start_ms, self.stored.end_ms
        leaves = np.flatnonzero(self.kind == FACT)
        facts, items = self.facts, self.item[leaves]
        start[leaves] = facts.start_ms[items]
        closed = facts.stated[items] & (facts.end_ms[items] != OPEN)
        end[leaves] = np.where(closed, np.maximum(facts.end_ms[items], start[leaves] + 1), start[leaves] + 1)
        runs = np.flatnonzero((self.kind == CHUNK) | (self.kind == TURNS))
        said = self.turns.said_ms
        start[runs] = said[self.item[runs]]
        end[runs] = np.maximum(start[runs], said[self.item_end[runs] - 1]) + 1
        return start, end

    @cached_property
    def children(self) -> Lists:
        """The rows of each node's children, in order."""
        below = np.flatnonzero(self.parent >= 0)
        below = below[stable_order(self.place[below])]
        below = below[stable_order(self.parent[below])]
        counts = np.bincount(self.parent[below], minlength=len(self.ids))
        return Lists(below, np.cumsum(counts, dtype=np.int64))

    def path(self, node: int) -> list[int]:
        """Return the rows from the root down to a node."""
        chain = [node]
        while self.parent[chain[-1]] >= 0:
            chain.append(int(self.parent[chain[-1]]))
        return chain[::-1]

    @cached_property
    def ascent(self) -> Ascent:
        """The ways up from its nodes."""
        return Ascent(self.parent, self.level)

    @cached_property
    def nbytes(self) -> int:
        """Bytes of its columns; what `turns` and `facts` are is the snapshot's."""
        values = [getattr(self, one.name) for one in fields(self)]
        return sum(value.nbytes for value in values if isinstance(value, (np.ndarray, Inner)))


@dataclass(frozen=True, eq=False)
class EmbeddedForest:
    """A forest with the vectors of its summaries, for browsing."""

    forest: Forest
    vectors: VectorTable
    """A row for each of `Forest.embedded`; zeros for a node without one."""

    @cached_property
    def embedded_roots(self) -> Ints:
        """The rows of the roots that have summaries, by tree."""
        roots: Ints = self.forest.roots
        found: Ints = roots[np.isin(roots, self.forest.embedded)]
        return found

    @cached_property
    def _root_vectors(self) -> NDArray[np.float32]:
        return self.vectors[self._places(self.embedded_roots)]

    def _places(self, nodes: Ints) -> Ints:
        return np.searchsorted(self.forest.embedded, nodes)

    def root_cosines(self, vector: NDArray[np.float32]) -> Scores:
        """Return the cosine of each of `embedded_roots` with a unit vector."""
        return cosines(self._root_vectors, vector)

    def cosines_at(self, nodes: Ints, vector: NDArray[np.float32]) -> Scores:
        """Return the cosine of each of some nodes of `Forest.embedded` with a unit vector."""
        return self.vectors.cosines_at(self._places(nodes), vector)


def once_per_forest(make: Callable[Concatenate[Forest, P], T]) -> Callable[Concatenate[Forest, P], T]:
    """Make a function of a forest remember its result for as long as the forest is in use.

    The result is shared: nobody may change it, and it must not hold the forest. Further arguments are to be the same
    at every call. Two threads may both make it the first time.
    """
    made: WeakKeyDictionary[Forest, T] = WeakKeyDictionary()

    @wraps(make)
    def remembered(forest: Forest, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return made[forest]
        except KeyError:
            return made.setdefault(forest, make(forest, *args, **kwargs))

    return remembered


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
    inner, packed, windows = _inner_columns(indexes.inner_rows(tx, owner, only), summarised)
    parts = (np.array(block, dtype=np.int64).T for block in blocks(indexes.leaf_rows(tx, owner, only)))
    leaf = np.concatenate([np.zeros((len(indexes.LeafRow._fields), 0), dtype=np.int64), *parts], axis=1)
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


def _inner_columns(
    found: Iterable[indexes.InnerRow], leaves: list[int]
) -> tuple[Ints, Ints, NDArray[np.object_]]:
    """Return the numbers of inner nodes as columns, the ids of their children, and their windows; put those of leaves into a list."""
    numbers, children = [np.zeros((8, 0), dtype=np.int64)], [b""]
    windows: list[str | None] = []
    for rows in blocks(found):
        leaves += [row.id for row in rows if not row.level]
        block = [row for row in rows if row.level]
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
        numbers.append(np.array(part, dtype=np.int64).reshape(-1, 8).T)
        children += [row.children for row in block]
        windows += [row.window for row in block]
    packed = np.frombuffer(b"".join(children), dtype="<u4").astype(np.int64)
    objects = np.empty(len(windows), dtype=np.object_)
    objects[:] = windows
    return np.concatenate(numbers, axis=1), packed, objects


def item_rows(snapshot: Snapshot, kind: NDArray[np.int8], first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Return `Forest.item` and `Forest.item_end` of nodes whose items are given by id."""
    item, end = np.full((2, len(kind)), NONE, dtype=np.int64)
    runs, facts = np.flatnonzero((kind == CHUNK) | (kind == TURNS)), np.flatnonzero(kind == FACT)
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
    nodes, trees = read_nodes(tx, owner), indexes.tree_rows(tx, owner)
    tree_ids = as_array([tree for tree, *_ in trees])
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
        tree_kind=tuple(kind for _, kind, *_ in trees),
        tree_scope=as_array([scope for _, _, scope, _ in trees]),
        tree_root=rows_of(nodes.ids, as_array([root or NONE for *_, root in trees])),
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


def forest_without(whole: Forest, snapshot: Snapshot) -> Forest:
    """Return a forest without the items that a snapshot of an earlier moment does not have, and nodes that hold nothing then.

    A node keeps its interval. A leaf of turns of which only the first were held ends with those.

    Args:
        whole: of the snapshot's base.
        snapshot: of an earlier moment.
    """
    item, end, torn = _items(whole, snapshot)
    leaf = whole.kind != INNER
    kept_leaf = leaf & (item >= 0)
    kept = sums_below(kept_leaf.astype(np.float64), whole.parent, whole.level) > 0
    torn = sums_below((leaf & torn).astype(np.float64), whole.parent, whole.level) > 0
    rows = np.flatnonzero(kept)
    now = np.full(len(whole.ids) + 1, NONE, dtype=np.int64)  # its last place is that of NONE
    now[rows] = np.arange(len(rows))
    inner = whole.inner[kept[whole.inner]]
    return replace(
        whole,
        ids=whole.ids[rows],
        tree=whole.tree[rows],
        level=whole.level[rows],
        parent=now[whole.parent[rows]],
        place=whole.place[rows],
        kind=whole.kind[rows],
        item=item[rows],
        item_end=end[rows],
        inner=now[inner],
        stored=Inner(*(getattr(whole.stored, one.name)[kept[whole.inner]] for one in fields(whole.stored))),
        tree_root=now[whole.tree_root],
        turns=snapshot.turns,
        facts=snapshot.facts,
        summarised=now[whole.summarised[kept[whole.summarised]]],
        torn=np.flatnonzero(torn[rows]),
    )


def _items(whole: Forest, snapshot: Snapshot) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Return `item` and `item_end` in the rows of an earlier moment, `NONE` for what was not held, and which leaves lost something."""
    item, end = np.full((2, len(whole.ids)), NONE, dtype=np.int64)
    torn = np.zeros(len(whole.ids), dtype=np.bool_)
    facts = np.flatnonzero(whole.kind == FACT)
    item[facts] = rows_of(snapshot.facts.ids, whole.facts.ids[whole.item[facts]])
    torn[facts] = (item[facts] < 0) | np.isin(
        whole.facts.ids[whole.item[facts]], np.array([*snapshot.restated], dtype=np.int64)
    )
    runs = np.flatnonzero((whole.kind != FACT) & (whole.kind != INNER))
    turn = rows_of(snapshot.turns.ids, whole.turns.ids)
    before = np.r_[0, np.cumsum(turn >= 0)]
    first, last = whole.item[runs], whole.item_end[runs]
    held = before[last] - before[first]
    # Turns stand in one order at every moment, so those of a run that were held stand side by side.
    item[runs] = np.where(held > 0, before[first], NONE)
    end[runs] = np.where(held > 0, before[first] + held, NONE)
    retold = np.r_[0, np.cumsum(np.isin(whole.turns.ids, as_array(snapshot.retold)))]
    torn[runs] = (held < last - first) | (retold[last] > retold[first])
    return item, end, torn


def vectors_without(whole: EmbeddedForest, forest: Forest) -> VectorTable:
    """Return the vectors of the summaries of a forest that `forest_without` made of another one."""
    places = rows_of(whole.forest.ids[whole.forest.embedded], forest.ids[forest.embedded])
    nothing = np.zeros((0, whole.vectors.dimension), dtype=np.float32)
    return whole.vectors.changed(places, np.zeros(0, dtype=np.int64), nothing)
