"""The memforest index's score: base relevance of leaves, then flow along the trees.

1. Base: the lexical, turn and fact legs of every index (`memforest.systems.legs`).
2. Leaf order: relevance flows to a leaf from its neighbours in the session tree, and more of it to a reply.
3. Scope and time: membership in the named participant's tree, nearness to the window of the question, and
   three priors of the leaf itself (length, asking, telling a time).
4. Down the trees (`flow`): an inner node is as relevant as the best leaf below it, and hands that down, level by
   level, in session trees, in participants' trees and in scene trees. Where `Ranking.propagate` says so, relevance goes along
   their edges instead (`memforest.systems.relevance`).

There are no side tables. Which parts also held on human chat, and what each adds: docs/ranking.md and
benchmarks/locomo_recall.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memforest.ranking import Levels, Scores, standardise
from memforest.search.forest import Forest
from memforest.search.snapshot import Snapshot, once_per_snapshot
from memforest.systems.base import Search
from memforest.systems.legs import Base, LeafScores, fused
from memforest.systems.memforest.layout import scene_leaves, session_levels, speaker_levels
from memforest.systems.memforest.nearness import nearness
from memforest.systems.relevance import best_turns, fused_relevance, node_scores, turn_scores
from memforest.systems.speak import told_by
from memforest.types import TURN_ROLES, QuestionPlan

__all__ = ["flow", "propagates", "score_leaves"]

_USER, _ASSISTANT = TURN_ROLES.index("user"), TURN_ROLES.index("assistant")


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


@once_per_snapshot
def _lengths(snapshot: Snapshot) -> Scores:
    return standardise(np.log1p(snapshot.turns.length.astype(np.float64)))


def score_leaves(snapshot: Snapshot, forest: Forest, request: Search, base: Base) -> LeafScores:
    """Return the score of every turn."""
    scores = fused(snapshot, request, base)
    _leaf_order(snapshot, request, scores)
    _scope_and_time(snapshot, request, scores)
    scores.standardise()
    if propagates(request):
        _along_the_edges(snapshot, forest, request, scores)
    else:
        _down_the_trees(snapshot, forest, request, scores)
    return scores


def propagates(request: Search) -> bool:
    """Return whether relevance goes along the edges of the trees, edge by edge, instead of flowing down them."""
    return request.ranking.propagate not in (None, "none")


def _leaf_order(snapshot: Snapshot, request: Search, scores: LeafScores) -> None:
    weights, beside = request.ranking, _beside(snapshot)
    positive = np.maximum(scores.total, 0.0)
    out = np.zeros(len(positive))
    reply = np.maximum(weights.reply * beside.asked, weights.assistant_reply * beside.helped)
    out[beside.later] += (weights.before + reply) * positive[beside.before]
    out[beside.earlier] += weights.after * positive[beside.after]
    scores.add("leaf_order", out)


class _Beside(NamedTuple):
    """The turns that have a predecessor and those that have a successor in their session, with those neighbours.

    `asked`: the predecessor is another speaker's and asks. `helped`: it is a user's, and the turn an assistant's.
    """

    later: NDArray[np.int64]
    before: NDArray[np.int64]
    asked: NDArray[np.bool_]
    helped: NDArray[np.bool_]
    earlier: NDArray[np.int64]
    after: NDArray[np.int64]


@once_per_snapshot
def _beside(snapshot: Snapshot) -> _Beside:
    turns = snapshot.turns
    later, earlier = np.flatnonzero(turns.previous >= 0), np.flatnonzero(turns.following >= 0)
    before = turns.previous[later]
    asked = turns.asks[before] & (turns.speaker[before] != turns.speaker[later])
    helped = (turns.role[before] == _USER) & (turns.role[later] == _ASSISTANT)
    return _Beside(later, before, asked, helped, earlier, turns.following[earlier])


def _scope_and_time(snapshot: Snapshot, request: Search, scores: LeafScores) -> None:
    turns, weights, plan = snapshot.turns, request.ranking, request.plan
    scores.add("speaker", weights.speaker * _by_speaker(snapshot, plan))
    if plan.start is not None or plan.end is not None:
        scores.add("date", weights.date * nearness(snapshot, plan))
    scores.add("length", weights.length * _lengths(snapshot))
    scores.add("question", -weights.question * turns.asks_last.astype(np.float64))
    if plan.kind in ("when", "since"):
        scores.add("temporal", weights.temporal * turns.dated.astype(np.float64))


def _by_speaker(snapshot: Snapshot, plan: QuestionPlan) -> Scores:
    """Return 1 for the turns of those whose words are asked for, else of the one participant who is asked about."""
    wanted = plan.entities if plan.speakers is None else plan.speakers
    found = [i for i, name in enumerate(snapshot.speakers) if name in wanted]
    if plan.speakers is None and len(found) != 1:
        return np.zeros(len(snapshot.turns.ids))
    return np.isin(snapshot.turns.speaker, found).astype(np.float64)


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
