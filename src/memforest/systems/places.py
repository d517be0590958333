"""The order in which things were said, by which equal scores are put in order.

Row ids tell in which order sessions arrived, which is no property of what they say: a memory must answer alike
whether a turn came with its session or later by itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memforest.search.snapshot import Snapshot, once_per_snapshot


@once_per_snapshot
def turn_places(snapshot: Snapshot) -> NDArray[np.int64]:
    """Return the place of every turn: by when it was said, then by its session's begin and id, and its position."""
    turns = snapshot.turns
    return _places(np.argsort(turns.said_ms, kind="stable"))  # rows stand by session and position


@once_per_snapshot
def first_turns(snapshot: Snapshot) -> NDArray[np.int64]:
    """Return the row of the turn that said each fact first; every fact has one."""
    pairs = snapshot.facts.pairs
    ordered = pairs[np.lexsort((turn_places(snapshot)[pairs[:, 1]], pairs[:, 0]))]
    first: NDArray[np.int64] = ordered[np.searchsorted(ordered[:, 0], np.arange(len(snapshot.facts.ids))), 1]
    return first


@once_per_snapshot
def fact_places(snapshot: Snapshot) -> NDArray[np.int64]:
    """Return the place of every fact: by when it was first said, then by its first turn, then by what it says."""
    facts = snapshot.facts
    first = np.full(len(facts.ids), np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(first, facts.pairs[:, 0], turn_places(snapshot)[facts.pairs[:, 1]])
    ordered = np.lexsort((first, facts.said_ms))
    same = (np.diff(facts.said_ms[ordered]) == 0) & (np.diff(first[ordered]) == 0)
    tied = np.flatnonzero(np.r_[same, False] | np.r_[False, same]) if len(ordered) else ordered
    rows = ordered[tied]  # of one turn: few, and only these are put in order by what they say
    ordered[tied] = rows[np.lexsort((facts.key[rows], first[rows], facts.said_ms[rows]))]
    return _places(ordered)


def _places(ordered: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the place of each row, given the rows in order."""
    places = np.empty(len(ordered), dtype=np.int64)
    places[ordered] = np.arange(len(ordered))
    return places
