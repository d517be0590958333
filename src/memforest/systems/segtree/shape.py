"""The shape of the tree: the columns of the paper's Table 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from memforest.store import trees as tree_rows
from memforest.store.forests import inner_rows
from memforest.store.packing import unpack_ids
from memforest.store.tx import Tx
from memforest.systems.segtree.grow import KIND, OWNER


def shape_of(tx: Tx) -> dict[str, Any]:
    """Return the counts of the tree: nodes, leaves, height, depth of the leaves (maximum, mean, deviation) and branching.

    Depth is the number of edges from the root to a leaf; branching is the mean number of children of inner nodes.
    """
    head = tree_rows.find_head(tx, OWNER, KIND, 0)
    inner: dict[int, tuple[int, ...]] = {}
    depths = np.zeros(0, dtype=np.int64)
    if head is not None and head.root is not None:
        inner = {row.id: unpack_ids(row.children) for row in inner_rows(tx, OWNER)}
        depths = np.array(_depths(inner, head.root))
    leaves = len(depths)
    return {
        "nodes": len(inner) + leaves,
        "leaves": leaves,
        "height": 0 if head is None else head.height,
        "depth_max": int(depths.max(initial=0)),
        "depth_mean": round(float(depths.mean()), 3) if leaves else 0.0,
        "depth_std": round(float(depths.std()), 3) if leaves else 0.0,
        "branching": round((len(inner) + leaves - 1) / len(inner), 3) if inner else 0.0,
    }


def _depths(inner: Mapping[int, Sequence[int]], root: int) -> list[int]:
    """Return the depths of all leaves."""
    found, level, at = [], [root], 0
    while level and at <= len(inner):  # a damaged tree may have circles
        found += [at for node in level if node not in inner]
        level = [child for node in level for child in inner.get(node, ())]
        at += 1
    return found
