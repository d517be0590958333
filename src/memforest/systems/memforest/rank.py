"""The memforest index's score: base relevance of leaves, then flow along the trees.

1. Base: the lexical, turn and fact legs of every index (`memforest.systems.legs`).
2. Leaf order, scope and time, which any index may take: `memforest.systems.surroundings`.
3. Down the trees (`flow`): an inner node is as relevant as the best leaf below it, and hands that down, level by
   level, in session trees, in participants' trees and in scene trees. Where `Ranking.propagate` says so, relevance goes along
   their edges instead (`memforest.systems.relevance`).

There are no side tables. Which parts also held on human chat, and what each adds: docs/ranking.md and
benchmarks/locomo_recall.py.
"""

from __future__ import annotations

import numpy as np

from memforest.ranking import Levels, Scores, standardise
from memforest.search.forest import Forest
from memforest.search.snapshot import Snapshot
from memforest.systems.base import Search
from memforest.systems.legs import Base, LeafScores
from memforest.systems.memforest.layout import scene_leaves, session_levels, speaker_levels
from memforest.systems.relevance import best_turns, fused_relevance, node_scores, turn_scores
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
    if propagates(request):
        _along_the_edges(snapshot, forest, request, scores)
    else:
        _down_the_trees(snapshot, forest, request, scores)
    return scores


def propagates(request: Search) -> bool:
    """Return whether relevance goes along the edges of the trees, edge by edge, instead of flowing down them."""
    return request.ranking.propagate not in (None, "none")


def _along_the_edges(snapshot: Snapshot, forest: Forest, request: Search, scores: LeafScores) -> None:
    """Propagate relevance over all trees, and give each turn the z-score of its best leaf."""
    nodes = node_scores(forest, fused_relevance(forest, scores.total), request.ranking, scorer="fused")
    share = _session_share(request) + request.ranking.participant_tree
    scores.add("propagated", share * standardise(turn_scores(snapshot, forest, nodes.total)))


def _session_share(request: Search) -> float:
    weights = request.ranking
    return weights.session_tree_of_lists if request.plan.kind == "list" else weights.session_tree


def _down_the_trees(snapshot: Snapshot, forest: Forest, request: Search, scores: LeafScores) -> None:
    """Let relevance flow down both families of trees; facts stand between turns and the speakers' trees."""
    weights, h = request.ranking, scores.total
    if share := _session_share(request):
        scores.add("session_tree", flow(h, session_levels(forest), share))
    told = told_by(snapshot)
    if weights.participant_tree and len(told.turns) and (levels := speaker_levels(forest, told)).groups:
        out = np.zeros(len(h))
        out[told.turns] = told.groups.best(flow(h[told.turn_of], levels, weights.participant_tree))
        scores.add("participant_tree", out)
    if weights.scene_tree and len(told.turns):
        scores.add("scene_tree", _from_scenes(snapshot, forest, h, weights.scene_tree))


def _from_scenes(snapshot: Snapshot, forest: Forest, values: Scores, share: float) -> Scores:
    """Return what turns get from the scenes that the facts they support stand in; the best, if several."""
    scenes = scene_leaves(forest)
    best = best_turns(forest, values)
    told = np.full(len(best), -np.inf)
    told[scenes.facts[scenes.places.first]] = scenes.places.best(
        flow(best[scenes.facts], scenes.levels, share)
    )
    out = told_by(snapshot).best(told, np.zeros(len(values)))
    return np.where(np.isfinite(out), out, 0.0)
