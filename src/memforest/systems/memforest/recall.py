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

from memforest.ranking import Scores, leading, order, standardise
from memforest.search.forest import EmbeddedForest, Forest
from memforest.search.snapshot import Snapshot
from memforest.systems.legs import Base
from memforest.systems.memforest.layout import scene_leaves, trees_of
from memforest.systems.memforest.settings import DEFAULTS, Leaves, MemForestSettings
from memforest.systems.speak import told_by


@dataclass(frozen=True, slots=True)
class Recalled:
    """The recalled trees with their scores, and the leaves that browse reached with theirs."""

    trees: tuple[tuple[int, float], ...]
    """(tree index, score), best first."""
    leaves: dict[int, float]
    """Forest row of a leaf -> mean similarity of the nodes on its path."""


def leaf_similarity(
    snapshot: Snapshot,
    found: EmbeddedForest,
    base: Base,
    vector: NDArray[np.float32],
    leaves: Leaves = "mixed",
) -> Scores:
    """Return the similarity of every node to the question: leaves by their item, inner nodes 0; shape (N,).

    `leaves` says how cells are compared with facts; see `MemForestSettings.leaves`. If not by facts, a cell that has a
    summary is compared by that.
    """
    forest, trees = found.forest, trees_of(found.forest)
    out = np.zeros(len(forest.ids))
    out[trees.fact_rows] = base.fact[trees.fact_items]
    of_turns = base.turn
    if leaves == "facts":
        of_turns = told_by(snapshot).best(base.fact, np.full(len(base.turn), -1.0))
    cells = trees.cells.best(of_turns)
    if leaves != "facts" and len(forest.summarised):
        own = np.isin(trees.cell_rows, forest.summarised)
        cells[own] = found.cosines_at(trees.cell_rows[own], vector)
    if leaves == "aligned" and len(base.fact):
        cells = standardise(cells) * base.fact.std() + base.fact.mean()
    out[trees.cell_rows] = cells
    return out


def recall(
    snapshot: Snapshot,
    found: EmbeddedForest,
    base: Base,
    vector: NDArray[np.float32] | None,
    settings: MemForestSettings = DEFAULTS,
) -> Recalled:
    """Return the best trees for a question and the leaves that browsing them reaches.

    Without an embedder there is nothing to recall by, and the result is empty.
    """
    chosen, similarity = _recall(snapshot, found, base, vector, settings)
    if vector is None or not chosen:
        return Recalled((), {})
    forest, trees = found.forest, trees_of(found.forest)

    def nearness(nodes: Sequence[int]) -> list[float]:
        """Compare the question with those summaries that browse comes to, and with no others."""
        rows = np.array(nodes, dtype=np.int64)
        compared = rows[trees.embedded[rows]]
        if settings.scene_vectors == "facts":
            compared = compared[~trees.in_scenes[compared]]
        similarity[compared] = found.cosines_at(compared, vector)
        return [float(value) for value in similarity[rows]]

    leaves: dict[int, float] = {}
    for tree, _ in chosen:
        leaves.update(browse(forest, nearness, int(forest.tree_root[tree]), settings.beam_width))
    return Recalled(chosen, leaves)


def recall_trees(
    snapshot: Snapshot,
    found: EmbeddedForest,
    base: Base,
    vector: NDArray[np.float32] | None,
    settings: MemForestSettings = DEFAULTS,
) -> tuple[tuple[int, float], ...]:
    """Return the trees that `recall` returns, without browsing them."""
    return _recall(snapshot, found, base, vector, settings)[0]


def _recall(
    snapshot: Snapshot,
    found: EmbeddedForest,
    base: Base,
    vector: NDArray[np.float32] | None,
    settings: MemForestSettings,
) -> tuple[tuple[tuple[int, float], ...], Scores]:
    """Return the best trees with their scores, and the similarity of leaves, roots and scenes to the question.

    Source: paper §4.3, Eq. 7; `score(q, T)` is the sum of both similarities.
    """
    forest = found.forest
    if vector is None or not len(forest.roots):
        return (), np.zeros(0)
    trees = trees_of(forest)
    similarity = leaf_similarity(snapshot, found, base, vector, settings.leaves)
    best_leaf, root_sim = np.full(len(forest.tree_kind), -1.0), np.full(len(forest.tree_kind), -1.0)
    of_leaves = similarity[trees.leaf_rows]
    best_leaf[trees.with_leaves] = np.maximum(trees.leaves.best(of_leaves), -1.0)
    similarity[found.embedded_roots] = found.root_cosines(vector)
    if settings.scene_vectors == "facts":
        similarity_of_scenes(forest, base.fact, similarity)
    root_sim[forest.tree[trees.roots]] = similarity[trees.roots]
    wanted = np.array([kind in settings.families for kind in forest.tree_kind], dtype=np.bool_)
    top = settings.recall_trees
    by_root = leading(np.where(wanted, root_sim, -np.inf), np.arange(len(root_sim)), top)
    of_wanted = np.where(wanted[forest.tree[trees.leaf_rows]], of_leaves, -np.inf)
    near_leaves = leading(of_wanted, trees.leaf_ids, settings.facts_to_trees)
    pool = np.unique(np.r_[by_root, forest.tree[trees.leaf_rows[near_leaves]]])
    pool = pool[wanted[pool] & ~trees.lone[pool]]
    scores = root_sim[pool] + best_leaf[pool]
    chosen = tuple((int(pool[i]), float(scores[i])) for i in order(scores, pool)[:top])
    return chosen, similarity


def similarity_of_scenes(forest: Forest, fact: Scores, similarity: Scores) -> None:
    """Give the nodes of scene trees, in place, the mean similarity of the facts below them, in the place of a vector."""
    leaves = scene_leaves(forest)
    for nodes, means in leaves.levels.means(fact[leaves.facts]):
        similarity[nodes] = means


def browse(
    forest: Forest,
    nearness: Callable[[Sequence[int]], list[float]],
    root: int,
    beam: int = DEFAULTS.beam_width,
) -> dict[int, float]:
    """Descend one tree and return the leaves reached with the mean similarity along their paths.

    Args:
        forest: the trees.
        nearness: returns the similarity of nodes to the question; asked level by level.
        root: where to begin.
        beam: nodes kept per level.
    """
    children = forest.children
    frontier = [(root, nearness([root])[0], 1)]
    reached: dict[int, float] = {}
    while frontier:
        for node, total, length in frontier:
            if not children[node]:
                reached[node] = total / length
        below = [(child, total, length) for node, total, length in frontier for child in children[node]]
        near = nearness([child for child, _, _ in below]) if below else []
        # rows are in the order of ids
        ranked = sorted(zip(below, near, strict=True), key=lambda step: (-step[1], step[0][0]))
        frontier = [(child, total + own, length + 1) for (child, total, length), own in ranked[:beam]]
    return reached
