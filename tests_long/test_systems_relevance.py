"""Relevance of the nodes of a forest, and what propagation makes of it, against walks over nodes one by one."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.hand_made import OFF, Said, hand_made, planted, searching
from tests_long.small_worlds import AXES, FEW, World, worlds

from memforest.config import Ranking
from memforest.records import QuestionPlan
from memforest.search import context_scores
from memforest.search.context_scores import (
    LeafScores,
    base_scores,
    best_turns,
    cosine_relevance,
    fused,
    fused_relevance,
)
from memforest.search.scores import Scores, standardise
from memforest.trees.memforest_recall import score_leaves

seeds = st.integers(0, 99)


def rows(it: World) -> range:
    """Return the rows of all nodes."""
    return range(len(it.forest.ids))


def of_turns(it: World, seed: int) -> Scores:
    """Return a standardised score of every turn."""
    return standardise(np.random.default_rng(seed).normal(size=len(it.turns)))


def along(it: World, axis: int) -> Scores:
    """Return the paper's relevance to a question along an axis: the coordinate of each node's vector, none below 0 here."""
    turns, facts = it.snapshot.turns.vectors, it.snapshot.facts.vectors
    return cosine_relevance(
        planted(it.snapshot), AXES[axis], turns.cosines(AXES[axis]), facts.cosines(AXES[axis])
    )


@FEW
@given(worlds)
def test_a_node_is_as_relevant_as_its_vector_is_near(it: World) -> None:
    """An inner node by its summary's, a fact by its own, a run of turns by the mean of theirs; without one, nothing."""
    found, vectors = planted(it.snapshot), it.snapshot.turns.vectors.rows
    for node, value in enumerate(along(it, 0)):
        if it.children(node):
            mean = found.vectors.rows[it.forest.told.tolist().index(node)]
        elif it.is_fact(node):
            mean = it.snapshot.facts.vectors.rows[it.forest.item[node]]
        else:
            mean = vectors[it.said_at(node)].mean(axis=0)
        length = float(np.linalg.norm(mean))
        assert value == pytest.approx(max(0.0, float(mean[0]) / length) if length else 0.0, abs=1e-6)


@FEW
@given(worlds)
def test_lengths_of_leaves_do_not_depend_on_the_blocks_they_are_summed_in(it: World) -> None:
    """To the last bit, whether turn by turn or all together."""
    whole = context_scores._lengths(it.forest)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(context_scores, "_BLOCK", 1)
        assert context_scores._lengths.__wrapped__(it.forest).tolist() == whole.tolist()  # type: ignore[attr-defined]


@FEW
@given(worlds, seeds)
def test_fused_relevance_is_that_of_turns_and_their_means(it: World, seed: int) -> None:
    """A leaf has its best turn's, a node the mean of its leaves', and what is below the average counts as nothing."""
    turn = of_turns(it, seed)
    leaf = {
        node: max(0.0, max(turn[one] for one in it.said_at(node)))
        for node in rows(it)
        if not it.children(node)
    }
    wanted = [float(np.mean([leaf[below] for below in it.leaves(node)])) for node in rows(it)]
    assert fused_relevance(it.forest, turn).tolist() == pytest.approx(wanted)
    facts = [max(turn[one] for one in fact.turns) for fact in it.facts]
    assert best_turns(it.forest, turn).tolist() == facts


def test_a_memory_without_trees_has_no_nodes() -> None:
    """No node, no vector of a summary, and no leaf: nothing is scored, and nothing fails."""
    snapshot = hand_made([Said("Ana", 1)])
    found = planted(snapshot)
    assert cosine_relevance(found, AXES[0], np.ones(1), np.zeros(0)).shape == (0,)
    assert fused_relevance(found.forest, np.ones(1)).shape == (0,)


def scored(it: World, seed: int, plan: QuestionPlan | None = None, **weights: Any) -> LeafScores:
    """Score the turns by words, and by what else has a weight."""
    request = searching(plan, ranking=Ranking(**{**OFF, "lexical": 1.0, **weights}))
    base = base_scores(it.snapshot, request, of_turns(it, seed), np.zeros(len(it.facts)))
    return score_leaves(it.snapshot, it.forest, request, base)


@FEW
@given(worlds, seeds)
def test_legs_are_the_weighted_standardised_signals(it: World, seed: int) -> None:
    """Words, the turn itself and the best of it and its facts; what the embedder does not know goes to the words."""
    turns = replace(it.snapshot.turns, known=np.full(len(it.turns), 0.5, dtype=np.float32))
    snapshot = replace(it.snapshot, turns=turns)
    request = searching(ranking=Ranking(lexical=0.2, turn=0.3, fact=0.5))
    words = of_turns(it, seed)
    base = base_scores(snapshot, request, words, np.zeros(len(it.facts)))
    near = turns.vectors.cosines(AXES[0])
    told = snapshot.facts.vectors.cosines(AXES[0])
    best = [max([near[row], *(told[fact] for fact in it.supports(row))]) for row in range(len(near))]
    half = 1.0 - request.known * 0.5
    found = fused(snapshot, request, base)
    wanted = (0.2 + 0.8 * half) * standardise(words)
    wanted = wanted + (1 - half) * (0.3 * standardise(near) + 0.5 * standardise(np.array(best)))
    assert found.total == pytest.approx(wanted)
    assert sum(found.parts.values()) == pytest.approx(found.total)
