"""The order of turns of one score: leaves by time, and the turns of one leaf by their own relevance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memforest.ranking import Scores
from memforest.search.forest import Forest, once_per_forest

Ints = NDArray[np.int64]


def order_of_turns(forest: Forest, places: Ints, leaf_of: Ints, own: Scores) -> Ints:
    """Return the place of every turn among those of the same score, shape (n,).

    A leaf stands where its first turn stands in time; of its turns the most relevant one comes first, of equally relevant
    ones the earlier. A turn without a leaf counts as one.

    Args:
        forest: the tree.
        places: of every turn in time; each has its own.
        leaf_of: the row of every turn's leaf, -1 without one.
        own: the relevance of every turn by itself; equal to 9 decimals is equal.
    """
    layout = _layout(forest, places, leaf_of)
    if not layout.pairs:
        return layout.place
    score, place = np.round(own, 9), layout.place.copy()
    for first, second in layout.pairs:
        beaten = score[second] > score[first]
        np.add.at(place, first[beaten], 1)
        np.add.at(place, second[beaten], -1)
    return place


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """The places of turns if no leaf's turns were sorted, and all pairs of turns of one leaf: the earlier and the later ones."""

    place: Ints
    pairs: Sequence[tuple[Ints, Ints]]


@once_per_forest
def _layout(forest: Forest, places: Ints, leaf_of: Ints) -> _Layout:
    first = places.copy()
    placed = np.flatnonzero(leaf_of >= 0)
    first[placed] = places[forest.item[leaf_of[placed]]]
    ordered = np.lexsort((places, first))
    place = np.empty(len(places), dtype=np.int64)
    place[ordered] = np.arange(len(ordered))
    leaf, pairs = leaf_of[ordered], list[tuple[Ints, Ints]]()
    for apart in range(1, len(ordered)):
        one = np.flatnonzero((leaf[apart:] == leaf[:-apart]) & (leaf[apart:] >= 0))
        if not len(one):
            break
        pairs.append((ordered[one], ordered[one + apart]))
    return _Layout(place, pairs)
