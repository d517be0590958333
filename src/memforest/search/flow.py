"""From the nodes of any forest to those above and below them: sums, means, ancestors, and relevance along the edges.

A forest is given as plain arrays with one row a node. `parent` has the row of the parent, or -1 for a root. `level`
rises from a child to its parent, by one or more. Rows may stand in any order, and there may be several trees. `Ascent`
checks
them once, for many questions of one forest. Every step is a pass over arrays; what is returned depends on the rows alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from memforest.search.scores import Scores, stable_order

Ints = NDArray[np.int64]


class Ascent:
    """The ways up a forest.

    Args:
        parent: row of each node's parent, -1 at a root; shape (n,). Neither array may change.
        level: of each node; above its children's, by one or by more.

    Raises:
        ValueError: if a parent is not a row of the forest, or not above its child.
    """

    def __init__(self, parent: Ints, level: Ints) -> None:
        check_order(parent, level)
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
        above = np.zeros(len(self.parent), dtype=np.bool_)
        above[self.parent[self.parent >= 0]] = True
        return np.flatnonzero(above)

    @cached_property
    def _leaf_counts(self) -> Scores:
        """The leaves at or below each node."""
        leaf = np.ones(len(self.parent))
        leaf[self._inner] = 0.0
        return self.sums(leaf)

    def sums(self, values: Scores) -> Scores:
        """Return, for every node, the sum of its own value and those of all nodes below it."""
        total = np.array(values, dtype=np.float64)
        for rows, above in self._steps:
            np.add.at(total, above, total[rows])
        return total

    def means(self, values_of_leaves: Scores) -> Scores:
        """Return, for every node, the mean of the values of the leaves below it; a leaf has its own.

        So a node is as relevant as what it stands for is on average, without anything that is written about it.
        """
        values = np.array(values_of_leaves, dtype=np.float64)
        values[self._inner] = 0.0
        total = self.sums(values)
        total[self._inner] /= self._leaf_counts[self._inner]
        return total


def check_parents(parent: Ints, count: int) -> None:
    """Refuse parents that are not rows of a forest of so many nodes."""
    if len(parent) != count:
        raise ValueError(f"there are {len(parent)} parents for {count} nodes")
    if count and (parent.min() < -1 or parent.max() >= count):
        raise ValueError("a node's parent is not a row of the forest")


def check_order(parent: Ints, level: Ints) -> None:
    """Refuse parents that are not rows of a forest, or not above their children."""
    check_parents(parent, len(level))
    below = np.flatnonzero(parent >= 0)
    if (level[parent[below]] <= level[below]).any():  # going up would not come to an end
        raise ValueError("a node's parent is not on a higher level than the node")


def ancestors(leaves: Ints, parent: Ints, level: Ints, budgets: Mapping[int, int]) -> tuple[Ints, Ints]:
    """Return the nodes above leaves on the levels that have a budget, at most so many a level, and the best leaf of each.

    The lowest level comes first, and on each level the nodes are in the order of the best leaf below them.

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
        >>> ancestors(np.array([4, 3]), parent, level, {2: 1, 3: 1})[0].tolist()
        [2, 0]
    """
    check_order(parent, level)
    if len(leaves) and (leaves.min() < 0 or leaves.max() >= len(parent)):
        raise ValueError("a leaf is not a row of the forest")
    nodes, ranks = _all_above(leaves, parent)
    wanted = np.array(sorted(one for one, most in budgets.items() if most > 0), dtype=np.int64)
    most = np.array([budgets[one] for one in wanted.tolist()], dtype=np.int64)
    here = np.isin(level[nodes], wanted)
    nodes, ranks = nodes[here], ranks[here]
    _, first = np.unique(nodes, return_index=True)  # sorted by rank, so the first is that of the best leaf
    nodes, ranks = nodes[first], ranks[first]
    ordered = np.lexsort((nodes, ranks, level[nodes]))
    nodes, ranks = nodes[ordered], ranks[ordered]
    place = np.searchsorted(wanted, level[nodes])
    begin = np.searchsorted(place, np.arange(len(wanted)))
    kept = np.arange(len(nodes)) - begin[place] < most[place]
    return nodes[kept], leaves[ranks[kept]]


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


Policy = Literal["top-down", "bottom-up", "none"]
"""Where relevance goes (SegTreeMem §4.3.1): from parents to children, from children to parents, or nowhere."""


def relevance_shares(relevance: Scores) -> Scores:
    """Return each node's share of the relevance of all nodes, which sums to 1; negative relevance counts as 0.

    Zeros if no node is relevant. Source: SegTreeMem (arXiv 2606.04555) §4.3.1, "Initial score normalization". The
    paper takes relevance to be positive and does not say what becomes of a negative cosine. It is cut off here:
    mapped to [0, 1], cosines of common texts would all become nearly the same share.

    Args:
        relevance: of every node to the question, such as a cosine; shape (n,).

    Raises:
        ValueError: if a number is not finite.

    Example:
        >>> relevance_shares(np.array([3.0, -0.5, 1.0])).tolist()
        [0.75, 0.0, 0.25]
    """
    positive: Scores = np.maximum(np.asarray(relevance, dtype=np.float64), 0.0)
    if not np.isfinite(relevance).all():
        raise ValueError("the relevance of a node is not a finite number")
    total = float(positive.sum())
    return positive / total if total else positive


def propagate(
    shares: Scores,
    parent: Ints,
    policy: Policy,
    *,
    decay: float = 0.10,
    horizon: int = 2,
) -> Scores:
    """Return the score of every node after its relevance went along the edges, up to `horizon` of them.

    The score is sum(decay**k * s_k) / sum(decay**k) over k = 0 to `horizon`, where s_0 are the shares and s_k is s_(k-1)
    sent one edge on. Top-down, a node divides what it has equally among its children; bottom-up, it gives all to its parent.
    Source: SegTreeMem (arXiv 2606.04555) §4.3.1, Eq. 3 and 4, and Algorithm 2; the defaults are those of its experiments. With
    "none", or a decay or a horizon of 0, the shares come back as they are, which is retrieval from a collapsed tree.

    The paper's matrix has columns of zeros at leaves (top-down) and at the root (bottom-up): what is there leaks.

    The cost is a pass over the edges for each step that still changes anything, at most one more than the forest is high.

    Args:
        shares: what each node has at first, shape (n,); see `relevance_shares`.
        parent: row of each node's parent, -1 at a root, shape (n,).
        policy: ``"top-down"``, ``"bottom-up"`` or ``"none"``.
        decay: weight of an edge, the paper's alpha, from 0 to 1. The paper has it below 1; 1 is the plain mean of s_0 to
            s_horizon, which is finite as the horizon is.
        horizon: most edges, at least 0.

    Raises:
        ValueError: if an argument is out of range, or a parent is not a row of the forest.

    Example:
        >>> tree = np.array([-1, 0, 0])
        >>> propagate(np.array([0.8, 0.2, 0.0]), tree, "top-down", decay=0.5, horizon=1).round(3).tolist()
        [0.533, 0.267, 0.133]
    """
    if policy not in ("top-down", "bottom-up", "none"):
        raise ValueError(f"policy={policy!r}: give 'top-down', 'bottom-up' or 'none'")
    if not 0 <= decay <= 1:
        raise ValueError(f"decay={decay!r}: give a number from 0 to 1")
    if horizon < 0:
        raise ValueError(f"horizon={horizon!r}: give a whole number of at least 0")
    check_parents(parent, len(shares))
    scores: Scores = np.asarray(shares, dtype=np.float64).copy()
    if policy == "none" or decay == 0:
        return scores
    below = np.flatnonzero(parent >= 0)
    above = parent[below]
    children = np.bincount(above, minlength=len(parent))
    step, weight = scores.copy(), 1.0
    for done in range(horizon):
        before = step
        if policy == "top-down":
            step = np.zeros(len(before))
            step[below] = before[above] / children[above]
        else:
            step = np.bincount(above, before[below], len(before)).astype(np.float64)
        weight *= decay
        if np.array_equal(step, before):
            # And so it is from now on: everything is lost.
            scores += weight * decay_sum(decay, horizon - done - 1) * step
            break
        scores += weight * step
    scores /= decay_sum(decay, horizon)
    return scores


_ENDLESS = 1 << 53
"""More edges than any forest has, and still a float."""


def decay_sum(decay: float, horizon: int) -> float:
    """Return the sum of decay**k over k = 0 to `horizon`, by which `propagate` divides: 1 over it is what a node's own share counts.

    Example:
        >>> round(decay_sum(0.5, 2), 9), decay_sum(1.0, 2), decay_sum(0.0, 2)
        (1.75, 3.0, 1.0)
    """
    horizon = min(horizon, _ENDLESS)
    if decay in (0, 1):
        return 1.0 + decay * horizon
    return math.expm1((horizon + 1) * math.log1p(decay - 1)) / (decay - 1)


def bounded(leaf_counts: Ints, total: int | Ints, share: float) -> NDArray[np.bool_]:
    """Return which nodes may be evidence when none may stand for more than a share of the leaves; a single leaf always may.

    Relevance that goes bottom-up puts the root first, which tells of everything and so of nothing. Source: the
    admissible set of SegTreeMem (arXiv 2606.04555), Algorithm 2, which names all nodes and leaves alone; a bound is
    this package's.

    Args:
        leaf_counts: leaves below each node, 1 at a leaf, shape (n,); `sums_below` counts them.
        total: leaves of the whole tree, for all nodes or for each, shape (n,).
        share: from 0, which leaves the leaves, to 1, which leaves everything.

    Raises:
        ValueError: if the share is out of range.

    Example:
        >>> bounded(np.array([8, 2, 1]), 8, 0.25).tolist()
        [False, True, True]
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share={share!r}: give a number from 0 to 1")
    admitted: NDArray[np.bool_] = (leaf_counts <= 1) | (leaf_counts <= np.asarray(total) * share)
    return admitted
