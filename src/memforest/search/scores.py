"""Scores of rows: cosines, BM25, z-scores, order, the best of groups and levels, and choosing answers by their time.

Higher is better everywhere. All of it needs nothing but arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from memforest.times import DAY_MS

Scores = NDArray[np.float64]
"""float64, shape (n,)."""


def share_of_most(values: Scores) -> Scores:
    """Return scores as shares of the largest one; zeros if none is above 0."""
    most = float(values.max(initial=0.0))
    return values / most if most > 0 else np.zeros(len(values))


def standardise(values: NDArray[np.floating]) -> Scores:
    """Return z-scores: mean 0 and standard deviation 1; all zeros when the values do not differ.

    Example:
        >>> standardise(np.array([1.0, 3.0])).tolist()
        [-1.0, 1.0]
    """
    out: Scores = np.asarray(values, dtype=np.float64)
    if not len(out):
        return out
    centred: Scores = out - out.mean()
    spread = float(np.sqrt((centred * centred).mean()))
    if spread < 1e-12:
        return np.zeros(len(out))
    centred /= spread
    return centred


def cosines(rows: NDArray[np.float32], *vectors: NDArray[np.float32]) -> list[Scores]:
    """Return the cosines of every row with each vector, all of unit length; shapes (n, d) and (d,) to (n,).

    The rows, which are the most of it, are read once. Summed in this thread, row by row. `@` hands a matrix of a few hundred rows to
    several BLAS threads, and waiting for them on a busy machine took up to a hundred times as long as the sum.

    Example:
        >>> [found.tolist() for found in cosines(np.eye(2, dtype=np.float32), *np.eye(2, dtype=np.float32))]
        [[1.0, 0.0], [0.0, 1.0]]
    """
    found = np.empty((len(vectors), len(rows)), dtype=np.float32)
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        part = slice(first, first + _ROWS_AT_ONCE)
        for own, vector in zip(found, vectors, strict=True):
            _dot_rows(rows[part], vector, out=own[part])
    return list(found.astype(np.float64))


_dot_rows: Callable[..., NDArray[np.float32]] = getattr(np, "vecdot", None) or partial(np.einsum, "nd,d->n")
"""`vecdot`, of NumPy 2.0, takes 0.7 of the time of the other."""

_ROWS_AT_ONCE = 512
"""So many rows stay in the processor's cache between two products."""


def term_scores(
    counts: NDArray[np.floating],
    lengths: NDArray[np.floating],
    mean_length: float,
    total: int,
    *,
    k1: float,
    b: float,
) -> Scores:
    """Return the BM25 scores of one term in the documents that hold it, never negative.

    Source: Robertson & Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond", §3, with 1 added inside the
    logarithm, which keeps it positive.

    Args:
        counts: how often each of these documents holds it.
        lengths: theirs, in tokens.
        mean_length: of all documents.
        total: how many documents there are.
        k1: how fast more of one word stops to count.
        b: how far longer documents are held to be so.
    """
    rarity = float(np.log1p((total - len(counts) + 0.5) / (len(counts) + 0.5)))
    norm = k1 * (1 - b + b * lengths / max(mean_length, 1e-9))
    return rarity * np.asarray(counts * (k1 + 1) / (counts + norm), dtype=np.float64)


