"""What a question brings from the hmem index: per part its entry, its scope and F; then all parts as one ranking.

A question enters by the entities that it names or is near to and those around them (H-Mem, arXiv 2605.15701, §3.3: seeds by name
and by vectors, then several hops); from entities to what was said, and from there to events. That the entities' nearness counts
for what they lead to is this package's.

F = .70 S + .15 T + .15 R (eq. 1 to 3): how like a question a piece is, how well its time fits, and how well it has held.
`Explore.similarity_of` says what S is, `Explore.entity` adds how near the entities are that lead to a piece, and `Explore.known`
what is known of those that are named. A turn and the fact that speaks for it are one piece; it has the better of both.

SHORT is turns and events, LONG events and memories, MIXED all of them (§3.3). An event is a hit with its fact, at the best of
its turns; so a turn and its event are one. The parts of a question take turns: the best of each, then the second of each.
Nothing is said twice, no memory without a text is found, and none that tells what came after the moment that is asked about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest.config import Explore
from memforest.graph.graph import Graph, graph_of
from memforest.graph.paths import expand, near, seeds
from memforest.records import SubQuery
from memforest.search.cache import embedded_forest, forest_of
from memforest.search.context_scores import Base, along_stretches, as_said, read_base
from memforest.search.filters import (
    LEXICAL,
    Allowed,
    IndexResult,
    NodeHit,
    Part,
    Search,
    TurnHit,
    allowed,
    best_facts,
    filter_notes,
    told_by,
    turn_places,
)
from memforest.search.forest import FACT, INNER, Forest, once_per_forest
from memforest.search.scores import (
    Scores,
    best_first,
    leading,
    order,
    robustness,
    share_of_most,
    standardise,
    time_overlap,
)
from memforest.search.snapshot import Ints, Snapshot, as_array, once_per_snapshot
from memforest.store.connections import Tx
from memforest.times import to_ms
from memforest.trees.hmem_grow import HMemSettings
from memforest.trees.index import Index, allowed_nodes, leaf_of_turn, leaves_beneath, ready_rows
from memforest.trees.kernel import fact_times

Flags = NDArray[np.bool_]
Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Fit:
    """The score of pieces and the parts that sum to it: ``"similarity"``, ``"time"``, ``"robustness"``, ``"entity"``, ``"profile"``."""

    total: Scores
    parts: Mapping[str, Scores]

    @classmethod
    def of(cls, parts: Mapping[str, Scores]) -> Fit:
        """Return the sum of parts, without those that are all zero."""
        kept = {name: part for name, part in parts.items() if part.any()}
        first = next(iter(parts.values()))
        return cls(sum(kept.values(), np.zeros(len(first))), kept)


def asked_time(sub: SubQuery, request: Search) -> Interval | None:
    """Return the time [start, end) that a sub-query asks about, UTC ms; None if it names none.

    An open end is the question's present, or the start if that is later.
    """
    start, end = (request.plan.start, request.plan.end) if sub.interval is None else sub.interval
    if start is None:
        return None
    begin = to_ms(start)
    last = request.reference_ms if end is None else to_ms(end)
    return begin, max(last, begin + 1)


def _time(start_ms: Ints, end_ms: Ints, asked: Interval | None, explore: Explore) -> Scores:
    """Return T of intervals: 0 without a time that is asked about."""
    if asked is None:
        return np.zeros(len(start_ms))
    return time_overlap(start_ms, end_ms, asked, overlap=explore.overlap)


@once_per_snapshot
def held(snapshot: Snapshot) -> tuple[Ints, Ints]:
    """Return when each fact was last told, UTC ms, and how often it was told again; shapes (m,).

    Turns that stand side by side and support a fact together, such as a question and its answer, tell it once.
    """
    pairs, turns = snapshot.facts.pairs, snapshot.turns
    last = np.zeros(len(snapshot.facts.ids), dtype=np.int64)
    if not len(pairs):
        return last, last
    ordered = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    same = np.diff(ordered[:, 0], prepend=-1) == 0
    goes_on = same & (turns.previous[ordered[:, 1]] == np.r_[-2, ordered[:-1, 1]])
    tellings = np.bincount(ordered[~goes_on, 0], minlength=len(last))
    np.maximum.at(last, ordered[:, 0], turns.said_ms[ordered[:, 1]])
    return last, np.maximum(tellings - 1, 0)


def _robust(last_ms: Ints, times: Ints, request: Search, explore: Explore) -> Scores:
    """Return R of what was last told at some times, so often."""
    decay, more = explore.decay_days, explore.reinforcement
    return robustness(last_ms, times, request.reference_ms, decay_days=decay, reinforcement=more)


def similarities(snapshot: Snapshot, request: Search, explore: Explore, base: Base) -> Scores:
    """Return S of every turn with the facts that it supports, shape (n,); of turns by themselves without the tree.

    Without vectors a cosine is that of words alone: BM25 by its maximum.
    """
    if not explore.tree:
        base = replace(
            base, fact=np.full_like(base.fact, -1.0), fact_lexical=np.zeros_like(base.fact_lexical)
        )
    if explore.similarity_of == "fused":
        said = as_said(snapshot, request, base).total
        return said + sum(along_stretches(snapshot, request, said).values(), np.zeros(len(said)))
    if request.vector is None or not snapshot.dimension:
        turn, fact = share_of_most(base.lexical), share_of_most(base.fact_lexical)
    else:
        turn, fact = base.turn, base.fact
    return np.maximum(turn, told_by(snapshot).best(fact, np.full(len(turn), -np.inf)))


def turn_scores(
    snapshot: Snapshot,
    request: Search,
    explore: Explore,
    asked: Interval | None,
    similar: Scores,
    speaks: Ints,
    entry: Entry,
) -> Fit:
    """Return F of every turn with the fact that speaks for it.

    Args:
        snapshot: of the memory.
        request: the sub-query, read as a question.
        explore: the weights.
        asked: the time that is asked about.
        similar: S of every turn; see `similarities`.
        speaks: the fact that speaks for each turn, -1 for none.
        entry: what entities lead to.
    """
    said = snapshot.turns.said_ms
    fit, last, times = _time(said, said + 1, asked, explore), said.copy(), np.zeros(len(said), dtype=np.int64)
    told = np.flatnonzero(speaks >= 0)
    rows = speaks[told]
    start, end = fact_times(snapshot.facts)
    fit[told] = np.maximum(fit[told], _time(start[rows], end[rows], asked, explore))
    last_told, again = held(snapshot)
    last[told] = np.maximum(last[told], last_told[rows])
    times[told] = again[rows]
    return Fit.of(
        {
            "similarity": explore.similarity * similar,
            "time": explore.time * fit,
            "robustness": explore.robustness * _robust(last, times, request, explore),
            "entity": explore.entity * entry.nearness,
            "profile": explore.known * entry.known,
        }
    )


def node_scores(
    tx: Tx,
    snapshot: Snapshot,
    index: Index,
    nodes: Ints,
    request: Search,
    explore: Explore,
    asked: Interval | None,
    base: Base,
) -> Fit:
    """Return F of some inner nodes, on the scale of `turn_scores`.

    S is that of the vector of the node's text; of one without it, the mean of its events. With ``"fused"`` it is brought to
    the scale of turns, and words count as those of what is below do on average.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory.
        index: whose trees they are of.
        nodes: rows of its forest.
        request: the sub-query.
        explore: the weights.
        asked: the time that is asked about.
        base: how relevant turns and facts are.
    """
    forest = forest_of(tx, snapshot, index)
    cosine = _cosines(tx, snapshot, index, nodes, request, base)
    if explore.similarity_of == "fused":
        words = _means_below(forest, standardise(base.lexical), standardise(base.fact_lexical))[nodes]
        weights, turn = request.ranking, base.turn
        vectors = weights.turn + weights.fact
        spread = float(turn.std())
        near = (cosine - turn.mean()) / spread if spread else np.zeros(len(nodes))
        cosine = near * vectors + words * (weights.lexical if spread else weights.lexical + vectors)
    start, end = forest.start_ms, forest.end_ms
    last, times = node_marks(forest, snapshot)
    return Fit.of(
        {
            "similarity": explore.similarity * cosine,
            "time": explore.time * _time(start[nodes], end[nodes], asked, explore),
            "robustness": explore.robustness * _robust(last[nodes], times[nodes], request, explore),
        }
    )


def _cosines(tx: Tx, snapshot: Snapshot, index: Index, nodes: Ints, request: Search, base: Base) -> Scores:
    """Return the cosine of nodes with a question; 0 without vectors."""
    if request.vector is None or not snapshot.dimension:
        return np.zeros(len(nodes))
    found = embedded_forest(tx, snapshot, index)
    own = found.cosines_at(nodes, request.vector)
    missing = own == 0
    if missing.any():
        own = np.where(missing, _means_below(found.forest, base.turn, base.fact)[nodes], own)
    return np.asarray(own, dtype=np.float64)


def _means_below(forest: Forest, turn: Scores, fact: Scores) -> Scores:
    """Return the mean of the leaves below every node, of values of turns and facts."""
    return forest.ascent.means(_at_leaves(forest, turn, fact))


def _at_leaves(forest: Forest, turn: Scores | Ints, fact: Scores | Ints) -> Scores:
    """Return what turns and facts are worth at the leaves that stand for them; 0 at inner nodes."""
    out = np.zeros(len(forest))
    facts, turns = forest.kind == FACT, (forest.kind != FACT) & (forest.kind != INNER)
    out[facts], out[turns] = fact[forest.item[facts]], turn[forest.item[turns]]
    return out


@once_per_forest
def node_marks(forest: Forest, snapshot: Snapshot) -> tuple[Ints, Ints]:
    """Return when the facts below each node were last told, UTC ms, and how often they were consolidated."""
    last, times = held(snapshot)
    said = snapshot.turns.said_ms
    latest = _at_leaves(forest, said, last).astype(np.int64)
    for level in np.unique(forest.level).tolist():
        below = np.flatnonzero((forest.level == level) & (forest.parent >= 0))
        np.maximum.at(latest, forest.parent[below], latest[below])
    tellings = forest.ascent.sums(_at_leaves(forest, np.ones(len(said)), times + 1))
    return latest, np.maximum(tellings.astype(np.int64) - 1, 0)


SHOWN = 8
"""Entities of a trace, of each sort."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What entities lead to."""

    nearness: Scores
    """How near the entities are to the question that lead to each turn, as z-scores."""
    known: Scores
    """1 for every turn that tells a state or a relation of an entity that the question names, else 0."""
    turns: Flags | None = None
    """Which turns they lead to; None where there is no entity to enter by, and everything is searched."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """The entities, for a trace."""


def names_in(request: Search) -> tuple[str, ...]:
    """Return the names in a question, each once."""
    plan = request.plan
    return tuple(dict.fromkeys((*plan.entities, *plan.mentions, *plan.owners)))


def enter(tx: Tx, snapshot: Snapshot, request: Search, explore: Explore, base: Base) -> Entry:
    """Return what the entities of a question lead to.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory.
        request: the question.
        explore: `hops`, `neighbours` and `entities` count.
        base: how relevant facts are by themselves, by words and vectors: an entity is as near as its facts on average.
    """
    nothing = np.zeros(len(snapshot.turns.ids))
    if not len(snapshot.facts.ids):
        return Entry(nothing, nothing)
    graph = graph_of(snapshot)
    named = seeds(graph, names_in(request))
    closest = _closest(snapshot, graph, explore, base)
    if not named and not closest:
        return Entry(nothing, nothing)
    found = expand(
        graph,
        {**closest, **named},
        hops=explore.hops,
        most=explore.neighbours,
        limit=explore.entities,
        at_ms=request.as_of_ms,
    )
    turns = np.zeros(len(nothing), dtype=np.bool_)
    turns[snapshot.turns_of_fact.of_rows(graph.facts.of_rows(as_array(found.scores)))] = True
    best = told_by(snapshot).best
    return Entry(
        standardise(best(_nearness(snapshot, graph, closest), nothing)),
        best(_told_of(snapshot, graph, named), nothing),
        turns,
        {
            "named": [graph.labels[place] for place in named],
            "near": [graph.labels[place] for place in list(closest)[:SHOWN]],
            "entities": len(found.scores),
            "reached": [
                f"{graph.labels[source]} > {graph.labels[place]}"
                for place, source in list(found.via.items())[:SHOWN]
            ],
        },
    )


def _closest(snapshot: Snapshot, graph: Graph, explore: Explore, base: Base) -> dict[int, float]:
    """Return the entities that are nearer than the average fact, with the excess as a share of the nearest's."""
    told = LEXICAL * standardise(base.fact_lexical) + (1 - LEXICAL) * standardise(base.fact)
    usual = float(told.mean())
    excess = {
        place: value - usual
        for place, value in near(graph, snapshot, told, explore.entities).items()
        if value > usual
    }
    most = max(excess.values(), default=0.0)
    return {place: value / most for place, value in excess.items()}


