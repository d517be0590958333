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
from memforest.search.scores import Scores, best_first, leading
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
    explore = explore_of(request, index.settings)
    keep, forest = allowed(snapshot, request), forest_of(tx, snapshot, index)
    looking = _Looking(tx, snapshot, explore, index, forest, keep)
    whole = Part(SubQuery(id="1", text="?", scope="mixed"), request)  # its text stays with the planner
    ranked = [looking.ranked(part) for part in request.parts or (whole,)]
    merged = looking.alone(ranked[0]) if len(ranked) == 1 else looking.together(ranked)
    return looking.found(merged, ranked, snapshot)


@dataclass(frozen=True, slots=True, eq=False)
class _Ranked:
    """What one part brings."""

    part: Part
    turns: Fit
    """Of every turn."""
    keep: Flags
    """The turns that it brings."""
    speaks: Ints
    """The fact that speaks for each turn, -1 for none."""
    nodes: Ints
    """Rows of the forest."""
    memories: Fit
    """Of `nodes`."""
    entry: Entry


@dataclass(frozen=True, slots=True, eq=False)
class _Merged:
    """The ranking of all parts: the order of its pieces, turns first and behind them nodes, and what each is worth."""

    keep: Flags
    """Which turns there are."""
    score: Scores
    """Of every turn."""
    by: Ints
    """The part, by number, that ranks each turn highest."""
    nodes: Ints
    node_score: Scores
    node_by: Ints
    node_at: Ints
    """Where each of `nodes` stands among those of its part."""


