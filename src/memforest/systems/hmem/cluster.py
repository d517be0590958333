"""Which cluster each node of a window joins, by likeness, in their order: H-Mem (arXiv 2605.15701) §3.2.

The paper leaves open what a node is compared with (here `linkage`), and which of two equally near clusters it joins: the one
that was begun earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["CAP", "Joined", "Linkage", "assign"]

Linkage = Literal["member", "mean", "parent"]
"""What the likeness to a cluster is: that to its best member, the mean of those to all members, or that to their mean vector."""

CAP = 2048
"""Nodes right before a node, in one window, that it is compared with: what a product of 2 MB of half floats costs."""


class Joined(NamedTuple):
    """The cluster of a node, as the place of the node that began it, and how like it was then; None for the one that began it."""

    founder: int
    likeness: float | None


def assign(
    vectors: NDArray[np.float32],
    known: Sequence[int],
    alpha: float,
    linkage: Linkage = "member",
    *,
    first: int = 0,
    cap: int = CAP,
) -> list[Joined]:
    """Return the clusters that nodes of a window join, one after the other.

    Args:
        vectors: of the nodes from place `first` on, in order, of unit length, shape (m, d).
        known: the founders' places of the nodes from `first` on that have been assigned before; those behind are assigned.
        alpha: the least likeness, -1 to 1.
        linkage: what is compared.
        first: the place of the first node that is given; the earlier ones are out of reach of every node to be assigned.
        cap: most nodes that one is compared with.

    Returns:
        One for each node behind the known ones. Founders before `first` are never joined.
    """
    founders = list(known)
    made: list[Joined] = []
    for at in range(len(known), len(vectors)):
        found = _nearest(vectors, founders, max(0, at - cap), at, linkage)
        if found is not None and found[1] >= alpha:
            made.append(Joined(*found))
        else:
            made.append(Joined(first + at, None))
        founders.append(made[-1].founder)
    return made


def _nearest(
    vectors: NDArray[np.float32], founders: Sequence[int], low: int, at: int, linkage: Linkage
) -> tuple[int, float] | None:
    """Return the nearest cluster of the nodes [low, at) to the one at a place; None where there is none."""
    if low == at:
        return None
    near = vectors[low:at] @ vectors[at]
    clusters, of = np.unique(np.asarray(founders[low:at]), return_inverse=True)
    if linkage == "member":
        likeness = np.full(len(clusters), -np.inf)
        np.maximum.at(likeness, of, near)
    else:
        likeness = np.bincount(of, weights=near, minlength=len(clusters)).astype(np.float64)
        if linkage == "mean":
            likeness = likeness / np.bincount(of, minlength=len(clusters))
        else:
            sums = np.zeros((len(clusters), vectors.shape[1]))
            np.add.at(sums, of, vectors[low:at])
            lengths = np.linalg.norm(sums, axis=1)
            likeness = np.divide(likeness, lengths, out=np.full(len(clusters), -1.0), where=lengths > 0)
    likeness = np.round(likeness, 6)  # the last digits of a product say how many nodes were in it
    best = int(np.argmax(likeness))  # of equal ones the first, which was begun earliest
    return int(clusters[best]), float(likeness[best])
