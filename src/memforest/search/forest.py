"""The trees of one index as arrays, as they were in one snapshot: shape, times, spans, and what leaves stand for.

Rows of turns and facts are those of the snapshot that it was made for. What was computed on a forest is kept with it
(`once_per_forest`); how it is read and brought up to date: `memforest.search.forests`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property, wraps
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from memforest.ranking import Ascent, Scores, cosines, stable_order
from memforest.search.snapshot import OPEN, Facts, Lists, Turns
from memforest.search.vectors import VectorTable
from memforest.store.forests import LEAF_KINDS

P = ParamSpec("P")
T = TypeVar("T")
Ints = NDArray[np.int64]

INNER, CELL, FACT, TURNS = range(len(LEAF_KINDS) + 1)
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
    """`INNER`, `CELL`, `FACT` or `TURNS`."""
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
        leaves, runs = self.kind != INNER, (self.kind == CELL) | (self.kind == TURNS)
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

        A leaf's is what `memforest.store.leaves` makes of its item.
        """
        start, end = np.zeros((2, len(self.ids)), dtype=np.int64)
        start[self.inner], end[self.inner] = self.stored.start_ms, self.stored.end_ms
        leaves = np.flatnonzero(self.kind == FACT)
        facts, items = self.facts, self.item[leaves]
        start[leaves] = facts.start_ms[items]
        closed = facts.stated[items] & (facts.end_ms[items] != OPEN)
        end[leaves] = np.where(closed, np.maximum(facts.end_ms[items], start[leaves] + 1), start[leaves] + 1)
        runs = np.flatnonzero((self.kind == CELL) | (self.kind == TURNS))
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
