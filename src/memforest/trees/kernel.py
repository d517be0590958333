"""Growing trees as arrays, level by level: leaves in time order, and above them nodes that follow from the leaves alone.

A tree is a function of its leaves, so that equal sets of leaves give equal trees, whatever came when. Where a node ends must
then not depend on its position, or one early leaf would shift every node behind it, and with it every summary that was paid
for. `packed` has *anchored packing*: a leaf whose own number says so (one in `SPARSE` times k) ends a node, between such
leaves nodes are filled to k, and the level above does the same by the number of a node's first leaf (cf. the prolly trees of
Noms and Dolt). An insert or a delete anywhere then renews few nodes. With ``anchored=False``
nodes are filled from the left, as in the paper's tree that grows to the right (MemForest §4.1); `benchmarks/packing.py` has
both side by side.

`Growth` is what an index grows its forest with; what holds of every forest is checked by `problems`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import tzinfo
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memforest.reading.periods import Unit, window_of
from memforest.search.forest import FACT, INNER, NONE, NOTHING, Forest, Ints, mixed
from memforest.search.snapshot import OPEN, Facts, Snapshot
from memforest.times import from_ms, to_ms

SPARSE = 4
"""How rare anchors are: one leaf in so many times k ends its node. Rarer ones fill nodes better, and renew more of them
(`benchmarks/packing.py`)."""


class Growth:
    """A forest that is grown from its leaves upwards.

    Args:
        owner: name of the index.
        snapshot: what the leaves are of.
        kinds, scopes: of each tree.
    """

    def __init__(
        self, owner: str, snapshot: Snapshot, kinds: Sequence[str], scopes: Ints | Sequence[int]
    ) -> None:
        self._owner, self._snapshot = owner, snapshot
        self._kinds, self._scopes = tuple(kinds), np.asarray(scopes, dtype=np.int64)
        self._parts: list[dict[str, NDArray[Any]]] = []
        """The columns of `Forest` as far as nodes were added, part by part."""
        self._parents: list[tuple[Ints, Ints]] = []
        self._names: dict[str, int] = {}
        self.size = 0
        """Rows so far."""

    def leaves(
        self, tree: Ints, kind: int, item: Ints, start_ms: Ints, end_ms: Ints, item_end: Ints | None = None
    ) -> Ints:
        """Add leaves, in time order within each tree, and return their rows; all leaves come before the first `above`."""
        none = np.full(len(tree), NONE, dtype=np.int64)
        return self._add(
            kind,
            tree=tree,
            level=np.zeros(len(tree), dtype=np.int64),
            item=item,
            item_end=none if item_end is None else item_end,
            start_ms=start_ms,
            end_ms=np.maximum(end_ms, start_ms + 1),
            window=none,
        )

    def facts(self, tree: Ints, facts: Ints) -> Ints:
        """Add a leaf for each of some facts, and return the rows."""
        start, end = fact_times(self._snapshot.facts)
        return self.leaves(tree, FACT, facts, start[facts], end[facts])

    def runs(self, tree: Ints, kind: int, first: Ints, end: Ints) -> Ints:
        """Add a leaf for each of some runs of turns, rows [first, end), and return the rows."""
        said = self._snapshot.turns.said_ms
        if not len(first):
            return self.leaves(tree, kind, first, first, first, end)
        bounds = np.stack([first, end], axis=1).ravel()
        said = np.append(said, said[-1])  # the last run ends behind the last turn
        starts, ends = np.minimum.reduceat(said, bounds)[::2], np.maximum.reduceat(said, bounds)[::2]
        return self.leaves(tree, kind, first, starts, ends + 1, end)

    def above(
        self, below: Ints, group: Ints, level: int | Ints, windows: tuple[Sequence[str], Ints] | None = None
    ) -> Ints:
        """Put nodes above others, and return their rows.

        Args:
            below: the rows that get a parent, those of one parent in their order.
            group: number of the new node above each, from 0 on; every number has one.
            level: of the new nodes.
            windows: the keys of calendar windows, and the number of each new node's among them.
        """
        if not len(below):
            return NOTHING
        order = np.argsort(group, kind="stable")
        rows, own = below[order], group[order]
        starts = np.flatnonzero(np.r_[True, np.diff(own) != 0])
        count = len(starts)
        none = window = np.full(count, NONE, dtype=np.int64)
        if windows is not None:
            codes = [self._names.setdefault(key, len(self._names)) for key in windows[0]]
            window = np.array(codes, dtype=np.int64)[windows[1]]
        made = self._add(
            INNER,
            tree=self._column("tree")[rows[starts]],
            level=np.broadcast_to(np.asarray(level, dtype=np.int64), count).copy(),
            item=none,
            item_end=none,
            start_ms=np.minimum.reduceat(self._column("start_ms")[rows], starts),
            end_ms=np.maximum.reduceat(self._column("end_ms")[rows], starts),
            window=window,
        )
        self._parents.append((rows, made[own - own[0]]))
        return made

    def pack(self, leaves: Ints, marks: NDArray[np.uint64], k: Ints, *, anchored: bool = True) -> None:
        """Put nodes of at most k children above leaves until each tree has one root.

        Args:
            leaves: rows, tree by tree and in order.
            marks: a number for each leaf that depends on what it is alone.
            k: by tree.
            anchored: whether nodes end where the leaves say so, and not only where they are full.
        """
        rows, level = leaves, 0
        tree = self._column("tree")[leaves]
        while len(rows):
            sizes = np.bincount(tree, minlength=len(k))
            more = sizes[tree] > 1
            rows, tree, marks = rows[more], tree[more], marks[more]
            if not len(rows):
                return
            group = packed(tree, mixed(marks, level), k, anchored=anchored)
            level += 1
            above = self.above(rows, group, level)
            first = np.flatnonzero(np.r_[True, np.diff(group) != 0])
            rows, tree, marks = above, tree[first], marks[first]

    def _add(self, kind: int, **columns: Ints) -> Ints:
        """Add rows of one kind, and return them."""
        count = len(columns["tree"])
        self._parts.append({"kind": np.full(count, kind, dtype=np.int8), **columns})
        self.size += count
        return np.arange(self.size - count, self.size)

    def _column(self, name: str) -> Ints:
        return np.concatenate([NOTHING, *(part[name] for part in self._parts)])

    def forest(self, told: Ints | None = None, kept: Any = None) -> Forest:
        """Return what has grown; inner nodes have summaries unless `told` names the rows of others."""
        parent = np.full(self.size, NONE, dtype=np.int64)
        for rows, above in self._parents:
            parent[rows] = above

        kind, tree = self._column("kind").astype(np.int8), self._column("tree")
        root = np.full(len(self._kinds), NONE, dtype=np.int64)
        top = np.flatnonzero(parent < 0)
        root[tree[top]] = top
        return Forest(
            owner=self._owner,
            tree=tree,
            level=self._column("level"),
            parent=parent,
            kind=kind,
            item=self._column("item"),
            item_end=self._column("item_end"),
            start_ms=self._column("start_ms"),
            end_ms=self._column("end_ms"),
            tree_kind=self._kinds,
            tree_scope=self._scopes,
            tree_root=root,
            turns=self._snapshot.turns,
            facts=self._snapshot.facts,
            told=np.flatnonzero(kind == INNER) if told is None else told,
            window=self._column("window") if self._names else NOTHING,
            windows=tuple(self._names),
            kept=kept,
        )


Window: TypeAlias = tuple[str, int, int]
"""A calendar window: its key, and [start, end) in UTC ms."""


def windows_of(instants_ms: Ints, units: Sequence[Unit], zone: tzinfo) -> list[tuple[Ints, Sequence[Window]]]:
    """Return, unit by unit, the number of the window in which each of some instants lies, and these windows in time order.

    Args:
        instants_ms: UTC ms, ascending.
        units: the shortest first; where a window of one ends, the one of the unit before does, too.
        zone: whose days are meant.
    """
    instants, found, starts = instants_ms.tolist(), list[Sequence[Window]](), list[int]()
    at = 0
    while at < len(instants):
        starts.append(at)
        found.append(_windows_at(instants[at], tuple(units), zone))
        at = bisect_left(instants, found[-1][0][2], at + 1)
    counts, made = np.diff(starts, append=len(instants)), list[tuple[Ints, Sequence[Window]]]()
    for own in zip(*found, strict=True):
        number = {window: at for at, window in enumerate(dict.fromkeys(own))}
        made.append((np.repeat([number[window] for window in own], counts), list(number)))
    return made


@lru_cache(maxsize=1 << 14)  # trees have the same windows again after every write
def _windows_at(instant_ms: int, units: Sequence[Unit], zone: tzinfo) -> Sequence[Window]:
    found = (window_of(from_ms(instant_ms), unit, zone) for unit in units)
    return [(one.key, to_ms(one.start), to_ms(one.end)) for one in found]


def packed(tree: Ints, marks: NDArray[np.uint64], k: Ints, *, anchored: bool) -> Ints:
    """Return the number of the node above each of some siblings-to-be; see `Growth.pack`.

    A tree of at most k gets one node: its root.

    Example:
        >>> ends = np.array([1, 1, 24, 1, 1, 1], dtype=np.uint64)
        >>> packed(np.zeros(6, dtype=np.int64), ends, np.array([3]), anchored=True).tolist()
        [0, 0, 0, 1, 1, 1]
    """
    new = np.r_[True, np.diff(tree) != 0]
    width = k[tree]
    if anchored:
        ends = marks % (width * SPARSE).astype(np.uint64) == 0
        ends &= np.bincount(tree, minlength=len(k))[tree] > width
        new[1:] |= ends[:-1]
    starts = np.flatnonzero(new)
    place = np.arange(len(tree)) - np.repeat(starts, np.diff(np.r_[starts, len(tree)]))
    begins: Ints = np.cumsum(place % width == 0) - 1
    return begins


def fact_times(facts: Facts) -> tuple[Ints, Ints]:
    """Return the interval of each fact, [start, end) in UTC ms: as stated, else the moment at which it was first said."""
    closed = facts.stated & (facts.end_ms != OPEN)
    return facts.start_ms, np.where(closed, np.maximum(facts.end_ms, facts.start_ms + 1), facts.start_ms + 1)


def problems(forest: Forest, *, contained: bool = False, disjoint: bool = False) -> list[str]:
    """Return everything that is wrong with the shape of a forest, as sentences; nothing when it keeps the contract.

    Of every tree: each node is below one root; levels rise from a child to its parent; siblings and leaves stand in time
    order, a node covers its children; leaves and they alone have an item.

    Args:
        forest: the trees.
        contained: siblings may interleave, as those of calendar windows and clusters may.
        disjoint: the intervals of siblings must not overlap.
    """
    found: list[str] = []
    rows, level, parent = np.arange(len(forest)), forest.level, forest.parent
    inner, below = forest.kind == INNER, np.flatnonzero(parent >= 0)
    above = parent[below]
    kids = np.bincount(above, minlength=len(forest))
    for what, wrong in (
        ("has no children", rows[inner & (kids == 0)]),
        ("is a leaf with children", rows[~inner & (kids > 0)]),
        ("is no root and has no parent", rows[(parent < 0) & (forest.tree_root[forest.tree] != rows)]),
        ("is of another tree than its parent", below[forest.tree[below] != forest.tree[above]]),
        ("is not below its parent's level", below[level[below] >= level[above]]),
        ("has an empty interval", rows[forest.start_ms >= forest.end_ms]),
        (
            "is not covered by its parent",
            below[
                (forest.start_ms[below] < forest.start_ms[above])
                | (forest.end_ms[below] > forest.end_ms[above])
            ],
        ),
    ):
        found += [f"node {row} {what}" for row in wrong.tolist()]
    if not contained:
        leaves = np.flatnonzero(forest.kind == FACT)  # runs stand in the order of their session
        early = leaves[1:][(np.diff(forest.tree[leaves]) == 0) & (np.diff(forest.start_ms[leaves]) < 0)]
        found += [f"leaf {row} stands behind a later one" for row in early.tolist()]
    if disjoint:
        values = forest.children.values
        same = parent[values[1:]] == parent[values[:-1]]
        over = values[1:][same & (forest.start_ms[values[1:]] < forest.end_ms[values[:-1]])]
        found += [f"node {row} overlaps its sibling" for row in over.tolist()]
    return found
