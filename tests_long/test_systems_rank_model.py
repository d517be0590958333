"""The parts of the memforest index's score, against sums over turns, facts and trees, on random small memories."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from math import exp, floor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.hand_made import OFF, WEIGHTS, planted, searching
from tests_long.small_worlds import FEW, World, chains, worlds

from memforest.config import Ranking
from memforest.records import QuestionPlan
from memforest.search.context_scores import LeafScores, base_scores
from memforest.search.filters import Search
from memforest.search.scores import Scores
from memforest.trees.memforest_recall import score_leaves

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
seeds = st.integers(0, 99)


def z(values: Sequence[float] | Scores) -> Scores:
    """Return z-scores; zeros where nothing differs."""
    found = np.array(values, dtype=np.float64)
    return (found - found.mean()) / found.std() if len(found) and found.std() > 1e-9 else found * 0


def scored(it: World, words: Scores, plan: QuestionPlan | None = None, **weights: float) -> LeafScores:
    """Score the turns with the lexical leg and the weights that are named, all others off."""
    request: Search = replace(searching(plan), ranking=Ranking(**{**OFF, "lexical": 1.0, **weights}))
    base = base_scores(it.snapshot, request, words, np.zeros(len(it.facts)))
    return score_leaves(it.snapshot, planted(it.snapshot).forest, request, base)


def relevance(it: World, seed: int) -> Scores:
    """Return some lexical relevance of the turns."""
    return np.random.default_rng(seed).uniform(0, 9, len(it.turns))


def handed_down(values: Sequence[float], levels: Sequence[Sequence[int]], share: float) -> Scores:
    """Return what leaves get from the nodes above them, level by level; -1 is no node, and worth nothing."""
    out = np.zeros(len(values))
    for nodes in levels:
        best = {node: max(v for v, at in zip(values, nodes, strict=True) if at == node) for node in nodes}
        out += z([0.0 if node < 0 else best[node] for node in nodes])
    return out * share / max(len(levels), 1)


@FEW
@given(worlds, seeds, st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_neighbours_hand_on_what_is_above_the_average(
    it: World, seed: int, before: float, after: float, reply: float
) -> None:
    """Each turn gets a share of the one before and of the one behind it in its session, of nothing below 0.

    More of the one before, if that asks and somebody else answers.
    """
    lexical = relevance(it, seed)
    worth = np.maximum(z(lexical), 0.0)
    wanted = z(lexical)
    for row in range(1, len(it.turns)):
        one, other = it.turns[row - 1], it.turns[row]
        if one.session == other.session:
            answers = one.asks and one.speaker != other.speaker
            wanted[row] += (before + reply * answers) * worth[row - 1]
            wanted[row - 1] += after * worth[row]
    found = scored(it, lexical, before=before, after=after, reply=reply)
    assert found.total == pytest.approx(z(wanted), abs=1e-9)


@FEW
@given(worlds, seeds)
def test_parts_sum_to_the_total(it: World, seed: int) -> None:
    """Whatever is on, and with the mean that was taken off as a part of its own."""
    plan = QuestionPlan(kind="when", entities=("Ana",), start=EPOCH + timedelta(days=3))
    weights = {name: 0.1 + 0.07 * i for i, name in enumerate(WEIGHTS)}
    found = scored(it, relevance(it, seed), plan, **weights)
    assert sum(found.parts.values()) == pytest.approx(found.total, abs=1e-9)
    assert all(part.any() for name, part in found.parts.items() if name != "mean")
    assert len(found.total) == len(it.turns)


@FEW
@given(worlds, seeds)
def test_relevance_flows_down_session_trees(it: World, seed: int) -> None:
    """Each turn gets from the nodes above the leaf that holds it; of a list, with that question's own share."""
    lexical = relevance(it, seed)
    leaf_of = {turn: leaf for leaf in it.of_kind("session") for turn in it.said_at(leaf)}
    levels = chains(it, [leaf_of[turn] for turn in range(len(it.turns))])
    wanted = handed_down(z(lexical).tolist(), levels, 0.8)
    found = scored(it, lexical, session_tree=0.8, session_tree_of_lists=0.4)
    assert found.total - z(lexical) == pytest.approx(wanted, abs=1e-9)
    of_lists = scored(it, lexical, QuestionPlan(kind="list"), session_tree=0.8, session_tree_of_lists=0.4)
    assert of_lists.total - z(lexical) == pytest.approx(wanted / 2, abs=1e-9)


