"""Which cluster each node of a window joins, by likeness, in their order: H-Mem (arXiv 2605.15701) §3.2.

The paper leaves open what a node is compared with (here `linkage`), and which of two equally near clusters it joins: the one
that was begun earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Linkage = Literal["member", "mean", "parent"]
"""What the likeness to a cluster is: that to its best member, the mean of those to all members, or that to their mean vector."""

CAP = 2048
"""Nodes right before a node, in one window, that it is compared with: what a product of 2 MB of half floats costs."""


class Joined(NamedTuple):
    """The cluster of a node, as the place of the node that began it, and how like it was then; None for the one that began it."""

    founder: int
    likeness: float | None


BLOCK = 128
"""Nodes that are compared at once with what stands before them: one product of matrices instead of many with a vector."""


def assign(
    vectors: NDArray[np.float32],
    known: Sequence[int],
    alpha: float,
    linkage: Linkage = "member",
    *,
    cap: int = CAP,
) -> list[Joined]:
    """Return the clusters that nodes of a window join, one after the other.

    Args:
        vectors: of nodes that stand one behind the other, of unit length, shape (m, d).
        known: the founders' places of the first ones, which have been assigned before; those behind are assigned. A place is one
            in `vectors`, below 0 for a founder that stands before these, the earlier the lower.
        alpha: the least likeness, -1 to 1.
        linkage: what is compared.
        cap: most nodes that one is compared with.

    Returns:
        One for each node behind the known ones.
    """
    founders = np.empty(len(vectors), dtype=np.int64)
    founders[: len(known)] = known
    made: list[Joined] = []
    for begin in range(len(known), len(vectors), BLOCK):
        end, reach = min(begin + BLOCK, len(vectors)), max(0, begin - cap)
        near = vectors[begin:end] @ vectors[reach:end].T
        for at in range(begin, end):
            low = max(0, at - cap)
            found = None
            if low < at:
                likeness = near[at - begin, low - reach : at - reach]
                found = _nearest(likeness, vectors[low:at], founders[low:at], linkage)
            made.append(Joined(*found) if found is not None and found[1] >= alpha else Joined(at, None))
            founders[at] = made[-1].founder
    return made


def _nearest(
    near: NDArray[np.float32], vectors: NDArray[np.float32], founders: NDArray[np.int64], linkage: Linkage
) -> tuple[int, float]:
    """Return the nearest cluster of some nodes by their likenesses; of equally near ones that which was begun earliest.

    Likenesses are rounded, as the last digits of a product say how many nodes were in it.
    """
    if linkage == "member":
        rounded = np.round(near.astype(np.float64), 6)
        most = rounded.max()
        return int(founders[rounded == most].min()), float(most)
    clusters, of = np.unique(founders, return_inverse=True)
    likeness = np.bincount(of, weights=near, minlength=len(clusters)).astype(np.float64)
    if linkage == "mean":
        likeness = likeness / np.bincount(of, minlength=len(clusters))
    else:
        sums = np.zeros((len(clusters), vectors.shape[1]))
        np.add.at(sums, of, vectors)
        lengths = np.linalg.norm(sums, axis=1)
        likeness = np.divide(likeness, lengths, out=np.full(len(clusters), -1.0), where=lengths > 0)
    likeness = np.round(likeness, 6)
    best = int(np.argmax(likeness))
    return int(clusters[best]), float(likeness[best])
