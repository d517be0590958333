"""How memories lie in the space of their vectors: whether users stand apart, and how many directions there are.

The paper (TiMem, arXiv 2601.02845, Appendix D) names the measures and neither their distances nor their constants. Here:

- *intrinsic dimension*: the principal components that hold 95 % of the variance. It is at most one less than the memories, so
  a level with few of them has few; compare with what as many drawn at random would have (`drawn_dimension`).
- *silhouette*: mean of (b - a) / max(a, b), where a is the mean distance of a memory to the others of its user, and b the least
  mean distance to those of another user (Rousseeuw 1987). A user with one memory counts 0.
- *separation*: mean distance between the users' centroids over the mean distance of a memory to its own user's.
- *trustworthiness* and *continuity* of the projection to two dimensions, with k neighbours (Venna & Kaski 2001): whether near
  ones there are near ones here, and the reverse. The paper projects with UMAP; here it is PCA.

All distances are Euclidean, between unit vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "NEIGHBOURS",
    "VARIANCE",
    "Manifold",
    "continuity",
    "distances",
    "drawn_dimension",
    "intrinsic_dimension",
    "manifold",
    "projected",
    "separation",
    "silhouette",
    "trustworthiness",
    "users_of",
]

VARIANCE = 0.95
NEIGHBOURS = 5
DRAWS = 20

Matrix = NDArray[np.float64]
Labels = NDArray[np.int64]


class Manifold(NamedTuple):
    """The measures of one level."""

    memories: int
    dimension: int
    silhouette: float
    separation: float
    trustworthiness: float
    continuity: float


def manifold(rows: Matrix, users: Labels) -> Manifold:
    """Return all measures of unit vectors, one user each.

    A measure that is not defined is not a number: those between users of one user alone, and those of neighbours of
    fewer memories than twice `NEIGHBOURS` and two.
    """
    here, there = distances(rows), distances(projected(rows))
    enough = len(rows) >= 2 * NEIGHBOURS + 2
    return Manifold(
        len(rows),
        intrinsic_dimension(rows),
        silhouette(here, users),
        separation(rows, users),
        trustworthiness(here, there) if enough else float("nan"),
        continuity(here, there) if enough else float("nan"),
    )


def distances(rows: Matrix) -> Matrix:
    """Return the Euclidean distances between all rows."""
    squares = (rows**2).sum(axis=1)
    found = squares[:, None] + squares[None, :] - 2 * rows @ rows.T
    np.fill_diagonal(found, 0.0)
    return np.asarray(np.sqrt(np.maximum(found, 0.0)))


def intrinsic_dimension(rows: Matrix, share: float = VARIANCE) -> int:
    """Return how many principal components hold a share of the variance; 0 where all rows are one."""
    variance = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False) ** 2
    if variance.sum() <= 1e-12:
        return 0
    return int(np.searchsorted(np.cumsum(variance) / variance.sum(), share - 1e-12) + 1)


def drawn_dimension(rows: Matrix, count: int, seed: int) -> float:
    """Return the mean intrinsic dimension of as many rows drawn at random, to compare a level of fewer memories with."""
    draws = np.random.default_rng(seed)
    count = min(count, len(rows))
    return float(
        np.mean(
            [intrinsic_dimension(rows[draws.choice(len(rows), count, replace=False)]) for _ in range(DRAWS)]
        )
    )


def silhouette(apart: Matrix, users: Labels) -> float:
    """Return the mean silhouette of memories by user, from their distances."""
    names, own = np.unique(users, return_inverse=True)
    if len(names) < 2:
        return float("nan")
    member = np.eye(len(names))[own]
    sizes, sums = member.sum(axis=0), apart @ member
    rows = np.arange(len(users))
    alone = sizes[own] < 2
    within = sums[rows, own] / np.maximum(sizes[own] - 1, 1)
    means = sums / sizes
    means[rows, own] = np.inf
    nearest = means.min(axis=1)
    largest = np.maximum(within, nearest)
    values = np.divide(nearest - within, largest, out=np.zeros(len(rows)), where=largest > 0)
    return float(np.where(alone, 0.0, values).mean())


def separation(rows: Matrix, users: Labels) -> float:
    """Return how far users' centroids are apart, over how far memories are from their own."""
    names, own = np.unique(users, return_inverse=True)
    if len(names) < 2:
        return float("nan")
    centroids = np.stack([rows[own == at].mean(axis=0) for at in range(len(names))])
    between = distances(centroids)[np.triu_indices(len(names), 1)].mean()
    spread = float(np.linalg.norm(rows - centroids[own], axis=1).mean())
    return float(between / spread) if spread > 1e-12 else float("inf")


def projected(rows: Matrix, dimensions: int = 2) -> Matrix:
    """Return rows in their first principal components."""
    centred = rows - rows.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(centred @ axes[:dimensions].T)


def trustworthiness(here: Matrix, there: Matrix, k: int = NEIGHBOURS) -> float:
    """Return 1 if the k nearest in the projection are the k nearest before it, and less the farther they were.

    Args:
        here: distances of the vectors.
        there: distances in the projection.
        k: neighbours that are looked at, less than half as many as there are rows.

    Raises:
        ValueError: if there are too few rows for so many neighbours.
    """
    count = len(here)
    if 2 * k >= count:
        raise ValueError(f"{k} neighbours of {count} rows; at most {(count - 1) // 2} are compared")
    ranks = np.empty((count, count), dtype=np.int64)
    order = _order(here)
    np.put_along_axis(ranks, order, np.broadcast_to(np.arange(count), order.shape), axis=1)
    near = _order(there)[:, 1 : k + 1]
    beyond = np.maximum(np.take_along_axis(ranks, near, axis=1) - k, 0).sum()
    return float(1 - 2 * beyond / (count * k * (2 * count - 3 * k - 1)))


def continuity(here: Matrix, there: Matrix, k: int = NEIGHBOURS) -> float:
    """Return 1 if the k nearest of the vectors are the k nearest in the projection, and less the farther they are there.

    Raises:
        ValueError: as `trustworthiness`.
    """
    return trustworthiness(there, here, k)


def _order(apart: Matrix) -> NDArray[np.int64]:
    """Return for each row all rows from the nearest on, itself first, equally near ones in their order."""
    own = apart.copy()
    np.fill_diagonal(own, -1.0)
    return np.argsort(own, axis=1, kind="stable")


def users_of(sizes: Sequence[int]) -> Labels:
    """Return the number of the user of each memory, where so many of each follow one another."""
    return np.repeat(np.arange(len(sizes)), sizes)
