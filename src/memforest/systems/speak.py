"""Which fact speaks for a turn: a turn and the facts it supports are one candidate."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memforest.ranking import Scores, standardise
from memforest.search.snapshot import Snapshot
from memforest.systems.filters import Allowed

__all__ = ["best_facts"]

LEXICAL = 0.35


def best_facts(snapshot: Snapshot, keep: Allowed, dense: Scores, lexical: Scores) -> NDArray[np.int64]:
    """Return, per turn, the row of the allowed fact that is nearest the question, or -1; shape (n,).

    Args:
        snapshot: of the memory.
        keep: what passes the time filters.
        dense: cosine of every fact, shape (m,).
        lexical: BM25 of every fact, shape (m,).
    """
    best = np.full(len(snapshot.turns.ids), -1, dtype=np.int64)
    pairs = snapshot.facts.pairs
    if not len(pairs):
        return best
    pairs = pairs[keep.facts[pairs[:, 0]]]
    scores = LEXICAL * standardise(lexical) + (1 - LEXICAL) * standardise(dense)
    ranked = pairs[np.lexsort((-pairs[:, 0], scores[pairs[:, 0]]))]
    best[ranked[:, 1]] = ranked[:, 0]  # the last, highest one stays
    return best
