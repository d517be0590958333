"""The ranking of the index: relevance of exchanges and stretches, propagated along the tree (SegTreeMem §4.3, Algorithm 2).

Nodes are ranked as a whole: a leaf stands for its turns, which are the evidence, and an inner node for what it says. What
is not in the tree yet counts by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from memforest.ranking import Scores, best_first, bounded, decay_sum, propagate, relevance_shares, sums_below
from memforest.search.forest import INNER, Forest, once_per_forest
from memforest.search.forests import embedded_forest, forest_of
from memforest.search.snapshot import Snapshot, ranges
from memforest.store.tx import Tx
from memforest.systems.base import Found, Hit, NodeHit, Search
from memforest.systems.filters import allowed, filter_notes
from memforest.systems.legs import Legs, legs
from memforest.systems.places import turn_places
from memforest.systems.relevance import cosine_relevance, fused_relevance
from memforest.systems.segtree import rows, vector_rows
from memforest.systems.segtree.grow import OWNER
from memforest.systems.segtree.settings import SegTreeSettings
from memforest.systems.segtree.turn_order import order_of_turns
from memforest.systems.speak import best_facts

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

FEW = 8
"""Leaves that a node may have in any case: of a short conversation the stated share is less than a leaf."""
ALPHA = 0.10
"""What is propagated over k edges counts alpha to the power of k (paper §5.3)."""
HORIZON = 2
"""Most edges that relevance is propagated along (paper §5.3)."""


def share_of(settings: SegTreeSettings, leaves: int) -> float:
    """Return the share of all leaves that a node of a tree may have to be evidence."""
    if settings.admissible == "all":
        return 1.0
    if settings.admissible == "leaves" or not leaves:
        return 0.0
    return min(1.0, max(settings.share_max, FEW / leaves))


@dataclass(frozen=True, slots=True, eq=False)
class _Scores:
    """Scores with their parts, which sum to them; shapes (N,) of nodes or (n,) of turns."""

    total: Scores
    parts: dict[str, Scores]
    """``"relevance"``: what own relevance counts; ``"propagated"``: what came along edges."""

    def at(self, row: int) -> dict[str, float]:
        """Return the parts of one row."""
        return {name: float(part[row]) for name, part in self.parts.items()}


@dataclass(frozen=True, slots=True, eq=False)
class _Ranked:
    """The nodes of the tree and the turns, with their scores."""

    forest: Forest
    node: _Scores
    turn: _Scores
    """Of every turn: that of its leaf, or of itself where it has none."""
    leaf_of: Ints
    """The leaf of every turn, -1 for one that waits."""
    admitted: Flags
    """Which nodes may be evidence."""
    alone: Scores
    """What own relevance counts of every turn by itself."""


@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """How relevant everything is to a question by itself, before relevance goes anywhere; see `hear`."""

    legs: Legs
    scorer: Literal["fused", "cosine"]
    node: Scores
    """Of every node of the tree, at least 0."""
    turn: Scores
    """Of every turn, at least 0, on the same scale."""
    warnings: tuple[str, ...] = ()


def find(tx: Tx, snapshot: Snapshot, request: Search, settings: SegTreeSettings) -> Found:
    """Return every candidate turn and node, best first."""
    if not len(snapshot.turns.ids):
        return Found(())
    return rank(tx, snapshot, request, settings, hear(tx, snapshot, request, settings))


def hear(tx: Tx, snapshot: Snapshot, request: Search, settings: SegTreeSettings) -> Heard:
    """Return how relevant the nodes and turns of a memory that is not empty are; of the settings, `scorer` counts."""
    found = legs(tx, snapshot, request)
    if settings.scorer == "cosine" and request.vector is not None and snapshot.dimension > 0:
        trees = embedded_forest(tx, snapshot, OWNER)
        relevance = cosine_relevance(trees, request.vector, found.base.turn, found.base.fact)
        if settings.leaf_vector == "text":
            _by_text(tx, snapshot, trees.forest, request.vector, relevance)
        return Heard(found, "cosine", relevance, np.maximum(found.base.turn, 0.0))
    warnings: tuple[str, ...] = ()
    if settings.scorer == "cosine":
        warnings = ("scorer='cosine' needs vectors, and there are none; ranked by words",)
    relevance = fused_relevance(forest_of(tx, snapshot, OWNER), found.fused.total)
    return Heard(found, "fused", relevance, np.maximum(found.fused.total, 0.0), warnings)


def rank(tx: Tx, snapshot: Snapshot, request: Search, settings: SegTreeSettings, heard: Heard) -> Found:
    """Return every candidate turn and node by what was heard of a question, best first.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory, which is not empty.
        request: the question.
        settings: all that are read when a question is asked, but `scorer`.
        heard: of the question, by `hear`.
    """
    ranked, trace = _propagated(tx, snapshot, settings, heard)
    keep, warnings = allowed(snapshot, request), heard.warnings
    places = order_of_turns(ranked.forest, turn_places(snapshot), ranked.leaf_of, heard.legs.fused.total)
    if settings.expand:
        ranked, places = _expanded(ranked), _best_leaves_first(ranked, places)
    speaks = best_facts(snapshot, keep, heard.legs.base.fact, heard.legs.base.fact_lexical)

    def hit(turn: int) -> Hit:
        score, parts = float(ranked.turn.total[turn]), ranked.turn.at(turn)
        return Hit(turn, int(speaks[turn]), score, parts, int(ranked.leaf_of[turn]))

    waits = rows.count(tx, rows.WAITING)
    if waits:
        warnings = (
            *warnings,
            f"{waits} exchange(s) wait for their place in the tree, and count by themselves",
        )
    return Found(
        map(hit, best_first(ranked.turn.total, places, keep.turns)),
        notes={"filters": filter_notes(keep), "propagation": trace},
        nodes=() if settings.expand else _nodes(ranked),
        warnings=warnings,
    )


def _propagated(
    tx: Tx, snapshot: Snapshot, settings: SegTreeSettings, heard: Heard
) -> tuple[_Ranked, dict[str, Any]]:
    """Return the scores after relevance went along the edges, and how it went.

    The shares of relevance are propagated and multiplied by the sum of all relevance again, so that scores of different
    questions are alike; the order is that of the shares.
    """
    forest, policy = forest_of(tx, snapshot, OWNER), settings.propagate
    shares, whole = relevance_shares(heard.node), float(np.maximum(heard.node, 0.0).sum())
    total = propagate(shares, forest.parent, policy, decay=ALPHA, horizon=HORIZON) * whole
    kept_share = 1.0 if policy == "none" else 1.0 / decay_sum(ALPHA, HORIZON)
    kept = shares * whole * kept_share
    node = _Scores(total, {"relevance": kept, "propagated": total - kept})
    counts = leaf_counts(forest)
    leaves = int(counts.max()) if len(counts) else 0
    admitted = bounded(counts, leaves, share_of(settings, leaves))
    leaf_of = leaves_of_turns(forest)
    alone = heard.turn if policy == "none" else heard.turn / decay_sum(ALPHA, HORIZON)
    notes = {"scorer": heard.scorer, "policy": policy, "alpha": ALPHA, "horizon": HORIZON}
    return _Ranked(forest, node, _of_turns(leaf_of, node, alone), leaf_of, admitted, alone), notes


def _of_turns(leaf_of: Ints, node: _Scores, alone: Scores) -> _Scores:
    """Return the scores of turns: of the leaf of each, or what it has `alone`."""
    placed = np.flatnonzero(leaf_of >= 0)
    total, parts = alone.copy(), {name: np.zeros(len(alone)) for name in node.parts}
    parts["relevance"] = alone.copy()
    total[placed] = node.total[leaf_of[placed]]
    for name, part in node.parts.items():
        parts[name][placed] = part[leaf_of[placed]]
    return _Scores(total, parts)


def _by_text(
    tx: Tx, snapshot: Snapshot, forest: Forest, vector: NDArray[np.float32], relevance: Scores
) -> None:
    """Put the cosines of the vectors of leaves' texts in the place of those of their turns, where all of a leaf was held."""
    leaves = np.setdiff1d(np.flatnonzero(forest.kind != INNER), forest.torn)
    turns = snapshot.turns.ids[forest.item[leaves]]
    found, vectors = vector_rows.text_vectors(tx)
    if not len(found):
        return
    places = np.searchsorted(found, turns)
    places[places == len(found)] = 0
    here = found[places] == turns
    relevance[leaves[here]] = np.maximum(vectors[places[here]] @ vector, 0.0)


