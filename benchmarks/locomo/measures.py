"""What a ranking is worth: recall of the supporting turns, with bootstrap intervals.

Intervals are percentile bootstraps (Efron & Tibshirani 1993, ch. 13) over questions, and over conversations:
there whole conversations are drawn, since the questions of one are not independent. With five
conversations the latter are rough.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["MEASURES", "Interval", "Matrix", "interval", "measure"]

MEASURES = ("R@5", "R@10", "R@20", "R@50", "all@20", "nDCG@10", "SR@5", "SR@10")
"""Turn recall at k, all supporting turns in the first 20, nDCG@10, and session recall at k."""

DRAWS = 2000
Matrix = NDArray[np.float64]
Interval = tuple[float, float]


def measure(ranked: Sequence[str], gold: frozenset[str], session_of: Mapping[str, str]) -> list[float]:
    """Return one value in [0, 1] per entry of `MEASURES`.

    Args:
        ranked: turn ids, best first, each once.
        gold: the supporting turns, at least one.
        session_of: turn id -> session id.
    """
    found = [i for i, turn in enumerate(ranked) if turn in gold]
    sessions = list(dict.fromkeys(session_of[turn] for turn in ranked))
    gold_sessions = {session_of[turn] for turn in gold}
    recall = [sum(i < k for i in found) / len(gold) for k in (5, 10, 20, 50)]
    gain = sum(1 / math.log2(i + 2) for i in found if i < 10)
    best = sum(1 / math.log2(i + 2) for i in range(min(10, len(gold))))
    session_recall = [len(gold_sessions & set(sessions[:k])) / len(gold_sessions) for k in (5, 10)]
    return [*recall, float(recall[2] == 1.0), gain / best, *session_recall]


def interval(values: Matrix, clusters: NDArray[np.int64] | None, seed: int) -> Interval:
    """Return the 95% interval of a mean.

    Args:
        values: one per question; or the paired differences of two systems.
        clusters: the conversation of each question, to draw conversations instead of questions.
        seed: of the draws.
    """
    draws = np.random.default_rng(seed)
    if clusters is None:
        # In slices: questions x draws would be a large array.
        means = np.array([values[draws.integers(0, len(values), len(values))].mean() for _ in range(DRAWS)])
    else:
        names = np.unique(clusters)
        sums = np.array([values[clusters == name].sum() for name in names])
        sizes = np.array([(clusters == name).sum() for name in names])
        drawn = draws.integers(0, len(names), (DRAWS, len(names)))
        means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)
