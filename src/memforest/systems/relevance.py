"""How relevant the nodes of any forest are to a question, and their scores after relevance went along the edges.

Two scorers say how relevant a node is by itself. ``"cosine"`` is the paper's: max(0, cos) of the question with what the node
says. ``"fused"`` takes relevance of turns from the legs of a ranking (`memforest.systems.legs`), and reads no summary.
Source of both steps: SegTreeMem (arXiv 2606.04555) §4.3.1 and Algorithm 2; ``"fused"``, and leaves that are facts, are this
package's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memforest.config import Propagate, Ranking
from memforest.ranking import (
    DIRECTIONS,
    Groups,
    Links,
    Scores,
    along_links,
    cross_links,
    decay_sum,
    propagate,
    relevance_shares,
)
from memforest.search.forest import CELL, FACT, INNER, TURNS, EmbeddedForest, Forest, once_per_forest
from memforest.search.snapshot import Snapshot, ranges
from memforest.systems.speak import told_by

Ints = NDArray[np.int64]
Scorer = Literal["cosine", "fused"]
"""Who says how relevant a node is by itself; see `cosine_relevance` and `fused_relevance`."""

_BLOCK = 1024
"""Leaves whose sums of vectors are held at once."""


# -- relevance ------------------------------------------------------------------------------------


def cosine_relevance(
    found: EmbeddedForest, vector: NDArray[np.float32], turn: Scores, fact: Scores
) -> Scores:
    """Return max(0, cosine) of every node with a question, shape (N,).

    An inner node is compared by the vector of its summary, and has 0 without one, or if that tells of what came after the
    moment that is asked about. A leaf that is a run of turns is compared by the mean of its turns' vectors, which is the sum
    of their cosines over the length of the sum of their vectors; a leaf that is a fact by the fact's.

    Args:
        found: the trees with the vectors of their summaries.
        vector: of the question, of unit length.
        turn: cosine of every turn with it, shape (n,), such as `Base.turn`.
        fact: cosine of every fact, shape (m,).
    """
    forest, runs = found.forest, _runs(found.forest)
    out = np.zeros(len(forest.ids))
    if len(found.vectors):
        out[forest.embedded] = found.vectors.cosines(vector)  # that of a leaf's summary is written over below
        out[forest.torn] = 0.0
    if len(runs.rows):
        length = _lengths(forest)
        total = np.add.reduceat(turn[runs.turns], runs.starts)
        out[runs.rows] = np.divide(total, length, out=np.zeros(len(total)), where=length > 0)
    facts = _fact_leaves(forest)
    out[facts] = fact[forest.item[facts]]
    return np.maximum(out, 0.0)


def fused_relevance(forest: Forest, turn: Scores) -> Scores:
    """Return how relevant every node is by the scores of turns, shape (N,): at least 0, and without a summary being read.

    A leaf that is a run of turns has that of its best turn, a leaf that is a fact that of the best turn that supports it, and an
    inner node the mean of the leaves below it. What is below 0, the average of all turns, counts as 0.

    Args:
        forest: the trees.
        turn: a standardised score of every turn, shape (n,), such as the total of `memforest.systems.legs.fused`.
    """
    runs, facts = _runs(forest), _fact_leaves(forest)
    out = np.zeros(len(forest.ids))
    if len(runs.rows):
        out[runs.rows] = np.maximum.reduceat(turn[runs.turns], runs.starts)
    if len(facts):
        out[facts] = best_turns(forest, turn)[forest.item[facts]]
    return forest.ascent.means(np.maximum(out, 0.0))


def best_turns(forest: Forest, turn: Scores) -> Scores:
    """Return the best score of the turns that support each fact, shape (m,); -inf for a fact without any."""
    out, groups = np.full(len(forest.facts.ids), -np.inf), _supports(forest)
    out[forest.facts.pairs[groups.first, 0]] = groups.best(turn[forest.facts.pairs[:, 1]])
    return out


def turn_scores(snapshot: Snapshot, forest: Forest, nodes: Scores) -> Scores:
    """Return the best score of the leaves that each turn has, shape (n,): of the runs it stands in, and the facts it supports.

    Args:
        snapshot: of the memory.
        forest: one of its forests.
        nodes: a score of every node that is at least 0, shape (N,). A turn without a leaf has 0.
    """
    runs, facts = _runs(forest), _fact_leaves(forest)
    out, told = np.zeros(len(snapshot.turns.ids)), np.zeros(len(snapshot.facts.ids))
    np.maximum.at(out, runs.turns, np.repeat(nodes[runs.rows], runs.counts))
    np.maximum.at(told, forest.item[facts], nodes[facts])
    return np.maximum(out, told_by(snapshot).best(told, np.zeros(len(out))))


# -- propagation ----------------------------------------------------------------------------------


class NodeScores(NamedTuple):
    """The score of every node, shape (N,), in units of relevance, with its parts, which sum to it."""

    total: Scores
    parts: Mapping[str, Scores]
    """``"relevance"``: what the node's own relevance counts; ``"propagated"``: what came to it along edges; where there are links
    ``"linked"``, what came along those."""
    trace: Mapping[str, Any]
    """How it was propagated; see `propagation_notes`."""


def node_scores(
    forest: Forest,
    relevance: Scores,
    ranking: Ranking,
    *,
    scorer: Scorer,
    own: Propagate = "none",
    links: Links | None = None,
) -> NodeScores:
    """Return the scores of all nodes after relevance went along the edges as a ranking says.

    The shares of relevance are propagated (`memforest.ranking.propagate`) and multiplied by the sum of all relevance again, so
    that scores of different questions are alike; the order is that of the shares.

    Args:
        forest: the trees.
        relevance: of every node, shape (N,); below 0 counts as 0.
        ranking: its `propagate`, `alpha`, `horizon` and `sink` count.
        scorer: who said how relevant the nodes are, for the trace.
        own: the index's own policy, where the ranking has none.
        links: of rows of the forest, along which scores go once more after that, with the weight `alpha`; see `forest_links`.

    Raises:
        ValueError: if a relevance is not a finite number.
    """
    policy = ranking.propagate or own
    shares = relevance_shares(relevance)
    whole = float(np.maximum(relevance, 0.0).sum())
    moved = propagate(
        shares,
        forest.parent,
        DIRECTIONS[policy],
        decay=ranking.alpha,
        horizon=ranking.horizon,
        sink=ranking.sink,
    )
    counts = 1.0 if policy == "none" else 1.0 / decay_sum(ranking.alpha, ranking.horizon)
    total, kept = moved * whole, shares * whole * counts
    parts = {"relevance": kept, "propagated": total - kept}
    notes = propagation_notes(ranking, scorer, own)
    if links is None:
        return NodeScores(total, parts, notes)
    linked = along_links(total, links, ranking.alpha, sink=ranking.sink)
    parts = {name: part / (1 + ranking.alpha) for name, part in parts.items()}
    parts["linked"] = linked - sum(parts.values())
    return NodeScores(linked, parts, {**notes, "links": len(links.rows)})


def propagation_notes(ranking: Ranking, scorer: Scorer, own: Propagate = "none") -> dict[str, Any]:
    """Return how relevance is propagated, for traces: scorer, policy, alpha, horizon and sink."""
    return {
        "scorer": scorer,
        "policy": ranking.propagate or own,
        "alpha": ranking.alpha,
        "horizon": ranking.horizon,
        "sink": ranking.sink,
    }


# -- links ----------------------------------------------------------------------------------------


def forest_links(
    found: EmbeddedForest, rows: Ints, *, threshold: float = 0.6, most: int = 4, apart: int = 1
) -> Links:
    """Return links between those of some nodes that are alike and far apart in their forest, in rows of the forest.

    See `memforest.ranking.cross_links` for the options, and for what it costs: it is done once for a forest. Vectors are those
    that `cosine_relevance` compares. What lies between two nodes is counted in leaves from left to right, one tree behind
    the other.

    Args:
        found: the trees with the vectors of their summaries.
        rows: of the nodes to link, shape (k,).
        threshold: least cosine, above 0.
        most: most links that come from one node.
        apart: least number of leaves between two linked nodes, at least 1.
    """
    first, end = leaf_spans(found.forest)
    near = cross_links(
        _vectors_at(found, rows), first[rows], end[rows], threshold=threshold, most=most, apart=apart
    )
    return Links(rows[near.rows], rows[near.cols], near.weights)


@once_per_forest
def leaf_spans(forest: Forest) -> tuple[Ints, Ints]:
    """Return the half-open span of leaves below each node, counted from 0 from left to right, tree by tree; shapes (N,)."""
    count = np.zeros(len(forest.ids))
    count[forest.children.counts == 0] = 1
    leaves = forest.ascent.sums(count).astype(np.int64)
    first = np.zeros(len(forest.ids), dtype=np.int64)
    roots, below = forest.roots, forest.children
    first[roots] = np.cumsum(leaves[roots]) - leaves[roots]
    children = below.values
    before = np.cumsum(leaves[children]) - leaves[children]
    parents = forest.parent[children]
    before -= before[below.ends[parents] - below.counts[parents]]
    downwards = np.argsort(-forest.level[children], kind="stable")
    steps = np.flatnonzero(np.diff(forest.level[children[downwards]])) + 1
    for step in np.split(downwards, steps):
        first[children[step]] = first[parents[step]] + before[step]
    return first, first + leaves


def _vectors_at(found: EmbeddedForest, rows: Ints) -> NDArray[np.float32]:
    """Return the vector of each of some nodes, of unit length or zero; zero for a summary that tells of what came later."""
    forest, runs = found.forest, _runs(found.forest)
    out = np.zeros((len(rows), forest.turns.vectors.dimension), dtype=np.float32)
    inner, facts = np.flatnonzero(forest.kind[rows] == INNER), np.flatnonzero(forest.kind[rows] == FACT)
    inner = inner[~np.isin(rows[inner], forest.torn)]
    if len(inner):
        out[inner] = found.vectors[np.searchsorted(forest.embedded, rows[inner])]
    if len(facts):
        out[facts] = forest.facts.vectors[forest.item[rows[facts]]]
    leaves = np.flatnonzero((forest.kind[rows] == CELL) | (forest.kind[rows] == TURNS))
    places = np.searchsorted(runs.rows, rows[leaves])
    for part in _blocks(len(leaves)):
        length = _lengths(forest)[places[part], None]
        out[leaves[part]] = _sums(forest, places[part]) / np.where(length > 0, length, 1.0)
    return out


# -- leaves, laid out once for a forest -----------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Runs:
    """The leaves that are runs of turns: their rows, and their turns, leaf by leaf."""

    rows: Ints
    turns: Ints
    starts: Ints
    """Where the turns of each leaf begin in `turns`."""
    counts: Ints


@once_per_forest
def _runs(forest: Forest) -> _Runs:
    rows = np.flatnonzero((forest.kind == CELL) | (forest.kind == TURNS))
    first, end = forest.item[rows], forest.item_end[rows]
    counts = end - first
    return _Runs(rows, ranges(first, end), np.cumsum(counts) - counts, counts)


@once_per_forest
def _lengths(forest: Forest) -> Scores:
    """Return the length of the sum of the turns' vectors of each run of turns, in the order of `_runs`.

    Turn by turn, block by block of leaves: what is held is the sums of one block, and of its turns those at one place.
    """
    out = np.zeros(len(_runs(forest).rows), dtype=np.float32)
    for part in _blocks(len(out)):
        total = _sums(forest, part)
        out[part] = np.sqrt(np.einsum("nd,nd->n", total, total))
    return out.astype(np.float64)


def _blocks(count: int) -> Iterator[Ints]:
    """Yield the numbers from 0 to `count`, so many at once."""
    for begin in range(0, count, _BLOCK):
        yield np.arange(begin, min(begin + _BLOCK, count))


def _sums(forest: Forest, leaves: Ints) -> NDArray[np.float32]:
    """Return the sum of the turns' vectors of some runs of turns, given by their places in `_runs`."""
    runs, vectors = _runs(forest), forest.turns.vectors
    starts, counts = runs.starts[leaves], runs.counts[leaves]
    total = vectors[runs.turns[starts]]
    for place in range(1, int(counts.max())):
        longer = np.flatnonzero(counts > place)
        total[longer] += vectors[runs.turns[starts[longer] + place]]
    return total


@once_per_forest
def _fact_leaves(forest: Forest) -> Ints:
    return np.flatnonzero(forest.kind == FACT)


@once_per_forest
def _supports(forest: Forest) -> Groups:
    """Return the rows of `Facts.pairs` by fact."""
    return Groups.of(forest.facts.pairs[:, 0])
