"""The baseline index: no trees. Weighted z-score fusion of the lexical and dense scores of turns and facts.

It stands behind the same protocol as the others, which proves the seam and lets users see on their own
data what the trees add.
"""

from __future__ import annotations

import numpy as np

from memforest.ranking import order, standardise
from memforest.search.lexical import bm25
from memforest.search.snapshot import Snapshot
from memforest.store.tx import Tx
from memforest.systems.base import Found, Hit, Index, Search
from memforest.systems.filters import allowed, filter_notes
from memforest.systems.places import turn_places
from memforest.systems.speak import best_facts, known_words

LEXICAL = 0.35
"""Weight of the lexical leg; the dense one has the rest. Chosen on LoCoMo, and held on human chat."""


class FlatIndex(Index):
    """Ranks turns; a turn scores as well as the best fact it supports."""

    name = "flat"

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> Found:
        """Return every candidate turn, best first."""
        if not len(snapshot.turns.ids):
            return Found(())
        turns, facts = snapshot.turns, snapshot.facts
        lexical = bm25(tx, snapshot, "turn", request.tokens)
        fact_lexical = bm25(tx, snapshot, "fact", request.tokens)
        dense, fact_dense = np.zeros(len(turns.ids)), np.zeros(len(facts.ids))
        if request.vector is not None and snapshot.dimension:
            dense = turns.vectors.cosines(request.vector)
            fact_dense = facts.vectors.cosines(request.vector)
        if len(facts.pairs):
            np.maximum.at(dense, facts.pairs[:, 1], fact_dense[facts.pairs[:, 0]])
        by_vector = (1 - LEXICAL) * known_words(snapshot, request)
        parts = {"lexical": (1 - by_vector) * standardise(lexical), "dense": by_vector * standardise(dense)}
        total = parts["lexical"] + parts["dense"]
        keep = allowed(snapshot, request)
        speaks = best_facts(snapshot, keep, fact_dense, fact_lexical)

        def hit(turn: int) -> Hit:
            return Hit(
                turn=turn,
                fact=int(speaks[turn]),
                score=float(total[turn]),
                scores={name: float(part[turn]) for name, part in parts.items()},
            )

        ranked = order(total, turn_places(snapshot))
        ranked = ranked[keep.turns[ranked]]
        return Found(
            map(hit, ranked.tolist()),
            notes={"filters": filter_notes(keep)},
        )