def _nearness(snapshot: Snapshot, graph: Graph, closest: Mapping[int, float]) -> Scores:
    """Return, per fact, how near the nearest entity is that it names."""
    of_place, of_fact = np.zeros(len(graph)), np.zeros(len(snapshot.facts.ids))
    of_place[list(closest)] = list(closest.values())
    np.maximum.at(of_fact, graph.facts.values, of_place[graph.facts.owners])
    return of_fact


def _told_of(snapshot: Snapshot, graph: Graph, named: Mapping[int, float]) -> Scores:
    """Return 1 for facts that tell a state or relation of an entity that is named in full, else 0."""
    places = [place for place, score in named.items() if score == 1]
    lines = [graph.states[at] for place in places for at in graph.states_of[place]]
    told = {state.fact for line in lines for state in line.states}
    told.update(
        fact for place in places for at in graph.relations_of[place] for fact in graph.relations[at].facts
    )
    of_fact = np.zeros(len(snapshot.facts.ids))
    of_fact[list(snapshot.rows_of_facts(list(told)))] = 1.0
    return of_fact


FIRST = 10
"""Pieces that stand as evidence whatever comes behind them: as many as are asked for by default."""


@once_per_forest
def leaf_of_fact(forest: Forest) -> Ints:
    """Return the leaf of every fact, -1 for one that has none."""
    out = np.full(len(forest.facts.ids), -1, dtype=np.int64)
    leaves = np.flatnonzero(forest.kind == FACT)
    out[forest.item[leaves]] = leaves
    return out


