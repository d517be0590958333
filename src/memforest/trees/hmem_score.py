"""F, by which the hmem index ranks evidence, where a question enters the memory, and what of a ranking says the same twice.

F = .70 S + .15 T + .15 R (H-Mem, arXiv 2605.15701, eq. 1 to 3): how like a question a piece is, how well its time fits, and
how well it has held. `Explore.similarity_of` says what S is, `Explore.entity` adds how near the entities are that lead to a
piece, and `Explore.known` what is known of those that are named. A turn and the fact that speaks for it are one piece; it has
the better of both.

A question enters by the entities that it names or is near to and those around them (§3.3: seeds by name and by vectors, then
several hops); from entities to what was said, and from there to events. That the entities' nearness counts for what they lead
to is this package's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest.config import Explore
from memforest.graph.graph import Graph, graph_of
from memforest.graph.paths import expand, near, seeds
from memforest.records import SubQuery
from memforest.search.cache import embedded_forest, forest_of
from memforest.search.context_scores import Base, along_stretches, as_said
from memforest.search.filters import LEXICAL, Search, told_by
from memforest.search.forest import FACT, INNER, Forest, once_per_forest
from memforest.search.scores import Scores, robustness, share_of_most, standardise, time_overlap
from memforest.search.snapshot import Snapshot, once_per_snapshot
from memforest.store.connections import Tx
from memforest.times import to_ms
from memforest.trees.index import Index, leaves_beneath
from memforest.trees.kernel import fact_times

Ints = NDArray[np.int64]
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

    def at(self, rows: Ints, size: int) -> Fit:
        """Return it with the scores standing at some rows of `size`; those of all others are 0."""

        def spread(values: Scores) -> Scores:
            out = np.zeros(size)
            out[rows] = values
            return out

        return Fit(spread(self.total), {name: spread(part) for name, part in self.parts.items()})


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
    for leaves, values in (
        (forest.kind == FACT, fact),
        ((forest.kind != FACT) & (forest.kind != INNER), turn),
    ):
        out[leaves] = values[forest.item[leaves]]
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
    graph = graph_of(tx, snapshot)
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
    turns[
        snapshot.turns_of_fact.of_rows(graph.facts.of_rows(np.array(list(found.scores), dtype=np.int64)))
    ] = True
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
