"""From the nodes of any forest to those above them: sums, means, and the ancestors of the best leaves.

A forest is given as plain arrays with one row a node: `parent` has the row of the node above, -1 at a root, and
`level` rises from a child to its parent, by one or by more. `Ascent` checks them once, for many questions of one forest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memforest.ranking.scores import Scores, stable_order

Ints = NDArray[np.int64]


class Ancestors(NamedTuple):
    """Nodes above leaves, lowest level first, and on each level in the order of the best leaf below them."""

    nodes: Ints
    leaves: Ints
    """The best leaf by which each of the nodes was reached."""


class Ascent:
    """The ways up a forest.

    Args:
        parent: row of each node's parent, -1 at a root; shape (n,). Neither array may change.
        level: of each node; above its children's, by one or by more.

    Raises:
        ValueError: if a parent is not a row of the forest, or not above its child.
    """

    def __init__(self, parent: Ints, level: Ints) -> None:
        check_parents(parent, len(level))
        _check_levels(parent, level)
        self.parent, self.level = parent, level

    @cached_property
    def _steps(self) -> Sequence[tuple[Ints, Ints]]:
        """The nodes that have a parent, level by level from the lowest, with their parents."""
        below = np.flatnonzero(self.parent >= 0)
        below = below[stable_order(self.level[below])]
        starts = np.flatnonzero(np.r_[True, np.diff(self.level[below]) != 0]) if len(below) else below
        return [(rows, self.parent[rows]) for rows in np.split(below, starts[1:])]

    @cached_property
    def _inner(self) -> Ints:
        """The nodes that have a child."""
        return np.unique(self.parent[self.parent >= 0])

    @cached_property
    def _leaf_counts(self) -> Scores:
        """The leaves at or below each node."""
        leaf = np.ones(len(self.parent))
        leaf[self._inner] = 0.0
        return self.sums(leaf)

    def sums(self, values: Scores) -> Scores:
        """Return, for every node, the sum of its own value and those of all nodes below it; see `sums_below`."""
        total = np.array(values, dtype=np.float64)
        for rows, above in self._steps:
            np.add.at(total, above, total[rows])
        return total

    def means(self, values_of_leaves: Scores) -> Scores:
        """Return, for every node, the mean of the values of the leaves below it; see `means_below`."""
        values = np.array(values_of_leaves, dtype=np.float64)
        values[self._inner] = 0.0
        total = self.sums(values)
        total[self._inner] /= self._leaf_counts[self._inner]
        return total

    def ancestors(self, leaves: Ints, budgets: Mapping[int, int]) -> Ancestors:
        """Return the nodes above leaves on the levels that have a budget, at most so many a level; see `ancestors`.

        Raises:
            ValueError: if a leaf is not a row of the forest.
        """
        if len(leaves) and (leaves.min() < 0 or leaves.max() >= len(self.parent)):
            raise ValueError("a leaf is not a row of the forest")
        nodes, ranks = _all_above(leaves, self.parent)
        wanted = np.array(sorted(one for one, most in budgets.items() if most > 0), dtype=np.int64)
        most = np.array([budgets[one] for one in wanted.tolist()], dtype=np.int64)
        here = np.isin(self.level[nodes], wanted)
        nodes, ranks = nodes[here], ranks[here]
        _, first = np.unique(
            nodes, return_index=True
        )  # sorted by rank, so the first is that of the best leaf
        nodes, ranks = nodes[first], ranks[first]
        ordered = np.lexsort((nodes, ranks, self.level[nodes]))
        nodes, ranks = nodes[ordered], ranks[ordered]
        place = np.searchsorted(wanted, self.level[nodes])
        begin = np.searchsorted(place, np.arange(len(wanted)))
        kept = np.arange(len(nodes)) - begin[place] < most[place]
        return Ancestors(nodes[kept], leaves[ranks[kept]])


def check_parents(parent: Ints, count: int) -> None:
    """Refuse parents that are not rows of a forest of so many nodes."""
    if len(parent) != count:
        raise ValueError(f"there are {len(parent)} parents for {count} nodes")
    if count and (parent.min() < -1 or parent.max() >= count):
        raise ValueError("a node's parent is not a row of the forest")


def _check_levels(parent: Ints, level: Ints) -> None:
    """Refuse a parent that is not above its child: going up would not come to an end."""
    below = np.flatnonzero(parent >= 0)
    if (level[parent[below]] <= level[below]).any():
        raise ValueError("a node's parent is not on a higher level than the node")


def ancestors(leaves: Ints, parent: Ints, level: Ints, budgets: Mapping[int, int]) -> Ancestors:
    """Return the nodes above leaves on the levels that have a budget, at most so many a level.

    The best leaf's ancestors come first, then those of the second best that are not there yet, and so on. Source:
    TiMem (arXiv 2601.02845) §3.3.2, Eq. 8 and 9; what is over a level's budget is pruned by similarity (appendix). Its
    published code goes through the leaves in the order of time, and so fills the budgets from the earliest leaf
    instead of the best. Its budgets for a simple question are ``{2: 4, 5: 1}``.

    Args:
        leaves: rows to start from, best first; any nodes will do, and a row may occur twice.
        parent: row of each node's parent, -1 at a root.
        level: of each node; above its children's, by one or by more.
        budgets: level -> most nodes of it. A level that is not there, or has 0, gives none.

    Raises:
        ValueError: if a leaf or a parent is not a row of the forest, or a parent is not above its child.

    Example:
        >>> parent, level = np.array([-1, 0, 0, 1, 2]), np.array([3, 2, 2, 1, 1])
        >>> ancestors(np.array([4, 3]), parent, level, {2: 1, 3: 1}).nodes.tolist()
        [2, 0]
    """
    return Ascent(parent, level).ancestors(leaves, budgets)


def _all_above(leaves: Ints, parent: Ints) -> tuple[Ints, Ints]:
    """Return every ancestor of every leaf and that leaf's place, by place; a node once for each leaf below it."""
    nodes, ranks = np.asarray(leaves, dtype=np.int64), np.arange(len(leaves))
    found, places = [nodes[:0]], [ranks[:0]]
    while True:
        above = parent[nodes]
        nodes, ranks = above[above >= 0], ranks[above >= 0]
        if not len(nodes):
            break
        found.append(nodes)
        places.append(ranks)
    together = np.concatenate(places)
    by_place = np.argsort(together, kind="stable")
    return np.concatenate(found)[by_place], together[by_place]


