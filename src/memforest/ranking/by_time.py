"""Choosing one of several answers by when they were said: the last one, the first one, the one before another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memforest.ranking.scores import Scores

Flags = NDArray[np.bool_]

LEAST_LOGIT = 0.0
"""Least relevance of what is chosen: at 0 a judge holds an answer as likely as none."""
_MARGIN = 4.0
"""Logits below the most relevant at which an answer is as likely as not."""
_ASKS = 3.0
"""Logits taken off what ends by asking: a question repeats its words and answers nothing."""
_NAMED = 0.2
"""Least likelihood of a turn that tells the event which a question is relative to."""

_LAST = frozenset(("current", "as_of", "last", "changed_back", "predecessor"))
_FIRST = frozenset(("first", "since", "successor"))


def choose_by_time(
    kind: str,
    relevance: Scores,
    place: NDArray[np.int64],
    *,
    asks: Flags,
    within: Flags,
    anchored: Flags | None = None,
) -> int | None:
    """Return the row of the candidate that answers by its time, or None if none does.

    A candidate is chosen that likely answers and that no other likely answer was said after ("current", "as_of", "last",
    "changed_back", and "predecessor" of those before the anchor) or before ("first", "since", and "successor" of those
    after the anchor): p_i times the product of 1 - p_j over all j behind it. Equal ones: the one that stands first.

    Args:
        kind: of the time operator; of an unknown one nothing is chosen.
        relevance: logits of how well each candidate answers the question without its time, shape (n,).
        place: of each candidate in the order in which they were said, all different, shape (n,).
        asks: whether it ends by asking, shape (n,).
        within: whether it may be chosen: about the right person, and said in time, shape (n,).
        anchored: whether it names the event that the question is relative to, shape (n,); for "predecessor" and
            "successor", of which nothing is chosen if no likely answer does.
    """
    if kind not in _LAST | _FIRST or not within.any():
        return None
    logits = relevance - _ASKS * asks
    likely = 1 / (1 + np.exp(-np.clip(logits - max(logits[within].max() - _MARGIN, -_MARGIN), -50, 50)))
    likely = np.where(within, likely, 0.0)
    inside = _beside(kind, place, None if anchored is None else anchored & (likely > _NAMED))
    likely = np.where(inside, likely, 0.0)
    ordered = np.argsort(place if kind in _FIRST else -place)
    left = np.cumprod(np.r_[1.0, 1 - likely[ordered]])[:-1]
    weight = np.zeros(len(likely))
    weight[ordered] = likely[ordered] * left
    best = int(weight.argmax())
    return best if weight[best] > 0 and logits[best] >= LEAST_LOGIT else None


def _beside(kind: str, place: NDArray[np.int64], anchored: Flags | None) -> Flags:
    """Return what was said on the asked side of the anchor; everything where a question has none."""
    if kind not in ("predecessor", "successor"):
        return np.ones(len(place), dtype=np.bool_)
    if anchored is None or not anchored.any():
        return np.zeros(len(place), dtype=np.bool_)
    named = place[anchored]
    beside: Flags = place < named.min() if kind == "predecessor" else place > named.max()
    return beside
