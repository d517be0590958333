"""The memforest index's score: base relevance of leaves, then flow along the trees.

1. Base: the lexical, turn and fact legs of every index (`memforest.systems.legs`).
2. Leaf order, scope and time, which any index may take: `memforest.systems.surroundings`.
3. Down the trees (`flow`): an inner node is as relevant as the best leaf below it, and hands that down, level by
   level, in session trees and in participants' trees.

There are no side tables. Which parts also held on human chat, and what each adds: docs/ranking.md and
benchmarks/locomo_recall.py.
"""

from __future__ import annotations

import numpy as np

from memforest.ranking import Levels, Scores
from memforest.search.forest import Forest
from memforest.search.snapshot import Snapshot
from memforest.systems.base import Search
from memforest.systems.legs import Base, LeafScores
from memforest.systems.memforest.layout import session_levels, speaker_levels
from memforest.systems.speak import told_by
from memforest.systems.surroundings import as_said


def flow(values: Scores, levels: Levels, share: float) -> Scores:
    """Return the relevance that leaves receive from their ancestors: a node is as relevant as its best leaf.

    Args:
        values: relevance of the leaves, shape (n,).
        levels: the nodes above the leaves.
        share: weight of the whole family of trees, split evenly over the levels.
    """
    if share == 0 or not len(values):
        return np.zeros(len(values))
    return levels.flow(values) * (share / max(len(levels.groups), 1))


def score_leaves(snapshot: Snapshot, forest: Forest, request: Search, base: Base) -> LeafScores:
    """Return the score of every turn."""
    scores = as_said(snapshot, request, base)
    _down_the_trees(snapshot, forest, request, scores)
    return scores


def _down_the_trees(snapshot: Snapshot, forest: Forest, request: Search, scores: LeafScores) -> None:
    """Let relevance flow down both families of trees; facts stand between turns and the speakers' trees."""
    weights, h = request.ranking, scores.total
    share = weights.session_tree_of_lists if request.plan.kind == "list" else weights.session_tree
    if share:
        scores.add("session_tree", flow(h, session_levels(forest), share))
    told = told_by(snapshot)
    if weights.participant_tree and len(told.turns) and (levels := speaker_levels(forest, told)).groups:
        out = np.zeros(len(h))
        out[told.turns] = told.groups.best(flow(h[told.turn_of], levels, weights.participant_tree))
        scores.add("participant_tree", out)
