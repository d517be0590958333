"""Parts of a node's or a leaf's score that need nothing but arrays: two channels as one, nearness in time, strength."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memforest.ranking.scores import Scores, leading

Ints = NDArray[np.int64]
DAY_MS = 86_400_000
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
    return weight * _by_maximum(near) + (1 - weight) * _by_maximum(np.asarray(lexical, dtype=np.float64))


def _by_maximum(values: Scores) -> Scores:
    most = float(values.max(initial=0.0))
    return values / most if most > 0 else np.zeros(len(values))


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
