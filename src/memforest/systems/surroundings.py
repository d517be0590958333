"""How relevant turns are as they were said: by their own words and vectors, their neighbours, who said them, and when.

1. The legs of every index (`memforest.systems.legs`).
2. Leaf order: relevance flows to a turn from its neighbours in the session, and more of it to a reply.
3. Scope and time: being said by whom the question asks for, nearness to the window of the question, and
   three priors of the turn itself (length, asking, telling a time).

Trees are no part of it. Steps 2 to 7 of docs/ranking.md, which says what each part adds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memforest.ranking import Scores, standardise
from memforest.search.snapshot import Snapshot, once_per_snapshot
from memforest.systems.base import Search
from memforest.systems.legs import Base, LeafScores, fused
from memforest.systems.nearness import nearness
from memforest.types import TURN_ROLES, QuestionPlan

_USER, _ASSISTANT = TURN_ROLES.index("user"), TURN_ROLES.index("assistant")


def as_said(snapshot: Snapshot, request: Search, base: Base) -> LeafScores:
    """Return the score of every turn, as z-scores, with its weighted parts."""
    scores = fused(snapshot, request, base)
    _leaf_order(snapshot, request, scores)
    _scope_and_time(snapshot, request, scores)
    scores.standardise()
    return scores


@once_per_snapshot
def _lengths(snapshot: Snapshot) -> Scores:
    return standardise(np.log1p(snapshot.turns.length.astype(np.float64)))


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
