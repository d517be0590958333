"""F, by which evidence is ranked: how like a question it is, how well its time fits, and how well it has held.

Source: H-Mem (arXiv 2605.15701) eq. 1 to 3, F = .70 S + .15 T + .15 R. `Explore.similarity_of` says what S is, and
`Explore.entity` adds how near the entities are that lead to a piece, and `Explore.known` what is known of those that are named. A turn and the statement that speaks for it are one piece;
it has the better of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memforest.explore import Explore
from memforest.interval import to_ms
from memforest.ranking import (
    Scores,
    robustness,
    standardise,
    time_overlap,
)
from memforest.search.forest import FACT, INNER, Forest, once_per_forest
from memforest.search.forests import embedded_forest
from memforest.search.snapshot import OPEN, Snapshot, once_per_snapshot
from memforest.store.tx import Tx
from memforest.systems.base import Search
from memforest.systems.legs import Base
from memforest.systems.speak import told_by
from memforest.systems.stretches import along_stretches
from memforest.systems.surroundings import as_said
from memforest.types import SubQuery

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


# -- the time that is asked about -----------------------------------------------------------------


def asked_time(sub: SubQuery, request: Search) -> Interval | None:
    """Return the time [start, end) that a sub-query is about, UTC ms; None where nothing says.

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
    if asked is None or not explore.time:
        return np.zeros(len(start_ms))
    return time_overlap(start_ms, end_ms, asked, overlap=explore.overlap)


# -- how well something has held --------------------------------------------------------------------


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


def _robust(last_ms: Ints, times: Ints, at_ms: int, explore: Explore) -> Scores:
    if not explore.robustness:
        return np.zeros(len(last_ms))
    return robustness(
        last_ms, times, at_ms, decay_days=explore.decay_days, reinforcement=explore.reinforcement
    )


# -- turns and events -------------------------------------------------------------------------------


def similarities(snapshot: Snapshot, request: Search, explore: Explore, base: Base) -> Scores:
    """Return S of every turn, shape (n,): with the statements that it supports.

    Without vectors a cosine is that of words alone: BM25 by its maximum.
    """
    if explore.similarity_of == "fused":
        said = as_said(snapshot, request, base).total
        return said + sum(along_stretches(snapshot, request, said).values(), np.zeros(len(said)))
    if request.vector is None or not snapshot.dimension:
        turn, fact = _share(base.lexical), _share(base.fact_lexical)
    else:
        turn, fact = base.turn, base.fact
    return np.maximum(turn, told_by(snapshot).best(fact, np.full(len(turn), -np.inf)))


def _share(values: Scores) -> Scores:
    most = float(values.max(initial=0.0))
    return values / most if most > 0 else np.zeros(len(values))


def turn_scores(
    snapshot: Snapshot,
    request: Search,
    explore: Explore,
    asked: Interval | None,
    similar: Scores,
    speaks: Ints,
    near: Scores | None,
    known: Scores | None = None,
) -> Fit:
    """Return F of every turn with the statement that speaks for it.

    Args:
        snapshot: of the memory.
        request: the sub-query, read as a question.
        explore: the weights.
        asked: the time that is asked about.
        similar: S of every turn; see `similarities`.
        speaks: the fact that speaks for each turn, -1 for none.
        near: how near the entities are that lead to each turn.
        known: 1 for the turns that tell what is known of an entity that is named.
    """
    said = snapshot.turns.said_ms
    fit, last, times = _time(said, said + 1, asked, explore), said.copy(), np.zeros(len(said), dtype=np.int64)
    told = np.flatnonzero(speaks >= 0)
    if len(told):
        rows = speaks[told]
        start, end = _fact_times(snapshot)
        fit[told] = np.maximum(fit[told], _time(start[rows], end[rows], asked, explore))
        last_told, again = held(snapshot)
        last[told] = np.maximum(last[told], last_told[rows])
        times[told] = again[rows]
    return Fit.of(
        {
            "similarity": explore.similarity * similar,
            "time": explore.time * fit,
            "robustness": explore.robustness * _robust(last, times, request.reference_ms, explore),
            "entity": np.zeros(len(said)) if near is None else explore.entity * near,
            "profile": np.zeros(len(said)) if known is None else explore.known * known,
        }
    )


