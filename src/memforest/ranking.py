"""Pure scoring functions over arrays: standardise, fuse, flow. Higher is better everywhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Scores",
    "bm25_idf",
    "bm25_weight",
    "cosines",
    "group_max",
    "group_place",
    "order",
    "standardise",
]

Scores = NDArray[np.float64]
"""float64, shape (n,)."""


def standardise(values: NDArray[np.floating]) -> Scores:
    """Return z-scores: mean 0 and standard deviation 1; all zeros when the values do not differ.

    Example:
        >>> standardise(np.array([1.0, 3.0])).tolist()
        [-1.0, 1.0]
    """
    out: Scores = np.asarray(values, dtype=np.float64)
    if not len(out):
        return out
    spread = float(out.std())
    if spread < 1e-12:
        return np.zeros(len(out))
    standard: Scores = (out - out.mean()) / spread
    return standard


def cosines(rows: NDArray[np.float32], vector: NDArray[np.float32]) -> Scores:
    """Return the cosine of every row with a vector, all of unit length; shapes (n, d) and (d,) to (n,).

    Summed in this thread. `@` hands a matrix of a few hundred rows to several BLAS threads, and waiting for them
    on a busy machine took up to a hundred times as long as the sum.

    Example:
        >>> cosines(np.eye(2, dtype=np.float32), np.array([0.0, 1.0], dtype=np.float32)).tolist()
        [0.0, 1.0]
    """
    return np.asarray(np.einsum("nd,d->n", rows, vector), dtype=np.float64)


def bm25_idf(total: int, matching: int) -> float:
    """Return the inverse document frequency of a term, never negative.

    Source: Robertson & Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond", §3, with
    1 added inside the logarithm, which keeps it positive.
    """
    return float(np.log1p((total - matching + 0.5) / (matching + 0.5)))


def bm25_weight(
    counts: NDArray[np.floating], lengths: NDArray[np.floating], mean_length: float, *, k1: float, b: float
) -> Scores:
    """Return the saturated, length-normalised weight of a term that occurs `counts` times, per document.

    Source: as `bm25_idf`. `lengths` are the documents' lengths in tokens.
    """
    norm = k1 * (1 - b + b * lengths / max(mean_length, 1e-9))
    return np.asarray(counts * (k1 + 1) / (counts + norm), dtype=np.float64)


def group_max(values: Scores, groups: NDArray[np.int64], n_groups: int) -> Scores:
    """Return, for each value, the largest value of its group; 0 for values in no group (-1).

    Example:
        >>> group_max(np.array([1.0, 5.0, 2.0]), np.array([0, 0, -1]), 1).tolist()
        [5.0, 5.0, 0.0]
    """
    member = groups >= 0
    best = np.full(n_groups, -np.inf)
    np.maximum.at(best, groups[member], values[member])
    out = np.zeros(len(values))
    out[member] = best[groups[member]]
    return out


def order(scores: Scores, ties: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return row numbers from best to worst; equal scores (to 9 decimals) by the smaller tie.

    Example:
        >>> order(np.array([0.5, 0.9, 0.5]), np.array([7, 8, 3])).tolist()
        [1, 2, 0]
    """
    return np.lexsort((ties, -np.round(scores, 9))).astype(np.int64)


def group_place(ranked: NDArray[np.int64], groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for each place of a ranking, how many rows of the same group stand before it.

    Choosing greedily by "score less d for each chosen row of the group" gives the order of "score less d times
    this number", because inside a group the better row is always chosen first.

    Args:
        ranked: row numbers from best to worst, each once.
        groups: the group of every row.

    Example:
        >>> group_place(np.array([2, 0, 1]), np.array([7, 8, 7])).tolist()
        [0, 1, 0]
    """
    of = groups[ranked]
    together = np.argsort(of, kind="stable")
    first = np.r_[True, of[together][1:] != of[together][:-1]] if len(of) else np.zeros(0, dtype=bool)
    place = np.arange(len(of)) - np.maximum.accumulate(np.where(first, np.arange(len(of)), 0))
    out = np.empty(len(of), dtype=np.int64)
    out[together] = place
    return out
