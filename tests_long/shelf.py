"""A policy of our own, for tests: a tree of two by two turns for every session, and of all facts by the month they were said in."""

from typing import Any

import numpy as np

from memforest.records import SummaryRequest
from memforest.search.cache import forest_of
from memforest.search.filters import IndexResult, Search, TurnHit, allowed, best_facts, turn_places
from memforest.search.forest import TURNS, Forest
from memforest.search.lexical import bm25
from memforest.search.scores import order
from memforest.search.snapshot import Snapshot
from memforest.store.connections import Tx
from memforest.times import from_ms
from memforest.trees.index import Index, leaf_of_turn
from memforest.trees.kernel import Growth
from memforest.trees.memforest_grow import fact_order
from memforest.trees.refresh import IndexPlan, NodeWork


class ShelfIndex(Index):  # noqa: D101
    name = "shelf"

    def grow(self, tx: Tx, snapshot: Snapshot, old: Forest | None) -> Forest:  # noqa: D102
        turns, facts = snapshot.turns, np.argsort(fact_order(snapshot), kind="stable")
        said = map(from_ms, snapshot.facts.said_ms[facts].tolist())
        months = np.array([100 * at.year + at.month for at in said], dtype=np.int64)
        sessions, of = np.unique(turns.session, return_inverse=True)
        shelves, on = np.unique(months, return_inverse=True)
        kinds = ["session"] * len(sessions) + ["month"] * len(shelves)
        growth = Growth(self.name, snapshot, kinds, np.r_[sessions, shelves])
        own = np.flatnonzero(turns.previous < 0)  # the first turns of sessions
        place = np.arange(len(of)) - np.repeat(own, np.diff(np.r_[own, len(of)]))
        first = np.flatnonzero(place % 2 == 0)
        runs = growth.runs(of[first], TURNS, first, np.r_[first[1:], len(of)][: len(first)])
        by = np.argsort(on, kind="stable")
        rows = np.r_[runs, growth.facts(len(sessions) + on[by], facts[by])]
        growth.pack(rows, rows.astype(np.uint64), np.full(len(kinds), 4), anchored=False)
        return growth.forest()

    def names(self, snapshot: Snapshot, forest: Forest) -> list[str]:  # noqa: D102
        called = {span.id: span.session_id for span in snapshot.sessions}
        return [called.get(one, str(one)) for one in forest.tree_scope.tolist()]

    def requests(self, tx: Tx, plan: IndexPlan, rows: Any, *, remote: bool) -> list[NodeWork]:  # noqa: D102
        start, end = plan.forest.start_ms, plan.forest.end_ms
        times = [(from_ms(int(start[row])), from_ms(int(end[row]))) for row in rows]
        asked = [
            SummaryRequest("shelf", "shelf", *at, plan.inputs(row))
            for row, at in zip(rows, times, strict=True)
        ]
        return [NodeWork(row, one) for row, one in zip(rows, asked, strict=True)]

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> IndexResult:  # noqa: D102
        scores, forest = bm25(tx, snapshot, "turn", request.tokens), forest_of(tx, snapshot, self)
        keep, leaf, none = allowed(snapshot, request), leaf_of_turn(forest), np.zeros(len(snapshot.facts.ids))
        told, best = best_facts(snapshot, keep, none, none), order(scores, turn_places(snapshot))
        part = [{"lexical": float(score)} for score in scores]
        rows = best[keep.turns[best]].tolist()
        return IndexResult(
            [TurnHit(r, int(told[r]), float(scores[r]), part[r], int(leaf[r])) for r in rows], forest=forest
        )