@once_per_forest
def say_more(forest: Forest) -> Flags:
    """Return which inner nodes have more than one event, and more events than any node below them; shape (N,).

    Any other says what an event says, or the node below it.
    """
    leaf = (forest.kind != INNER).astype(np.float64)
    counts = forest.ascent.sums(leaf)
    more: Flags = (forest.kind == INNER) & (counts > 1)
    children = np.flatnonzero(forest.parent >= 0)
    alike = children[(counts[children] == counts[forest.parent[children]]) & (forest.kind[children] == INNER)]
    more[forest.parent[alike]] = False
    return more


def without_told(forest: Forest, pieces: Iterable[tuple[bool, int]]) -> Sequence[int]:
    """Drop the nodes of a ranking whose events all stand beside them; return the others in order.

    Args:
        forest: the index's.
        pieces: best first: (whether it is a node, its row of the forest). Of an event its leaf, -1 for what is in none. As many
            as are looked at.
    """
    ranked = list(pieces)
    told = {row for is_node, row in ranked[:FIRST] if not is_node and row >= 0}
    kept = []
    for is_node, row in ranked:
        if not is_node:
            told.add(row)
        elif not told.issuperset(leaves_beneath(forest, row).tolist()):
            kept.append(row)
    return kept


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
    nodes: Ints
    """Memories that it may bring, ascending."""
    memories: Fit
    """Of these."""
    total: Scores
    """Of every turn, and behind them every row of the forest: its score if the part brings it, else -inf."""
    speaks: Ints
    """The fact that speaks for each turn, -1 for none."""
    leaves: Ints
    """The event of each turn, -1 for none."""
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
        leaves = np.maximum(np.append(leaf_of_fact(self.forest), -1)[speaks], leaf_of_turn(self.forest))
        asked, scope = asked_time(part.sub, request), scope_of(explore, part.sub)
        similar = similarities(snapshot, request, explore, base)
        turns = turn_scores(snapshot, request, explore, asked, similar, speaks, entry)
        kept = self._turns(scope, entry, np.maximum(speaks, leaves))
        nodes = self.shown if explore.tree and scope != "short" else self.shown[:0]
        if explore.reach == "graph" and entry.turns is not None:
            reached = np.zeros(len(self.forest))
            reached[leaves[kept & (leaves >= 0)]] = 1.0
            nodes = nodes[self.forest.ascent.sums(reached)[nodes] > 0]
        memories = node_scores(self.tx, snapshot, self.index, nodes, request, explore, asked, base)
        shown = self._with_text(nodes, memories.total)
        total = np.full(len(kept) + len(self.forest), -np.inf)
        total[: len(kept)][kept] = turns.total[kept]
        total[len(kept) + nodes[shown]] = memories.total[shown]
        return _Ranked(part, turns, nodes, memories, total, speaks, leaves, entry)

    def _turns(self, scope: str, entry: Entry, events: Ints) -> Flags:
        """Select the turns of a part: those that entities lead to if `reach` is "graph", and for LONG only events."""
        kept = self.keep.turns
        if self.explore.reach == "graph" and entry.turns is not None and (kept & entry.turns).any():
            kept = kept & entry.turns
        if scope == "long" and self.explore.tree and len(self.snapshot.facts.ids):
            kept = kept & (events >= 0)
        return kept

    def _with_text(self, nodes: Ints, score: Scores) -> list[int]:
        """Return the best nodes with an up-to-date text, as positions; few others are looked at."""
        ordered = leading(score, nodes, ROUNDS * MOST_MEMORIES).tolist()
        found: list[int] = []
        while ordered and len(found) < MOST_MEMORIES:
            some, ordered = ordered[:MOST_MEMORIES], ordered[MOST_MEMORIES:]
            rows = nodes[some].tolist()
            ready = ready_rows(self.tx, self.snapshot, self.index, rows)
            found += [at for at, row in zip(some, rows, strict=True) if row in ready]
        return found[:MOST_MEMORIES]

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
        places = turn_places(self.snapshot)

        def leaf(turn: int) -> int:
            return int(ranked[by[turn]].leaves[turn])

        def hit(turn: int) -> TurnHit:
            one, worth = ranked[by[turn]], float(of_turn[turn])
            return TurnHit(turn, int(one.speaks[turn]), worth, _parts(one.turns, turn, worth), leaf(turn))

        def node_hit(row: int) -> NodeHit:
            one, worth = ranked[by[count + row]], float(of_node[row])
            parts = _parts(one.memories, int(np.searchsorted(one.nodes, row)), worth)
            return NodeHit(row, worth, parts, forest.window_of(row))

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
