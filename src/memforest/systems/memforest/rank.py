"""The memforest index's score: base relevance of leaves, then flow along the trees.

1. Base: lexical, turn and fact relevance, each standardised over the memory and weighted. What the embedder does not
   know of a question and a text, the lexical leg has.
2. Leaf order: relevance flows to a leaf from its neighbours in the session tree, and more of it to a reply.
3. Scope and time: membership in the named participant's tree, nearness to the window of the question, and
   three priors of the leaf itself (length, asking, telling a time).
4. Down the trees: an inner node is as relevant as the best leaf below it, and hands that down, level by
   level, in session trees, in participants' trees and in scene trees.

All of it is one operator, `flow`, over node memberships; there are no side tables. Which parts also held
on human chat, and what each adds: docs/ranking.md and benchmarks/locomo_recall.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memforest.ranking import Levels, Scores, standardise
from memforest.search.forest import Forest
from memforest.search.snapshot import Snapshot, once_per_snapshot
from memforest.systems.base import Search
from memforest.systems.memforest.layout import scene_leaves, session_levels, speaker_levels
from memforest.systems.memforest.nearness import nearness
from memforest.systems.speak import known_words, told_by
from memforest.types import TURN_ROLES, QuestionPlan

__all__ = ["Base", "LeafScores", "base_scores", "flow", "score_leaves"]

_USER, _ASSISTANT = TURN_ROLES.index("user"), TURN_ROLES.index("assistant")


@dataclass(frozen=True, slots=True)
class Base:
    """Raw relevance: BM25 per turn, cosines per turn and per fact (zeros without an embedder)."""

    lexical: Scores
    turn: Scores
    turn_bare: Scores
    fact: Scores
    fact_lexical: Scores


@dataclass(slots=True)
class LeafScores:
    """The score of every turn and its weighted parts, each of shape (n,)."""

    total: Scores
    parts: dict[str, Scores] = field(default_factory=dict)

    def add(self, name: str, values: Scores) -> None:
        """Add a part, unless it is all zero."""
        if values.any():
            self.parts[name] = self.parts[name] + values if name in self.parts else values
            self.total = self.total + values

    def standardise(self) -> None:
        """Turn the total into z-scores, and the parts with it; what an average turn has is a part of its own."""
        before, spread = self.total, float(self.total.std())
        self.total = standardise(before)
        # Of a total without differences nothing is left, and its parts cancel out.
        scale = spread if self.total.any() else 1.0
        self.parts = {name: part / scale for name, part in self.parts.items()}
        self.parts["mean"] = np.full(len(before), -float(before.mean()) / scale)


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


def base_scores(snapshot: Snapshot, request: Search, lexical: Scores, fact_lexical: Scores) -> Base:
    """Return the raw relevance of turns and facts."""
    turns, facts = snapshot.turns, snapshot.facts
    if request.vector is None or snapshot.dimension == 0:
        n, m = np.zeros(len(turns.ids)), np.zeros(len(facts.ids))
        return Base(lexical, n, n, m, fact_lexical)
    bare = request.vector if request.bare_vector is None else request.bare_vector
    turn, turn_bare = turns.vectors.cosines_of_two(request.vector, bare)
    return Base(
        lexical=lexical,
        turn=turn,
        turn_bare=turn_bare,
        fact=facts.vectors.cosines(bare),
        fact_lexical=fact_lexical,
    )


def score_leaves(snapshot: Snapshot, forest: Forest, request: Search, base: Base) -> LeafScores:
    """Return the score of every turn."""
    weights, turns = request.ranking, snapshot.turns
    scores = LeafScores(np.zeros(len(turns.ids)))
    unknown = 1.0 - known_words(snapshot, request)
    scores.add(
        "lexical", (weights.lexical + (weights.turn + weights.fact) * unknown) * standardise(base.lexical)
    )
    scores.add("turn", weights.turn * (1.0 - unknown) * standardise(base.turn))
    scores.add("fact", weights.fact * (1.0 - unknown) * standardise(_best_fact(snapshot, base)))
    _leaf_order(snapshot, request, scores)
    _scope_and_time(snapshot, request, scores)
    scores.standardise()
    _down_the_trees(snapshot, forest, request, scores)
    return scores


def _best_fact(snapshot: Snapshot, base: Base) -> Scores:
    """Return, per turn, the best cosine of itself and the facts it supports."""
    told = told_by(snapshot).best(base.fact, np.full(len(base.turn_bare), -np.inf))
    return np.maximum(base.turn_bare, told)


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
    if weights.scene_tree and len(told.turns):
        scores.add("scene_tree", _from_scenes(snapshot, forest, h, weights.scene_tree))


def _from_scenes(snapshot: Snapshot, forest: Forest, values: Scores, share: float) -> Scores:
    """Return what turns get from the scenes that the facts they support stand in; the best, if several."""
    scenes = scene_leaves(forest)
    pairs, best = snapshot.facts.pairs, np.full(len(snapshot.facts.ids), -np.inf)
    best[pairs[scenes.supports.first, 0]] = scenes.supports.best(values[pairs[:, 1]])
    told = np.full(len(best), -np.inf)
    told[scenes.facts[scenes.places.first]] = scenes.places.best(
        flow(best[scenes.facts], scenes.levels, share)
    )
    out = told_by(snapshot).best(told, np.zeros(len(values)))
    return np.where(np.isfinite(out), out, 0.0)
