"""What it costs to grow the segment tree of what is stored, from nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import process_time

from memforest.search.cache import SnapshotCache
from memforest.store.connections import Tx
from memforest.trees.segtree import SegTreeIndex
from scaling.memories import TAU, look, path_of, settings_of

__all__ = ["INPUTS", "Grown", "grown"]

INPUTS = {"talk": TAU, "all NONE": 1.0, "never NONE": -1.0}
"""The likeness that a leaf needs; the vectors are the same."""


@dataclass(frozen=True, slots=True)
class Grown:
    """What was measured at one size."""

    input: str
    leaves: int
    us_a_leaf: float
    nodes_a_leaf: float
    """All nodes of the tree over its leaves."""
    height: int


def grown(directory: Path, name: str) -> Grown:
    """Grow the tree of a memory at a likeness of `INPUTS`."""
    index = SegTreeIndex(settings_of(tau=INPUTS[name]))

    def read(tx: Tx) -> Grown:
        snapshot = SnapshotCache().get(tx)
        began = process_time()
        forest = index.grow(tx, snapshot, None)
        spent = (process_time() - began) * 1e6
        leaves = len(forest) - len(forest.inner)
        return Grown(name, leaves, spent / leaves, len(forest) / leaves, int(forest.level.max()))

    return look(path_of(directory), read)
