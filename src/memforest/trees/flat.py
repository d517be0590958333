"""The indexes without trees: "flat" ranks turns, "facts" ranks facts by cosine and nothing else.

"flat" is the baseline: weighted z-score fusion of the lexical and dense scores of turns and facts. It shows users on their own
data what the trees add. "facts" is the flat-10 of the MemForest paper (§6.2, Table 7), with `top_k` 10: what no fact was
extracted from cannot be found by it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from memforest.search.filters import (
    IndexResult,
    Prepared,
    Search,
    TurnHit,
    allowed,
    best_facts,
    fact_places,
    filter_notes,
    first_turns,
    known_words,
    turn_places,
)
from memforest.search.lexical import bm25
from memforest.search.scores import order, standardise
from memforest.search.snapshot import Snapshot
from memforest.store.connections import Tx
from memforest.trees.index import Host, Index

LEXICAL = 0.35
"""Weight of the lexical leg; the dense one has the rest. Chosen on LoCoMo, and held on human chat."""


class FlatIndex(Index):
    """Ranks turns; a turn scores as well as the best fact it supports."""

    name = "flat"

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> IndexResult:
        """Return every candidate turn, best first."""
        if not len(snapshot.turns.ids):
            return IndexResult(())
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

        ranked = order(total, turn_places(snapshot))
        hits = (
            TurnHit(
                turn,
                int(speaks[turn]),
                float(total[turn]),
                {name: float(part[turn]) for name, part in parts.items()},
            )
            for turn in ranked[keep.turns[ranked]].tolist()
        )
        return IndexResult(hits, notes={"filters": filter_notes(keep)})


class FactsIndex(Index):
    """Ranks facts by their cosine with the question; each is found at the turn that said it first."""

    name = "facts"

    async def prepare(self, host: Host, request: Search) -> Prepared:
        """Warn of a question without vectors."""
        prepared = await super().prepare(host, request)
        if request.vector is not None:
            return prepared
        why = "the index 'facts' compares vectors, and there are none: it ranked facts by words"
        return replace(prepared, warnings=(*prepared.warnings, why))

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> IndexResult:
        """Return every fact, best first; by BM25 where there are no vectors."""
        facts = snapshot.facts
        if request.vector is not None and snapshot.dimension:
            part, scores = "cosine", np.asarray(facts.vectors.cosines(request.vector), dtype=np.float64)
        else:
            part, scores = "lexical", bm25(tx, snapshot, "fact", request.tokens)
        keep, first = allowed(snapshot, request), first_turns(snapshot)
        ranked = order(scores, fact_places(snapshot))
        hits = (
            TurnHit(int(first[fact]), int(fact), float(scores[fact]), {part: float(scores[fact])})
            for fact in ranked[keep.facts[ranked]]
        )
        return IndexResult(hits, notes={"filters": filter_notes(keep)})
