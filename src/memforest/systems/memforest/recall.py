"""Forest recall and beam browse: from trees to leaves (paper §4.3).

Recall ranks trees by two signals (Eq. 7): how near the root is to the question, and the best match among
the leaves that the tree holds. Browse descends the recalled trees level by level, keeping the best nodes of
each tree, and ends at leaves, which are scored like any other candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memforest.ranking import Groups, Scores, cosines, leading, order
from memforest.search.snapshot import Snapshot, once_per_snapshot
from memforest.systems.memforest.rank import Base

__all__ = ["BEAM_WIDTH", "RECALL_TREES", "Recalled", "browse", "recall"]

RECALL_TREES = 10
"""Trees that are browsed (reference configuration: recall.top_k 10)."""
BEAM_WIDTH = 10
"""Nodes kept per level and tree (reference configuration: beam_width 10)."""
FACTS_TO_TREES = 30
"""Best leaves whose trees join the roots' (reference configuration: bu_top_m 30)."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """The recalled trees with their scores, and the leaves that browse reached with theirs."""

    trees: tuple[tuple[int, float], ...]
    """(tree index, score), best first."""
    leaves: dict[int, float]
    """Forest row of a leaf -> mean similarity of the nodes on its path."""


def leaf_similarity(snapshot: Snapshot, base: Base) -> Scores:
    """Return the similarity of every node to the question: leaves by their item, inner nodes 0; shape (N,)."""
    trees = _trees(snapshot)
    out = np.zeros(len(snapshot.forest.ids))
    out[trees.fact_rows] = base.fact[trees.fact_items]
    out[trees.cell_rows] = trees.cells.best(base.turn)
    return out


def recall(
    snapshot: Snapshot, base: Base, vector: NDArray[np.float32] | None, top: int = RECALL_TREES
) -> Recalled:
    """Return the best trees for a question and the leaves that browsing them reaches.

    Without an embedder there is nothing to recall by, and the result is empty.

    Source: paper §4.3, Eq. 7; `score(q, T)` is the sum of both similarities.
    """
    forest = snapshot.forest
    if vector is None or not len(forest.roots):
        return Recalled((), {})
    trees = _trees(snapshot)
    similarity = leaf_similarity(snapshot, base)
    best_leaf, root_sim = np.full(len(forest.tree_kind), -1.0), np.full(len(forest.tree_kind), -1.0)
    of_leaves = similarity[trees.leaf_rows]
    best_leaf[trees.with_leaves] = np.maximum(trees.leaves.best(of_leaves), -1.0)
    tall = forest.kind[forest.roots] == 0
    similarity[forest.roots[tall]] = cosines(trees.root_vectors, vector)
    root_sim[forest.tree[forest.roots]] = similarity[forest.roots]
    by_root = leading(root_sim, np.arange(len(root_sim)), top)
    near_leaves = leading(of_leaves, trees.leaf_ids, FACTS_TO_TREES)
    pool = np.unique(np.r_[by_root, forest.tree[trees.leaf_rows[near_leaves]]])
    scores = root_sim[pool] + best_leaf[pool]
    chosen = [(int(pool[i]), float(scores[i])) for i in order(scores, pool)[:top]]

    def nearness(nodes: Sequence[int]) -> list[float]:
        """Compare the question with those inner nodes that browse comes to, and with no others."""
        rows = np.array(nodes, dtype=np.int64)
        inner = rows[forest.kind[rows] == 0]
        similarity[inner] = cosines(forest.vectors[inner], vector)
        return [float(value) for value in similarity[rows]]

    leaves: dict[int, float] = {}
    for tree, _ in chosen:
        leaves.update(browse(snapshot, nearness, int(trees.root_of[tree])))
    return Recalled(tuple(chosen), leaves)


@dataclass(frozen=True, slots=True, eq=False)
class _Trees:
    """What recall asks of a snapshot's trees whatever the question."""

    fact_rows: NDArray[np.int64]
    fact_items: NDArray[np.int64]
    """The leaves that stand for facts, and which facts."""
    cell_rows: NDArray[np.int64]
    cells: Groups
    """The leaves that hold turns, and the turns by leaf."""
    leaf_rows: NDArray[np.int64]
    leaf_ids: NDArray[np.int64]
    leaves: Groups
    """The leaves, as positions in `leaf_rows`, by tree."""
    with_leaves: NDArray[np.int64]
    """The tree of each of these groups."""
    root_of: NDArray[np.int64]
    root_vectors: NDArray[np.float32]
    """Of the roots that are no leaves, in the order of `Forest.roots`."""


@once_per_snapshot
def _trees(snapshot: Snapshot) -> _Trees:
    forest = snapshot.forest
    rows = np.flatnonzero(forest.kind != 0)
    rows = rows[np.argsort(forest.tree[rows], kind="stable")]
    leaves = Groups.of(forest.tree[rows])
    root_of = np.full(len(forest.tree_kind), -1, dtype=np.int64)
    root_of[forest.tree[forest.roots]] = forest.roots
    tall = forest.roots[forest.kind[forest.roots] == 0]
    facts, cell_of = np.flatnonzero(forest.kind == 2), snapshot.cell_of_turn
    cells = Groups.of(cell_of)
    return _Trees(
        fact_rows=facts,
        fact_items=forest.item[facts],
        cell_rows=cell_of[cells.starts if cells.members is None else cells.members[cells.starts]],
        cells=cells,
        leaf_rows=rows,
        leaf_ids=forest.ids[rows],
        leaves=leaves,
        with_leaves=forest.tree[rows[leaves.starts]],
        root_of=root_of,
        root_vectors=forest.vectors[tall],
    )


def browse(
    snapshot: Snapshot, nearness: Callable[[Sequence[int]], list[float]], root: int, beam: int = BEAM_WIDTH
) -> dict[int, float]:
    """Descend one tree and return the leaves reached with the mean similarity along their paths.

    Args:
        snapshot: of the memory.
        nearness: returns the similarity of nodes to the question; asked level by level.
        root: where to begin.
        beam: nodes kept per level.
    """
    children = snapshot.forest.children
    frontier = [(root, nearness([root])[0], 1)]
    reached: dict[int, float] = {}
    while frontier:
        for node, total, length in frontier:
            if not children[node]:
                reached[node] = total / length
        below = [(child, total, length) for node, total, length in frontier for child in children[node]]
        near = nearness([child for child, _, _ in below]) if below else []
        # rows are in the order of ids
        ranked = sorted(zip(below, near, strict=True), key=lambda step: (-(step[0][1] + step[1]), step[0][0]))
        frontier = [(child, total + own, length + 1) for (child, total, length), own in ranked[:beam]]
    return reached