@dataclass(slots=True)
class _Looking:
    """The search for the parts of one question."""

    tx: Tx
    snapshot: Snapshot
    explore: Explore
    index: Index
    forest: Forest
    keep: Allowed
    _shown: Flags | None = None

    def ranked(self, part: Part) -> _Ranked:
        """Return what a part brings."""
        snapshot, explore, request = self.snapshot, self.explore, part.request
        base = read_base(self.tx, snapshot, request)
        entry = enter(self.tx, snapshot, request, explore, base)
        speaks = best_facts(snapshot, self.keep, base.fact, base.fact_lexical)
        if not explore.tree:
            speaks = np.full_like(speaks, -1)  # events are its leaves
        asked = asked_time(part.sub, request)
        turns = turn_scores(
            snapshot,
            request,
            explore,
            asked,
            similarities(snapshot, request, explore, base),
            speaks,
            entry.nearness,
            entry.known,
        )
        scope = explore.scope if explore.scope != "auto" else part.sub.scope or "mixed"
        kept = self._turns(scope, entry, speaks)
        climbs = explore.tree and scope != "short"
        nodes = self._memories(request) if climbs else np.zeros(0, dtype=np.int64)
        if len(nodes) and explore.reach == "graph" and entry.turns is not None:
            nodes = nodes[self._above(kept, speaks)[nodes]]
        memories = node_scores(self.tx, snapshot, self.index, nodes, request, explore, asked, base)
        first = self._with_text(nodes, memories)
        best = Fit(memories.total[first], {name: values[first] for name, values in memories.parts.items()})
        return _Ranked(part, turns, kept, speaks, nodes[first], best, entry)

    def _turns(self, scope: str, entry: Entry, speaks: Ints) -> Flags:
        """Select the turns of a part: those that entities lead to if `reach` is "graph", and for LONG only events."""
        kept = self.keep.turns
        if self.explore.reach == "graph" and entry.turns is not None and (kept & entry.turns).any():
            kept = kept & entry.turns
        if scope == "long" and self.explore.tree and len(self.snapshot.facts.ids):
            kept = kept & ((speaks >= 0) | (leaf_of_turn(self.forest) >= 0))
        return kept

    def _memories(self, request: Search) -> Ints:
        """Return the memories that may be shown."""
        if not len(self.forest.inner):
            return np.zeros(0, dtype=np.int64)
        if self._shown is None:
            self._shown = allowed_nodes(self.snapshot, self.forest, request) & say_more(self.forest)
            self._shown[self.forest.tree_root] = False
        return np.flatnonzero(self._shown)

    def _above(self, kept: Flags, speaks: Ints) -> Flags:
        """Return which nodes stand above what a part brings."""
        leaves = np.concatenate(
            [leaf_of_turn(self.forest)[kept], leaf_of_fact(self.forest)[speaks[kept & (speaks >= 0)]]]
        )
        reached = np.zeros(len(self.forest))
        reached[leaves[leaves >= 0]] = 1.0
        return np.asarray(self.forest.ascent.sums(reached) > 0)

    def _with_text(self, nodes: Ints, memories: Fit) -> Ints:
        """Return the places of the best nodes with an up-to-date text; few others are looked at."""
        ordered = leading(memories.total, nodes, len(nodes)) if len(nodes) else nodes
        found: list[int] = []
        for at in range(0, min(len(ordered), ROUNDS * MOST_MEMORIES), MOST_MEMORIES):
            places = ordered[at : at + MOST_MEMORIES].tolist()
            rows = {place: int(nodes[place]) for place in places}
            ready = ready_rows(self.tx, self.snapshot, self.index, list(rows.values()))
            found += [place for place in places if rows[place] in ready]
            if len(found) >= MOST_MEMORIES:
                break
        return np.array(found[:MOST_MEMORIES], dtype=np.int64)

    def alone(self, one: _Ranked) -> _Merged:
        """Return the ranking of the only part."""
        zeros = np.zeros(len(one.keep), dtype=np.int64)
        return _Merged(
            one.keep,
            one.turns.total,
            zeros,
            one.nodes,
            one.memories.total,
            np.zeros(len(one.nodes), dtype=np.int64),
            np.arange(len(one.nodes)),
        )

    def together(self, ranked: Sequence[_Ranked]) -> _Merged:
        """Merge the rankings of several parts, which take turns; what several bring stands where the first of them has it.

        Its scores are those of the part that brings a piece, and where they would rise that of the piece before it.
        """
        places, count = turn_places(self.snapshot), len(self.keep.turns)
        nodes = np.unique(np.concatenate([one.nodes for one in ranked]))
        size = count + len(nodes)
        best, by = np.full(size, size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        score, at = np.zeros(size), np.zeros(size, dtype=np.int64)
        ties = np.concatenate([places, count + np.arange(len(nodes))])
        for number, one in enumerate(ranked):
            own = np.searchsorted(nodes, one.nodes) + count
            total = np.full(size, -np.inf)
            total[:count][one.keep] = one.turns.total[one.keep]
            total[own] = one.memories.total
            here = np.flatnonzero(np.isfinite(total))
            ordered = here[np.lexsort((ties[here], -np.round(total[here], 9)))]
            rank = np.full(size, size, dtype=np.int64)
            rank[ordered] = np.arange(len(ordered))
            better = rank < best
            best[better], by[better], score[better] = rank[better], number, total[better]
            at[own] = np.where(better[own], np.arange(len(own)), at[own])
        there = np.flatnonzero(best < size)
        ordered = there[np.lexsort((ties[there], by[there], best[there]))]
        score[ordered] = np.minimum.accumulate(score[ordered])
        # Pieces of one score stand in the order of their turns elsewhere: here each stays behind the one before.
        score[ordered] -= np.arange(len(ordered)) * _STEP
        kept = best < size
        in_use = np.flatnonzero(kept[count:])
        return _Merged(
            kept[:count],
            score[:count],
            by[:count],
            nodes[in_use],
            score[count:][in_use],
            by[count:][in_use],
            at[count:][in_use],
        )

    def found(self, merged: _Merged, ranked: Sequence[_Ranked], snapshot: Snapshot) -> IndexResult:
        """Return a ranking as hits."""
        fact_leaf, turn_leaf = leaf_of_fact(self.forest), leaf_of_turn(self.forest)

        def leaf(turn: int) -> int:
            fact = int(ranked[merged.by[turn]].speaks[turn])
            own = int(fact_leaf[fact]) if fact >= 0 else -1
            return own if own >= 0 else int(turn_leaf[turn])

        def hit(turn: int) -> TurnHit:
            one, score = ranked[merged.by[turn]], float(merged.score[turn])
            parts = _parts(one.turns, turn, score)
            return TurnHit(turn, int(one.speaks[turn]), score, parts, leaf(turn))

        places = turn_places(snapshot)
        nodes = self._nodes(merged, ranked, leaf, places)
        names = ("hops", "neighbours", "entities", "reach", "similarity_of", "tree")
        explored: dict[str, Any] = {name: getattr(self.explore, name) for name in names}
        explored["parts"] = [
            {
                "id": one.part.sub.id,
                "scope": one.part.sub.scope,
                "turns": int(one.keep.sum()),
                "memories": len(one.nodes),
                **one.entry.notes,
            }
            for one in ranked
        ]
        return IndexResult(
            map(hit, best_first(merged.score, places, merged.keep)),
            notes={"filters": filter_notes(self.keep), "explored": explored},
            nodes=nodes,
            warnings=() if snapshot.dimension else (NO_VECTORS,),
            spare=min(len(nodes), LEFT_OUT),
            forest=self.forest,
        )

    def _nodes(
        self, merged: _Merged, ranked: Sequence[_Ranked], leaf: Any, places: Ints
    ) -> tuple[NodeHit, ...]:
        """Return the memories that tell more than the evidence beside them, best first."""
        if not len(merged.nodes):
            return ()
        forest = self.forest
        by_score = np.lexsort((merged.nodes, forest.level[merged.nodes], -np.round(merged.node_score, 9)))
        turns = islice(best_first(merged.score, places, merged.keep), LOOKED_AT)
        events = [(round(float(merged.score[turn]), 9), False, leaf(turn)) for turn in turns]
        memories = [(round(float(merged.node_score[at]), 9), True, int(merged.nodes[at])) for at in by_score]
        pieces = sorted((*events, *memories), key=lambda piece: -piece[0])
        kept = set(without_told(forest, (piece[1:] for piece in pieces)))
        return tuple(
            self._node_hit(merged, ranked, int(at)) for at in by_score if int(merged.nodes[at]) in kept
        )

    def _node_hit(self, merged: _Merged, ranked: Sequence[_Ranked], at: int) -> NodeHit:
        row, score = int(merged.nodes[at]), float(merged.node_score[at])
        parts = _parts(ranked[merged.node_by[at]].memories, int(merged.node_at[at]), score)
        return NodeHit(row, score, parts, self.forest.window_of(row))


_STEP = 2e-9
"""What sets a piece apart from the one before it where parts take turns: more than what scores are rounded to."""


def _parts(fit: Fit, at: int, score: float) -> dict[str, float]:
    """Return the parts of a score; what it lost by taking turns with other parts is one of them."""
    parts = {name: float(part[at]) for name, part in fit.parts.items()}
    lost = score - float(fit.total[at])
    return {**parts, "turn_of_part": lost} if lost else parts
