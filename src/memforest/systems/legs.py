"""The legs of a ranking that every index has: how relevant each turn is by its words, by itself and by the facts it supports.

The fused relevance is step 5 of docs/ranking.md: BM25, the cosine of the turn and the best cosine of it and its facts, each
standardised over the memory and weighted by `Ranking`. What the embedder does not know of a question and a text, the
lexical leg has. Trees are no part of it: an index adds what its own tell.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from memforest.ranking import Scores, standardise
from memforest.search.lexical import bm25
from memforest.search.snapshot import Snapshot
from memforest.store.tx import Tx
from memforest.systems.base import Search
from memforest.systems.speak import known_words, told_by


@dataclass(frozen=True, slots=True)
class Base:
    """Raw relevance: BM25 per turn and fact, cosines per turn and fact (zeros without an embedder).

    `turn` is compared with the question, `turn_bare` and `fact` with the question without participants' names.
    """

    lexical: Scores
    turn: Scores
    turn_bare: Scores
    fact: Scores
    fact_lexical: Scores


@dataclass(slots=True)
class LeafScores:
    """The score of every turn and its weighted parts, each of shape (n,)."""

    total: Scores
    parts: dict[str, Scores] = field(default_factory=dict)

    def add(self, name: str, values: Scores) -> None:
        """Add a part, unless it is all zero."""
        if values.any():
            self.parts[name] = self.parts[name] + values if name in self.parts else values
            self.total = self.total + values

    def standardise(self) -> None:
        """Turn the total into z-scores, and the parts with it; what an average turn has is a part of its own."""
        before, spread = self.total, float(self.total.std())
        self.total = standardise(before)
        # Of a total without differences nothing is left, and its parts cancel out.
        scale = spread if self.total.any() else 1.0
        self.parts = {name: part / scale for name, part in self.parts.items()}
        self.parts["mean"] = np.full(len(before), -float(before.mean()) / scale)


class Legs(NamedTuple):
    """The raw relevance of turns and facts, and the fused relevance of turns with its weighted parts."""

    base: Base
    fused: LeafScores


def legs(tx: Tx, snapshot: Snapshot, request: Search) -> Legs:
    """Return how relevant turns and facts are to a question, whatever index they are found by.

    Args:
        tx: a read transaction of the snapshot's state, for the words.
        snapshot: of the memory.
        request: the question; its ranking has the weights `lexical`, `turn` and `fact`.
    """
    base = read_base(tx, snapshot, request)
    return Legs(base, fused(snapshot, request, base))


def read_base(tx: Tx, snapshot: Snapshot, request: Search) -> Base:
    """Return the raw relevance of turns and facts; their words are read from the file."""
    lexical = bm25(tx, snapshot, "turn", request.tokens)
    return base_scores(snapshot, request, lexical, bm25(tx, snapshot, "fact", request.tokens))


def base_scores(snapshot: Snapshot, request: Search, lexical: Scores, fact_lexical: Scores) -> Base:
    """Return the raw relevance of turns and facts, of which the lexical one is known: shapes (n,) and (m,)."""
    turns, facts = snapshot.turns, snapshot.facts
    if request.vector is None or snapshot.dimension == 0:
        n, m = np.zeros(len(turns.ids)), np.zeros(len(facts.ids))
        return Base(lexical, n, n, m, fact_lexical)
    bare = request.vector if request.bare_vector is None else request.bare_vector
    turn, turn_bare = turns.vectors.cosines_of_two(request.vector, bare)
    return Base(
        lexical=lexical,
        turn=turn,
        turn_bare=turn_bare,
        fact=facts.vectors.cosines(bare),
        fact_lexical=fact_lexical,
    )


def fused(snapshot: Snapshot, request: Search, base: Base) -> LeafScores:
    """Return the sum of the weighted, standardised legs of every turn, with the parts ``"lexical"``, ``"turn"`` and ``"fact"``."""
    weights = request.ranking
    scores = LeafScores(np.zeros(len(snapshot.turns.ids)))
    unknown = 1.0 - known_words(snapshot, request)
    scores.add(
        "lexical", (weights.lexical + (weights.turn + weights.fact) * unknown) * standardise(base.lexical)
    )
    scores.add("turn", weights.turn * (1.0 - unknown) * standardise(base.turn))
    scores.add("fact", weights.fact * (1.0 - unknown) * standardise(_best_fact(snapshot, base)))
    return scores


def _best_fact(snapshot: Snapshot, base: Base) -> Scores:
    """Return, per turn, the best cosine of itself and the facts it supports."""
    told = told_by(snapshot).best(base.fact, np.full(len(base.turn_bare), -np.inf))
    return np.maximum(base.turn_bare, told)
