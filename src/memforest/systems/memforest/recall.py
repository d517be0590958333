"""Forest recall and beam browse: from trees to leaves (paper §4.3).

Recall ranks trees by two signals (Eq. 7): how near the root is to the question, and the best match among
the leaves that the tree holds. Browse descends the recalled trees level by level, keeping the best nodes of
each tree, and ends at leaves, which are scored like any other candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memforest.ranking import Scores, order
from memforest.search.snapshot import Forest, Snapshot
from memforest.systems.memforest.rank import Base

__all__ = ["BEAM_WIDTH", "RECALL_TREES", "Recalled", "browse", "recall", "similarity_of_scenes"]

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
    forest = snapshot.forest
    out = np.zeros(len(forest.ids))
    facts = np.flatnonzero(forest.kind == 2)
    out[facts] = base.fact[forest.item[facts]]
    out[forest.kind == 1] = -1.0
    np.maximum.at(out, snapshot.cell_of_turn, base.turn)
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
    similarity = leaf_similarity(snapshot, base)
    inner = forest.kind == 0
    similarity[forest.inner] = forest.vectors.cosines(vector)
    similarity_of_scenes(snapshot, base.fact, similarity)
    leaf_rows = np.flatnonzero(~inner)
    best_leaf = np.full(len(forest.tree_kind), -1.0)
    np.maximum.at(best_leaf, forest.tree[leaf_rows], similarity[leaf_rows])
    root_sim = np.full(len(forest.tree_kind), -1.0)
    root_sim[forest.tree[forest.roots]] = similarity[forest.roots]
    by_root = order(root_sim, np.arange(len(root_sim)))[:top]
    by_leaf = leaf_rows[order(similarity[leaf_rows], forest.ids[leaf_rows])[:FACTS_TO_TREES]]
    pool = np.unique(np.r_[by_root, forest.tree[by_leaf]])
    pool = pool[~_lone(forest)[pool]]
    scores = root_sim[pool] + best_leaf[pool]
    chosen = [(int(pool[i]), float(scores[i])) for i in order(scores, pool)[:top]]
    root_of = {int(forest.tree[root]): int(root) for root in forest.roots}
    leaves: dict[int, float] = {}
    near = similarity.tolist()  # plain numbers: single look-ups in an array are slow
    for tree, _ in chosen:
        leaves.update(browse(snapshot, near, root_of[tree]))
    return Recalled(tuple(chosen), leaves)


def similarity_of_scenes(snapshot: Snapshot, fact: Scores, similarity: Scores) -> None:
    """Give the nodes of scene trees, in place, the mean similarity of the facts below them: they have no vector."""
    facts, levels = snapshot.scene_blocks
    if not len(levels):
        return
    total, count = np.zeros(len(similarity)), np.zeros(len(similarity))
    for nodes in levels:
        np.add.at(total, nodes, fact[facts])
        np.add.at(count, nodes, 1.0)
    inside = count > 0
    similarity[inside] = total[inside] / count[inside]


def _lone(forest: Forest) -> NDArray[np.bool_]:
    """Return which trees are scenes of a single fact: they have nothing to descend, and say what the fact says."""
    roots = forest.roots[forest.kind[forest.roots] != 0]
    lone = np.zeros(len(forest.tree_kind), dtype=np.bool_)
    lone[forest.tree[roots]] = True
    return lone & forest.of_kind("scene")


def browse(
    snapshot: Snapshot, similarity: Sequence[float], root: int, beam: int = BEAM_WIDTH
) -> dict[int, float]:
    """Descend one tree and return the leaves reached with the mean similarity along their paths."""
    children = snapshot.forest.children
    frontier = [(root, similarity[root], 1)]
    reached: dict[int, float] = {}
    while frontier:
        for node, total, length in frontier:
            if not children[node]:
                reached[node] = total / length
        grown = [
            (child, total + similarity[child], length + 1)
            for node, total, length in frontier
            for child in children[node]
        ]
        grown.sort(key=lambda step: (-similarity[step[0]], step[0]))  # rows are in the order of ids
        frontier = grown[:beam]
    return reached
