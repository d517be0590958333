"""The trees of one index as arrays: shape, times, and what leaves stand for.

A forest is a value: an index grows it from a snapshot (`memforest.trees.index.Index.grow`), and nothing of it is stored. Rows
of turns and facts are those of the snapshot. Leaves come first, tree by tree in time order, then the nodes above them, level
by level; the children of a node stand in the order of their first leaves. What was computed on a forest is kept with it
(`once_per_forest`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar
from weakref import WeakKeyDictionary
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from memforest.search.flow import Ascent
from memforest.search.scores import Scores
from memforest.search.snapshot import Facts, Lists, Snapshot, Turns, once_per_snapshot, rows_of
from memforest.search.vectors import VectorTable

P = ParamSpec("P")
T = TypeVar("T")
Ints = NDArray[np.int64]
Digests = NDArray[np.uint64]
"""Two numbers a row, shape (n, 2): what a node says, as far as that follows from what is stored."""

INNER, CHUNK, FACT, TURNS = range(4)
"""What stands in `Forest.kind`: an inner node, or a leaf of a chunk, a fact, a run of turns."""

NONE = -1
"""A row that there is not."""

NOTHING: Ints = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Forest:
    """All nodes of an index's trees as columns. Immutable, compared by identity, shared by readers.

    Raises:
        ValueError: if a child's level is not below its parent's, or a leaf stands for nothing.
    """

    owner: str
    """Name of the index."""
    tree: Ints
    """Which tree a node is of."""
    level: Ints
    """0 for leaves. A child's is below its parent's, and need not be the next."""
    parent: Ints
    """Row, or `NONE` at a root."""
    kind: NDArray[np.int8]
    """`INNER`, `CHUNK`, `FACT` or `TURNS`."""
    item: Ints
    """Row of a leaf's fact or first turn, `NONE` of an inner node."""
    item_end: Ints
    """One past the last turn row of a leaf of turns, else `NONE`."""
    start_ms: Ints
    end_ms: Ints
    """The half-open interval of every node, UTC ms: of an inner node the hull of its children's."""
    tree_kind: tuple[str, ...]
    tree_scope: Ints
    """What each tree is of: the row id of a session, an entity or a fact, or a year."""
    tree_root: Ints
    """Row of each tree's root."""
    turns: Turns
    facts: Facts
    """Those that rows of items mean."""
    told: Ints
    """The rows of the nodes that have summaries, ascending."""
    window: Ints = field(default_factory=lambda: NOTHING)
    """Number of each node's calendar window in `windows`, `NONE` for none; empty in trees without windows."""
    windows: tuple[str, ...] = ()
    """The keys of calendar windows."""
    kept: Any = None
    """What the index keeps of growing it: it is handed back when the next forest is grown."""

    def __post_init__(self) -> None:
        leaves, runs = self.kind != INNER, (self.kind == CHUNK) | (self.kind == TURNS)
        if len(self.tree) and ((self.level >= self.level[self.parent]) & (self.parent >= 0)).any():
            raise ValueError(f"a tree of the index {self.owner!r} has a node whose child is not below it")
        if ((leaves & (self.item < 0)) | (runs & (self.item_end <= self.item))).any():
            raise ValueError(f"a leaf of the index {self.owner!r} stands for nothing")

    def __len__(self) -> int:
        return len(self.tree)

    @cached_property
    def inner(self) -> Ints:
        """The rows of inner nodes, ascending."""
        return np.flatnonzero(self.kind == INNER)

    @cached_property
    def summarised(self) -> Ints:
        """The rows of the leaves that have a summary of their own, ascending."""
        return np.asarray(self.told[self.kind[self.told] != INNER])

    def of_kind(self, kind: str) -> NDArray[np.bool_]:
        """Return which trees are of a kind, shape (trees,)."""
        return np.array([one == kind for one in self.tree_kind], dtype=np.bool_)

    @cached_property
    def children(self) -> Lists:
        """The rows of each node's children, in the order of the first leaf at or below each."""
        below = np.flatnonzero(self.parent >= 0)
        below = below[np.lexsort((self.first[below], self.parent[below]))]
        counts = np.bincount(self.parent[below], minlength=len(self))
        return Lists(below, np.cumsum(counts, dtype=np.int64))

    @cached_property
    def first(self) -> Ints:
        """The row of the first leaf at or below every node."""
        found = np.arange(len(self))
        found[self.inner] = len(self)
        for level in np.unique(self.level).tolist():
            rows = np.flatnonzero((self.level == level) & (self.parent >= 0))
            np.minimum.at(found, self.parent[rows], found[rows])
        return found

    @cached_property
    def counts(self) -> Ints:
        """The number of leaves at or below every node."""
        return self.ascent.sums((self.kind != INNER).astype(np.float64)).astype(np.int64)

    @cached_property
    def ids(self) -> Ints:
        """A number for every node that stays as long as its tree, its level and its first leaf do."""
        leaf = self.first
        item, facts = self.item[leaf], self.kind[leaf] == FACT
        item[facts], item[~facts] = self.facts.ids[item[facts]], self.turns.ids[item[~facts]]
        of_tree = np.array([crc32(kind.encode()) for kind in self.tree_kind], dtype=np.int64)
        made = mixed(self.tree_scope[self.tree].astype(np.uint64), 64 * of_tree[self.tree] + self.level)
        return (mixed(made, item) >> np.uint64(11)).astype(np.int64)  # a float can hold it

    def rows_with(self, ids: Ints) -> Ints:
        """Return the rows of nodes by `ids`, -1 for those that there are not."""
        order = np.argsort(self.ids, kind="stable")
        if not len(order):
            return np.full(len(ids), NONE, dtype=np.int64)
        at = order[np.minimum(np.searchsorted(self.ids, ids, sorter=order), len(order) - 1)]
        return np.where(self.ids[at] == ids, at, NONE)

    def window_of(self, row: int) -> str | None:
        """Return the key of a node's calendar window, None for none."""
        code = int(self.window[row]) if len(self.window) else NONE
        return None if code < 0 else self.windows[code]

    def span(self, row: int) -> tuple[int, int]:
        """Return the half-open run of leaves at or below a node, counted in its tree from 1."""
        low = (
            int(self.first[row] - np.searchsorted(self.tree[: len(self) - len(self.inner)], self.tree[row]))
            + 1
        )
        return low, low + int(self.counts[row])

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
        return sum(value.nbytes for value in values if isinstance(value, np.ndarray))