@once_per_forest
def leaves_of_turns(forest: Forest) -> Ints:
    """Return the row of every turn's leaf, -1 where it has none."""
    out = np.full(len(forest.turns.ids), -1, dtype=np.int64)
    leaves = np.flatnonzero(forest.kind != INNER)
    first, end = forest.item[leaves], forest.item_end[leaves]
    out[ranges(first, end)] = np.repeat(leaves, end - first)
    return out


@once_per_forest
def leaf_counts(forest: Forest) -> Ints:
    """Return the number of leaves at or below every node."""
    leaf = (forest.kind != INNER).astype(np.float64)
    return sums_below(leaf, forest.parent, forest.level).astype(np.int64)


def _best_leaves_first(ranked: _Ranked, places: Ints) -> Ints:
    """Return the order of the turns of one node: those of its best leaf first."""
    out = np.empty(len(places), dtype=np.int64)
    out[np.lexsort((places, -np.round(ranked.turn.total, 9)))] = np.arange(len(places))
    return out


def _nodes(ranked: _Ranked) -> Iterator[NodeHit]:
    """Yield the inner nodes that may be evidence, best first; of equal ones the earlier, then the lower."""
    forest = ranked.forest
    rows_ = forest.inner[ranked.admitted[forest.inner] & (ranked.node.total[forest.inner] > 0)]
    places = np.searchsorted(forest.inner, rows_)
    ties = np.empty(len(rows_), dtype=np.int64)
    ties[np.lexsort((forest.level[rows_], forest.stored.span_lo[places]))] = np.arange(len(rows_))
    for at in best_first(ranked.node.total[rows_], ties, np.ones(len(rows_), dtype=np.bool_)):
        row = int(rows_[at])
        yield NodeHit(int(forest.ids[row]), float(ranked.node.total[row]), ranked.node.at(row))


def _expanded(ranked: _Ranked) -> _Ranked:
    """Let every turn have its own relevance and what came to its leaf, or the score of a stretch above it if that is more.

    Of a leaf as a whole only the best turn is relevant: what was said beside it would come with it each time.
    """
    forest, leaf_of = ranked.forest, ranked.leaf_of
    best = np.zeros(len(forest.ids))
    best[forest.inner] = np.where(ranked.admitted[forest.inner], ranked.node.total[forest.inner], 0.0)
    for level in np.unique(forest.level)[::-1][1:]:
        at = np.flatnonzero((forest.level == level) & (forest.parent >= 0))
        best[at] = np.maximum(best[at], best[forest.parent[at]])
    placed = np.flatnonzero(leaf_of >= 0)
    parts = {**ranked.turn.parts, "relevance": ranked.alone}
    turn = np.sum(list(parts.values()), axis=0)
    turn[placed] = np.maximum(turn[placed], best[leaf_of[placed]])
    parts["propagated"] = parts["propagated"] + turn - np.sum(list(parts.values()), axis=0)
    return replace(ranked, turn=_Scores(turn, parts))