def stable_order(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what a stable argsort of whole numbers from 0 on does, by digits of 16 bits.

    NumPy sorts numbers of 16 bits by radix, in linear time; for row numbers that is five times as fast.

    Example:
        >>> stable_order(np.array([70_000, 3, 70_000, 1])).tolist()
        [3, 1, 0, 2]
    """
    found = numbers.astype(np.uint16).argsort(kind="stable")
    top, shift = int(numbers.max(initial=0)), 16
    while top >> shift:
        digits = (numbers >> shift).astype(np.uint16)
        found = found[digits[found].argsort(kind="stable")]
        shift += 16
    return found


_SMALL_GROUP = 16


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Disjoint groups of rows, laid out for taking the best of each again and again.

    `members` are the rows group by group, None when they lie so already; `starts` is where each group begins.
    `layers` are, when no group is large, the first row of every group, the second row of those that have two, and
    so on: taking the best of many small groups is several times as fast by layers as group by group.
    """

    count: int
    members: NDArray[np.int64] | None
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    layers: tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...] = ()
    """(groups, a row of each)."""

    @classmethod
    def of(cls, groups: NDArray[np.int64]) -> Groups:
        """Return the groups of rows by the number of each row's group; -1 for none.

        Example:
            >>> Groups.of(np.array([4, 4, 2, -1])).best(np.array([1.0, 5.0, 2.0, 9.0])).tolist()
            [2.0, 5.0]
        """
        members = np.flatnonzero(groups >= 0)
        # Rows of one group mostly stand together: then the order they have will do.
        together = len(members) == len(groups)
        if not together or np.count_nonzero(np.diff(groups)) + 1 > np.count_nonzero(np.bincount(groups)):
            members = members[stable_order(groups[members])]
            together = False
        own = groups[members]
        starts = np.flatnonzero(np.r_[np.ones(min(len(own), 1), dtype=bool), own[1:] != own[:-1]])
        sizes = np.diff(np.r_[starts, len(own)])
        layers = []
        if len(sizes) and sizes.max() <= _SMALL_GROUP:
            for place in range(int(sizes.max())):
                large = np.flatnonzero(sizes > place)
                layers.append((large, members[starts[large] + place]))
        return cls(len(groups), None if together else members, starts, sizes, tuple(layers))

    def best(self, values: Scores) -> Scores:
        """Return the largest value of each group, in the order of `starts`."""
        if not len(self.starts):
            return np.zeros(0)
        if self.layers:
            best = values[self.layers[0][1]]
            for groups, rows in self.layers[1:]:
                best[groups] = np.maximum(best[groups], values[rows])
            return best
        together = values if self.members is None else values[self.members]
        return np.asarray(np.maximum.reduceat(together, self.starts))

    def total(self, values: Scores) -> Scores:
        """Return the sum of each group's values, in the order of `starts`."""
        if not len(self.starts):
            return np.zeros(0)
        together = values if self.members is None else values[self.members]
        return np.asarray(np.add.reduceat(together, self.starts))

    @property
    def first(self) -> NDArray[np.int64]:
        """The first row of each group."""
        return self.starts if self.members is None else self.members[self.starts]


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """Leaves by the node above them on every level of a family of trees, each level grouped from the one below."""

    count: int
    groups: tuple[Groups, ...]
    """The first groups leaves; each other one groups the groups of the one before."""
    leaves: tuple[Scores, ...]
    """Leaves below each group."""

    @classmethod
    def of(cls, blocks: NDArray[np.int64]) -> Levels:
        """Return the levels of shape (levels, n): the node above each leaf from the bottom up, -1 for none.

        Leaves of one node have one node above that on the next level, which is what makes it a tree.
        """
        count = blocks.shape[1]
        groups, leaves = [], []
        below, sizes = np.arange(count), np.ones(count)
        for nodes in blocks:
            level = Groups.of(nodes[below])
            sizes = level.total(sizes)
            below = below[level.first]
            groups.append(level)
            leaves.append(sizes)
        return cls(count, tuple(groups), tuple(leaves))

    def flow(self, values: Scores) -> Scores:
        """Return the sum over levels of each leaf's z-score among all leaves, a node being worth its best leaf.

        Example:
            >>> Levels.of(np.array([[0, 0, 1, 1]])).flow(np.array([1.0, 3.0, 1.0, 0.0])).tolist()
            [1.0, 1.0, -1.0, -1.0]
        """
        best = values
        worth: list[tuple[Scores, float]] = []
        for level, leaves in zip(self.groups, self.leaves, strict=True):
            best = level.best(best)
            # z-scores of the groups, each of which stands for all its leaves, and that of the other leaves, worth 0.
            others = self.count - float(leaves.sum())
            mean = float((best * leaves).sum()) / self.count  # no `@`: it wakes other threads
            centred = best - mean
            spread = float(
                np.sqrt((float((centred * centred * leaves).sum()) + others * mean * mean) / self.count)
            )
            worth.append((np.zeros(len(best)), 0.0) if spread < 1e-12 else (centred / spread, -mean / spread))
        down, outside = np.zeros(0), 0.0
        for level, (own, none) in zip(reversed(self.groups), reversed(worth), strict=True):
            own = own + down if len(down) else own
            outside += none
            down = np.repeat(own, level.sizes)
            if level.members is not None:
                of_leaves = np.full(level.count, outside)
                of_leaves[level.members] = down
                down = of_leaves
        return down if self.groups else np.zeros(self.count)