_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def mixed(one: NDArray[np.uint64], other: Any = 0) -> NDArray[np.uint64]:
    """Return numbers that depend on all bits of pairs of numbers.

    Source of the steps: splitmix64 (https://prng.di.unimi.it/splitmix64.c).
    """
    # Of one number alone NumPy warns.
    z = one ^ (np.atleast_1d(np.asarray(other)).astype(np.uint64) * _ODD + _ODD)
    z = (z ^ (z >> np.uint64(30))) * _MIX[0]
    z = (z ^ (z >> np.uint64(27))) * _MIX[1]
    made: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return made


def marks_of(vectors: NDArray[np.float32]) -> NDArray[np.uint64]:
    """Return a number for each vector, shape (n,): of about 32 of its coordinates."""
    step = max(1, vectors.shape[1] // 32)
    bits = np.ascontiguousarray(vectors[:, ::step]).view(np.uint32).astype(np.uint64)
    weights = np.arange(1, 2 * bits.shape[1], 2, dtype=np.uint64)
    return mixed((bits * weights).sum(axis=1, dtype=np.uint64))


Marks: TypeAlias = tuple[Ints, NDArray[np.bool_], Ints]
"""The row ids of turns or facts, which of them have a vector, and a number for each that depends on its id and its vector."""


def _marked(told: Facts | Turns, had: Marks, anew: Ints) -> Marks:
    """Mark turns or facts; those that were marked before are not looked at, but for some rows."""
    had_ids, had_has, had_bits = had
    at = rows_of(had_ids, told.ids)
    at[anew] = NONE
    known, new = np.flatnonzero(at >= 0), np.flatnonzero(at < 0)
    has, bits, vectors = at >= 0, at.copy(), told.vectors[new]
    has[known], bits[known] = had_has[at[known]], had_bits[at[known]]
    has[new] = vectors.any(axis=1)
    bits[new] = mixed(told.ids[new].astype(np.uint64), marks_of(vectors)).astype(np.int64)
    return told.ids, has, bits


_NONE_MARKED: Marks = (NOTHING, np.zeros(0, dtype=np.bool_), NOTHING)
_marked_facts = once_per_snapshot(
    lambda snapshot: _marked(snapshot.facts, _NONE_MARKED, NOTHING),
    lambda snapshot, delta, had: _marked(snapshot.facts, had, delta.facts),
)
_marked_turns = once_per_snapshot(
    lambda snapshot: _marked(snapshot.turns, _NONE_MARKED, NOTHING),
    lambda snapshot, delta, had: _marked(snapshot.turns, had, delta.turns),
)


def marked_facts(snapshot: Snapshot) -> Marks:
    """Return the marks of a snapshot's facts."""
    return _marked_facts(snapshot)


def marked_turns(snapshot: Snapshot) -> Marks:
    """Return the marks of a snapshot's turns."""
    return _marked_turns(snapshot)


def as_keys(digests: Digests) -> list[bytes]:
    """Return digests as the store has them, 16 bytes each."""
    whole = np.ascontiguousarray(digests.astype("<u8")).tobytes()
    return [whole[at : at + 16] for at in range(0, len(whole), 16)]


def numbers_of(keys: Collection[bytes]) -> Digests:
    """Return digests that the store has as numbers, shape (n, 2)."""
    return np.frombuffer(b"".join(keys), dtype="<u8").reshape(-1, 2).astype(np.uint64)


@dataclass(frozen=True, eq=False)
class EmbeddedForest:
    """A forest with the vectors of its summaries, for browsing."""

    forest: Forest
    vectors: VectorTable
    """A row for each of `Forest.told`; zeros for a node without one."""
    digests: Digests
    """Of `Forest.told`."""
    last: int = 0
    """Number of the summary that was written last (`memforest.store.artifacts.last`)."""

    def cosines_at(self, nodes: Ints, vector: NDArray[np.float32]) -> Scores:
        """Return the cosine of each of some nodes of `Forest.told` with a unit vector."""
        return self.vectors.cosines_at(np.searchsorted(self.forest.told, nodes), vector)


def once_per_forest(make: Callable[Concatenate[Forest, P], T]) -> Callable[Concatenate[Forest, P], T]:
    """Make a function of a forest remember its result for as long as the forest is in use.

    Other arguments than the forest must follow from it, as its snapshot does.
    """
    made: WeakKeyDictionary[Forest, T] = WeakKeyDictionary()

    @wraps(make)
    def remembered(forest: Forest, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return made[forest]
        except KeyError:
            return made.setdefault(forest, make(forest, *args, **kwargs))

    return remembered
