"""What a question brings from the hmem index: per part its entry, its scope and F; then all parts as one ranking.

SHORT is turns and events, LONG events and memories, MIXED all of them (H-Mem, arXiv 2605.15701, §3.3). An event is a hit with
its fact, at the best of its turns; so a turn and its event are one. The parts of a question take turns: the best of each, then
the second of each. Nothing is said twice, no memory without a text is found, and none that tells what came after the moment
that is asked about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest.config import Explore
from memforest.records import SubQuery
from memforest.search.cache import forest_of
from memforest.search.context_scores import read_base
from memforest.search.filters import (
    Allowed,
    IndexResult,
    NodeHit,
    Part,
    Search,
    TurnHit,
    allowed,
    best_facts,
    filter_notes,
    turn_places,
)
from memforest.search.forest import Forest
from memforest.search.scores import Scores, best_first, leading, order
from memforest.search.snapshot import Snapshot
from memforest.store.connections import Tx
from memforest.trees.hmem_grow import HMemSettings
from memforest.trees.hmem_score import (
    Entry,
    Fit,
    asked_time,
    enter,
    leaf_of_fact,
    node_scores,
    say_more,
    similarities,
    turn_scores,
    without_told,
)
from memforest.trees.index import Index, allowed_nodes, leaf_of_turn, ready_rows

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

MOST_MEMORIES = 32
"""Memories of one part at most: more than any evidence shows."""
ROUNDS = 8
"""How many times as many are looked at for a text that is up to date."""
LEFT_OUT = 8
"""Memories among the first pieces that may turn out to say nothing of their own."""
LOOKED_AT = 256
"""Pieces of a ranking that are compared for what they say twice."""
NO_VECTORS = "this memory has no embedder: evidence was found by words and entities alone; rebuild(embedder=True) gives it one"


def explore_of(request: Search, settings: HMemSettings) -> Explore:
    """Return the settings of the evidence search: those of the ranking, else those of the index."""
    return request.ranking.explore or settings.explore


def scope_of(explore: Explore, sub: SubQuery) -> str:
    """Return what is searched for a sub-query: what the settings say, else what the planner does."""
    return sub.scope or "mixed" if explore.scope == "auto" else explore.scope


def find(tx: Tx, snapshot: Snapshot, request: Search, index: Index) -> IndexResult:
    """Return what a question brings, best first.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory.
        request: the question; with the parts that `memforest.trees.hmem.prepare` gave it, or as its only one.
        index: whose trees are searched.
    """
    if not len(snapshot.turns.ids):
        return IndexResult(())
    forest = forest_of(tx, snapshot, index)
    shown = allowed_nodes(snapshot, forest, request) & say_more(forest)
    shown[forest.tree_root] = False
    explore, keep = explore_of(request, index.settings), allowed(snapshot, request)
    looking = _Looking(tx, snapshot, explore, index, forest, keep, np.flatnonzero(shown))
    whole = Part(SubQuery(id="1", text="?", scope="mixed"), request)  # its text stays with the planner
    return looking.found([looking.ranked(part) for part in request.parts or (whole,)])


@dataclass(frozen=True, slots=True, eq=False)
class _Ranked:
    """What one part brings."""

    part: Part
    turns: Fit
    """Of every turn."""
    memories: Fit
    """Of every row of the forest."""
    total: Scores
    """Of every turn, and behind them every row of the forest: its score if the part brings it, else -inf."""
    speaks: Ints
    """The fact that speaks for each turn, -1 for none."""
    entry: Entry


@dataclass(frozen=True, slots=True, eq=False)
class _Looking:
    """The search for the parts of one question."""

    tx: Tx
    snapshot: Snapshot
    explore: Explore
    index: Index
    forest: Forest
    keep: Allowed
    shown: Ints
    """The memories that may be shown."""

    def ranked(self, part: Part) -> _Ranked:
        """Return what a part brings."""
        snapshot, explore, request = self.snapshot, self.explore, part.request
        base = read_base(self.tx, snapshot, request)
        entry = enter(self.tx, snapshot, request, explore, base)
        speaks = best_facts(snapshot, self.keep, base.fact, base.fact_lexical)
        if not explore.tree:
            speaks = np.full_like(speaks, -1)  # events are its leaves
        asked, scope = asked_time(part.sub, request), scope_of(explore, part.sub)
        similar = similarities(snapshot, request, explore, base)
        turns = turn_scores(snapshot, request, explore, asked, similar, speaks, entry)
        kept = self._turns(scope, entry, speaks)
        nodes = self.shown if explore.tree and scope != "short" else self.shown[:0]
        if explore.reach == "graph" and entry.turns is not None:
            nodes = nodes[self._above(kept, speaks)[nodes]]
        memories = node_scores(self.tx, snapshot, self.index, nodes, request, explore, asked, base)
        memories = memories.at(nodes, len(self.forest))
        nodes = self._with_text(nodes, memories.total)
        total = np.full(len(kept) + len(self.forest), -np.inf)
        total[: len(kept)][kept] = turns.total[kept]
        total[len(kept) + nodes] = memories.total[nodes]
        return _Ranked(part, turns, memories, total, speaks, entry)

    def _turns(self, scope: str, entry: Entry, speaks: Ints) -> Flags:
        """Select the turns of a part: those that entities lead to if `reach` is "graph", and for LONG only events."""
        kept = self.keep.turns
        if self.explore.reach == "graph" and entry.turns is not None and (kept & entry.turns).any():
            kept = kept & entry.turns
        if scope == "long" and self.explore.tree and len(self.snapshot.facts.ids):
            kept = kept & ((speaks >= 0) | (leaf_of_turn(self.forest) >= 0))
        return kept

    def _above(self, kept: Flags, speaks: Ints) -> Flags:
        """Return which nodes stand above what a part brings."""
        leaves = np.concatenate(
            [leaf_of_turn(self.forest)[kept], leaf_of_fact(self.forest)[speaks[kept & (speaks >= 0)]]]
        )
        reached = np.zeros(len(self.forest))
        reached[leaves[leaves >= 0]] = 1.0
        return np.asarray(self.forest.ascent.sums(reached) > 0)

    def _with_text(self, nodes: Ints, score: Scores) -> Ints:
        """Return the best nodes with an up-to-date text; few others are looked at."""
        ordered = nodes[leading(score[nodes], nodes, ROUNDS * MOST_MEMORIES)].tolist()
        found: list[int] = []
        while ordered and len(found) < MOST_MEMORIES:
            some, ordered = ordered[:MOST_MEMORIES], ordered[MOST_MEMORIES:]
            ready = ready_rows(self.tx, self.snapshot, self.index, some)
            found += [row for row in some if row in ready]
        return np.array(found[:MOST_MEMORIES], dtype=np.int64)

    def _merged(self, ranked: Sequence[_Ranked]) -> tuple[Scores, Ints]:
        """Merge the rankings of several parts, which take turns; what several bring stands where the first of them has it.

        Returns:
            Of every turn and row of the forest its score, -inf if no part brings it, and the part, by number, that ranks it
            highest. The score is that of this part, and where scores would rise that of the piece before it.
        """
        score, size = np.full_like(ranked[0].total, -np.inf), len(ranked[0].total)
        by = np.zeros(size, dtype=np.int64)
        if len(ranked) == 1:
            return ranked[0].total, by
        best = np.full(size, size)
        ties = np.concatenate([turn_places(self.snapshot), np.arange(len(self.keep.turns), size)])
        for number, one in enumerate(ranked):
            here = np.flatnonzero(one.total > -np.inf)
            rank = np.full(size, size)
            rank[here[order(one.total[here], ties[here])]] = np.arange(len(here))
            better = rank < best
            best[better], by[better], score[better] = rank[better], number, one.total[better]
        there = np.flatnonzero(best < size)
        ordered = there[np.lexsort((ties[there], by[there], best[there]))]
        # Pieces of one score stand in the order of their turns elsewhere: here each stays behind the one before.
        score[ordered] = np.minimum.accumulate(score[ordered]) - np.arange(len(ordered)) * _STEP
        return score, by

    def found(self, ranked: Sequence[_Ranked]) -> IndexResult:
        """Return what the parts bring as one ranking."""
        forest, count, (score, by) = self.forest, len(self.keep.turns), self._merged(ranked)
        of_turn, of_node, there = score[:count], score[count:], score > -np.inf
        fact_leaf, turn_leaf, places = leaf_of_fact(forest), leaf_of_turn(forest), turn_places(self.snapshot)

        def leaf(turn: int) -> int:
            fact = int(ranked[by[turn]].speaks[turn])
            own = int(fact_leaf[fact]) if fact >= 0 else -1
            return own if own >= 0 else int(turn_leaf[turn])

        def hit(turn: int) -> TurnHit:
            one, worth = ranked[by[turn]], float(of_turn[turn])
            return TurnHit(turn, int(one.speaks[turn]), worth, _parts(one.turns, turn, worth), leaf(turn))

        def node_hit(row: int) -> NodeHit:
            one, worth = ranked[by[count + row]], float(of_node[row])
            return NodeHit(row, worth, _parts(one.memories, row, worth), forest.window_of(row))

        rows = np.flatnonzero(there[count:])
        rows = rows[np.lexsort((rows, forest.level[rows], -np.round(of_node[rows], 9)))]
        # Of the memories those that tell more than the evidence beside them.
        turns = islice(best_first(of_turn, places, there[:count]), LOOKED_AT if len(rows) else 0)
        pieces = [(round(float(of_turn[turn]), 9), False, leaf(turn)) for turn in turns]
        pieces += [(round(float(of_node[row]), 9), True, row) for row in rows.tolist()]
        pieces.sort(key=lambda piece: -piece[0])
        kept = set(without_told(forest, (piece[1:] for piece in pieces)))
        nodes = tuple(node_hit(row) for row in rows.tolist() if row in kept)
        names = ("hops", "neighbours", "entities", "reach", "similarity_of", "tree")
        explored: dict[str, Any] = {name: getattr(self.explore, name) for name in names}
        explored["parts"] = [
            {
                "id": one.part.sub.id,
                "scope": one.part.sub.scope,
                "turns": int((one.total[:count] > -np.inf).sum()),
                "memories": int((one.total[count:] > -np.inf).sum()),
                **one.entry.notes,
            }
            for one in ranked
        ]
        return IndexResult(
            map(hit, best_first(of_turn, places, there[:count])),
            notes={"filters": filter_notes(self.keep), "explored": explored},
            nodes=nodes,
            warnings=() if self.snapshot.dimension else (NO_VECTORS,),
            spare=min(len(nodes), LEFT_OUT),
            forest=forest,
        )


_STEP = 2e-9
"""What sets a piece apart from the one before it where parts take turns: more than what scores are rounded to."""


def _parts(fit: Fit, at: int, score: float) -> dict[str, float]:
    """Return the parts of a score; what it lost by taking turns with other parts is one of them."""
    parts = {name: float(part[at]) for name, part in fit.parts.items()}
    lost = score - float(fit.total[at])
    return {**parts, "turn_of_part": lost} if lost else parts
