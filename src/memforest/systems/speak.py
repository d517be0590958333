"""Choosing the fact that represents a turn: a turn and the facts it supports are one candidate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memforest.ranking import Groups, Scores, stable_order, standardise
from memforest.search.snapshot import Snapshot, once_per_snapshot
from memforest.systems.base import Search
from memforest.systems.filters import Allowed
from memforest.systems.places import fact_places

LEXICAL = 0.35
"""What words count beside vectors where facts are compared with a question."""


def best_facts(snapshot: Snapshot, keep: Allowed, dense: Scores, lexical: Scores) -> NDArray[np.int64]:
    """Return, per turn, the row of the allowed fact that is nearest the question, or -1; shape (n,).

    Args:
        snapshot: of the memory.
        keep: what passes the time filters.
        dense: cosine of every fact, shape (m,).
        lexical: BM25 of every fact, shape (m,).
    """
    best = np.full(len(snapshot.turns.ids), -1, dtype=np.int64)
    told = told_by(snapshot)
    if not len(told.turns):
        return best
    scores = LEXICAL * standardise(lexical) + (1 - LEXICAL) * standardise(dense)
    scores[~keep.facts] = -np.inf
    own = scores[told.facts]
    highest = np.repeat(told.groups.best(own), told.groups.sizes)
    chosen = np.flatnonzero((own == highest) & (own > -np.inf))[::-1]
    best[told.turn_of[chosen]] = told.facts[chosen]  # the first one is written last
    return best


def known_words(snapshot: Snapshot, request: Search) -> Scores:
    """Return, per turn, how far vectors can tell how near it is to a question: the known shares of both, multiplied.

    Without vectors it is 1: there is nothing to take their place.
    """
    if request.vector is None:
        return np.ones(len(snapshot.turns.ids))
    return request.known * snapshot.turns.known.astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """The supports of a snapshot, turn by turn: which facts each turn supports."""

    turns: NDArray[np.int64]
    """Turns that support a fact; one per group."""
    turn_of: NDArray[np.int64]
    facts: NDArray[np.int64]
    groups: Groups
    """Positions in `facts` by turn."""

    def best(self, scores: Scores, otherwise: Scores) -> Scores:
        """Return, per turn, the best score of its facts (shape (m,)), and `otherwise` where it has none."""
        out = otherwise.copy()
        out[self.turns] = self.groups.best(scores[self.facts])
        return out


@once_per_snapshot
def told_by(snapshot: Snapshot) -> Told:
    """Return the supports of a snapshot by turn, then by the place of the fact."""
    pairs = snapshot.facts.pairs
    pairs = pairs[stable_order(fact_places(snapshot)[pairs[:, 0]])]
    pairs = pairs[stable_order(pairs[:, 1])]
    groups = Groups.of(pairs[:, 1])
    return Told(pairs[groups.starts, 1], pairs[:, 1].copy(), pairs[:, 0].copy(), groups)