@once_per_snapshot
def _fact_times(snapshot: Snapshot) -> tuple[Ints, Ints]:
    """Return when each fact was so, [start, end): what it states, else the moment it was first said."""
    facts = snapshot.facts
    ended = facts.stated & (facts.end_ms != OPEN)
    return facts.start_ms, np.where(ended, np.maximum(facts.end_ms, facts.start_ms + 1), facts.start_ms + 1)


# -- memories ---------------------------------------------------------------------------------------


def node_scores(
    tx: Tx,
    snapshot: Snapshot,
    forest: Forest,
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
        forest: the index's.
        nodes: rows of the forest.
        request: the sub-query.
        explore: the weights.
        asked: the time that is asked about.
        base: how relevant turns and facts are.
    """
    cosine = _cosines(tx, snapshot, forest, nodes, request, base)
    if explore.similarity_of == "fused":
        words = _means_below(forest, standardise(base.lexical), standardise(base.fact_lexical))[nodes]
        weights, turn = request.ranking, base.turn
        vectors = weights.turn + weights.fact
        spread = float(turn.std())
        near = (cosine - turn.mean()) / spread if spread else np.zeros(len(nodes))
        cosine = near * vectors + words * (weights.lexical if spread else weights.lexical + vectors)
    start, end = forest.intervals
    last, times = _node_marks(forest, snapshot)
    return Fit.of(
        {
            "similarity": explore.similarity * cosine,
            "time": explore.time * _time(start[nodes], end[nodes], asked, explore),
            "robustness": explore.robustness
            * _robust(last[nodes], times[nodes], request.reference_ms, explore),
        }
    )


def _cosines(tx: Tx, snapshot: Snapshot, forest: Forest, nodes: Ints, request: Search, base: Base) -> Scores:
    """Return the cosine of nodes with a question; 0 without vectors."""
    if request.vector is None or not snapshot.dimension:
        return np.zeros(len(nodes))
    found = embedded_forest(tx, snapshot, forest.owner)
    own = found.cosines_at(nodes, request.vector)
    missing = own == 0
    if missing.any():
        own = np.where(missing, _means_below(forest, base.turn, base.fact)[nodes], own)
    return np.asarray(own, dtype=np.float64)


def _means_below(forest: Forest, turn: Scores, fact: Scores) -> Scores:
    """Return the mean of the leaves below every node, of values of turns and facts."""
    values = np.zeros(len(forest.ids))
    for leaves, of in _leaf_items(forest, turn, fact):
        values[leaves] = of
    return forest.ascent.means(values)


def _leaf_items(forest: Forest, turn: Scores, fact: Scores) -> list[tuple[Ints, Scores]]:
    told = np.flatnonzero(forest.kind == FACT)
    said = np.flatnonzero((forest.kind != FACT) & (forest.kind != INNER))
    return [(told, fact[forest.item[told]]), (said, turn[forest.item[said]])]


@once_per_forest
def _node_marks(forest: Forest, snapshot: Snapshot) -> tuple[Ints, Ints]:
    """Return when what is below every node was last told, UTC ms, and how often that was consolidated: once a telling but the first."""
    last, times = held(snapshot)
    latest, tellings = np.zeros(len(forest.ids), dtype=np.int64), np.zeros(len(forest.ids))
    told = np.flatnonzero(forest.kind == FACT)
    latest[told], tellings[told] = last[forest.item[told]], times[forest.item[told]] + 1
    said = np.flatnonzero((forest.kind != FACT) & (forest.kind != INNER))
    latest[said], tellings[said] = snapshot.turns.said_ms[forest.item[said]], 1
    for level in np.unique(forest.level).tolist():
        below = np.flatnonzero((forest.level == level) & (forest.parent >= 0))
        np.maximum.at(latest, forest.parent[below], latest[below])
    return latest, np.maximum(forest.ascent.sums(tellings).astype(np.int64) - 1, 0)
