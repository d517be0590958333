"""The forest of an earlier moment: that of the whole memory without the leaves of what was not held then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from memforest.ranking import sums_below
from memforest.search.forest import FACT, INNER, NONE, EmbeddedForest, Forest, Inner
from memforest.search.snapshot import Snapshot
from memforest.search.splice import as_array, rows_of
from memforest.search.vectors import VectorTable

Ints = NDArray[np.int64]


def forest_without(whole: Forest, snapshot: Snapshot) -> Forest:
    """Return a forest without the items that a snapshot of an earlier moment does not have, and nodes that hold nothing then.

    A node keeps its interval. A leaf of turns of which only the first were held ends with those.

    Args:
        whole: of the snapshot's base.
        snapshot: of an earlier moment.
    """
    item, end, torn = _items(whole, snapshot)
    leaf = whole.kind != INNER
    kept_leaf = leaf & (item >= 0)
    kept = sums_below(kept_leaf.astype(np.float64), whole.parent, whole.level) > 0
    torn = sums_below((leaf & torn).astype(np.float64), whole.parent, whole.level) > 0
    rows = np.flatnonzero(kept)
    now = np.full(len(whole.ids) + 1, NONE, dtype=np.int64)  # its last place is that of NONE
    now[rows] = np.arange(len(rows))
    inner = whole.inner[kept[whole.inner]]
    return replace(
        whole,
        ids=whole.ids[rows],
        tree=whole.tree[rows],
        level=whole.level[rows],
        parent=now[whole.parent[rows]],
        place=whole.place[rows],
        kind=whole.kind[rows],
        item=item[rows],
        item_end=end[rows],
        inner=now[inner],
        stored=_taken(whole.stored, kept[whole.inner]),
        tree_root=now[whole.tree_root],
        turns=snapshot.turns,
        facts=snapshot.facts,
        summarised=now[whole.summarised[kept[whole.summarised]]],
        torn=np.flatnonzero(torn[rows]),
    )


def _items(whole: Forest, snapshot: Snapshot) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Return `item` and `item_end` in the rows of an earlier moment, `NONE` for what was not held, and which leaves lost something."""
    item, end = np.full((2, len(whole.ids)), NONE, dtype=np.int64)
    torn = np.zeros(len(whole.ids), dtype=np.bool_)
    facts = np.flatnonzero(whole.kind == FACT)
    item[facts] = rows_of(snapshot.facts.ids, whole.facts.ids[whole.item[facts]])
    torn[facts] = (item[facts] < 0) | np.isin(
        whole.facts.ids[whole.item[facts]], np.array([*snapshot.restated], dtype=np.int64)
    )
    runs = np.flatnonzero((whole.kind != FACT) & (whole.kind != INNER))
    turn = rows_of(snapshot.turns.ids, whole.turns.ids)
    before = np.r_[0, np.cumsum(turn >= 0)]
    first, last = whole.item[runs], whole.item_end[runs]
    held = before[last] - before[first]
    # Turns stand in one order at every moment, so those of a run that were held stand side by side.
    item[runs] = np.where(held > 0, before[first], NONE)
    end[runs] = np.where(held > 0, before[first] + held, NONE)
    retold = np.r_[0, np.cumsum(np.isin(whole.turns.ids, as_array(snapshot.retold)))]
    torn[runs] = (held < last - first) | (retold[last] > retold[first])
    return item, end, torn


def _taken(stored: Inner, kept: NDArray[np.bool_]) -> Inner:
    return Inner(
        stored.start_ms[kept],
        stored.end_ms[kept],
        stored.span_lo[kept],
        stored.span_hi[kept],
        stored.window[kept],
    )


def vectors_without(whole: EmbeddedForest, forest: Forest) -> VectorTable:
    """Return the vectors of the summaries of a forest that `forest_without` made of another one."""
    places = rows_of(whole.forest.ids[whole.forest.embedded], forest.ids[forest.embedded])
    nothing = np.zeros((0, whole.vectors.dimension), dtype=np.float32)
    return whole.vectors.changed(places, np.zeros(0, dtype=np.int64), nothing)
