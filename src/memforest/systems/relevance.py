"""How relevant the nodes of any forest are to a question by themselves.

By cosine, as in the paper: max(0, cos) of the question with what the node says. Or fused: by the relevance of turns from the legs
of a ranking (`memforest.systems.legs`), without a summary being read. Source: SegTreeMem (arXiv 2606.04555) §4.3.1; fused
relevance, and leaves that are facts, are this package's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memforest.ranking import (
    Groups,
    Scores,
)
from memforest.search.forest import CELL, FACT, TURNS, EmbeddedForest, Forest, once_per_forest
from memforest.search.snapshot import ranges

Ints = NDArray[np.int64]
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