@FEW
@given(worlds, seeds)
def test_relevance_flows_down_the_trees_of_those_who_spoke(it: World, seed: int) -> None:
    """A turn gets the best of what its facts get, each as a leaf in the tree of whoever said it; without facts, nothing."""
    lexical = relevance(it, seed)
    pairs = [(turn, fact) for turn in range(len(it.turns)) for fact in it.supports(turn)]
    own = {
        int(it.forest.item[leaf]): leaf
        for leaf in it.of_kind("entity")
        if it.forest.tree_scope[it.forest.tree[leaf]] == it.facts[int(it.forest.item[leaf])].speaker
    }
    above = chains(it, list(own.values()))
    levels = [[dict(zip(own, nodes, strict=True)).get(fact, -1) for _, fact in pairs] for nodes in above]
    flows = handed_down([z(lexical)[turn] for turn, _ in pairs], levels if own else [], 0.6)
    wanted = [
        max((f for f, (turn, _) in zip(flows, pairs, strict=True) if turn == row), default=0.0)
        for row in range(len(it.turns))
    ]
    found = scored(it, lexical, participant_tree=0.6)
    assert found.total - z(lexical) == pytest.approx(wanted, abs=1e-9)


@FEW
@given(worlds, st.integers(-2, 12), st.integers(0, 5), st.sampled_from(["both", "start", "end"]))
def test_nearness_to_the_window_that_is_asked_about(it: World, day: int, length: int, ends: str) -> None:
    """1 inside; outside it falls to 1/e in half the window's length, by whole days; each statement counts by its time."""
    start = None if ends == "end" else day
    end = None if ends == "start" else day + length
    falls = max(length, 1) / 2 if ends == "both" else 14.0

    def near(since: float, until: float) -> float:
        at, share = (since + until) / 2, 1.0
        if ends == "both":
            share = min(1.0, max(length, 1) / max(until - since, 1))
        if (start is None or at >= start) and (end is None or at < end):
            return share
        away = at - end if end is not None and at >= end else float(start or 0) - at
        return share * exp(-(floor(away) + 0.5) / falls)

    wanted = []
    for row, turn in enumerate(it.turns):
        told = [it.facts[fact] for fact in it.supports(row)]
        times = [(one.start, one.end or one.start) for one in told if one.start is not None]
        undated = not told or any(one.start is None for one in told)
        wanted.append(max(near(*time) for time in [*times, *[(turn.day, turn.day)] * undated]))
    plan = QuestionPlan(
        start=None if start is None else EPOCH + timedelta(days=start),
        end=None if end is None else EPOCH + timedelta(days=end),
    )
    found = scored(it, np.zeros(len(it.turns)), plan, date=0.7)
    assert found.total == pytest.approx(z(wanted), abs=1e-6)
    assert not scored(it, np.zeros(len(it.turns)), date=0.7).total.any()


@FEW
@given(worlds, st.lists(st.sampled_from(["Ana", "Bob", "Cy", "Zoe"]), unique=True, max_size=3))
def test_who_is_named_alone_leads(it: World, named: list[str]) -> None:
    """Turns of the one speaker whom a question names; of two, of none, or of somebody who did not speak, no part."""
    speakers = [turn.speaker for turn in it.turns]
    known = [name for name in named if name in speakers]
    wanted = [float(len(known) == 1 and speaker == known[0]) for speaker in speakers]
    found = scored(it, np.zeros(len(it.turns)), QuestionPlan(entities=tuple(named)), speaker=0.4)
    assert found.total == pytest.approx(z(wanted), abs=1e-9)


@FEW
@given(worlds, st.sampled_from(["when", "since", "simple", "list"]))
def test_a_told_time_counts_where_a_time_is_asked_for(it: World, kind: str) -> None:
    """Turns that tell of a dated fact, in questions of when and since."""
    told = [any(it.facts[f].start is not None for f in it.supports(row)) for row in range(len(it.turns))]
    found = scored(it, np.zeros(len(it.turns)), QuestionPlan(kind=kind), temporal=0.4)  # type: ignore[arg-type]
    assert found.total == pytest.approx(z(told) if kind in ("when", "since") else z(told) * 0, abs=1e-9)


@FEW
@given(worlds)
def test_priors_of_what_a_turn_is(it: World) -> None:
    """Long turns count for more, by the logarithm of their words; those that end in a question for less."""
    none = np.zeros(len(it.turns))
    long = z(np.log1p([turn.words for turn in it.turns]))
    assert scored(it, none, length=0.3).total == pytest.approx(long, abs=1e-6)
    asks = [-float(turn.asks_last) for turn in it.turns]
    assert scored(it, none, question=0.3).total == pytest.approx(z(asks), abs=1e-9)
    both = z(0.3 * long + 0.2 * np.array(asks))
    assert scored(it, none, length=0.3, question=0.2).total == pytest.approx(both, abs=1e-6)
