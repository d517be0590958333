"""Relevance on the nodes of any forest, propagated along its edges; what goes from leaves to their ancestors is `ascent`.

A forest is given as plain arrays with one row a node: `parent` has the row of the node above, -1 at a root, and
`level` rises from a child to its parent, by one or by more. Rows may stand in any order, and there may be several
trees. Every step is a pass over arrays; what is returned depends on the rows alone.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memforest.ranking.ascent import check_parents
from memforest.ranking.scores import Scores

Ints = NDArray[np.int64]
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
    _check_flow(policy, decay, horizon)
    check_parents(parent, len(shares))
    scores: Scores = np.asarray(shares, dtype=np.float64).copy()
    if policy == "none" or decay == 0:
        return scores
    edges = _Edges.of(parent, policy)
    step, weight = scores.copy(), 1.0
    for done in range(horizon):
        before, step = step, edges.sent(step)
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


class _Edges(NamedTuple):
    """The edges of a forest, and how relevance goes along them."""

    below: Ints
    above: Ints
    """The nodes that have a parent, and the parent of each."""
    children: Ints
    policy: Policy

    @classmethod
    def of(cls, parent: Ints, policy: Policy) -> _Edges:
        """Return the edges that a forest has."""
        below = np.flatnonzero(parent >= 0)
        above = parent[below]
        children = np.bincount(above, minlength=len(parent))
        return cls(below, above, children, policy)

    def sent(self, shares: Scores) -> Scores:
        """Return what every node has after all of it went one edge on."""
        if self.policy == "top-down":
            sent: Scores = np.zeros(len(shares))
            sent[self.below] = shares[self.above] / self.children[self.above]
            return sent
        return np.bincount(self.above, shares[self.below], len(shares)).astype(np.float64)


def _check_flow(policy: str, decay: float, horizon: int) -> None:
    if policy not in ("top-down", "bottom-up", "none"):
        raise ValueError(f"policy={policy!r}: give 'top-down', 'bottom-up' or 'none'")
    if not 0 <= decay <= 1:
        raise ValueError(f"decay={decay!r}: give a number from 0 to 1")
    if horizon < 0:
        raise ValueError(f"horizon={horizon!r}: give a whole number of at least 0")


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
