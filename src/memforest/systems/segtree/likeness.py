"""Likeness of a leaf with the nodes that it may join, and where a full node is cut: placing without a model.

What a node is compared by is the exact sum of the vectors of the leaves below it (`memforest.systems.segtree.rows.leaf_vectors`
says why it is exact). So a tree that is cut back and grown again is the tree that it would have been, to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

DECIMALS = 9
"""Of likenesses that are compared, as of scores everywhere: sums of one set of numbers in another order count as equal."""


def cosine(one: Vector, other: Vector) -> float:
    """Return the cosine of two vectors of any length, rounded; 0 if one of them is zero."""
    length = float(np.sqrt((one * one).sum()) * np.sqrt((other * other).sum()))
    return float(round((one * other).sum() / length, DECIMALS)) if length else 0.0


def needed(tau: float, height: int, fall: float) -> float:
    """Return how like one of its choices a leaf must be: less with each level of the tree.

    The first root is the first stretch of talk, which ends where the topic turns; a root above roots stands for everything,
    and a leaf that is like none of it should be rare. With a constant threshold the tree is a flat one below the first turn
    that is missed, or a comb (`scripts/calibrate_segments.py`).

    Args:
        tau: what a leaf needs below a root of height 1.
        height: of the tree, in levels above the leaves.
        fall: what is left of it with each further level; 1 is the paper's constant threshold.
    """
    return float(tau * fall ** max(height - 1, 0))


def backed(total: Vector, whole: Vector, count: int, backing: float) -> Vector:
    """Return what a node is compared by: the sum of its leaves, and of so many more that are like the whole.

    The mean of many leaves is nearer to anything than a single leaf is, so a root would win by its size. Drawing each mean
    to that of everything takes that away, as it is done with means of few observations (James & Stein 1961).

    Args:
        total: sum of the leaves below the node.
        whole: sum of all leaves.
        count: number of all leaves.
        backing: leaves like the whole; 0 is the paper's plain mean.
    """
    return total + whole * (backing / count) if backing and count else total


def nearest(vector: Vector, candidates: Sequence[Vector], least: float) -> int | None:
    """Return the candidate that a vector is most like, of equally like ones the lowest; None if it is like none of them.

    Args:
        vector: of the leaf, shape (d,).
        candidates: of the nodes, of any length.
        least: likeness below which it joins none.
    """
    likes = [cosine(vector, one) for one in candidates]
    best = max(likes, default=-1.0)
    if not likes or best < least:
        return None
    return likes.index(best)


def weakest(children: Sequence[Vector | None]) -> int:
    """Return the child from which on a full node is cut: where neighbours are least alike, of equal places the first.

    Each part keeps a quarter of the children, so that what is cut once is not full again at once. Where vectors are
    missing it is the middle.
    """
    n = len(children)
    low = max(2, n // 4)
    places = range(low, n - low + 1)
    likes = {
        at: cosine(one, other)
        for at in places
        if (one := children[at - 1]) is not None and (other := children[at]) is not None
    }
    return min(likes, key=lambda at: (likes[at], at)) if len(likes) == len(places) else n // 2