def leading(scores: Scores, ties: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the first `count` of `order(scores, ties)` without sorting the rest.

    Example:
        >>> leading(np.array([0.5, 0.9, 0.5]), np.array([7, 8, 3]), 2).tolist()
        [1, 2]
    """
    if count <= 0:
        return np.zeros(0, dtype=np.int64)
    rounded, rows = np.round(scores, 9), np.arange(len(scores))
    if count < len(scores):
        least = np.partition(rounded, len(rounded) - count)[len(rounded) - count]
        rows = np.flatnonzero(rounded >= least)
    return rows[np.lexsort((ties[rows], -rounded[rows]))][:count].astype(np.int64)


def best_first(
    scores: Scores, ties: NDArray[np.int64], keep: NDArray[np.bool_], begin: int = 256
) -> Iterator[int]:
    """Yield the rows that are kept in the order of `order`, sorting only as far as somebody reads.

    Example:
        >>> list(best_first(np.array([0.5, 0.9, 0.7]), np.array([7, 8, 3]), np.array([True, False, True])))
        [2, 0]
    """
    kept = np.flatnonzero(keep)
    yield from kept[leading(scores[kept], ties[kept], begin)].tolist()
    if begin < len(kept):
        yield from kept[order(scores[kept], ties[kept])[begin:]].tolist()


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


Ints = NDArray[np.int64]
YEAR_DAYS = 365.0


def activation(
    dense: Scores, lexical: Scores, ids: Ints, *, weight: float = 0.9, dense_top: int | None = 40
) -> Scores:
    """Return how much a question activates each leaf: weight * dense + (1 - weight) * lexical, each divided by its maximum.

    Source: TiMem (arXiv 2601.02845) §3.3.2, Eq. 7, weight 0.9 by its Table 10. Dividing by the maximum, and counting
    similarity only for the 40 most similar leaves, is what its published code does; the paper does not say.

    Args:
        dense: cosine of each leaf, shape (n,); what is negative counts as 0.
        lexical: BM25 of each leaf, shape (n,), at least 0.
        ids: of the leaves; of two equally similar ones the smaller id is among the first.
        weight: of `dense`, from 0 to 1.
        dense_top: leaves whose similarity counts; None for all.

    Raises:
        ValueError: if the weight is out of range.

    Example:
        >>> activation(np.array([0.8, 0.4]), np.array([0.0, 3.0]), np.array([1, 2]), weight=0.5).tolist()
        [0.5, 0.75]
    """
    if not 0 <= weight <= 1:
        raise ValueError(f"weight={weight!r}: give a number from 0 to 1")
    near = np.maximum(np.asarray(dense, dtype=np.float64), 0.0)
    if dense_top is not None:
        first = leading(near, ids, dense_top)
        kept = np.zeros(len(near))
        kept[first] = near[first]
        near = kept
    by_maximum = []
    for values in (near, np.asarray(lexical, dtype=np.float64)):
        most = float(values.max(initial=0.0))
        by_maximum.append(values / most if most > 0 else np.zeros(len(values)))
    return weight * by_maximum[0] + (1 - weight) * by_maximum[1]


def time_overlap(
    start_ms: Ints, end_ms: Ints, asked_ms: tuple[int, int], *, overlap: float = 0.5, least_ms: int = DAY_MS
) -> Scores:
    """Return how well intervals fit the one asked about, in [0, 1]: how much of both is shared, and how near the centres are.

    Source: H-Mem (arXiv 2605.15701) Eq. 1, T = overlap * |I and Q| / |I or Q| + (1 - overlap) * (1 - |c - q| / |I or Q|)
    with c and q the centres. As printed it has no lower bound: two days a month apart give -14. So `|I or Q|` is
    the whole time from the first to the last of both, and an interval shorter than `least_ms` counts as one of that
    length around its centre, which takes the place of the paper's epsilon. The paper gives no `overlap`; it is half here. A question
    without a time has no such part (H-Mem sets it to 0): do not call this then.

    Args:
        start_ms: where each interval begins, UTC ms, shape (n,).
        end_ms: where each ends, exclusive. An interval without an end must be given one, such as the present.
        asked_ms: [start, end) of the question.
        overlap: weight of what is shared, from 0 to 1.
        least_ms: shortest length that counts, positive.

    Raises:
        ValueError: if an argument is out of range, or an interval ends before it begins.

    Example:
        >>> days = np.array([0, 30]) * DAY_MS
        >>> time_overlap(days, days + DAY_MS, (0, DAY_MS)).round(3).tolist()
        [1.0, 0.016]
    """
    if not 0 <= overlap <= 1 or least_ms <= 0:
        raise ValueError("overlap takes a number from 0 to 1, and least_ms a positive one")
    begins, ends = _widened(np.asarray(start_ms), np.asarray(end_ms), least_ms)
    (begin,), (end,) = _widened(np.array([asked_ms[0]]), np.array([asked_ms[1]]), least_ms)
    whole = np.maximum(ends, end) - np.minimum(begins, begin)
    shared = np.maximum(np.minimum(ends, end) - np.maximum(begins, begin), 0.0)
    apart = np.abs(begins + ends - begin - end) / 2
    fit: Scores = overlap * shared / whole + (1 - overlap) * (1 - apart / whole)
    return np.clip(fit, 0.0, 1.0)


def _widened(start_ms: Ints, end_ms: Ints, least_ms: int) -> tuple[Scores, Scores]:
    """Return intervals of at least a length, as floats: times of years 1 to 9999 are exact in them."""
    if (end_ms < start_ms).any():
        raise ValueError("an interval ends before it begins")
    start, end = start_ms.astype(np.float64), end_ms.astype(np.float64)
    more = np.maximum(least_ms - (end - start), 0.0) / 2
    return start - more, end + more


def robustness(
    last_ms: Ints, times: Ints, at_ms: int, *, decay_days: float = YEAR_DAYS, reinforcement: float = 0.5
) -> Scores:
    """Return how strong memories still are, in (0, 1]: exp(-age / (decay_days * (1 + reinforcement * ln(1 + times)))).

    Source: H-Mem (arXiv 2605.15701) Eq. 2, with the defaults of its appendix (365 days, 0.5). What was reinforced
    after `at_ms`, as it can be when imported, has the age 0.

    Args:
        last_ms: when each memory was last reinforced, UTC ms, shape (n,).
        times: how often it was, at least 0.
        at_ms: the present of the question, UTC ms.
        decay_days: age at which one that was never reinforced is down to 1/e, positive.
        reinforcement: how much longer it takes for every reinforcement, at least 0.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> robustness(np.array([0, 0]), np.array([0, 10]), 365 * DAY_MS).round(4).tolist()
        [0.3679, 0.6346]
    """
    if decay_days <= 0 or reinforcement < 0 or (np.asarray(times) < 0).any():
        raise ValueError("decay_days takes a positive number, reinforcement and times numbers of at least 0")
    age = np.maximum(at_ms - np.asarray(last_ms, dtype=np.float64), 0.0) / DAY_MS
    lasting = decay_days * (1 + reinforcement * np.log1p(np.asarray(times, dtype=np.float64)))
    return np.maximum(np.exp(-age / lasting), np.finfo(np.float64).tiny)  # an age without end is not 0