def sums_below(values: Scores, parent: Ints, level: Ints) -> Scores:
    """Return, for every node, the sum of its own value and those of all nodes below it.

    Args:
        values: of every node, shape (n,); to count leaves, 1 at a leaf and 0 elsewhere.
        parent: row of each node's parent, -1 at a root.
        level: of each node; above its children's, by one or by more.

    Raises:
        ValueError: if a parent is not a row of the forest, or not above its child.

    Example:
        >>> sums_below(np.array([0.0, 1.0, 1.0]), np.array([-1, 0, 0]), np.array([1, 0, 0])).tolist()
        [2.0, 1.0, 1.0]
    """
    check_parents(parent, len(values))
    return Ascent(parent, level).sums(values)


def means_below(values_of_leaves: Scores, parent: Ints, level: Ints) -> Scores:
    """Return, for every node, the mean of the values of the leaves below it; a leaf has its own.

    So a node is as relevant as what it stands for is on average, without anything that is written about it.

    Args:
        values_of_leaves: of every node, shape (n,); what stands at inner nodes is not looked at.
        parent: row of each node's parent, -1 at a root.
        level: of each node; above its children's, by one or by more.

    Raises:
        ValueError: if a parent is not a row of the forest, or not above its child.

    Example:
        >>> means_below(np.array([9.0, 1.0, 0.5]), np.array([-1, 0, 0]), np.array([1, 0, 0])).tolist()
        [0.75, 1.0, 0.5]
    """
    check_parents(parent, len(values_of_leaves))
    return Ascent(parent, level).means(values_of_leaves)
