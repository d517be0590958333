"""What of a ranking says the same twice: a memory of one event, one above another with the same events, and one whose events are all there.

A turn and the event that speaks for it are one piece from the start (`memforest.systems.hmem.find`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from memforest.search.forest import FACT, INNER, Forest, once_per_forest
from memforest.search.snapshot import ranges
from memforest.systems.nodes import leaves_beneath

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

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
def leaf_of_turn(forest: Forest) -> Ints:
    """Return the leaf of every turn that is an event, -1 for all others."""
    out = np.full(len(forest.turns.ids), -1, dtype=np.int64)
    leaves = np.flatnonzero((forest.kind != FACT) & (forest.kind != INNER))
    lengths = forest.item_end[leaves] - forest.item[leaves]
    out[ranges(forest.item[leaves], forest.item_end[leaves])] = np.repeat(leaves, lengths)
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
    """Return the nodes of a ranking that tell more than the events that stand with them, in their order.

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
