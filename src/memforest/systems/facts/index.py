"""Facts by cosine and nothing else: the flat-10 of the MemForest paper (§6.2, Table 7), with `top_k` 10.

It has no trees and no words, and does not rank turns: what no statement was extracted from cannot be found by it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from memforest.ranking import order
from memforest.search.lexical import bm25
from memforest.search.snapshot import Snapshot
from memforest.store.tx import Tx
from memforest.systems.base import Found, Hit, Index, Prepared, Search
from memforest.systems.filters import allowed, filter_notes
from memforest.systems.host import Host
from memforest.systems.places import fact_places, first_turns


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

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> Found:
        """Return every fact, best first; by BM25 where there are no vectors."""
        facts = snapshot.facts
        if request.vector is not None and snapshot.dimension:
            part, scores = "cosine", np.asarray(facts.vectors.cosines(request.vector), dtype=np.float64)
        else:
            part, scores = "lexical", bm25(tx, snapshot, "fact", request.tokens)
        keep, first = allowed(snapshot, request), first_turns(snapshot)
        ranked = order(scores, fact_places(snapshot))
        hits = (
            Hit(int(first[fact]), int(fact), float(scores[fact]), {part: float(scores[fact])})
            for fact in ranked[keep.facts[ranked]]
        )
        return Found(hits, notes={"filters": filter_notes(keep)})
